"""The recorded comparison with people: of the runs that are recorded, without a vote on an image, and as the votes give it."""

import numpy as np
import pytest
import xarray as xr

from benchmarks import people as recorder
from classwise import runs
from classwise.core.errors import NotRecorded
from classwise.core.paths import images_folder
from classwise.images import human_labels
from classwise.runs.recorded import people_file
from classwise.stats import aggregate, metrics

SCALE = "matched"


def test_it_is_of_runs_that_are_recorded_and_of_their_outcomes():
    """Further seeds join by `python -m benchmarks.people`."""
    request, compared = runs.beside_people(SCALE)
    assert {one.id for one in (*request.specs, *request.evaluations)} == set(compared.attrs["runs"].split())
    right = metrics.correct(aggregate.counts(runs.outcomes(request)).sum("seed"))
    xr.testing.assert_equal(right.sel(defence=compared.defence).astype(int), compared.right.rename(None))


def test_it_holds_numbers_of_classes_with_the_citation_and_no_vote_on_an_image():
    _, compared = runs.beside_people(SCALE)
    assert "image" not in compared.dims
    assert max(variable.size for variable in compared.variables.values()) <= 10 * 10 * 2 * 3 * 3
    assert compared.votes.sum("predicted").min() > 40_000
    assert all(part in compared.attrs["source"] for part in ("Peterson", "ICCV 2019", "CC BY-NC-SA 4.0"))
    assert compared.attrs["sha256"] == human_labels.SHA256


def test_the_votes_give_it_again():
    if not (images_folder() / "cifar10h-counts.npy").exists():
        pytest.skip(f"the votes of CIFAR-10H are not in {images_folder()}: classwise fetch human-labels")
    again = recorder.comparison(SCALE)
    _, compared = runs.beside_people(SCALE)
    assert again.attrs == compared.attrs
    xr.testing.assert_allclose(again, compared)


def test_what_is_not_recorded_or_of_other_runs_is_named(data):
    with pytest.raises(NotRecorded, match="at scale 'matched'; `classwise fetch human-labels` and"):
        runs.beside_people(SCALE)
    people_file(SCALE).parent.mkdir(parents=True)
    xr.Dataset({"votes": ("label", np.zeros(2))}, {"label": [0, 1]}, {"runs": "0123456789"}).to_netcdf(people_file(SCALE))
    with pytest.raises(NotRecorded, match="is of 0123456789, which tian2021/4-1-class-bias has not"):
        runs.beside_people(SCALE)
