"""Section 5: how smooth the confidences are, and what Temperature-PGD breaks."""

import claim_answers
import mocks
import numpy as np
import pytest
import xarray as xr
from claim_answers import FALLING, FOUR, FROM_ROBUST, FROM_WEAK, HALVES, RISING, SINGLES, STEEPS, UP, WEAK, at, outcomes_with

from classwise.papers import judging
from classwise.papers.tian2021 import temperature

OF_KIND = np.array([5, 5, 1, 1, 0.5, 1, 1, 1, 5, 5])
DEERS, CATS = at(0.5, 4, rest=at(1, 3, rest=OF_KIND + 2)), at(0.5, 3, rest=at(1, 4, rest=OF_KIND + 2))


def of_defences(*sharp):
    return np.array(sharp, dtype=float)[:, None, None]


def sharp_in(*sharp, odd=None):
    """Return networks that are so sure of each class, the third of them otherwise."""
    return outcomes_with(STEEPS, np.array([*sharp] * 4 if odd is None else [sharp[0], sharp[0], odd, sharp[0]])[:, None])


def in_both(*sharp, cosines):
    """Return networks with their logits, and HE once more with its cosines."""
    whole = outcomes_with(STEEPS, of_defences(*sharp)).expand_dims(readout=["logits", "cosines"]).copy(deep=True)
    whole.logits[{"readout": 1}] *= cosines / sharp[-1]
    whole["truth"] = whole.truth.where((whole.readout == "logits") | (whole.defence == FOUR[-1]), -1).astype("i2")
    return whole


def heated(*lost, he="pgd-he", usual=UP):
    """Return what each defence loses to Temperature-PGD beyond PGD at inverse temperatures of 2 and 50; at 5 and 10 as at 2."""
    found = {}
    for name, some in zip((*FOUR[:3], he), lost, strict=True):
        found[name, "pgd-20", ""] = usual
        grid = {heat: some[heat == "50"] for heat in ("2", "5", "10", "50")}
        found |= {(name, "temperature-pgd-20", heat): usual - less for heat, less in grid.items()}
    return outcomes_with(found, along=(*claim_answers.ALONG, "inverse"), times=3)


WEAK_AT_2, WEAK_AT_50 = (FROM_WEAK, 3), (3, FROM_WEAK)
ROBUST_AT_2, ROBUST_AT_50 = (FROM_ROBUST, 3), (3, FROM_ROBUST)
# At 50 the weak lose, but less than the robust do at 2.
NOT_AT_BEST = (FROM_ROBUST, np.where(WEAK, 12, 0))
WIDER, NARROWER = heated(*[WEAK_AT_2, WEAK_AT_50] * 2), [heated(*[ROBUST_AT_50] * 4), heated(*[WEAK_AT_2] * 3, NOT_AT_BEST)]
HEATED_TO_SINGLES, HEATED_TO_HALVES = (
    heated(*[(0, HALVES - SINGLES)] * 4, usual=HALVES),
    heated(*[(SINGLES - HALVES + 10, 0)] * 4, usual=SINGLES),
)


