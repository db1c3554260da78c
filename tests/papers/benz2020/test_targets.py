"""Section 3.3: similarity of the classes and targeted adversarial training, judged on answers made by hand."""

import pytest
import xarray as xr
from claim_answers import BOTH_WAYS, HALVES, SINGLES, at, judged, marked, table_of

from classwise.papers.benz2020 import targets
from classwise.papers.benz2020.targets import BASE, CRITICAL, NEXT, OTHERS, SAFEST, STRONG, WEAK
from classwise.stats import confidence

UNDER = "pgd-20"


def logits(tables, offset=0.0):
    """Return clean images of trainings along component; offset: added to all logits of PGD-AT."""
    data = marked(tables, ("clean",), times=1, sharp=3)
    moved = data.logits + xr.where(data.defence == BASE, offset, 0.0)
    return confidence.stack_components(data.assign(logits=moved.transpose(*data.logits.dims)))


CONFUSED = table_of(60, BOTH_WAYS)
# For each claim: answers on which it must hold, and answers on which it must fail.
EXTREMES = {
    "term-lowers-similarity": (
        [logits({STRONG: 60, BASE: CONFUSED, WEAK: CONFUSED})],
        # An offset that all classes share raises every cosine, but makes no classes alike.
        [logits({STRONG: CONFUSED, BASE: 60, WEAK: 60}), logits({STRONG: CONFUSED, BASE: 60}, offset=9.0)],
    ),
    "term-narrows": (
        [marked({STRONG: SINGLES, BASE: HALVES, WEAK: HALVES})],
        [marked({STRONG: HALVES, BASE: SINGLES, WEAK: SINGLES}), marked({STRONG: HALVES, BASE: 60})],
    ),
    "target-gains": (
        [marked({CRITICAL: at(80, 3, rest=40), BASE: at(50, 3, rest=90), SAFEST: 90})],
        [marked({CRITICAL: at(50, 3, rest=90), BASE: at(70, 3, rest=40), SAFEST: 20})],
    ),
    "target-gains-as-target": (
        [marked({CRITICAL: at(60, 3, rest=40), SAFEST: at(30, 3, rest=90), BASE: 80, NEXT: 80})],
        [marked({CRITICAL: at(60, 3, rest=90), SAFEST: at(80, 3, rest=40), BASE: 30, NEXT: 30})],
    ),
    "target-gains-by-others": (
        [marked({OTHERS: at(60, 3, rest=40), SAFEST: at(30, 3, rest=90), CRITICAL: 20})],
        [marked({OTHERS: at(30, 3, rest=90), SAFEST: at(60, 3, rest=40), CRITICAL: 90})],
    ),
}


def test_images_moved_into_the_class_are_counted_among_those_of_other_classes():
    plain = marked({BASE: 90, CRITICAL: 90}, ("clean", UNDER), times=1).expand_dims(seed=[0])
    moved = {BASE: table_of(60, [(5, 3), (1, 3)]), CRITICAL: 60}
    towards = marked(moved, ("targeted-pgd-20",), times=1).expand_dims(seed=[0])
    shares = targets.predictions_as_critical(plain, towards)
    assert shares.attack.values.tolist() == ["clean", UNDER, targets.TOWARDS]
    expected = 100 * (moved[BASE][:, 3].sum() - moved[BASE][3, 3]) / 900
    assert float(shares.sel(attack=targets.TOWARDS, defence=BASE, bound="value")) == pytest.approx(expected)
    assert (shares.sel(bound="low") < shares.sel(bound="high")).all()


def others_attacked(others, safest):
    return marked({OTHERS: at(others, 3, rest=40), SAFEST: at(safest, 3, rest=60), BASE: 50, CRITICAL: 60})


# Below chance after both nothing is left to compare.
RARE = "less often than by chance after both"
REFUSED = [("target-gains-by-others", others_attacked(*both), RARE) for both in ((0, 9), (9, 8))]


@pytest.mark.parametrize("both", [(10, 0), (0, 30)])
def test_at_chance_after_one_training_there_is_something_to_compare(both):
    assert judged("target-gains-by-others", others_attacked(*both)).verdict != "not tested"
