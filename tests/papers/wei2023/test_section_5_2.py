"""Section 5.2: robustness and fairness of CFA, judged on answers made by hand."""

import numpy as np
import pytest
from claim_answers import at, outcomes_with

from classwise.papers import registry
from classwise.papers.wei2023 import gains, section_5_2

BASES = ("AT", "TRADES", "FAT")
UNDER = "cr"


def answers(rows, times=1):
    """Return outcomes of methods, how many of a hundred are right in each class or in all, so many times."""
    return outcomes_with({(name, UNDER): right for name, right in rows.items()}, times=times)


def cfa(over, right, plain, **but):
    """Return answers of each method with CFA and of what it is compared with; but: of a method, other answers with CFA."""
    rows = {f"{base} + CFA": but.get(base, right) for base in BASES}
    rows |= {f"{base} + {over}" if over else base: plain for base in BASES}
    return answers(rows)


def two(first, right, second, plain, times=1):
    return answers({first: right, second: plain}, times)


# The worst class alone decides in these; all others say the opposite.
WORST = at(20, 3, rest=70)
FAIRER, STRONGER = at(45, 3, rest=60), at(8, 3, rest=85)
OVERALL = ([cfa("", 75, 60), cfa("", STRONGER, WORST)], [cfa("", 60, 75), cfa("", 75, 60, FAT=50), cfa("", FAIRER, WORST)])
LEAST = ([cfa("", 75, 60), cfa("", FAIRER, WORST)], [cfa("", STRONGER, WORST), cfa("", FAIRER, WORST, TRADES=at(5, 3, rest=90))])
OVER_EMA = (
    [cfa("EMA", 75, 60), cfa("EMA", STRONGER, WORST)],
    [cfa("EMA", 60, 75), cfa("EMA", 75, 60, AT=50), cfa("EMA", FAIRER, WORST)],
)
FAIRER_THAN_EMA = (
    [cfa("EMA", FAIRER, WORST)],
    [cfa("EMA", STRONGER, WORST), cfa("EMA", FAIRER, WORST, FAT=at(10, 3, rest=90))],
)
AT_BOTH = ("cfa-overall", "cfa-worst", "cfa-over-ema-overall", "cfa-over-ema-worst", "fat-below-trades", "frl-costs-overall")
AT_BOTH += ("cfa-above-frl-overall", "worst-fifth", "tiny-overall")
UNEQUAL, EQUAL = np.arange(20, 100, 8), np.arange(50, 70, 2)
FOUR, LOST = (2, 3, 4, 6), (7, 8)

# For each claim: answers on which it must hold, and answers on which it must fail.
EXTREMES = {
    "cfa-overall": OVERALL,
    "cfa-worst": LEAST,
    "cfa-over-ema-overall": OVER_EMA,
    "cfa-over-ema-worst": FAIRER_THAN_EMA,
    "fat-below-trades": (
        [two("FAT", STRONGER, "TRADES", WORST), two("FAT", at(20, 5, rest=80), "TRADES", at(45, 3, rest=60))],
        [two("FAT", FAIRER, "TRADES", WORST)],
    ),
    "frl-gains-little-best": (
        [two("FRL + EMA", STRONGER, "TRADES + EMA", WORST), two("FRL + EMA", WORST, "TRADES + EMA", FAIRER)],
        [two("FRL + EMA", FAIRER, "TRADES + EMA", WORST)],
    ),
    "frl-costs-overall": (
        [two("TRADES + EMA", STRONGER, "FRL", FAIRER)],
        [two("TRADES + EMA", FAIRER, "FRL", STRONGER), two("TRADES + EMA", 60, "FRL", 60)],
    ),
    "cfa-above-frl-overall": (
        [two("TRADES + CFA", STRONGER, "FRL + EMA", FAIRER)],
        [two("TRADES + CFA", FAIRER, "FRL + EMA", STRONGER)],
    ),
    "cfa-above-frl-worst-best": (
        [two("TRADES + CFA", FAIRER, "FRL + EMA", STRONGER)],
        [two("TRADES + CFA", STRONGER, "FRL + EMA", FAIRER)],
    ),
    "frl-above-cfa-worst": (
        [two("FRL + EMA", FAIRER, "TRADES + CFA", STRONGER)],
        [two("FRL + EMA", STRONGER, "TRADES + CFA", FAIRER)],
    ),
    "smaller-spread": (
        [two("AT + CFA", EQUAL, "AT + EMA", UNEQUAL), two("AT + CFA", EQUAL - 20, "AT + EMA", UNEQUAL)],
        [two("AT + CFA", UNEQUAL, "AT + EMA", EQUAL)],
    ),
    "four-classes-gain": (
        [two("AT + CFA", at(80, *FOUR, rest=40), "AT + EMA", 60)],
        [two("AT + CFA", at(80, 2, 3, 4, rest=40), "AT + EMA", 60), two("AT + CFA", at(40, *FOUR, rest=80), "AT + EMA", 60)],
    ),
    "two-classes-drop-slightly": (
        [two("AT + CFA", at(99, *LOST, rest=30), "AT + EMA", 100, times=40)],
        [
            two("AT + CFA", at(80, *LOST, rest=99), "AT + EMA", 100),
            two("AT + CFA", at(99, 7, rest=100), "AT + EMA", at(100, 7, rest=90)),
        ],
    ),
    "no-class-harmed": (
        [two("AT + CFA", 80, "AT + EMA", 60), two("AT + CFA", at(65, 4, rest=90), "AT + EMA", 60)],
        [two("AT + CFA", at(40, 4, rest=90), "AT + EMA", 60)],
    ),
    "worst-fifth": (
        [cfa("EMA", at(45, 3, 5, rest=60), at(20, 3, 5, rest=70))],
        [cfa("EMA", at(8, 3, 5, rest=90), at(20, 3, 5, rest=70))],
    ),
    "tiny-overall": OVER_EMA,
}
EXTREMES |= {f"{name}-best": both for name, both in EXTREMES.items() if name in AT_BOTH}


