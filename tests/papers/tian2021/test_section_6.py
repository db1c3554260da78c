"""What the claims of section 6 measure, on counts and outcomes whose answer is known."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from classwise.papers.claims import MeasurementError
from classwise.papers.tian2021 import section_6_1, section_6_2
from classwise.stats import bootstrap

CLASSES = ["a", "b", "c", "d"]
GROUNDS = np.array([0, 0, 1, 1])


def counted(values, *dims, **names):
    """Return counts of four classes, a and b before one ground, c and d before another; c is vulnerable, a its partner."""
    coords = {"label": CLASSES, "predicted": CLASSES, "background": ("label", GROUNDS), **names}
    coords |= {name: ("label", np.array(CLASSES) == one) for name, one in (("vulnerable", "c"), ("partner", "a"))}
    array = xr.DataArray(np.array(values, dtype=float), dims=(*dims, "label", "predicted"), coords=coords)
    return xr.Dataset({"count": array.expand_dims([dim for dim in ("defence", "attack") if dim not in dims])})


# Of ten images of each class: how many go to the mate, and how many to the class two further on.
def rows(mate, other):
    mates, table = (1, 0, 3, 2), np.diag([10.0 - mate - other] * 4)
    for label in range(4):
        table[label, mates[label]] += mate
        table[label, (label + 2) % 4] += other
    return table


@pytest.mark.parametrize(("own", "control", "effect"), [((4, 1), (1, 4), 60), ((1, 4), (1, 4), 0), ((0, 5), (5, 0), -100)])
def test_mistakes_follow_the_background_or_do_not(own, control, effect):
    found = counted([rows(*own), rows(*control)], "colouring", colouring=["neighbours", "apart"])
    assert float(section_6_2.follows_background(found)) == pytest.approx(effect)


def test_one_class_that_does_not_follow_is_enough():
    table = rows(4, 1)
    found = counted([table, table], "colouring", colouring=["neighbours", "apart"])
    assert float(section_6_2.all_follow(found)) == pytest.approx(30)
    table[2] = [6, 0, 2, 2]
    found = counted([table, table], "colouring", colouring=["neighbours", "apart"])
    assert float(section_6_2.all_follow(found)) == pytest.approx(20 - 60)


def test_what_the_ground_draws_under_attack_is_beyond_what_it_draws_without():
    both = [[rows(2, 0), rows(5, 1)], [rows(1, 0), rows(1, 4)]]
    found = counted(both, "colouring", "attack", colouring=["neighbours", "apart"], attack=["clean", "pgd-40"])
    assert float(section_6_2.follows_more_attacked(found)) == pytest.approx((50 - 10) - (20 - 10))
    # A network that mixes up the pairs without any attack, and is led elsewhere by one, fails.
    found = counted(
        [[rows(5, 0), rows(1, 6)], both[1]], "colouring", "attack", colouring=["neighbours", "apart"], attack=["clean", "x"]
    )
    assert float(section_6_2.follows_more_attacked(found)) == pytest.approx(-40)


def test_the_trade_off_is_lowered_or_raised_from_the_usual_one():
    betas = {"": 5, "0:0.5": 7, "0:2": 6, "0:18": 3}
    tables = [np.diag([one] * 4) + (10 - one) * np.roll(np.eye(4), 1, 1) for one in betas.values()]
    found = counted(tables, "betas", betas=list(betas))
    assert float(section_6_1.victim_gains(found)) == pytest.approx(20)
    assert float(section_6_1.victim_gains(found, up=True)) == pytest.approx(-20)
    with pytest.raises(MeasurementError, match="no trade-off above 6"):
        section_6_1.victim_gains(found.sel(betas=["", "0:2"]), up=True)


def test_the_pair_comes_home_from_one_another_or_not():
    found = counted([rows(1, 3)], "without", without=[""])
    home = found["count"].copy(data=np.broadcast_to([[0, 0, 2, 1], [0] * 4, [3, 1, 0, 0], [0] * 4], found["count"].shape))
    # c has 3 from a and 1 from b; a has 2 from c and 1 from d: the lesser margin is one image of ten.
    assert float(section_6_1.one_to_one(found.assign(home=home))) == pytest.approx(10)


def test_homes_are_held_against_the_mistakes_of_the_same_pairs():
    """Where every second mistake comes home, whichever it is, no pair comes home more than its mistakes let it."""
    table = np.array([[0, 4, 2, 2], [4, 4, 0, 2], [8, 2, 0, 0], [2, 2, 2, 4.0]])
    found = counted([table, table * 0, table * 0, table * 0, table * 0], "without", without=["", *CLASSES])
    home = found["count"] / 2
    pairs = (("a", "c"),)
    assert float(section_6_1.pairs_home(found.assign(home=home), pairs)) == pytest.approx(0)
    assert float(section_6_1.partner_home(found.assign(home=home))) == pytest.approx(0)
    more = home.where(~((home.label == "c") & (home.predicted == "a")), 8)
    # 22 + 8 mistakes, 10 between a and c; of 15 homes 4 more are theirs.
    homes, mistakes = float(home.where(home.label != home.predicted).sum()), 30
    assert mistakes == 2 * homes
    assert float(section_6_1.pairs_home(found.assign(home=more), pairs)) == pytest.approx(100 * (9 / 19 - 10 / 30))
    less = home.where(~((home.label == "a") & (home.predicted == "c")), 0)
    # Of the homes of a none is from c, and of its eight mistakes two.
    assert float(section_6_1.partner_home(found.assign(home=less))) == pytest.approx(-25)


@pytest.fixture
def treated():
    """Two networks' answers for images of one class before and after a treatment, not attacked and attacked."""
    rng = np.random.default_rng(0)
    dims, shape = ("defence", "seed", "attack", "treatment", "image"), (1, 2, 2, 2, 60)
    truth = np.broadcast_to(np.where((np.arange(60) % 2 == np.arange(2)[:, None]), 2, -1)[:, None, None], shape)
    logits = rng.normal(size=(*shape, 4))
    data = {"truth": (dims, truth), "answer": (dims, logits.argmax(-1)), "logits": ((*dims, "predicted"), logits)}
    data["flipped"] = (dims, (logits.argmax(-1) != 2) & (truth >= 0))
    marks = {name: ("predicted", np.arange(4) == number) for name, number in (("vulnerable", 2), ("partner", 0))}
    whole = xr.Dataset(data, {"predicted": CLASSES, "seed": [0, 1], **marks})
    return whole.assign(white=("image", np.where(np.arange(60) == 7, np.nan, rng.random(60))))


