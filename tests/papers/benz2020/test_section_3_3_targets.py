"""Section 3.3: similarity of the classes and targeted adversarial training, judged on answers made by hand."""

import numpy as np
import pytest
import xarray as xr
from claim_answers import BOTH_WAYS, CLASS, HALVES, SINGLES, at, judged, outcomes_with, table_of

from classwise import images
from classwise.core.errors import NotRecorded
from classwise.papers import registry, scales
from classwise.papers.benz2020 import charts_targets, section_3_3_targets, sentences_targets, targets
from classwise.papers.benz2020.kinds import where
from classwise.papers.benz2020.section_3_3_targets import (
    BASE,
    CRITICAL,
    NAME,
    NEXT,
    OTHERS,
    PUSHED,
    SAFEST,
    SIMILARITY,
    STRONG,
    TARGETED,
    VALIDATION,
    WEAK,
    part_name,
    similar_pairs,
)
from classwise.papers.claims import MeasurementError
from classwise.stats import bootstrap, confidence

UNDER = "pgd-20"
EPOCHS = {BASE: 60, CRITICAL: 120, SAFEST: 120}


def marked(tables, attacks=(UNDER,), times=2, sharp=None):
    """Return outcomes of trainings, from what `listed` takes for each; class 3 is critical."""
    rows = {(name, attack): table for name, table in tables.items() for attack in attacks}
    data = outcomes_with(rows, times=times, sharp=sharp)
    return data.assign_coords(critical=("predicted", CLASS == 3)).assign_attrs(dataset="digits")


def logits(tables, offset=0.0):
    """Return clean images of trainings along component; offset: added to all logits of PGD-AT."""
    data = marked(tables, ("clean",), times=1, sharp=3)
    moved = data.logits + xr.where(data.defence == BASE, offset, 0.0)
    return confidence.by_component(data.assign(logits=moved.transpose(*data.logits.dims)))


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


def test_the_paper_reports_no_number_and_each_claim_says_what_it_is():
    for claim in section_3_3_targets.CLAIMS:
        assert claim.theirs is None
        assert claim.where in [where("3.3", kind) for kind in ("asked", "expected", "control")]


@pytest.mark.parametrize(("scale", "critical", "safest"), [("quick", 8, 0), ("laptop", 3, 1)])
def test_each_training_targets_its_class_and_the_attacker_the_critical_one(scale, critical, safest):
    parts = registry.request(NAME, scale).parts
    aims = {name: [spec.attack_options.get("target") for spec in parts[name].specs] for name in TARGETED[1:]}
    each = [critical] * 10
    each[critical] = safest
    elsewhere = {OTHERS: [" ".join(map(str, each))], NEXT: [None]} if scale == "laptop" else {OTHERS: [], NEXT: []}
    assert aims == {CRITICAL: [critical], SAFEST: [safest], **elsewhere}
    pushed = [one for name in TARGETED for one in parts[part_name(name, PUSHED)].evaluations]
    assert {(one.attack, *one.options.items()) for one in pushed} == {("targeted-pgd-20", ("target", critical))}


def test_cosines_come_from_validation_images_and_no_image_that_selects_a_class_is_tested():
    request, seeds = registry.request(NAME), scales.selection_seeds("digits")
    for name in SIMILARITY:
        assert {one.split for one in request.parts[part_name(name, VALIDATION)].evaluations} == {"valid"}
    tested = {spec.seed for spec in (*request.specs, *(spec for name in TARGETED[1:] for spec in request.parts[name].specs))}
    held = [{int(one) for one in images.load("digits", "test", seed).index} for seed in tested]
    for seed in seeds:
        chosen = {int(one) for one in images.load("digits", "valid", seed).index}
        assert all(not chosen & some for some in held)


def _sums(means):
    """Return sums over images whose mean logits are these, (classes, components)."""
    names = [f"c{place}" for place in range(len(means))]
    count = xr.DataArray(4 * np.eye(len(means)), dims=("label", "predicted"), coords={"label": names, "predicted": names})
    logit = xr.DataArray(4.0 * np.array(means), dims=("label", "component"), coords={"label": names, "component": names})
    return xr.Dataset({"count": count, "logit": logit * (count > 0)})


def test_similarity_is_that_of_classes_on_the_same_side_without_what_all_share():
    alone = np.eye(3)
    assert float(similar_pairs(_sums(alone))) == pytest.approx(0)
    assert float(similar_pairs(_sums(alone + 5))) == pytest.approx(0)
    assert float(similar_pairs(_sums(alone + 5), centred=False)) > 0.9
    # The mean of all cosines does not distinguish this table from the first one as well as the positive ones do.
    near = np.array([[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]])
    assert float(similar_pairs(_sums(near))) > 0.25


def test_cosines_and_their_similarity_are_of_each_training():
    data = logits({BASE: CONFUSED, STRONG: 60}).expand_dims(seed=[0])
    cosine = targets.cosines(data)
    assert cosine.sizes["defence"] == 2
    assert float(cosine.sel(label="3", other="5", defence=BASE)) > 0.5 > float(cosine.sel(label="3", other="5", defence=STRONG))
    for bounds in targets.similarity(data).values():
        low, value, high = (bounds.sel(bound=name).isel(attack=0).values for name in ("low", "value", "high"))
        assert (low <= value).all()
        assert (value <= high).all()
        assert value[0] > value[1]
    totals = bootstrap.sums(data, {"logit": data["logit"]})
    assert float(similar_pairs(totals).sel(defence=BASE, attack="clean")) == pytest.approx(
        float(targets.similarity(data)["mean logits less their mean"].sel(defence=BASE, attack="clean", bound="value"))
    )
    chart = charts_targets.cosines(cosine).to_dict()
    assert "Similarity of two classes" in str(chart["title"]["text"])


