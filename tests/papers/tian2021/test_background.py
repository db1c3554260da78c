"""Section 6.2: drawings on the colours of their classes, and photographs on white."""

import mocks
import numpy as np
import pytest
import xarray as xr
from claim_answers import ALONG, at, outcomes_with, table_of, under
from scipy import stats

from classwise.papers.tian2021 import background
from classwise.stats import bootstrap, confidence

MATES, APART = [(one, one ^ 1) for one in range(10)], [(one, (one + 5) % 10) for one in range(10)]


def on_colours(own, control, clean=(90, 90), defence="pgd-at"):
    """Return answers before the ground of the own class and before that of others, attacked and not."""
    tables = {"clean": clean, "pgd-40": (own, control)}
    dresses = ("neighbours", "apart")
    return outcomes_with(
        {(defence, attack, dress): one for attack, some in tables.items() for dress, one in zip(dresses, some, strict=True)},
        along=(*ALONG, "colouring"),
    )


def treated_as(clean, hot, times=1):
    """Return how many are right of class 3 as they are, before white, and trained for it too; of others it is the reverse."""
    names, attacks = ("as they are", "white", "both"), {"clean": clean, "temperature-pgd-20": hot}
    tables = {
        ("trades", key, name): at(one, 3, rest=110 - one)
        for key in attacks
        for name, one in zip(names, attacks[key], strict=True)
    }
    return outcomes_with(tables, along=(*ALONG, "treatment"), times=times)


def lightened(own, others):
    """Return images that are lighter around the surer the network is of them (1), or darker (-1), in class 3 and the others."""
    data = outcomes_with({("trades", "pgd-20", name): 60 for name in ("as they are", "white")}, 3, (*ALONG, "treatment"))
    first = data.isel(defence=0, attack=0, treatment=0)
    height = first.logits.max("predicted").values * np.where(first.misclassified, -1, 1)
    luck = np.random.default_rng(1).normal(size=height.shape)
    return data.assign(white=("image", height * np.where(first.truth == 3, own, others) + luck))


MATED, PARTED = table_of(90, MATES), table_of(90, APART)
FOLLOWS, REVERSED = on_colours(MATED, PARTED), on_colours(PARTED, MATED)
# For each claim: answers on which it must hold, and answers on which it must fail.
EXTREMES = {
    "mnist-above-95": (
        [outcomes_with(under("pgd-at", attacks=("pgd-40",), table=98) | {("standard", "pgd-40"): 0})],
        [outcomes_with(under("pgd-at", attacks=("pgd-40",), table=90) | {("standard", "pgd-40"): 99})],
    ),
    "cifar10-50-to-60": (
        [treated_as((90, 95, 95), (55, 90, 90), 3)],
        [treated_as((55, 55, 55), (80, 55, 55)), treated_as((55, 55, 55), (40, 55, 55))],
    ),
    "standard-does-not-care": (
        [on_colours(10, 90, (97, 97), "standard")],
        [on_colours(50, 50, (97, 90), "standard"), on_colours(50, 50, (90, 97), "standard")],
    ),
    "follows-background": ([FOLLOWS], [REVERSED, on_colours(table_of(60), MATED)]),
    "all-follow": (
        [FOLLOWS, on_colours(MATED, MATED)],
        [on_colours(table_of(90, [*MATES[:7], (7, 2), *MATES[8:]]), 90), REVERSED],
    ),
    "more-than-natural": ([FOLLOWS], [on_colours(60, 60, clean=(MATED, PARTED)), on_colours(MATED, MATED, clean=(MATED, 90))]),
    "white-helps": ([treated_as((70, 40, 40), (30, 60, 20))], [treated_as((40, 70, 70), (60, 30, 80))]),
    "natural-insensitive": (
        [treated_as((80, 80, 20), (30, 70, 90), 5), treated_as((81, 80, 20), (30, 70, 90), 5)],
        [treated_as((70, 90, 70), (60, 60, 60)), treated_as((90, 70, 90), (60, 60, 60))],
    ),
    "mostly-attacked": (
        [treated_as((70, 72, 10), (30, 55, 30)), treated_as((72, 70, 10), (55, 30, 55))],
        [treated_as((70, 95, 70), (30, 32, 90)), treated_as((95, 70, 95), (30, 32, 90))],
    ),
    "both-help": ([treated_as((70, 70, 40), (30, 20, 60))], [treated_as((40, 40, 70), (60, 70, 30))]),
    "both-help-more": ([treated_as((70, 70, 40), (70, 30, 60))], [treated_as((40, 40, 70), (30, 60, 40))]),
    "white-is-sure": ([lightened(1, -1)], [lightened(-1, 1)]),
}


