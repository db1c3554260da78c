"""CITATION.cff, the BibTeX of the guide, and the page of licences."""

import datetime
import re

import pytest
import yaml
from pybtex.database import parse_string

from classwise.book import build
from classwise.core.datasets import DATASETS
from classwise.core.paths import checkout
from classwise.papers import registry


def plain(text):
    return re.sub(r"[{}]", "", str(text)).casefold()


@pytest.fixture(scope="module")
def cited():
    return yaml.safe_load((checkout() / "CITATION.cff").read_text())


def test_the_citation_has_what_its_format_requires_and_no_address(cited):
    assert {"cff-version", "title", "message", "authors", "version", "date-released", "license", "type"} <= set(cited)
    assert cited["cff-version"] == "1.2.0"
    assert isinstance(cited["date-released"], datetime.date)
    assert not {"repository", "repository-code", "url"} & set(cited)
    for work in cited["references"]:
        assert {"type", "title", "authors", "year"} <= set(work)
        assert all({"family-names", "given-names"} == set(author) or {"name"} == set(author) for author in work["authors"])


def test_every_paper_of_the_book_is_cited_as_in_its_references(cited):
    references = parse_string((checkout() / "book" / "references.bib").read_text(), "bibtex").entries
    works = {plain(work["title"]): work for work in cited["references"]}
    assert {plain(references[name].fields["title"]) for name in registry.PAPERS} == set(works)
    for name in registry.PAPERS:
        work = works[plain(references[name].fields["title"])]
        assert str(work["year"]) == references[name].fields["year"]
        assert work.get("doi") == references[name].fields.get("doi")
        authors = [plain(author.get("family-names", author.get("name"))) for author in work["authors"]]
        assert authors == [plain(" ".join(person.last_names)) for person in references[name].persons["author"]]
    page = (checkout() / "book" / "guide" / "citing.md").read_text()
    block = re.search(r"```bibtex\n(.*?)```", page, re.DOTALL)[1]
    package, *shown = parse_string(block, "bibtex").entries.values()
    assert plain(package.fields["title"]) == plain(cited["title"])
    assert package.fields["note"] == f"Version {cited['version']}, MIT licence"
    dois = {title: work.get("doi") for title, work in works.items()}
    assert {plain(entry.fields["title"]): entry.fields.get("doi") for entry in shown} == dois


def test_every_dataset_has_its_licence_and_source():
    page = (checkout() / "book" / "guide" / "sources.md").read_text()
    rows = re.findall(r"^\| `?([^`|]+?)`? \|(.+)\|(.+)\|(.+)\|$", page, re.MULTILINE)
    known = {name: [cell.strip() for cell in cells] for name, *cells in rows}
    for name in (*DATASETS, "CIFAR-10-C"):
        assert name in known, name
        assert all(known[name]), name


def test_scripts_that_are_bundled_or_load_something_are_named():
    page = (checkout() / "book" / "guide" / "sources.md").read_text()
    vega, math = (script.read_text() for script in build.scripts())
    for name in ("topojson", "fast-json-patch"):
        assert name in vega
        assert name in page
    loaded = {name for name in re.findall(r"https://cdn\.jsdelivr\.net/npm/([a-z-]+)", math) if not name.startswith("sre-")}
    assert loaded <= {"speech-rule-engine", "wicked-good-xpath"}  # both of speech, which a reader must switch on
    assert "speech-rule-engine" in page
