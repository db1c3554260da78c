"""Backgrounds: which pixels change, and which must not."""

import os
from itertools import combinations

import pytest
import torch

from classwise import images
from classwise.core.errors import UserError
from classwise.images import backgrounds


@pytest.fixture(scope="module")
def digits():
    return images.load("digits", "test", 0)


@pytest.fixture(scope="module")
def cluttered():
    return images.load("digits-cluttered", "test", 0)


@pytest.fixture(scope="module")
def scenes():
    """Dark red discs before a green meadow, and where they are."""
    generator = torch.Generator().manual_seed(1)
    rows, columns = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    discs, pixels = [], []
    for away in (-3, 0, 4):
        disc = (rows - 15.5 - away) ** 2 + (columns - 15.5 + away) ** 2 < 81
        behind, front = torch.tensor([60.0, 160.0, 70.0]), torch.tensor([150.0, 30.0, 30.0])
        colour = torch.where(disc, front.view(3, 1, 1), behind.view(3, 1, 1))
        pixels.append(colour + 12 * torch.randn(3, 32, 32, generator=generator))
        discs.append(disc)
    return torch.stack(pixels).clamp(0, 255).to(torch.uint8), torch.stack(discs)


@pytest.mark.parametrize(("name", "same"), [("digits-neighbours", lambda one: one // 2), ("digits-apart", lambda one: one % 5)])
def test_each_class_has_the_colour_of_its_pair_in_every_split(name, same):
    corner = {}
    for split in images.SPLITS:
        found, plain = images.load(name, split, 1), images.load("digits", split, 1)
        assert torch.equal(found.labels, plain.labels)
        assert torch.equal(found.index, plain.index)
        for pixels, drawing, label in zip(found.pixels, plain.pixels[:, 0], found.labels.tolist(), strict=True):
            (colour,) = {tuple(one) for one in pixels[:, drawing == 0].T.tolist()}
            assert corner.setdefault(label, colour) == colour
    for one, other in combinations(range(10), 2):
        assert (corner[one] == corner[other]) == (same(one) == same(other))
        if corner[one] != corner[other]:
            assert max(abs(a - b) for a, b in zip(corner[one], corner[other], strict=True)) == 255


@pytest.mark.parametrize("colour", range(5))
def test_ink_is_as_far_from_every_background(digits, colour):
    drawing = backgrounds.colour_background(digits.pixels, torch.full_like(digits.labels, colour)).int()
    full, none = (digits.pixels == value for value in (255, 0))
    background = torch.tensor(backgrounds.COLOURS[colour]).view(3, 1, 1)
    away = (drawing - background).abs()
    assert (away[none.expand_as(away)] == 0).all()
    # In two channels of three, wholly, and in the third not at all.
    assert (away.sum(1, keepdim=True)[full] == 2 * 255).all()
    assert (away.amin(1) == 0).all()
    assert torch.equal(away.amax(1, keepdim=True), digits.pixels.int())


def test_the_ink_of_a_coloured_drawing_can_be_read_again(digits):
    for colour in (backgrounds.neighbours(digits.labels), backgrounds.apart(digits.labels)):
        drawing = backgrounds.colour_background(digits.pixels, colour)
        ink, seen = backgrounds.extract_ink(drawing)
        assert torch.equal(ink, digits.pixels)
        assert torch.equal(seen, colour)
        assert torch.equal(backgrounds.swap_background(drawing), backgrounds.colour_background(digits.pixels, (colour + 1) % 5))


def test_clutter_belongs_to_an_image_and_never_reaches_the_ink(digits, cluttered):
    train = images.load("digits-cluttered", "train", 1)
    again = {int(one): number for number, one in enumerate(train.index)}
    both = [(number, again[int(one)]) for number, one in enumerate(cluttered.index) if int(one) in again]
    first, second = zip(*both, strict=True)
    assert torch.equal(cluttered.pixels[list(first)], train.pixels[list(second)])
    ink = digits.pixels >= 64
    assert cluttered.pixels[ink].max() < 77 <= 100 < cluttered.pixels[~ink].min()
    assert torch.equal(backgrounds.object_mask(cluttered.pixels), ink[:, 0])


@pytest.mark.parametrize("name", ["white-background", "flat-background"])
def test_only_the_background_is_painted(cluttered, name):
    found = images.TRANSFORMS[name](cluttered, 0)
    kept = backgrounds.object_mask(cluttered.pixels)[:, None]
    assert torch.equal(found.pixels[kept], cluttered.pixels[kept])
    assert torch.equal(found.index, cluttered.index)
    assert found.classes == cluttered.classes
    for one, was, there in zip(found.pixels, cluttered.pixels, kept, strict=True):
        value = 255 if name == "white-background" else was[~there].float().mean().round()
        assert (one[~there] == value).all()


def test_the_control_whitens_half_of_the_background_and_no_object(cluttered):
    found = images.TRANSFORMS["half-white-background"](cluttered, 3).pixels
    behind = ~backgrounds.object_mask(cluttered.pixels)[:, None]
    changed = found != cluttered.pixels
    assert (found[changed] == 255).all()
    assert not (changed & ~behind).any()
    assert 0.4 < changed.sum() / behind.sum() < 0.6
    assert torch.equal(found, images.TRANSFORMS["half-white-background"](cluttered, 3).pixels)
    assert not torch.equal(found, images.TRANSFORMS["half-white-background"](cluttered, 4).pixels)


def test_nearly_grey_lies_in_every_ball_of_half():
    pixels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    found = backgrounds.nearly_grey(pixels)
    assert (found.float() - pixels.float()).abs().max() / 255 < 0.5
    assert int(found.max()) - int(found.min()) == 1


def test_whiteness_is_that_of_the_background_alone(cluttered):
    white = backgrounds.paint_background(cluttered.pixels, 255)
    assert (backgrounds.whiteness(white) == 1).all()
    one = cluttered.pixels[:1]
    behind = one[0, 0][~backgrounds.object_mask(one)[0]].float() / 255
    assert float(backgrounds.whiteness(one)) == pytest.approx(float(behind.mean()))
    assert backgrounds.whiteness(cluttered.pixels).std() > 0.05


def test_drawings_without_dark_ink_are_refused(digits):
    with pytest.raises(UserError, match="use digits-cluttered or photographs"):
        backgrounds.object_mask(digits.pixels)


def test_a_known_object_is_cut_out_of_a_photograph_and_its_background_painted(scenes):
    pixels, discs = scenes
    found = backgrounds.object_mask(pixels)
    both, either = (found & discs).flatten(1).sum(1), (found | discs).flatten(1).sum(1)
    # What is told to be object stays object, in discs that are off the middle too.
    assert (both == discs.flatten(1).sum(1)).all()
    assert (both / either > 0.8).all()
    assert torch.equal(found[1], discs[1])
    backgrounds._cut.clear()
    assert torch.equal(backgrounds.object_mask(pixels), found)
    painted = backgrounds.paint_background(pixels, 255)
    assert (painted[:, :, 0] == 255).all()
    assert torch.equal(painted[:, :, 12:20, 12:20], pixels[:, :, 12:20, 12:20])
    assert backgrounds.whiteness(pixels).max() < 0.4


@pytest.mark.skipif("CLASSWISE_IMAGES" not in os.environ, reason="CLASSWISE_IMAGES names no folder of real images")
def test_the_white_cat_of_the_paper_has_a_white_background():
    test = images.load("cifar10", "test")
    cats = test.take(torch.tensor([3634, 2261]))
    assert (cats.labels == 3).all()
    white, other = backgrounds.whiteness(cats.pixels).tolist()
    assert other < 0.6 < 0.9 < white
    some = test.take(torch.arange(100))
    shares = backgrounds.object_mask(some.pixels).flatten(1).float().mean(1)
    assert float(shares.min()) > 0.1
    assert 0.2 < float(shares.median()) < 0.5
