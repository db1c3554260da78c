"""How to cite the package and the papers: BibTeX made from CITATION.cff."""

from collections.abc import Mapping
from typing import Any

import yaml

from classwise.core.paths import checkout

# What BibTeX calls a type of CITATION.cff, and its field for where a work appeared.
_TYPES = {"conference-paper": "inproceedings", "article": "article", "unpublished": "unpublished", "software": "misc"}
_FIELDS = {"title": "title", "collection-title": "booktitle", "journal": "journal", "year": "year", "doi": "doi", "notes": "note"}


def cited() -> dict[str, Any]:
    """Return the content of CITATION.cff."""
    content: dict[str, Any] = yaml.safe_load((checkout() / "CITATION.cff").read_text(encoding="utf-8"))
    return content


def _author(author: Mapping[str, str]) -> str:
    return f"{author['family-names']}, {author['given-names']}" if "family-names" in author else f"{{{author['name']}}}"


def _entry(key: str, work: Mapping[str, Any]) -> str:
    values = {"author": " and ".join(map(_author, work["authors"]))}
    values |= {name: str(work[field]) for field, name in _FIELDS.items() if field in work}
    values["title"] = f"{{{values['title']}}}"  # keeps its capitals
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in values.items())
    return f"@{_TYPES[work['type']]}{{{key},\n{lines}\n}}"


def bibtex() -> str:
    """Return BibTeX entries of the package and of the papers that it reproduces."""
    package = cited()
    note = f"Version {package['version']}, {package['license']} licence"
    entries = [_entry("classwise", {**package, "year": package["date-released"].year, "notes": note})]
    for work in package["references"]:
        first = work["authors"][0]
        entries.append(_entry(f"{first.get('family-names', first.get('name'))}{work['year']}".lower(), work))
    return "\n\n".join(entries)


def section() -> str:
    """Return the section of the home page that says how to cite."""
    words = "If you use the code or the results, please cite them, and the paper whose section you use."
    return f"## Cite\n\n{words}\n\n```bibtex\n{bibtex()}\n```"