def test_what_the_paper_reports_is_in_its_tables():
    reported = {claim.name: claim.theirs for claim in section_5_2.CLAIMS}
    expected = {
        "cfa-overall-best": 1.8,
        "cfa-worst-best": 3.7,
        "cfa-overall": 2.4,
        "cfa-worst": 1.9,
        "cfa-over-ema-worst-best": 2.3,
        "cfa-over-ema-worst": 0.8,
        "cfa-over-ema-overall": 1.0,
        "cfa-over-ema-overall-best": 0.4,
        "fat-below-trades": 14.8 - 18.5,
        "fat-below-trades-best": 17.2 - 21.7,
        "frl-gains-little-best": 1.4,
        "frl-costs-overall": 48.3 - 44.7,
        "frl-costs-overall-best": 3.8,
        "cfa-above-frl-overall-best": 4.0,
        "cfa-above-frl-worst-best": 0.9,
        "frl-above-cfa-worst": 3.0,
        "smaller-spread": -2.0,
        "worst-fifth-best": 0.8,
        "worst-fifth": 0.8,
        "tiny-overall-best": 0.6,
        "tiny-overall": 1.3,
    }
    assert {name: reported[name] for name in expected} == pytest.approx(expected)


def test_what_the_paper_reports_agrees_with_its_claims_but_where_it_contradicts_itself():
    for claim in section_5_2.CLAIMS:
        if claim.theirs is not None:
            assert claim.low < claim.theirs < claim.high, claim.name


def test_each_method_is_a_training_and_a_checkpoint_that_the_section_evaluates():
    for scale in ("quick", "laptop", "short"):
        request = registry.request(section_5_2.NAME, scale)
        asked = {(spec.defence, one.checkpoint) for spec, some in request.pairs for one in some}
        rows = {section_5_2.methods.METHODS[name] for name in section_5_2.methods.COMPARED}
        assert rows <= asked
        best = {(spec.defence, one.checkpoint) for spec, some in request.parts["best"].pairs for one in some}
        expected = {(defence, section_5_2.methods.BEST[checkpoint]) for defence, checkpoint in rows}
        assert expected <= best if scale != "quick" else not best


def test_on_tiny_imagenet_the_network_and_the_best_epoch_are_those_of_the_paper():
    pairs = registry.request(section_5_2.NAME, "paper", dataset="tiny-imagenet").pairs
    assert {(spec.model, spec.select_by) for spec, _ in pairs} == {("resnet18", "sum-fifth")}
    assert registry.training("paper", "pgd-at", 0, "wei2023").select_by == "sum"


def test_comparisons_are_of_methods_of_the_table():
    assert {name for pair in gains.COMPARISONS for name in pair} <= set(section_5_2.methods.COMPARED)