def test_images_moved_into_the_class_are_counted_among_those_of_other_classes():
    plain = marked({BASE: 90, CRITICAL: 90}, ("clean", UNDER), times=1).expand_dims(seed=[0])
    moved = {BASE: table_of(60, [(5, 3), (1, 3)]), CRITICAL: 60}
    towards = marked(moved, ("targeted-pgd-20",), times=1).expand_dims(seed=[0])
    shares = targets.named_critical(plain, towards)
    assert shares.attack.values.tolist() == ["clean", UNDER, targets.TOWARDS]
    expected = 100 * (moved[BASE][:, 3].sum() - moved[BASE][3, 3]) / 900
    assert float(shares.sel(attack=targets.TOWARDS, defence=BASE, bound="value")) == pytest.approx(expected)
    assert (shares.sel(bound="low") < shares.sel(bound="high")).all()
    text = sentences_targets.pushed(shares)
    assert f"{expected:.0f} % (95 % interval" in text
    assert "(towards critical)" in text


def test_without_any_attack_towards_the_class_the_page_says_so():
    with pytest.raises(NotRecorded, match="no attack towards the critical class"):
        targets.pushed({}, lambda request: request)


def test_the_finding_names_both_comparisons_or_what_is_not_recorded():
    data = marked({BASE: at(50, 3, rest=90), CRITICAL: at(80, 3, rest=70), SAFEST: at(30, 3, rest=70)}).expand_dims(seed=[0])
    text = sentences_targets.headline(data, UNDER, EPOCHS)
    assert text.startswith("**Under pgd-20 and trained towards class 3, its robust accuracy differs by 30 points")
    assert "Compared with the same training towards the most robust class, it differs by 50 points" in text
    assert "The mean of the other classes differs by -20 points" in text
    assert "its own images" not in text
    assert "**The epochs differ**: towards critical, towards safest have 120; pgd-at has 60." in text
    assert "The epochs differ" not in sentences_targets.headline(data, UNDER, dict.fromkeys(EPOCHS, 60))
    for right, start in ((5, "it does not gain significantly"), (70, "it gains, too")):
        rows = {BASE: 50, CRITICAL: 60, SAFEST: at(30, 3, rest=70), OTHERS: at(right, 3, rest=70)}
        more = sentences_targets.headline(marked(rows).expand_dims(seed=[0]), UNDER, EPOCHS)
        assert f"as in that other training, {start}: the difference is {right - 30} points" in more
    without = sentences_targets.headline(data.sel(defence=[BASE, CRITICAL]), UNDER, EPOCHS)
    assert "towards another class, the control, is not recorded" in without
    with pytest.raises(NotRecorded, match="pgd-at alone is recorded"):
        sentences_targets.headline(data.sel(defence=[BASE]), UNDER, EPOCHS)


@pytest.mark.parametrize(("others", "safest", "compared"), [(0, 9, False), (9, 8, False), (10, 0, True), (0, 30, True)])
def test_below_chance_nothing_is_left_to_compare(others, safest, compared):
    data = marked({OTHERS: at(others, 3, rest=40), SAFEST: at(safest, 3, rest=60), BASE: 50, CRITICAL: 60})
    text = sentences_targets.headline(data.expand_dims(seed=[0]), UNDER, EPOCHS)
    floor = f"nothing is left to compare: {others} % of its images are classified correctly, against {safest} %: both below"
    assert (floor in text) is not compared
    if compared:
        assert judged("target-gains-by-others", data).verdict != "not tested"
    else:
        with pytest.raises(MeasurementError, match="less often than by chance after both"):
            judged("target-gains-by-others", data)


def test_the_epochs_of_each_training_are_those_of_its_runs():
    known = section_3_3_targets.epochs(registry.request(NAME))
    assert list(known) == [BASE, CRITICAL, SAFEST]
    assert known[BASE] < min(known[name] for name in (CRITICAL, SAFEST))
    of_laptop = section_3_3_targets.epochs(registry.request(NAME, "laptop"))
    assert list(of_laptop) == list(TARGETED)
    assert len(set(of_laptop.values())) == 1


def test_the_sentence_on_similarity_gives_accuracy_first():
    data = logits({BASE: CONFUSED, STRONG: 60}).expand_dims(seed=[0])
    outcomes = marked({BASE: 60, STRONG: 50}, ("clean", UNDER)).expand_dims(seed=[0])
    values = targets.similarity(data)
    text = sentences_targets.similarity(values, outcomes, UNDER)
    assert text.index("accuracy over all images differs by -10.0 points") < text.index("Mean over all pairs of max(0, cosine)")
    with pytest.raises(NotRecorded, match="pgd-at alone is recorded"):
        sentences_targets.similarity(values, outcomes.sel(defence=[BASE]), UNDER)
