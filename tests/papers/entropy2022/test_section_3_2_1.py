"""Section 3.2.1: the entropy of predictions, the terms of the divergence, and TRADES without the gradient of its clean side."""

import json

import numpy as np
import pytest
import torch
import xarray as xr
from claim_answers import judged, outcomes_with
from scipy import special, stats

from classwise.defences.objectives import kl_divergence
from classwise.papers import registry
from classwise.papers.claims import MeasurementError
from classwise.papers.entropy2022 import charts_entropy, entropy, section_3_2_1, sentences_entropy
from classwise.papers.entropy2022.entropy import DETACHED, SLOWER

LN10 = float(np.log(10))
ATTACKS = ("clean", "pgd-20")


def networks(clean, attacked, names=("pgd-at", "trades")):
    """Return outcomes of networks from how high the logits of their predictions are, clean and attacked: 0 is no certainty."""
    tables = {(name, attack): 90 if attack == "clean" else 60 for name in names for attack in ATTACKS}
    sharp = np.array([clean, attacked], dtype=float).T[..., None]
    return outcomes_with(tables, sharp=sharp)


AS_PUBLISHED, OPPOSITE = networks((6, 3), (5, 2.5)), networks((3, 6), (2.5, 5))
# One of the two kinds of images is not as the paper says.
CLEAN_ONLY, UNCERTAIN = networks((6, 3), (2.5, 5)), networks((6, 4), (5, 0.5))
TWINS = (DETACHED, SLOWER)
EXTREMES = {
    "trades-more-entropy-clean": ([AS_PUBLISHED, CLEAN_ONLY], [OPPOSITE]),
    "trades-more-entropy-attacked": ([AS_PUBLISHED], [OPPOSITE, CLEAN_ONLY]),
    "entropy-far-from-limit": ([AS_PUBLISHED, networks((0, 6), (0, 5))], [UNCERTAIN, networks((6, 0.5), (5, 0.5))]),
    "entropy-by-its-gradient": ([networks((6, 3), (3, 6), TWINS)], [networks((3, 6), (6, 3), TWINS)]),
}


def test_a_claim_on_a_network_that_is_not_there_says_so():
    with pytest.raises(MeasurementError, match=DETACHED):
        judged("entropy-by-its-gradient", AS_PUBLISHED)


