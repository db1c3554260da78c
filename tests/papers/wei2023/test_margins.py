"""Section 3.1: networks trained at several radii."""

from itertools import product

import mocks
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from claim_answers import CLASS, judged, outcomes_with

from classwise.core.datasets import class_names
from classwise.papers import registry
from classwise.papers.wei2023 import margins, sweeps

HARD = np.isin(CLASS, (2, 3, 4, 5))
MARGINS = ("1/2", "1", "3/2")
OTHER = {"clean": "pgd-20", "pgd-20": "clean"}
HIGH = (95, 95)


def marked(data):
    return data.assign_coords(hard=("predicted", HARD), easy=("predicted", ~HARD))


def groups(*pairs):
    """Return accuracies of the classes from pairs of those of hard and of easy ones."""
    return [np.where(HARD, hard, easy) for hard, easy in pairs]


def trained(tables, attack="pgd-20"):
    """Return outcomes at three margins under an attack; under the other one they are in reverse order."""
    keys = {("pgd-at", attack, margin): table for margin, table in zip(MARGINS, tables, strict=True)}
    keys |= {("pgd-at", OTHER[attack], margin): table for margin, table in zip(MARGINS, tables[::-1], strict=True)}
    return marked(outcomes_with(keys, along=("defence", "attack", "margin")))


def both_ways(first, second, attack="pgd-20"):
    return [trained(first, attack)], [trained(second, attack)]


def long(best, last):
    """Return outcomes of the best epoch and of the last one at the usual radius and at half more."""
    tables = {"best": best, "last": last}
    keys = {
        ("pgd-at", "pgd-20", margin, name): table
        for name, both in tables.items()
        for margin, table in zip(("1", "3/2"), both, strict=True)
    }
    return marked(outcomes_with(keys, along=("defence", "attack", "margin", "checkpoint")))


ONE_FALLS = np.where(CLASS == 7, 30, 90)
# For each claim: answers on which it must hold, and answers on which it must fail.
EXTREMES = {
    "smaller-radius-too-weak": both_ways([40, 70, 20], [70, 40, 90]),
    "larger-radius-best": ([long((60, 50), (40, 80))], [long((50, 70), (80, 40))]),
    "larger-radius-last": ([long((80, 40), (40, 60))], [long((40, 80), (60, 40))]),
    "easy-classes-rise": (
        [trained(groups((80, 40), (60, 60), (20, 80)))],
        [trained(groups((20, 40), (60, 80), (80, 60))), trained(groups((20, 80), (60, 60), (80, 40)))],
    ),
    "hard-classes-drop": both_ways(groups((20, 90), (70, 40), (40, 80)), groups((90, 20), (40, 80), (70, 40))),
    # Both groups fall in one case, and both rise in the other.
    "hard-less-than-easy": both_ways(groups((20, 90), (80, 80), (40, 70)), groups((90, 20), (40, 40), (80, 50))),
    "strong-attacks-harm-hard": both_ways(groups(HIGH, (20, 95), (60, 90)), groups(HIGH, (95, 20), (90, 60)), attack="clean"),
    "every-class-rises-last": ([long((90, 40), (40, 70))], [long((40, 90), (60, ONE_FALLS)), long((40, 90), (70, 40))]),
}


FEW = trained(groups((80, 40), (60, 60), (20, 80))).sel(margin=["1", "3/2"])
REFUSED = [("easy-classes-rise", FEW, "needs each defence at margin 1/2")]


def test_a_claim_on_two_radii_needs_no_third():
    assert judged("hard-classes-drop", FEW).verdict == "holds"


def test_the_best_epoch_stands_next_to_the_last(trainings):
    plain, swept = trainings
    best = [one.sel(attack=["pgd-20"], eval_eps="0.2", drop=True) for one in trainings]
    best = [best[0], best[1].sel(eps="0.3", drop=True).assign_attrs(eps="0.3")]
    with pytest.raises(KeyError):
        margins.best_and_last(plain, swept.sel(eps=["0.1"]), *best)
    assert margins.select_best_phase(plain, swept, None, best[1]).identical(margins.select_best_phase(plain, swept))
    assert margins.select_best_phase(plain, swept, *best).margin.values.tolist() == ["1", "3/2"]
    joined = margins.best_and_last(plain, swept, *best)
    assert (list(joined.checkpoint.values), list(joined.margin.values)) == (["last", "best"], ["1", "3/2"])
    assert (list(joined.attack.values), joined.attrs["dataset"]) == (["pgd-20"], "cifar10")
    assert joined.hard.values.tolist() == HARD.tolist()
    name = "every-class-rises-last"
    verdicts = registry.judge(margins.NAME, {"best and last": joined}, dataset="cifar10", strict=False)
    (found,) = (one for one in verdicts if one.claim.name == name)
    assert (found.verdict, found.effect) == ("described", -20)  # trained once


