"""Section 3.2 of Benz et al., features: sets of rebuilt images, their networks, and what the claims say of them."""

import numpy as np
import pytest
import xarray as xr
from claim_answers import CLASS, at, judged, outcomes_with

from classwise.charts.gallery import png_address
from classwise.core.errors import NotRecorded
from classwise.papers import registry, scales
from classwise.papers.benz2020 import charts_features, rebuilt_images, section_3_2_features, sentences_features
from classwise.papers.benz2020.section_3_2_features import ADVERSARIAL, ATTACKS, NEXT, NON_ROBUST, RANDOM, ROBUST, STANDARD

NAME = section_3_2_features.NAME
QUARTER = ATTACKS[1]
NAMES = (STANDARD, ADVERSARIAL, ROBUST, NON_ROBUST, RANDOM)
ALIKE, APART = np.full(10, 70), at(30, *CLASS[:5], rest=95)


def sets(clean, attacked=(60, 80, 60, 20, 5), times=1):
    """Return outcomes of all networks from how many of a hundred images of each class are right, clean and at each radius.

    times: so many times a hundred images.
    """
    tables = {(name, "clean"): right for name, right in zip(NAMES, clean, strict=True)}
    tables |= {(name, attack): right for name, right in zip(NAMES, attacked, strict=True) for attack in ATTACKS}
    return outcomes_with(tables, times=times)


USEFUL = sets((95, 95, 80, 70, 40))
# Those that no claim is about say the opposite.
USELESS = sets((10, 10, 10, 70, 40))
EXTREMES = {
    "robust-features-useful": ([USEFUL, sets((10, 10, 80, 5, 5))], [sets((95, 95, 4, 70, 40)), sets((95, 95, 2, 90, 90))]),
    "non-robust-features-useful": (
        [USEFUL, sets((10, 10, 5, 70, 40))],
        [sets((95, 95, 80, 4, 40)), sets((95, 95, 80, 70, 4))],
    ),
    "only-robust-set-robust": ([USEFUL, sets((95, 95, 20, 90, 90))], [sets((95, 95, 80, 70, 40), (60, 80, 20, 60, 5))]),
    "both-unequal": (
        [sets((70, 70, APART, APART, 70)), sets((70, 70, APART, APART[::-1], 70))],
        [sets((APART, APART, ALIKE, ALIKE, APART), times=10), sets((70, 70, APART, ALIKE, 70), times=10)],
    ),
}


@pytest.mark.parametrize("data", [sets((95, 95, 80, 70, 10)), sets((95, 95, 80, 10, 40)), USELESS])
def test_chance_is_not_useful(data):
    name = "robust-features-useful" if data is USELESS else "non-robust-features-useful"
    assert judged(name, data).verdict != "holds"


def test_one_set_of_equal_classes_does_not_hold():
    assert judged("both-unequal", sets((70, 70, APART, ALIKE, 70))).verdict != "holds"


def test_each_claim_says_what_it_is():
    kinds = {claim.name: claim.where for claim in section_3_2_features.CLAIMS}
    assert all(where.startswith(("3.2, cited [20]", "3.2, asked", "3.2, control")) for where in kinds.values())
    assert all(claim.theirs is None for claim in section_3_2_features.CLAIMS)


@pytest.mark.parametrize("scale", scales.SCALES)
def test_the_networks_that_make_images_are_those_of_the_page(scale):
    request = registry.request(NAME, scale)
    trained = {*request.specs, *request.parts[ADVERSARIAL].specs}
    rebuilt = [spec for part in request.parts.values() for spec in part.specs if spec.rebuilt != "none"]
    assert {spec.image_source for spec in rebuilt} == trained
    assert all(spec.defence == STANDARD for spec in rebuilt)
    assert bool(request.parts[NEXT].specs) == (scale in ("short", "paper"))
    limits = {spec.train_per_class for spec in rebuilt}
    assert limits == ({1500} if scale == "laptop" else {None})


def evaluated(radii, attack="pgd-20"):
    """Return outcomes of one network along attack and eval_eps, clean images at the first radius alone."""
    truth = np.full((1, 2, len(radii), 20), -1, dtype="i2")
    truth[:, 0, 0], truth[:, 1] = np.arange(20) % 10, np.arange(20) % 10
    answer = np.where(truth >= 0, np.arange(len(radii))[:, None], -1)
    dims = ("defence", "attack", "eval_eps", "image")
    coords = {"defence": ["standard"], "attack": ["clean", attack], "eval_eps": list(radii), "image": np.arange(20)}
    values = {"truth": (dims, truth), "answer": (dims, answer.astype("i2")), "flipped": (dims, answer != truth)}
    return xr.Dataset(values, coords | {"predicted": [str(number) for number in range(10)]})


def test_each_radius_is_an_attack_whatever_their_order():
    data = section_3_2_features.by_attack(evaluated(("2/255", "4/255", "1/255"), "pgd-20@tian2021-a1"))
    assert list(data.attack.values) == ["clean", *ATTACKS]
    assert [int(data.answer.sel(attack=name).max()) for name in ATTACKS] == [2, 0, 1]
    assert bool((data.truth >= 0).all())
    assert list(section_3_2_features.by_attack(evaluated(("0.1", "0.2"))).attack.values)[1:] == ["pgd-20 at 0.1", "pgd-20 at 0.2"]


