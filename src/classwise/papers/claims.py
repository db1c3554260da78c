"""What a claim is, and what a verdict on it says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.errors import UserError

# Takes sums over images (`sampling.sums`) and gives one number for each draw.
ClaimMeasure = Callable[[xr.Dataset], xr.DataArray]
# Takes outcomes and gives a quantity of each image.
Value = Callable[[xr.Dataset], xr.DataArray]

VERDICTS = ("holds", "fails", "open", "not asked")


class MeasurementError(UserError):
    """A claim that cannot be measured on what it was given."""


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper and what would bear it out.

    name: short, unlike any other of its section. section: the notebook that judges it, "paper/section". where: its place in the
    paper. says: the sentence in our words. measure, low, high: it holds where the measure lies between low and high; the range is
    the widest that the words allow. unit: of the measure. reported: the paper's own value of the measure, or a function that
    computes it from the published tables; None where it gives none. reported_on: the dataset it was reported on.
    defences, attacks: which ones the measure needs, "one|other" where one of them will do; of these alone the images are taken
    that all of them were asked about. dims: further dimensions it needs. values: further quantities of each image, whose sums the
    measure takes. part: of several Datasets of outcomes, the one it speaks of. readout: how a network answers that was
    asked for more than one. datasets: which can speak to it, () for any;
    because: why the others cannot. log: the measure is a ratio, and its interval that of its logarithm.
    """

    name: str
    section: str
    where: str
    says: str
    measure: ClaimMeasure
    low: float = 0.0
    high: float = np.inf
    unit: str = "points"
    reported: float | Callable[[], float] | None = None
    reported_on: str = "cifar10"
    defences: tuple[str, ...] = ()
    attacks: tuple[str, ...] = ()
    dims: tuple[str, ...] = ()
    values: Mapping[str, Value] = field(default_factory=dict)
    part: str = ""
    readout: str = "cosines"
    datasets: tuple[str, ...] = ()
    because: str = ""
    log: bool = False

    @property
    def paper(self) -> str:
        """The folder of the paper, "tian2021"."""
        return self.section.partition("/")[0]

    @property
    def theirs(self) -> float | None:
        """What the paper reports of the measure; None where it gives no number."""
        return self.reported() if callable(self.reported) else self.reported

    @property
    def range(self) -> str:
        """The range that bears the claim out, in words."""
        if np.isinf(self.high):
            return f"above {self.low:g}"
        return f"below {self.high:g}" if np.isinf(self.low) else f"{self.low:g} to {self.high:g}"

    def bears_out(self, value: xr.DataArray) -> xr.DataArray:
        """Return whether values of the measure lie within the range."""
        return (value > self.low) & (value < self.high)


@dataclass(frozen=True)
class Verdict:
    """What the runs say of a claim.

    verdict: "holds", "fails", "open" (they do not tell) or "not asked" (`reason` says why). effect: the measure on all images,
    between low and high, the interval that the verdict is read from: the claim holds where all of it lies within the range, and
    fails where none does. p: the chance of such a measure were the claim (or its opposite, to which it leans) not so, one-sided;
    adjusted: for all claims of the section that were asked (Holm). seeds, images: how many it rests on.
    """

    claim: Claim
    verdict: str
    scale: str
    dataset: str
    effect: float = np.nan
    low: float = np.nan
    high: float = np.nan
    p: float = np.nan
    adjusted: float = np.nan
    seeds: int = 0
    images: int = 0
    reason: str = ""

    @property
    def words(self) -> str:
        """The verdict with what it speaks of: "holds (digits, quick, 5 seeds)"."""
        runs = "" if self.verdict == "not asked" else ", one run" if self.seeds == 1 else f", {self.seeds} seeds"
        return f"{self.verdict} ({self.dataset}, {self.scale}{runs})"


def verdict_table(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Return a row for each verdict: the claim and where it stands, theirs, ours with its interval, the verdict in words."""
    rows = [
        {
            "where": one.claim.where,
            "claim": one.claim.says,
            "holds if": f"{one.claim.range} {one.claim.unit}",
            "theirs": published_value(one.claim),
            "ours": measured_value(one),
            "p": "" if np.isnan(one.adjusted) else f"{one.adjusted:.3f}",
            "verdict": one.words if one.verdict != "not asked" else f"{one.verdict}: {one.reason}",
        }
        for one in verdicts
    ]
    return pd.DataFrame(rows, columns=["where", "claim", "holds if", "theirs", "ours", "p", "verdict"]).set_index("where")


def published_value(claim: Claim) -> str:
    """Return what the paper reports, with the dataset: "46.3 (cifar10)"."""
    value = claim.theirs
    return "" if value is None else f"{number(value)} ({claim.reported_on})"


def measured_value(verdict: Verdict) -> str:
    """Return the effect with its interval: "46.3 [41.0, 50.2]"."""
    if np.isnan(verdict.effect):
        return ""
    return f"{number(verdict.effect)} [{number(verdict.low)}, {number(verdict.high)}]"


def number(value: float) -> str:
    """Return a number with as many digits as it deserves."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


PAIRED = ("cifar10", "stl10")
NO_GROUPS = "its classes form no superclasses"
NO_SUCH = "it has no such classes"
