"""Wei et al. 2023, sections 3.3 and 4.3: the worst class from epoch to epoch, and averaging the weights of fair epochs.

The claims need along `weights` the trained ("plain") and the averaged ones and along `epoch` the last twelve, or along `chosen`
the epochs that criteria select on validation images. Each names the Dataset that it is computed from: "epochs" or "choices".
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from classwise.core.spec import Evaluation, Spec
from classwise.papers.sections import Arranged, Section
from classwise.papers.terms import claims
from classwise.papers.variants import Variant
from classwise.papers.wei2023 import fluctuation
from classwise.papers.wei2023.fluctuation import LAST12, WEIGHTS
from classwise.papers.wei2023.tables import fairer_epoch
from classwise.stats.metrics import overall, worst

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


_FAWA = {"grid": {"weights": ("plain", "fawa")}}
_fairer = partial(fluctuation.between_choices, measure=worst, first="average", second="sum")
_cheaper = partial(fluctuation.between_choices, measure=overall, first="sum", second="average")

CLAIMS = claims(
    NAME,
    {
        "worst-fluctuates": fluctuation.worst_beyond_overall,
        "worst-beyond-a-class": fluctuation.worst_beyond_a_class,
        "overall-stable": partial(fluctuation.mean_change, measure=overall),
        "average-selects-unfair": {"measure": _fairer, "reported": lambda: fairer_epoch("worst")},
        "fair-choice-is-cheap": {"measure": _cheaper, "reported": lambda: -fairer_epoch("overall")},
        "fawa-stable": {"measure": partial(fluctuation.mean_change, measure=worst, weights="fawa"), **_FAWA},
        "fawa-steadies": {"measure": fluctuation.change_of_the_average, **_FAWA},
        "fawa-gains-overall": {"measure": fluctuation.gain_of_the_average, **_FAWA},
    },
    defences=("pgd-at",),
    attacks=("pgd-10",),
)
