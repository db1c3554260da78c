"""Section 1.1: accuracies and features made by hand on which each claim holds, and others on which it fails."""

import numpy as np
import pytest
import xarray as xr
from claim_answers import CLASS, at, outcomes_with, with_features

from classwise.charts import explorers
from classwise.papers.entropy2022 import robust_fairness
from classwise.papers.entropy2022 import similarity as likeness
from classwise.stats import bootstrap, features, metrics

NETWORKS = robust_fairness.NETWORKS
HARDEST = np.where(CLASS == 3, 20, 80)


def similar(outcomes, networks, along="defence"):
    """Return outcomes with features of clean images: by network how close the classes of a pair are, and their spread.

    Classes 0 and 1, 2 and 3, ... are pairs; both numbers may be given for each class.
    """
    rng, truth, values = np.random.default_rng(0), np.repeat(CLASS, outcomes.sizes["image"] // 10), {}
    for name, both in networks.items():
        near, spread = (np.broadcast_to(one, 10)[:, None] for one in both)
        means = np.eye(10) + near * np.eye(10)[CLASS ^ 1]
        values[name] = means[truth] + spread[truth] * rng.standard_normal((len(truth), 10))
    return with_features(outcomes, values, 20, along)


def accuracies(standard, trained, robust=60):
    """Return clean accuracies of standard training and of the other networks, and those of the other networks under attack."""
    keys = {("standard", "clean"): standard, ("standard", "pgd-20"): 0}
    for name in NETWORKS[1:]:
        keys |= {(name, "clean"): trained, (name, "pgd-20"): robust}
    return outcomes_with(keys)


def networks(*near_and_spread, robust=HARDEST):
    """Return the three networks with their features, of which class 3 is the least robust."""
    data = accuracies(90, 80, robust)
    return similar(data, dict(zip(NETWORKS, near_and_spread, strict=True)))


def shorter(*near, standard=(90, 80)):
    """Return standard, pgd-at, trades and a standard training of two epochs, of these clean accuracies and similarities."""
    names = (*NETWORKS, "standard, 2 epochs")
    rates = (standard[0], 80, 80, standard[1])
    keys = {("standard", "clean", name): rate for name, rate in zip(names, rates, strict=True)}
    data = outcomes_with(keys, along=("defence", "attack", "network"))
    data = similar(data, {name: (some, 0.2) for name, some in zip(names, near, strict=True)}, along="network")
    return data.assign_coords(epochs=("network", [60, 0, 0, 2]))


def both_orders(first, middle, second):
    """Return answers on which a claim holds, and on which it fails: where both networks, and where only one, are otherwise."""
    return [networks(first, second, second)], [networks(second, first, first), networks(middle, second, first)]


APART, BETWEEN, CLOSE = (0.2, 0.3), (0.4, 0.3), (0.6, 0.3)
WIDE, MEDIUM, NARROW = (0.3, 0.6), (0.3, 0.4), (0.3, 0.2)
# Two classes lose much, or all others do.
PAYS, GAINS = np.where(CLASS < 2, 40, 88), np.where(CLASS < 2, 89, 60)
WIDEST, NOT_WIDEST = (0.3, np.where(CLASS == 3, 0.6, 0.3)), (0.3, np.where(CLASS == 5, 0.6, 0.3))
NEAREST, NOT_NEAREST = (np.where(CLASS // 2 == 1, 0.7, 0.2), 0.3), (np.where(CLASS // 2 == 2, 0.7, 0.2), 0.3)
STEPS, REVERSED = np.repeat([0.1, 0.2, 0.35, 0.5, 0.7], 2), np.repeat([0.7, 0.5, 0.35, 0.2, 0.1], 2)
LESS_ROBUST = 90 - 15 * (CLASS // 2)

EXTREMES = {
    "clean-gap-grows": ([accuracies(90, PAYS)], [accuracies(PAYS, 90)]),
    "cat-and-car": (
        [accuracies(90, np.where(CLASS == 3, 40, 85))],
        [accuracies(90, np.where(CLASS == 1, 40, 85)), accuracies(np.where(CLASS == 3, 40, 85), 90)],
    ),
    "cat-and-car-attacked": (
        [accuracies(90, 85, at(10, 3, rest=50)), accuracies(90, at(85, 3, rest=40), at(10, 3, rest=50))],
        [accuracies(90, at(40, 3, rest=85), at(70, 3, rest=30)), accuracies(at(40, 3, rest=90), 85, at(30, 3, rest=50))],
    ),
    "cat-and-bird": (
        [accuracies(95, at(40, 2, 3, rest=90), at(70, 2, 3, rest=20))],
        [accuracies(95, at(40, 1, 4, rest=90), at(20, 2, 3, rest=70)), accuracies(95, 70)],
    ),
    "half-of-the-drop": (
        [accuracies(95, np.where(CLASS < 2, 40, 90), np.where(CLASS < 2, 20, 70))],
        [
            accuracies(95, np.where(CLASS < 2, 40, 90), np.where(CLASS > 7, 20, 70)),
            accuracies(95, 70, np.where(CLASS < 2, 20, 70)),
        ],
    ),
    "hard-classes-pay": ([accuracies(95, 90 - 6 * CLASS, 80 - 6 * CLASS)], [accuracies(95, 90 - 6 * CLASS, 20 + 6 * CLASS)]),
    "lower-variance": both_orders(WIDE, MEDIUM, NARROW),
    "lower-relative-variance": both_orders(WIDE, MEDIUM, NARROW),
    "higher-similarity": both_orders(APART, BETWEEN, CLOSE),
    "higher-corrected-similarity": both_orders(APART, BETWEEN, CLOSE),
    "higher-similarity-at-equal-accuracy": (
        [shorter(0.7, 0.5, 0.5, 0.1)],
        [shorter(0.1, 0.3, 0.3, 0.6), shorter(0.1, 0.7, 0.3, 0.6)],
    ),
    "hardest-has-not-the-largest-variance": (
        [networks(NOT_WIDEST, NOT_WIDEST, NOT_WIDEST)],
        [networks(WIDEST, WIDEST, WIDEST), networks(NOT_WIDEST, NOT_WIDEST, WIDEST)],
    ),
    "hardest-has-the-largest-similarity": (
        [networks(NEAREST, NEAREST, NEAREST)],
        [networks(NOT_NEAREST, NOT_NEAREST, NOT_NEAREST), networks(NOT_NEAREST, NEAREST, NEAREST)],
    ),
    "hard-classes-are-similar-classes": (
        [networks((STEPS, 0.2), APART, CLOSE, robust=LESS_ROBUST)],
        [networks((REVERSED, 0.2), APART, CLOSE, robust=LESS_ROBUST)],
    ),
    "hard-classes-are-similar-in-pgd-at": (
        [networks(APART, (STEPS, 0.2), CLOSE, robust=LESS_ROBUST)],
        [networks(APART, (REVERSED, 0.2), CLOSE, robust=LESS_ROBUST)],
    ),
}


REFUSED = [
    ("half-of-the-drop", accuracies(80, 90), "there is no drop"),
    ("higher-similarity", accuracies(90, 80), "needs features of standard, pgd-at, trades"),
]


def test_the_share_of_the_two_least_robust_classes_is_of_the_whole_drop():
    lost = seeded(accuracies(95, np.where(CLASS < 2, 40, 90), np.where(CLASS < 2, 20, 70)))
    assert float(robust_fairness.share_of_two(bootstrap.sums(lost, {}))) == pytest.approx(100 * 110 / 150)


def seeded(data):
    return data.expand_dims(seed=[0]).transpose(..., "seed", "image")


def test_drops_are_those_of_each_class_to_both_adversarial_trainings():
    lost = robust_fairness.drops(bootstrap.sums(seeded(accuracies(90, PAYS)), {})["count"])
    assert lost.defence.values.tolist() == ["pgd-at", "trades"]
    np.testing.assert_allclose(lost.sel(defence="trades"), 90 - PAYS, rtol=1e-6)


def test_networks_are_joined_with_standard_trainings_of_fewer_epochs():
    plain = networks(APART, CLOSE, CLOSE).assign_attrs(dataset="digits")
    few = plain.sel(defence=["standard"], attack=["clean"])
    few = xr.concat([few, few], "epochs", data_vars="all").assign_coords(epochs=[2, 8])
    arranged = robust_fairness.SECTION.arrange["shorter"]
    assert arranged.needs == ("", "shorter")
    both = arranged.function(plain, few)
    assert both.network.values.tolist() == [*NETWORKS, "standard, 2 epochs", "standard, 8 epochs"]
    assert both.epochs.values.tolist()[1:] == [0, 0, 2, 8]
    assert both.epochs.values[0] > 8
    assert both.attack.values.tolist() == ["clean"]


def test_networks_are_shown_over_their_accuracy_by_epochs():
    data = features.statistics(features.select_sums(shorter(0.7, 0.5, 0.5, 0.1)))
    values = robust_fairness.accuracy_and_similarity(data)
    shown = robust_fairness.stack_epochs(values)
    assert shown.sel(quantity="accuracy", defence="standard", epochs=["60", "2"]).values == pytest.approx([90, 80])
    similar = values.sel(quantity="similarity", network="pgd-at")
    assert float(shown.sel(quantity="similarity", defence="pgd-at", epochs="pgd-at")) == float(similar)
    # The nearest in accuracy is that of two epochs, whose classes are less similar.
    gains = robust_fairness.gains_at_equal_accuracy(data)
    near = values.sel(quantity="similarity", network="standard, 2 epochs")
    np.testing.assert_allclose(gains, values.sel(quantity="similarity", network=["pgd-at", "trades"]) - near)


def test_the_explorer_shows_the_cosines_of_one_class_next_to_its_mistakes():
    statistics = features.statistics(features.select_sums(networks(APART, CLOSE, CLOSE)))
    cosine = features.similarity(likeness.clean_statistics(statistics)).mean("seed")
    mixed = metrics.confusion(statistics["count"].sum("seed"))
    spec = explorers.similar_classes(cosine, mixed, "3", "pgd-at").to_dict()
    chosen = {one["name"]: one["value"] for one in spec["params"]}
    assert chosen == {"chosen_class": "3", "chosen_network": "pgd-at", "chosen_attack": "pgd-20"}
    assert "class 3 with other classes in PGD-AT" in spec["description"]