def test_answers_that_only_change_back_and_forth_leave_the_accuracy_as_it_was(treated):
    """Table 4 compares how many are right: +141 of 1,000 attacked, +32 as they are."""
    right = np.array([[30, 32], [20, 45]])
    for attack, treatment in np.ndindex(2, 2):
        there = treated.truth.values[0, :, attack, treatment] == 2
        # The first are right without the treatment, the last with it: as many as can be get another answer.
        order = np.cumsum(there.ravel()).reshape(there.shape) - 1
        order = order if treatment == 0 else there.sum() - 1 - order
        treated.answer.values[0, :, attack, treatment] = np.where(there & (order < right[attack, treatment]), 2, 1)
    found = bootstrap.sums(treated, {})
    assert float(section_6_2.changed_more_attacked(found)) == pytest.approx(100 * (25 - 2) / 60)
    treated.answer.values[0, :, 1] = treated.answer.values[0, :, 1, ::-1].copy()
    assert float(section_6_2.changed_more_attacked(bootstrap.sums(treated, {}))) == pytest.approx(100 * (25 - 2) / 60)


def test_lightness_and_confidence_are_correlated_by_rank_within_each_network(treated):
    hot = treated.isel(attack=[1])
    ranks = section_6_2.sure_and_white(hot)
    values = {"known": ranks.known, "sure": ranks.sure, "white": ranks.white}
    values |= {"sure_sure": ranks.sure**2, "white_white": ranks.white**2, "white_sure": ranks.sure * ranks.white}
    sure, white = [], []
    for seed in (0, 1):
        there = [image for image in range(60) if hot.truth.values[0, seed, 0, 0, image] == 2 and image != 7]
        power = np.exp(hot.logits.values[0, seed, 0, 0, there])
        for into, value in ((sure, power[:, 2] / power.sum(1)), (white, hot.white.values[there])):
            into.append((stats.rankdata(value) - 0.5) / len(there))
    expected = np.corrcoef(np.concatenate(sure), np.concatenate(white))[0, 1]
    assert float(section_6_2.whiter_surer(bootstrap.sums(hot, values))) == pytest.approx(expected)
    # Ranks do not feel by how much.
    bent = hot.assign(white=hot.white**5)
    assert np.allclose(section_6_2.sure_and_white(bent).white, ranks.white)
