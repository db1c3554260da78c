"""The findings of the page on the same classes in other networks, with 95 % intervals."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from classwise.core.datasets import title
from classwise.core.markup import counted, decimal, escaped
from classwise.papers.benz2020.section_3_2_same import (
    BASE,
    GROUPS,
    LITTLE,
    NETWORK,
    OPTIMISED,
    SAME,
    SAME_TREND,
    STANDARD,
    TRAINED,
    below_mean,
    members,
    repeated,
)
from classwise.papers.benz2020.sentences_networks import judged_without as judged_without
from classwise.papers.benz2020.sentences_networks import taken_as_given
from classwise.papers.findings import p_value
from classwise.stats import agreement, intervals, pooling
from classwise.stats.agreement import Sampled

# The level of an interval each end of which is the one-sided test of a claim.
_TWO_SIDES = 0.9
_IN_WORDS = {
    SAME: "repetitions of the same training",
    OPTIMISED: "other optimisations",
    NETWORK: "other networks",
    TRAINED: "other trainings",
}
_NONE = "no correlation: the classes of one of the two do not differ by more than chance"


def _written(bounds: xr.DataArray, digits: int = 2, unit: str = "", level: float = 0.95) -> str:
    """Return a number with its interval, of which an end may be unknown."""
    low, value, high = (float(bounds.sel(bound=name)) for name in ("low", "value", "high"))
    if not np.isfinite(value):
        return _NONE
    ends = " to ".join(decimal(end, digits) if np.isfinite(end) else "unknown" for end in (low, high))
    return f"{decimal(value, digits)}{' ' * bool(unit)}{unit} ({100 * level:.0f} % interval {ends})"


def ceiling(outcomes: xr.Dataset, sampled: Sampled) -> xr.DataArray:
    """Return low, value and high of the agreement of the same training repeated, corrected; all unknown where it is not."""
    again = repeated(outcomes)
    none = xr.DataArray([-1.0, np.nan, 1.0], dims="bound", coords={"bound": ["low", "value", "high"]})
    return _mean(sampled, again).clip(-1, 1) if again else none


def _mean(sampled: Sampled, names: Sequence[str]) -> xr.DataArray:
    return sampled.bounds(lambda profiles: agreement.corrected_mean(profiles, BASE, names))


def headline(outcomes: xr.Dataset, sampled: Sampled) -> str:
    """Return whether other networks find the same classes hard, compared with the same training repeated.

    outcomes: of the settings; sampled: their profiles.
    """
    names = members(outcomes, NETWORK)
    others = names or [name for name in members(outcomes, TRAINED) if name != STANDARD]
    if not others:
        return f"No other adversarial training is recorded at this scale: the classes of {BASE} cannot be compared."
    what = "other networks" if names else "other trainings of the same network"
    bounds = _mean(sampled, others)
    low, high = (float(bounds.sel(bound=name)) for name in ("low", "high"))
    start = f"Whether the same classes are hard for {what} is open"
    if low > SAME_TREND:
        start = f"The same classes are hard for {what}"
    elif high < SAME_TREND:
        start = f"Not the same classes are hard for {what}"
    p = agreement.permutation_p(sampled.value, BASE, others)
    listed = ", ".join(map(escaped, others))
    profiles = f"class profiles of {listed} correlate" if len(others) > 1 else f"the class profile of {listed} correlates"
    missing = "" if names else " No other network is recorded at this scale."
    return (
        f"**{start}: {profiles} with that of {BASE} by {_written(bounds)}, {_averaged(sampled, others)}corrected for few images; "
        f"{p_value(p)} against random classes.** {_against_ceiling(outcomes, sampled, others)}{missing} {_sample(outcomes)}"
    )


def _averaged(sampled: Sampled, others: Sequence[str]) -> str:
    """Return how the agreement of several settings is summarised; "" of one."""
    each = agreement.corrected(sampled.value).sel(other=BASE, setting=list(others))
    if each.sizes["setting"] == 1:
        return ""
    return "on average and " if bool(each.notnull().all()) else "by their covariances together and "


def _sample(outcomes: xr.Dataset) -> str:
    """Return the least number of runs of a setting, the test images of the base, and what the intervals do not cover."""
    present = (outcomes.truth >= 0).any([dim for dim in outcomes.truth.dims if dim not in ("setting", "seed", "image")])
    runs = present.any("image").sum("seed")
    images = counted(int(present.sel(setting=BASE).any("seed").sum()), "test image")
    return f"{taken_as_given(int(runs.min()), least=int(runs.min()) < int(runs.max()))} {images}."


def architecture(outcomes: xr.Dataset, sampled: Sampled) -> str:
    """Return the answer to whether the architecture decides which classes are hard: other networks less the ceiling."""
    names, again = members(outcomes, NETWORK), repeated(outcomes)
    dataset = escaped(title(str(outcomes.attrs.get("dataset", ""))))
    if not names or not again:
        lost = " and ".join(["other networks"] * (not names) + ["repetitions of the same training"] * (not again))
        return f"**Not known on {dataset}: {lost} are not recorded at this scale.**"
    bounds = _difference(sampled, names, again, _TWO_SIDES)
    low, high = (float(bounds.sel(bound=name)) for name in ("low", "high"))
    start = "It is open whether the architecture matters"
    if low > -LITTLE:
        start = "Hardly"
    elif high < -LITTLE:
        start = "Yes, in part"
    differ = _written(bounds, level=_TWO_SIDES)
    return f"**{start}: other networks less the ceiling, the corrected correlation differs by {differ}.**"


def _difference(sampled: Sampled, others: Sequence[str], again: Sequence[str], level: float = 0.95) -> xr.DataArray:
    def less(profiles: xr.DataArray) -> xr.DataArray:
        theirs, ceiling = (agreement.corrected_mean(profiles, BASE, some) for some in (others, again))
        return theirs - ceiling

    return sampled.bounds(less, level)


def _against_ceiling(outcomes: xr.Dataset, sampled: Sampled, others: Sequence[str]) -> str:
    """Return how the agreement of others compares with that of the same training repeated."""
    again = repeated(outcomes)
    if not again:
        return "The same training is not repeated at this scale, so how much of a difference chance makes is unknown."
    bounds = _difference(sampled, others, again)
    ceiling = f"The same training repeated ({', '.join(again)}) correlates by {_written(_mean(sampled, again))}"
    return f"{ceiling}: a difference of {_written(bounds)}."


def weakest(outcomes: xr.Dataset, sampled: Sampled) -> str:
    """Return the weakest class of PGD-AT in one half of the images, and in how many settings it is so in the other half.

    And how far the class that other images select is below their mean.
    """
    least = sampled.value.fillna(np.inf).idxmin("label")
    name = str(least.sel(setting=BASE, half="first").item())
    others = [str(some) for some in outcomes.setting.values if str(some) != BASE]
    same = [some for some in others if str(least.sel(setting=some, half="second").item()) == name]
    listed = f" ({', '.join(map(escaped, same))})" if same else ""
    return (
        f"**On one half of the images the weakest class of {BASE} is class {escaped(name)}. On the other half it is also the "
        f"weakest of {len(same)} of {len(others)} other settings**{listed}; by chance, of one in {outcomes.sizes['predicted']}."
        f"{_selected(outcomes, sampled)}"
    )


def _selected(outcomes: xr.Dataset, sampled: Sampled) -> str:
    """Return how far the class that is the weakest on other images is below the mean, by group; "" where it is not known."""
    if "vulnerable" not in outcomes.coords:
        return ""
    parts = []
    for group in dict.fromkeys(GROUPS.values()):
        some = repeated(outcomes) if group == SAME else members(outcomes, group)
        if some:
            below = sampled.bounds(lambda profiles, some=some: below_mean(profiles, some))  # type: ignore[misc]
            low, value, high = (f"{decimal(float(below.sel(bound=name)), 0)}" for name in ("low", "value", "high"))
            parts.append(f"{value} points ({low} to {high}) in {_IN_WORDS[group]}")
    selected = escaped(str(outcomes.predicted.values[outcomes.vulnerable.values][0]))
    return (
        f" Class {selected} is the weakest on validation images of other runs of {BASE}. It lies below the mean of all classes "
        f"by {', '.join(parts)}; a class drawn at random would lie at 0."
    )


def outstanding(outcomes: xr.Dataset) -> str:
    """Return which classes are significantly above, or below, the overall accuracy in every setting, and in most of them."""
    sign = intervals.relative_robustness(pooling.pooled(outcomes).isel(defence=0, attack=0, drop=True))
    parts = []
    for value, word in ((-1, "below"), (1, "above")):
        times = (sign == value).sum("setting")
        listed = [
            f"class {escaped(str(name))} in {int(times.sel(label=name))}" for name in times.label.values if times.sel(label=name)
        ]
        parts.append(f"significantly {word} the overall accuracy: {', '.join(listed) or 'no class'}")
    return (
        f"**Of {outcomes.sizes['setting']} settings**, {'; '.join(parts)}. Intervals hold for all classes of a network together."
    )


def left_out(outcomes: xr.Dataset, settings: xr.Dataset) -> str:
    """Return which networks are left out because they did not learn. settings: all; outcomes: those that are compared."""
    lost = [str(name) for name in settings.setting.values if name not in outcomes.setting.values]
    if not lost:
        return "All networks are significantly more accurate than a constant prediction."
    return (
        f"Left out, since they are not significantly more accurate than a constant prediction: {', '.join(map(escaped, lost))}."
    )
