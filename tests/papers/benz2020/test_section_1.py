"""Section 1: answers made by hand on which each claim holds, and others on which it fails; gaps by chance; equal accuracy."""

import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from claim_answers import CLASS, UP, at, judged, outcomes_with

from classwise.charts import style
from classwise.papers import registry
from classwise.papers.benz2020 import charts_discrepancy, discrepancy, section_1
from classwise.papers.benz2020 import sentences_discrepancy as sentences
from classwise.papers.claims import MeasurementError
from classwise.stats import aggregate, agreement, bootstrap, metrics

SPREAD = UP  # from 30 to 93
# So many images that chance moves equal classes by less than a point.
MANY = 40
STEEP = np.array([5, 10, 20, 30, 50, 60, 70, 80, 90, 95])


def panels(standard, trained, standard_attacked=5, trained_attacked=60, times=1):
    """Return both networks, clean and attacked."""
    keys = {("standard", "clean"): standard, ("pgd-at", "clean"): trained}
    keys |= {("standard", "pgd-20"): standard_attacked, ("pgd-at", "pgd-20"): trained_attacked}
    return outcomes_with(keys, times=times)


def over_radii(half, trained=SPREAD, clean=90, times=1):
    """Return standard training clean, at two radii of which `half` is the accuracy at the first, and PGD-AT at the last one."""
    values = {"0": (clean, 95), "0.05": (half, 80), "0.1": (0, trained)}
    keys = {
        (name, "pgd-20", radius): rates[place]
        for place, name in enumerate(section_1.NETWORKS)
        for radius, rates in values.items()
    }
    return outcomes_with(keys, along=("defence", "attack", "eval_eps"), times=times)


def halves(standard, trained):
    return aggregate.halved(panels(standard, trained))


HALVED = np.array([25, 30, 35, 40, 45, 45, 50, 55, 60, 65])
CAT = at(10, 3, rest=50)

EXTREMES = {
    "standard-clean-discrepancy": ([panels(SPREAD, 90)], [panels(60, SPREAD, times=MANY)]),
    "standard-robust-discrepancy": ([over_radii(HALVED)], [over_radii(45, times=MANY)]),
    "cat-is-vulnerable": ([over_radii(CAT, at(10, 5, rest=50))], [over_radii(at(10, 5, rest=50), CAT)]),
    "wider-clean": ([panels(90, SPREAD, SPREAD, 60)], [panels(SPREAD, 90, 60, SPREAD)]),
    "wider-attacked": ([panels(SPREAD, 90, 60, SPREAD)], [panels(90, SPREAD, SPREAD, 60)]),
    "not-from-unequal-classes": ([panels(90, 90, 60, SPREAD)], [panels(SPREAD, SPREAD, SPREAD, 60, times=MANY)]),
    "wider-at-equal-accuracy": ([over_radii(45, SPREAD)], [over_radii(STEEP, 55)]),
    "similar-trend": ([halves(SPREAD, SPREAD)], [halves(SPREAD, SPREAD[::-1])]),
    "most-for-attacked": (
        [panels(90, 85, 5, SPREAD)],
        [panels(SPREAD, 85, 5, 60), panels(90, SPREAD, 5, 60), panels(90, 85, SPREAD, 60)],
    ),
    "accuracy-for-robustness": (
        [panels(95, 80, 5, 60)],
        [panels(80, 95, 5, 60), panels(95, 80, 60, 5)],
    ),
}


@pytest.fixture(autouse=True)
def _setup():
    style.setup()


def test_datasets_of_unequal_classes_do_not_test_that_equal_ones_differ():
    claim = next(one for one in section_1.CLAIMS if one.name == "not-from-unequal-classes")
    assert {name: bool(claim.exclusion(name)) for name in ("digits", "cifar10", "mnist", "svhn")} == {
        "digits": False,
        "cifar10": False,
        "mnist": True,
        "svhn": True,
    }


@pytest.mark.parametrize("right", [0, 5, 10])
def test_a_network_that_is_right_by_chance_at_most_has_no_gap_that_could_be_wider(right):
    data = panels(90, 85, right, SPREAD)
    with pytest.raises(MeasurementError, match="than one class for all"):
        judged("wider-attacked", data)
    names = {"scale": "quick", "dataset": "digits", "strict": False}
    (verdict,) = registry.judge(section_1.NAME, data, only=["wider-attacked"], **names)
    assert verdict.verdict == "not tested"
    assert "than one class for all" in verdict.reason


