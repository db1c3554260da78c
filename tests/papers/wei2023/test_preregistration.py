"""The preregistered comparison of CFA, on simulated trainings."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from classwise.papers import registry
from classwise.papers.wei2023 import preregistration as plan

# Standard deviations over trainings: on 1,000 images of all classes, and on 3,000 of three.
SPREAD = (0.73, 0.36)


def simulated(rng, gains=None, trainings=5):
    """Return rates of trainings; gains: of a method over all others, in points, on all classes and on three."""
    noise = rng.normal(size=(2, len(plan.COMPARED), trainings)) * np.array(SPREAD)[:, None, None]
    dims = {"images": list(plan.IMAGES), "defence": list(plan.COMPARED), "seed": range(trainings)}
    rate = xr.DataArray(50 + noise, dims, list(dims))
    for name, points in (gains or {}).items():
        rate.loc[{"defence": name}] += xr.DataArray(list(points), dims="images")
    return rate


def test_the_primaries_are_cfa_over_its_base_and_over_ema_on_both_sets_of_images():
    table = plan.comparisons(simulated(np.random.default_rng(0)))
    assert len(table) == 8
    assert set(table["first"]) == {"AT + CFA", "TRADES + CFA"}
    assert set(table.second) == {"AT", "AT + EMA", "TRADES", "TRADES + EMA"}
    assert plan.COMPARED["AT + CFA"] == ("at-ccm", "fawa")
    assert plan.COMPARED["TRADES + CFA"] == ("trades-ccm-ccr", "fawa")
    assert plan.COMPARED["AT + CCM + sham"] == ("at-ccm", "sham")
    assert all({*pair} <= set(plan.COMPARED) for pair in (*plan.PRIMARIES, *plan.SECONDARIES))


def test_without_a_difference_all_tests_together_rarely_find_one_and_a_gain_as_the_paper_prints_is_found():
    rng, wrong, found, equal = np.random.default_rng(1), 0, 0, 0
    gains = {"AT + CFA": (0.0, 2.5), "TRADES + CFA": (0.0, 2.5)}
    for _ in range(100):
        first = plan.decisions(plan.comparisons(simulated(rng)), plan.LOOKS[5])
        wrong += first.isin(["higher", "lower"]).any()
        table = plan.comparisons(simulated(rng, gains))
        words = plan.decisions(table, plan.LOOKS[5])
        found += (words[table.images == plan.IMAGES[1]] == "higher").all()
        equal += (words[table.images == plan.IMAGES[0]] == "higher").any()
    assert wrong / 100 <= 1.5 * plan.LOOKS[5]
    assert found / 100 >= 0.8
    assert equal / 100 <= 1.5 * plan.LOOKS[5]


def test_a_difference_is_called_by_its_sign_and_one_within_a_point_equal():
    rng = np.random.default_rng(2)
    table = plan.comparisons(simulated(rng, {"AT + CFA": (-4.0, 4.0)}, 8))
    words = plan.decisions(table, plan.LOOKS[8])
    of_at = words[(table["first"] == "AT + CFA")]
    assert of_at.tolist() == ["lower", "higher"] * 2
    low, high = table.loc[0, ["low", "high"]]
    assert low < table.difference[0] < high
    narrow = 50 + (simulated(rng, trainings=8) - 50) / 10
    assert set(plan.decisions(plan.comparisons(narrow), plan.LOOKS[8])) == {"equal"}
    wide = 50 + (simulated(rng) - 50) * 10
    assert set(plan.decisions(plan.comparisons(wide), plan.LOOKS[5])) == {"open"}


def test_methods_that_share_their_trainings_are_compared_in_pairs():
    rate = simulated(np.random.default_rng(5)) + xr.DataArray(10.0 * np.arange(5), {"seed": range(5)})
    table = plan.comparisons(rate, plan.SECONDARIES)
    assert (table.high - table.low).max() < 5
    assert (plan.comparisons(rate).high - plan.comparisons(rate).low).min() > 20


def test_the_second_look_comes_only_where_the_first_left_something_open_and_changes_nothing_that_is_decided():
    rng = np.random.default_rng(6)
    rate = simulated(rng, {"AT + CFA": (0.0, 4.0)}, 8)
    assert plan.looks(rate.isel(seed=slice(4))) == []
    assert len(plan.looks(rate.isel(seed=slice(7)))) == 1
    first, second = plan.looks(rate)
    assert first.runs.tolist() == [5] * 8
    assert second.runs.tolist() == [8] * 8
    known = first.result != "open"
    assert known.any()
    assert first.result[known].equals(second.result[known])
    assert len(plan.looks(50 + (rate - 50) / 20)) == 1
    # A training that was refused is replaced by that of the next seed, in all arms.
    rate.loc[{"seed": 2, "defence": "TRADES"}] = np.nan
    (look,) = plan.looks(rate.isel(seed=slice(6)))
    assert look.difference[0] == pytest.approx(plan.comparisons(rate.sel(seed=[0, 1, 3, 4, 5])).difference[0])


def test_trainings_whose_gate_took_few_or_nearly_all_epochs_are_left_out_of_the_second_analysis():
    rate, arms = simulated(np.random.default_rng(3)), ["pgd-at", "at-ccm", "trades", "trades-ccm-ccr"]
    taken = np.zeros((4, 5, 200, 2), bool)
    taken[..., 50:, 0] = taken[..., 120:, 1] = True
    coords = {"defence": arms, "seed": range(5), "epoch": range(1, 201), "average": ["ema", "fawa"]}
    history = xr.Dataset({"taken": (tuple(coords), taken)}, coords)
    assert float(plan.accepted_share(history).min()) == pytest.approx(0.8)
    assert plan.apply_gate(rate, plan.accepted_share(history)).identical(rate)
    taken[1, 2, 100:, 1] = True
    kept = plan.apply_gate(rate, plan.accepted_share(history))
    assert kept.isnull().sum() == 2 * 4  # each checkpoint of that training
    assert kept.sel(seed=2, defence=["AT + CCM", "AT + CFA", "AT + CCM + EMA", "AT + CCM + sham"]).isnull().all()
    table = plan.report({"preregistered": rate.to_dataset(name="rate")}, history)
    assert "FAWA accepted 80 to 100 % of epochs 101 to 200" in table
    taken[3, 4] = False  # not trained
    assert plan.accepted_share(history).isnull().sum() == 1
    assert (table.count("<table"), table.count("<tr>")) == (2, 8 + 2 * len(plan.SECONDARIES))


def test_rates_are_shares_of_right_images_by_method_and_nothing_is_compared_before_all_are_there():
    request = registry.request("wei2023/5-2-robustness-and-fairness", "matched")
    rng, rows = np.random.default_rng(4), {}
    for images in plan.IMAGES:
        part = request.parts[images]
        assert {spec.seed for spec in part.specs} == {0, 1, 2, 3, 4}
        (evaluation,) = part.evaluations
        assert (evaluation.attack, evaluation.classes) == ("strong", plan.HARD if images == plan.IMAGES[1] else ())
        assert evaluation.per_class == (None if evaluation.classes else 100)
        places = ["last", "ema", "fawa", "sham"]
        dims = {"defence": list(dict.fromkeys(spec.defence for spec in part.specs)), "seed": range(5), "attack": ["strong"]}
        sizes = (len(dims["defence"]), 5, 1, len(places), 200)
        truth = np.broadcast_to(np.arange(200) % 10, sizes).copy()
        answer = np.where(rng.random(sizes) < 0.5, truth, (truth + 1) % 10)
        names = (*dims, "checkpoint", "image")
        rows[images] = xr.Dataset({"truth": (names, truth), "prediction": (names, answer)}, dims | {"checkpoint": places})
    found = plan.rates(*rows.values())
    one = rows[plan.IMAGES[0]].sel(defence="at-ccm", checkpoint="fawa", seed=3, attack="strong")
    expected = 100 * float((one.truth == one.prediction).mean())
    assert found.rate.sel(defence="AT + CFA", seed=3, images=plan.IMAGES[0]).item() == pytest.approx(expected)
    assert plan.report({}).startswith("<p>0 of 5 runs of each arm are recorded.")
    assert plan.report({"preregistered": found.isel(seed=slice(4))}).startswith("<p>4 of 5 runs")


def test_other_scales_have_no_runs_of_it():
    for scale in ("quick", "laptop", "short"):
        parts = registry.request("wei2023/5-2-robustness-and-fairness", scale).parts
        assert not any(parts[name].specs for name in plan.PARTS)
    assert replace(plan.PARTS["renewed"], title="").evaluations[0].attack == "pgd-20"
