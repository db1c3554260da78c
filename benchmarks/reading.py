"""How long it takes to read many results, against opening them one by one with xarray."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from classwise.core import results

from .clock import entry, in_turn

OUTCOMES = 600


def outcomes(images: int = 360, classes: int = 10) -> xr.Dataset:
    """Return random outcomes."""
    rng, sizes = np.random.default_rng(0), {"image": images, "predicted": classes}
    data = {
        name: (dims, rng.integers(0, classes, [sizes[dim] for dim in dims]).astype(kind))
        for name, (dims, kind, *_) in results.SCHEMAS["outcomes 1"].items()
    }
    coords = {"image": np.arange(images), "predicted": [str(number) for number in range(classes)]}
    return xr.Dataset(data, coords, dict.fromkeys(results.REQUIRED_ATTRIBUTES, "") | {"schema": "outcomes 1"})


def load_results(rounds: int, count: int = OUTCOMES) -> dict[str, dict[str, Any]]:
    """Return how long it takes to read the outcomes of so many evaluations of digits networks."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{number}.nc") for number in range(count)]
        results.save(outcomes(), "outcomes 1", paths[0])
        for path in paths[1:]:
            path.write_bytes(paths[0].read_bytes())

        def ours() -> None:
            for path in paths:
                results.load(path, "outcomes 1")

        def theirs() -> None:
            for path in paths:
                with xr.open_dataset(path, engine="h5netcdf") as stored:
                    stored.load()

        return {"load_results": entry(in_turn(ours, theirs, rounds)[0], "xarray with h5netcdf")}
