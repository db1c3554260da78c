"""Section 6.1: networks without a class, and with another trade-off for class 5."""

import numpy as np
import pytest
from claim_answers import (
    ACROSS,
    ALONG,
    BOTH_WAYS,
    CAT,
    CLASS,
    CLASSES,
    DIGITS,
    DOG,
    PAIR,
    at,
    counted,
    listed,
    outcomes_with,
    rows,
    table_of,
)

from classwise.papers.claims import MeasurementError
from classwise.papers.tian2021 import training_adjustment


def homed(home, again=0.3, another=0.3, table=60):
    """Return which share of the mistakes comes home without their class, trained again, and without another class.

    home: one number, or one for each class and what it is taken for.
    """
    rng, full = np.random.default_rng(0), listed(table)
    truth = np.repeat(CLASS, len(full) // 10)
    found = {"": (truth, full)}
    for name in ("again 1", "again 2", *DIGITS):
        left = int(name) if name in DIGITS else -1
        share = np.where(full == left, np.broadcast_to(home, (10, 10))[truth, full], again if left < 0 else another)
        wrong = np.where((truth + 1) % 10 == left, truth + 2, truth + 1) % 10
        answer = np.where(rng.random(len(full)) < np.where(full == truth, 0.9, share), truth, wrong)
        found[name] = (np.where(truth == left, -1, truth), np.where(truth == left, -1, answer))
    data = outcomes_with({("pgd-at", "pgd-20", name): table for name in found}, along=(*ALONG, "without"))
    for place, (there, answer) in enumerate(found.values()):
        data.truth[0, 0, place], data.answer[0, 0, place] = there, answer
    return data.assign(flipped=data.answer != data.truth)


def of_pairs(pairs, within, rest):
    table = np.full((10, 10), rest)
    table[tuple(np.transpose(pairs))] = within
    return table


def swept(lower, higher, **others):
    """Return answers at the usual trade-off and what classes gain by a lower and by a higher one of class 5, or of others."""
    usual = at(25, 3, rest=at(45, 5, rest=60))
    gains = {"": 0, "5:0.5": lower, "5:2": 0, "5:18": higher, "5:9": 0} | others
    return outcomes_with({("trades", "pgd-20", name): usual + gain for name, gain in gains.items()}, along=(*ALONG, "betas"))


VICTIM_GAINS, VICTIM_LOSES = (swept(some, -some) for some in (at(20, 3, rest=-20), at(-20, 3, rest=20)))

# For each claim: answers on which it must hold, and answers on which it must fail.
EXTREMES = {
    "homing": ([homed(0.8)], [homed(0.3, again=0.7, another=0.1), homed(0.3, again=0.1, another=0.7)]),
    "cat-to-dog-homes": (
        [homed(of_pairs(CAT, 0.8, 0.1), table=table_of(70, PAIR))],
        [homed(of_pairs(CAT, 0.2, 0.9), again=0.9, table=table_of(70, PAIR))],
    ),
    "one-to-one": (
        [homed(of_pairs(PAIR, 0.8, 0.1), table=table_of(80, PAIR))],
        [homed(of_pairs(CAT, 0.8, 0.9) * of_pairs(DOG, 0.1, 1), table=table_of(85, [*PAIR, (5, 1)]))],
    ),
    "one-to-one-beyond-mistakes": (
        [homed(of_pairs(PAIR, 0.9, 0.2), table=table_of(50, PAIR, 20))],
        [homed(of_pairs(PAIR, 0.3, 0.9), table=table_of(50, PAIR, 20)), homed(of_pairs(CAT, 0.9, 0.3) * of_pairs(DOG, 0.1, 1))],
    ),
    "groups-home": (
        [homed(of_pairs(BOTH_WAYS, 0.9, 0.3)), homed(of_pairs(BOTH_WAYS, 0.9, 0.3), again=0.9, table=table_of(80, BOTH_WAYS))],
        [homed(of_pairs(BOTH_WAYS, 0.3, 0.9), table=table_of(50, BOTH_WAYS, 30)), homed(of_pairs(ACROSS, 0.9, 0.1))],
    ),
    "victim-gains": ([VICTIM_GAINS, swept(at(20, 3), 0, **{"6:0.1": at(-20, 3)})], [VICTIM_LOSES]),
    "victim-loses": ([VICTIM_GAINS, swept(0, at(-20, 3), **{"6:30": at(20, 3)})], [VICTIM_LOSES]),
    "changed-class-loses": (
        [swept(at(-20, 5, rest=20), at(20, 5, rest=-20))],
        [swept(at(20, 5, rest=-20), at(-20, 5, rest=20))],
    ),
    "evener": (
        [swept(at(30, 3, rest=at(10, 5)), at(-20, 3)), swept(at(20, 3, rest=-5), at(-20, 3))],
        [swept(at(-20, 3), at(30, 3, rest=at(10, 5))), swept(at(-20, 5, rest=30 * (CLASS % 2)), 0)],
    ),
}


def test_the_trade_off_is_lowered_or_raised_from_the_usual_one():
    betas = {"": 5, "0:0.5": 7, "0:2": 6, "0:18": 3}
    tables = [np.diag([one] * 4) + (10 - one) * np.roll(np.eye(4), 1, 1) for one in betas.values()]
    found = counted(tables, "betas", betas=list(betas))
    assert float(training_adjustment.victim_gains(found)) == pytest.approx(20)
    assert float(training_adjustment.victim_gains(found, up=True)) == pytest.approx(-20)
    with pytest.raises(MeasurementError, match="no trade-off above 6"):
        training_adjustment.victim_gains(found.sel(betas=["", "0:2"]), up=True)


def test_one_to_one_is_the_smaller_margin_of_the_two_directions_of_a_pair():
    found = counted([rows(1, 3)], "without", without=[""])
    home = found["count"].copy(data=np.broadcast_to([[0, 0, 2, 1], [0] * 4, [3, 1, 0, 0], [0] * 4], found["count"].shape))
    # c has 3 from a and 1 from b; a has 2 from c and 1 from d: the lesser margin is one image of ten.
    assert float(training_adjustment.one_to_one(found.assign(home=home))) == pytest.approx(10)


def test_homing_of_pairs_is_compared_with_their_share_of_the_mistakes():
    """Where every second mistake comes home, whichever it is, no pair comes home more than its mistakes let it."""
    table = np.array([[0, 4, 2, 2], [4, 4, 0, 2], [8, 2, 0, 0], [2, 2, 2, 4.0]])
    found = counted([table, table * 0, table * 0, table * 0, table * 0], "without", without=["", *CLASSES])
    home = found["count"] / 2
    pairs = (("a", "c"),)
    assert float(training_adjustment.pairs_home(found.assign(home=home), pairs)) == pytest.approx(0)
    assert float(training_adjustment.partner_home(found.assign(home=home))) == pytest.approx(0)
    more = home.where(~((home.label == "c") & (home.predicted == "a")), 8)
    # 22 + 8 mistakes, 10 between a and c; of 15 homes 4 more are theirs.
    homes, mistakes = float(home.where(home.label != home.predicted).sum()), 30
    assert mistakes == 2 * homes
    assert float(training_adjustment.pairs_home(found.assign(home=more), pairs)) == pytest.approx(100 * (9 / 19 - 10 / 30))
    less = home.where(~((home.label == "a") & (home.predicted == "c")), 0)
    # Of the homes of a none is from c, and of its eight mistakes two.
    assert float(training_adjustment.partner_home(found.assign(home=less))) == pytest.approx(-25)
