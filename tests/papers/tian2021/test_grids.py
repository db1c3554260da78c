"""Attacks beside defences, temperatures beside PGD: sentences, tables and charts from outcomes that are known beforehand."""

import numpy as np
import pandas as pd
import pytest
import vl_convert
import xarray as xr
from scipy import stats

from classwise import attacks
from classwise.attacks.balls import Linf
from classwise.charts import dots, heatmaps, style, tables
from classwise.core import datasets
from classwise.core.errors import UserError
from classwise.papers import judging, published, registry
from classwise.papers.tian2021 import charts, section_4_3, temperature
from classwise.papers.tian2021.tables import TABLES
from classwise.stats import aggregate, bootstrap, confidence, intervals, metrics


@pytest.fixture(autouse=True)
def _setup():
    style.setup()


def drawn(chart):
    return vl_convert.vegalite_to_svg(chart.to_json())


def counts(rates, images=100):
    """Return counts of named settings: by (defence, attack), the percentage of each class that is right."""
    defences, kinds = (list(dict.fromkeys(key[place] for key in rates)) for place in (0, 1))
    labels = [str(number) for number in range(len(next(iter(rates.values()))))]
    values = np.array([[rates[one, other] for other in kinds] for one in defences], dtype=float)
    coords = {"defence": defences, "attack": kinds, "label": labels}
    return published.counts(xr.DataArray(values, coords, ("defence", "attack", "label")), images)


RATES = counts(
    {("a", "fgsm"): [90, 50, 70], ("a", "pgd-20"): [80, 20, 60], ("b", "fgsm"): [60, 60, 60], ("b", "pgd-20"): [60, 30, 60]}
)


def test_a_class_stands_above_or_below_only_where_its_whole_interval_does():
    found = intervals.relative_robustness(RATES)
    wilson = intervals.wilson(RATES, together=True)
    total = metrics.overall(RATES)
    assert found.sel(defence="a", attack="fgsm").values.tolist() == [1, -1, 0]
    assert found.sel(defence="b", attack="fgsm").values.tolist() == [0, 0, 0]
    xr.testing.assert_equal((found == 1), (wilson.sel(bound="low", drop=True) > total))
    xr.testing.assert_equal((found == -1), intervals.vulnerable(RATES))
    assert intervals.relative_robustness(RATES * 0).isnull().all()
    few = counts({("a", "fgsm"): [90, 50, 70]}, images=10)
    assert intervals.relative_robustness(few).values.tolist() == [[[0, 0, 0]]]


def test_settings_are_counted_for_each_class():
    table = section_4_3.certain_classes(intervals.relative_robustness(RATES))
    assert table.loc["vulnerable", "1"] == 3
    assert table.loc["robust", "0"] == 2
    assert (table.sum() == 4).all()


def test_how_alike_settings_are_is_said():
    said = section_4_3.agreement(metrics.accuracy(RATES.sel(defence="a")))
    assert "class 0 in 2; the worst is class 1 in 2" in said
    assert f"{np.corrcoef([90, 50, 70], [80, 20, 60])[0, 1]:.2f} on average" in said
    assert "one setting only" in section_4_3.agreement(metrics.accuracy(RATES.isel(defence=[0], attack=[0])))


def test_who_loses_is_told_by_the_standing_under_the_weaker_attack():
    table = section_4_3.who_loses({"step": RATES.sel(defence=["a"])})
    # Overall 70: class 0 is robust, classes 1 and 2 are not above it.
    assert table.loc["step"].tolist() == ["20.0", "10.0"]


def test_steps_are_counted_on_the_images_that_both_attacks_were_asked_about():
    truth = np.array([[[[0, 0, 1], [0, -1, 1]]]], dtype="i2")
    answer = np.array([[[[0, 1, 1], [1, -1, 1]]]], dtype="i2")
    dims = ("defence", "seed", "attack", "image")
    coords = {"defence": ["a"], "seed": [0], "attack": ["transfer", "n-attack"], "image": [3, 4, 5], "predicted": ["x", "y"]}
    whole = xr.Dataset({"truth": (dims, truth), "answer": (dims, answer), "flipped": (dims, truth != answer)}, coords)
    found = section_4_3.attack_steps(whole, [("transfer", "n-attack")])
    assert list(found) == ["transfer to n-attack"]
    assert metrics.images(found["transfer to n-attack"]).values.tolist() == [[[1, 1], [1, 1]]]
    assert section_4_3.accuracy_lost(found).squeeze().values.tolist() == [-100, 0]


