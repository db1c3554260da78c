"""Section 6.1: networks without a class, and with another trade-off for class 5."""

import numpy as np
from claim_answers import ACROSS, ALONG, BOTH_WAYS, CAT, CLASS, DIGITS, DOG, PAIR, at, listed, outcomes_with, table_of


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
        data.truth[0, 0, place], data.prediction[0, 0, place] = there, answer
    return data.assign(misclassified=data.prediction != data.truth)


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
    "changed-class-loses": ([swept(at(-20, 5, rest=20), at(20, 5, rest=-20))], [swept(at(20, 5, rest=-20), at(-20, 5, rest=20))]),
    "evener": (
        [swept(at(30, 3, rest=at(10, 5)), at(-20, 3)), swept(at(20, 3, rest=-5), at(-20, 3))],
        [swept(at(-20, 3), at(30, 3, rest=at(10, 5))), swept(at(-20, 5, rest=30 * (CLASS % 2)), 0)],
    ),
}
REFUSED = [
    ("changed-class-loses", VICTIM_GAINS.drop_vars("vulnerable"), "needs 'vulnerable' in the outcomes"),
    ("victim-loses", VICTIM_GAINS.sel(betas=["", "5:0.5", "5:2"]), "no trade-off above 6 of the partner"),
]
