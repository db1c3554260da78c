"""What section 5.2 of Wei et al. 2023 gains on our images, and what either set of images could have shown, in sentences."""

import pandas as pd
import xarray as xr

from classwise.core.markup import counted
from classwise.papers.findings import interval, sample
from classwise.papers.wei2023 import calibrations
from classwise.papers.wei2023.gains import REACH, named, spread, with_cfa
from classwise.papers.wei2023.methods import METHODS
from classwise.papers.wei2023.tables import TABLES
from classwise.stats import bootstrap

_SIGNIFICANT = 0.05
_WORDS = {"overall": "over all images", "worst": "in the worst class"}

_TITLES = {"overall": "All images", "worst": "Worst class"}


def headline(gain: xr.DataArray, outcomes: xr.Dataset, attack: str) -> str:
    """Return the least gain by CFA over the methods, alone and compared with EMA (`gains.ours`), and how many are above zero.

    outcomes: that the gains are of.
    """
    alone, averaged = (_by_cfa(gain, over) for over in ("", "EMA"))
    if not alone:
        return f"Under {attack}, no method has results with CFA and without it. {sample(outcomes)}"
    compared = f" Compared with EMA, the least gain by CFA is {averaged[0]}. {averaged[1]}" if averaged else ""
    single = "The intervals are those of single comparisons."
    return f"**Under {attack}, the least gain by CFA is {alone[0]}.** {alone[1]}{compared} {single} {sample(outcomes)}"


def _by_cfa(gain: xr.DataArray, over: str) -> tuple[str, str] | None:
    """Return the least gain of each measure with its method, and for how many methods it is certain; None without any method."""
    names = [named(pair) for pair in with_cfa(over) if named(pair) in gain.comparison]
    if not names:
        return None
    least, numbers = [], []
    for measure, words in _WORDS.items():
        some = gain.sel(measure=measure, comparison=names)
        place = int(some.sel(bound="value").argmin("comparison"))
        value = interval(some.isel(comparison=place, drop=True), "points", 1)
        least.append(f"{value} {words}, for {names[place].partition(' ')[0]}")
        numbers.append(f"{int((some.sel(bound='low').round(1) > 0).sum())} of {counted(len(names), 'method')} {words}")
    return ", and ".join(least), f"The interval lies above 0 for {' and for '.join(numbers)}."


def certainty_of_the_paper(printed: pd.DataFrame) -> str:
    """Return how many of the printed gains are larger than the errors of the seeds, and of the test images, allow for."""
    by_seeds, by_images = (printed["value"].abs() > REACH[error] * printed[error] for error in ("seeds", "images"))
    lines = []
    for measure, some in printed.assign(sure=by_images).groupby("measure", sort=False):
        lost = ", ".join(
            f"{row.comparison} ({row.checkpoint} epoch, {row.value:+.1f})" for row in some[~some["sure"]].itertuples()
        )
        lines.append(f"- {_TITLES[str(measure)]}: {some['sure'].sum()} of {len(some)}. Smaller: {lost or 'none'}.")
    reach = {error: f"{value:.2f}" for error, value in REACH.items()}
    first = (
        f"**Of the {len(printed)} gains of Table 1, {int(by_seeds.sum())} are larger than {reach['seeds']} standard errors over "
        f"the five trainings** (Student's t). So many are larger than {reach['images']} standard errors over the test images, "
        "which are upper bounds; the sign does not count:"
    )
    return "\n".join([first, "", *lines])


def power(printed: pd.DataFrame, gain: xr.DataArray) -> str:
    """Return which of the gains that the paper prints at the last epoch our images could have shown.

    A gain could have been shown if it is larger than half of our interval of the same comparison.
    """
    half = ((gain.sel(bound="high") - gain.sel(bound="low")) / 2).to_series().rename("half")
    table = printed[printed["checkpoint"] == "last"].set_index(["comparison", "measure"]).join(half, how="inner")
    seen = table["value"].abs() > table["half"]
    parts = []
    for measure, some in table.groupby("measure", sort=False):
        reach, gaps = some["half"], some["value"].abs()
        parts.append(
            f"{_TITLES[str(measure)]}: our intervals reach {reach.min():.1f} to {reach.max():.1f} points to either side, and the "
            f"paper's gains are {gaps.min():.1f} to {gaps.max():.1f} points."
        )
    first = f"**A gain as large as the paper's could be seen here in {int(seen.sum())} of {len(table)} comparisons.**"
    return f"{first} {' '.join(parts)}"


def spreads(outcomes: xr.Dataset) -> str:
    """Return how much less the classes differ with CFA than with EMA: the change of their standard deviation, by method."""
    known, lines = set(map(str, outcomes.defence.values)), []
    for method, pair in zip(calibrations.METHODS, with_cfa("EMA"), strict=True):
        if known.issuperset(pair):
            part = outcomes.sel(defence=list(pair))
            change = bootstrap.paired(part, lambda count: spread(count).isel(defence=0) - spread(count).isel(defence=1))
            values = spread(bootstrap.sums(part, {})["count"]).values
            lines.append(f"{method} {values[1]:.1f} to {values[0]:.1f} points, a change of {interval(change, 'points', 1)}")
    return f"**Standard deviation over the classes, from EMA to CFA**: {'; '.join(lines) or 'nothing is recorded'}."


def largest_variances() -> str:
    """Return the largest variance that the accuracies of classes can have in Table 1, given their mean and their least.

    Rates of mean m between a and 1 vary by at most (1 - m)(m - a) (Bhatia and Davis 2000).
    """
    table = TABLES.load(1).sel(attack="autoattack")
    mean, least = table["overall"] / 100, table["worst"] / 100
    bound = ((1 - mean) * (mean - least)).sel(checkpoint="best")
    ends = [f"{float(bound.sel(defence=list(names)).max()):.3f} with {names[0].rpartition(' ')[2]}" for names in _transposed()]
    return (
        f"With the means and worst classes of Table 1 at the best epoch, no variance of rates can be above {' and '.join(ends)}."
    )


def _transposed() -> list[tuple[str, ...]]:
    """Return the methods with CFA, and those with EMA."""
    return list(zip(*with_cfa("EMA"), strict=True))


def averaged_epochs(history: xr.Dataset) -> str:
    """Return how many epochs entered each average of each training, of those that could."""
    taken = history["taken"].sum("epoch").mean("seed")
    names = {defence: method for method, (defence, checkpoint) in METHODS.items() if checkpoint == "last"}
    parts = []
    for training in taken.defence.values:
        ema, accepted = (float(taken.sel(average=name, defence=training)) for name in ("ema", "fawa"))
        parts.append(f"{names.get(str(training), training)} {accepted:.0f} of {ema:.0f}")
    return f"**Epochs that FAWA took, of those that EMA took**: {', '.join(parts)}."


def different(paired: pd.DataFrame) -> str:
    """Return which comparisons (`gains.image_by_image`) are significant."""
    sure = paired[paired["p"] < _SIGNIFICANT]["points"]
    text = "; ".join(f"{name} ({points:+.1f} points)" for name, points in sure.items()) or "none"
    return f"**Different at p < .05 over all images**: {text}."
