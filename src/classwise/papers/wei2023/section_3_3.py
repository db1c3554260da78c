"""Wei et al. 2023, sections 3.3 and 4.3: the worst class from epoch to epoch, and averaging the weights of fair epochs.

The claims need along `weights` the trained ("plain") and the averaged ones and along `epoch` the last twelve, or along `chosen`
the epochs that criteria select on validation images. Each names the Dataset that it is computed from: "epochs" or "choices".
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from classwise.core.spec import Evaluation, Spec
from classwise.papers.claims import RATIO, claims_of
from classwise.papers.sections import Arranged, Section
from classwise.papers.variants import Variant
from classwise.papers.wei2023 import fluctuation
from classwise.papers.wei2023.fluctuation import LAST12, WEIGHTS
from classwise.papers.wei2023.tables import fairer_epoch
from classwise.stats import metrics

NAME = "wei2023/3-3-fluctuation"
# Figure 4 shows the epochs after the first drop of the learning rate, 101 to 120 of 200: at each scale it drops twelve epochs
# before the end, and scale "paper" ends with epoch 112.
_EPOCHS = {"quick": 60, "laptop": 20, "short": 30, "paper": 112}


def dropped(scale: str, plain: Spec) -> Sequence[Variant]:
    """Return the one variant of a section: the learning rate drops before the last twelve epochs, which are kept."""
    epochs, kept = _EPOCHS[scale], len(LAST12)
    schedule = {"schedule": "step", "epochs": epochs, "milestones": (epochs - kept + 1,)}
    unselected = {"select": None, "test_selected": False}
    # FAWA measures the validation images after every epoch; test images are evaluated afterwards.
    return ({**schedule, **unselected, "keep_last": kept, "measure": epochs, "averages": ("ema", "fawa")},)


def _epochs(*weights: str, **changed: Any) -> tuple[Evaluation, ...]:
    return tuple(Evaluation(attack="pgd-10", checkpoint=name, **changed) for name in fluctuation.checkpoints(*weights))


_RUNS: dict[str, Any] = {"defences": ("pgd-at",), "max_seeds": 2, "variants": dropped}
SECTION = Section(
    title="Fluctuation of the worst class",
    evaluations=_epochs(*WEIGHTS),
    parts={"valid": Section(title="validation images", evaluations=_epochs("plain", split="valid"), **_RUNS)},
    arrange={
        "epochs": Arranged(fluctuation.by_epoch, ("",)),
        "choices": Arranged(fluctuation.choices, ("", "valid")),
    },
    **_RUNS,
)


_claim = claims_of(NAME, defences=("pgd-at",), attacks=("pgd-10",), data="epochs", dims=("weights", "epoch"))
_FAWA: dict[str, Any] = {"grid": {"weights": ("plain", "fawa")}}
_CHOICES: dict[str, Any] = {"data": "choices", "dims": ("chosen",)}
CLAIMS = (
    _claim(
        "worst-fluctuates",
        "3.3, Figure 4a",
        "The robust accuracy of the worst class changes more from epoch to epoch than that of all images.",
        fluctuation.worst_beyond_overall,
    ),
    _claim(
        "worst-beyond-a-class",
        "3.3, a control of ours",
        "The robust accuracy of the worst class changes more from epoch to epoch than that of a class does on average.",
        fluctuation.worst_beyond_a_class,
    ),
    _claim(
        "overall-stable",
        "3.3, Figure 4a",
        "The overall robust accuracy changes by less than a point from epoch to epoch.",
        partial(fluctuation.mean_change, measure=metrics.overall),
        low=-np.inf,
        high=1,
    ),
    _claim(
        "average-selects-unfair",
        "3.3; 5.1",
        "The epoch best by average plus worst class has a more robust worst class than the epoch best by average alone.",
        partial(fluctuation.between_choices, measure=metrics.worst, first="average", second="sum"),
        reported=lambda: fairer_epoch("worst"),
        **_CHOICES,
    ),
    _claim(
        "fair-choice-is-cheap",
        "3.3; 5.1",
        "The epoch best by average plus worst class is overall less than a point less robust than the one best by average.",
        partial(fluctuation.between_choices, measure=metrics.overall, first="sum", second="average"),
        low=-np.inf,
        high=1,
        reported=lambda: -fairer_epoch("overall"),
        **_CHOICES,
    ),
    _claim(
        "fawa-stable",
        "4.3, Figure 4b",
        "With FAWA the robust accuracy of the worst class changes by less than a point from epoch to epoch.",
        partial(fluctuation.mean_change, measure=metrics.worst, weights="fawa"),
        low=-np.inf,
        high=1,
        datasets=("cifar10",),
        excluded_because="one image of a class is more than a point",
        **_FAWA,
    ),
    _claim(
        "fawa-steadies",
        "4.3, Figure 4b",
        "With FAWA the worst class changes less from epoch to epoch than without.",
        fluctuation.change_of_the_average,
        low=0,
        high=1,
        **RATIO,
        **_FAWA,
    ),
    _claim(
        "fawa-gains-overall",
        "4.3",
        "After the last epoch FAWA has a higher overall robust accuracy than the weights that it averages.",
        fluctuation.gain_of_the_average,
        **_FAWA,
    ),
)
