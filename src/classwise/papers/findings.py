"""The finding of a page in a sentence: each number is computed, with its 95 % interval.

Bounds are arrays along the dimension bound ("low", "value", "high"), as `stats.bootstrap` returns them.
"""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from classwise.charts import audit_report
from classwise.core.audit import Audit
from classwise.core.markup import counted, escaped
from classwise.papers.say import effect as effect
from classwise.papers.say import interval as interval
from classwise.papers.say import sample as sample
from classwise.stats import aggregate, bootstrap, convergence, masking, metrics, pooling
from classwise.stats.significance import p_value as p_value

# What follows from the causes of an audit's warnings, for others than attacks that fail.
_MEANING = {
    masking.SINGLE_STEP: "Accuracy under a single step is misleading.",
    masking.WEAK: "An audit with --attack strong tells which.",
}


def class_gap(outcomes: xr.Dataset, defence: str, attack: str) -> str:
    """Return how far the best class of a defence is from the worst under an attack, and how far without.

    outcomes: of several defences, "clean" and under the attack; if "standard" is among them, its gap without attack is stated.
    """
    kept = [name for name in (defence, "standard") if name in outcomes.defence]
    part = outcomes.sel(defence=list(dict.fromkeys(kept)), attack=["clean", attack])
    rates = metrics.accuracy(pooling.pooled(part).sel(defence=defence, attack=attack))
    best, worst = (escaped(str(rates[int(place)].label.item())) for place in (rates.argmax("label"), rates.argmin("label")))
    gap = bootstrap.bootstrap(part, metrics.mcd)
    first = (
        f"**Under {attack}, {defence} classifies {float(rates.max()):.0f} % of class {best} correctly and "
        f"{float(rates.min()):.0f} % of class {worst}: a gap of {interval(gap.sel(defence=defence, attack=attack), 'points')}.**"
    )
    clean = gap.sel(attack="clean", drop=True)
    other = f"; that of standard training is {interval(clean.sel(defence='standard'), 'points')}" if len(part.defence) > 1 else ""
    without = f"Without an attack its gap is {interval(clean.sel(defence=defence), 'points')}{other}."
    return f"{first} {without} {_gap_of_the_attack(part.sel(defence=[defence]), attack)} {sample(part)}"


def _gap_of_the_attack(outcomes: xr.Dataset, attack: str) -> str:
    """Return whether an attack widens the gap between the classes of one defence, compared with clean images."""

    def change(count: xr.DataArray) -> xr.DataArray:
        gap = metrics.mcd(count)
        return gap.sel(attack=attack, drop=True) - gap.sel(attack="clean", drop=True)

    bounds = bootstrap.paired(outcomes, change, span=(-100, 100)).isel(defence=0, drop=True)
    start = "Whether the attack itself changes the gap is open"
    if float(bounds.sel(bound="low")) > 0:
        start = "The attack itself widens the gap"
    elif float(bounds.sel(bound="high")) < 0:
        start = "The attack itself does not widen the gap, but narrows it"
    return f"{start}: attacked minus clean, it is {interval(bounds, 'points')}."


def strongest_attack(outcomes: xr.Dataset, defence: str, attack: str) -> str:
    """Return how much lower the strongest attack on a defence brings its worst class than another attack, on the same images."""
    part = outcomes.sel(defence=[defence])
    names = [str(name) for name in part.attack.values if name != "clean"]
    left = metrics.overall(bootstrap.sums(aggregate.common(part.sel(attack=names)), {})["count"]).isel(defence=0)
    strongest = str(left.idxmin("attack").item())
    if strongest == attack:
        return f"No stronger attack than {attack} has results."
    both = aggregate.common(part.sel(attack=[attack, strongest]))

    def lower(count: xr.DataArray) -> xr.DataArray:
        worst = metrics.worst(count)
        return worst.sel(attack=attack, drop=True) - worst.sel(attack=strongest, drop=True)

    count = bootstrap.sums(both, {})["count"].isel(defence=0)
    before, after = (float(metrics.worst(count.sel(attack=name))) for name in (attack, strongest))
    images = int((both.truth >= 0).any([dim for dim in both.truth.dims if dim != "image"]).sum())
    difference = interval(bootstrap.paired(both, lower, span=(-100, 100)).isel(defence=0), "points", 1)
    return (
        f"A stronger attack, {strongest}, lowers the worst class of {defence} further: from {before:.1f} % under {attack} to "
        f"{after:.1f} %, by {difference}, on the {counted(images, 'image')} that both attacks were evaluated on."
    )


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
    number = int(
        (full.truth.sel(attack="all") >= 0).any([dim for dim in full.truth.dims if dim not in ("image", "attack")]).sum()
    )
    networks = ", ".join(map(str, full.defence.values))
    too_high = interval(bootstrap.paired(full, more, span=(0, 100)), "points", 1)
    return (
        f"**Robust accuracy of {networks} is {single:.1f} % under {attack} alone and {every:.1f} % under all {len(names)} "
        f"attacks together: {attack} overestimates it by {too_high}.** All attacks were evaluated on {number:,} images, and are "
        "compared on these."
    )


