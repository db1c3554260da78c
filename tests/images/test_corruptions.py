"""Corruptions: the same images whatever the batch, more of it at a higher severity, and what the published recipe says."""

import colorsys
import io
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage

from classwise import images
from classwise.core.errors import UserError
from classwise.images import CORRUPTIONS, TRANSFORMS, Images, corrupt
from classwise.images.corruptions import blur, digital, weather

# Constants by which the published corruption does not grow from each severity to the next, by mean difference.
UNEVEN = {"glass-blur", "elastic-transform", "frost", "spatter", "saturate"}
CLASSES = ("cat", "dog")


def scenes(count=24, size=32, channels=3, seed=0):
    """Smooth scenes with a dark and a bright shape on them, uint8."""
    draw = np.random.default_rng(seed)
    fields = ndimage.gaussian_filter(draw.normal(size=(count, channels, size, size)), (0, 0, size / 8, size / 8))
    fields = 128 + 60 * fields / fields.std()
    for one in fields:
        top, left = draw.integers(0, size // 2, 2)
        one[:, top : top + size // 4, left : left + size // 3] = draw.integers(0, 255, (channels, 1, 1))
        one[:, top + size // 4 : top + size // 2, left : left + size // 6] = 240
    return torch.from_numpy(fields.clip(0, 255).astype(np.uint8))


def made(pixels):
    labels = torch.arange(len(pixels)) % 2
    return Images(pixels, labels, torch.arange(len(pixels)), CLASSES)


def change(before, after):
    return float((before.pixels.float() - after.pixels.float()).abs().mean())


@pytest.fixture(scope="module")
def some():
    return made(scenes())


def x_of(some, *which):
    return some.pixels[list(which)].float() / 255


@pytest.fixture
def colours(generator):
    """Random colours, among them grey and black ones: 4 images of 3 x 9 x 9."""
    x = torch.rand(4, 3, 9, 9, generator=generator)
    x[0, :, :3] = x[0, :1, :3]
    x[1, :, 0] = 0
    return x


RANDOM = [name for name in CORRUPTIONS if name.endswith("noise")] + ["glass-blur", "motion-blur", "snow", "frost", "fog"]
RANDOM += ["elastic-transform", "spatter"]


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corruption_keeps_the_form_follows_its_seed_alone_and_grows_with_its_severity(some, name):
    changes, state, numpy_state = [], torch.get_rng_state(), np.random.get_state()[1].copy()
    for severity in range(1, 6):
        found = TRANSFORMS[f"{name}-{severity}"](some, 3)
        assert found.pixels.shape == some.pixels.shape
        assert found.pixels.dtype == torch.uint8
        assert torch.equal(found.labels, some.labels)
        assert torch.equal(found.index, some.index)
        assert torch.equal(found.pixels, corrupt(some, name, severity, seed=3).pixels)
        changes.append(change(some, found))
    assert torch.equal(found.pixels, corrupt(some, name, 5, seed=4).pixels) == (name not in RANDOM)
    assert torch.equal(state, torch.get_rng_state())
    assert np.array_equal(numpy_state, np.random.get_state()[1])
    assert changes[0] > 0.2
    if name == "elastic-transform":
        assert changes[4] < changes[0]  # the shift of the whole falls from .08 to .03 of the side
    else:
        assert changes[4] > changes[0]
    if name not in UNEVEN:
        assert all(later > 0.95 * sooner for sooner, later in pairwise(changes)), changes


@pytest.mark.parametrize("name", [name for name in CORRUPTIONS if name != "saturate"])
@pytest.mark.parametrize("form", [(8, 8, 1), (28, 28, 1), (40, 40, 3), (20, 32, 3)])
def test_grey_tiny_larger_and_oblong_images_are_corrupted_too(name, form):
    height, size, channels = form
    plain = made(scenes(6, size, channels)[:, :, :height])
    for severity in (1, 5):
        found = corrupt(plain, name, severity, 0)
        assert found.pixels.shape == plain.pixels.shape
        # On eight pixels few drops fall, and enlarging by 6 % moves nothing by a whole pixel.
        assert change(plain, found) > 0.1 or ((size, severity) == (8, 1) and name in ("spatter", "zoom-blur"))


def test_noise_has_the_published_strength(generator):
    """Moments over many pixels of one value, far from where they are cut off."""
    x = torch.full((64, 3, 32, 32), 0.5)
    assert float(digital.gaussian(x, 3, generator).std()) == pytest.approx(0.08, rel=0.02)
    assert float(digital.speckle(x, 5, generator).std()) == pytest.approx(0.1, rel=0.02)
    shot = digital.shot(x, 5, generator)
    assert float(shot.var()) == pytest.approx(0.5 / 50, rel=0.03)
    assert torch.allclose(shot * 50, (shot * 50).round(), atol=1e-4)
    impulse = digital.impulse(x, 5, generator)
    assert float((impulse == 1).float().mean()) == pytest.approx(0.035, rel=0.06)
    assert float((impulse == 0).float().mean()) == pytest.approx(0.035, rel=0.06)


def test_a_gaussian_blur_is_scipys(some, generator):
    for severity, sigma in enumerate((0.4, 0.6, 0.7, 0.8, 1.0), 1):
        found = blur.gaussian(x_of(some, 0, 1), severity, generator)
        told = ndimage.gaussian_filter(x_of(some, 0, 1).double().numpy(), (0, 0, sigma, sigma), mode="nearest", truncate=4)
        assert np.allclose(found, told, atol=1e-5)


def test_a_defocused_point_is_a_disk_with_a_soft_edge(generator):
    """Severity 4: the five pixels within radius 1, blurred by a 3 x 3 Gaussian of sigma .2."""
    point = torch.zeros(1, 1, 11, 11)
    point[0, 0, 5, 5] = 1
    found = blur.defocus(point, 4, generator)[0, 0]
    side = math.exp(-1 / (2 * 0.2**2))
    line = np.array([side, 1, side]) / (1 + 2 * side)
    disk = np.zeros((11, 11))
    for row, column in ((5, 5), (4, 5), (6, 5), (5, 4), (5, 6)):
        disk[row, column] = 0.2
    told = ndimage.convolve(disk, np.outer(line, line))
    assert np.allclose(found, told, atol=1e-6)
    assert float(blur.defocus(torch.full((1, 3, 8, 8), 0.3), 5, generator).std()) < 1e-6


def test_glass_moves_values_as_the_published_loop_does(some, monkeypatch, generator):
    """The loop over pixels from the lower right, with the same offsets; numpy's views make its swap a copy."""
    x = x_of(some, 3)
    monkeypatch.setattr(blur, "smooth", lambda x, sigma: x)
    found = blur.glass(x, 5, generator.manual_seed(7))
    generator.manual_seed(7)
    told = (x[0].permute(1, 2, 0).double().numpy() * 255 + 1e-3).astype(np.uint8)
    for _ in range(2):
        shift = torch.randint(-1, 1, (2, 1, 30, 30), generator=generator).numpy()
        for row in range(31, 1, -1):
            for column in range(31, 1, -1):
                down, right = shift[:, 0, row - 2, column - 2]
                first, second = told[row, column], told[row + down, column + right]
                told[row, column], told[row + down, column + right] = second, first
    assert np.array_equal((found[0].permute(1, 2, 0) * 255).round().numpy(), told)


def test_motion_goes_along_the_angle():
    """A point moved at 0, 90 and -45 degrees: the taps of a one-sided Gaussian, in one line, in sum 1."""
    point = torch.zeros(3, 1, 41, 41)
    point[:, 0, 20, 20] = 1
    found = blur.blur_along_line(point, 4, 2.0, torch.tensor([0.0, 90.0, -45.0]))[:, 0]
    taps = np.exp(-(np.arange(9) ** 2) / 8)
    taps /= taps.sum()
    assert np.allclose(found[0, 20, 12:21].flip(0), taps, atol=1e-6)
    assert np.allclose(found[1, 12:21, 20].flip(0), taps, atol=1e-6)
    assert np.allclose(found.sum((1, 2)), 1, atol=1e-5)
    rows, columns = np.nonzero(found[2].numpy())
    assert np.array_equal(rows - 20, 20 - columns)
    assert rows.min() == 20


@pytest.mark.parametrize("factor", [1.0, 1.03, 1.25, 2.25])
def test_an_enlarged_image_is_scipys(some, factor):
    x = x_of(some, 0)
    cut = math.ceil(32 / factor)
    top = (32 - cut) // 2
    large = ndimage.zoom(x[0, :, top : top + cut, top : top + cut].double().numpy(), (1, factor, factor), order=1)
    trim = (large.shape[1] - 32) // 2
    assert np.allclose(blur.magnify(x, factor)[0], large[:, trim : trim + 32, trim : trim + 32], atol=1e-5)


def test_contrast_is_about_the_mean_of_each_channel(some):
    found = corrupt(some, "contrast", 5, 0).pixels[0].double()
    one = some.pixels[0].double()
    for channel in range(3):
        told = (one[channel] - one[channel].mean()) * 0.15 + one[channel].mean()
        assert torch.equal(found[channel], told.clamp(0, 255).add(1e-3).floor())


def told_by_colorsys(x, change):
    found = np.empty(x.shape)
    for place in np.ndindex(x.shape[0], *x.shape[2:]):
        at = (place[0], slice(None), *place[1:])
        hue, saturation, value = colorsys.rgb_to_hsv(*x[at].tolist())
        found[at] = colorsys.hsv_to_rgb(hue, *change(saturation, value))
    return found


def test_brightness_and_saturation_are_those_of_hsv(colours, generator):
    """Against the standard library's conversion, pixel by pixel; black and grey pixels are among them."""
    bright = told_by_colorsys(colours, lambda saturation, value: (saturation, min(1, value + 0.2)))
    assert np.allclose(weather.brightness(colours, 4, generator), bright, atol=1e-5)
    for severity, (factor, more) in enumerate(((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)), 1):
        told = told_by_colorsys(colours, lambda s, v, factor=factor, more=more: (min(1, s * factor + more), v))
        assert np.allclose(digital.saturate(colours, severity, generator), told, atol=1e-5)


@pytest.mark.parametrize("severity", [1, 5])
def test_pixels_and_jpegs_are_pils(some, severity):
    share, quality = ((0.95, 80), (0.65, 40))[severity // 5]
    for number in range(3):
        image = Image.fromarray(some.pixels[number].permute(1, 2, 0).numpy())
        boxed = image.resize((int(32 * share),) * 2, Image.Resampling.BOX).resize((32, 32), Image.Resampling.BOX)
        file = io.BytesIO()
        image.save(file, "JPEG", quality=quality)
        for name, told in (("pixelate", boxed), ("jpeg-compression", Image.open(file))):
            found = corrupt(some, name, severity, 0).pixels[number].permute(1, 2, 0).numpy().astype(int)
            difference = np.abs(found - np.asarray(told).astype(int))
            assert difference.max() <= (name == "pixelate")


def test_clouds_fill_their_range_and_are_rougher_where_reach_decays_slowly(generator):
    rough, soft = (weather.plasma(8, 28, decay, generator) for decay in (1.5, 3.0))
    for cloud in (rough, soft):
        assert cloud.shape == (8, 32, 32)
        assert torch.equal(cloud.amin((1, 2)), torch.zeros(8))
        assert torch.equal(cloud.amax((1, 2)), torch.ones(8))
    steps = [float(cloud.diff(dim=2).abs().mean()) for cloud in (rough, soft)]
    assert steps[0] > 1.5 * steps[1]


def test_fog_keeps_the_brightest_value_possible(some, monkeypatch, generator):
    """Under a cloud of 1 the brightest pixel stays, under none it is darkened."""
    x = x_of(some, 0, 1)
    brightest = x.amax((1, 2, 3))
    for level in (1.0, 0.0):
        monkeypatch.setattr(weather, "plasma", lambda n, size, *_, level=level: torch.full((n, size, size), level))
        found = weather.fog(x, 4, generator).amax((1, 2, 3))
        assert torch.allclose(found, (brightest + level) * brightest / (brightest + 1))


def test_an_elastic_change_without_randomness_is_none(some, monkeypatch, generator):
    """Offsets of 0 everywhere: the points stay where they are."""
    monkeypatch.setattr(torch, "rand", lambda *size, **_: torch.full(size, 0.5))
    for severity in (1, 3):
        assert torch.allclose(digital.elastic(x_of(some, 0, 1), severity, generator), x_of(some, 0, 1), atol=1e-4)


def test_elastic_sampling_mirrors_as_scipy_does(some, generator):
    x = x_of(some, 0)
    shift = 6 * torch.rand(2, 1, 32, 32, generator=generator) - 3
    rows, columns = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    for edge_repeated, mode in ((True, "reflect"), (False, "mirror")):
        found = digital._sampled(x, columns + shift[0], rows + shift[1], edge_repeated=edge_repeated)
        where = np.stack([(rows + shift[1, 0]).numpy(), (columns + shift[0, 0]).numpy()])
        told = [ndimage.map_coordinates(channel.double().numpy(), where, order=1, mode=mode) for channel in x[0]]
        assert np.allclose(found[0], np.stack(told), atol=2e-4)


def test_edges_are_thin_and_lie_where_the_step_is():
    step = np.zeros((2, 12, 12))
    step[0, :, 6:] = 200
    step[1] = 100
    found = weather._edges(step)
    assert found[0].sum(1).tolist() == [1] * 12
    assert set(np.nonzero(found[0])[1].tolist()) <= {5, 6}
    assert not found[1].any()


def test_mud_is_brown_where_it_covers(generator):
    white = torch.ones(16, 3, 32, 32)
    found = weather.spatter(white, 5, generator)
    changed = (found != 1).any(1)
    assert 0 < float(changed.float().mean()) < 0.5
    assert torch.allclose(found.amin((0, 2, 3)), torch.tensor([63, 42, 20]) / 255, atol=0.2)
    assert (found[:, 0] >= found[:, 2] - 1e-6).all()


CIFAR = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A file of CIFAR-10-C whose rows tell their number, with labels that go round."""
    monkeypatch.setenv("CLASSWISE_IMAGES", str(tmp_path))
    folder = tmp_path / "CIFAR-10-C"
    folder.mkdir()
    rows = np.lib.format.open_memmap(folder / "glass_blur.npy", "w+", np.uint8, (50_000, 32, 32, 3))
    rows[:, 0, 0, 0], rows[:, 0, 0, 1], rows[:, 0, 1, 2] = np.arange(50_000) % 256, np.arange(50_000) // 256, 9
    rows.flush()
    np.save(folder / "labels.npy", np.tile(np.arange(10_000) % 10, 5).astype(np.uint8))
    return folder


def asked(index, classes=CIFAR, labels=None):
    index = torch.tensor(index)
    labels = index % 10 if labels is None else torch.tensor(labels)
    return Images(torch.zeros(len(index), 3, 32, 32, dtype=torch.uint8), labels, index, classes)


def test_published_files_are_read_by_the_place_of_the_image(published):
    found = TRANSFORMS["cifar10-c-glass-blur-3"](asked([7, 2500]), 0)
    assert (found.pixels[:, 0, 0, 0].int() + 256 * found.pixels[:, 1, 0, 0].int()).tolist() == [20_007, 22_500]
    assert found.pixels[:, 2, 0, 1].tolist() == [9, 9]
    some = asked([3, 13], classes=("cat", "dog"), labels=[0, 0])
    assert TRANSFORMS["cifar10-c-glass-blur-1"](some, 0).labels.tolist() == [0, 0]


REFUSED = [
    ("fog", made(scenes(2)[:, :2]), "got 2 x 32 x 32"),
    ("fog", made(scenes(2)[:, :, :7]), "at least 8 x 8 pixels, got 3 x 7 x 32"),
    ("saturate", made(scenes(2, 16, 1)), "saturate needs images in colour"),
    ("cifar10-c-glass-blur", asked([7], labels=[3]), "use dataset='cifar10', split='test'"),
    ("cifar10-c-glass-blur", asked([10_007]), "not the requested ones"),
    ("cifar10-c-fog", asked([7]), r"no .*fog.npy; unpack CIFAR-10-C.tar .* or use 'fog-3', which is computed"),
    ("cifar10-c-shot-noise", asked([7]), r"holds uint8 \(5, 32, 32, 3\), expected"),
    ("cifar10-c-snow", asked([7]), "is not an array of images"),
]


@pytest.mark.parametrize(("name", "some", "says"), REFUSED)
def test_images_and_files_that_do_not_fit_are_named(published, name, some, says):
    np.save(published / "shot_noise.npy", np.zeros((5, 32, 32, 3), np.uint8))
    (published / "snow.npy").write_bytes(b"no array")
    with pytest.raises(UserError, match=says):
        TRANSFORMS[f"{name}-3"](some, 0)


UNKNOWN = [
    (lambda some: corrupt(some, "fogg", 3, 0), "unknown corruption 'fogg'"),
    (lambda some: corrupt(some, "fog", 6, 0), "fog has the severities 1 to 5, got 6"),
    (lambda some: images.transform("fog"), "needs a severity from 1 to 5; write 'fog-3'"),
    (lambda some: images.transform("cifar10-c-fog"), "write 'cifar10-c-fog-3'"),
    (lambda some: images.transform("shot_noise-2"), "unknown transform .*; there are: none, gaussian-noise, .* with -1"),
]


@pytest.mark.parametrize(("call", "says"), UNKNOWN)
def test_unknown_names_and_severities_are_named(some, call, says):
    assert images.transform("none")(some, 0) is some
    with pytest.raises(UserError, match=says):
        call(some)
