"""The vocabulary of the field: words chosen for sound, and names that say nothing, stay out of code, command line and pages."""

import ast
import json
import re
import tokenize
from pathlib import Path

import pytest

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
    r"hangs on": "depends on",
    r"abreast": "in one batch",
    r"mends?|mended": "repair",
    r"honest": "(leave it out)",
    r"whence|thereby|lest|hitherto|thereof|wherein": "(plain English)",
    r"chapters?": "page, section",
    r"speaks? against": "warns",
    r"(?:dis)?believ(?:e|es|ing|ab(?:le|ility)|er)": "sanity check",
    r"(?<![\"\['])questions?(?![\"\]'])": "evaluation",  # but the key of a queue
    r"unbelieved|believed": "sanity check",
    r"at the door": "on entry, at input",
    r"by what": "by how much",
    r"crowded": "(say what)",
    r"beside": "next to, compared with, apart from",
    r"anew": "again, redrawn",
    r"surely|rightly": "significantly, correctly",
    r"screws?": "parameter",
    r"(?<![\"'])ask(?:s|ed|ing)?|ask(?:s|ed|ing)?(?![\"'])": "requested, chosen, evaluated on",  # but keys
    r"answers? (?:right|with|as)": "predicts, returns",
    r"hang (?:on|together)": "depend on",
}
# Words of the names of functions, classes, parameters, attributes, locals, imports and whatever else a module names.
NAMES = {
    *("asked", "told", "found", "whole", "own", "said", "there", "fared", "luck", "dress", "slope", "doubts", "foretell"),
    *("standing", "crowded", "abreast", "mend", "reckoned", "question", "questions", "courses", "climb", "befriend"),
    *("slopes", "dressed", "undressed", "lucky", "believed", "foretold", "mended"),
}


def parts(path: Path) -> list[tuple[int, str]]:
    """Return the comments and strings of a module with their lines."""
    with tokenize.open(path) as file:
        tokens = list(tokenize.generate_tokens(file.readline))
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    return [(token.start[0], token.string) for token in tokens if token.type in kinds]


def bound_names(tree: ast.AST) -> list[tuple[int, str]]:
    """Return the names that a module gives to anything, with their lines."""
    result = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            result.append((node.lineno, node.name))
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            result.append((node.lineno, node.name or ""))
        elif isinstance(node, ast.MatchMapping):
            result.append((node.lineno, node.rest or ""))
        elif isinstance(node, ast.alias):
            result.append((getattr(node, "lineno", 0), node.asname or ""))
        elif isinstance(node, ast.arg):
            result.append((node.lineno, node.arg))
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            result.append((node.lineno, node.id if isinstance(node, ast.Name) else node.attr))
    return result


def words_of(name: str) -> set[str]:
    """Return the words of a name in lower case, divided at underscores, capitals and digits."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def phrases(text: str) -> list[str]:
    """Return the banned words of a text, each with what to write instead."""
    return [
        f"{word.group(0)!r}: {better}" for bad, better in PHRASES.items() for word in re.finditer(rf"(?i)\b(?:{bad})\b", text)
    ]


def test_code_uses_the_terms_of_the_field():
    bad = []
    for path in MODULES:
        bad += [f"{path.relative_to(PACKAGE)}:{line}: {word}" for line, text in parts(path) for word in phrases(text)]
        names = bound_names(ast.parse(path.read_text()))
        bad += [f"{path.relative_to(PACKAGE)}:{line}: the name {name!r}" for line, name in names if words_of(name) & NAMES]
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
        code = [ast.parse("".join(cell["source"])) for cell in cells if cell["cell_type"] == "code"]
        bad += [f"{path.name}: {name!r}" for tree in code for _, name in bound_names(tree) if words_of(name) & NAMES]
    assert not bad, "\n".join(bad)


def test_the_list_finds_what_it_bans():
    assert phrases("The class it is taken for hangs on luck.") != []
    assert phrases("The class it is misclassified as depends on the seed.") == []
    for text in ("What a network is asked.", "It was told.", "Do not believe it.", "it asks"):
        assert phrases(text) != [], text
    assert phrases('checks["asked"], metadata["told"], item["ask"]') == []


NAMING = (
    "found = 1",
    "asked_by = 1",
    "self.fared_well = 1",
    "def f(own_colours): pass",
    "async def told(): pass",
    "class Slope: pass",
    "class NaturalLuck: pass",
    "import os as told",
    "from os import path as told",
    "try:\n  pass\nexcept OSError as found:\n  pass",
    "match 1:\n  case told:\n    pass",
    "match 1:\n  case [*told]:\n    pass",
    "match 1:\n  case {**told}:\n    pass",
    "_NOT_FOUND: int = 1",
    "for found in (): pass",
    "with open('') as found: pass",
    "[found for found in ()]",
    "(found := 1)",
)


@pytest.mark.parametrize("code", NAMING)
def test_a_name_of_any_kind_is_divided_into_its_words(code):
    assert any(words_of(name) & NAMES for _, name in bound_names(ast.parse(code)))


def test_other_names_are_allowed():
    assert words_of("_NotFound2Slopes") == {"not", "found", "slopes"}
    assert not any(words_of(name) & NAMES for name in ("foundation", "ownership", "known", "unfounded"))
