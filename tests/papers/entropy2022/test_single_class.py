"""Section 2.1: networks that are attacked in one class alone."""

import numpy as np
import pytest
import xarray as xr
from claim_answers import CLASS, DIGITS, judged, listed, outcomes_with

from classwise.core.datasets import class_names
from classwise.core.errors import UserError
from classwise.papers import registry
from classwise.papers.entropy2022 import single_class
from classwise.stats import bootstrap

HARDEST, EASIEST = "8", "0"
NAMES = [*DIGITS, ""]


def others_as(name, share, right=90):
    """Return a table of answers in which so many of a hundred images of each other class are predicted as a class."""
    table = np.zeros((10, 10), dtype=int)
    number = DIGITS.index(name)
    table[CLASS, CLASS] = right
    rest = np.where(number == CLASS, 0, np.minimum(share, 100))
    table[CLASS, number] += rest
    table[CLASS, CLASS] = np.where(number == CLASS, right, 100 - rest)
    table[number, (number + 1) % 10] += 100 - right
    return table


def select_classes(names, own, rest=90):
    """Return the accuracies of the classes in the network attacked in each: `own` of those named, `rest` in all others."""
    return {name: np.where(CLASS[place] == CLASS, own if name in names else rest, rest) for place, name in enumerate(DIGITS)}


def trained(names, clean, robust):
    """Return outcomes of the networks: accuracies of some classes in their networks, clean and attacked; all others 60."""
    tables = {}
    for attack, own in (("clean", clean), ("pgd-20", robust)):
        tables |= {("single-class-at", attack, name): table for name, table in select_classes(names, own, 60).items()}
        tables["single-class-at", attack, ""] = 100 - own
    return outcomes_with(tables, along=("defence", "attack", "attacked"))


def renamed(data):
    """Return outcomes whose networks are named as the classes of CIFAR-10."""
    names = list(class_names("cifar10"))
    return data.assign_coords(attacked=[names[int(one)] if one else one for one in data.attacked.values])


def shown(kind, tables):
    """Return outcomes of the networks on two kinds of images, from tables of their answers on these by attacked class."""
    keys = {
        ("single-class-at", "any", name, images_are): table
        for name, both in tables.items()
        for images_are, table in zip((single_class.CLEAN, kind), both, strict=True)
    }
    return outcomes_with(keys, along=("defence", "attack", "attacked", "shown"))


def with_angles(plain, own, *, spread=0.05, blocks=5, per_block=8):
    """Return outcomes with features in the plane: the directions of the classes, in degrees, in standard training and in the
    network of each class, in which `own` says how far it stands from the next one."""
    rng, classes, values = np.random.default_rng(0), len(CLASS), []
    for network in range(len(NAMES)):
        angles = np.array(plain, dtype=float)
        if network < classes:
            angles = np.arange(classes) * 36.0
            angles[network] = angles[(network + 1) % classes] - own[network]
        unit = np.stack([np.cos(np.radians(angles)), np.sin(np.radians(angles))], -1)
        values.append(unit[None, :, None] + spread * rng.normal(size=(blocks, classes, per_block, 2)))
    each, dims = np.stack(values), ("attacked", "block", "label")
    sums = {"total": ((*dims, "feature"), each.sum(3)), "square": (dims, (each**2).sum((3, 4)))}
    sums["images"] = dims, np.full(each.shape[:3], per_block)
    along = {"defence": ["single-class-at"], "seed": [0], "attack": ["clean", "pgd-20"]}
    data = trained((), 60, 60).expand_dims(seed=[0])
    block_of = xr.DataArray(np.arange(data.sizes["image"])[None] % blocks, dims=("seed", "image"))
    return data.assign(xr.Dataset(sums, {"attacked": NAMES, "label": DIGITS}).expand_dims(along)).assign(block_of=block_of)


EVEN = CLASS * 36.0
# In standard training all are spread evenly; in its network each class is nearer to its neighbour, or the nearest is farther.
CLOSER, APART = with_angles(EVEN, [10] * 10), with_angles([0, 5, 72, 77, 144, 149, 216, 221, 288, 293], [36] * 10)
ONE_APART = with_angles([0, 36, 72, 108, 144, 180, 216, 252, 288, 290], [36 if name in "89" else 10 for name in DIGITS])
OVERLAPPING = ("2", "4", "5")
REST = ("0", "6", "7", "8", "9")


def overlapped(names, own):
    return renamed(trained(names, own, 95 - own))


def recognised(training, clean):
    """Return outcomes of the networks on clean test images and on attacked images of the training: those of the hardest class."""
    tables = {name: [np.where(CLASS == 8, 100 - own, own) for own in (clean, training)] for name in DIGITS}
    tables[HARDEST] = [np.where(CLASS == 8, own, 100 - own) for own in (clean, training)]
    return shown(single_class.TRAINING, tables)


def taken(clean, attacked):
    """Return outcomes in which so many of the images of other classes are predicted as the hardest one by its network."""
    tables = {name: [others_as(name, share) for share in (attacked, clean)] for name in DIGITS}
    tables[HARDEST] = [others_as(HARDEST, share) for share in (clean, attacked)]
    return shown(single_class.TRANSFERRED, tables)


# For each claim: answers on which it must hold, and answers on which it must fail.
EXTREMES = {
    "hardest-alone-lost": ([trained((HARDEST,), 5, 90)], [trained((HARDEST,), 40, 2)]),
    "hardest-alone-not-robust": ([trained((HARDEST,), 90, 0)], [trained((HARDEST,), 0, 20)]),
    "easiest-alone-accurate": ([trained((EASIEST,), 99, 10)], [trained((EASIEST,), 70, 99)]),
    "easiest-alone-robust": ([trained((EASIEST,), 10, 80)], [trained((EASIEST,), 99, 30)]),
    "easiest-more-similar": ([CLOSER, ONE_APART], [APART]),
    "each-more-similar": ([CLOSER], [APART, ONE_APART]),
    "others-overlap": ([overlapped(OVERLAPPING, 20)], [overlapped(REST, 20)]),
    "perturbation-not-learned": ([recognised(60, 80)], [recognised(95, 5)]),
    "perturbation-no-evidence": ([taken(5, 8)], [taken(5, 80)]),
}


