"""What Sphinx adds to a page: numbered figures with anchors, and the description that search engines show.

Named among the extensions of book/_config.yml.
"""

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

# The most letters of a description.
_LONGEST = 200


class Figures(SphinxTransform):
    """Make the outputs of a cell that `pages.to_sphinx` numbered a figure, whose caption is the last output."""

    default_priority = 840  # before the domain of labels reads the document

    def apply(self, **kwargs: Any) -> None:
        up = "../" * self.env.docname.count("/")
        for output, figure in _figures(self.document):
            caption = next(output.children[-1].findall(nodes.paragraph), nodes.paragraph())
            name = nodes.fully_normalize_name(figure["name"])
            node = nodes.figure("", *output.children[:-1], names=[name], classes=["chart"])
            self.document.note_explicit_target(node, node)
            number = nodes.reference("", f"Figure {figure['number']}", refuri=f"#{node['ids'][0]}", classes=["figure-number"])
            words = {path: escape(f"{title}, CSV" if title else "CSV") for title, path in figure.get("data", {}).items()}
            links = " · ".join(f'<a href="{up}{escape(path)}" download>{word}</a>' for path, word in words.items())
            data = nodes.raw("", f' <span class="figure-data">Data: {links}</span>' if links else "", format="html")
            node += nodes.caption("", "", number, nodes.Text(". "), *caption.children, data)
            output.children = []
            output += node


def title_figures(app: Sphinx, document: nodes.document) -> None:
    """Let a reference to a figure, `[](#fig-name)`, read "Figure 4.1-2"."""
    labels = app.env.get_domain("std").data["labels"]
    for output, figure in _figures(document):
        place = app.env.docname, output.children[0]["ids"][0]
        labels[nodes.fully_normalize_name(figure["name"])] = (*place, f"Figure {figure['number']}")


def _figures(document: nodes.document) -> Iterator[tuple[nodes.Element, dict[str, Any]]]:
    for cell in list(document.findall(nodes.container)):
        figure = cell.get("cell_metadata", {}).get("figure") if cell.get("nb_element") == "cell_code" else None
        outputs = (output for output in cell.children if output.get("nb_element") == "cell_code_output")
        yield from ((output, figure) for output in outputs if figure)


def describe(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Add to a page its description, its first sentences, and leave out MathJax where it has no formula."""
    formulas = [*doctree.findall(nodes.math), *doctree.findall(nodes.math_block)] if doctree is not None else []
    # Sphinx loads it on the home page, too, because of the formulas of the pages below.
    if not formulas:
        context["script_files"] = [one for one in context["script_files"] if "mathjax" not in str(one.filename)]
    paragraphs = doctree.findall(nodes.paragraph) if doctree is not None else ()
    texts = (" ".join(paragraph.astext().split()) for paragraph in paragraphs)
    if first := next((text for text in texts if len(text) > 40), ""):
        words = first if len(first) <= _LONGEST else first[:_LONGEST].rpartition(" ")[0] + " …"
        context["metatags"] = f'{context.get("metatags", "")}\n<meta name="description" content="{escape(words)}" />'


def write_texts(app: Sphinx, error: Exception | None) -> None:
    """Write the words of all pages for the search (search.js), since a page that is opened from a file cannot fetch others."""
    trees = {} if error else {page: app.env.get_doctree(page) for page in sorted(app.env.found_docs)}
    texts = {page: " ".join(one.astext() for one in tree.findall(nodes.paragraph)) for page, tree in trees.items()}
    (app.outdir / "_static" / "texts.js").write_text(f"window.TEXTS = {json.dumps(texts)};\n")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_transform(Figures)
    app.connect("doctree-read", title_figures)
    app.connect("html-page-context", describe)
    app.connect("build-finished", write_texts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