def worst_class_gains(outcomes: xr.Dataset, base: str = "pgd-at", level: float = 0.95) -> xr.DataArray:
    """Return low, value and high of the gain of the worst class of each other defence over a base, in points.

    outcomes: under one attack. The intervals hold simultaneously for all defences at the level (Bonferroni).
    """
    names = [str(name) for name in outcomes.defence.values if name != base]
    each = 1 - (1 - level) / max(len(names), 1)
    # Enough draws that ten or more lie beyond each end.
    draws = min(max(4000, int(20 / (1 - each))), 20_000)
    return bootstrap.gains(outcomes, dict.fromkeys(names, base), metrics.worst, each, draws)


def best_for_the_worst_class(outcomes: xr.Dataset, attack: str, base: str = "pgd-at") -> str:
    """Return which defence has the most robust worst class under an attack, and how many gain significantly over a base.

    Of the base alone, how robust its weakest class is.
    """
    under = outcomes.sel(attack=attack, drop=True)
    if under.sizes["defence"] == 1:
        return weakest_class(pooling.pooled(under).isel(defence=0, drop=True), str(under.defence.item()), attack)
    gains = worst_class_gains(under, base)
    value, number = gains.sel(bound="value"), gains.sizes["defence"]
    better = gains.sel(bound="low") > 0
    name = str((value.where(better) if bool(better.any()) else value).idxmax("defence").item())
    count = bootstrap.sums(under, {})["count"].sel(defence=[base, name])
    overall_before, overall_after = metrics.overall(count).values
    before, after = (_worst_class(count.isel(defence=place, drop=True)) for place in (0, 1))
    most = f"{name} has a more robust worst class than {base} under {attack}"
    none = f"No defence has a significantly more robust worst class than {base} under {attack}"
    none += f"; the highest observed is that of {name}"
    corrected = f"95 % interval, corrected for {number} defences,"
    gained = interval(gains.sel(defence=name), "points").replace("95 % interval", corrected)
    times = int(better.sum())
    counted = f" {times} of the {number} defences {'has' if times < 2 else 'have'} a significantly more robust worst class."
    return (
        f"**{most if times else none}: {after}, compared with {before}, a difference of {gained}.** Over all classes "
        f"it is {overall_after:.0f} %, compared with {overall_before:.0f} %.{counted if times else ''}"
    )


def _worst_class(count: xr.DataArray) -> str:
    """Return the accuracy of the worst class of a network and its name: "26 % (class 8)"."""
    rates = metrics.accuracy(count)
    worst = rates[int(rates.fillna(np.inf).argmin("label"))]
    return f"{float(worst):.0f} % (class {escaped(str(worst.label.item()))})"


def calibrations(gains: xr.DataArray | None) -> str:
    """Return which calibrated defences gain for the worst class over their base (`bootstrap.gains`); None: none has results."""
    if gains is None:
        return "No calibrated defence has results at this scale together with its base."
    low, high = gains.sel(bound="low"), gains.sel(bound="high")
    better, worse = (", ".join(map(str, gains.defence.values[side.values])) or "none" for side in (low > 0, high < 0))
    number = gains.sizes["defence"]
    return (
        f"**More robust worst class than its own base**, which need not be pgd-at, of {number} calibrated defences: {better}. "
        f"**Less robust**: {worse}. The intervals are those of single comparisons: they are not corrected for their number."
    )


