"""Wei et al. 2023, section 3.1: adversarial training with different margins, the radii of the attack inside the training.

All networks are evaluated at the radius of the scale. The claims need along `margin` the radius of the training as a multiple of
that radius ("1/2", "1", "3/2"), and on the classes which ones are `hard` and `easy`. Those about Figure 2b, the mean over epochs
101 to 120, take the best epoch of long trainings and the last one of others; those about the last phase of long trainings need
both, along `checkpoint`.
"""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import pandas as pd
import xarray as xr

from classwise.core.identity import exact_radius
from classwise.core.spec import Evaluation
from classwise.papers import variants
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Section
from classwise.papers.terms import Term, claims, least, of
from classwise.papers.wei2023.classes import hard_less_easy, mark_groups, mean_of, of_groups
from classwise.stats import aggregate, combine, intervals, metrics, pooling

NAME = "wei2023/3-1-margins"
# The radius of the scale, of half of which and of half more than which the claims speak.
_USUAL, _HALF, _LARGE = "1", "1/2", "3/2"
# The networks are judged at the radius of the scale, and at half of it.
_JUDGED: dict[str, Any] = {"defences": ("pgd-at",), "evaluations": CLEAN_AND_PGD, "max_seeds": 2, "at": (_USUAL, _HALF)}
# Figure 2 has eight radii at scale "paper".
_OTHERS = variants.by_scale(
    variants.margins("1/4", _HALF, _LARGE),
    laptop=variants.margins(_HALF, _LARGE),
    paper=variants.margins("1/4", _HALF, "3/4", "5/4", _LARGE, "7/4", "2"),
)


def by_radius(plain: xr.Dataset, swept: xr.Dataset) -> xr.Dataset:
    """Return outcomes along `eps`, the radius of the training, in rising order, and `eval_eps`, that of the evaluation.

    plain: of the networks trained at the radius of the scale, which the attribute `eps` says. swept: at other radii. Seeds that
    not all of them have are left out.
    """
    several = swept if "eps" in swept.dims else swept.expand_dims(eps=[swept.attrs["eps"]])
    parts = {str(eps): several.sel(eps=eps, drop=True) for eps in several.eps.values} | {plain.attrs["eps"]: plain}
    kept = combine.shared_seeds({name: parts[name] for name in sorted(parts, key=exact_radius)})
    joined = combine.combine("eps", kept).assign_attrs(plain.attrs)
    return joined if "eval_eps" in joined.dims else joined.expand_dims(eval_eps=[plain.attrs["eps"]])


def by_margin(outcomes: xr.Dataset) -> xr.Dataset:
    """Return what the claims need of `by_radius`: judged at the first radius, along `margin`, with the two groups of classes."""
    usual = exact_radius(outcomes.attrs["eps"])
    multiples = [str(exact_radius(str(eps)) / usual) for eps in outcomes.eps.values]
    return mark_groups(outcomes.isel(eval_eps=0, drop=True).assign_coords(eps=multiples).rename(eps="margin"))


def _claimed(plain: xr.Dataset, swept: xr.Dataset) -> xr.Dataset:
    """Return the networks of all radii, judged at that of the scale, with the two groups of classes."""
    return by_margin(by_radius(plain, swept))


def in_best_phase(plain: xr.Dataset, swept: xr.Dataset, *best: xr.Dataset | None) -> xr.Dataset:
    """Return the networks of all radii as the claims take them: at the best epoch where that of all was evaluated."""
    evaluated = [some for some in best if some is not None]
    return _claimed(*evaluated) if len(evaluated) == 2 else _claimed(plain, swept)


def best_and_last(plain: xr.Dataset, swept: xr.Dataset, best: xr.Dataset, best_swept: xr.Dataset) -> xr.Dataset:
    """Return the networks of the radii in `best` and `best_swept` along checkpoint: the last epoch and the best one."""
    kept = _claimed(best, best_swept)
    last = _claimed(plain, swept).sel(margin=kept.margin.values, attack=kept.attack.values)
    joined = combine.combine("checkpoint", combine.shared_seeds({"last": last, "best": kept}))
    return mark_groups(joined.assign_attrs(plain.attrs))


def _long(multiples: variants.Variants) -> variants.Variants:
    """Return the variants at scale "paper", whose trainings are long enough for robust overfitting; none at others."""
    return variants.by_scale(lambda scale, plain: (), paper=multiples)


_BEST: dict[str, Any] = {**_JUDGED, "evaluations": (Evaluation(attack="pgd-20", checkpoint="best"),), "at": (_USUAL,)}

SECTION = Section(
    title="Different margins",
    parts={
        "best": Section(title="the best epochs", variants=_long(variants.unvaried), **_BEST),
        "best swept": Section(title="the best epochs of other radii", run={"averages": ()}, variants=_long(_OTHERS), **_BEST),
        "swept": Section(title="other radii", run={"averages": ()}, variants=_OTHERS, **_JUDGED),
        "choosing": Section(title="the runs that select the hard and the easy classes", defences=("pgd-at",)),
    },
    arrange={
        "margins": Arranged(_claimed, ("", "swept")),
        "best phase": Arranged(in_best_phase, ("", "swept"), ("best", "best swept")),
        "best and last": Arranged(best_and_last, ("", "swept", "best", "best swept")),
    },
    **_JUDGED,
)