@pytest.fixture
def treated():
    """Two networks' answers for images of one class before and after a treatment, not attacked and attacked."""
    rng = np.random.default_rng(0)
    dims, shape = ("defence", "seed", "attack", "treatment", "image"), (1, 2, 2, 2, 60)
    truth = np.broadcast_to(np.where((np.arange(60) % 2 == np.arange(2)[:, None]), 2, -1)[:, None, None], shape)
    logits = rng.normal(size=(*shape, 4))
    data = mocks.answers(dims, truth, logits.argmax(-1)) | {"logits": ((*dims, "predicted"), logits)}
    marks = {name: ("predicted", np.arange(4) == number) for name, number in (("vulnerable", 2), ("partner", 0))}
    whole = xr.Dataset(data, {"predicted": list("abcd"), "seed": [0, 1], **marks})
    return whole.assign(white=("image", np.where(np.arange(60) == 7, np.nan, rng.random(60))))


def test_lightness_and_confidence_are_correlated_by_rank_within_each_network(treated):
    hot = treated.isel(attack=[1])
    confident = confidence.true_confidence(hot)
    values = background.rank_products(confident, hot.white, hot.truth)
    sure, white = [], []
    for seed in (0, 1):
        members = [image for image in range(60) if hot.truth.values[0, seed, 0, 0, image] == 2 and image != 7]
        power = np.exp(hot.logits.values[0, seed, 0, 0, members])
        for into, value in ((sure, power[:, 2] / power.sum(1)), (white, hot.white.values[members])):
            into.append((stats.rankdata(value) - 0.5) / len(members))
    expected = np.corrcoef(np.concatenate(sure), np.concatenate(white))[0, 1]
    total = bootstrap.sums(hot, dict(values.data_vars))
    assert float(background.confidence_by_whiteness(total)) == pytest.approx(expected)
    assert np.allclose(background.rank_products(confident, hot.white**5, hot.truth).y, values.y)  # of ranks, not of sizes


def test_table_4_has_its_six_lines_each_compared_with_the_first_of_its_block():
    dims, names = ("defence", "seed", "attack", "treatment", "image"), ["as they are", "white", "both"]
    truth = np.broadcast_to([0, 1, 1, 1, 1], (1, 1, 2, 3, 5))
    answer = np.array([[[0, 0, 1, 1, 2], [0, 1, 1, 1, 2], [0, 1, 1, 1, 1]], [[0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 2, 2, 1, 1]]])
    data = {"truth": (dims, truth), "prediction": (dims, answer[None, None])}
    coords = {"attack": ["clean", "pgd"], "treatment": names, "predicted": ["a", "b", "c"]}
    table = background.table_4(xr.Dataset(data, coords), "b")
    assert list(table.index) == [f"{attack}, {name}" for attack in ("clean", "pgd") for name in names]
    assert list(table.loc["clean, as they are"]) == ["1", "2", "1"]
    assert list(table.loc["clean, both"]) == ["0 (-1)", "4 (+2)", "0 (-1)"]
    assert list(table.loc["pgd, white"]) == ["3 (-1)", "1 (+1)", "0 (+0)"]