FEW = CLOSER.sel(attacked=["0", "8", ""])
REFUSED = [
    ("each-more-similar", FEW, "not each class has a network"),
    ("perturbation-not-learned", recognised(5, 80), "less often than by chance"),
    ("others-overlap", overlapped(OVERLAPPING, 20).sel(attacked=["cat", "automobile", ""]), "not each class has a network"),
]


def test_a_claim_about_a_class_needs_no_network_of_each():
    assert judged("easiest-more-similar", FEW).verdict == "holds"


def test_the_shown_classes_are_those_of_the_dataset():
    assert single_class.shown_classes(class_names("cifar10")) == {"hardest": "cat", "easiest": "automobile"}
    assert single_class.shown_classes(DIGITS) == {"hardest": "8", "easiest": "0"}
    with pytest.raises(UserError, match="hardest and the easiest of these classes are not known: a, b"):
        single_class.shown_classes(["a", "b"])


def networks():
    """Return outcomes of two parts, as `runs.outcomes` returns them: standard training, and each class attacked alone."""
    both = trained((HARDEST,), 40, 10).drop_vars(["vulnerable", "partner", "background"])
    both = both.assign_attrs(dataset="digits", eps="0.2")
    plain = both.sel(attacked="", drop=True).assign_coords(defence=["standard"])
    alone = both.sel(attacked=DIGITS).assign_coords(attacked=CLASS).rename(attacked="option_label")
    return plain.expand_dims(seed=[0]), alone.expand_dims(seed=[0])


def test_networks_are_named_by_the_class_that_is_attacked():
    plain, alone = networks()
    joined = single_class.stack_attacked(plain, alone.isel(option_label=[3, 8]))
    assert joined.attacked.values.tolist() == ["3", "8", ""]
    assert joined.defence.values.tolist() == ["single-class-at"]
    of_plain = joined.sel(attacked="", attack="clean").prediction.values.ravel()
    assert (of_plain == plain.sel(attack="clean").prediction.values.ravel()).all()
    rates = single_class.accuracies(joined).sel(attacked="8")
    assert rates.sel(of="attacked alone, clean", bound="value").item() == 40
    assert rates.sel(of="attacked alone, pgd-20", bound="value").item() == 10
    assert (rates.sel(bound="low") <= rates.sel(bound="value")).all()


def test_images_that_are_predicted_as_the_attacked_class_are_counted():
    plain, alone = networks()
    answer = np.stack([listed(others_as(name, 30, right=80)) for name in DIGITS])
    moved = alone.sel(attack=["pgd-20"])
    swapped = xr.DataArray(answer, dims=("option_label", "image")).broadcast_like(moved.prediction).where(moved.truth >= 0, -1)
    moved = moved.assign(prediction=swapped.transpose(*moved.prediction.dims).astype("i2"))
    arranged = {name: how.function for name, how in single_class.SECTION.arrange.items()}
    shares = single_class.rate_as_attacked_class(
        arranged["alone"](plain, alone),
        arranged["transferred"](alone, moved),
        arranged["training"](alone, alone.sel(attack=["pgd-20"])),
    )
    value = shares.sel(bound="value", of="transferred PGD-20")
    assert value.sel(images_of="all other classes").values == pytest.approx(np.full(10, 30))
    assert value.sel(images_of="the attacked class").values == pytest.approx(np.full(10, 80))
    training = shares.sel(bound="value", of="training images, pgd-20", images_of="the attacked class")
    assert training.sel(attacked=["0", "8"]).values == pytest.approx([60, 10])


def test_changes_are_those_of_a_class_that_is_attacked_alone():
    data = trained((HARDEST,), 5, 5)
    data = data.where(data.attacked != "", trained((), 10, 10))
    data = data.assign(truth=data.truth.astype("i2"), prediction=data.prediction.astype("i2")).expand_dims(seed=[0])
    changes = single_class.clean_changes(bootstrap.sums(data, {})["count"])
    assert changes.sel(attacked=["0", HARDEST]).values == pytest.approx([-30, -85])


def test_places_are_those_of_clean_images_and_of_attacked_ones_of_the_attacked_class():
    rng, by_run = np.random.default_rng(0), {}
    for spec in registry.request(single_class.NAME).parts["alone"].specs:
        place = xr.DataArray(rng.normal(size=(40, 2)), dims=("image", "feature"))
        truth = xr.DataArray(np.arange(40) % 10, dims="image")
        data = xr.Dataset({"place": place, "truth": truth}, {"label": DIGITS})
        by_run[spec] = (data, data)
    places = single_class.places(by_run, most=3)
    assert places.sizes == {"axis": 2, "attacked": 10, "images_are": 2, "label": 10, "number": 3}
    assert bool(places.sel(images_are="clean").notnull().all())
    moved = places.sel(images_are="attacked").notnull().all(["axis", "number"])
    assert (moved == (moved.label == moved.attacked)).all()
    # Directions are those of the features, whatever their lengths.
    first = places.sel(attacked="8", images_are="clean", label="2", number=0)
    (spec,) = [one for one in by_run if one.options["label"] == 8]
    x, y = by_run[spec][0].place.values[2]
    assert np.arctan2(first.sel(axis="y"), first.sel(axis="x")).item() == pytest.approx(np.arctan2(y, x))