def hot(readouts=("logits", "cosines"), seed=0):
    """Return outcomes under pgd-20 and temperature-pgd-20 as `run.answers` gives them, of pgd-at and pgd-he."""
    rng, size, images = np.random.default_rng(seed), 3, 60
    dims = {"defence": ["pgd-at", "pgd-he"], "seed": [0], "attack": ["clean", "pgd-20", "temperature-pgd-20"]}
    dims |= {
        "readout": list(readouts),
        "inverse": np.array(["", 2, 5], dtype=object),
        "form": ["", "stable", "published"],
        "image": np.arange(images),
    }
    shape = [len(one) for one in dims.values()]
    there = np.zeros(shape, dtype=bool)
    there[:, :, :2, 0, 0, 0] = True
    there[:, :, 2, 0, 1:, 1:] = True
    if len(readouts) > 1:
        there[1, :, 1, 1, 0, 0] = True
        there[1, :, 2, 1, 1:, 1:] = True
    truth = np.where(there, np.arange(images) % size, -1).astype("i2")
    answer = np.where(there, rng.integers(0, size, shape), -1).astype("i2")
    logits = np.where(there[..., None], rng.normal(size=(*shape, size)), np.nan).astype("f4")
    values = {"truth": truth, "answer": answer, "flipped": there & (truth != answer)}
    data = {name: (tuple(dims), value) for name, value in values.items()} | {"logits": ((*dims, "predicted"), logits)}
    whole = xr.Dataset(data, {**dims, "predicted": list("xyz")}, {"dataset": "digits", "scale": "quick"})
    return whole if len(readouts) > 1 else whole.isel(readout=0, drop=True)


def test_pgd_is_the_temperature_of_one_and_cosines_are_a_network_of_their_own():
    raw = hot()
    found = temperature.tempered(raw)
    assert list(found.defence.values) == ["pgd-at", "pgd-he", "pgd-he, cosines"]
    assert list(found.inverse.values) == ["1", "2", "5"]
    assert (found.truth >= 0).all()
    first = raw.answer.sel(defence="pgd-he", attack="pgd-20", readout="cosines", inverse="", form="")
    for form in ("stable", "published"):
        same = found.answer.sel(defence="pgd-he, cosines", form=form, inverse="1")
        np.testing.assert_array_equal(same.squeeze(), first.squeeze())
        other = raw.answer.sel(defence="pgd-at", attack="temperature-pgd-20", readout="logits", inverse=5, form=form)
        np.testing.assert_array_equal(found.answer.sel(defence="pgd-at", form=form, inverse="5").squeeze(), other.squeeze())
    assert list(temperature.tempered(hot(("logits",))).defence.values) == ["pgd-at", "pgd-he"]


def test_claims_hear_the_stable_form_and_the_cosines_of_he():
    raw = hot()
    named = judging.canonical_names(raw)
    assert not {"form", "readout"} & set(named.dims)
    found = temperature.tempered(raw).sel(form="stable")
    for name, ours in (("pgd-at", "pgd-at"), ("pgd-he", "pgd-he, cosines")):
        spoken = named.answer.sel(defence=name, attack="temperature-pgd-20", inverse=5)
        np.testing.assert_array_equal(spoken.squeeze(), found.answer.sel(defence=ours, inverse="5").squeeze())
    clean = named.answer.sel(attack="clean", inverse="")
    np.testing.assert_array_equal(clean, raw.answer.sel(attack="clean", inverse="", readout="logits", form=""))


def test_temperature_one_climbs_as_pgd_does(generator):
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10)).eval()
    x, y = torch.rand(20, 1, 8, 8, generator=generator), torch.arange(20) % 10
    one, other = (
        attacks.build(name, options)(model, x, y, Linf(0.1), torch.Generator().manual_seed(1))
        for name, options in (("pgd-20", {}), ("temperature-pgd-20", {"inverse": 1.0, "form": "stable"}))
    )
    assert (one - other).abs().max() < 1e-6


