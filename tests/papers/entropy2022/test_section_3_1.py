"""Section 3.1: label smoothing, the gain of accuracy and the features of classes."""

import numpy as np
import pytest
import xarray as xr
from claim_answers import CLASS, DIGITS, outcomes_with

from classwise.core.errors import NotRecorded
from classwise.papers.entropy2022 import gains, likeness, section_3_1
from classwise.papers.entropy2022 import sentences_networks as sentences
from classwise.stats import features

NAMES = tuple(name for pair in section_3_1.PAIRS.values() for name in pair)
BLOCKS, SIZE = 10, 16


def networks(clean, robust):
    """Return outcomes from the accuracies of the three trainings, with label smoothing and without, clean and attacked."""
    rates = {"clean": clean, "cr": robust}
    tables = {(name, attack): some[place] for attack, some in rates.items() for place, name in enumerate(NAMES)}
    return outcomes_with(tables, times=4)


def with_features(shared, spread):
    """Return outcomes with features, by network: how much of an offset its classes share, and the spread of its features."""
    data = outcomes_with({(name, "clean"): 90 for name in NAMES})
    labels = np.repeat(CLASS, 100)
    noise = np.random.default_rng(0).standard_normal((len(labels), SIZE))
    block = features.blocks_of(labels, np.arange(len(labels)), BLOCKS)
    parts = []
    for name in NAMES:
        means = 2 * np.eye(10, SIZE) + shared.get(name, 1.0)
        values = means[labels] + spread.get(name, 1.0) * noise
        total, square, images = np.zeros((BLOCKS, 10, SIZE)), np.zeros((BLOCKS, 10)), np.zeros((BLOCKS, 10), dtype=int)
        np.add.at(total, (block, labels), values)
        np.add.at(square, (block, labels), (values**2).sum(1))
        np.add.at(images, (block, labels), 1)
        dims = ("block", "label")
        sums = {"total": ((*dims, "feature"), total), "square": (dims, square), "images": (dims, images)}
        parts.append(xr.Dataset(sums, {"label": DIGITS}).expand_dims(defence=[name], attack=["clean"]))
    return features.with_blocks(data, xr.concat(parts, "defence"))


HIGHER = networks((80, 80, 90, 70, 90, 70), (0, 0, 80, 60, 60, 80))
LOWER = networks((80, 80, 70, 90, 70, 90), (0, 0, 60, 80, 80, 60))
# Label smoothing helps all three, but standard training more than TRADES.
STANDARD_MORE = networks((90, 60, 90, 40, 80, 70), (0, 0, 80, 60, 60, 80))
SMOOTHED = ("label-smoothing", "trades-smoothed")
LESS, MORE = (with_features(dict.fromkeys(SMOOTHED, a), dict.fromkeys(SMOOTHED, b)) for a, b in ((0.3, 0.5), (3.0, 2.0)))
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


def test_the_values_of_the_paper_are_those_of_table_1():
    reported = {claim.name: round(claim.theirs, 2) for claim in section_3_1.CLAIMS if claim.theirs is not None}
    assert reported == {
        "smoothing-clean-at": 0.65,
        "smoothing-clean-trades": 0.31,
        "smoothing-more-than-standard": 0.26,
        "smoothing-robust-at": 1.12,
        "smoothing-robust-trades": -0.2,
    }


def test_the_changes_of_features_are_those_that_were_made():
    """A tenfold length of all features changes the variance, but neither cosines nor what is relative to the length."""
    data = features.by_block(LESS)
    found = likeness.changes(data, section_3_1.ADVERSARIAL, draws=50)
    assert found.index.tolist() == ["PGD-AT", "TRADES"]
    first = found.loc["PGD-AT"].map(lambda cell: float(cell.split(" ")[0]))
    assert first["variance, ratio"] == pytest.approx(0.25, abs=0.02)
    assert first["similarity, difference"] < -0.2
    offset = features.by_block(with_features({"label-smoothing": 0.3}, {}))
    alone = likeness.changes(offset, section_3_1.ADVERSARIAL, draws=50).loc["PGD-AT"].map(lambda cell: float(cell.split(" ")[0]))
    assert alone["similarity, difference"] < -0.2
    assert alone["similarity, centred and debiased, difference"] == 0
    scaled = data.assign(total=10 * data.total, square=100 * data.square)
    mixed = xr.where(data.defence == "label-smoothing", scaled[["total", "square"]], data[["total", "square"]])
    mixed = data.assign({name: mixed[name].transpose(*data[name].dims) for name in mixed})
    both = likeness.changes(mixed, section_3_1.ADVERSARIAL, draws=50).loc["PGD-AT"]
    same = ["similarity, difference", "variance over squared length, ratio"]
    assert both[same].tolist() == found.loc["PGD-AT", same].tolist()
    assert float(both["variance, ratio"].split(" ")[0]) == pytest.approx(25, abs=2)
    panels = likeness.by_class(data, section_3_1.ADVERSARIAL, "targets", ("hard", "smoothed"), draws=20)
    assert list(panels) == ["similarity (PGD-AT)", "variance (PGD-AT)", "similarity (TRADES)", "variance (TRADES)"]
    assert panels["variance (TRADES)"].sel(bound="value", targets="hard").values == pytest.approx(1, abs=0.2)
    none = data.assign(images=0 * data.images)
    assert likeness.changes(none, section_3_1.ADVERSARIAL).empty
    with pytest.raises(NotRecorded):
        likeness.by_class(none, section_3_1.ADVERSARIAL, "targets", ("hard", "smoothed"))


def test_the_sentences_say_what_the_outcomes_are():
    data = HIGHER.expand_dims(seed=[0])
    rows = gains.compared(data, section_3_1.PAIRS, "cr", gains.printed_smoothing, ("overall",))
    text = sentences.smoothing(rows, data)
    assert text.startswith("**Label smoothing changes the robust accuracy of pgd-at by 20.0 points")
    assert "trades by -20.0 points" in text
    assert "the clean accuracy of pgd-at by 20.0 points" in text
    # Standard training has none under the attack, and ours none on clean images either.
    resolution = sentences.resolution(rows)
    assert "0 of 5 differences printed have an interval without zero, each by itself: all of them are 0.05 to" in resolution
    assert "4 of 4 differences of ours have an interval without zero" in resolution
    assert "The paper prints 0.60 and 0.26 points." in sentences.over_standard(data)
    assert "changes the clean accuracy by 20.0 points" in sentences.over_standard(data)
    table = gains.table_1(data, "cr")
    assert table.loc["pgd-at, clean"].tolist() == ["70.0", "90.0", "+20.0", "83.35", "84.00", "0.65"]
    alone = data.sel(defence=["standard"])
    with pytest.raises(NotRecorded, match="label smoothing"):
        sentences.smoothing(rows[rows["source"] != gains.OURS], alone)
    assert section_3_1.shown(data.defence.values) == section_3_1.PAIRS["pgd-at"]
    assert section_3_1.shown(alone.defence.values) == ("standard", "standard")