# For each claim: answers on which it must hold, and answers on which it must fail.
EXTREMES = {
    "smooth-where-weak": ([sharp_in(RISING)], [sharp_in(FALLING)]),
    "smooth-where-weak-clean": claim_answers.STEEPER,
    "animals-smoother": (
        [sharp_in(OF_KIND), sharp_in(at(6, 6, rest=OF_KIND))],
        [sharp_in(6 - OF_KIND), sharp_in(at(6, 8, rest=6 - OF_KIND)), sharp_in(OF_KIND, odd=6 - OF_KIND)],
    ),
    "deer-and-cat-smoothest": (
        [sharp_in(DEERS), sharp_in(CATS), sharp_in(DEERS, odd=CATS)],
        [sharp_in(6 - DEERS), sharp_in(DEERS, odd=at(0.5, 4, 2, rest=DEERS + 1))],
    ),
    "deer-smoothest": ([sharp_in(DEERS)], [sharp_in(6 - DEERS), sharp_in(CATS), sharp_in(DEERS, odd=CATS)]),
    "he-smoothest": (
        [in_both(5, 5, 5, 1, cosines=1), in_both(5, 5, 5, 5, cosines=1)],
        [in_both(5, 5, 5, 5, cosines=5), in_both(5, 5, 1.2, 1, cosines=1), in_both(5, 5, 5, 1, cosines=5)],
    ),
    "he-smoothest-scaled": (
        [in_both(5, 5, 5, 1, cosines=1), in_both(5, 5, 5, 1, cosines=5)],
        [in_both(1, 5, 5, 5, cosines=5), in_both(5, 5, 1.2, 1, cosines=1), in_both(5, 5, 5, 5, cosines=1)],
    ),
    "breaks-more": (
        [heated((9, -5), (-5, 9), (9, 5), (5, 9)), heated((0, 9), (9, 0), (9, 0), (0, 9), he="trades-he")],
        [heated((30, 30), (30, 30), (-3, -6), (30, 30)), heated(*[(-4, -5)] * 4)],
    ),
    "larger-cv": ([WIDER, HEATED_TO_HALVES], [*NARROWER, HEATED_TO_SINGLES]),
    "larger-mcd": ([WIDER, HEATED_TO_SINGLES], [*NARROWER, HEATED_TO_HALVES]),
    "hits-vulnerable": (
        [WIDER, heated(*[(0, claim_answers.BUT_ONE_ROBUST)] * 4)],
        [heated(*[ROBUST_AT_2] * 4), heated(*[NOT_AT_BEST] * 4), heated(*[(claim_answers.BUT_ONE_WEAK, 0)] * 4)],
    ),
    "he-loses-most": (
        [heated((2, 1), (20, 9), (20, 9), (3, 12)), heated((-2, -1), (20, 9), (20, 9), (3, 12), he="trades-he")],
        [heated((9, 12), (0, 0), (0, 0), (1, 2))],
    ),
    "plain-hardly-loses": ([heated((0, -3), *[(20, 9)] * 3), heated((-3, -5), *[(20, 9)] * 3)], [heated((0, 5), *[(0, 0)] * 3)]),
    "plain-steepest": (
        [in_both(5, 3, 3, 1, cosines=1), in_both(5, 3, 3, 6, cosines=1)],
        [in_both(3, 5, 3, 3, cosines=1), in_both(3, 2, 5, 2, cosines=1), in_both(3, 2, 2, 2, cosines=5)],
    ),
    "he-loses": (
        [heated(*[(0, 0)] * 3, (1, 9)), heated(*[(0, 0)] * 3, (9, 1), he="trades-he")],
        [heated(*[(20, 20)] * 3, (0, -3))],
    ),
    "he-loses-cat": ([heated(*[(0, 0)] * 3, (0, at(9, 3)))], [heated(*[(20, 20)] * 3, (0, at(0, 3, rest=9)))]),
    "he-loses-deer": ([heated(*[(0, 0)] * 3, (0, at(9, 4)))], [heated(*[(20, 20)] * 3, (0, at(0, 4, rest=9)))]),
    "he-loses-the-vulnerable": ([heated(*[ROBUST_AT_2] * 3, WEAK_AT_50)], [heated(*[WEAK_AT_2] * 3, ROBUST_AT_50)]),
}


def hot(readouts=("logits", "cosines")):
    """Return outcomes under pgd-20 and temperature-pgd-20 as `run.answers` gives them, of pgd-at and pgd-he."""
    rng, size, images = np.random.default_rng(0), 3, 60
    dims = {"defence": ["pgd-at", "pgd-he"], "seed": [0], "attack": ["clean", "pgd-20", "temperature-pgd-20"]}
    dims |= {"readout": list(readouts), "inverse": np.array(["", 2, 5], dtype=object), "form": ["", "stable", "published"]}
    dims["image"] = np.arange(images)
    shape = [len(one) for one in dims.values()]
    there = np.zeros(shape, dtype=bool)
    # Only the second network has cosines, and no clean images with them.
    for readout, defences in enumerate((slice(None), slice(1, None))[: len(readouts)]):
        there[defences, :, readout:2, readout, 0, 0] = True
        there[defences, :, 2, readout, 1:, 1:] = True
    truth = np.where(there, np.arange(images) % size, -1)
    answer = np.where(there, rng.integers(0, size, shape), -1)
    data, attrs = mocks.answers(dims, truth, answer), {"dataset": "digits", "scale": "quick"}
    whole = xr.Dataset(data, {**dims, "predicted": list("xyz")}, attrs)
    return whole if len(readouts) > 1 else whole.isel(readout=0, drop=True)


