"""The findings of the page on long-tailed methods (Benz et al. 2020, section 3.3), in sentences with 95 % intervals."""

from collections.abc import Mapping

import xarray as xr

from classwise.core.markup import counted, escaped
from classwise.papers.benz2020 import critical
from classwise.papers.benz2020.section_3_3_long_tail import BASE, COST_SENSITIVE, WEIGHTS
from classwise.papers.findings import effect, interval, sample
from classwise.stats import metrics


def headline(outcomes: xr.Dataset, attack: str, epochs: Mapping[str, int]) -> str:
    """Return what the largest recorded weight changes for the critical class and for the others, and cost-sensitive weights.

    outcomes: along defence, as the section arranges its trainings; NotRecorded where none has a larger weight. epochs: by
    training.
    """
    known = [name for name in WEIGHTS if name in outcomes.defence.values]
    compared = critical.compared(outcomes, (BASE, *known[-1:]))
    second = f" {_cost_sensitive(outcomes, attack)}" if COST_SENSITIVE in outcomes.defence.values else ""
    unequal = critical.unequal_epochs(epochs, BASE)
    return f"{_weight(outcomes, known[-1], attack)}{second}{unequal} {_sample(outcomes, compared)}"


def _sample(outcomes: xr.Dataset, weighted: xr.Dataset) -> str:
    """Return `sample` of a weight and its base; it names the runs of each scenario where their numbers differ."""
    if COST_SENSITIVE not in outcomes.defence.values:
        return sample(weighted)
    schemes = critical.compared(outcomes, (BASE, COST_SENSITIVE)).sizes["seed"]
    if schemes == weighted.sizes["seed"]:
        return sample(weighted)
    numbers = f"of {BASE} and of each weight; {counted(schemes, 'run')} of the methods of scenario 1"
    return sample(weighted).replace("of each defence", numbers)


def _weight(outcomes: xr.Dataset, name: str, attack: str) -> str:
    pair, shown = (name, BASE), escaped(critical.name_of(outcomes))
    measures = critical.recall, critical.precision, critical.of_others
    bounds = [critical.gain(outcomes, pair, measure, attack) for measure in measures]
    recall, precision, others = (interval(some, "points") for some in bounds)
    says = f"Under {attack} and with a weight of {WEIGHTS[name]} for class {shown}, its robust accuracy differs by {recall}"
    rest = f"Its precision differs by {precision}, the mean of the other classes by {others}."
    return f"**{effect(bounds[0], says)} from that of {BASE}.** {rest}"


def _cost_sensitive(outcomes: xr.Dataset, attack: str) -> str:
    pair = (COST_SENSITIVE, BASE)
    variance = interval(critical.gain(outcomes, pair, metrics.cv_unbiased, attack), "points squared")
    overall = interval(critical.gain(outcomes, pair, metrics.overall, attack), "points")
    return f"Cost-sensitive weights change the variance of the classes by {variance} and accuracy over all images by {overall}."


def paid(outcomes: xr.Dataset, attack: str) -> str:
    """Return for each weight whether the critical class gains more than all others together lose."""
    lines = []
    for name in (name for name in WEIGHTS if name in outcomes.defence.values):
        bounds = critical.gain(outcomes, (name, BASE), metrics.overall, attack)
        low, high = float(bounds.sel(bound="low")), float(bounds.sel(bound="high"))
        less, more = "the others lose more than it gains", "it gains more than the others lose"
        says = less if high < 0 else more if low > 0 else "it is open"
        change = interval(bounds, "points", 1)
        lines.append(f"With a weight of {WEIGHTS[name]} {says}: over all images, accuracy changes by {change}.")
    start = f"**Does the critical class gain what the others lose, under {attack}?**"
    return f"{start} {' '.join(lines) or 'No larger weight is recorded.'}"


def selection(history: xr.Dataset, dataset: str) -> str:
    """Return which class is critical by the rule of the page, and whether the page takes it; history: of the runs that select."""
    return critical.selection(history, dataset, {"critical": critical.critical_class(dataset)})