def weakest_class(count: xr.DataArray, network: str, attack: str) -> str:
    """Return the weakest class of a network under an attack, compared with all classes: counts with label and predicted only."""
    rates = metrics.accuracy(count)
    worst = escaped(str(rates[int(rates.fillna(np.inf).argmin("label"))].label.item()))
    draws = int(min(2000, max(200, 50_000_000 // count.sizes["label"] ** 2)))
    ends = [bootstrap.bootstrap(count, measure, draws=draws) for measure in (metrics.worst, metrics.overall)]
    of_worst, of_all = (interval(bounds, "%") for bounds in ends)
    return (
        f"**Under {attack}, {escaped(network)} classifies {of_worst} of the images of class {worst}, its weakest, correctly, and "
        f"{of_all} of all images.**"
    )


def audited(audit: Audit, count: xr.DataArray, warned: Mapping[str, str]) -> str:
    """Return in bold the accuracy in the worst case and without an attack, and the warnings of `masking.warnings`.

    `count` is of `masking.audited`; a class that withstands attacks more often than it is classified correctly is a ValueError.
    """
    clean, worst = count.sel(attack="clean"), count.sel(attack=masking.WORST)
    if bool((metrics.correct(worst) > metrics.correct(clean)).any()):
        raise ValueError("robust accuracy is above clean accuracy: the counts are not of the same images")
    rates = [audit_report.rate(*audit_report.overall(some)) for some in (worst, clean)]
    lines = [
        f"{escaped(audit.short)} classifies {rates[0]} of {int(worst.sum()):,} images of {escaped(audit.title)} correctly in "
        f"the worst case over all attacks of this page at radius {audit.eps}, and {rates[1]} without an attack."
        f"{_weakest_classes(worst)}"
    ]
    for cause, text in warned.items():
        means = _MEANING.get(cause, "Other attacks may break more images." if metrics.correct(worst).any() else "")
        lines.append(f"Warning: {cause}. {escaped(text[:1].upper() + text[1:])}. {means}".strip())
    lines += [f"Warning: {text}" for text in audit_report.clean_warnings(clean)]
    none = "\n\nNo sanity check of the attacks gives a warning." if len(lines) == 1 else ""
    return "\n\n".join(f"**{line}**" for line in lines) + none


def _weakest_classes(worst: xr.DataArray) -> str:
    """Return the accuracy of the weakest class, or of the weakest ones if several are equal; "" if all are."""
    rates = metrics.accuracy(worst)
    names = [str(name) for name in worst.label.values if float(rates.sel(label=name)) == float(rates.min())]
    if float(metrics.mcd(worst)) == 0:
        return ""
    if len(names) > 1:
        return f" Its weakest {len(names)} classes: {float(rates.min()):.0f} %."
    rate = audit_report.rate(*audit_report.right_of(worst.sel(label=names[0]), names[0]))
    return f" Its weakest class is class {escaped(names[0])}: {rate}."


def converged(compared: xr.Dataset) -> str:
    """Return to which trainings twice the epochs add more than they may, with the largest gain of the others.

    compared: of `stats.convergence.comparison`.
    """
    gain, late = compared["gain"], convergence.unconverged(compared)
    kept = gain.drop_sel(training=late)
    name = str(kept.sel(bound="value").idxmax("training").item())
    sure = int((kept.sel(bound="high") <= convergence.LARGEST_GAIN).sum())
    worse = ", ".join(map(str, gain.training.values[gain.sel(bound="high").values < 0])) or "none"
    limit, number = f"{convergence.LARGEST_GAIN:g} points", gain.sizes["training"]
    return (
        f"**On {compared.attrs.get('dataset', 'its dataset')}, twice the epochs add at most {limit} of robust accuracy to "
        f"{number - len(late)} of {number} trainings, most to {name}: {interval(kept.sel(training=name), 'points', 1)}; they add "
        f"more to: {', '.join(late) or 'none'}.** The entire interval is below {limit} for {sure} of them. Twice the epochs are "
        f"significantly worse for: {worse}."
    )
