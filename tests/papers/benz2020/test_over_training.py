"""Section 3.1 of Benz et al.: the classes over the training."""

import mocks
import numpy as np
import pytest
import xarray as xr
from claim_answers import UP, at, history, outcomes_with

from classwise.core.datasets import class_names
from classwise.papers import registry
from classwise.papers.benz2020 import over_training
from classwise.papers.benz2020.over_training import EPOCHS, HALF_WAY
from classwise.stats import aggregate

LATE = tuple(epoch for epoch in EPOCHS if epoch >= HALF_WAY)
# The class that other images select as the weakest is 3, as `outcomes_with` marks it.
WEAK, OTHER = at(20, 3, rest=60), at(20, 8, rest=60)


def over(tables):
    """Return one network after some epochs from its answers under attack; on clean images the other class is the worst."""
    cells = {("pgd-at", "pgd-20", epoch): table for epoch, table in tables.items()}
    return outcomes_with(cells | {("pgd-at", "clean", epoch): OTHER for epoch in tables}, along=("defence", "attack", "epoch"))


def course(early, half, late, end):
    return over({8: early, HALF_WAY: half, LATE[1]: late, LATE[-1]: end})


# The worst class before half way does not matter; after it, it must stay.
SWAPPED = [course(*(OTHER if place == late else WEAK for place in range(4))) for late in range(4)]
ONE_WORST = SWAPPED[:1], [course(OTHER, OTHER, OTHER, OTHER), *SWAPPED[1:]]
EXTREMES = {
    "one-vulnerable-class": ONE_WORST,
    # The same on clean images, with another worst class under attack.
    "one-inaccurate-class": tuple([one.assign_coords(attack=["clean", "pgd-20"]) for one in some] for some in ONE_WORST),
    "classes-settle-early": (
        [aggregate.split_halves(course(UP[::-1], UP, UP[::-1], UP))],
        [aggregate.split_halves(course(UP, UP[::-1], UP, UP))],
    ),
}

LATE_ONLY = [8, LATE[-1]], [8, *LATE[1:2], LATE[-1]]
REFUSED = [
    *((name, data[0].sel(epoch=late), "has not learned by half") for name, (data, _) in EXTREMES.items() for late in LATE_ONLY),
    ("one-vulnerable-class", ONE_WORST[0][0].drop_vars("vulnerable"), "validation images is not known"),
    ("classes-settle-early", aggregate.split_halves(course(60, 60, 60, 60)), "hardly differ"),
]


def kept(rates, images=20):
    """Return outcomes by checkpoint: right with these rates (checkpoint, class), alike clean and attacked, a fold a seed."""
    coords = {"attack": ["clean", "pgd-20"], "checkpoint": list(rates), "label": list(class_names("digits"))}
    return mocks.folds(xr.DataArray([list(rates.values())] * 2, coords, tuple(coords)), images).expand_dims(defence=["pgd-at"])


RISING, NOTHING = np.linspace(0.3, 0.9, 10), np.full(10, 0.05)


def test_checkpoints_are_epochs_and_those_that_have_not_learned_are_left_out():
    data = over_training.stack_epochs(kept({"last": RISING, "last-15": RISING, "last-28": NOTHING, "last-7": RISING}))
    assert data.epoch.values.tolist() == [15, 30]
    assert data.sizes["seed"] == 1
    assert data.attrs["runs"] == 2
    assert data.predicted.values[data.vulnerable.values].tolist() == ["8"]
    given = {"epochs": data, "halves": aggregate.split_halves(data)}
    verdict, *_ = registry.judge(over_training.NAME, given, scale="quick", strict=False)
    assert verdict.seeds == 2


def test_the_course_is_that_of_test_images_and_names_the_least_robust_class():
    found = history(epoch=[1, 2, 3, 4])
    found["count"][:] = 10 * np.eye(10)
    # This class of each of two runs is never right under attack.
    for epoch, of_runs in enumerate([(1, 2), (8, 3), (8, 3), (8, 9)], 1):
        for run, label in enumerate(of_runs):
            place = {"epoch": epoch, "seed": run, "attack": "pgd-10", "label": str(label)}
            found["count"].loc[place] = 10 * np.eye(10)[(label + 1) % 10]
    count = over_training.course(found)
    assert set(count.dims) == {"images_are", "seed", "epoch", "label", "predicted"}
    assert int(count.isel(epoch=0, seed=0).sel(images_are="attacked", label="1", predicted="1")) == 0
    assert over_training.least_robust(count.isel(seed=[0])) == ["8", "8", "8"]
    assert over_training.least_robust(count.isel(seed=[1])) == ["3", "3", "9"]


def test_agreement_over_the_epochs_is_between_halves():
    data = over_training.stack_epochs(kept({"last-22": RISING[::-1], "last-15": RISING, "last": RISING}, images=200))
    found = over_training.agreements(data)
    values = found.sel(bound="value", attack="pgd-20")
    assert float(values.sel(epoch=8)) < -0.9
    assert float(values.sel(epoch=15)) == pytest.approx(float(values.sel(epoch=30)), abs=0.1)
    assert float(values.sel(epoch=30)) < 1
