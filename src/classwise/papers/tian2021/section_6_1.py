"""The claims of Tian et al. 2021, section 6, in the order of the paper.

They need along `without` the networks trained without a class ("": the full one; "again 1", ...: the same drawn anew); along
`betas` those with the trade-off of a class changed ("": the usual one); along `dress` drawings before the colour of their class
beside the control; along `treatment` what was done to the images, first nothing, then a white background, then that and the
training adjusted; for each image how `white` it is around; on the classes their `background`, and which is the `vulnerable` one
and which its `partner`. Each claim names the Dataset it takes: "without", "betas", "plain", "standard", "published", "treated".
"""

from functools import partial
from typing import Any

from classwise.papers.claims import NO_SUCH, Claim, ClaimMeasure
from classwise.papers.tian2021 import adjustment, homing


def _training(name: str, where: str, says: str, measure: ClaimMeasure, **rest: Any) -> Claim:
    return Claim(name, "tian2021/6-1-training-adjustment", where, says, measure, **rest)


_HOMES: dict[str, Any] = {
    "part": "without",
    "attacks": ("pgd-20|temperature-pgd-20",),
    "dims": ("without",),
    "values": {"home": homing.homing_mask, "again": adjustment.trained_again, "another": adjustment.without_another},
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
        adjustment.homing,
        **_HOMES,
    ),
    _training(
        "cat-to-dog-homes",
        "6.1, Figure 4b",
        "Of the cats taken for dogs, more than half come home when there are no dogs in the training.",
        partial(adjustment.homing_of, label="cat", predicted="dog"),
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
        adjustment.one_to_one,
        **(_HOMES | {"dims": ("without", "vulnerable", "partner")}),
    ),
    _training(
        "one-to-one-beyond-mistakes",
        "6.1, Figure 4a, b",
        "They do so more than by being mistaken for one another: their share of the homes exceeds that of the mistakes.",
        adjustment.partner_home,
        **(_HOMES | {"dims": ("without", "vulnerable", "partner")}),
    ),
    _training(
        "groups-home",
        "6.1",
        "Mistakes between cat and dog, automobile and truck, airplane and ship come home more often than those of other pairs.",
        partial(adjustment.pairs_home, pairs=(("cat", "dog"), ("automobile", "truck"), ("airplane", "ship"))),
        datasets=("cifar10",),
        because=NO_SUCH,
        **_HOMES,
    ),
    _training(
        "victim-gains",
        "6.1, Figure 4c",
        "A lower trade-off of the partner of the most vulnerable class makes that class more robust.",
        adjustment.victim_gains,
        reported=33.6 - 26.2,
        **_OF_PARTNER,
    ),
    _training(
        "victim-loses",
        "6.1, Figure 4c",
        "A higher trade-off of the partner of the most vulnerable class makes that class less robust.",
        partial(adjustment.victim_gains, up=True),
        low=-float("inf"),
        high=0,
        **_OF_PARTNER,
    ),
    _training(
        "changed-class-loses",
        "6.1, Figure 4c",
        "The class whose trade-off is lowered becomes less robust itself.",
        adjustment.changed_gains,
        low=-float("inf"),
        high=0,
        reported=34.1 - 43.0,
        **_SWEPT,
    ),
    _training(
        "evener",
        "6.1, Figure 4c",
        "The lower trade-off of one class makes the classes more alike (CV).",
        adjustment.evener,
        low=-float("inf"),
        high=0,
        unit="points squared",
        **_SWEPT,
    ),
)
