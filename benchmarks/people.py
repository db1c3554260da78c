"""Compare people with the recorded networks of a scale, image by image: `python -m benchmarks.people`.

Writes data/recorded/people/<scale>.nc, which the page *people* shows: numbers of classes and of all images, with the ids of the
runs and evaluations that they are of, and no vote on an image, which the licence of CIFAR-10H forbids bundling.
"""

from pathlib import Path

import numpy as np
import typer
import xarray as xr

from classwise import runs
from classwise.core.errors import UserError
from classwise.core.files import write
from classwise.images import human_labels
from classwise.papers import registry
from classwise.runs.recorded import BESIDE_PEOPLE, people_file
from classwise.stats import people

SOURCE = (
    "Peterson, Battleday, Griffiths and Russakovsky, Human Uncertainty Makes Classification More Robust, ICCV 2019; CIFAR-10H, "
    "github.com/jcpeterson/cifar-10h, CC BY-NC-SA 4.0"
)


def comparison(scale: str) -> xr.Dataset:
    """Return `people.compare` of all runs of a scale that are recorded, with their ids and the citation of the votes."""
    request = runs.keep_recorded(registry.request(BESIDE_PEOPLE, scale))
    ids = [one.id for one in (*request.specs, *request.evaluations)]
    votes = np.load(human_labels.fetch(), allow_pickle=False)
    compared = people.compare(runs.outcomes(request.specs, request.evaluations), votes)
    return compared.assign_attrs(source=SOURCE, sha256=human_labels.SHA256, runs=" ".join(ids))


def record(scale: str) -> Path:
    """Record the comparison of a scale."""
    write(people_file(scale), bytes(comparison(scale).to_netcdf(engine="h5netcdf")))
    return people_file(scale)


def main(scale: str = "matched") -> None:
    """Record the comparison of a scale."""
    try:
        print(record(scale))
    except UserError as error:
        raise SystemExit(f"people: {error}") from None


if __name__ == "__main__":
    typer.run(main)
