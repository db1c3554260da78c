"""What the papers claim, and what our runs say of it.

    verdicts = claims.judge("tian2021/4-1-class-bias", outcomes)    a verdict on each claim of a section
    claims.table(verdicts)                                          ours beside theirs
    claims.joined("without", {"": full, ...})                        outcomes of several kinds of runs, side by side

Outcomes are those of `run.outcomes`; `judging.named` says how attacks are called. A verdict always names its dataset and
scale: what digits say is not what CIFAR-10 says.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from classwise.claims import tian2021, tian2021_5, tian2021_6, tian2021_43
from classwise.claims.claim import VERDICTS, Claim, MeasurementError, Verdict
from classwise.claims.joining import joined
from classwise.claims.judging import judge_all, named
from classwise.errors import UserError, unknown

__all__ = ["CLAIMS", "VERDICTS", "Claim", "MeasurementError", "Verdict", "joined", "judge", "named", "of", "table"]

CLAIMS: tuple[Claim, ...] = (
    *tian2021.BIAS,
    *tian2021.RELATIONS,
    *tian2021_43.ATTACKS,
    *tian2021_5.HEAT,
    *tian2021_6.TRAINING,
    *tian2021_6.BACKGROUND,
)


def of(section: str) -> tuple[Claim, ...]:
    """Return the claims that a section judges; a name without claims is a UserError."""
    found = tuple(claim for claim in CLAIMS if claim.section == section)
    if not found:
        raise unknown("section with claims", section, list(dict.fromkeys(claim.section for claim in CLAIMS)))
    return found


def judge(
    section: str,
    outcomes: xr.Dataset | Mapping[str, xr.Dataset],
    *,
    scale: str | None = None,
    dataset: str | None = None,
    only: Sequence[str] | None = None,
    strict: bool = True,
    **how: Any,
) -> list[Verdict]:
    """Return a verdict on each claim of a section, or on those named in `only`.

    outcomes: one Dataset, or several by the `part` of the claims that they are for. scale, dataset: what they speak of, by
    default as they say. strict: a claim that cannot be measured is a MeasurementError, else it is "not asked", with the reason.
    `how`: draws, seed and level of the bootstrap. Holm's correction is for the claims that are judged in this call and can be
    asked of the dataset.
    """
    asked = of(section)
    for name in only or ():
        if name not in [claim.name for claim in asked]:
            raise unknown(f"claim of {section}", name, [claim.name for claim in asked])
    first = outcomes if isinstance(outcomes, xr.Dataset) else next(iter(outcomes.values()))
    told = {"scale": scale or first.attrs.get("scale"), "dataset": dataset or first.attrs.get("dataset")}
    for name, value in told.items():
        if not value:
            raise UserError(f"the outcomes do not tell their {name}, and a verdict must name it; write judge(..., {name}=...)")
    chosen = [claim for claim in asked if only is None or claim.name in only]
    return judge_all(chosen, outcomes, scale=str(told["scale"]), dataset=str(told["dataset"]), strict=strict, **how)


def table(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Return a row for each verdict: the claim and where it stands, theirs, ours with its interval, the verdict in words."""
    rows = [
        {
            "where": one.claim.where,
            "claim": one.claim.says,
            "holds if": f"{one.claim.range} {one.claim.unit}",
            "theirs": theirs(one.claim),
            "ours": ours(one),
            "p": "" if np.isnan(one.adjusted) else f"{one.adjusted:.3f}",
            "verdict": one.words if one.verdict != "not asked" else f"{one.verdict}: {one.reason}",
        }
        for one in verdicts
    ]
    return pd.DataFrame(rows, columns=["where", "claim", "holds if", "theirs", "ours", "p", "verdict"]).set_index("where")


def theirs(claim: Claim) -> str:
    """Return what the paper reports, with the dataset: "46.3 (cifar10)"."""
    value = claim.theirs
    return "" if value is None else f"{number(value)} ({claim.reported_on})"


def ours(verdict: Verdict) -> str:
    """Return the effect with its interval: "46.3 [41.0, 50.2]"."""
    if np.isnan(verdict.effect):
        return ""
    return f"{number(verdict.effect)} [{number(verdict.low)}, {number(verdict.high)}]"


def number(value: float) -> str:
    """Return a number with as many digits as it deserves."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
