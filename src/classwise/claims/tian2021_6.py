"""The claims of Tian et al. 2021, section 6, in the order of the paper.

They need along `without` the networks trained without a class ("": the full one, "nothing": the same trained again); along
`betas` those with the trade-off of a class changed ("": the usual one); on the classes their `background`; along `treatment` what
was done to the images, first nothing, then a white background; and for each image how `white` it is around. Each
claim names the Dataset it takes where there are several: "without", "betas", "coloured", "treated".
"""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise import answers, published
from classwise.claims import remedies
from classwise.claims.claim import Claim, Measure
from classwise.claims.tian2021 import NO_SUCH


def from_table_4(attack: str, first: str, second: str) -> float:
    """Return how many points cats gain from one line of the paper's Table 4 to another, of 1,000 images."""
    right = published.load("tian2021", 4)["count"].sel(attack=attack, predicted="cat")
    return float(right.sel(treatment=second) - right.sel(treatment=first)) / 10


def _more_attacked() -> float:
    return from_table_4("temperature-pgd-20", "as they are", "white") - abs(from_table_4("clean", "as they are", "white"))


def _trained_again(outcomes: xr.Dataset) -> xr.DataArray:
    """Return which mistakes of the full network its repetition with all classes does not make."""
    whole, again = outcomes.sel(without="", drop=True), outcomes.sel(without="nothing", drop=True)
    better: xr.DataArray = whole.flipped & ~again.flipped & (again.truth >= 0)
    return better


def _white(outcomes: xr.Dataset) -> xr.DataArray:
    return outcomes["white"]


def _white_squared(outcomes: xr.Dataset) -> xr.DataArray:
    return outcomes["white"] ** 2


def _sure_squared(outcomes: xr.Dataset) -> xr.DataArray:
    return answers.true_confidence(outcomes).fillna(0) ** 2


def _white_and_sure(outcomes: xr.Dataset) -> xr.DataArray:
    return outcomes["white"] * answers.true_confidence(outcomes)


def _training(name: str, where: str, says: str, measure: Measure, **rest: Any) -> Claim:
    return Claim(name, "tian2021/6-1-training-adjustment", where, says, measure, **rest)


def _background(name: str, where: str, says: str, measure: Measure, **rest: Any) -> Claim:
    return Claim(name, "tian2021/6-2-background", where, says, measure, **rest)


_HOMES: dict[str, Any] = {
    "part": "without",
    "attacks": ("pgd-20|temperature-pgd-20",),
    "dims": ("without",),
    "values": {"home": answers.homes, "again": _trained_again},
}
_SWEPT: dict[str, Any] = {
    "part": "betas",
    "defences": ("trades-per-class",),
    "attacks": ("temperature-pgd-20|pgd-20",),
    "dims": ("betas",),
}

TRAINING = (
    _training(
        "homing",
        "6.1, Figure 4a, b",
        "Many mistakes come home when their class is left out of training: more than when all classes are trained again.",
        remedies.homing,
        **_HOMES,
    ),
    _training(
        "cat-to-dog-homes",
        "6.1, Figure 4b",
        "Of the cats taken for dogs, more than half come home when there are no dogs in the training.",
        partial(remedies.homing_of, label="cat", predicted="dog"),
        low=50,
        unit="percent",
        reported=100 * 119 / 200,
        datasets=("cifar10",),
        because=NO_SUCH,
        **_HOMES,
    ),
    _training(
        "groups-home",
        "6.1",
        "Images come home between cat and dog, automobile and truck, airplane and ship more often than between other pairs.",
        partial(remedies.pairs_home, pairs=(("cat", "dog"), ("automobile", "truck"), ("airplane", "ship"))),
        datasets=("cifar10",),
        because=NO_SUCH,
        **_HOMES,
    ),
    _training(
        "victim-gains",
        "6.1, Figure 4c",
        "A lower trade-off of the class that the most vulnerable one is taken for makes the most vulnerable one more robust.",
        remedies.victim_gains,
        reported=33.6 - 26.2,
        **_SWEPT,
    ),
    _training(
        "changed-class-loses",
        "6.1, Figure 4c",
        "The class whose trade-off is lowered becomes less robust itself.",
        remedies.changed_gains,
        low=-np.inf,
        high=0,
        reported=34.1 - 43.0,
        **_SWEPT,
    ),
    _training(
        "evener",
        "6.1, Figure 4c",
        "The lower trade-off of one class makes the classes more alike (CV).",
        remedies.evener,
        low=-np.inf,
        high=0,
        unit="points squared",
        **_SWEPT,
    ),
)

_COLOURED: dict[str, Any] = {"part": "coloured", "dims": ("background",)}
_TREATED: dict[str, Any] = {"part": "treated", "attacks": ("clean", "temperature-pgd-20|pgd-20"), "dims": ("treatment",)}

BACKGROUND = (
    _background(
        "follows-background",
        "6.2, Figure 5c",
        "Under attack, digits on coloured grounds are taken for digits on the same ground.",
        remedies.follows_background,
        reported_on="mnist",
        defences=("pgd-at",),
        attacks=("pgd-40|pgd-20",),
        **_COLOURED,
    ),
    _background(
        "more-than-natural",
        "6.2, Figure 5b, c",
        "The ground draws far more images to its classes under attack than without.",
        remedies.follows_more_attacked,
        reported_on="mnist",
        defences=("pgd-at",),
        attacks=("clean", "pgd-40|pgd-20"),
        **_COLOURED,
    ),
    _background(
        "white-helps",
        "6.2, Table 4, lines 4, 5",
        "A white background makes the images of the most vulnerable class more robust.",
        remedies.treated,
        reported=partial(from_table_4, "temperature-pgd-20", "as they are", "white"),
        **_TREATED,
    ),
    _background(
        "mostly-attacked",
        "6.2, Table 4, lines 1, 2",
        "The white background changes answers to attacked images more than answers to images as they are.",
        remedies.treated_more_attacked,
        reported=_more_attacked,
        **_TREATED,
    ),
    _background(
        "both-help-more",
        "6.2, Table 4, lines 5, 6",
        "Together with the training adjustment, the white background helps the most vulnerable class more than by itself.",
        partial(remedies.treated, treatment=2, before=1),
        reported=partial(from_table_4, "temperature-pgd-20", "white", "white and adjusted"),
        **_TREATED,
    ),
    _background(
        "white-is-sure",
        "6.2, Figure 6",
        "In the most vulnerable class, attacked images are the surer of their class the whiter they are around.",
        remedies.whiter_surer,
        unit="correlation",
        attacks=("temperature-pgd-20|pgd-20",),
        part="treated",
        dims=("white",),
        values={
            "sure": answers.true_confidence,
            "white": _white,
            "sure_sure": _sure_squared,
            "white_white": _white_squared,
            "white_sure": _white_and_sure,
        },
    ),
)