def test_readings_compare_cosines_with_the_scaled_network():
    found = temperature.tempered(hot()).sel(form="stable", drop=True)
    scaled, bare = (found.answer.sel(defence=name, drop=True) for name in ("pgd-he", "pgd-he, cosines"))
    found.answer.loc[{"defence": "pgd-he, cosines", "inverse": "5"}] = scaled.sel(inverse="1", drop=True)
    table = temperature.readings(found)
    assert table.index.tolist() == [("pgd-he", heat) for heat in ("1", "2", "5")]
    last = table.columns[-1]
    assert table.loc[("pgd-he", "5"), last] == "0"
    assert table.loc[("pgd-he", "1"), last] == str(int((scaled.sel(inverse="1") != bare.sel(inverse="1")).sum()))
    assert temperature.readings(temperature.tempered(hot(("logits",))).sel(form="stable", drop=True)).empty


def test_the_variance_of_confidence_has_the_interval_of_a_mean():
    found = temperature.tempered(hot()).sel(form="stable", inverse="1", drop=True)
    bounds = temperature.cvc_bounds(found)
    own = confidence.confidence_variance(found).sel(defence="pgd-at").squeeze("seed").values[0::3]
    assert float(bounds.sel(bound="value", defence="pgd-at", label="x")) == pytest.approx(own.mean(), rel=1e-5)
    reach = 1.959964 * stats.sem(own)
    assert float(bounds.sel(bound="high", defence="pgd-at", label="x")) == pytest.approx(own.mean() + reach, rel=1e-4)
    table = temperature.smoothness(bounds, aggregate.counts(found).sum("seed"))
    assert list(table.index) == ["pgd-at", "pgd-he", "pgd-he, cosines"]


def test_ours_stand_beside_theirs_setting_by_setting():
    theirs = TABLES.load(1)
    ours = published.counts(theirs.accuracy.sel(defence=["trades"]))
    table = published.compared_with_published(ours, theirs)
    assert len(table) == 20
    same = table.xs("trades", level="defence")
    for name in ("worst", "best", "MCD", "cat"):
        assert np.allclose(same[f"{name}, ours"].astype(float), same[f"{name}, theirs"].astype(float), atol=0.11), name
    assert (table.xs("mart", level="defence")["all, ours"] == "").all()
    assert "cat, ours" not in published.compared_with_published(RATES, theirs)
    heated = TABLES.load(3)
    heated = heated.assign_coords(inverse=heated.inverse.astype(str))
    assert len(published.compared_with_published(RATES.rename(attack="inverse"), heated, over=("defence", "inverse"))) == 5


def test_he_takes_the_place_that_it_has_in_the_paper():
    count = aggregate.counts(temperature.tempered(hot()).sel(form="stable", drop=True))
    found = temperature.as_published(count)
    assert list(found.defence.values) == ["pgd-at", "pgd-he"]
    np.testing.assert_array_equal(found.sel(defence="pgd-he"), count.sel(defence="pgd-he, cosines"))
    xr.testing.assert_equal(temperature.as_published(RATES), RATES)


def test_standings_have_a_cell_a_class_and_a_frame_where_it_is_sure():
    sure = intervals.relative_robustness(RATES)
    svg = drawn(heatmaps.accuracy_heatmap(RATES, sure))
    assert svg.count('aria-roledescription="rect mark"') == 12 + int((sure != 0).sum())


def test_spreads_and_temperatures_have_a_dot_for_every_setting():
    found = {name: bootstrap.bootstrap(RATES, metrics.METRICS[name], draws=50) for name in ("overall", "mcd")}
    assert drawn(dots.metric_dots(found)).count('aria-roledescription="point"') == 2 * 4
    heats = {name: one.rename(attack="inverse").assign_coords(inverse=["1", "50"]) for name, one in found.items()}
    chart = charts.temperature_curves(heats)
    assert drawn(chart).count('aria-roledescription="line mark"') == 2 * 2
    assert chart.to_dict()["concat"][0]["layer"][0]["encoding"]["x"]["scale"]["type"] == "log"


