"""What rebuilt training images share with the images that they replace, from `runs.rebuilt_sets`."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr

from classwise.papers.benz2020.section_3_2_features import ADVERSARIAL, ATTACKS, STANDARD
from classwise.stats import agreement

# By the name of a set, what is known of its images in each run.
Images = Mapping[str, Sequence[xr.Dataset]]
# Profiles are compared where no network is always right or never.
_COMPARED = ATTACKS[1]


def joined(images: Sequence[xr.Dataset], name: str) -> np.ndarray:
    """Return a variable of all rebuilt images of several runs."""
    return np.concatenate([some[name].values for some in images])


def by_features(images: Images) -> dict[str, Sequence[xr.Dataset]]:
    """Return the sets whose images were given the features of another image."""
    return {
        name: some for name, some in images.items() if np.isfinite(joined(some, "apart")).all() and joined(some, "apart").any()
    }


def closeness(images: Images) -> pd.DataFrame:
    """Return for each set how many of its images are closer to their target than to their start, and how close they are.

    Distances are those of penultimate features in the network that made the image; of a set without targets they are "–". The
    last column is the share of images that this network predicts as their label.
    """
    known, rows = by_features(images), {}
    for name, some in images.items():
        agree = 100 * np.mean(joined(some, "answer") == joined(some, "truth"))
        row = {"images": f"{len(joined(some, 'truth'))}", "closer to the target, %": "–", "distance left, mean": "–"}
        if name in known:
            to_target, to_start, apart = (joined(some, one) for one in ("to_target", "to_start", "apart"))
            row["closer to the target, %"] = f"{100 * np.mean(to_target < to_start):.1f}"
            row["distance left, mean"] = f"{np.mean(to_target[apart > 0] / apart[apart > 0]):.2f}"
        rows[name] = row | {"label predicted, %": f"{agree:.1f}"}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("training set")


def likeness(outcomes: xr.Dataset) -> xr.DataArray:
    """Return how alike the class profile of each network is to those of training on the original images, with intervals.

    Correlations over the classes of robust accuracy at a quarter of the radius, one half of the images against the other, so that
    a network that is compared with itself gives the most that chance leaves of a perfect agreement: dimensions bound, defence and
    network (STANDARD and ADVERSARIAL, as far as they are there). NaN where too few redrawn images give a correlation.
    """
    references = [name for name in (STANDARD, ADVERSARIAL) if name in outcomes.defence.values]

    def compared(profiles: xr.DataArray) -> xr.DataArray:
        return agreement.cross_half(profiles, "defence").sel(other=references).rename(other="network")

    return _intervals(outcomes, compared)


def leaning(outcomes: xr.Dataset) -> xr.DataArray | None:
    """Return how much more alike each training set is to ADVERSARIAL than to STANDARD: dimensions bound and defence.

    The difference of both correlations of `likeness` for the same redrawn images; None where either network is not there.
    """
    if not {STANDARD, ADVERSARIAL} <= set(map(str, outcomes.defence.values)):
        return None

    def more(profiles: xr.DataArray) -> xr.DataArray:
        both = agreement.cross_half(profiles, "defence")
        difference: xr.DataArray = both.sel(other=ADVERSARIAL, drop=True) - both.sel(other=STANDARD, drop=True)
        return difference

    return _intervals(outcomes, more)


def _intervals(outcomes: xr.Dataset, measure: agreement.Measure) -> xr.DataArray:
    bounds = agreement.interval(outcomes.sel(attack=_COMPARED, drop=True), measure, "defence")
    return bounds.where(xr.ufuncs.isfinite(bounds).all("bound"))
