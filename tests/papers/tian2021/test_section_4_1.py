"""Section 4.1: one network, attacked; its answers to images that are not attacked must not matter."""

import pytest
from claim_answers import CLASS, DRIFTED, UP, at, attacked, cases, judged, names_of_both

from classwise.papers.tian2021 import section_4_1

# For each claim: answers on which it must hold, and answers on which it must fail.
EXTREMES = {
    "gap": ([attacked(UP, 90), attacked(at(80, 4, rest=98))], [attacked(99, UP), attacked(at(97, 4, rest=99))]),
    "gap-of-40-to-50": ([attacked(UP)], [attacked(60 + 2 * CLASS, UP)]),
    "gap-of-80": ([attacked(10 * CLASS + 5)], [attacked(UP, 10 * CLASS + 5)]),
    "simple-is-robust": ([attacked(98, 50)], [attacked(90, 99), attacked(at(99, 3), 99)]),
    "wider-than-standard": DRIFTED,
}


def test_each_claim_has_answers_on_which_it_holds_and_answers_on_which_it_fails():
    assert names_of_both(EXTREMES) == sorted(claim.name for claim in section_4_1.CLAIMS)


@pytest.mark.parametrize(("name", "verdict", "data"), cases(EXTREMES))
def test_each_claim_holds_or_fails_as_it_must(name, verdict, data):
    found = judged(name, data)
    assert found.verdict == verdict, found
    assert found.low <= found.high, found
