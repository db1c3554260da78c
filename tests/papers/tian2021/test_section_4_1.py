"""Section 4.1: one network, attacked; its answers to images that are not attacked must not matter."""

from claim_answers import CLASS, DRIFTED, UP, at, attacked

# For each claim: answers on which it must hold, and answers on which it must fail.
EXTREMES = {
    "gap": ([attacked(UP, 90), attacked(at(80, 4, rest=98))], [attacked(99, UP), attacked(at(97, 4, rest=99))]),
    "gap-of-40-to-50": ([attacked(UP)], [attacked(60 + 2 * CLASS, UP)]),
    "gap-of-80": ([attacked(10 * CLASS + 5)], [attacked(UP, 10 * CLASS + 5)]),
    "simple-is-robust": ([attacked(98, 50)], [attacked(90, 99), attacked(at(99, 3), 99)]),
    "wider-than-standard": DRIFTED,
}