def test_the_verdict_on_the_trend_has_the_interval_of_the_sentence():
    both = panels(SPREAD, SPREAD[::-1][[1, 0, 3, 2, 5, 4, 7, 6, 9, 8]])
    verdict = judged("similar-trend", aggregate.halved(both))
    clean = both.expand_dims(seed=[0]).sel(attack=["clean"])
    bounds = agreement.interval(clean, section_1.between_networks, "defence")
    assert verdict.effect == pytest.approx(float(bounds.sel(bound="value")))
    # Both leave out the same draws, the verdict those of a one-sided test.
    assert float(bounds.sel(bound="low")) <= verdict.low <= verdict.effect <= verdict.high <= float(bounds.sel(bound="high"))


def test_a_network_that_is_nowhere_as_inaccurate_is_said_to_be_so():
    # Standard training stays at 90 %: half of its accuracy and that of PGD-AT, 61 %, are never reached.
    kept = over_radii(90)
    stays = kept.sel(eval_eps=["0", "0.05"])
    for measure in (section_1.standard_variance, section_1.widened_at_equal_accuracy):
        trained = (
            stays
            if measure is section_1.standard_variance
            else stays.assign(answer=stays.answer.where(stays.defence == "standard", kept.answer.sel(eval_eps="0.1", drop=True)))
        )
        with pytest.raises(MeasurementError, match="at no radius"):
            measure(bootstrap.sums(trained.expand_dims(seed=[0]), {}))


def test_counts_at_an_accuracy_are_interpolated_between_two_radii():
    count = bootstrap.sums(over_radii(50, clean=90).expand_dims(seed=[0]), {})["count"].sel(defence="standard", attack="pgd-20")
    target = xr.DataArray(70.0)
    there = discrepancy.at_accuracy(count, target)
    assert float(metrics.overall(there)) == pytest.approx(70)
    assert float(discrepancy.radius_at(count, target)) == pytest.approx(0.025)
    np.testing.assert_allclose(there, (count.sel(eval_eps="0") + count.sel(eval_eps="0.05")) / 2)
    assert float(discrepancy.radius_at(count, xr.DataArray(25.0))) == pytest.approx(0.075)
    for outside in (95.0, -1.0):
        assert np.isnan(discrepancy.at_accuracy(count, xr.DataArray(outside))).all()


def test_the_gap_by_chance_is_that_of_equal_classes():
    rng, gaps = np.random.default_rng(0), []
    for _ in range(2000):
        right = rng.binomial(72, 0.7, 10)
        gaps.append(100 * (right.max() - right.min()) / 72)
    names = [str(name) for name in CLASS]
    matrix = np.full((10, 10), 0.3 * 72 / 9) + np.eye(10) * (0.7 - 0.3 / 9) * 72
    count = xr.DataArray(matrix, dims=("label", "predicted"), coords={"label": names, "predicted": names})
    low, value, high = discrepancy.gap_by_chance(count).sel(bound=["low", "value", "high"]).values
    assert value == pytest.approx(np.mean(gaps), abs=0.4)
    assert (low, high) == pytest.approx(tuple(np.quantile(gaps, [0.025, 0.975])), abs=1.5)
    # Fewer images: farther apart by chance.
    assert float(discrepancy.gap_by_chance(count / 4).sel(bound="value")) > 1.7 * value


def test_the_table_and_the_sentences_say_what_was_measured():
    data = panels(90, 85, 0, SPREAD).expand_dims(seed=[0])
    table = discrepancy.table({"digits": data, "cifar10": data.assign(answer=data.answer)})
    assert list(table["case"][:4]) == ["standard, clean", "standard, pgd-20", "pgd-at, clean", "pgd-at, pgd-20"]
    assert list(dict.fromkeys(table["dataset"])) == ["digits", "CIFAR-10"]
    last = table.iloc[3]
    assert last["value"] == SPREAD[-1] - SPREAD[0]
    assert last["explained"] == pytest.approx(float(metrics.explained(bootstrap.sums(data, {})["count"])[1, 1]), rel=1e-6)
    assert (last["smallest class"], last["largest class"]) == (100, 100)
    assert pd.isna(table.iloc[1]["explained"])
    text = sentences.headline(data, "pgd-20")
    assert text.startswith("**Under pgd-20, the best class of pgd-at is 63 points (95 % interval")
    above = sentences.above_chance(table[table["dataset"] == "digits"])
    assert "**A larger gap than equal classes have by chance**: pgd-at, pgd-20 (63 points" in above
    assert "standard, clean (0 points" in above.partition("**Not larger**")[2]
    assert "digits, 100 to 100 test images of a class" in sentences.datasets({"digits": data}, table)
    wide = sentences.wider(data, "pgd-20")
    assert "Under pgd-20 at the same radius, it is wider: 63.0 points" in wide
    assert "classifies 0.0 % of the attacked images correctly, no more than by one class for all: it has no gap" in wide
    right = sentences.wider(panels(90, 85, 50, SPREAD).expand_dims(seed=[0]), "pgd-20")
    assert right.endswith("classifies 50.0 % of the attacked images correctly.")
    spec = charts_discrepancy.gaps(table).to_dict()
    assert len(spec["concat"]) == 4
    # The panels of a dataset have the same rows, also for a network that is right nowhere.
    rows = [panel["layer"][0]["encoding"]["y"]["scale"]["domain"] for panel in spec["concat"]]
    assert rows == [list(table["case"][:4])] * 4
    assert "63 points (digits, pgd-at, pgd-20)" in spec["description"]


