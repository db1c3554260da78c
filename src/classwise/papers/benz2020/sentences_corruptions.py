"""The findings of the page on corruptions, with 95 % intervals."""

import xarray as xr

from classwise.core.markup import decimal
from classwise.papers.benz2020 import corruptions
from classwise.papers.benz2020.section_3_4 import KINDS, SEVERITY
from classwise.papers.findings import interval, sample


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "none"


def _sides(bounds: xr.DataArray) -> tuple[list[str], list[str]]:
    """Return the corruptions of which the whole interval lies above zero, and those of which it lies below."""
    low, high = bounds.sel(bound="low"), bounds.sel(bound="high")
    names = bounds.corruption.values
    return [str(name) for name in names[low.values > 0]], [str(name) for name in names[high.values < 0]]


def headline(outcomes: xr.Dataset, more: xr.DataArray | None, correlated: xr.DataArray | None) -> str:
    """Return what corruptions cost each network, which loses more, and whether they break the classes that the attack breaks.

    more: of `corruptions.more_lost`. correlated: of `corruptions.shared`.
    """
    names = [str(name) for name in outcomes.defence.values if corruptions.recorded(outcomes, str(name))]
    lost = corruptions.mean_loss(outcomes.sel(defence=names))
    each = [f"{name} {interval(lost.sel(defence=name), 'points', 1)}" for name in names]
    number = corruptions.at_one(outcomes).sizes["corruption"]
    first = f"**Corruptions of severity {SEVERITY} cost {' and '.join(each)} of accuracy, the mean over {number} corruptions.**"
    return f"{first} {which_loses_more(more)} {same_classes(correlated)} {sample(outcomes)}"


def which_loses_more(more: xr.DataArray | None) -> str:
    """Return to which corruptions adversarial training loses more than standard training, and to which less."""
    if more is None:
        return "Only one of the two networks has results, so that they are not compared."
    above, below = _sides(more)
    number = more.sizes["corruption"]
    return (
        f"Adversarial training loses significantly more than standard training to {len(above)} of {number} corruptions "
        f"({_listed(above)}) and significantly less to {len(below)} ({_listed(below)})."
    )


def same_classes(correlated: xr.DataArray | None) -> str:
    """Return whether the classes that lose most to corruptions are those that are least robust, in pgd-at."""
    if correlated is None:
        return "Adversarial training has no results on corrupted images."
    bounds = correlated.sel(row=corruptions.ALL)
    low, high = (float(bounds.sel(bound=name)) for name in ("low", "high"))
    start = "Whether corruptions break the classes that the attack breaks is open"
    if high < 0:
        start = "The classes that lose most to corruptions are the less robust ones"
    elif low > 0:
        start = "The classes that lose most to corruptions are the more robust ones"
    return f"{start}: over the classes, losses and robust accuracies of other images correlate by {interval(bounds, '', 2)}."


def relative(correlated: xr.DataArray | None) -> str:
    """Return the same of losses relative to clean accuracy, and of the accuracy that is left, with what would be perfect."""
    if correlated is None:
        return same_classes(correlated)
    share, left = (interval(correlated.sel(row=row), "", 2) for row in (corruptions.RELATIVE, corruptions.LEFT))
    most = decimal(correlated.attrs["reliability"], 2)
    return (
        "A class that is less accurate on clean images has less to lose. In pgd-at the loss as a share of the clean accuracy "
        f"correlates with the robust accuracy by {share}, and the accuracy that is left by {left}. The robust accuracies in "
        f"two halves of the images correlate by {most}, about as much as any profile could."
    )


def by_kind(more: xr.DataArray | None) -> str:
    """Return how much more adversarial training loses to the corruptions that the paper names than standard training."""
    if more is None:
        return "Standard or adversarial training has no results on corrupted images."
    named = [name for name in (*KINDS["noise"], "fog", "contrast") if name in more.corruption.values]
    parts = [f"{name} {interval(more.sel(corruption=name), 'points', 1)}" for name in named]
    return f"Loss of adversarial training less that of standard training: {'; '.join(parts)}."


def weakest_classes(change: xr.DataArray) -> str:
    """Return the class that each network loses most of on average, and how much, compared with all classes."""
    mean = change.mean("corruption")
    parts = []
    for name in map(str, mean.defence.values):
        values = mean.sel(defence=name)
        label = str(values.idxmin("label").item())
        parts.append(
            f"{name} loses most of class {label}, {decimal(-float(values.min()), 1)} points on average over the corruptions, "
            f"and {decimal(-float(values.mean('label')), 1)} points over all classes"
        )
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."
