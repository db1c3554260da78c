"""The Gaussian model of Wei et al. 2023, section 2, in closed form.

The label y is +1 (the easy class) or -1 (the hard class). The robust feature x1 is y with probability p of the class, else -y;
each of d non-robust features is normal with mean eta y. The classifier is the sign of x1 + S / w + b, where S is the sum of the
non-robust features; the paper has no intercept b. An attack of radius eps moves every non-robust feature by eps against the
label; it cannot change the sign of x1. Accuracies of a `Model` are in percent.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import logit, ndtr

from classwise.core.errors import UserError

LABELS = ("easy", "hard")


@cache
def sign() -> xr.DataArray:
    """Return the label y of each class; not made on import, since xarray then imports dask."""
    return xr.DataArray([1.0, -1.0], coords={"label": list(LABELS)}, dims="label")


def accuracy(w: Any, p: Any, margin: Any, variance: Any, d: Any, b: Any = 0.0) -> Any:
    """Return the share of a class that is classified correctly, from 0 to 1.

    w: the weight, above 0. p: the probability that x1 equals the label. margin: eta less the radius of the attack. variance, d:
    of each non-robust feature, and their number. b: the intercept times the label. All may be arrays that broadcast.
    """
    scale = np.sqrt(d * variance)
    return p * ndtr((d * margin + w * (1 + b)) / scale) + (1 - p) * ndtr((d * margin - w * (1 - b)) / scale)


def best_weight(log_odds: Any, margin: Any, variance: Any) -> Any:
    """Return the weight with the highest accuracy, infinite where the margin is not above 0.

    log_odds: ln(p / (1 - p)) of a class, or of the mean p for the mean accuracy of both classes.
    """
    positive = np.where(np.asarray(margin) > 0, margin, 1.0)
    return np.where(np.asarray(margin) > 0, variance * log_odds / (2 * positive), np.inf)


@dataclass(frozen=True, kw_only=True)
class Model:
    """The model at fixed parameters: 1/2 < p_hard <= p_easy < 1, 0 < eta < 1/2, variance > 0, d >= 1; else UserError."""

    p_easy: float
    p_hard: float
    eta: float
    variance: float
    d: int

    def __post_init__(self) -> None:
        rules = {
            f"1/2 < p_hard <= p_easy < 1, not {self.p_hard:g} and {self.p_easy:g}": 0.5 < self.p_hard <= self.p_easy < 1,
            f"0 < eta < 1/2, not {self.eta:g}": 0 < self.eta < 0.5,
            f"variance > 0, not {self.variance:g}": self.variance > 0,
            f"d >= 1, not {self.d}": self.d >= 1,
        }
        for rule, kept in rules.items():
            if not kept:
                raise UserError(f"the model needs {rule}")

    @property
    def p(self) -> xr.DataArray:
        """The probability that x1 equals the label, by label."""
        return sign().copy(data=[self.p_easy, self.p_hard])

    @property
    def log_odds(self) -> float:
        """The log odds of the mean of both probabilities."""
        return float(logit((self.p_easy + self.p_hard) / 2))

    @property
    def intercept(self) -> float:
        """The best intercept, at any radius: below 0, towards the hard class."""
        easy, hard = np.log(self.p_easy / (1 - self.p_hard)), np.log(self.p_hard / (1 - self.p_easy))
        return float((easy - hard) / (easy + hard))

    def accuracy(self, w: Any, eps: Any = 0.0, b: float = 0.0) -> xr.DataArray:
        """Return the accuracy of each class (label) in percent under an attack of radius eps; w, eps: numbers or DataArrays."""
        result: xr.DataArray = 100 * accuracy(w, self.p, self.eta - eps, self.variance, self.d, b * sign())
        return result.rename("accuracy")

    def trained_weight(self, eps: Any, *, intercept: bool = False) -> Any:
        """Return the weight that training against radius eps leads to: the highest mean accuracy; infinite from eps = eta on."""
        odds = float(logit(self.p).mean()) if intercept else self.log_odds
        return best_weight(odds, self.eta - eps, self.variance)

    def preferred_radius(self, eps: Any) -> xr.DataArray:
        """Return the training radius whose weight is best for each class (label) under an attack of radius eps.

        Below 0 where training without an attack already puts too much weight on x1 for the class.
        """
        result: xr.DataArray = self.eta - (self.eta - eps) * self.log_odds / logit(self.p)
        return result
