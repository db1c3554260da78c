"""Section 4.2: the mistakes of one attacked network, class by class."""

from claim_answers import ACROSS, BOTH_WAYS, PAIR, attacked, table_of

ONE_WAY = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)]

# For each claim: answers on which it must hold, and answers on which it must fail.
EXTREMES = {
    "symmetry": ([attacked(table_of(90, BOTH_WAYS))], [attacked(table_of(90, ONE_WAY))]),
    "six-and-eight": (
        [attacked(table_of(70, [(6, 8), (8, 6)]))],
        [attacked(table_of(90, BOTH_WAYS), table_of(70, [(6, 8), (8, 6)]))],
    ),
    "cat-and-dog": ([attacked(table_of(70, PAIR))], [attacked(table_of(90, BOTH_WAYS[2:]), table_of(70, PAIR))]),
    "same-superclass": ([attacked(table_of(90, BOTH_WAYS))], [attacked(table_of(90, ACROSS), table_of(90, BOTH_WAYS))]),
    "few-across": (
        [attacked(table_of(90, BOTH_WAYS))],
        [attacked(table_of(90, ACROSS), table_of(90, BOTH_WAYS)), attacked(50, table_of(90, BOTH_WAYS))],
    ),
    "dog-and-truck": (
        [attacked(table_of(100, BOTH_WAYS[:4]), table_of(90, [(5, 9), (9, 5)]), times=3)],
        [
            attacked(table_of(100, [(5, 9), (9, 5)], 20), 100),
            *(attacked(table_of(100, [one], 20), 100) for one in ((5, 9), (9, 5))),
        ],
    ),
}
