"""Robust and non-robust features, section 3.2 of Benz et al., in sentences that are computed."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from classwise.core.markup import counted
from classwise.core.spec import Spec
from classwise.papers.benz2020.rebuilt_images import Images, by_features, joined
from classwise.papers.benz2020.section_3_2_features import ATTACKS, NETWORK, NON_ROBUST, ROBUST, SETS, STANDARD
from classwise.papers.findings import effect, interval, sample
from classwise.stats import bootstrap, metrics, pooling

_DRAWS = 1000
QUARTER = ATTACKS[1]


def headline(outcomes: xr.Dataset, specs: Sequence[Spec] = ()) -> str:
    """Return how robust and how accurate training on either set is, next to standard training on the original images.

    specs: whose network is named.
    """
    if not {ROBUST, NON_ROBUST} <= set(map(str, outcomes.defence.values)):
        return f"Training on both robust and non-robust features is not recorded yet. {_sample(outcomes, specs)}"
    clean = bootstrap.bootstrap(outcomes.sel(attack=["clean"], defence=[ROBUST, NON_ROBUST]), metrics.overall, draws=_DRAWS).isel(
        attack=0, drop=True
    )
    robust, other = (interval(clean.sel(defence=name), "%") for name in (ROBUST, NON_ROBUST))
    useful = f"On clean test images a network trained on the {ROBUST} is right on {robust}, on the {NON_ROBUST} on {other}."
    if QUARTER not in outcomes.attack.values:
        return f"**{useful}** {_sample(outcomes, specs)}"
    return f"{_robustness(outcomes)} {useful} {_sample(outcomes, specs)}"


def _robustness(outcomes: xr.Dataset) -> str:
    """Return how the two sets differ at a quarter of the radius, and how standard training on the originals compares."""
    rates = metrics.overall(pooling.pooled(outcomes.sel(attack=[QUARTER]))).isel(attack=0)
    left = {str(name): f"{float(rates.sel(defence=name)):.0f} %" for name in rates.defence.values}
    more = _more(outcomes, ROBUST, NON_ROBUST)
    says = f"Under {QUARTER} the {ROBUST} leaves {left[ROBUST]} correct, the {NON_ROBUST} {left[NON_ROBUST]}"
    first = f"**{effect(more, says)}, a difference of {interval(more, 'points')}.**"
    if STANDARD not in left:
        return first
    than = interval(_more(outcomes, ROBUST, STANDARD), "points")
    return f"{first} Standard training on the original images leaves {left[STANDARD]}; {ROBUST} less original images: {than}."


def _more(outcomes: xr.Dataset, one: str, other: str) -> xr.DataArray:
    """Return how much more one training leaves correct at a quarter of the radius than another one, with its interval."""

    def more(count: xr.DataArray) -> xr.DataArray:
        each = metrics.overall(count)
        return each.sel(defence=one, drop=True) - each.sel(defence=other, drop=True)

    part = outcomes.sel(attack=[QUARTER], defence=[one, other])
    return bootstrap.paired(part, more, draws=_DRAWS, span=(-100, 100)).isel(attack=0, drop=True)


def _sample(outcomes: xr.Dataset, specs: Sequence[Spec]) -> str:
    return f"{sample(outcomes).replace('of each defence', 'of each training set')} {network(specs)}".rstrip()


def network(specs: Sequence[Spec]) -> str:
    """Return what network is trained, its width and its epochs; "" without a run."""
    rows = dict.fromkeys((spec.width, spec.epochs) for spec in specs)
    texts = [f"of width {width}, trained for {epochs} epochs" for width, epochs in rows]
    return f"Each network is a {NETWORK} {' or '.join(texts)}." if texts else ""


def reached(images: Images) -> str:
    """Return how many rebuilt images are closer to the features of their target than to those of their start."""
    parts = []
    for name, some in by_features(images).items():
        to_target, to_start, apart = (joined(some, one) for one in ("to_target", "to_start", "apart"))
        left = np.mean(to_target[apart > 0] / apart[apart > 0])
        share = 100 * np.mean(to_target < to_start)
        parts.append(f"{share:.1f} % of {counted(len(apart), 'image')} ({name}; {left:.2f} of the distance is left in the mean)")
    if not parts:
        return "No images with the features of others are recorded yet."
    return f"**Closer to the features of their target than to those of their start are** {' and '.join(parts)}."


def chance(outcomes: xr.Dataset) -> str:
    """Return which training sets are of use: whose networks are significantly better on clean images than one class for all."""
    count = pooling.pooled(outcomes).sel(attack="clean", drop=True)
    images = metrics.images(count)
    above = bootstrap.bootstrap(outcomes.sel(attack=["clean"]), metrics.overall, draws=_DRAWS).isel(attack=0, drop=True)
    floor = 100 * images.max("label") / images.sum("label")
    sure = [
        str(name)
        for name in above.defence.values
        if name in SETS and bool(above.sel(bound="low", defence=name) > floor.sel(defence=name))
    ]
    rest = [str(name) for name in above.defence.values if name in SETS and str(name) not in sure]
    level = f"one class for all images ({float(floor.max()):.0f} %)"
    lines = (
        [f"**Significantly better than {level}**: {', '.join(sure)}."]
        if sure
        else [f"No training set is significantly better than {level}."]
    )
    return " ".join([*lines, *([f"Not significantly: {', '.join(rest)}."] if sure and rest else [])])


def whose(likeness: xr.DataArray, leaning: xr.DataArray | None = None) -> str:
    """Return how the class profile of each training set correlates with those of training on the original images.

    First which one each set is more alike (`rebuilt_images.leaning`), last the networks on the original images themselves. What
    has no interval, because the network is too rarely right, is named.
    """
    known, unknown = dict[str, str](), []
    for name in map(str, likeness.defence.values):
        part = likeness.sel(defence=name)
        finite = [str(other) for other in part.network.values if np.isfinite(part.sel(network=other)).all()]
        texts = [f"{interval(part.sel(network=other), digits=2)} with {_named(name, other)}" for other in finite]
        known |= {name: f"{name} {' and '.join(texts)}"} if texts else {}
        unknown += [] if texts else [name]
    sets = "; ".join(text for name, text in known.items() if name in SETS)
    itself = "; ".join(text for name, text in known.items() if name not in SETS)
    lines = [] if leaning is None else [_leanings(leaning)]
    lines += [f"Correlations of the profiles: {sets}."] if sets else []
    lines += [f"Of the networks on the original images: {itself}."] if itself else []
    lines += [f"Unknown, since too few predictions are right: {', '.join(unknown)}."] if unknown else []
    return " ".join(line for line in lines if line)


def _leanings(leaning: xr.DataArray) -> str:
    """Return which network on the original images the profile of each set is more alike, "" if that is known of none."""
    lines = []
    for name in (name for name in SETS if name in leaning.defence.values):
        bounds = leaning.sel(defence=name)
        low, high = (float(bounds.sel(bound=end)) for end in ("low", "high"))
        if np.isfinite(low):
            says = "yes" if low > 0 else "no, less so" if high < 0 else "open"
            lines.append(f"{name}: {says}, {interval(bounds, digits=2)}")
    start = "Do the weak classes resemble those of pgd-at more than those of standard training?"
    return f"**{start}** By the difference of both correlations, {'; '.join(lines)}." if lines else ""


def _named(name: str, other: str) -> str:
    return "itself" if name == other else other


def unequal(explained: xr.DataArray) -> str:
    """Return after which trainings the class significantly explains a part of the variance of right and wrong predictions.

    explained: along bound, defence and attack.
    """
    lines = []
    for attack in map(str, explained.attack.values):
        low = explained.sel(attack=attack, bound="low", drop=True)
        sure = [str(name) for name in low.defence.values if float(low.sel(defence=name)) > 0]
        where = "on clean images" if attack == "clean" else f"under {attack}"
        lines.append(f"{where} after training on {', '.join(sure)}" if sure else f"{where} after none of the trainings")
    return f"**The class significantly explains a part of the variance of the predictions**: {'; '.join(lines)}."


def undisturbed(outcomes: xr.Dataset) -> str:
    """Return how robust training on the original images is, next to that on rebuilt ones."""
    rates = metrics.overall(pooling.pooled(outcomes.sel(attack=[QUARTER]))).isel(attack=0)
    known = {"standard": "standard training", "pgd-at": "adversarial training"}
    texts = [f"{float(rates.sel(defence=name)):.0f} % after {words}" for name, words in known.items() if name in rates.defence]
    sets = [f"{name} {float(rates.sel(defence=name)):.0f} %" for name in SETS if name in rates.defence]
    of_sets = f"; after standard training on rebuilt ones: {', '.join(sets)}" if sets else ""
    return f"Robust accuracy under {QUARTER}: {' and '.join(texts)} on the original images{of_sets}."
