"""The vocabulary of the field: words chosen for sound, and names that say nothing, stay out of code, command line and pages."""

import builtins
import io
import json
import re
import tokenize
from pathlib import Path

import classwise

PACKAGE = Path(classwise.__file__).parent
ROOT = Path(__file__).parents[1]
MODULES = sorted(PACKAGE.rglob("*.py"))
PAGES = [*sorted((ROOT / "book").rglob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md"]
NOTEBOOKS = sorted((ROOT / "notebooks").rglob("*.ipynb"))

# In comments, docstrings, messages, help texts and pages; what to write instead.
PHRASES = {
    r"taken for": "misclassified as",
    r"answered as": "predicted as",
    r"put to": "evaluated on",
    r"(?<![\"'])told|told(?![\"'])": "distinguished, shown, reported",  # but a key of stored files
    r"fares?|fared": "performs",
    r"luck|lucky": "seed, chance",
    r"dress(?:ed|es)?|undressed": "background",
    r"slopes?": "gradient",
    r"doubts?|to doubt": "warning, sanity check",
    r"foretells?|foretold": "forecasts, estimates",
    r"reckon(?:s|ed|ing)?": "estimate",
    r"abreast": "in one batch",
    r"mends?|mended": "repair",
    r"honest": "(leave it out)",
    r"whence|thereby|lest|hitherto|thereof|wherein": "(plain English)",
    r"chapters?": "page, section",
    r"speaks? against": "warns",
    r"(?:dis|un)?believ(?:e|es|ed|ing|ab(?:le|ility)|er)": "sanity check",
    r"(?<![\"\['])questions?(?![\"\]'])": "evaluation",  # but the key of a queue
    r"at the door": "on entry, at input",
    r"by what": "by how much",
    r"crowded": "(say what)",
    r"beside": "next to, compared with, apart from",
    r"anew": "again, redrawn",
    r"surely|rightly": "significantly, correctly",
    r"screws?": "parameter",
    r"(?<![\"'])ask(?:s|ed|ing)?|ask(?:s|ed|ing)?(?![\"'])": "requested, chosen, evaluated on",  # but keys
    r"answers? (?:right|with|as)": "predicts, returns",
    r"hangs? (?:on|together)": "depend on",
}
# Words of the names of functions, classes, parameters, attributes, locals, imports and whatever else a module names.
NAMES = {
    *("asked", "told", "found", "whole", "own", "said", "there", "fared", "luck", "dress", "slope", "doubts", "foretell"),
    *("standing", "crowded", "abreast", "mend", "reckoned", "question", "questions", "courses", "climb", "befriend"),
    *("slopes", "dressed", "undressed", "lucky", "believed", "foretold", "mended"),
}


WORDED = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def tokens(code: str) -> list[tuple[int, int, str]]:
    """Return the kind, the line and the text of each token of a module."""
    return [(one.type, one.start[0], one.string) for one in tokenize.generate_tokens(io.StringIO(code).readline)]


def words_of(name: str) -> set[str]:
    """Return the words of a name in lower case, divided at underscores, capitals and digits."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def is_banned(kind: int, name: str) -> bool:
    """Return whether a token is a name with a banned word, and none of Python's own."""
    return kind == tokenize.NAME and bool(words_of(name) & NAMES) and not hasattr(builtins, name)


def phrases(text: str) -> list[str]:
    """Return the banned words of a text, each with what to write instead."""
    return [
        f"{word.group(0)!r}: {better}" for bad, better in PHRASES.items() for word in re.finditer(rf"(?i)\b(?:{bad})\b", text)
    ]


def test_code_uses_the_terms_of_the_field():
    bad = []
    for path in MODULES:
        for kind, line, text in tokens(path.read_text(encoding="utf-8")):
            found = phrases(text) if kind in WORDED else [f"the name {text!r}"] * is_banned(kind, text)
            bad += [f"{path.relative_to(PACKAGE)}:{line}: {word}" for word in found]
    assert not bad, "\n".join(bad)


def test_pages_use_the_terms_of_the_field():
    # Without old names in the changelog, and commands.
    bad = {path.name: phrases(re.sub(r"(?<!`)`[^`\n]+`(?!`)", "", path.read_text())) for path in PAGES}
    assert {name: words for name, words in bad.items() if words} == {}


def test_notebooks_use_the_terms_of_the_field():
    bad = []
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text())["cells"]
        bad += [f"{path.name}: {word}" for cell in cells for word in phrases("".join(cell["source"]))]
        code = [tokens("".join(cell["source"])) for cell in cells if cell["cell_type"] == "code"]
        bad += [f"{path.name}: {name!r}" for cell in code for kind, _, name in cell if is_banned(kind, name)]
    assert not bad, "\n".join(bad)


def test_the_list_finds_what_it_bans():
    assert phrases("The class it is taken for hangs on luck.") != []
    assert phrases("The class it is misclassified as depends on the seed.") == []
    for text in ("What a network is asked.", "It was told.", "Do not believe it.", "it asks"):
        assert phrases(text) != [], text
    assert phrases('checks["asked"], metadata["told"], item["ask"]') == []


def test_a_name_is_divided_into_its_words():
    assert words_of("_NotFound2Slopes") == {"not", "found", "slopes"}
    for code in ("asked_by = 1", "self.fared_well = 1", "class NaturalLuck: pass", "_NOT_FOUND: int", "f(own_=1)"):
        assert any(is_banned(kind, text) for kind, _, text in tokens(code)), code
    assert not any(words_of(name) & NAMES for name in ("foundation", "ownership", "known", "unfounded"))