def _counts(sums: xr.Dataset, margin: str, **place: Any) -> xr.DataArray:
    """Return the counts of the first defence and attack at a margin."""
    return sums["count"].isel(defence=0, attack=0).sel(margin=margin, drop=True, **place)


def _change(sums: xr.Dataset, first: str = _USUAL, second: str = _LARGE) -> xr.DataArray:
    """Return by how many points each class changes from one margin to another."""
    return metrics.accuracy(_counts(sums, second)) - metrics.accuracy(_counts(sums, first))


def class_changes(sums: xr.Dataset) -> xr.DataArray:
    """Return by how many points each class changes at the last epoch, from the usual radius to half more."""
    first, second = (metrics.accuracy(_counts(sums, margin, checkpoint="last")) for margin in (_USUAL, _LARGE))
    return second - first


def steps_of_easy(sums: xr.Dataset) -> xr.DataArray:
    """Return the gain of the easy classes, along step, from one radius to the next, up to half more than the usual one."""
    names = [str(name) for name in sums["count"].margin.values if Fraction(str(name)) <= Fraction(_LARGE)]
    rates = [mean_of(metrics.accuracy(_counts(sums, name)), "easy") for name in sorted(names, key=Fraction)]
    steps = [second - first for first, second in pairwise(rates)]
    return xr.concat(steps, "step")


def change_of_hard(sums: xr.Dataset) -> xr.DataArray:
    """Return by how many points the hard classes change from the usual radius to one half larger."""
    return mean_of(_change(sums), "hard")


def contrast(sums: xr.Dataset) -> xr.DataArray:
    """Return by how much more the hard classes change than the easy ones, from the usual radius to one half larger."""
    return hard_less_easy(_change(sums))


def lost_by_hard(sums: xr.Dataset) -> xr.DataArray:
    """Return how much more the hard classes lose than the easy ones, from half the usual radius to one half larger."""
    return -hard_less_easy(_change(sums, _HALF))


def _at(margin: str, **at: str) -> Term:
    return of(metrics.overall, "pgd-at", "pgd-20", margin=margin, **at)


_OF_ALL = {"grid": {"margin": (_HALF, _USUAL, _LARGE)}}

CLAIMS = claims(
    NAME,
    {
        "smaller-radius-too-weak": {"measure": _at(_USUAL) - _at(_HALF), "grid": {"margin": (_HALF, _USUAL)}},
        "larger-radius-best": _at(_LARGE, checkpoint="best") - _at(_USUAL, checkpoint="best"),
        "larger-radius-last": _at(_LARGE, checkpoint="last") - _at(_USUAL, checkpoint="last"),
        "easy-classes-rise": {"measure": least(steps_of_easy), **_OF_ALL},
        "hard-classes-drop": change_of_hard,
        "hard-less-than-easy": contrast,
        "strong-attacks-harm-hard": {"measure": lost_by_hard, "attacks": ("clean",), **_OF_ALL},
        "every-class-rises-last": least(class_changes),
    },
    defences=("pgd-at",),
    attacks=("pgd-20",),
    grid={"margin": (_USUAL, _LARGE)},
)


def changes_of_groups(count: xr.DataArray) -> xr.DataArray:
    """Return how many points hard and easy classes change from the usual radius to half more, and the difference, along `group`.

    count: along margin and attack; the attack is the last one.
    """
    change = metrics.accuracy(count.sel(margin=_LARGE)) - metrics.accuracy(count.sel(margin=_USUAL))
    return of_groups(change.isel(defence=0, attack=-1, drop=True))


def course_counts(plain: xr.Dataset, swept: xr.Dataset, eps: str) -> xr.DataArray:
    """Return the counts of two histories over the epochs along `eps`, the radius of the training; seeds pooled.

    plain: of the networks trained at the radius `eps`. swept: at other radii. All were measured at `eps`.
    """
    several = {str(name): swept["count"].sel(eps=name, drop=True) for name in swept.eps.values}
    parts = several | {eps: plain["count"].sel(seed=swept.seed)}
    names = sorted(parts, key=exact_radius)
    counts = [parts[name].sum("seed").isel(defence=0, drop=True).sel(split=["valid", "test"]) for name in names]
    joined = xr.concat([aggregate.clean_and_attacked(count) for count in counts], pd.Index(names, name="eps"))
    return aggregate.measured_epochs(joined)


def overall_course(count: xr.DataArray, outcomes: xr.Dataset) -> xr.DataArray:
    """Return low, value and high of the robust accuracy over all test images along epoch, eps and bound.

    count: of `course_counts`. outcomes: of the same networks under attack; images that seeds share count as in these.
    """
    effect = pooling.design_effect(outcomes).isel(defence=0, attack=-1, drop=True)
    worth = count.sel(split="test", images_are="attacked", drop=True) / effect
    ends = intervals.wilson_of(metrics.overall, worth)
    assert ends is not None
    value = metrics.overall(worth).expand_dims(bound=["value"])
    return xr.concat([ends, value], "bound")
