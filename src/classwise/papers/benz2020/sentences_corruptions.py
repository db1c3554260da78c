"""The findings of the page on corruptions, with 95 % intervals."""

import xarray as xr

from classwise.core.markup import decimal
from classwise.papers.benz2020 import corruptions
from classwise.papers.benz2020.section_3_4 import KINDS, SEVERITY
from classwise.papers.findings import interval, p_value, sample

# A correlation is one of the classes where its interval leaves out 0 and permuted classes seldom reach it.
_ALPHA = 0.05


def _counted(names: list[str], of: str = "") -> str:
    """Return how many names there are, of what, and which: "1 of the 15 corruptions (fog)", "none"."""
    return f"{len(names)}{of} ({', '.join(names)})" if names else f"none{of}"


def _sides(bounds: xr.DataArray) -> tuple[list[str], list[str]]:
    """Return the corruptions of which the whole interval lies above zero, and those of which it lies below."""
    low, high = bounds.sel(bound="low"), bounds.sel(bound="high")
    names = bounds.corruption.values
    return [str(name) for name in names[low.values > 0]], [str(name) for name in names[high.values < 0]]


def headline(outcomes: xr.Dataset, correlated: xr.DataArray | None) -> str:
    """Return what corruptions cost each network, which loses more, and whether they break the classes that the attack breaks.

    correlated: of `corruptions.shared`.
    """
    names = [str(name) for name in outcomes.defence.values if corruptions.recorded(outcomes, str(name))]
    lost = corruptions.mean_loss(outcomes.sel(defence=names))
    each = [f"{name} {interval(lost.sel(defence=name), 'points', 1)}" for name in names]
    number = corruptions.at_one(outcomes).sizes["corruption"]
    first = f"**Corruptions of severity {SEVERITY} cost {' and '.join(each)} of accuracy, the mean over {number} corruptions.**"
    return (
        f"{first} {which_loses_more(corruptions.more_lost(outcomes, joint=True))} {same_classes(correlated)} {sample(outcomes)}"
    )


def which_loses_more(more: xr.DataArray | None) -> str:
    """Return to which corruptions adversarial training loses more than standard training, and to which less.

    more: of `corruptions.more_lost`, jointly.
    """
    if more is None:
        return "Only one of the two networks has results, so that they are not compared."
    above, below = _sides(more)
    of = f" of the {more.sizes['corruption']} corruptions"
    return (
        f"Adversarial training loses significantly more than standard training to {_counted(above, of)} and significantly "
        f"less to {_counted(below)}, corrected for their number."
    )


def same_classes(correlated: xr.DataArray | None) -> str:
    """Return whether the classes that lose most to corruptions are those that are least robust, in pgd-at."""
    if correlated is None:
        return "Adversarial training has no results on corrupted images."
    bounds = correlated.sel(row=corruptions.ALL)
    low, high = (float(bounds.sel(bound=name)) for name in ("low", "high"))
    sure = float(correlated.attrs["p"][corruptions.ALL]) < _ALPHA
    start = "whether corruptions break the classes that the attack breaks is open"
    if sure and high < 0:
        start = "the classes that lose most to corruptions are the less robust ones"
    elif sure and low > 0:
        start = "the classes that lose most to corruptions are the more robust ones"
    return (
        f"After adversarial training, {start}: over the classes, losses and robust accuracies of other images correlate by "
        f"{_correlation(correlated, corruptions.ALL)}.{_reversed(correlated)}"
    )


def _correlation(correlated: xr.DataArray, row: str) -> str:
    """Return a correlation with its interval, and the p-value of permuted classes."""
    return f"{interval(correlated.sel(row=row), '', 2)}, with permuted classes {p_value(correlated.attrs['p'][row])}"


def _reversed(correlated: xr.DataArray) -> str:
    """Return the kinds of corruptions whose interval lies on the other side of 0 than that of all; "" for none."""
    low, high = correlated.sel(bound="low"), correlated.sel(bound="high")
    side = (low > 0).astype(int) - (high < 0).astype(int)
    other = side * side.sel(row=corruptions.ALL, drop=True) < 0
    kinds = [name for name in KINDS if name in correlated.row.values and bool(other.sel(row=name))]
    return "".join(f" Under {name} the sign is the reverse: {_correlation(correlated, name)}." for name in kinds)


def relative(correlated: xr.DataArray | None) -> str:
    """Return the same of losses relative to clean accuracy, and of the accuracy that is left, and their reliability."""
    if correlated is None:
        return same_classes(correlated)
    share, left = (interval(correlated.sel(row=row), "", 2) for row in (corruptions.RELATIVE, corruptions.LEFT))
    most = decimal(correlated.attrs["reliability"], 2)
    return (
        "A class that is less accurate on clean images has less to lose. In pgd-at the loss as a share of the clean accuracy "
        f"correlates with the robust accuracy by {share}, and the accuracy that is left by {left}. The robust accuracies in "
        f"two halves of the images correlate by {most}."
    )


def by_kind(more: xr.DataArray | None) -> str:
    """Return how much more adversarial training loses to the corruptions that the paper names than standard training."""
    if more is None:
        return "Standard or adversarial training has no results on corrupted images."
    named = [name for name in (*KINDS["noise"], "fog", "contrast") if name in more.corruption.values]
    parts = [f"{name} {interval(more.sel(corruption=name), 'points', 1)}" for name in named]
    return f"Loss of adversarial training less that of standard training: {'; '.join(parts)}."


def weakest_classes(change: xr.DataArray) -> str:
    """Return the class that each network loses most on, on average, and how much, compared with all classes."""
    mean = change.mean("corruption")
    parts = []
    for name in map(str, mean.defence.values):
        values = mean.sel(defence=name)
        label = str(values.idxmin("label").item())
        parts.append(
            f"{name} loses most on class {label}, {decimal(-float(values.min()), 1)} points on average over the corruptions, "
            f"and {decimal(-float(values.mean('label')), 1)} points over all classes"
        )
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."
