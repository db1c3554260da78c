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
from classwise.core import markup
from classwise.core.markup import plural
from classwise.core.paths import checkout
from classwise.papers import home, ledger, registry, reports, say
from classwise.papers.claims import VERDICTS, Verdict
from classwise.papers.scales import CLOSED_FORM, MODEL
from classwise.stats import metrics, pooling
from tests import picture


@pytest.fixture
def judged():
    """Verdicts on two claims at two scales."""
    first, second, *_ = registry.PAPERS["tian2021"].claims
    numbers = {"effect": 1.0, "low": 0.5, "high": 2.0, "adjusted": 0.01, "seeds": 5, "images": 10}
    kinds = [(first, "holds", "quick"), (first, "open", "laptop"), (second, "fails", "quick"), (second, "fails", "laptop")]
    return [Verdict(*one, {"quick": "digits", "laptop": "cifar10"}[one[-1]], **numbers) for one in kinds]


def test_a_report_begins_with_a_verdict_that_counts_the_claims_and_leads_to_them(judged):
    theorem = replace(judged[0], scale=CLOSED_FORM, dataset=MODEL)
    untested = [replace(judged[0], verdict="not tested")]
    texts.check("reports-verdict", *(reports.verdict("tian2021", some) for some in ([*judged, theorem], judged[:1], untested)))
    assert reports.verdict("tian2021", judged).startswith(f"{reports.verdict('', judged)} See ")
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
    assert home.same_classes(alike.expand_dims("defence")).startswith("The same classes are weak as in the paper: for PGD-AT, ")
    assert home.same_classes(None) == ""
    clean = rates + 5
    under = xr.concat([clean, rates], pd.Index(["clean", home.ATTACK], name="attack"))
    said = say.text(home.FINDING, where="CIFAR-10", **home.extremes(under.isel(defence=0)))
    most, least = (round(float(end)) for end in (rates.max(), rates.min()))
    best, worst = (markup.plural_class(str(end.item())) for end in (rates.idxmax("label")[0], rates.idxmin("label")[0]))
    after = f"{most} % of {best}, but only {least} % of {worst}"
    assert said == f"**Under attack, a network trained by PGD-AT on CIFAR-10 still recognises {after}.**"
    falls = [f"from {float(end) + 5:.0f} to {float(end):.0f} %" for end in (rates.max(), rates.min())]
    title = f"PGD-AT: {best} fall {falls[0]}, {worst} {falls[1]}"
    assert home.titles(under, theirs) == {"pgd-at": title}
    assert home.titles(under.assign_coords(defence=["standard"]), None)["standard"].startswith("Standard training: ")
    assert [len(home.marks(under, some)) for some in (None, theirs)] == [2, 3]
    assert [markup.plural_class(name) for name in ("cat", "deer", "8")] == ["cats", "deer", "8s"]
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
    outcomes = runs.outcomes(runs.keep_recorded(registry.request("tian2021/4-1-class-bias", "matched")))
    both = metrics.accuracy(pooling.pool(outcomes).sel(defence="pgd-at"))
    rates = both.sel(attack="pgd-20")
    best, worst = (str(rates.idxmax("label").item()), str(rates.idxmin("label").item()))
    most, least = (round(float(end)) for end in (rates.max(), rates.min()))
    text = " ".join((checkout() / "README.md").read_text(encoding="utf-8").split())
    trained = int((outcomes.truth.sel(defence="pgd-at", attack="pgd-20") >= 0).any("image").sum())
    assert f"(PGD, {plural(trained, 'network')})" in text
    assert f"recognises {most} % of the {best}s, but only {least} % of the {worst}s" in text


def test_the_readme_counts_the_claims_on_photographs_and_shows_the_chart_of_today():
    verdicts = [one for one in runs.verdicts("laptop", others=["matched"]) if one.scale in ("matched", "laptop")]
    text = (checkout() / "README.md").read_text(encoding="utf-8")
    for name, paper in registry.PAPERS.items():
        counts = ledger.numbers(ledger.decisive([one for one in verdicts if one.claim.paper == name]))
        assert f"\n- **{paper.title}**: {counts}." in text
    drawn, now = (
        re.findall(r'>([^<>]+)</text>|aria-label="([^"]*)"', svg)
        for svg in ((picture.STATIC / "classes.svg").read_text(), picture.classes())
    )
    assert drawn == now, "draw the picture of README again: make picture"


def test_the_readme_names_all_pages_by_their_titles():
    text = (checkout() / "README.md").read_text(encoding="utf-8")
    named = {name: title for title, name in re.findall(r"\[([^\]]+)\]\(notebooks/([\w/-]+)\.ipynb\)", text)}
    cells = {name: nbformat.read(notebooks.find(name), as_version=4).cells[0].source for name in notebooks.names()}
    assert named == {name: cell.split("\n")[0].removeprefix("# ") for name, cell in cells.items() if name != "index"}


def test_the_picture_of_the_folders_is_drawn_from_the_imports_of_today():
    assert (picture.STATIC / "folders.svg").read_text() == picture.folders(), "draw it again: make picture"


def test_the_page_of_the_papers_has_a_verdict_on_each_and_what_was_easy_and_difficult():
    cells = nbformat.read(notebooks.find("papers"), as_version=4).cells
    parts = "\n".join(cell.source for cell in cells).split("\n## ")[1:]
    for text, (name, paper) in zip(parts, registry.PAPERS.items(), strict=True):
        assert text.startswith(paper.title)
        assert f'reports.verdict("{name}", verdicts)' in text
        assert all(f"**What was {part}.**" in text for part in ("easy", "difficult"))
