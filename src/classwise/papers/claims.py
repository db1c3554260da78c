"""Claims of papers, and verdicts on them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import xarray as xr

from classwise.core import datasets
from classwise.core.markup import plural, printed_name
from classwise.papers.scales import CLOSED_FORM, origin
from classwise.stats.significance import p_value

# Takes sums over images (`bootstrap.sums`), or statistics of features (`stats.features.statistics`), and gives one number for
# each draw.
ClaimMeasure = Callable[[xr.Dataset], xr.DataArray]
# Takes outcomes and gives a quantity of each image.
Value = Callable[[xr.Dataset], xr.DataArray]
# Takes outcomes, a number of draws and a seed, and gives draws of the true value of a measure.
TruthDraws = Callable[[xr.Dataset, int, int], np.ndarray]

VERDICTS = ("holds", "fails", "open", "described", "not tested")
# What a claim is compared with (`Claim.family`): the main claims of a section, by itself, or not at all.
MAIN, CONTROL, DESCRIPTION = FAMILIES = ("main", "control", "description")


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, the measure that tests it, and the range in which it holds.

    Parameters
    ----------
    name, section, where, statement
        short, unique in its section; the notebook that judges it, "paper/section"; its place in the paper; our words for it.
    measure, low, high, unit
        it holds where the measure lies between low and high, the widest range that the words allow; the unit of all three.
    reported, reported_on
        the paper's own value of the measure, or what computes it from its tables, None if it has none; the dataset of that value.
    defences, attacks, dims, grid
        those that the measure needs ("one|other" for alternatives), which is computed on the images common to all; further
        dimensions that it needs; by dimension, the values at which each defence must have been evaluated: it compares them.
    values, data, readout
        further quantities of each image, whose sums the measure takes; the Dataset of outcomes that it is computed from, where a
        section has several; which outputs count of a network that was evaluated with more than one readout.
    datasets, excluded_because
        those that can test it, () for any; why others cannot.
    log, truth
        whether the measure is a ratio, and its interval that of its logarithm; gives draws of its true value from outcomes, their
        number and a seed, where reflected draws (`draws.reflect_draws`) would be wrong.
    of
        what the measure takes: "outcomes", sums over images (`bootstrap.sums`), or "features", statistics of features along seed
        (`stats.features.statistics`), which are resampled by blocks of images.
    family, family_size
        "main", for which p-values are corrected together with those of its section (at least family_size); "control", ours, which
        stands by itself; "description", which could hardly be otherwise and has no verdict.
    absolute, permuted
        whether it says a level, not a difference: levels are judged only at scales that reach those of the papers
        (`Scale.levels`); what a permutation test of a correlation over classes reorders (`significance.permute_classes`), or "".
    """

    name: str
    section: str
    where: str
    statement: str
    measure: ClaimMeasure
    low: float = 0.0
    high: float = np.inf
    unit: str = "points"
    reported: float | Callable[[], float] | None = None
    reported_on: str = "cifar10"
    defences: tuple[str, ...] = ()
    attacks: tuple[str, ...] = ()
    dims: tuple[str, ...] = ()
    grid: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    data: str = ""
    readout: str = "cosines"
    datasets: tuple[str, ...] = ()
    excluded_because: str = ""
    log: bool = False
    truth: TruthDraws | None = None
    of: str = "outcomes"
    family: str = MAIN
    family_size: int = 1
    absolute: bool = False
    permuted: str = ""

    @property
    def paper(self) -> str:
        """The folder of the paper, "tian2021"."""
        return self.section.partition("/")[0]

    @cached_property
    def theirs(self) -> float | None:
        """What the paper reports of the measure; None where it gives no number."""
        return self.reported() if callable(self.reported) else self.reported

    def exclusion(self, dataset: str) -> str:
        """Return why a dataset cannot test the claim, "" where it can."""
        if not self.datasets or dataset in self.datasets:
            return ""
        return f"not testable on {datasets.title(dataset)}: {self.excluded_because}"

    @property
    def measured(self) -> str:
        """What the measure is, in words: those of a term, or the first sentence of its function with its fixed arguments."""
        return first_sentence(self.measure)

    @property
    def supported(self) -> str:
        """The range in which the claim holds, with its unit: "above 6 points", "above 1 point"."""
        ends = f"{self.low:g} to {self.high:g}"
        ends = f"above {self.low:g}" if np.isinf(self.high) else f"below {self.high:g}" if np.isinf(self.low) else ends
        return f"{ends} {self.unit.replace('points', 'point') if ends.endswith(' 1') else self.unit}".rstrip()

    @property
    def correlates_classes(self) -> bool:
        """Whether it is a correlation over classes, of which chance alone could make much where they are few."""
        return self.unit == "correlation" and bool(self.permuted)

    @property
    def directed(self) -> bool:
        """Whether the claim is about a direction: it holds on one side of no effect, which is 0, or 1 of a ratio."""
        return float(self.log) in (self.low, self.high) and bool(np.isinf([self.low, self.high]).any())


