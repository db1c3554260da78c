"""Wei et al. 2023, section 3.1: adversarial training with different margins, the radii of the attack inside the training.

All networks are evaluated at the radius of the scale. The claims need along `margin` the radius of the training as a multiple of
that radius ("1/2", "1", "3/2"), and on the classes which ones are `hard` and `easy`. Those about Figure 2b, the mean over epochs
101 to 120, take the best epoch of long trainings and the last one of others; those about the last phase of long trainings need
both, along `checkpoint`.
"""

from fractions import Fraction
from functools import partial
from typing import Any

import pandas as pd
import xarray as xr

from classwise.core.identity import exact_radius
from classwise.core.spec import Evaluation
from classwise.papers.sections import Derived, Part, Section
from classwise.papers.terms import Term, claims, least, value
from classwise.papers.variants import choose_by_scale, none, usual
from classwise.papers.wei2023.classes import DIFFERENCE, group_points, mark_groups, mean_of
from classwise.papers.wei2023.sweeps import HALF, LARGE, PGD_AT, RADII, USUAL, stack_margins, stack_radii
from classwise.stats import aggregate, combine, intervals, metrics, pooling

NAME = "wei2023/3-1-margins"


def _by_margin(plain: xr.Dataset, swept: xr.Dataset) -> xr.Dataset:
    return stack_margins(stack_radii(plain, swept))


def select_best_phase(plain: xr.Dataset, swept: xr.Dataset, *best: xr.Dataset | None) -> xr.Dataset:
    """Return the networks of all radii as the claims take them: at the best epoch where that of all was evaluated."""
    evaluated = [some for some in best if some is not None]
    return _by_margin(*evaluated) if len(evaluated) == 2 else _by_margin(plain, swept)


def best_and_last(plain: xr.Dataset, swept: xr.Dataset, best: xr.Dataset, best_swept: xr.Dataset) -> xr.Dataset:
    """Return the networks of the radii in `best` and `best_swept` along checkpoint: the last epoch and the best one."""
    kept = _by_margin(best, best_swept)
    last = _by_margin(plain, swept).sel(margin=kept.margin.values, attack=kept.attack.values)
    joined = combine.combine("checkpoint", combine.shared_seeds({"last": last, "best": kept}))
    return mark_groups(joined.assign_attrs(plain.attrs))


# Of scale "paper" alone, whose trainings are long enough for robust overfitting.
_BEST: dict[str, Any] = {**PGD_AT, "evaluations": (Evaluation(attack="pgd-20", checkpoint="best"),), "at": (USUAL,)}
_SWEPT = choose_by_scale(none, paper=RADII.variants)

SECTION = Section(
    title="Different margins",
    parts={
        "best": Part(title="the best epochs", variants=choose_by_scale(none, paper=usual), **_BEST),
        "best swept": Part(title="the best epochs of other radii", run={"averages": ()}, variants=_SWEPT, **_BEST),
        "swept": RADII,
        "choosing": Part(title="the runs that select the hard and the easy classes", defences=("pgd-at",), evaluations=()),
    },
    arrange={
        "radii": Derived(stack_radii, ("", "swept")),
        "margins": Derived(_by_margin, ("", "swept")),
        "best phase": Derived(select_best_phase, ("", "swept"), ("best", "best swept")),
        "best and last": Derived(best_and_last, ("", "swept", "best", "best swept")),
    },
    **PGD_AT,
)


def _rates(count: xr.DataArray) -> xr.DataArray:
    """Return the accuracy of each class along margin, of the first defence under the last attack."""
    return metrics.accuracy(count.isel(defence=0, attack=-1, drop=True))


def changes(count: xr.DataArray, first: str = USUAL, second: str = LARGE) -> xr.DataArray:
    """Return how many points hard classes, easy ones and hard less easy ones, along group, change from one margin to another."""
    rates = _rates(count)
    return group_points(rates.sel(margin=second, drop=True) - rates.sel(margin=first, drop=True))


