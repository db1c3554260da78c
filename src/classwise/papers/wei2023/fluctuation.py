"""Wei et al. 2023, sections 3.3 and 4.3, Figure 4: the worst class from epoch to epoch, and averaging the weights of fair epochs.

Outcomes have here the dimension `run`, a member for each seed, in which only images of this seed are present: a bootstrap draws
seeds, but the counts of two trainings are never added up, which would cancel some of their changes. Measures are means over the
runs, in points. The claims need along `weights` the trained ("plain") and the averaged ones and along `epoch` the last twelve, or
along `chosen` the epochs that criteria select on validation images. Each names its Dataset: "epochs" or "choices".
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.spec import Evaluation, Spec
from classwise.papers.sections import Derived, Part, Section
from classwise.papers.terms import Term, claims
from classwise.papers.variants import Variant
from classwise.papers.wei2023.tables import fairer_epoch
from classwise.stats import aggregate, bootstrap, combine, metrics

NAME = "wei2023/3-3-fluctuation"
# The last twelve epochs in their order, by the names of their checkpoints.
LAST12 = (*(f"last-{back}" for back in range(11, 0, -1)), "last")
# What is evaluated of each epoch, by the start of the names of its checkpoints.
WEIGHTS = {"plain": "last", "ema": "ema", "fawa": "fawa"}
# Figure 4 shows the epochs after the first drop of the learning rate, 101 to 120 of 200: at each scale it drops twelve epochs
# before the end, and scale "paper" ends with epoch 112.
_EPOCHS = {"quick": 60, "matched": 112, "laptop": 20, "short": 30, "paper": 112}
_KEPT = ["truth", "prediction", "misclassified"]
_SETTING = {"defence": 0, "attack": 0}


def drop_variant(scale: str, plain: Spec) -> Sequence[Variant]:
    """Return the one variant of a section: the learning rate drops before the last twelve epochs, which are kept."""
    epochs, kept = _EPOCHS[scale], len(LAST12)
    schedule = {"schedule": "step", "epochs": epochs, "milestones": (epochs - kept + 1,)}
    unselected = {"select": None, "test_selected": False}
    # FAWA measures the validation images after every epoch; test images are evaluated afterwards.
    return ({**schedule, **unselected, "keep_last": kept, "measure": epochs, "averages": ("ema", "fawa")},)


def checkpoints(*weights: str) -> list[str]:
    """Return the checkpoints of the last twelve epochs of each of WEIGHTS."""
    return [name.replace("last", WEIGHTS[kind]) for kind in weights for name in LAST12]


def stack_epochs(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes along run, weights and epoch, from 1 for the first of the last twelve, in place of checkpoint.

    Those of WEIGHTS that were not evaluated are left out, and an average that no epoch entered: the plain weights replace it.
    """
    present = set(map(str, outcomes.checkpoint.values))
    kinds = [kind for kind in WEIGHTS if present.issuperset(checkpoints(kind))]
    numbers = np.arange(1, len(LAST12) + 1)
    every = outcomes[_KEPT].rename(checkpoint="epoch")
    parts = {kind: every.sel(epoch=checkpoints(kind)).assign_coords(epoch=numbers) for kind in kinds}
    averaged = [kind for kind in kinds if kind == "plain" or not parts[kind].prediction.equals(parts["plain"].prediction)]
    joined = xr.concat([parts[kind] for kind in averaged], "weights", coords="minimal", compat="override")
    joined = joined.assign_coords(weights=averaged, predicted=outcomes.predicted).assign_attrs(outcomes.attrs)
    # Along run only the images of the seed that it names are present.
    runs = [f"seed {seed}" for seed in joined.seed.values]
    same = xr.DataArray(np.eye(len(runs), dtype=bool), {"run": runs, "seed": joined.seed.values}, ("run", "seed"))
    own = {name: joined[name].where(same, -1) for name in ("truth", "prediction")}
    return joined.assign(own | {"misclassified": joined.misclassified & same})


