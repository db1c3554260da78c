"""The findings of pages of no paper, in sentences: each number is computed, with its 95 % interval."""

from collections.abc import Mapping

import xarray as xr

from classwise.charts import audit_report
from classwise.core import datasets
from classwise.core.audit import Audit
from classwise.core.identity import radius_name
from classwise.core.markup import class_name, escape, plural, printed_name
from classwise.papers.say import effect, interval, sample, text
from classwise.stats import aggregate, bootstrap, convergence, masking, metrics, sanity

# What follows from the causes of an audit's warnings, for others than attacks that fail.
_MEANING = {
    masking.SINGLE_STEP: "Accuracy under a single step is misleading.",
    masking.WEAK: "An audit with --attack strong tells which.",
    sanity.FLAT: "These images are robust, or no attack can tell.",
    masking.RENUMBERED: "",
    masking.CHANCE: "",
}


def weakest_attack(outcomes: xr.Dataset, attack: str = "pgd-20") -> tuple[str, str]:
    """Return in bold by how much one attack overestimates robust accuracy beside all attacks together, and then both accuracies.

    outcomes: of one or more defences under several attacks, compared on the images that all attacks were evaluated on.
    """
    names = [str(name) for name in outcomes.attack.values if name != "clean"]
    full = aggregate.add_worst_case(outcomes.sel(attack=names), "all")
    present = full.truth.sel(attack="all") >= 0
    full = full.assign(truth=full.truth.where(present, -1))

    def more(count: xr.DataArray) -> xr.DataArray:
        left = metrics.overall(count).mean("defence")
        return left.sel(attack=attack) - left.sel(attack="all")

    left = metrics.overall(bootstrap.sums(full, {})["count"]).mean("defence")
    single, every = (float(left.sel(attack=name)) for name in (attack, "all"))
    images = int(present.any([dim for dim in present.dims if dim != "image"]).sum())
    too_high, name = bootstrap.paired_bounds(full, more, span=(0, 100)), printed_name(attack)
    sentence = f"{name} overestimates the robust accuracy of {', '.join(map(printed_name, full.defence.values))} by "
    sentence += f"{interval(too_high, 'points', 1)}, compared with the worst case over {len(names)} attacks."
    both = f"{name} leaves {single:.1f} % of {images:,} images correct, all attacks together leave {every:.1f} %."
    return f"**{effect(too_high, sentence)}**", both


def worst_class_gains(outcomes: xr.Dataset, base: str = "pgd-at", level: float = 0.95) -> xr.DataArray:
    """Return low, value and high of the gain of the worst class of each other defence over a base, in points.

    outcomes: under one attack. The intervals hold simultaneously for all defences at the level (Bonferroni).
    """
    names = [str(name) for name in outcomes.defence.values if name != base]
    each = 1 - (1 - level) / max(len(names), 1)
    # Enough draws that ten or more lie beyond each end.
    draws = min(max(4000, int(20 / (1 - each))), 20_000)
    return bootstrap.gains(outcomes, dict.fromkeys(names, base), metrics.worst, each, draws)


def best_for_the_worst_class(
    outcomes: xr.Dataset, attack: str, base: str = "pgd-at", bases: Mapping[str, str] | None = None
) -> tuple[str, str]:
    """Return in bold which defence has the most robust worst class under an attack, and then how many gain over a base.

    Of the base alone, how far its best class is from its worst. bases: by each defence the one that it builds on.
    """
    under = outcomes.sel(attack=attack, drop=True)
    if outcomes.sizes["defence"] == 1:
        gap = bootstrap.bootstrap(under, metrics.mcd).isel(defence=0)
        words = "Under {attack}, the best class of {base} is {gap:points} more accurate than its worst."
        return f"**{text(words, attack=attack, base=str(under.defence.item()), gap=gap)}**", sample(under)
    gains = worst_class_gains(under, base)
    value, better = gains.sel(bound="value"), gains.sel(bound="low") > 0
    count = bootstrap.sums(under, {})["count"]
    # Of equal ones the best over all images.
    name = str(metrics.overall(count).where(value == value.max()).idxmax("defence").item())
    rates = metrics.accuracy(count.sel(defence=[name, base]))
    lowest = [one.label.values[(one == one.min()).values] for one in rates]
    names = [escape(class_name(str(some[0]))) if len(some) == 1 else f"{len(some)} classes" for some in lowest]
    after, before = (f"{float(one.min()):.0f} % ({label})" for one, label in zip(rates, names, strict=True))
    words = "Under attack, {name} has the most robust worst class, {gain:points} above the worst class of {base}."
    if value.max() < 0:
        words = "Under attack, {base} has the most robust worst class. {name} comes next, {gain:points|~ above|~ below}."
    answer = text(words, name=name, base=base, gain=gains.sel(defence=name))
    levels = "Under {attack}, the worst class of {name} is at {after:s}, the worst class of {base} at {before:s}."
    levels = text(levels, attack=attack, name=name, base=base, after=after, before=before)
    if (own := (bases or {}).get(name, base)) != base:
        gain = bootstrap.gains(under, {name: own}, metrics.worst).isel(defence=0)
        levels += text(" It builds on {own}, whose worst class is {gain:points|~ lower|~ higher}.", own=own, gain=gain)
    some = [printed_name(str(one)) for one in better.defence.values[better.values]]
    named = f"({', '.join(some)}) " if 0 < len(some) < 6 else ""
    number = f"In the worst class, {len(some) or 'none'} of {plural(gains.sizes['defence'], 'defence')} {named}"
    number += (
        f"{'gain' if len(some) > 1 else 'gains'} significantly over {printed_name(base)}, corrected for the number of defences."
    )
    return f"**{effect(gains.sel(defence=name), answer)}**", f"{levels} {number}"


