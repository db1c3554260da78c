"""What the page on section 5.3 of Wei et al. 2023 says in sentences, with computed numbers and their 95 % intervals."""

import numpy as np
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.core.markup import decimal
from classwise.papers.findings import interval, sample
from classwise.papers.wei2023.ablation import row_of
from classwise.stats import bootstrap, metrics
from classwise.stats.calibrations import first_and_last, mean_steps, multiples

# The components of a grid, by their place in it.
_COMPONENTS = {"calibrated": "none", "uniform": "FAWA"}


def components(rows: xr.Dataset, attack: str, method: str = "AT") -> str:
    """Return how much the calibration alone, FAWA alone, and both change the worst class of a method.

    rows: of `section_5_3.by_row`. NotRecorded without the plain row of the method, or without any of the others.
    """
    alone = {row_of(method, calibration, averaging): method for calibration, averaging in _COMPONENTS.items()}
    both = row_of(method, "calibrated", "FAWA")
    names = [name for name in (both, *alone) if name in rows.defence.values]
    if method not in rows.defence.values or both not in names:
        raise NotRecorded(f"{method} and {both} are not recorded")
    under = rows.sel(attack=attack, drop=True)
    worst, overall = (bootstrap.gains(under, dict.fromkeys(names, method), kind) for kind in (metrics.worst, metrics.overall))
    together, *alone_by = (interval(worst.sel(defence=name), "points") for name in names)
    parts = [f"{name} alone by {by}" for name, by in zip(names[1:], alone_by, strict=True)]
    of_all = f"Over all images, CFA changes it by {interval(overall.sel(defence=both), 'points', 1)}."
    return (
        f"**{_start(worst.sel(defence=both), method)}: both components together ({both}) change its robust accuracy under "
        f"{attack} by {together}, {', '.join(parts)}.** {of_all} {sample(under)}"
    )


def _start(bounds: xr.DataArray, method: str) -> str:
    if float(bounds.sel(bound="low")) > 0:
        return f"CFA makes the worst class of {method} more robust"
    if float(bounds.sel(bound="high")) < 0:
        return f"CFA makes the worst class of {method} less robust"
    return f"Whether CFA makes the worst class of {method} more robust is open"


def rejected(history: xr.Dataset) -> str:
    """Return how many of the epochs of EMA the gate of FAWA rejected, and the weight of these in EMA; of several trainings."""
    parts, shares = [], []
    for defence in map(str, history.defence.values):
        taken = history["taken"].sel(defence=defence).transpose("seed", "epoch", "average")
        ema, fawa = (taken.sel(average=name).values for name in ("ema", "fawa"))
        parts.append(f"{(ema & ~fawa).sum() / len(ema):.0f} of {ema.sum() / len(ema):.0f} epochs of {defence}")
        shares += [_weight(one, other) for one, other in zip(ema, fawa, strict=True)]
    return (
        f"**The gate of FAWA rejected** {', '.join(parts)}. In the average of EMA these have at most {100 * max(shares):.2g} % "
        "of the weight: where it is close to 0, EMA and FAWA are nearly the same network, and their comparison shows little of "
        "the gate."
    )


# The factor of the old average (section 5.1).
_DECAY = 0.85


def _weight(ema: np.ndarray, fawa: np.ndarray) -> float:
    """Return the weight in an average over the epochs `ema` of those that are not in `fawa`."""
    accepted = fawa[ema]
    weights = (1 - _DECAY) * _DECAY ** np.arange(len(accepted))[::-1]
    # The first epoch is copied.
    weights[:1] /= 1 - _DECAY
    return float(weights[~accepted].sum())


def late_settings(outcomes: xr.Dataset, defence: str, setting: str) -> str:
    """Return what the hard and the easy classes were trained with late in the training.

    outcomes: with `stats.calibrations.late_settings` and the class coordinates `hard` and `easy`.
    """
    values = outcomes[setting].sel(defence=defence).mean("seed")
    parts = []
    for group in ("hard", "easy"):
        some = values.isel(predicted=np.flatnonzero(outcomes[group].values))
        names = ", ".join(map(str, some.predicted.values))
        parts.append(f"{group} classes ({names}) {float(some.min()):.2f} to {float(some.max()):.2f} times")
    below = int((values < 1).sum())
    many = f"{below} of {values.sizes['predicted']} classes have less than the uniform {setting}"
    return f"**{defence}, {setting}**: {'; '.join(parts)} the uniform one, mean {float(values.mean()):.2f}; {many}."


def settling(history: xr.Dataset, defence: str, setting: str) -> str:
    """Return how much a setting of a class changes from epoch to epoch, first and last, and how much it still grows.

    history: of a training in which it is calibrated.
    """
    values = multiples(history[setting].sel(defence=defence))
    first, last = (float(100 * part.mean()) for part in mean_steps(values))
    _, late = first_and_last(values.mean(["seed", "label"]))
    drift = 100 * float(late[-1] - late[0])
    return (
        f"**{defence}, {setting}**: from one epoch to the next the {setting} of a class changes by {first:.1f} % of the uniform "
        f"one in the first quarter of the training and by {last:.1f} % in the last. In the last quarter the mean over the "
        f"classes changes by {decimal(drift, 1)} %."
    )