CIFAR10 = list(class_names("cifar10"))


def _outcomes(rates, seeds=(0,)):
    """Return outcomes of networks trained at some radii, from the accuracies of hard and of easy classes at each."""
    judged = list(product(("clean", "pgd-20"), ("0.2", "0.1")))
    keys = {("pgd-at", eps, *at): np.where(HARD, *both) for eps, both in rates.items() for at in judged}
    data = outcomes_with(keys, along=("defence", "eps", "attack", "eval_eps"))
    data = data.expand_dims(seed=list(seeds)).assign_coords(predicted=CIFAR10)
    plain = data.drop_vars(["vulnerable", "partner", "background"]).transpose("defence", "seed", ...)
    return plain.assign_attrs(dataset="cifar10", eps=", ".join(rates))


@pytest.fixture
def trainings():
    """Outcomes at the radius .2 of two seeds, and at two other radii of one of them."""
    plain = _outcomes({"0.2": (60, 60)}, seeds=(0, 1)).isel(eps=0, drop=True)
    return plain, _outcomes({"0.3": (40, 90), "0.1": (30, 50)}, seeds=(1,))


def test_radii_are_joined_in_rising_order_for_the_seeds_that_all_have(trainings):
    joined = sweeps.stack_radii(*trainings)
    assert list(joined.eps.values) == ["0.1", "0.2", "0.3"]
    assert (joined.seed.values.tolist(), joined.attrs["eps"]) == ([1], "0.2")
    judged = sweeps.stack_margins(joined)
    assert list(judged.margin.values) == ["1/2", "1", "3/2"]
    assert (judged.hard.values.tolist(), "eval_eps" in judged.dims) == (HARD.tolist(), False)
    # Where a single radius was judged, or a single other one trained.
    plain, swept = (one.sel(eval_eps="0.2", drop=True) for one in trainings)
    single = swept.sel(eps="0.3", drop=True).assign_attrs(eps="0.3")
    assert list(sweeps.stack_radii(plain, single).eps.values) == ["0.2", "0.3"]
    assert list(sweeps.stack_radii(plain, swept).eval_eps.values) == ["0.2"]


def _of_radius(swept):
    """Return which number of steps the networks of each of two radii are trained against."""
    steps = xr.DataArray([2, 3], {"attack_steps": [2, 3]}, ("attack_steps",))
    return xr.DataArray([3, 2], {"eps": swept.eps}, ("eps",)) == steps


def test_networks_of_a_larger_radius_may_be_trained_against_more_steps(trainings):
    plain, swept = trainings
    apart = swept.assign(truth=xr.where(_of_radius(swept), swept.truth, -1).transpose(..., "image"))
    assert sweeps.stack_radii(plain, apart).identical(sweeps.stack_radii(plain, swept))


def _histories():
    """Return the histories of one radius with two seeds, and of two others with one, measured at other epochs."""
    parts = [mocks.dataset(seed=seed).expand_dims(defence=["pgd-at"]) for seed in range(4)]
    plain = xr.concat(parts[:2], pd.Index([0, 1], name="seed"))
    swept = xr.concat(parts[2:], pd.Index(["0.3", "0.1"], name="eps")).expand_dims(seed=[1])
    return plain, swept.assign(count=swept["count"].where(swept.epoch != 2, 0))


def test_the_course_of_all_radii_is_that_of_the_epochs_and_seeds_that_they_share():
    plain, swept = _histories()
    count = margins.course_counts(plain, swept, "0.2")
    assert list(count.eps.values) == ["0.1", "0.2", "0.3"]
    attacked = count.sel(images_are="attacked", split="test")
    of_plain, of_swept = (data["count"].isel(defence=0).sel(seed=1, split="test", attack="pgd-10") for data in (plain, swept))
    assert np.array_equal(attacked.sel(eps="0.2"), of_plain)
    assert np.array_equal(attacked.sel(eps="0.1"), of_swept.sel(eps="0.1"))
    assert not attacked.sel(eps="0.1", epoch=2).any()
    # The steps of the attack may follow the radius; other combinations count nothing.
    apart = swept.assign(count=swept["count"].where(_of_radius(swept), 0))
    assert margins.course_counts(plain, apart, "0.2").equals(count)
