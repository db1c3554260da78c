"""Wei et al. 2023, section 2: the theorems, computed in closed form for many drawn settings of the Gaussian model.

A measure gives the margin by which each setting satisfies a theorem. The theorem holds if all margins are above 0: the verdict
has the least margin as its effect, and no p-value.
"""

from functools import cache
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import logit

from classwise.papers.claims import Claim, Verdict
from classwise.papers.scales import CLOSED_FORM, MODEL
from classwise.papers.terms import claims
from classwise.papers.wei2023.theory import Model, accuracy, best_weight
from classwise.stats.combine import concat_named

NAME = "wei2023/2-theory"
# How many settings are drawn for the verdicts.
DRAWS = 200_000
# Classes whose probabilities are closer, and classes whose best weight is further out in standard deviations of the sum of the
# non-robust features, have margins that float64 cannot tell from rounding.
_APART, _OUT = 0.01, 3.0


@cache
def settings(size: int = DRAWS, seed: int = 0) -> xr.Dataset:
    """Return drawn settings of the model (dimension setting).

    p_easy, p_hard, eta, variance, d: its parameters. w, more: any weight, and an amount that is added to it. beyond: by how much
    a weight exceeds the clean peak of the easy class. eps, larger: two training radii below eta. judged: the radius of an
    attack, up to 2 eta.
    """
    rng, more = np.random.default_rng(seed), 2 * size
    p_hard = rng.uniform(0.51, 0.97, more)
    p_easy = p_hard + _APART + (0.98 - p_hard - _APART) * rng.random(more)
    eta, variance, d = rng.uniform(0.05, 0.5, more), 10 ** rng.uniform(-1, 0.6, more), rng.integers(1, 11, more)
    scale = np.sqrt(d * variance)
    eps = eta * rng.uniform(0, 0.98, more)
    drawn = {
        "p_easy": p_easy,
        "p_hard": p_hard,
        "eta": eta,
        "variance": variance,
        "d": d,
        "w": scale * rng.uniform(0.05, 3, more),
        "more": scale * rng.uniform(0.01, 1, more),
        "beyond": scale * rng.uniform(0, 2, more),
        "eps": eps,
        "larger": eps + (eta - eps) * rng.uniform(0.01, 0.99, more),
        "judged": eta * rng.uniform(0, 2, more),
    }
    kept = np.flatnonzero(best_weight(logit(p_easy), eta, variance) < _OUT * scale)[:size]
    return xr.Dataset({name: ("setting", values[kept]) for name, values in drawn.items()})


def _of(drawn: xr.Dataset, name: str, w: Any, eps: Any = 0.0) -> xr.DataArray:
    result: xr.DataArray = 100 * accuracy(w, drawn[f"p_{name}"], drawn.eta - eps, drawn.variance, drawn.d)
    return result


def _best(drawn: xr.Dataset, p: Any, eps: Any = 0.0) -> xr.DataArray:
    return drawn["eta"].copy(data=best_weight(logit(p), drawn.eta - eps, drawn.variance))


def _less(one: xr.DataArray, other: xr.DataArray) -> xr.DataArray:
    return xr.concat([one, other], "side").min("side")


def _gained(drawn: xr.Dataset, w: Any, eps: Any = 0.0) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the points that both classes, the easy one first, gain where `more` is added to the weight w."""
    easy, hard = (_of(drawn, name, w + drawn.more, eps) - _of(drawn, name, w, eps) for name in ("easy", "hard"))
    return easy, hard


def easy_ahead(drawn: xr.Dataset) -> xr.DataArray:
    """Return by how much the easy class is ahead, clean or attacked, whichever is less."""
    return _less(*(_of(drawn, "easy", drawn.w, eps) - _of(drawn, "hard", drawn.w, eps) for eps in (0.0, drawn.judged)))


def weight_gained(drawn: xr.Dataset) -> xr.DataArray:
    """Return by how many percent the larger training radius increases the weight."""
    p = (drawn.p_easy + drawn.p_hard) / 2
    return 100 * (_best(drawn, p, drawn.larger) / _best(drawn, p, drawn.eps) - 1)


def peak_difference(drawn: xr.Dataset) -> xr.DataArray:
    """Return by how many percent the best weight for clean images of the easy class exceeds that of the hard class."""
    return 100 * (_best(drawn, drawn.p_easy) / _best(drawn, drawn.p_hard) - 1)


def hard_loses_more(drawn: xr.Dataset) -> xr.DataArray:
    """Return the clean points that the easy class loses, or that the hard class loses more, whichever is less.

    Where a weight beyond the peaks of both classes becomes larger.
    """
    easy, hard = _gained(drawn, _best(drawn, drawn.p_easy) + drawn.beyond)
    return _less(-easy, easy - hard)


def hard_gains_less(drawn: xr.Dataset) -> xr.DataArray:
    """Return the points at radius 2 eta that the hard class gains, or that the easy class gains more, whichever is less.

    Where any weight becomes larger.
    """
    easy, hard = _gained(drawn, drawn.w, 2 * drawn.eta)
    return _less(hard, easy - hard)


CLAIMS = claims(
    NAME,
    {
        "easy-ahead": easy_ahead,
        "larger-radius-larger-weight": weight_gained,
        "hard-peaks-first": peak_difference,
        "hard-loses-more": hard_loses_more,
        "hard-gains-less": hard_gains_less,
    },
)


def judge(claim: Claim, drawn: xr.Dataset) -> Verdict:
    """Return the verdict on a theorem: it fails with a single setting whose margin is not above 0."""
    margin = claim.measure(drawn)
    least, greatest = float(margin.min()), float(margin.max())
    word = "holds" if least > claim.low else "fails"
    return Verdict(claim, word, CLOSED_FORM, MODEL, effect=least, low=least, high=greatest, images=margin.size)


def verdicts() -> list[Verdict]:
    """Return the verdicts on all theorems, from the same settings on every call."""
    return [judge(claim, settings()) for claim in CLAIMS]


def radii(model: Model) -> xr.DataArray:
    """Return radii from 0 to 0.9 eta; beyond, the weight that training leads to is far above all others."""
    values = np.linspace(0, 0.9, 37) * model.eta
    return xr.DataArray(values, {"radius": values}, ("radius",))


def gaps(model: Model, eps: xr.DataArray) -> xr.DataArray:
    """Return by how many points the easy class is ahead after training against radii eps.

    Along those of `eps`; classifier, "without intercept" or "with intercept"; and images_are, "clean" or "attacked" at radius
    2 eta.
    """
    parts = {}
    for fitted in (False, True):
        weight, b = eps.copy(data=model.trained_weight(eps.values, intercept=fitted)), fitted * model.intercept
        rates = {name: model.accuracy(weight, radius, b) for name, radius in (("clean", 0.0), ("attacked", 2 * model.eta))}
        parts["with intercept" if fitted else "without intercept"] = concat_named("images_are", rates)
    both = concat_named("classifier", parts)
    return both.sel(label="easy", drop=True) - both.sel(label="hard", drop=True)