def run_counts(outcomes: xr.Dataset) -> xr.DataArray:
    """Return count(run, ..., label, predicted) of outcomes of one defence under one attack, as `stack_epochs` arranges them."""
    return aggregate.counts(outcomes).sum("seed").isel(_SETTING, drop=True)


# The measures that select an epoch.
CRITERIA: dict[str, metrics.Metric] = {"average": metrics.overall, "worst": metrics.worst}
CRITERIA["sum"] = lambda count: metrics.overall(count) + metrics.worst(count)
# Selected on the images that judge the choice, as by the code of the paper.
ON_TEST = ", on test images"


def chosen_epochs(count: xr.DataArray) -> xr.DataArray:
    """Return the number of the epoch that each of CRITERIA selects by its plain weights: dimensions chosen and run.

    count: of `run_counts`. Of equal epochs it is the last, as in a training that selects.
    """
    plain = count.sel(weights="plain", drop=True).isel(epoch=slice(None, None, -1))
    best = [plain["epoch"][measure(plain).argmax("epoch")].drop_vars("epoch") for measure in CRITERIA.values()]
    return xr.concat(best, "chosen").assign_coords(chosen=list(CRITERIA))


def choices(outcomes: xr.Dataset, valid: xr.Dataset) -> xr.Dataset:
    """Return the outcomes of the epochs that CRITERIA select, along chosen in place of checkpoint, on the test images.

    valid: outcomes of the same runs and epochs on validation images, on which the epoch is selected; with ON_TEST added to the
    name of a criterion, it is selected on the test images themselves.
    """
    test = stack_epochs(outcomes)
    epochs, on_test = (chosen_epochs(run_counts(images)) for images in (stack_epochs(valid), test))
    on_test = on_test.assign_coords(chosen=[f"{name}{ON_TEST}" for name in on_test.chosen.values])
    places = xr.concat([epochs, on_test], "chosen") - 1
    plain = test.sel(weights="plain", drop=True)
    runs = xr.DataArray(np.arange(plain.sizes["run"]), dims="run")
    selected = plain.isel(epoch=places, run=runs).drop_vars("epoch").assign_coords(run=plain.run)
    return selected.transpose("defence", "seed", "attack", "run", "chosen", "image", ...)


def _epochs(*weights: str, **changed: Any) -> tuple[Evaluation, ...]:
    return tuple(Evaluation(attack="pgd-10", checkpoint=name, **changed) for name in checkpoints(*weights))


_RUNS: dict[str, Any] = {"defences": ("pgd-at",), "max_seeds": 2, "variants": drop_variant}
SECTION = Section(
    title="Fluctuation of the worst class",
    evaluations=_epochs(*WEIGHTS),
    parts={"valid": Part(title="validation images", evaluations=_epochs("plain", split="valid"), **_RUNS)},
    arrange={"epochs": Derived(stack_epochs, ("",)), "choices": Derived(choices, ("", "valid"))},
    **_RUNS,
)

RATES: Mapping[str, metrics.Metric] = {"all images": metrics.overall, "worst class": metrics.worst}
CHANGING: Mapping[str, metrics.Metric] = {**RATES, "a class": metrics.accuracy}


def _mean_over_runs(value: xr.DataArray, count: xr.DataArray) -> xr.DataArray:
    """Return the mean over runs, weighted by how many of their images were drawn; NaN where a class of such a run has none."""
    weight = metrics.images(count).sum("label")
    weight = weight.max([dim for dim in weight.dims if dim not in ("run", "draw")])
    return value.where(weight > 0, 0).dot(weight, dim="run") / weight.sum("run")


def _of(sums: xr.Dataset, weights: str) -> xr.DataArray:
    return sums["count"].isel(_SETTING, drop=True).sel(weights=weights, drop=True)


