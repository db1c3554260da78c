"""Section 3.2 of Benz et al., features: sets of rebuilt images, their networks, and what the claims say of them."""

import numpy as np
import pytest
import xarray as xr
from claim_answers import CLASS, at, judged, outcomes_with

from classwise.core.errors import NotRecorded
from classwise.papers.benz2020 import robust_features
from classwise.papers.benz2020.robust_features import ADVERSARIAL, ATTACKS, LEANING, NON_ROBUST, RANDOM, ROBUST, STANDARD

NAME = robust_features.NAME
NAMES = (STANDARD, ADVERSARIAL, ROBUST, NON_ROBUST, RANDOM)
ALIKE, APART = np.full(10, 70), at(30, *CLASS[:5], rest=95)


def sets(clean, attacked=(60, 80, 60, 20, 5), times=1):
    """Return outcomes of all networks from how many of a hundred images of each class are right, clean and at each radius.

    times: so many times a hundred images.
    """
    tables = {(name, "clean"): right for name, right in zip(NAMES, clean, strict=True)}
    tables |= {(name, attack): right for name, right in zip(NAMES, attacked, strict=True) for attack in ATTACKS}
    return outcomes_with(tables, times=times)


USEFUL = sets((95, 95, 80, 70, 40))
# Those that no claim is about say the opposite.
USELESS = sets((10, 10, 10, 70, 40))
EXTREMES = {
    "robust-features-useful": ([USEFUL, sets((10, 10, 80, 5, 5))], [sets((95, 95, 4, 70, 40)), sets((95, 95, 2, 90, 90))]),
    "non-robust-features-useful": ([USEFUL, sets((10, 10, 5, 70, 40))], [sets((95, 95, 80, 4, 40)), sets((95, 95, 80, 70, 4))]),
    "only-robust-set-robust": ([USEFUL, sets((95, 95, 20, 90, 90))], [sets((95, 95, 80, 70, 40), (60, 80, 20, 60, 5))]),
    "both-unequal": (
        [sets((70, 70, APART, APART, 70)), sets((70, 70, APART, APART[::-1], 70))],
        [sets((APART, APART, ALIKE, ALIKE, APART), times=10), sets((70, 70, APART, ALIKE, 70), times=10)],
    ),
}


@pytest.mark.parametrize("data", [sets((95, 95, 80, 70, 10)), sets((95, 95, 80, 10, 40)), USELESS])
def test_chance_is_not_useful(data):
    name = "robust-features-useful" if data is USELESS else "non-robust-features-useful"
    assert judged(name, data).verdict != "holds"


def evaluated(radii, attack="pgd-20"):
    """Return outcomes along attack and eval_eps, 10, 20, ... % right at each radius; clean images at the first one alone."""
    tables = {("standard", "clean", radii[0]): 90} | {("standard", attack, one): 10 * n for n, one in enumerate(radii, 1)}
    return outcomes_with(tables, along=("defence", "attack", "eval_eps"))


def test_each_radius_is_an_attack_whatever_their_order():
    data = robust_features.stack_radii(evaluated(("2/255", "4/255", "1/255"), "pgd-20@tian2021-a1"))
    assert list(data.attack.values) == ["clean", *ATTACKS]
    right = (data.prediction == data.truth).sel(attack=list(ATTACKS)).mean(["defence", "image"])
    assert right.values == pytest.approx([0.3, 0.1, 0.2])
    assert bool((data.truth >= 0).all())
    assert list(robust_features.stack_radii(evaluated(("0.1", "0.2"))).attack.values)[1:] == ["pgd-20 at 0.1", "pgd-20 at 0.2"]


def images(kind="features", seed=0, label_shift=0):
    """Return what is known of 40 rebuilt images, of which a quarter is closer to its start."""
    rng, truth = np.random.default_rng(seed), (np.arange(40) % 10).astype("i2")
    far = np.where(np.arange(40) % 4 == 0, 9.0, 1.0).astype("f4")
    perturbed = kind != "features"
    values = {
        "truth": ("image", (truth + label_shift) % 10),
        "original": ("image", truth if perturbed else (truth + 3) % 10),
        "prediction": ("image", (truth + label_shift) % 10),
        "to_target": ("image", far),
        "to_start": ("image", far if perturbed else np.full(40, 5, "f4")),
        "apart": ("image", np.zeros(40, "f4") if perturbed else np.full(40, 10, "f4")),
        "pixels": (("shown", "form", "channel", "row", "column"), rng.random((40, 3, 1, 8, 8)).astype("f4")),
    }
    coords = {"image": np.arange(40) + 7, "shown": np.arange(40) + 7, "form": ["target", "start", "rebuilt"]}
    return xr.Dataset(values, coords | {"predicted": [str(number) for number in range(10)]})


MADE = {ROBUST: [images(), images(seed=1)], RANDOM: [images("random", label_shift=1)]}


def test_pictures_are_of_the_same_images_in_all_rows_with_their_labels():
    rows, captions = robust_features.pictures(MADE)
    assert list(rows) == list(captions) == ["original", "start", "robust", RANDOM]
    assert {tuple(row.image.values) for row in rows.values()} == {tuple(range(7, 17))}
    digits = [str(number) for number in range(10)]
    shifted = [str((number + 1) % 10) for number in range(10)]
    assert [captions[name] for name in ("original", "robust", RANDOM)] == [digits, digits, shifted]
    first = MADE[ROBUST][0].pixels.isel(shown=0)
    for row, form in (("original", "target"), ("start", "start"), ("robust", "rebuilt")):
        np.testing.assert_array_equal(rows[row].isel(image=0), first.sel(form=form))
    with pytest.raises(NotRecorded, match="robust set"):
        robust_features.pictures({})


def test_likeness_is_of_other_images_and_unknown_where_nothing_is_right():
    bounds = robust_features.likeness(sets((90, 90, 80, 70, 40), (APART, APART[::-1], APART, APART[::-1], 0)))
    value, (low, high) = bounds.sel(bound="value"), (bounds.sel(bound=end, network=LEANING) for end in ("low", "high"))
    assert float(value.sel(defence=ROBUST, network=STANDARD)) > 0.9
    assert float(value.sel(defence=ROBUST, network=ADVERSARIAL)) < -0.9
    assert float(high.sel(defence=ROBUST)) < 0 < float(low.sel(defence=NON_ROBUST))
    assert bool(bounds.sel(defence=RANDOM).isnull().all())
    assert float(value.sel(defence=STANDARD, network=STANDARD)) > 0.9
