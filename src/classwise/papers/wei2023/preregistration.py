"""The comparison of CFA that was written down before its first training (section 5.2): what is compared, and how it is tested.

The page of the section has the text. Rates are robust accuracies in percent under `strong`, along defence (a method by its name),
images and seed: on a hundred images of each class, and on all images of the three classes that are the hardest in the papers.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.spec import Evaluation
from classwise.papers import variants
from classwise.papers.sections import Derived, Part
from classwise.papers.wei2023.methods import METHODS
from classwise.stats.significance import holm

HARD = ("bird", "cat", "deer")
IMAGES = ("all classes", ", ".join(HARD))
_BASES = ("AT", "TRADES")
_ARMS = ("pgd-at", "at-ccm", "trades", "trades-ccm-ccr")
# By the name of a method its defence and checkpoint; the last ones are averages of epochs drawn by lot.
COMPARED: Mapping[str, tuple[str, str]] = {name: of for name, of in METHODS.items() if of[0] in _ARMS} | {
    f"{name} + sham": (defence, "sham")
    for name, (defence, checkpoint) in METHODS.items()
    if defence in _ARMS and checkpoint == "last"
}
# The first of a pair should be the better one, by the paper.
PRIMARIES = tuple((f"{base} + CFA", other) for base in _BASES for other in (base, f"{base} + EMA"))
SECONDARIES = tuple((f"{base} + FAWA", f"{base} + {other}") for base in _BASES for other in ("EMA", "sham"))
SECONDARIES += (("AT + CFA", "AT + CCM + sham"), ("TRADES + CFA", "TRADES + CCM + CCR + sham"))
# Seeds that may be recorded; trainings of each arm, and the level of the tests: at the first look, and after an extension.
SEEDS, LOOKS = tuple(range(8)), {5: 0.04, 8: 0.01}
# Points within which two methods count as equal; shares of epochs 101 to 200 between which FAWA works as it is meant to.
EQUAL, GATE = 1.0, (0.3, 0.95)


def _part(title: str, evaluation: Evaluation, *checkpoints: str) -> Part:
    extra = tuple(replace(evaluation, checkpoint=name) for name in checkpoints)
    only = variants.choose_by_scale(variants.none, matched=variants.usual)
    return Part(
        title=title, defences=_ARMS, evaluations=(evaluation,), extra_evaluations=dict.fromkeys(_ARMS, extra), variants=only
    )


_STRONG, _AVERAGES = Evaluation(attack="strong"), ("ema", "fawa", "sham")
PARTS = {
    IMAGES[0]: _part("the preregistered comparison", _STRONG, *_AVERAGES),
    IMAGES[1]: _part("the same on all images of three classes", replace(_STRONG, classes=HARD), *_AVERAGES),
    "renewed": _part(
        "statistics of batch norm as printed and estimated again",
        Evaluation(attack="pgd-20"),
        *(f"{name}{end}" for name in _AVERAGES for end in ("", "-renewed")),
    ),
}


def rates(every: xr.Dataset, hard: xr.Dataset) -> xr.Dataset:
    """Return the robust accuracy of each training in percent, `rate`, NaN where it is missing: along defence, images and seed.

    every, hard: outcomes of the two sets of images.
    """
    parts = []
    for outcomes in (every, hard):
        known = (outcomes.truth >= 0).squeeze("attack", drop=True)
        right = ((outcomes.prediction == outcomes.truth).squeeze("attack", drop=True) & known).sum("image")
        share = 100 * (right / known.sum("image").where(known.any("image"))).reindex(checkpoint=["last", *_AVERAGES])
        rows = [share.sel(defence=defence, checkpoint=name, drop=True) for defence, name in COMPARED.values()]
        parts.append(xr.concat(rows, pd.Index(list(COMPARED), name="defence")))
    rate: xr.DataArray = xr.concat(parts, pd.Index(IMAGES, name="images"))
    return rate.to_dataset(name="rate").assign_attrs(every.attrs)


ARRANGE = {"preregistered": Derived(rates, IMAGES)}


def comparisons(rate: xr.DataArray, pairs: tuple[tuple[str, str], ...] = PRIMARIES) -> pd.DataFrame:
    """Return the differences of pairs of methods, a row for each pair and set of images, tested with the training as the unit.

    rate: along defence, images and seed; a seed that is NaN does not count. difference, low, high: in points, with a 95 %
    interval, by Welch's t, or paired where both methods are checkpoints of the same trainings. p: of no difference, two-sided.
    equivalent: of a difference of EQUAL points or more, either way. Both are corrected by Holm over all rows.
    """
    from scipy.stats import ttest_ind, ttest_rel  # slow to import

    rows = []
    for first, second in pairs:
        paired = COMPARED[first][0] == COMPARED[second][0]
        test = ttest_rel if paired else partial(ttest_ind, equal_var=False)
        values = rate.sel(defence=[first, second]).transpose("images", "defence", "seed")
        for images, both in zip(values.images.values, values.values, strict=True):
            one, other = (side[~np.isnan(side)] for side in both)
            result = test(one, other)
            sides = ((one + EQUAL, "greater"), (one - EQUAL, "less"))
            equivalent = max(test(side, other, alternative=than).pvalue for side, than in sides)
            row: dict[str, Any] = {"first": first, "second": second, "images": images, "difference": one.mean() - other.mean()}
            row |= dict(zip(("low", "high"), result.confidence_interval(0.95), strict=True))
            rows.append(row | {"p": result.pvalue, "equivalent": equivalent, "runs": len(one)})
    table = pd.DataFrame(rows)
    return table.assign(**{name: holm(table[name].to_numpy()) for name in ("p", "equivalent")})


def decisions(table: pd.DataFrame, level: float) -> pd.Series:
    """Return in a word what the tests of each row say at a level: "higher", "lower", "equal" (within EQUAL points) or "open"."""
    differs, higher = table.p < level, table.difference > 0
    words = np.select([differs & higher, differs, table.equivalent < level], ["higher", "lower", "equal"], "open")
    return pd.Series(words, table.index)


def looks(rate: xr.DataArray) -> list[pd.DataFrame]:
    """Return the primary comparisons at the first look, and at the second one where the first left any open; column `result`.

    Those are of the first five seeds that all arms have, and of eight; what the first look decided stands. [] before five.
    """
    seeds = rate.seed.values[rate.notnull().all(["defence", "images"]).values]
    tables: list[pd.DataFrame] = []
    for number, level in LOOKS.items():
        if len(seeds) >= number and (not tables or (tables[-1].result == "open").any()):
            table = comparisons(rate.sel(seed=seeds[:number]))
            result = decisions(table, level)
            before = tables[-1].result if tables else pd.Series("open", table.index)
            tables.append(table.assign(result=result.where(before == "open", before)))
    return tables


def accepted_share(history: xr.Dataset) -> xr.DataArray:
    """Return the share of epochs 101 to 200 that FAWA let enter, along defence and seed; NaN without a training."""
    taken = history["taken"].sel(epoch=slice(101, 200)).mean("epoch")
    return taken.sel(average="fawa", drop=True).where(taken.sel(average="ema", drop=True) > 0)


def apply_gate(rate: xr.DataArray, shares: xr.DataArray) -> xr.DataArray:
    """Return rates without the trainings whose gate `accepted_share` a share outside of GATE."""
    kept = [
        ((share >= GATE[0]) & (share <= GATE[1])) for share in (shares.sel(defence=of, drop=True) for of, _ in COMPARED.values())
    ]
    return rate.where(xr.concat(kept, pd.Index(list(COMPARED), name="defence")))


def report(data: Mapping[str, xr.Dataset], history: xr.Dataset | None = None) -> str:
    """Return the results of the preregistered comparison as tables in HTML; before all trainings are there, how many are.

    data: of the section, by the name that claims give as `data`. history: of the trainings.
    """
    rate = data["preregistered"].rate if "preregistered" in data else None
    tables = [] if rate is None else looks(rate)
    if rate is None or not tables or history is None:
        number = 0 if rate is None else int(rate.notnull().all(["defence", "images"]).sum())
        are = "is" if number == 1 else "are"
        return f"<p>{number} of {min(LOOKS)} runs of each arm {are} recorded. The eight comparisons wait for all of them.</p>"
    shares = accepted_share(history)
    parts = {f"Look {number}": table for number, table in enumerate(tables, 1)}
    second = looks(apply_gate(rate, shares))
    parts |= {"Without runs whose gate accepted too few or too many epochs": second[-1]} if second else {}
    parts["Secondary comparisons, by their intervals"] = comparisons(rate, SECONDARIES).drop(columns=["p", "equivalent"])
    low, high = (f"{100 * float(end):.0f}" for end in (shares.min(), shares.max()))
    gate = f"<p>FAWA accepted {low} to {high} % of epochs 101 to 200.</p>"
    return gate + "".join(f"<p>{title}:</p>{table.round(3).to_html(index=False, border=0)}" for title, table in parts.items())