def change(sums: xr.Dataset, group: str) -> xr.DataArray:
    """Return by how many points a group of classes changes from the usual radius to one half larger."""
    return changes(sums["count"]).sel(group=group, drop=True)


def extra_drop_of_hard(sums: xr.Dataset) -> xr.DataArray:
    """Return how much more the hard classes lose than the easy ones, from half the usual radius to one half larger."""
    return -changes(sums["count"], first=HALF).sel(group=DIFFERENCE, drop=True)


def class_changes(sums: xr.Dataset) -> xr.DataArray:
    """Return by how many points each class changes at the last epoch, from the usual radius to half more."""
    rates = _rates(sums["count"].sel(checkpoint="last", drop=True))
    return rates.sel(margin=LARGE, drop=True) - rates.sel(margin=USUAL, drop=True)


def steps_of_easy(sums: xr.Dataset) -> xr.DataArray:
    """Return the gain of the easy classes, along step, from one radius to the next, up to half more than the usual one."""
    names = sorted(map(str, sums["count"].margin.values), key=Fraction)
    kept = [name for name in names if Fraction(name) <= Fraction(LARGE)]
    return mean_of(_rates(sums["count"]), "easy").sel(margin=kept).diff("margin").rename(margin="step")


def _at(margin: str, **at: str) -> Term:
    return value(metrics.overall, "pgd-at", "pgd-20", margin=margin, **at)


_OF_ALL = {"grid": {"margin": (HALF, USUAL, LARGE)}}

CLAIMS = claims(
    NAME,
    {
        "smaller-radius-too-weak": {"measure": _at(USUAL) - _at(HALF), "grid": {"margin": (HALF, USUAL)}},
        "larger-radius-best": _at(LARGE, checkpoint="best") - _at(USUAL, checkpoint="best"),
        "larger-radius-last": _at(LARGE, checkpoint="last") - _at(USUAL, checkpoint="last"),
        "easy-classes-rise": {"measure": least(steps_of_easy), **_OF_ALL},
        "hard-classes-drop": partial(change, group="hard"),
        "hard-less-than-easy": partial(change, group=DIFFERENCE),
        "strong-attacks-harm-hard": {"measure": extra_drop_of_hard, "attacks": ("clean",), **_OF_ALL},
        "every-class-rises-last": least(class_changes),
    },
    defences=("pgd-at",),
    attacks=("pgd-20",),
    grid={"margin": (USUAL, LARGE)},
)


def course_counts(plain: xr.Dataset, swept: xr.Dataset, eps: str) -> xr.DataArray:
    """Return the counts of two histories over the epochs along `eps`, the radius of the training; seeds pooled.

    plain: of the networks trained at the radius `eps`. swept: at other radii. All were measured at `eps`.
    """
    several = {str(name): swept["count"].sel(eps=name, drop=True) for name in swept.eps.values}
    parts = several | {eps: plain["count"].sel(seed=swept.seed)}
    names = sorted(parts, key=exact_radius)
    # A scale may train at larger radii against more steps; combinations without a run count nothing.
    summed = [parts[name].sum([dim for dim in ("seed", "attack_steps") if dim in parts[name].dims]) for name in names]
    counts = [count.isel(defence=0, drop=True).sel(split=["valid", "test"]) for count in summed]
    joined = xr.concat([aggregate.clean_and_attacked(count) for count in counts], pd.Index(names, name="eps"))
    return aggregate.measured_epochs(joined)


def overall_course(count: xr.DataArray, outcomes: xr.Dataset) -> xr.DataArray:
    """Return low, value and high of the robust accuracy over all test images along epoch, eps and bound.

    count: of `course_counts`. outcomes: of the same networks under attack; images that seeds share count as in these.
    """
    effect = pooling.design_effect(outcomes).isel(defence=0, attack=-1, drop=True)
    worth = count.sel(split="test", images_are="attacked", drop=True) / effect
    return intervals.rate_bounds(metrics.correct(worth).sum("label"), metrics.images(worth).sum("label"))