def test_the_headline_stands_without_standard_training():
    alone = panels(90, 85, 0, SPREAD).expand_dims(seed=[0]).sel(defence=["pgd-at"])
    text = sentences.headline(alone, "pgd-20")
    assert "the best class of pgd-at is 63 points" in text
    assert "standard" not in text


def decimal_after(words, text):
    """Return the points that a sentence gives after some words and a radius."""
    return re.search(rf"{words} [0-9.]+, (-?[0-9.]+) points", text)[1]


@pytest.mark.parametrize(("half", "trained", "says"), [(45, SPREAD, "explains more"), (STEEP, 55, "explains less")])
def test_networks_of_one_accuracy_are_compared(half, trained, says):
    text = sentences.equal_accuracy(over_radii(half, trained).expand_dims(seed=[0]))
    assert f"**The class {says} after adversarial training, at an equal accuracy of" in text
    radii = over_radii(half, trained).expand_dims(seed=[0])
    share = discrepancy.explained_at_equal_accuracy(radii)
    curve = bootstrap.bootstrap(radii, metrics.explained).isel(attack=0, drop=True)
    rates = metrics.overall(bootstrap.sums(radii, {})["count"]).isel(attack=0, drop=True)
    chart = charts_discrepancy.over_accuracy(curve, rates, share).to_dict()
    assert "Open dot: standard there" in " ".join(chart["title"]["subtitle"])
    (dot,) = [layer for layer in chart["layer"] if layer.get("mark", {}).get("size") == 90]
    assert float(chart["datasets"][dot["data"]["name"]].split(",")[-1]) == pytest.approx(share, abs=0.01)
    # The difference of the sentence is that of the dots of the chart, but for what sampling adds to both of them.
    last = float(curve.sel(bound="value", defence="pgd-at", eval_eps="0.1"))
    assert float(decimal_after("less standard training at about", text)) == pytest.approx(last - share, abs=0.5)
    assert "Open dot" not in str(charts_discrepancy.over_accuracy(curve, rates).to_dict()["title"])
    never = over_radii(90).sel(eval_eps=["0", "0.05"]).expand_dims(seed=[0])
    assert "at none of these radii" in sentences.equal_accuracy(never)
    assert np.isnan(discrepancy.explained_at_equal_accuracy(never))
    assert np.isnan(discrepancy.explained_at_equal_accuracy(never.sel(defence=["pgd-at"])))


def test_profiles_of_opposite_halves_agree_where_the_classes_do():
    both = panels(SPREAD, SPREAD, 0, SPREAD).expand_dims(seed=[0])
    text = sentences.alike(both)
    assert "Without an attack: 1.00 (95 % interval" in text
    assert "Under pgd-20: no interval, for the classes of a network hardly differ" in text


def test_a_section_on_another_dataset_keeps_its_controls():
    request = registry.request(section_1.NAME, "laptop")
    assert [name for name in request.parts if name not in section_1.SECTION.parts] == ["mnist", "tiny-imagenet:tiny20"]
    part = request.parts["mnist"]
    assert {spec.dataset for spec in part.parts["radii"].specs} == {"mnist"}
    assert [one.eps for one in part.parts["radii"].evaluations] == ["0.0375", "0.075", "0.15", "0.3"]
    assert {spec.dataset for spec in registry.request(section_1.NAME).parts["cluttered"].specs} == {"digits-cluttered"}
    assert "svhn" in registry.request(section_1.NAME, "short").parts
