"""The claims of Tian et al. 2021, section 6, in the order of the paper.

They need along `without` the networks trained without a class ("": the full one; "again 1", ...: the same drawn anew); along
`betas` those with the trade-off of a class changed ("": the usual one); along `dress` drawings before the colour of their class
beside the control; along `treatment` what was done to the images, first nothing, then a white background, then that and the
training adjusted; for each image how `white` it is around; on the classes their `background`, and which is the `vulnerable` one
and which its `partner`. Each claim names the Dataset it takes: "without", "betas", "plain", "standard", "published", "treated".
"""

from functools import partial
from typing import Any

from classwise.papers.claims import Claim, ClaimMeasure
from classwise.papers.tian2021 import background
from classwise.papers.tian2021.tables import change_in_table_4, from_table_3, from_table_4
from classwise.stats import metrics


def _background(name: str, where: str, says: str, measure: ClaimMeasure, **rest: Any) -> Claim:
    return Claim(name, "tian2021/6-2-background", where, says, measure, **rest)


_COLOURED: dict[str, Any] = {"dims": ("dress",), "reported_on": "mnist"}
_PUBLISHED: dict[str, Any] = {"part": "published", "defences": ("pgd-at",), **_COLOURED, "dims": ("dress", "background")}
_TREATED: dict[str, Any] = {"part": "treated", "dims": ("treatment", "vulnerable")}
_TEMPERATURE_PGD = "temperature-pgd-20|pgd-20"

BACKGROUND = (
    _background(
        "mnist-above-95",
        "6.2",
        "Robust networks on MNIST, whose images have one background, are right under attack on more than 95 images of 100.",
        background.without_background,
        low=95,
        unit="percent",
        reported=95,
        reported_on="mnist",
        part="plain",
        defences=("pgd-at",),
        attacks=("pgd-40|pgd-20",),
        datasets=("mnist",),
        because="the paper says this of MNIST",
    ),
    _background(
        "cifar10-50-to-60",
        "6.2",
        "Robust networks on CIFAR-10 are right under attack on 50 to 60 images of 100.",
        background.without_background,
        low=50,
        high=60,
        unit="percent",
        reported=partial(from_table_3, lambda found: metrics.overall(found["count"].isel(attack=1, defence=0)), ("trades",)),
        part="treated",
        attacks=(_TEMPERATURE_PGD,),
        dims=("treatment",),
        datasets=("cifar10",),
        because="the paper says this of CIFAR-10",
    ),
    _background(
        "standard-does-not-care",
        "6.2",
        "Standard training is as accurate, within a point, on drawings before the colours of their classes as on plain ones.",
        background.coloured_backgrounds,
        low=-1,
        high=1,
        part="standard",
        defences=("standard",),
        attacks=("clean",),
        **_COLOURED,
    ),
    _background(
        "follows-background",
        "6.2, Figure 5c",
        "Trained and attacked at .5, more of the mistakes go to the class of the same ground than where other classes share it.",
        background.follows_background,
        attacks=("pgd-40|pgd-20",),
        **_PUBLISHED,
    ),
    _background(
        "all-follow",
        "6.2, Figure 5c",
        "There, each class is taken for the one of the same ground more often than for any other: completely consistent.",
        background.all_follow,
        attacks=("pgd-40|pgd-20",),
        **_PUBLISHED,
    ),
    _background(
        "more-than-natural",
        "6.2, Figure 5b, c",
        "There, the ground draws more images to its classes under attack than without.",
        background.follows_more_attacked,
        attacks=("clean", "pgd-40|pgd-20"),
        **_PUBLISHED,
    ),
    _background(
        "white-helps",
        "6.2, Table 4, lines 4, 5",
        "A white background makes the images of the most vulnerable class more robust.",
        background.treated,
        reported=partial(from_table_4, "temperature-pgd-20", "as they are", "white"),
        attacks=("clean", _TEMPERATURE_PGD),
        **_TREATED,
    ),
    _background(
        "natural-insensitive",
        "6.2, Table 4, lines 1, 2",
        "Unattacked, the vulnerable class hardly feels a white background: its accuracy changes by less than 5 points.",
        background.treated,
        low=-5,
        high=5,
        reported=partial(from_table_4, "clean", "as they are", "white"),
        attacks=("clean",),
        **_TREATED,
    ),
    _background(
        "mostly-attacked",
        "6.2, Table 4, lines 1, 2, 4, 5",
        "A white background changes the vulnerable class's accuracy under attack more than without one.",
        background.changed_more_attacked,
        reported=lambda: change_in_table_4("temperature-pgd-20") - change_in_table_4("clean"),
        attacks=("clean", _TEMPERATURE_PGD),
        **_TREATED,
    ),
    _background(
        "both-help",
        "6.2, Table 4, lines 4, 6",
        "With the training adjusted and the background white, the most vulnerable class is more robust than it was.",
        partial(background.treated, treatment=2),
        reported=partial(from_table_4, "temperature-pgd-20", "as they are", "white and adjusted"),
        attacks=("clean", _TEMPERATURE_PGD),
        **_TREATED,
    ),
    _background(
        "both-help-more",
        "6.2, Table 4, lines 5, 6",
        "Together with the training adjustment, the white background helps the most vulnerable class more than by itself.",
        partial(background.treated, treatment=2, before=1),
        reported=partial(from_table_4, "temperature-pgd-20", "white", "white and adjusted"),
        attacks=("clean", _TEMPERATURE_PGD),
        **_TREATED,
    ),
    _background(
        "white-is-sure",
        "6.2, Figure 6",
        "In the most vulnerable class, attacked images are the surer of their class the whiter they are around.",
        background.whiter_surer,
        unit="correlation",
        attacks=(_TEMPERATURE_PGD,),
        part="treated",
        dims=("white", "vulnerable"),
        values={
            "known": lambda outcomes: background.sure_and_white(outcomes).known,
            "sure": lambda outcomes: background.sure_and_white(outcomes).sure,
            "white": lambda outcomes: background.sure_and_white(outcomes).white,
            "sure_sure": lambda outcomes: background.sure_and_white(outcomes).sure ** 2,
            "white_white": lambda outcomes: background.sure_and_white(outcomes).white ** 2,
            "white_sure": lambda outcomes: background.sure_and_white(outcomes).sure * background.sure_and_white(outcomes).white,
        },
    ),
)