@dataclass(frozen=True)
class Verdict:
    """The result of testing a claim on runs.

    A theorem is computed in closed form (scale CLOSED_FORM) for as many drawn settings as `images` says: effect is the least
    margin, low and high are the least and the largest, and it fails with a single violation. It has no p.

    Parameters
    ----------
    claim, scale, dataset, seeds, images
        the claim, where it was tested, and the numbers of seeds and images behind the verdict.
    verdict, reason, unreachable
        "holds", "fails", "open" (undecided), "described" (measured, but not decided) or "not tested"; why, of the last two;
        whether it is not tested because no run of its scale could test it on this dataset.
    effect, low, high
        the measure on all images and its interval: the claim holds where all of it lies in the range, and fails where none does.
    p, adjusted, permutation_p
        the one-sided p-value of the claim, or of its opposite where that is smaller; the same for all main claims of the section,
        tested or not (Holm); two-sided, of a correlation against permuted classes, of which images and trainings say nothing.
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
    unreachable: bool = False
    permutation_p: float = np.nan

    @property
    def tested(self) -> bool:
        """Whether the claim was tested, whatever the result: it holds, fails or is open."""
        return self.verdict in VERDICTS[:3]

    @property
    def excluded(self) -> bool:
        """Whether the claim cannot be tested on this dataset, as `excluded_because` says."""
        return bool(self.claim.exclusion(self.dataset))

    @property
    def theirs(self) -> float | None:
        """What the paper reports of the measure on the dataset of the verdict; None where the sizes cannot be compared."""
        return self.claim.theirs if self.verdict != "not tested" and self.dataset == self.claim.reported_on else None

    @property
    def summary(self) -> str:
        """The verdict; where the paper prints a value, on the direction and the size: "direction holds, size differs".

        The size agrees if the value of the paper lies within the interval, and is compared on the dataset of the paper only. A
        claim that is not `Claim.directed` ("less than a point") has a verdict on the "claim" in place of the direction.
        """
        if not self.tested or self.claim.theirs is None or not (self.claim.directed or self.theirs is not None):
            return self.verdict
        what = "direction" if self.claim.directed else "claim"
        if self.theirs is None:
            return f"{what} {self.verdict}"
        return f"{what} {self.verdict}, size {'agrees' if self.low <= self.theirs <= self.high else 'differs'}"

    @property
    def words(self) -> str:
        """The summary with the dataset and the number of runs: "holds (CIFAR-10 at 8/255, one run)"."""
        without = self.verdict == "not tested" or self.scale == CLOSED_FORM
        runs = "" if without else ", one run" if self.seeds == 1 else f", {self.seeds} seeds"
        return f"{self.summary} ({origin(self.dataset, self.scale)}{runs})"

    @property
    def numbers(self) -> str:
        """The effect with its interval, and what the paper reports on the same dataset: "4.7 [3.8, 5.9] times, the paper 28"."""
        theirs = "" if self.theirs is None else f", the paper {number(self.theirs)}"
        return f"{measured_value(self)} {self.claim.unit}".rstrip() + theirs

    @property
    def p_values(self) -> str:
        """Its p-values in words, each with a comma behind; "" where it has none: of a theorem, or described."""
        named = {"p (Holm)" if self.claim.family == MAIN else "p": self.adjusted, "p (permuted classes)": self.permutation_p}
        return "".join(f"{p_value(p, name)}, " for name, p in named.items() if not np.isnan(p))

    @property
    def sample(self) -> str:
        """What the verdict rests on: "720 images", "200000 settings" of a theorem, "720 images, for these classes"."""
        number = plural(self.images, "setting" if self.scale == CLOSED_FORM else "image")
        return f"{number}, for these classes" if self.claim.correlates_classes and self.verdict != "not tested" else number


def published_value(claim: Claim) -> str:
    """Return what the paper reports, with the dataset: "46.3 (cifar10)"."""
    value = claim.theirs
    return "" if value is None else f"{number(value)} ({claim.reported_on})"


def measured_value(verdict: Verdict) -> str:
    """Return the effect with its interval: "46.3 [41.0, 50.2]", or "46.3 [unbounded]" if too few draws give a number."""
    if np.isnan(verdict.effect):
        return ""
    if np.isinf(verdict.low) and np.isinf(verdict.high):
        return f"{number(verdict.effect)} [unbounded]"
    low, high = ("unbounded" if np.isinf(end) else number(end) for end in (verdict.low, verdict.high))
    return f"{number(verdict.effect)} [{low}, {high}]"


def first_sentence(function: Callable[..., object]) -> str:
    """Return the words of a term (`papers.terms`), or the first sentence of a function's docstring with its fixed arguments."""
    if words := getattr(function, "words", ""):
        return str(words)
    fixed = ""
    if isinstance(function, partial):
        fixed = f" ({'; '.join(f'{name}: {_listed(value)}' for name, value in function.keywords.items())})"
        function = function.func
    first = re.split(r"[.;]\s", (function.__doc__ or function.__name__).strip() + "\n")[0]
    return " ".join(first.removeprefix("Return ").replace("`", "").split()) + fixed


def _listed(value: object) -> str:
    return ", ".join(map(_listed, value)) if isinstance(value, tuple) else printed_name(str(getattr(value, "__name__", value)))


def number(value: float) -> str:
    """Return a number with three significant digits, or as an integer; one below .005 with two, unless it is rounding."""
    if 1e-12 < abs(value) < 0.005:
        return f"{value:.2g}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
