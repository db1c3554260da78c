"""The claims of Tian et al. 2021, section 6, in the order of the paper.

They need along `without` the networks trained without a class ("": the full one; "again 1", ...: the same drawn anew); along
`betas` those with the trade-off of a class changed ("": the usual one); along `dress` drawings before the colour of their class
beside the control; along `treatment` what was done to the images, first nothing, then a white background, then that and the
training adjusted; for each image how `white` it is around; on the classes their `background`, and which is the `vulnerable` one
and which its `partner`. Each claim names the Dataset it takes: "without", "betas", "plain", "standard", "published", "treated".
"""

from functools import partial
from typing import Any

from classwise import answers, metrics, published
from classwise.claims import remedies, traits
from classwise.claims.claim import Claim, Measure
from classwise.claims.tian2021 import NO_SUCH
from classwise.claims.tian2021_5 import from_table_3


def from_table_4(attack: str, first: str, second: str) -> float:
    """Return how many points cats gain from one line of the paper's Table 4 to another, of 1,000 images."""
    right = published.load("tian2021", 4)["count"].sel(attack=attack, predicted="cat")
    return float(right.sel(treatment=second) - right.sel(treatment=first)) / 10


def _change_in_table_4(attack: str) -> float:
    return abs(from_table_4(attack, "as they are", "white"))


def _training(name: str, where: str, says: str, measure: Measure, **rest: Any) -> Claim:
    return Claim(name, "tian2021/6-1-training-adjustment", where, says, measure, **rest)


def _background(name: str, where: str, says: str, measure: Measure, **rest: Any) -> Claim:
    return Claim(name, "tian2021/6-2-background", where, says, measure, **rest)


_HOMES: dict[str, Any] = {
    "part": "without",
    "attacks": ("pgd-20|temperature-pgd-20",),
    "dims": ("without",),
    "values": {"home": answers.homes, "again": traits.trained_again, "another": traits.without_another},
}
_SWEPT: dict[str, Any] = {
    "part": "betas",
    "defences": ("trades-per-class|trades",),
    "attacks": ("temperature-pgd-20|pgd-20",),
    "dims": ("betas", "vulnerable"),
}
_OF_PARTNER: dict[str, Any] = _SWEPT | {"dims": ("betas", "vulnerable", "partner")}

TRAINING = (
    _training(
        "homing",
        "6.1, Figure 4a, b",
        "Many mistakes come home without their class: more than if all are trained again, or another class is left out.",
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
        "one-to-one",
        "6.1, Figure 4b",
        "The most vulnerable class and its partner come home from one another more than from any third class.",
        remedies.one_to_one,
        **(_HOMES | {"dims": ("without", "vulnerable", "partner")}),
    ),
    _training(
        "one-to-one-beyond-mistakes",
        "6.1, Figure 4a, b",
        "They do so more than by being mistaken for one another: their share of the homes exceeds that of the mistakes.",
        remedies.partner_home,
        **(_HOMES | {"dims": ("without", "vulnerable", "partner")}),
    ),
    _training(
        "groups-home",
        "6.1",
        "Mistakes between cat and dog, automobile and truck, airplane and ship come home more often than those of other pairs.",
        partial(remedies.pairs_home, pairs=(("cat", "dog"), ("automobile", "truck"), ("airplane", "ship"))),
        datasets=("cifar10",),
        because=NO_SUCH,
        **_HOMES,
    ),
    _training(
        "victim-gains",
        "6.1, Figure 4c",
        "A lower trade-off of the partner of the most vulnerable class makes that class more robust.",
        remedies.victim_gains,
        reported=33.6 - 26.2,
        **_OF_PARTNER,
    ),
    _training(
        "victim-loses",
        "6.1, Figure 4c",
        "A higher trade-off of the partner of the most vulnerable class makes that class less robust.",
        partial(remedies.victim_gains, up=True),
        low=-float("inf"),
        high=0,
        **_OF_PARTNER,
    ),
    _training(
        "changed-class-loses",
        "6.1, Figure 4c",
        "The class whose trade-off is lowered becomes less robust itself.",
        remedies.changed_gains,
        low=-float("inf"),
        high=0,
        reported=34.1 - 43.0,
        **_SWEPT,
    ),
    _training(
        "evener",
        "6.1, Figure 4c",
        "The lower trade-off of one class makes the classes more alike (CV).",
        remedies.evener,
        low=-float("inf"),
        high=0,
        unit="points squared",
        **_SWEPT,
    ),
)

