"""The home page and the reports: what they say of verdicts, and of classes beside those of a paper."""

import re
from dataclasses import replace

import nbformat
import numpy as np
import pandas as pd
import pytest
import texts
import xarray as xr
from scipy.stats import spearmanr

from classwise import runs
from classwise.book import notebooks
from classwise.charts.style import VERDICT_COLOURS
from classwise.core.markup import plural
from classwise.core.paths import checkout
from classwise.papers import home, ledger, registry, reports
from classwise.papers.claims import VERDICTS, Verdict
from classwise.stats import metrics, pooling
from tests import picture


@pytest.fixture
def judged():
    """Verdicts on two claims at two scales."""
    first, second, *_ = registry.PAPERS["tian2021"].claims
    numbers = {"effect": 1.0, "low": 0.5, "high": 2.0, "adjusted": 0.01, "seeds": 5, "images": 10}
    kinds = [(first, "holds", "quick"), (first, "open", "laptop"), (second, "fails", "quick"), (second, "fails", "laptop")]
    return [Verdict(*one, {"quick": "digits", "laptop": "cifar10"}[one[-1]], **numbers) for one in kinds]


def test_a_report_counts_the_verdicts_and_lists_the_claims_that_fail(judged):
    text = reports.reproduction_summary("tian2021", judged).replace("&amp;", "&")
    assert 'href="claims.html?paper=tian2021&scale=quick&verdict=holds"' in text
    assert text.index("CIFAR-10") < text.index("digits")
    texts.check("reports-failed", *(reports.not_reproduced("tian2021", some) for some in (judged, judged[:1])))
    number = len(registry.PAPERS["tian2021"].tables.misprints())
    assert f"Misprints and ambiguities ({number})" in reports.misprints("tian2021")


def test_the_mosaic_has_a_square_for_each_verdict_that_leads_to_its_claim(judged):
    judged.append(replace(judged[0], claim=judged[0].claim, scale="short", dataset="mnist", seeds=1))
    text = reports.mosaic(judged)
    squares = re.findall(r'<a class="([\w -]+)" href="([^"]+)" data-words="([^"]+)"', text)
    assert sorted(kind for kind, *_ in squares) == ["fails", "fails", "holds", "holds one-run", "open"]
    for kind, address, words in squares:
        (one,) = (v for v in judged if ledger.kind(v) == kind and address == ledger.address(v.claim, scale=v.scale))
        assert f"{one.claim.statement} {one.summary.capitalize()}: 1.00 [0.50, 2.00]" in words
    assert ("title=" in text, text.count('class="tip"'), "outlined: one run" in text) == (False, 1, True)
    assert "Claim holds, size differs: 1.00 [0.50, 2.00] points, the paper 6.00." in text
    assert set(VERDICT_COLOURS) == set(VERDICTS)


def test_the_table_of_agreement_pairs_the_verdicts_of_each_claim(judged):
    table = reports.agreement(judged, "laptop", "quick")
    heads = [f"{kind}, {name}" for name in ("digits", "CIFAR-10") for kind in ("holds", "fails", "open")]
    assert re.findall(r"<th>(\w.*?)</th>", table) == heads
    numbers = np.array(re.findall(r"<td>(\d+)</td>", table), int).reshape(3, 3)
    assert numbers.tolist() == [[0, 0, 0], [0, 1, 0], [1, 0, 0]]
    # At the level of the papers the first claim holds, as on digits.
    levels = [replace(judged[1], verdict="holds", scale="matched"), *judged]
    pairs = (judged, "laptop"), (judged[::2], "quick"), (levels, "matched")
    texts.check("reports-agreement", *(reports.agreement(some, scale, "quick") for some, scale in pairs))
    assert [one.verdict for one in reports.decisive_verdicts("tian2021", levels)["laptop"]] == ["fails"]


