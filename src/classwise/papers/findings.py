"""The finding of a page in a sentence: each number is computed, with its 95 % interval.

Bounds are arrays along the dimension bound ("low", "value", "high"), as `stats.bootstrap` returns them.
"""

import numpy as np
import xarray as xr

from classwise.stats import aggregate, bootstrap, convergence, metrics, pooling
from classwise.stats.significance import p_text


def interval(bounds: xr.DataArray, unit: str = "", digits: int = 0) -> str:
    """Return a number with its interval: "59 points (95 % interval 51 to 66)"; `bounds` has no dimension but bound."""
    low, value, high = (_number(float(bounds.sel(bound=name)), digits) for name in ("low", "value", "high"))
    return f"{value}{' ' * bool(unit)}{unit} (95 % interval {low} to {high})"


def _number(value: float, digits: int) -> str:
    """Return a number without the sign of a zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def p_value(p: float) -> str:
    """Return a p-value with its symbol: "p = 0.012", "p < .001", "p unknown" for NaN."""
    text = p_text(p) or "unknown"
    return f"p {text}" if text.startswith(("<", "u")) else f"p = {text}"


def class_gap(outcomes: xr.Dataset, defence: str, attack: str) -> str:
    """Return how far the best class of a defence is from the worst under an attack, and how far without.

    outcomes: of several defences, "clean" and under the attack; if "standard" is among them, its gap without attack is stated.
    """
    kept = [name for name in (defence, "standard") if name in outcomes.defence]
    part = outcomes.sel(defence=list(dict.fromkeys(kept)), attack=["clean", attack])
    rates = metrics.accuracy(pooling.pooled(part).sel(defence=defence, attack=attack))
    best, worst = (str(rates[int(place)].label.item()) for place in (rates.argmax("label"), rates.argmin("label")))
    gap = bootstrap.bootstrap(part, metrics.mcd)
    first = (
        f"**Under {attack}, {defence} classifies {float(rates.max()):.0f} % of class {best} correctly and "
        f"{float(rates.min()):.0f} % of class {worst}: a gap of {interval(gap.sel(defence=defence, attack=attack), 'points')}.**"
    )
    clean = gap.sel(bound="value", attack="clean")
    other = f", that of standard training {float(clean.sel(defence='standard')):.0f}" if len(part.defence) > 1 else ""
    return f"{first} Without an attack its gap is {float(clean.sel(defence=defence)):.0f} points{other}."


def weakest_attack(outcomes: xr.Dataset, attack: str = "pgd-20") -> str:
    """Return by how much one attack overestimates robust accuracy, compared with all attacks together.

    outcomes: of one or more defences under several attacks, compared on the images that all attacks were evaluated on.
    """
    names = [str(name) for name in outcomes.attack.values if name != "clean"]
    full = aggregate.with_worst_case(aggregate.common(outcomes.sel(attack=names)), "all")
    full = full.assign(truth=full.truth.where(full.truth.sel(attack="all") >= 0, -1))

    def more(count: xr.DataArray) -> xr.DataArray:
        left = metrics.overall(count).mean("defence")
        return left.sel(attack=attack) - left.sel(attack="all")

    left = metrics.overall(bootstrap.sums(full, {})["count"]).mean("defence")
    single, every = (float(left.sel(attack=name)) for name in (attack, "all"))
    return (
        f"**Robust accuracy is {single:.1f} % under {attack} alone and {every:.1f} % under all {len(names)} attacks together: "
        f"{attack} overestimates it by {interval(bootstrap.paired(full, more), 'points', 1)}.**"
    )


def worst_class_gains(outcomes: xr.Dataset, base: str = "pgd-at", level: float = 0.95) -> xr.DataArray:
    """Return low, value and high of the gain of the worst class of each other defence over a base, in points.

    outcomes: under one attack. The intervals hold simultaneously for all defences at the level (Bonferroni).
    """
    names = [str(name) for name in outcomes.defence.values if name != base]
    each = 1 - (1 - level) / max(len(names), 1)
    return bootstrap.gains(outcomes, dict.fromkeys(names, base), metrics.worst, each, draws=4000)


def best_for_the_worst_class(outcomes: xr.Dataset, attack: str, base: str = "pgd-at") -> str:
    """Return which defence has the most robust worst class under an attack, and how many gain significantly over a base.

    Of the base alone, how robust its weakest class is.
    """
    under = outcomes.sel(attack=attack, drop=True)
    if under.sizes["defence"] == 1:
        return weakest_class(pooling.pooled(under).isel(defence=0, drop=True), str(under.defence.item()), attack)
    gains = worst_class_gains(under, base)
    value, number = gains.sel(bound="value"), gains.sizes["defence"]
    name = str(value.idxmax("defence").item())
    count = bootstrap.sums(under, {})["count"].sel(defence=[base, name])
    (before, after), (overall_before, overall_after) = metrics.worst(count).values, metrics.overall(count).values
    most = f"{name} has the most robust worst class under {attack}"
    none = f"No defence has a more robust worst class under {attack} than {base}; {name} comes closest"
    corrected = f"95 % interval, corrected for {number} defences,"
    gained = interval(gains.sel(defence=name), "points").replace("95 % interval", corrected)
    better = int((gains.sel(bound="low") > 0).sum())
    return (
        f"**{most if float(value.max()) > 0 else none}: {after:.0f} %, compared with {before:.0f} % for {base}, a difference of "
        f"{gained}.** Over all classes it is {overall_after:.0f} %, compared with {overall_before:.0f} %. "
        f"{better or 'None'} of the {number} defences {'has' if better < 2 else 'have'} a significantly more robust worst class "
        f"than {base}."
    )


def weakest_class(count: xr.DataArray, network: str, attack: str) -> str:
    """Return the weakest class of a network under an attack, compared with all classes: counts with label and predicted only."""
    rates = metrics.accuracy(count)
    worst = str(rates[int(rates.fillna(np.inf).argmin("label"))].label.item())
    draws = int(min(2000, max(200, 50_000_000 // count.sizes["label"] ** 2)))
    ends = [bootstrap.bootstrap(count, measure, draws=draws) for measure in (metrics.worst, metrics.overall)]
    of_worst, of_all = (interval(bounds, "%") for bounds in ends)
    return (
        f"**Under {attack}, {network} classifies {of_worst} of the images of class {worst}, its weakest, correctly, and "
        f"{of_all} of all images.**"
    )


def converged(compared: xr.Dataset) -> str:
    """Return which trainings of a comparison with twice the epochs gain much by them, and the largest gain of the others."""
    gain = convergence.comparison(compared)["gain"].sel(bound="value")
    late = convergence.unconverged(compared)
    most = float(gain.drop_sel(training=late).max())
    names = ", ".join(late) or "none"
    return (
        f"**Twice the epochs add more than {convergence.LARGEST_GAIN:g} points of robust accuracy to: {names}; to the other "
        f"{gain.sizes['training'] - len(late)} trainings at most {most:.1f} points.**"
    )
