"""Section 3.4: corrupted images, of standard and of adversarial training."""

from itertools import product

import numpy as np
import pytest
import xarray as xr
from claim_answers import CLASS, judged, outcomes_with

from classwise.images import registry
from classwise.papers.benz2020 import corruptions
from classwise.stats import aggregate, agreement, metrics, pooling

NOISES = [f"{name}-3" for name in corruptions.KINDS["noise"]]
FOGS = ["fog-3", "contrast-3"]
ALL = [f"{name}-3" for name in corruptions.CORRUPTIONS]
MORE = [f"{name}-{severity}" for name in corruptions.SWEPT for severity in (1, 5)]


def networks(standard, adversarial, names, clean=(95, 90)):
    """Return outcomes of two networks: their accuracy on clean images and under each corruption."""
    tables = {("standard", name): standard for name in names} | {("pgd-at", name): adversarial for name in names}
    return outcomes_with(tables | {("standard", "clean"): clean[0], ("pgd-at", "clean"): clean[1]})


# Both lose as much, or one loses more though it is still the more accurate one.
STANDARD_MORE = networks(60, 80, NOISES), networks(65, 62, NOISES, clean=(95, 70))
AT_MORE = networks(85, 60, NOISES), networks(62, 65, NOISES, clean=(70, 95))
FOG_AT_MORE, FOG_STANDARD_MORE = networks(90, 60, FOGS), networks(60, 85, FOGS)


def profiles(lost, robust=10 * CLASS):
    """Return outcomes of adversarial training: the accuracy of each class under attack, and how much corruptions take."""
    tables = {("pgd-at", "clean"): 95, ("pgd-at", "pgd-20"): robust} | {("pgd-at", name): 95 - lost for name in ALL}
    return aggregate.split_halves(outcomes_with(tables, times=4))


# Not all classes are in their place: no correlation is perfect.
SHUFFLED = np.array([10, 0, 20, 40, 30, 50, 70, 60, 80, 90])
SAME, OPPOSITE = profiles(50 - 5 * CLASS, SHUFFLED), profiles(5 * CLASS, SHUFFLED)
EXTREMES = {
    "noise-standard-more": (STANDARD_MORE, AT_MORE),
    "fog-contrast-at-more": ([FOG_AT_MORE], [FOG_STANDARD_MORE]),
    "corruptions-break-the-same": ([SAME], [OPPOSITE]),
}


def test_drops_that_have_nothing_to_do_with_robustness_do_not_decide():
    lost = np.where(np.isin(CLASS, (0, 3, 4, 7, 8)), 20, 40)
    assert judged("corruptions-break-the-same", profiles(lost)).verdict == "open"


def _parts(lacking=()):
    """Return outcomes as the section and its part have them: clean and attacked, and corrupted along transform."""
    plain = outcomes_with({(name, attack): 80 for name in ("standard", "pgd-at") for attack in ("clean", "pgd-20@tian2021")})
    every = product(("standard", "pgd-at"), ("fog-3", "contrast-3", "fog-5"))
    tables = {(name, "clean", transform): 60 for name, transform in every if (name, transform) not in lacking}
    corrupted = outcomes_with(tables, along=("defence", "attack", "transform"))
    return plain.expand_dims(seed=[0, 1]), corrupted.expand_dims(seed=[0])


def test_corruptions_stand_beside_the_attack_on_the_images_that_all_have():
    plain, corrupted = _parts()
    few = corrupted.assign(truth=corrupted.truth.where(corrupted.image % 2 == 0, -1))
    both = corruptions.stack_corruptions(plain, few)
    assert both.attack.values.tolist() == ["clean", "pgd-20", "fog-3", "contrast-3", "fog-5"]
    assert both.seed.values.tolist() == [0]
    present = both.truth >= 0
    assert bool((present == (both.image % 2 == 0)).all())
    assert set(corruptions.select_severity(both).attack.values) == {"clean", "pgd-20", "fog", "contrast"}
    assert corruptions.name_corruptions(both).corruption.values.tolist() == ["clean", "fog 3", "contrast 3", "fog 5"]


def test_a_network_without_a_corruption_has_no_images_and_one_that_nobody_has_is_left_out():
    plain, corrupted = _parts(lacking=[("standard", "fog-3"), ("standard", "fog-5"), ("pgd-at", "fog-5")])
    both = corruptions.stack_corruptions(plain, corrupted)
    assert sorted(both.attack.values) == ["clean", "contrast-3", "fog-3", "pgd-20"]
    present = (both.truth >= 0).any(["image", "seed"])
    assert not bool(present.sel(defence="standard").any())
    assert bool(present.sel(defence="pgd-at").all())
    assert corruptions.select_severity(both).defence.values.tolist() == ["pgd-at"]


def test_losses_are_those_that_were_made():
    tables = dict.fromkeys(product(("standard", "pgd-at"), ("clean", "pgd-20", *ALL, *MORE)), 90) | {("standard", "fog-3"): 60}
    some = corruptions.select_severity(outcomes_with(tables).expand_dims(seed=[0]))
    count = pooling.pool(some)
    assert corruptions.drops(metrics.accuracy(count)).sel(defence="standard", corruption="fog").values == pytest.approx(30)
    assert corruptions.name_corruptions(some).corruption.values.tolist() == [
        "clean",
        *(name.replace("-", " ") for name in corruptions.CORRUPTIONS),
    ]


def test_the_correlation_is_that_of_the_profiles_of_opposite_halves():
    exact = profiles(50 - 5 * CLASS)
    whole = exact.assign(truth=exact.truth.max("half")).drop_vars("half").expand_dims(seed=[0])
    trained = corruptions.select_severity(whole).sel(defence="pgd-at", drop=True)
    bounds = agreement.interval(trained, corruptions.breaks_the_same_classes, "attack")
    assert float(bounds.sel(bound="value")) == pytest.approx(-1, abs=0.02)


def test_every_corruption_is_shown_and_images_keep_their_numbers():
    pixels = xr.DataArray(np.full((2, 3, 8, 8), 0.2), {"image": [7, 5]}, ("image", "channel", "row", "column"))
    shown = {kind: registry.transformed(pixels, names) for kind, names in corruptions.SHOWN.items()}
    assert [len(names) for names in shown.values()] == [1, 3, 4, 4, 4]
    assert shown["clean"].values == pytest.approx(0.2)
    assert (shown["weather"].sel(transform="brightness-3") > 0.3).all()
    assert (shown["noise"].std(["channel", "row", "column"]) > 0.02).all()
    assert shown["noise"].image.values.tolist() == [7, 5]
