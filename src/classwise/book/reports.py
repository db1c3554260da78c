"""A reproducibility report on each paper: its words stand in the folder of the paper, its numbers are computed."""

from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from classwise.book import merging
from classwise.charts.tables import folded
from classwise.core.markup import counted
from classwise.papers import ledger, registry
from classwise.papers.claims import VERDICTS, Verdict
from classwise.papers.scales import place
from classwise.papers.sections import Paper

if TYPE_CHECKING:
    from nbformat import NotebookNode

_HEAD = """# The four papers

{finding}

One reproducibility report for each paper: its scope, what was reproduced, what was not, what was easy and what was difficult, and
the misprints. A claim *holds* or *fails* if the measure lies significantly inside or outside the range of the claim; else it is
*open*. {doc}`claims` describes the test.
"""
# The parts of a report, in their order.
_PARTS = (
    *("Scope", "What was reproduced", "What was not reproduced", "What was easy", "What was difficult"),
    *("Misprints", "Pages and data"),
)


def files() -> list[Path]:
    """Return the words of the reports, of the papers that have any."""
    return [path for paper in registry.PAPERS.values() if (path := words_file(paper.name)).exists()]


def words_file(paper: str) -> Path:
    """Return where the words of a report stand: sections named as its parts, with a placeholder for what is computed."""
    module = import_module(f"classwise.papers.{paper}")
    return Path(str(module.__file__)).with_name("report.md")


def cells(verdicts: Sequence[Verdict]) -> list["NotebookNode"]:
    """Return the cells of the page with the blocks of all papers."""
    import nbformat

    texts = [
        _HEAD.replace("{finding}", ledger.opening(verdicts)),
        *(block(paper, verdicts) for paper in registry.PAPERS.values()),
    ]
    return [nbformat.v4.new_markdown_cell(text) for text in texts]


def block(paper: Paper, verdicts: Sequence[Verdict]) -> str:
    """Return the report on a paper in Markdown."""
    of_paper = [verdict for verdict in verdicts if verdict.claim.paper == paper.name]
    words = _words(words_file(paper.name))
    computed = {
        "What was reproduced": reproduced(of_paper),
        "What was not reproduced": not_reproduced(of_paper),
        "Misprints": misprints(paper),
        "Pages and data": pages(paper),
    }
    title = (import_module(f"classwise.papers.{paper.name}").__doc__ or paper.title).strip()
    lines = [f"({paper.name})=\n## {paper.title}", f"{title} {{cite:p}}`{paper.name}`"]
    if not paper.pages:
        lines.append("Its pages are not written yet: none of its claims was tested.")
    for part in _PARTS:
        parts = [text for text in (words.get(part, ""), computed.get(part, "")) if text]
        if parts and (words or part in ("Misprints", "Pages and data")):
            lines += [f"### {part}", *parts]
    return "\n\n".join(lines)


def _words(path: Path) -> dict[str, str]:
    """Return the words of each part of a report; none without a file."""
    if not path.exists():
        return {}
    parts = path.read_text(encoding="utf-8").split("\n# ")[1:]
    return {head: text.strip() for head, _, text in (part.partition("\n") for part in parts)}


def link(number: int, folder: str = "", **chosen: str) -> str:
    """Return a number that links to the page of the claims with its filters set: paper, scale and verdict."""
    if not number:
        return "0"
    words = f"{counted(number, 'claim')}: {', '.join(chosen.values())}"
    return f'<a href="{folder}{ledger.address(None, **chosen)}" aria-label="{words}">{number}</a>'


def scales_of(verdicts: Sequence[Verdict]) -> list[str]:
    """Return the scales of verdicts, those recorded elsewhere first."""
    return sorted(dict.fromkeys(verdict.scale for verdict in verdicts), key=place)


def reproduced(verdicts: Sequence[Verdict]) -> str:
    """Return how many claims hold at each scale, of those tested, with a link to them."""
    lines = []
    for scale in scales_of(verdicts):
        number = Counter(verdict.verdict for verdict in verdicts if verdict.scale == scale)
        paper = verdicts[0].claim.paper
        numbers = {name: link(number[name], paper=paper, scale=scale, verdict=name) for name in VERDICTS}
        tested = number.total() - number["not tested"]
        lines.append(
            f"- **{merging.title_of(scale)}**: of {counted(tested, 'claim')} that were tested, {numbers['holds']} hold, "
            f"{numbers['fails']} fail and {numbers['open']} are open; not tested: {numbers['not tested']}."
        )
    return "\n".join(lines)


def not_reproduced(verdicts: Sequence[Verdict]) -> str:
    """Return the claims that fail, and why others were not tested."""
    failed = [verdict for verdict in verdicts if verdict.verdict == "fails"]
    lines = [f"- {v.claim.where}: {v.claim.statement} *{v.words[0].upper()}{v.words[1:]}.*" for v in failed]
    lines = lines if lines or not verdicts else ["- None of the claims that were tested."]
    untested = [verdict for verdict in verdicts if verdict.verdict == "not tested"]
    table = folded(f"Claims that were not tested ({len(untested)}), and why", ledger.not_tested(untested)) if untested else ""
    return "\n\n".join(part for part in ("\n".join(lines), table) if part)


def misprints(paper: Paper) -> str:
    """Return what the paper misprints or leaves unclear, folded."""
    if paper.tables is None:
        return ""
    notes = paper.tables.misprints()
    title = f"Misprints and ambiguities ({len(notes)}), and how they are read here"
    return folded(title, ledger.notes(notes)) if len(notes) else "None was noted."


def pages(paper: Paper) -> str:
    """Return links to the pages of a paper, to its claims and to its printed tables."""
    lines = [f"- {{doc}}`{name}`" for name in paper.pages]
    if paper.claims:
        number = counted(len(paper.claims), "claim")
        lines.append(f'- <a href="{ledger.address(paper=paper.name)}">its {number} with verdicts</a>')
    if paper.tables is not None:
        href = f"tables/{paper.name}.csv"
        number = counted(len(paper.tables.rows()), "number")
        lines.append(f'- <a href="{href}" download>its printed tables, {number} (CSV)</a>')
    return "\n".join(lines)