def mean_change(sums: xr.Dataset, measure: metrics.Metric, weights: str = "plain") -> xr.DataArray:
    """Return by how much a measure changes from an epoch to the next, up or down: the mean over epochs, runs and any classes."""
    count = _of(sums, weights)
    sizes = abs(measure(count).diff("epoch")).mean("epoch", skipna=False)
    return _mean_over_runs(sizes.mean("label", skipna=False) if "label" in sizes.dims else sizes, count)


def change(of: str, weights: str = "plain") -> Term:
    """Return the `mean_change` of one of CHANGING as a term."""
    words = f"mean change from one epoch to the next ({of}, {weights} weights)"
    return Term(words, partial(mean_change, measure=CHANGING[of], weights=weights))


def gain_of_the_average(sums: xr.Dataset) -> xr.DataArray:
    """Return how much higher the overall accuracy is with FAWA than without, after the last epoch."""
    fawa, plain = (_of(sums, kind).isel(epoch=-1, drop=True) for kind in ("fawa", "plain"))
    return _mean_over_runs(metrics.overall(fawa) - metrics.overall(plain), plain)


def choice_difference(sums: xr.Dataset, measure: metrics.Metric, first: str, second: str) -> xr.DataArray:
    """Return how much higher a measure is at the epoch that the second criterion selects than at the epoch of the first.

    Both select on validation images.
    """
    count = sums["count"].isel(_SETTING, drop=True)
    before, after = (count.sel(chosen=name, drop=True) for name in (first, second))
    return _mean_over_runs(measure(after) - measure(before), before)


_FAWA = {"grid": {"weights": ("plain", "fawa")}}
_fairer = partial(choice_difference, measure=metrics.worst, first="average", second="sum")
_cheaper = partial(choice_difference, measure=metrics.overall, first="sum", second="average")

CLAIMS = claims(
    NAME,
    {
        "worst-fluctuates": change("worst class") - change("all images"),
        "worst-beyond-a-class": change("worst class") - change("a class"),
        "overall-stable": change("all images"),
        "average-selects-unfair": {"measure": _fairer, "reported": lambda: fairer_epoch("worst")},
        "fair-choice-is-cheap": {"measure": _cheaper, "reported": lambda: -fairer_epoch("overall")},
        "fawa-stable": {"measure": change("worst class", "fawa"), **_FAWA},
        "fawa-steadies": {"measure": change("worst class", "fawa") / change("worst class"), **_FAWA},
        "fawa-gains-overall": {"measure": gain_of_the_average, **_FAWA},
    },
    defences=("pgd-at",),
    attacks=("pgd-10",),
)


# Of the changes of a class, the change of all images if its classes changed independently and alike.
INDEPENDENT = "a class / √classes"


def changes(outcomes: xr.Dataset, draws: int = 1000) -> xr.DataArray:
    """Return the mean changes of CHANGING and INDEPENDENT, along quantity, weights and bound; outcomes: of `stack_epochs`."""

    def measured(count: xr.DataArray) -> xr.DataArray:
        kinds, sums = {str(kind): str(kind) for kind in count.weights.values}, count.to_dataset(name="count")
        each = {
            name: combine.concat_named("weights", kinds, partial(mean_change, sums, measure))
            for name, measure in CHANGING.items()
        }
        return combine.concat_named("quantity", each | {INDEPENDENT: each["a class"] / np.sqrt(count.sizes["label"])})

    return bootstrap.paired_bounds(outcomes, measured, draws=draws, span=(0, np.inf))


def choice_accuracies(outcomes: xr.Dataset, draws: int = 1000) -> xr.DataArray:
    """Return overall and worst accuracy of the epochs of `choices`, along measure, chosen and bound."""

    def measured(count: xr.DataArray) -> xr.DataArray:
        part = count.isel(_SETTING, drop=True)
        return combine.concat_named("measure", RATES, lambda measure: _mean_over_runs(measure(part), part))

    return bootstrap.paired_bounds(outcomes, measured, draws=draws, span=(0, 100))
