"""Features of networks: sums by block of the images as an evaluation attacks them, of several runs, and as stored before."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from classwise import runs
from classwise.core.spec import Evaluation
from classwise.models.modes import penultimate
from classwise.papers.sections import Request
from classwise.runs import load, store
from classwise.runs.compute import evaluate, networks
from classwise.stats import features

CLEAN = Evaluation(attack="clean")
PGD = Evaluation(attack="pgd-20")


def read_directly(spec, evaluation):
    """Return the features of the images of an evaluation, attacked by the function that pages attack images with."""
    found = evaluate.attack_function(spec, evaluation)()
    pixels = torch.from_numpy(found.pixels.sel(form="attacked").values)
    values, _ = penultimate(networks.network_of(spec, evaluation), [pixels], 10)
    return values.numpy(), found.truth.values


@pytest.mark.parametrize(
    "evaluation",
    [CLEAN, PGD, replace(PGD, per_class=6), replace(CLEAN, split="valid"), replace(CLEAN, checkpoint="average")],
    ids=["clean", "attacked", "few", "valid", "average"],
)
def test_features_are_of_the_images_and_the_checkpoint_of_the_evaluation(data, small, ready, evaluation):
    spec = replace(small, defence="at-ema")
    ready(spec)
    runs.outcomes([spec], [evaluation])
    stored = runs.features(spec, evaluation)
    values, truth = read_directly(spec, evaluation.resolve_for(spec))
    number = np.bincount(truth, minlength=10)
    assert (stored.images.sum("block").values == number).all()
    assert stored.sizes["block"] == max(1, min(20, number.min() // 4))
    found = features.statistics(stored)
    for label in range(10):
        some = values[truth == label]
        np.testing.assert_allclose(found["mean"].values[label], some.mean(0), rtol=2e-4, atol=1e-5)
        np.testing.assert_allclose(found.trace.values[label], some.var(0, ddof=1).sum(), rtol=1e-3)


def test_attacked_features_are_stored_apart_from_clean_ones(data, small, done):
    clean, attacked = (features.statistics(runs.features(small, one)) for one in (CLEAN, PGD))
    assert float(abs(clean["mean"] - attacked["mean"]).max()) > 0.1
    assert len(list((store.run_folder(small) / "features-2").glob("*.nc"))) == 2


def test_networks_with_few_features_have_the_place_of_each_image(data, small):
    plane = replace(small, head="plane", defence="standard", attack_options={})
    stored = runs.features(plane, PGD)
    assert stored.place.sizes == {"image": 360, "feature": 2}
    outcomes = runs.outcomes([plane], [PGD]).squeeze()
    assert (stored.truth.values == outcomes.truth.sel(image=stored.image).values).all()
    assert (stored.prediction.values == outcomes.prediction.sel(image=stored.image).values).all()
    total = stored.place.groupby(stored.truth.rename("label")).sum()
    np.testing.assert_allclose(total.values, stored.total.sum("block").values, rtol=1e-4, atol=1e-4)


def test_features_of_several_runs_lie_along_the_dimensions_of_outcomes(data, small, ready):
    specs = [replace(small, seed=seed) for seed in (0, 1)]
    ready(*specs)
    request = Request(tuple(specs), (CLEAN, PGD), features=("clean",))
    found = features.select_sums(load.add_features(request, runs.outcomes(request)))
    outcomes = runs.outcomes(specs, [CLEAN, PGD])
    assert dict(found.images.sizes) == {"defence": 1, "seed": 2, "attack": 2, "block": found.sizes["block"], "label": 10}
    assert (found.images.sel(attack="pgd-20") == 0).all()
    assert int(found.images.sel(attack="clean").sum()) == int((outcomes.truth.sel(attack="clean") >= 0).sum())
    # The predictions are those of the same blocks of images, under the attack without features, too.
    clean = found["count"].sel(attack="clean").sum("predicted").transpose(*found.images.sel(attack="clean").dims)
    assert (clean == found.images.sel(attack="clean")).all()
    right = (outcomes.prediction == outcomes.truth).where(outcomes.truth >= 0, False).sum("image")
    same = found["count"].where(found.label == found.predicted, 0).sum(["block", "label", "predicted"])
    assert (same == right).all()
    assert found.attrs["shared_images"] == ""
    for spec in specs:
        alone = features.statistics(runs.features(spec))
        together = features.statistics(found).sel(seed=spec.seed, attack="clean", defence=spec.defence)
        np.testing.assert_allclose(together.gram, alone.gram, rtol=1e-5)
    assert float(features.resample(found, 5)["variance"].sel(attack="clean").min()) > 0
