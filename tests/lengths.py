"""How many words of a page a reader meets: captions included, without tables, charts, claims and code; folded words count half.

`python -m tests.lengths [PAGE ...]` prints them for the pages of the last build.
"""

import re
import sys
from pathlib import Path

import nbformat
from bs4 import BeautifulSoup
from bs4.element import Tag

from classwise.book import scale_switch
from classwise.core.paths import build_folder

_FOLDED = {"hide-cell", "hide-output", "provenance"}
_NO_PROSE = "script, style, svg, table, template, form, button, select, label, .scale-mark, .ledger, .leaderboard"


def words(text: str, folded: float = 0.5) -> float:
    """Return the words of a text in Markdown or HTML; folded: the weight of folded ones."""
    text = re.sub(r"(?s)```.*?```|\$[^$]*\$|(?m:^ *\|[^\n]*\| *$)", " ", text)
    soup = BeautifulSoup(re.sub(r"\]\([^)]*\)", "]", text), "html.parser")
    for tag in soup.select(_NO_PROSE):
        tag.decompose()
    inside = sum(_count(tag) - _count(tag.find("summary")) for tag in soup.select("details"))
    return _count(soup) - (1 - folded) * inside


def _count(tag: Tag | None) -> int:
    return len(re.findall(r"[^\W_][^\s—–]*", tag.get_text(" "))) if tag else 0


def of_page(page: Path, folded: float = 0.5) -> dict[str, float]:
    """Return the words of a page by the scale that is shown; folded: as in `words`."""
    cells = nbformat.read(page, as_version=4).cells
    parts: dict[str, float] = {}
    for cell in cells:
        weight = folded if _FOLDED & set(cell.metadata.get("tags", [])) else 1
        outputs = scale_switch.split_by_scale(cell.outputs) if cell.cell_type == "code" else {}
        if cell.cell_type == "markdown":
            parts[""] = parts.get("", 0) + words(cell.source, folded)
        for scale, some in outputs.items():
            texts = (one.get("data", {}) for one in some)
            number = sum(words(data.get("text/markdown", data.get("text/html", "")), folded) for data in texts)
            parts[scale] = parts.get(scale, 0) + weight * number
    shared = parts.pop("", 0)
    return {scale: shared + number for scale, number in (parts or {"": 0}).items()}


if __name__ == "__main__":
    folder = build_folder() / "pages"
    for name in sys.argv[1:] or sorted(str(path.relative_to(folder))[:-6] for path in folder.rglob("*.ipynb")):
        counts = of_page(folder / f"{name}.ipynb")
        print(f"{name:50}", *(f"{scale} {number:.0f}" for scale, number in counts.items()))
