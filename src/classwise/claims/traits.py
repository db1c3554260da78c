"""What the claims of Tian et al., section 6, ask of each image: quantities whose sums their measures take."""

import numpy as np
import xarray as xr

from classwise import answers

# Section 6.1: along `without`, "" is the full network, the name of a class the network without it, others are drawn anew.


def _left_out(outcomes: xr.Dataset) -> list[str]:
    there = [str(name) for name in outcomes["without"].values]
    return [str(name) for name in outcomes.predicted.values if name in there]


def _stands(outcomes: xr.Dataset, name: str) -> xr.DataArray:
    """Return which images the network of a name withstands the attack on."""
    one = outcomes.sel(without=name, drop=True)
    stands: xr.DataArray = ~one.flipped & (one.truth >= 0)
    return stands


def trained_again(outcomes: xr.Dataset) -> xr.DataArray:
    """Return for the mistakes of the full network in what share of its repetitions with all classes they are none."""
    left, whole = _left_out(outcomes), outcomes.sel(without="", drop=True)
    again = [str(name) for name in outcomes["without"].values if name and name not in left]
    stands = xr.concat([_stands(outcomes, name) for name in again], "again") if again else xr.zeros_like(whole.flipped)
    share: xr.DataArray = stands.mean("again") if again else stands * np.nan
    return share.where(whole.flipped, 0)


def without_another(outcomes: xr.Dataset) -> xr.DataArray:
    """Return for the mistakes of the full network in what share of the networks they are none that lack a third class."""
    whole, names = outcomes.sel(without="", drop=True), [str(name) for name in outcomes.predicted.values]
    stood = asked = xr.zeros_like(whole.truth, dtype=float)
    for name in _left_out(outcomes):
        third = (outcomes.truth.sel(without=name, drop=True) >= 0) & (whole.answer != names.index(name))
        stood, asked = stood + (_stands(outcomes, name) & third), asked + third
    share: xr.DataArray = (stood / asked.where(asked > 0)).where(whole.flipped, 0)
    return share


# Section 6.2: `white` is how white each image is around.


def _ranks(value: xr.DataArray, truth: xr.DataArray) -> xr.DataArray:
    """Return the rank of each image among those of its class in the same network, from 0 to 1; NaN where it has no value."""
    from scipy import stats  # slow to import

    wide = value.broadcast_like(truth).transpose(*truth.dims)
    found = xr.full_like(wide, np.nan, dtype=float)
    for label in np.unique(truth.values[truth.values >= 0]):
        own = wide.where(truth == label)
        place = own.copy(data=stats.rankdata(own.values, axis=own.get_axis_num("image"), nan_policy="omit"))
        found = found.where(own.isnull(), (place - 0.5) / own.notnull().sum("image"))
    return found


def sure_and_white(outcomes: xr.Dataset) -> xr.Dataset:
    """Return the ranks `sure`, of the confidence in the true class, and `white`, 0 where an image lacks either; and `known`."""
    sure, white = answers.true_confidence(outcomes), outcomes["white"]
    known = sure.notnull() & white.notnull()
    truth = outcomes.truth.where(known, -1)
    ranks = {name: _ranks(value, truth).fillna(0) for name, value in (("sure", sure), ("white", white))}
    return xr.Dataset({**ranks, "known": known.broadcast_like(truth)})
