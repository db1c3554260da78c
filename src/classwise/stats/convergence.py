"""Whether networks have converged, from Datasets of schema "convergence 1"."""

import xarray as xr

from classwise.stats import bootstrap, metrics

# A training has converged if twice as many epochs gain no more than these points of robust accuracy over all images.
LARGEST_GAIN = 3.0


def comparison(data: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return what twice the epochs change, along training and bound ("low", "value", "high"), seeds pooled.

    "overall" and "worst" are robust accuracies of the network in percent, "gain" is what twice the epochs add to "overall" and
    "worst_gain" what they add to "worst", in points, with both networks evaluated on the same redrawn images.
    """
    both = data.drop_vars("number").rename(epochs="defence")
    once, pair = both.sel(defence=["once"]), {"twice": "once"}
    columns = {
        "overall": bootstrap.bootstrap(once, metrics.overall),
        "gain": bootstrap.gains(both, pair, metrics.overall),
        "worst": bootstrap.bootstrap(once, metrics.worst),
        "worst_gain": bootstrap.gains(both, pair, metrics.worst),
    }
    return {name: column.isel(defence=0, drop=True).transpose("training", "bound") for name, column in columns.items()}


def unconverged(data: xr.Dataset) -> list[str]:
    """Return the trainings to which twice the epochs add more than `LARGEST_GAIN` points over all images, seeds pooled."""
    gain = comparison(data)["gain"].sel(bound="value")
    return [str(name) for name in gain.training.values[gain.values > LARGEST_GAIN]]
