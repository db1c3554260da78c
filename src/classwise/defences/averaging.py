"""Averagings: a second set of weights, made from those of the epochs."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

Weights = dict[str, Tensor]


class Averaging(Protocol):
    """What every averaging is."""

    def __call__(self, average: Weights | None, weights: Weights) -> Weights | None:
        """Return the average after one more epoch, from the last one (None: there is none yet) and the epoch's weights."""
        ...


@dataclass(frozen=True)
class Unaveraged:
    """No average is kept."""

    def __call__(self, average: Weights | None, weights: Weights) -> Weights | None:
        """Return None."""
        return None