_DRESSED: dict[str, Any] = {"dims": ("dress",), "reported_on": "mnist"}
_PUBLISHED: dict[str, Any] = {"part": "published", "defences": ("pgd-at",), **_DRESSED, "dims": ("dress", "background")}
_TREATED: dict[str, Any] = {"part": "treated", "dims": ("treatment", "vulnerable")}
_HOT = "temperature-pgd-20|pgd-20"

BACKGROUND = (
    _background(
        "mnist-above-95",
        "6.2",
        "Robust networks on MNIST, whose images have one background, are right under attack on more than 95 images of 100.",
        remedies.plainly,
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
        remedies.plainly,
        low=50,
        high=60,
        unit="percent",
        reported=partial(from_table_3, lambda found: metrics.overall(found["count"].isel(attack=1, defence=0)), ("trades",)),
        part="treated",
        attacks=(_HOT,),
        dims=("treatment",),
        datasets=("cifar10",),
        because="the paper says this of CIFAR-10",
    ),
    _background(
        "standard-does-not-care",
        "6.2",
        "Standard training is as accurate, within a point, on drawings before the colours of their classes as on plain ones.",
        remedies.dressed,
        low=-1,
        high=1,
        part="standard",
        defences=("standard",),
        attacks=("clean",),
        **_DRESSED,
    ),
    _background(
        "follows-background",
        "6.2, Figure 5c",
        "Trained and attacked at .5, more of the mistakes go to the class of the same ground than where other classes share it.",
        remedies.follows_background,
        attacks=("pgd-40|pgd-20",),
        **_PUBLISHED,
    ),
    _background(
        "all-follow",
        "6.2, Figure 5c",
        "There, each class is taken for the one of the same ground more often than for any other: completely consistent.",
        remedies.all_follow,
        attacks=("pgd-40|pgd-20",),
        **_PUBLISHED,
    ),
    _background(
        "more-than-natural",
        "6.2, Figure 5b, c",
        "There, the ground draws more images to its classes under attack than without.",
        remedies.follows_more_attacked,
        attacks=("clean", "pgd-40|pgd-20"),
        **_PUBLISHED,
    ),
    _background(
        "white-helps",
        "6.2, Table 4, lines 4, 5",
        "A white background makes the images of the most vulnerable class more robust.",
        remedies.treated,
        reported=partial(from_table_4, "temperature-pgd-20", "as they are", "white"),
        attacks=("clean", _HOT),
        **_TREATED,
    ),
    _background(
        "natural-insensitive",
        "6.2, Table 4, lines 1, 2",
        "Unattacked, the vulnerable class hardly feels a white background: its accuracy changes by less than 5 points.",
        remedies.treated,
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
        remedies.changed_more_attacked,
        reported=lambda: _change_in_table_4("temperature-pgd-20") - _change_in_table_4("clean"),
        attacks=("clean", _HOT),
        **_TREATED,
    ),
    _background(
        "both-help",
        "6.2, Table 4, lines 4, 6",
        "With the training adjusted and the background white, the most vulnerable class is more robust than it was.",
        partial(remedies.treated, treatment=2),
        reported=partial(from_table_4, "temperature-pgd-20", "as they are", "white and adjusted"),
        attacks=("clean", _HOT),
        **_TREATED,
    ),
    _background(
        "both-help-more",
        "6.2, Table 4, lines 5, 6",
        "Together with the training adjustment, the white background helps the most vulnerable class more than by itself.",
        partial(remedies.treated, treatment=2, before=1),
        reported=partial(from_table_4, "temperature-pgd-20", "white", "white and adjusted"),
        attacks=("clean", _HOT),
        **_TREATED,
    ),
    _background(
        "white-is-sure",
        "6.2, Figure 6",
        "In the most vulnerable class, attacked images are the surer of their class the whiter they are around.",
        remedies.whiter_surer,
        unit="correlation",
        attacks=(_HOT,),
        part="treated",
        dims=("white", "vulnerable"),
        values={
            "known": lambda outcomes: traits.sure_and_white(outcomes).known,
            "sure": lambda outcomes: traits.sure_and_white(outcomes).sure,
            "white": lambda outcomes: traits.sure_and_white(outcomes).white,
            "sure_sure": lambda outcomes: traits.sure_and_white(outcomes).sure ** 2,
            "white_white": lambda outcomes: traits.sure_and_white(outcomes).white ** 2,
            "white_sure": lambda outcomes: traits.sure_and_white(outcomes).sure * traits.sure_and_white(outcomes).white,
        },
    ),
)