def test_losses_and_variances_are_drawn_class_by_class():
    change = section_4_3.accuracy_lost({"one": RATES.sel(attack=["fgsm", "pgd-20"])})
    assert drawn(charts.accuracy_change(change, row="step")).count('aria-roledescription="rect mark"') == 6
    bounds = temperature.cvc_bounds(temperature.tempered(hot()).sel(form="stable", inverse="1", drop=True))
    assert drawn(charts.variance_bars(bounds)).count('aria-roledescription="bar"') == 9


def test_tables_are_stacked_by_name():
    table = tables.stacked({"a": pd.DataFrame({"p": [1.0]}), "b": pd.DataFrame({"p": [0.0]})}, "network")
    assert table.loc["b", "p"].tolist() == [0.0]
    assert table.index.names[0] == "network"


def test_the_papers_steps_are_those_of_its_section():
    asked = {
        name: registry.request(f"tian2021/{name}", "paper")
        for name in ("4-1-class-bias", "4-3-attacks-and-defences", "5-temperature-pgd")
    }
    steps = {name: [one.attack for one in request.evaluations] for name, request in asked.items()}
    assert steps["4-1-class-bias"][-1] == "pgd-20@tian2021-a1"
    assert steps["4-3-attacks-and-defences"][-1] == steps["5-temperature-pgd"][-1] == "pgd-20@tian2021"
    rows = {one.attack: one for one in asked["4-3-attacks-and-defences"].extra_evaluations["mart"]}
    assert rows["cw@tian2021"].per_class == rows["n-attack@tian2021"].per_class == 200
    assert rows["pgd-20@tian2021"].substitute == "standard"
    assert dict(rows["n-attack@tian2021"].options) == {}
    short = {one.attack: one for one in registry.request("tian2021/4-3-attacks-and-defences", "short").extra_evaluations["mart"]}
    assert short["n-attack"].options["population"] == 100
    assert dict(short["cw"].options) == {"goal": "inside"}


def test_courses_name_the_best_and_the_worst_class_of_each_dataset():
    rates = xr.DataArray(
        [[10.0, 20, 30], [90, 50, 20]],
        dims=("epoch", "label"),
        coords={"epoch": [1, 5], "label": ["cat", "dog", "frog"]},
    )
    many = xr.DataArray(np.linspace(0, 100, 80).reshape(2, 40), dims=("epoch", "label"))
    many = many.assign_coords(epoch=[1, 2], label=[f"class {number}" for number in range(40)])
    spec = charts.class_curves({"mnist": rates, "cifar100": many}).to_dict()
    first, second = spec["concat"]
    assert first["title"]["subtitle"] == "70 points between cat and frog at the end"
    assert [one["title"]["text"] for one in spec["concat"]] == ["mnist", "cifar100"]
    assert "range" in str(first["layer"][1]["encoding"]["color"])
    assert second["layer"][1]["encoding"]["color"] == {"value": "#8aa"}


def test_mistakes_within_superclasses_are_counted_where_there_are_any():
    theirs = charts.superclass_table("digits", {})
    assert list(theirs.iloc[:, 0]) == ["86", "87"]
    names = list(datasets.superclasses("stl10"))
    same = np.array(datasets.superclass_numbers(names))
    table = np.where(same[:, None] == same, 5, 0) + 50 * np.eye(10, dtype=int)
    count = xr.DataArray(table, dims=("label", "predicted"), coords={"label": names, "predicted": names})
    mine = charts.superclass_table("stl10", {"pgd-at": count})
    assert mine.iloc[0, 0] == "100"
    assert mine.loc["stl10, pgd-at", "p"] == "< .001"
    assert "animals | bird, cat, deer, dog, horse, monkey" in datasets.superclass_table("stl10")
    assert datasets.superclass_table("cifar100").count("cifar100") == 20
    with pytest.raises(UserError, match="classes 0, 1 have no superclasses; those of these datasets do: cifar10"):
        datasets.superclass_numbers(["0", "1"])
