"""A new page from templates: `make page NAME=tian2021/7-new-question` writes its module, claim, notebook and test.

It shows PGD-AT by class, with one claim, and is a page of the book at once. It has ids of its own after `make accept`.
"""

import keyword
import re
import sys
from pathlib import Path
from string import Template

from classwise.core.errors import UserError, check_known
from classwise.core.paths import checkout
from classwise.papers import registry

_TEMPLATES = Path(__file__).with_name("template")
# paper/number-of-section-words: the number may have several parts.
_NAME = re.compile(r"(?P<folder>\w+)/(?P<number>[\dA-Z]+(?:-\d+)*)-(?P<words>[a-z]+(?:-[a-z]+)*)")


def new_page(name: str) -> list[Path]:
    """Write the files of a page, such as "tian2021/7-new-question", and return them; a UserError if the name is not free."""
    match = _NAME.fullmatch(name)
    if match is None or keyword.iskeyword(match["words"]):
        form = "paper/number-words, in letters a to z, digits and hyphens"
        raise UserError(f"NAME={name!r} is not of the form {form}; write one like tian2021/7-new-question")
    folder, words = match["folder"], match["words"]
    check_known("paper", [folder], registry.PAPERS)
    module, root = words.replace("-", "_"), checkout()
    package = root / "src" / "classwise" / "papers" / folder
    texts = {
        package / f"{module}.py": "module.py",
        root / "notebooks" / f"{name}.ipynb": "page.ipynb",
        root / "tests" / "papers" / folder / f"test_{module}.py": "test.py",
    }
    for path in texts:
        if path.exists():
            raise UserError(f"{name} cannot be written: {path.relative_to(root)} exists; take another name")
    values = {"words": words, "paper": registry.PAPERS[folder].title, "folder": folder, "module": module, "page": name}
    values |= {
        "place": name.partition("/")[2],
        "number": match["number"].replace("-", "."),
        "title": words.replace("-", " ").capitalize(),
    }
    for path, template in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_filled(template, values), encoding="utf-8")
    with (package / "claims.csv").open("a", encoding="utf-8") as claims:
        claims.write(_filled("claims.csv", values))
    init = package / "__init__.py"
    added = f"\nfrom classwise.papers.{folder} import {module}\n_SECTIONS"
    code = init.read_text(encoding="utf-8").replace("\n_SECTIONS", added, 1)
    init.write_text(re.sub(r"(?s)(_SECTIONS = \(.*?),?\s*\)\n", rf"\1, {module})\n", code, count=1), encoding="utf-8")
    return [*texts, package / "claims.csv", init]


def _filled(template: str, values: dict[str, str]) -> str:
    return Template((_TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")).safe_substitute(values)


if __name__ == "__main__":
    try:
        for written in new_page(" ".join(sys.argv[1:])):
            print(written.relative_to(checkout()))
    except UserError as error:
        sys.exit(str(error))