def test_claims_use_the_stable_form_and_the_cosines_of_he():
    raw = hot()
    named = judging.canonical_names(raw)
    assert not {"form", "readout"} & set(named.dims)
    found = temperature.stack_temperatures(raw, (2, 5)).sel(form="stable")
    for name, ours in (("pgd-at", "pgd-at"), ("pgd-he", "pgd-he, cosines")):
        spoken = named.prediction.sel(defence=name, attack="temperature-pgd-20", inverse=5)
        np.testing.assert_array_equal(spoken.squeeze(), found.prediction.sel(defence=ours, inverse="5").squeeze())
    clean = named.prediction.sel(attack="clean", inverse="")
    np.testing.assert_array_equal(clean, raw.prediction.sel(attack="clean", inverse="", readout="logits", form=""))


def test_pgd_is_the_temperature_of_1_and_cosines_are_a_further_network():
    raw = hot()
    found = temperature.stack_temperatures(raw, (2, 5))
    assert list(found.defence.values) == ["pgd-at", "pgd-he", "pgd-he, cosines"]
    assert list(found.inverse.values) == ["1", "2", "5"]
    assert (found.truth >= 0).all()
    first = raw.prediction.sel(defence="pgd-he", attack="pgd-20", readout="cosines", inverse="", form="")
    for form in ("stable", "published"):
        same = found.prediction.sel(defence="pgd-he, cosines", form=form, inverse="1")
        np.testing.assert_array_equal(same.squeeze(), first.squeeze())
        other = raw.prediction.sel(defence="pgd-at", attack="temperature-pgd-20", readout="logits", inverse=5, form=form)
        np.testing.assert_array_equal(found.prediction.sel(defence="pgd-at", form=form, inverse="5").squeeze(), other.squeeze())


def test_a_network_without_the_whole_grid_is_left_out():
    raw = hot(("logits",))
    assert list(temperature.stack_temperatures(raw, (2, 5)).defence.values) == ["pgd-at", "pgd-he"]
    raw.truth.loc[{"defence": "pgd-he", "inverse": 5}] = -1
    assert list(temperature.stack_temperatures(raw, (2, 5)).defence.values) == ["pgd-at"]
    with pytest.raises(KeyError, match="inverse"):
        temperature.stack_temperatures(raw, (2, 50))
    with pytest.raises(KeyError, match="'attack'"):
        temperature.stack_temperatures(raw.sel(attack=["clean", "pgd-20"]), (2, 5))


def test_only_images_that_both_attacks_were_asked_about_count_as_different():
    """Predictions stand also where the truth is masked because the other attack did not run."""
    names = ["pgd-he", temperature.combine.network_name("pgd-he", temperature.COSINES)]
    prediction = np.zeros((2, 2, 1, 4), int)
    prediction[1, 0, 0, :2], prediction[1, 1, 0, 1:] = 1, 1
    dims, truth = ("defence", "inverse", "seed", "image"), np.broadcast_to([0, 0, -1, -1], prediction.shape)
    data = xr.Dataset({"truth": (dims, truth), "prediction": (dims, prediction)}, {"defence": names, "inverse": ["1", "10"]})
    found = temperature.cosines_of_he(data)
    assert (found["heat"].item(), found["number"].item(), found["all"].item()) == ("10", 1, 2)
    assert temperature.cosines_of_he(data.isel(defence=[1])) == {}