def images(kind="features", seed=0, label_shift=0):
    """Return what is known of 40 rebuilt images, of which a quarter is closer to its start."""
    rng, truth = np.random.default_rng(seed), (np.arange(40) % 10).astype("i2")
    far = np.where(np.arange(40) % 4 == 0, 9.0, 1.0).astype("f4")
    perturbed = kind != "features"
    values = {
        "truth": ("image", (truth + label_shift) % 10),
        "original": ("image", truth if perturbed else (truth + 3) % 10),
        "answer": ("image", (truth + label_shift) % 10),
        "to_target": ("image", far),
        "to_start": ("image", far if perturbed else np.full(40, 5, "f4")),
        "apart": ("image", np.zeros(40, "f4") if perturbed else np.full(40, 10, "f4")),
        "pixels": (("shown", "form", "channel", "row", "column"), rng.random((40, 3, 1, 8, 8)).astype("f4")),
    }
    coords = {"image": np.arange(40) + 7, "shown": np.arange(40) + 7, "form": ["target", "start", "rebuilt"]}
    return xr.Dataset(values, coords | {"predicted": [str(number) for number in range(10)]})


MADE = {ROBUST: [images(), images(seed=1)], RANDOM: [images("random", label_shift=1)]}


def test_closeness_counts_the_images_of_all_runs():
    table = rebuilt_images.closeness(MADE)
    assert list(table.loc[ROBUST]) == ["80", "75.0", "0.30", "100.0"]
    assert list(table.loc[RANDOM]) == ["40", "–", "–", "100.0"]
    said = sentences_features.reached(MADE)
    assert "75.0 % of 80 images (robust set; 0.30 of the distance" in said
    assert RANDOM not in said
    assert "No images" in sentences_features.reached({RANDOM: MADE[RANDOM]})


def test_pictures_show_the_same_images_in_all_rows_with_their_labels():
    chart = charts_features.pictures(MADE).to_dict()
    table = next(iter(chart["datasets"].values())) if "datasets" in chart else chart["data"]["values"]
    text = table if isinstance(table, str) else str(table)
    assert all(name in text for name in ("original", "start", "robust", RANDOM))
    first = MADE[ROBUST][0].pixels.isel(shown=0)
    assert all(png_address(first.sel(form=form).values) in text for form in ("target", "start", "rebuilt"))
    with pytest.raises(NotRecorded):
        charts_features.pictures({})


def runs_of(*tables):
    """Return `sets` along seed, of one seed."""
    return sets(*tables).expand_dims(seed=[0])


ONE_SEED = USEFUL.expand_dims(seed=[0])


def test_the_headline_compares_both_sets_and_standard_training_on_the_originals():
    said = sentences_features.headline(ONE_SEED)
    assert said.startswith(f"**Under {QUARTER} the robust set leaves 60 % correct, the non-robust set 20 %, a difference of 40")
    assert "Standard training on the original images leaves 60 %; robust set less original images: 0 points (95 %" in said
    assert "a network trained on the robust set is right on 80 % (95 % interval" in said
    assert "One run of each training set" in said
    less = sentences_features.headline(runs_of((95, 95, 80, 70, 40), (60, 80, 20, 60, 5)))
    assert "a difference of -40 points" in less
    assert "robust set less original images: -40 points" in less
    one = ONE_SEED.sel(defence=[STANDARD, ROBUST])
    assert "not recorded yet" in sentences_features.headline(one)
    without = sentences_features.headline(ONE_SEED.sel(defence=[ROBUST, NON_ROBUST]))
    assert "a difference of 40 points" in without
    assert "original images" not in without
    clean = sentences_features.headline(ONE_SEED.sel(attack=["clean"]))
    assert clean.startswith("**On clean test images a network trained on the robust set is right on 80 %")


def test_the_network_is_named_by_the_specs():
    specs = registry.request(NAME, "laptop").specs
    width, epochs = specs[0].width, specs[0].epochs
    said = sentences_features.network(specs)
    assert said == f"Each network is a ResNet18 of width {width}, trained for {epochs} epochs."
    assert sentences_features.network(()) == ""
    assert sentences_features.headline(ONE_SEED, specs).endswith(said)


def test_sentences_name_only_what_is_sure():
    assert "Not significantly: random targets" in sentences_features.chance(runs_of((95, 95, 80, 70, 10)))
    assert "Not significantly" not in sentences_features.chance(ONE_SEED)
    assert "No training set is significantly better" in sentences_features.chance(runs_of((95, 95, 10, 10, 10)))
    assert "60 % after standard training and 80 % after adversarial training" in sentences_features.undisturbed(ONE_SEED)


def test_likeness_is_of_other_images_and_unknown_where_nothing_is_right():
    data = sets((90, 90, 80, 70, 40), (APART, APART[::-1], APART, APART[::-1], 0))
    found = rebuilt_images.likeness(data)
    value = found.sel(bound="value")
    assert float(value.sel(defence=ROBUST, network=STANDARD)) > 0.9
    assert float(value.sel(defence=ROBUST, network=ADVERSARIAL)) < -0.9
    said = sentences_features.whose(found, rebuilt_images.leaning(data))
    assert "Do the weak classes resemble those of pgd-at more than those of standard training?" in said
    assert "By the difference of both correlations, robust set: no, less so, -" in said
    assert "; non-robust set: yes, " in said
    assert "Unknown, since too few predictions are right: random targets" in said
    assert "Of the networks on the original images: standard" in said
    assert float(value.sel(defence=STANDARD, network=STANDARD)) > 0.9
    assert rebuilt_images.leaning(data.sel(defence=[STANDARD, ROBUST])) is None
    alone = sentences_features.whose(rebuilt_images.likeness(data.sel(defence=[STANDARD, ADVERSARIAL])))
    assert alone.startswith("Of the networks on the original images: standard")
    assert "with itself" in alone
