"""Section 3.1: label smoothing, the gain of accuracy and the features of classes."""

import numpy as np
import pytest
from claim_answers import outcomes_with, with_features

from classwise.core.errors import NotRecorded
from classwise.papers.entropy2022 import gains, label_smoothing, similarity

NAMES = tuple(name for pair in label_smoothing.PAIRS.values() for name in pair)
BLOCKS, SIZE = 10, 16


def networks(clean, robust):
    """Return outcomes from the accuracies of the three trainings, with label smoothing and without, clean and attacked."""
    rates = {"clean": clean, "cr": robust}
    tables = {(name, attack): some[place] for attack, some in rates.items() for place, name in enumerate(NAMES)}
    return outcomes_with(tables, times=4)


def similar(shared, spread):
    """Return outcomes with features, by network: how much of an offset its classes share, and the spread of its features."""
    data = outcomes_with({(name, "clean"): 90 for name in NAMES})
    means, noise = np.repeat(2 * np.eye(10, SIZE), 100, 0), np.random.default_rng(0).standard_normal((1000, SIZE))
    values = {name: means + shared.get(name, 1.0) + spread.get(name, 1.0) * noise for name in NAMES}
    return with_features(data, values, BLOCKS)


HIGHER = networks((80, 80, 90, 70, 90, 70), (0, 0, 80, 60, 60, 80))
LOWER = networks((80, 80, 70, 90, 70, 90), (0, 0, 60, 80, 80, 60))
# Label smoothing helps all three, but standard training more than TRADES.
STANDARD_MORE = networks((90, 60, 90, 40, 80, 70), (0, 0, 80, 60, 60, 80))
SMOOTHED = ("label-smoothing", "trades-smoothed")
LESS, MORE = (similar(dict.fromkeys(SMOOTHED, a), dict.fromkeys(SMOOTHED, b)) for a, b in ((0.3, 0.5), (3.0, 2.0)))
EXTREMES = {
    "smoothing-similarity-at": ([LESS], [MORE]),
    "smoothing-variance-at": ([LESS], [MORE]),
    "smoothing-similarity-trades": ([LESS], [MORE]),
    "smoothing-variance-trades": ([LESS], [MORE]),
    "smoothing-clean-at": ([HIGHER, STANDARD_MORE], [LOWER]),
    "smoothing-clean-trades": ([HIGHER], [LOWER]),
    "smoothing-more-than-standard": ([HIGHER], [LOWER, STANDARD_MORE]),
    "smoothing-robust-at": ([HIGHER], [LOWER]),
    "smoothing-robust-trades": ([HIGHER], [LOWER]),
}

TARGETS = {
    "PGD-AT": {"hard": "pgd-at", "smoothed": "label-smoothing"},
    "TRADES": {"hard": "trades", "smoothed": "trades-smoothed"},
}


def test_profiles_have_the_networks_that_are_recorded():
    data = LESS.drop_sel(defence="trades-smoothed")
    panels = similarity.profiles(data, TARGETS, "targets")
    assert list(panels) == ["similarity (PGD-AT)", "variance (PGD-AT)", "similarity (TRADES)", "variance (TRADES)"]
    variance = panels["variance (PGD-AT)"].sel(bound="value")
    assert variance.sel(targets="hard").values == pytest.approx(1, abs=0.2)
    assert variance.sel(targets="smoothed").values == pytest.approx(0.25, abs=0.05)
    assert panels["variance (TRADES)"].targets.values.tolist() == ["hard"]
    with pytest.raises(NotRecorded, match="pgd-at, label-smoothing are not recorded"):
        similarity.profiles(data.assign(images=0 * data.images), TARGETS, "targets")


def test_gains_stand_next_to_those_of_table_1():
    rows = gains.compare_gains(HIGHER.expand_dims(seed=[0]), label_smoothing.PAIRS, "cr", ("overall",)).sel(bound="value")
    ours, theirs = (rows.sel(source=source) for source in (gains.OURS, gains.THEIRS))
    assert float(ours.sel(panel="all images, robust", comparison="pgd-at")) == pytest.approx(20)
    assert float(ours.sel(panel="all images, robust", comparison="trades")) == pytest.approx(-20)
    assert float(theirs.sel(panel="all images, clean", comparison="pgd-at")) == pytest.approx(84.00 - 83.35)
    assert float(theirs.sel(panel="all images, robust", comparison="trades")) == pytest.approx(-0.2)
