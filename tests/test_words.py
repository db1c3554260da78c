"""Plain English: five words that were chosen for sound stay out of code, command line, pages and notebooks."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXTS = [*sorted((ROOT / "src").rglob("*.py")), *sorted((ROOT / "book").rglob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md"]
NOTEBOOKS = sorted((ROOT / "notebooks").rglob("*.ipynb"))
# What to write instead of each; also within names of code, between underscores.
BANNED = {
    "luck|lucky": "seed, chance",
    "foretells?|foretold": "forecasts, estimates",
    "reckon(?:s|ed|ing)?": "estimate",
    "mends?|mended": "repair",
    "whence|thereby|lest|hitherto|thereof|wherein": "(plain English)",
}


def banned(text: str) -> list[str]:
    """Return the banned words of a text, each with what to write instead."""
    found = ((word, better) for bad, better in BANNED.items() for word in re.findall(rf"(?i)(?<![a-z])(?:{bad})(?![a-z])", text))
    return [f"{word!r}: {better}" for word, better in found]


@pytest.mark.parametrize("path", [*TEXTS, *NOTEBOOKS], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_code_pages_and_notebooks_use_plain_words(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    # Without old names in the changelog, and commands.
    assert banned(re.sub(r"(?<!`)`[^`\n]+`(?!`)", "", text) if path.suffix == ".md" else text) == []


def test_the_list_finds_what_it_bans():
    assert len(banned("by luck, mended_by, Reckoned")) == 3
    assert banned("celestial, recommend, by chance") == []