def drawn(classes=10, seed=0):
    """Return outcomes of two networks and two seeds with random logits, some of them large."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(2, 2, 2, 50, classes)) * rng.choice([0.1, 3, 30], size=(2, 2, 2, 50, 1))
    truth = np.broadcast_to(np.arange(50) % classes, logits.shape[:-1]).copy()
    truth[:, 0, :, 25:], truth[:, 1, :, :25] = -1, -1
    answer = logits.argmax(-1)
    dims = ("defence", "seed", "attack", "image")
    data = {"truth": (dims, truth), "answer": (dims, answer), "flipped": (dims, answer != truth)}
    data["logits"] = ((*dims, "predicted"), logits.astype("f4"))
    coords = {"defence": ["pgd-at", "trades"], "seed": [0, 1], "attack": ["clean", "pgd-20"]}
    return xr.Dataset(data, coords | {"image": np.arange(50), "predicted": [str(number) for number in range(classes)]})


def test_the_terms_of_the_divergence_add_up_and_are_those_of_the_objective():
    data = drawn()
    terms = entropy.divergence_terms(data)
    assert entropy.residual(terms) < 1e-5
    logits = torch.tensor(data.logits.values, dtype=torch.float64)
    expected = kl_divergence(logits[:, :, 0].flatten(0, 2), logits[:, :, 1].flatten(0, 2)).reshape(2, 2, 50).numpy()
    present = (data.truth >= 0).all("attack").values
    assert np.allclose(terms.divergence.values[present], expected[present], atol=1e-5)
    power = special.softmax(data.logits.values[:, :, 0].astype("f8"), axis=-1)
    assert np.allclose(-terms.negative_entropy.values[present], stats.entropy(power, axis=-1)[present], atol=1e-5)
    assert terms.divergence.isnull().sum() == (~present).sum()
    assert (terms.cross_entropy >= -terms.negative_entropy - 1e-9).where(terms.divergence.notnull(), True).all()


def test_the_mean_of_a_network_is_that_of_its_images():
    data = drawn()
    ours = entropy.bounds(data, entropy.mean_entropy, draws=50)
    nats = stats.entropy(special.softmax(data.logits.values.astype("f8"), axis=-1), axis=-1)
    expected = np.nanmean(np.where(data.truth.values >= 0, nats, np.nan), axis=(1, 3))
    assert np.allclose(ours.sel(bound="value").transpose("defence", "attack"), expected, atol=1e-5)
    assert (ours.sel(bound="low") <= ours.sel(bound="value")).all()
    assert (ours.sel(bound="value") <= ours.sel(bound="high")).all()


def test_right_and_wrong_images_of_a_class_are_apart():
    data = drawn(classes=2)
    found = entropy.bounds(data, entropy.by_class, draws=20).sel(bound="value")
    nats = stats.entropy(special.softmax(data.logits.values.astype("f8"), axis=-1), axis=-1)
    for kind, flipped in (("right", False), ("wrong", True)):
        chosen = (data.truth.values == 1) & (data.flipped.values == flipped)
        expected = nats[1, :, 1][chosen[1, :, 1]].mean()
        assert float(found.sel(images_are=kind, label="1").isel(defence=1, attack=1)) == pytest.approx(expected, abs=1e-5)


def test_of_pairs_only_images_that_both_classify_correctly_are_left():
    kept = entropy.right_in_all(drawn())
    assert not bool(kept.flipped.where(kept.truth >= 0, False).any())
    assert int((kept.truth >= 0).sum()) > 0


def test_bins_hold_each_image_once():
    data = drawn()
    count = entropy.bins(data, 8)
    assert int(count.sum()) == int((data.truth >= 0).sum())
    assert int(count.sel(images_are="wrong").sum()) == int((data.flipped & (data.truth >= 0)).sum())
    uniform = data.assign(logits=data.logits * 0)
    assert int(entropy.bins(uniform, 8).isel(bin=-1).sum()) == int((data.truth >= 0).sum())


def history(recorded=True):
    """Return a history of two networks, measured after two of three epochs, with an entropy of 1 clean and 2 attacked."""
    count = np.zeros((2, 2, 3, 3, 3, 10, 10), dtype="i4")
    count[:, :, [0, 2], :, :2] = 4 * np.eye(10, dtype="i4")
    nats = np.full(count.shape[:-1], np.nan, dtype="f4")
    nats[:, :, [0, 2], 2, :2] = np.array([1, 2])[:, None]
    dims = ("defence", "seed", "epoch", "split", "attack", "label")
    names = [str(number) for number in range(10)]
    coords = {"defence": ["pgd-at", "trades"], "seed": [0, 1], "epoch": [1, 2, 3], "split": ["train", "valid", "test"]}
    coords |= {"attack": ["clean", "pgd-10", "inner"], "label": names, "predicted": names}
    data = {"count": ((*dims, "predicted"), count)} | ({"uncertainty": (dims, nats)} if recorded else {})
    return xr.Dataset(data, coords)


def test_the_course_is_that_of_the_measured_epochs_and_of_older_trainings_the_last_one():
    course = entropy.course(history(), drawn())
    assert list(course.epoch.values) == [1, 3]
    assert (course.sel(images_are="clean") == 1).all()
    assert (course.sel(images_are="attacked") == 2).all()
    assert "changes: pgd-at from" in sentences_entropy.recorded_course(course)
    older = entropy.course(history(recorded=False), drawn())
    assert list(older.epoch.values) == [3]
    means = entropy.bounds(drawn(), entropy.mean_entropy, draws=5).sel(bound="value", defence="trades")
    assert np.allclose(older.sel(defence="trades", epoch=3).mean("seed"), means, atol=1e-5)
    assert "was not recorded" in sentences_entropy.recorded_course(older)
    # A training that recorded it beside one that did not.
    mixed = history()
    mixed["uncertainty"] = mixed.uncertainty.where(mixed.defence == "trades")
    assert list(entropy.course(mixed, drawn()).epoch.values) == [3]


def test_the_twins_have_names_of_their_networks_and_the_claim_has_a_single_seed():
    one = drawn().sel(seed=[0], defence=["trades"])
    both = entropy.twins(one, one)
    assert list(both.defence.values) == [SLOWER, DETACHED]
    full = entropy.networks(drawn(), slower=one, detached=one)
    assert list(full.defence.values) == ["pgd-at", "trades", SLOWER, DETACHED]
    assert list(entropy.of_all(full).seed.values) == [0]


@pytest.mark.parametrize(
    ("data", "start"),
    [
        (AS_PUBLISHED, "**TRADES has a larger entropy than PGD-AT: the mean differs by"),
        (OPPOSITE, "**TRADES has a smaller entropy than PGD-AT: the mean differs by -"),
        (
            CLEAN_ONLY,
            "**TRADES has a larger entropy than PGD-AT on clean images or on attacked ones",
        ),
    ],
)
def test_the_finding_states_what_is_certain(data, start):
    said = sentences_entropy.more_entropy(data.expand_dims(seed=[0]))
    assert said.startswith(start)
    assert "2.30 nats" in said


def test_the_finding_on_the_gradient_and_the_table_of_differences():
    twins = networks((6, 3), (5, 2.5), TWINS).expand_dims(seed=[0])
    assert sentences_entropy.gradient(twins).startswith("**The gradient through the clean prediction raises the entropy")
    pairs = {"one": TWINS[::-1], "absent": ("me-at", SLOWER)}
    table = sentences_entropy.differences(twins, pairs)
    assert list(table.index) == [("one", "all images"), ("one", "both right")]
    difference = entropy.bounds(twins, entropy.mean_entropy).sel(bound="value")
    assert table.loc[("one", "all images"), "clean"].startswith(f"{float(difference[1, 0] - difference[0, 0]):.2f} [")


def test_the_twins_differ_in_the_gradient_alone():
    parts = registry.request(section_3_2_1.NAME).parts
    (slower,), (detached,) = parts["slower"].specs, parts["detached"].specs
    assert dict(detached.options) == {"detached": True}
    assert not slower.options
    same = {name: value for name, value in vars(slower).items() if name != "options"}
    assert same == {name: value for name, value in vars(detached).items() if name != "options"}
    assert slower.lr < registry.request(section_3_2_1.NAME).specs[0].lr


def test_charts_draw_what_they_are_given():
    course = charts_entropy.course(entropy.course(history(), drawn()), 10)
    assert "ln 10" in json.dumps(course.to_dict())
    terms = entropy.divergence_terms(drawn()).mean(["seed", "image"])
    drawn_terms = charts_entropy.terms(terms).to_dict()
    assert "Divergence" in drawn_terms["description"]
    bounds = entropy.bounds(drawn(), entropy.by_class, draws=20).isel(attack=1)
    assert "Mean entropy, 10 classes" in charts_entropy.classes(bounds).to_dict()["description"]
    explorer = charts_entropy.distribution(entropy.bins(drawn()), "trades", live=False).to_dict()
    assert {"chosen_class", "chosen_network", "chosen_images"} <= {param["name"] for param in explorer["params"]}
