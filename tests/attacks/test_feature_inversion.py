"""Rebuilt images: they get the features of their target, not the pixels, and each by itself."""

import pytest
import torch
from torch import nn

from classwise import models
from classwise.attacks import feature_inversion
from classwise.attacks.balls import Linf
from classwise.core.errors import UserError
from classwise.images import Images


@pytest.fixture
def model():
    pixels = torch.randint(256, (40, 1, 8, 8), dtype=torch.uint8)
    return models.build("resnet18", Images(pixels, torch.arange(40) % 10, torch.arange(40), tuple("0123456789")), 2).eval()


def test_inversion_reaches_the_features_of_the_target_and_stays_an_image(model, untouched):
    images, starts = torch.rand(6, 1, 8, 8), torch.rand(6, 1, 8, 8)
    with untouched(model, train=True):
        made = feature_inversion.invert_features(model, images, starts, feature_inversion.Inversion(steps=60))
    with torch.no_grad():
        target, before, after = (model.features(x) for x in (images, starts, made))
    ratios = (after - target).norm(dim=1) / (before - target).norm(dim=1)
    assert float(ratios.max()) < 1
    assert float(ratios.mean()) < 0.5
    # Many images share these features: the result is not the image itself.
    assert bool(((made - images).flatten(1).norm(dim=1) > 0.5).all())
    assert 0 <= float(made.min()) <= float(made.max()) <= 1


def test_images_of_a_batch_do_not_influence_one_another(model):
    images, starts, how = torch.rand(5, 1, 8, 8), torch.rand(5, 1, 8, 8), feature_inversion.Inversion(steps=5)
    together = feature_inversion.invert_features(model, images, starts, how)
    pairs = zip(images.split(1), starts.split(1), strict=True)
    alone = torch.cat([feature_inversion.invert_features(model, *pair, how) for pair in pairs])
    assert torch.allclose(together, alone, atol=1e-4)


def test_a_perturbed_image_approaches_its_target_within_the_ball(model):
    images, targets = torch.rand(8, 1, 8, 8), torch.arange(8)
    made = feature_inversion.perturb_towards(model, images, targets, Linf(0.1))
    with torch.no_grad():
        before, after = (model(x).log_softmax(1).gather(1, targets[:, None])[:, 0] for x in (images, made))
    assert bool((after > before).all())
    assert float((made - images).abs().max()) <= 0.1 + 1e-6


@pytest.mark.parametrize("count", [2, 3, 50])
def test_each_image_starts_from_another_one(generator, count):
    starts = feature_inversion.other_images(count, generator)
    assert sorted(starts.tolist()) == list(range(count))
    assert bool((starts != torch.arange(count)).all())


def test_one_image_or_a_model_without_features_is_refused(generator, model):
    with pytest.raises(UserError, match="another one: 1 image"):
        feature_inversion.other_images(1, generator)
    with pytest.raises(UserError, match="no method features"):
        feature_inversion.invert_features(nn.Flatten(), torch.rand(2, 1, 8, 8), torch.rand(2, 1, 8, 8))
    with pytest.raises(UserError, match="same shape"):
        feature_inversion.invert_features(model, torch.rand(2, 1, 8, 8), torch.rand(3, 1, 8, 8))
