"""What Sphinx adds to a page: numbered figures with anchors, and the description that search engines show.

Named among the extensions of book/_config.yml.
"""

from collections.abc import Iterator
from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

# The most letters of a description.
_LONGEST = 200


class Figures(SphinxTransform):
    """Make the outputs of a cell that `pages.prepare` numbered a figure, whose caption is the last output."""

    default_priority = 840  # before the domain of labels reads the document

    def apply(self, **kwargs: Any) -> None:
        for output, figure in _figures(self.document):
            caption = _paragraph(output.children[-1])
            name = nodes.fully_normalize_name(figure["name"])
            node = nodes.figure("", *output.children[:-1], names=[name], classes=["chart"])
            self.document.note_explicit_target(node, node)
            number = nodes.reference("", f"Figure {figure['number']}", refuri=f"#{node['ids'][0]}", classes=["figure-number"])
            links = _data_links(figure.get("data", {}), self.env.docname)
            node += nodes.caption("", "", number, nodes.Text(". "), *caption.children, *links)
            output.children = []
            output += node


class FigureTitles(SphinxTransform):
    """Let a reference to a figure, `[](#fig-name)`, read "Figure 4.1-2"."""

    default_priority = 860  # after the domain of labels read the document

    def apply(self, **kwargs: Any) -> None:
        labels = self.env.get_domain("std").data["labels"]
        for output, figure in _figures(self.document):
            name = nodes.fully_normalize_name(figure["name"])
            identifier = output.children[0]["ids"][0]
            labels[name] = (self.env.docname, identifier, f"Figure {figure['number']}")


def _figures(document: nodes.document) -> Iterator[tuple[nodes.Element, dict[str, Any]]]:
    """Yield the outputs of numbered cells, with the metadata of the figure."""
    for cell in list(document.findall(nodes.container)):
        figure = cell.get("cell_metadata", {}).get("figure") if cell.get("nb_element") == "cell_code" else None
        if not figure:
            continue
        for output in cell.children:
            if output.get("nb_element") == "cell_code_output":
                yield output, dict(figure)


def _data_links(files: dict[str, str], page: str) -> list[nodes.Node]:
    """Return links from a page to the data of a figure: "Data: CSV", or with the names of several datasets."""
    up = "../" * page.count("/")
    words = {path: f"{title}, CSV" if title else "CSV" for title, path in files.items()}
    links = [f'<a href="{up}{escape(path)}" download>{escape(word)}</a>' for path, word in words.items()]
    html = f' <span class="figure-data">Data: {" · ".join(links)}</span>'
    return [nodes.raw("", html, format="html")] if links else []


def _paragraph(output: nodes.Element) -> nodes.Element:
    """Return the first paragraph of an output of Markdown."""
    return next(output.findall(nodes.paragraph), nodes.paragraph())


def describe(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Add to a page its description, its first sentences, and leave out MathJax where it has no formula."""
    formulas = [*doctree.findall(nodes.math), *doctree.findall(nodes.math_block)] if doctree is not None else []
    # Sphinx loads it on the home page, too, because of the formulas of the pages below.
    if not formulas:
        context["script_files"] = [one for one in context["script_files"] if "mathjax" not in str(one.filename)]
    texts = map(_plain, doctree.findall(nodes.paragraph)) if doctree is not None else ()
    if first := next((text for text in texts if len(text) > 40), ""):
        words = first if len(first) <= _LONGEST else first[:_LONGEST].rpartition(" ")[0] + " …"
        context["metatags"] = f'{context.get("metatags", "")}\n<meta name="description" content="{escape(words)}" />'


def _plain(node: nodes.Element) -> str:
    return " ".join(node.astext().split())


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_transform(Figures)
    app.add_transform(FigureTitles)
    app.connect("html-page-context", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