def audit_finding(audit: Audit, count: xr.DataArray, warned: Mapping[str, str]) -> str:
    """Return in bold the accuracy in the worst case and in the weakest class, and the warnings of `masking.warnings`.

    `count` is of `masking.worst_case_outcomes`; a class that withstands attacks more often than it is classified correctly is a
    ValueError.
    """
    clean, worst = count.sel(attack="clean"), count.sel(attack=masking.WORST)
    if bool((metrics.correct(worst) > metrics.correct(clean)).any()):
        raise ValueError("robust accuracy is above clean accuracy: the counts are not of the same images")
    # A network with the id of a run is of this study, any other name is the user's.
    name = audit.network if audit.short == audit.network else printed_name(audit.short)
    robust, plain = (audit_report.rate(some) for some in (worst, clean))
    rates = metrics.accuracy(worst)
    names = [str(name) for name in worst.label.values[(rates == rates.min()).values]]
    weakest = f"its weakest class ({escape(names[0])})" if len(names) == 1 else f"its {len(names)} weakest classes"
    robust = robust.replace("95 %: ", "")  # the text below says the level
    of = f"the images of {escape(datasets.title(audit.title))}"
    first = f"{escape(name)} classifies {robust} of {of} correctly under the attacks of this page"
    first += f", and {float(rates.min()):.0f} % of {weakest}" * bool(float(metrics.mcd(worst)))
    lines = [f"{first}."]
    for cause, why in warned.items():
        means = _MEANING.get(cause, "Other attacks may break more images." if metrics.correct(worst).any() else "")
        lines.append(f"Warning: {cause}. {escape(why[:1].upper() + why[1:])}. {means}".strip())
    rest = f"Each of {int(worst.sum()):,} images counts as correct if no attack of radius {radius_name(audit.eps)} breaks it."
    rest += f" Without an attack, {plain} are correct."
    rest += " No sanity check of the attacks gives a warning." * (len(lines) == 1)
    return "\n\n".join([*(f"**{line}**" for line in lines), rest])


def convergence_finding(compared: xr.Dataset) -> str:
    """Return to which trainings twice the epochs add more than they may, with the largest gain of the others.

    compared: of `stats.convergence.comparison`.
    """
    gain, late = compared["gain"], convergence.unconverged_trainings(compared)
    kept = gain.drop_sel(training=late)
    name = str(kept.sel(bound="value").idxmax("training").item())
    most = f"{printed_name(name)} gains most, {interval(kept.sel(training=name), 'points', 1)}"
    sure = int((kept.sel(bound="high") <= convergence.LARGEST_GAIN).sum())
    worse = [str(one) for one in gain.training.values[gain.sel(bound="high").values < 0]]
    limit, number = plural(int(convergence.LARGEST_GAIN), "point"), gain.sizes["training"]
    lines = [
        f"**On {compared.attrs.get('dataset', 'its dataset')}, twice the epochs add at most {limit} of robust accuracy to "
        f"{number - len(late)} of {number} networks.**",
        f"Of these, {most}; the entire interval lies below {limit} for {sure or 'none'} of them.",
        f"More is added to {', '.join(map(printed_name, late))}." * bool(late),
        f"Twice the epochs significantly weaken {', '.join(map(printed_name, worse))}." * bool(worse),
    ]
    return " ".join(filter(None, lines))
