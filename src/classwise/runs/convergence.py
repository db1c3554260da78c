"""The recorded comparison of the trainings of a scale with those of twice as many epochs, which `make converged` computes."""

from pathlib import Path

import xarray as xr

from classwise.core import results
from classwise.core.errors import UserError
from classwise.core.paths import data_folder
from classwise.stats.convergence import comparison

SCHEMA = "convergence 1"


def path(scale: str) -> Path:
    """Return the path of the recorded comparison of a scale."""
    return data_folder() / "recorded" / "convergence" / f"{scale}.nc"


def converged(scale: str) -> xr.Dataset:
    """Return what twice the epochs change in the recorded trainings of a scale, as `stats.convergence.comparison`.

    A UserError is raised if nothing is recorded.
    """
    if not path(scale).exists():
        raise UserError(f"no comparison with twice the epochs is recorded: `make converged SCALE={scale}` computes it")
    return comparison(results.load(path(scale), SCHEMA))
