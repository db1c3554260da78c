"""Whether networks have converged, from Datasets of schema "convergence 1"."""

import xarray as xr

from classwise.stats import bootstrap, metrics

# A training has converged if twice as many epochs gain no more than these points of robust accuracy over all images.
LARGEST_GAIN = 3.0


def comparison(data: xr.Dataset) -> xr.Dataset:
    """Return what twice the epochs change, along training and bound ("low", "value", "high"), seeds pooled.

    data: of schema "convergence 1". "epochs" are those of each training, "overall" and "worst" are robust accuracies of the
    network in percent; "gain" is what twice the epochs add to "overall" and "worst_gain" what they add to "worst", in points,
    with both networks evaluated on the same redrawn images.
    """
    both = data.drop_vars("number").rename(epochs="defence")
    once, pair = both.sel(defence=["once"]), {"twice": "once"}
    columns = {
        "overall": bootstrap.bootstrap(once, metrics.overall),
        "gain": bootstrap.gains(both, pair, metrics.overall),
        "worst": bootstrap.bootstrap(once, metrics.worst),
        "worst_gain": bootstrap.gains(both, pair, metrics.worst),
    }
    bounds = {name: column.isel(defence=0, drop=True).transpose("training", "bound") for name, column in columns.items()}
    return xr.Dataset(bounds, attrs=data.attrs).assign(epochs=data.number.sel(epochs="once", drop=True))


def unconverged_trainings(compared: xr.Dataset) -> list[str]:
    """Return the trainings of a comparison to which twice the epochs add more than `LARGEST_GAIN` points over all images."""
    gain = compared["gain"].sel(bound="value")
    return [str(name) for name in gain.training.values[gain.values > LARGEST_GAIN]]