def test_classes_are_compared_with_those_that_the_paper_prints():
    theirs = registry.tables_of("tian2021").load(1)["accuracy"].sel(attack="pgd-20", defence=["pgd-at"], drop=True)
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(10), 400)
    answer = np.where(rng.random(len(truth)) < theirs.values[0][truth] / 100 - 0.1, truth, (truth + 1) % 10)
    values = {name: (("defence", "seed", "image"), some[None, None]) for name, some in (("truth", truth), ("prediction", answer))}
    data = xr.Dataset(values, {"defence": ["pgd-at"], "seed": [0], "predicted": theirs.label.values})
    alike = home.agreement(data, theirs).isel(defence=0)
    rank = spearmanr([np.mean(answer[truth == label] == label) for label in range(10)], theirs.values[0]).statistic
    assert float(alike.sel(quantity="correlation", bound="value")) == pytest.approx(rank)
    assert float(alike.sel(quantity="correlation", bound="low")) > home._ALIKE
    low, value, high = (float(alike.sel(quantity="level", bound=bound)) for bound in ("low", "value", "high"))
    assert low < -10 < high
    assert value == pytest.approx(-10, abs=2)
    rates = metrics.accuracy(pooling.pool(data))
    assert home.printed_rates(rates).equals(theirs)
    assert home.printed_rates(rates.assign_coords(label=list("0123456789"))) is None
    assert home.printed_rates(rates.assign_coords(defence=["standard"])) is None
    said = home.finding(data, alike.expand_dims("defence"), "cifar10")
    assert said.startswith("**On CIFAR-10, the same classes are weak as in the paper: ")
    assert home.finding(data, None, "digits").startswith("**On digits, under PGD-20, PGD-AT classifies class automobile ")
    both = xr.concat([data, data], pd.Index(["clean", home.ATTACK], name="attack"))
    table = home.overall(both, alike.expand_dims("defence"))
    assert table["PGD-20, %"].sel(bound="value").item() == pytest.approx(metrics.overall(pooling.pool(data)).item())
    assert len(home.overall(both, None)) == 2
    assert home.compared_defences(rates.assign_coords(defence=["standard"]), None) == ["standard"]


# By the images of the scales that they are judged at.
EXCLUDED = ("simple-is-robust", "cats-worst")


def test_claims_about_other_datasets_are_counted_apart_from_those_whose_runs_are_missing():
    claims = {claim.name: claim for claim in registry.PAPERS["tian2021"].claims}
    untested = [("gap", "laptop", "cifar10"), ("simple-is-robust", "laptop", "cifar10"), ("cats-worst", "quick", "digits")]
    untested.append(("wider-than-standard", "laptop", "cifar10"))
    verdicts = [Verdict(claims[name], "not tested", *where, unreachable=name in EXCLUDED) for name, *where in untested]
    verdicts.append(Verdict(claims["gap"], "not tested", "laptop", "cifar10", unreachable=True))
    verdicts.append(Verdict(claims["gap"], "open", "quick", "digits", effect=1.0, low=0.0, high=2.0))
    some = verdicts, verdicts[:1], [verdicts[2], verdicts[2]], verdicts[-1:]
    texts.check("reports-untested", *map(reports.untested_reasons, some))


def test_the_figures_of_the_readme_are_those_of_the_recorded_results():
    outcomes = runs.outcomes(runs.keep_recorded(registry.request("tian2021/4-1-class-bias", "laptop")))
    both = metrics.accuracy(pooling.pool(outcomes).sel(defence="pgd-at"))
    rates = both.sel(attack="pgd-20")
    best, worst = (str(rates.idxmax("label").item()), str(rates.idxmin("label").item()))
    most, least = (round(float(end)) for end in (rates.max(), rates.min()))
    clean = [round(float(both.sel(attack="clean", label=name))) for name in (best, worst)]
    text = " ".join((checkout() / "README.md").read_text(encoding="utf-8").split())
    assert f"PGD, 13 epochs, {plural(outcomes.sizes['seed'], 'recorded run')})" in text
    assert f"classifies {most} % of the {best} images correctly and {least} % of the {worst} images" in text
    assert f"without an attack {clean[0]} % and {clean[1]} %" in text


def test_the_readme_counts_the_claims_on_photographs_and_shows_the_chart_of_today():
    verdicts = [one for one in runs.verdicts("laptop", others=["matched"]) if one.scale in ("matched", "laptop")]
    rows = [line for line in (checkout() / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(registry.PAPERS)
    for row, paper in zip(rows, registry.PAPERS, strict=True):
        counts = ledger.numbers(ledger.decisive([one for one in verdicts if one.claim.paper == paper]))
        assert row.endswith(f"| {counts} |")
    drawn, now = (
        re.findall(r'>([^<>]+)</text>|aria-label="([^"]*)"', svg)
        for svg in ((picture.STATIC / "classes.svg").read_text(), picture.classes())
    )
    assert drawn == now, "draw the picture of README again: make picture"


def test_the_picture_of_the_folders_is_drawn_from_the_imports_of_today():
    assert (picture.STATIC / "folders.svg").read_text() == picture.folders(), "draw it again: make picture"


def test_the_page_of_the_papers_lists_all_pages_of_each():
    cells = nbformat.read(notebooks.find("papers"), as_version=4).cells
    texts = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown").split("\n## ")[1:]
    for text, paper in zip(texts, registry.PAPERS.values(), strict=True):
        assert text.startswith(paper.title)
        assert re.findall(r"^- {doc}`(\S+)`$", text, re.MULTILINE) == list(paper.pages)
        for part in ("Scope", "What was reproduced", "What was not reproduced", "What was easy", "What was difficult"):
            assert f"**{part}.**" in text
