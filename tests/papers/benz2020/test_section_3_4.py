"""Section 3.4: corrupted images, of standard and of adversarial training."""

import numpy as np
import pytest
import xarray as xr
from claim_answers import CLASS, judged, outcomes_with

from classwise.charts import style
from classwise.core.errors import NotRecorded
from classwise.papers import registry
from classwise.papers.benz2020 import charts_corruptions, corruptions, kinds, section_3_4
from classwise.papers.benz2020 import sentences_corruptions as sentences
from classwise.stats import aggregate

NOISES = [f"{name}-3" for name in section_3_4.KINDS["noise"]]
FOGS = ["fog-3", "contrast-3"]
ALL = [f"{name}-3" for name in section_3_4.CORRUPTIONS]


def networks(standard, adversarial, names, clean=(95, 90)):
    """Return outcomes of two networks: their accuracy on clean images and under each corruption."""
    tables = {("standard", name): standard for name in names} | {("pgd-at", name): adversarial for name in names}
    return outcomes_with(tables | {("standard", "clean"): clean[0], ("pgd-at", "clean"): clean[1]})


# Both lose as much, or one loses more though it is still the more accurate one.
STANDARD_MORE = networks(60, 80, NOISES), networks(65, 62, NOISES, clean=(95, 70))
AT_MORE = networks(85, 60, NOISES), networks(62, 65, NOISES, clean=(70, 95))
FOG_AT_MORE, FOG_STANDARD_MORE = networks(90, 60, FOGS), networks(60, 85, FOGS)


def profiles(lost, robust=10 * CLASS):
    """Return outcomes of adversarial training: the accuracy of each class under attack, and how much corruptions take."""
    tables = {("pgd-at", "clean"): 95, ("pgd-at", "pgd-20"): robust} | {("pgd-at", name): 95 - lost for name in ALL}
    return aggregate.halved(outcomes_with(tables, times=4))


# Not all classes are in their place: no correlation is perfect.
SHUFFLED = np.array([10, 0, 20, 40, 30, 50, 70, 60, 80, 90])
SAME, OPPOSITE = profiles(50 - 5 * CLASS, SHUFFLED), profiles(5 * CLASS, SHUFFLED)
EXTREMES = {
    "noise-standard-more": (STANDARD_MORE, AT_MORE),
    "fog-contrast-at-more": ([FOG_AT_MORE], [FOG_STANDARD_MORE]),
    "corruptions-break-the-same": ([SAME], [OPPOSITE]),
}


def test_drops_that_have_nothing_to_do_with_robustness_do_not_decide():
    lost = np.where(np.isin(CLASS, (0, 3, 4, 7, 8)), 20, 40)
    assert judged("corruptions-break-the-same", profiles(lost)).verdict == "open"


def _parts(lacking=()):
    """Return outcomes as the section and its part have them: clean and attacked, and corrupted along transform."""
    plain = outcomes_with({(name, attack): 80 for name in ("standard", "pgd-at") for attack in ("clean", "pgd-20@tian2021")})
    tables = {
        (name, "clean", transform): 60
        for name in ("standard", "pgd-at")
        for transform in ("fog-3", "contrast-3", "fog-5")
        if (name, transform) not in lacking
    }
    corrupted = outcomes_with(tables, along=("defence", "attack", "transform"))
    return plain.expand_dims(seed=[0, 1]), corrupted.expand_dims(seed=[0])


def test_corruptions_stand_beside_the_attack_on_the_images_that_all_have():
    plain, corrupted = _parts()
    few = corrupted.assign(truth=corrupted.truth.where(corrupted.image % 2 == 0, -1))
    both = section_3_4.by_corruption(plain, few)
    assert both.attack.values.tolist() == ["clean", "pgd-20", "fog-3", "contrast-3", "fog-5"]
    assert both.seed.values.tolist() == [0]
    present = both.truth >= 0
    assert bool((present == (both.image % 2 == 0)).all())
    assert set(corruptions.at_one(both).corruption.values) == {"fog", "contrast"}
    assert corruptions.at_one(both, 5, clean=True).corruption.values.tolist() == ["clean", "fog"]


def test_a_network_without_a_corruption_has_no_images_and_one_that_nobody_has_is_left_out():
    plain, corrupted = _parts(lacking=[("standard", "fog-3"), ("standard", "fog-5"), ("pgd-at", "fog-5")])
    both = section_3_4.by_corruption(plain, corrupted)
    assert sorted(both.attack.values) == ["clean", "contrast-3", "fog-3", "pgd-20"]
    present = (both.truth >= 0).any(["image", "seed"])
    assert not bool(present.sel(defence="standard").any())
    assert bool(present.sel(defence="pgd-at").all())


@pytest.fixture
def outcomes():
    """Two networks: standard training loses 30 points to fog, adversarial training 10, and nothing to all others."""
    tables = {(name, attack): 90 for name in ("standard", "pgd-at") for attack in ("clean", *ALL, "fog-1", "fog-5")}
    tables |= {("standard", "fog-3"): 60, ("pgd-at", "fog-3"): 80, ("standard", "pgd-20"): 10, ("pgd-at", "pgd-20"): 9 * CLASS}
    return outcomes_with(tables).expand_dims(seed=[0])


def test_losses_are_those_that_were_made(outcomes):
    more = corruptions.more_lost(outcomes)
    assert more.sel(bound="value", corruption="fog") == pytest.approx(-20)
    assert more.sel(bound="value", corruption="snow") == pytest.approx(0)
    assert corruptions.mean_loss(outcomes).sel(bound="value").values == pytest.approx([30 / 15, 10 / 15], abs=1e-4)
    change = corruptions.change(outcomes)
    assert change.sel(defence="standard", corruption="fog").values == pytest.approx(-30)
    severity = corruptions.by_severity(outcomes).sel(bound="value", corruption="fog", defence="standard")
    assert severity.severity.values.tolist() == [0, 1, 3, 5]
    assert severity.values == pytest.approx([90, 90, 60, 90])
    assert corruptions.count(outcomes).corruption.values.tolist() == ["clean", *section_3_4.CORRUPTIONS]


def test_the_correlation_is_that_of_the_profiles_of_opposite_halves():
    exact = profiles(50 - 5 * CLASS)
    whole = exact.assign(truth=exact.truth.max("half")).drop_vars("half").expand_dims(seed=[0])
    shared = corruptions.shared(whole)
    rows = ["all corruptions", "noise", "blur", "weather", "digital", corruptions.RELATIVE, corruptions.LEFT]
    assert shared.row.values.tolist() == rows
    # All classes are alike on clean images: the loss in points is that in shares, and what is left is the opposite.
    assert shared.sel(bound="value").values == pytest.approx([-1] * 6 + [1], abs=0.02)
    assert shared.attrs["reliability"] == pytest.approx(1, abs=0.02)
    assert "that is left by 1.00 (95 % interval" in sentences.relative(shared)
    chart = charts_corruptions.correlations(shared).to_dict()
    assert "-1.00 (all corruptions)" in chart["description"]
    assert [name in str(chart["datasets"]) for name in (corruptions.RELATIVE, corruptions.LEFT)] == [True, False]
    # Hardly any order of ten classes is as good as this one.
    assert shared.attrs["p"][corruptions.ALL] < 0.01


def of_rows(every, noise=(-0.9, -0.7, -0.5), p=0.01):
    """Return correlations as `corruptions.shared` does: of all corruptions, and of noise."""
    rows = [corruptions.ALL, "noise"]
    coords = {"row": rows, "bound": ["low", "value", "high"]}
    return xr.DataArray([every, list(noise)], coords, ("row", "bound"), attrs={"p": dict.fromkeys(rows, p)})


def test_what_is_not_recorded_is_said(outcomes):
    alone = outcomes.assign(truth=outcomes.truth.where(outcomes.defence == "standard", -1))
    assert corruptions.more_lost(alone) is None
    assert corruptions.shared(alone) is None
    text = sentences.headline(alone, None)
    assert text.startswith("**Corruptions of severity 3 cost standard 2.0 points")
    assert "pgd-at" not in text
    assert "are not compared" in text
    assert sentences.relative(None) in text
    assert "has no results" in sentences.by_kind(None)
    for chart in (charts_corruptions.differences, charts_corruptions.correlations):
        with pytest.raises(NotRecorded):
            chart(None)


def test_the_sentences_say_what_the_outcomes_are(outcomes):
    more = corruptions.more_lost(outcomes)
    joint = corruptions.more_lost(outcomes, joint=True)
    text = sentences.which_loses_more(joint)
    assert "to none of the 15 corruptions and significantly less to 1 (fog), corrected for their number." in text
    single = more.sel(corruption="fog")
    assert float(joint.sel(corruption="fog", bound="low")) < float(single.sel(bound="low"))
    assert float(joint.sel(corruption="fog", bound="high")) > float(single.sel(bound="high"))
    assert "fog -20.0 points" in sentences.by_kind(more)
    bounds = of_rows([-0.9, -0.7, -0.5])
    start = "After adversarial training, the classes that lose most to corruptions are the"
    assert sentences.same_classes(bounds).startswith(f"{start} less robust ones: ")
    assert "with permuted classes p = 0.010." in sentences.same_classes(bounds)
    assert sentences.same_classes(of_rows([0.5, 0.7, 0.9])).startswith(f"{start} more robust ones")
    assert "is open" in sentences.same_classes(of_rows([-0.9, -0.4, 0.1]))
    # An interval of redrawn images leaves out 0, but as good an order of the classes is not rare.
    assert "is open" in sentences.same_classes(of_rows([-0.9, -0.7, -0.5], p=0.2))
    reverse = sentences.same_classes(of_rows([0.5, 0.7, 0.9], [-0.6, -0.4, -0.1]))
    assert "Under noise the sign is the reverse: -0.40 (95 % interval -0.60 to -0.10)" in reverse
    assert "Under noise" not in sentences.same_classes(of_rows([0.5, 0.7, 0.9], [-0.6, -0.4, 0.1]))
    headline = sentences.headline(outcomes, bounds)
    assert headline.startswith("**Corruptions of severity 3 cost standard 2.0 points")
    assert "the mean over 15 corruptions" in headline
    assert "Standard loses most on class 0, 2.0 points" in sentences.weakest_classes(corruptions.change(outcomes))


def test_the_charts_say_what_they_show(outcomes):
    style.setup()
    more = corruptions.more_lost(outcomes)
    chart = charts_corruptions.differences(more).to_dict()
    assert "-20.0 points (fog)" in chart["description"]
    severity = charts_corruptions.by_severity(corruptions.by_severity(outcomes)).to_dict()
    assert "Accuracy at the highest severity" in severity["description"]
    assert "none are shown" in charts_corruptions.examples({}).data


def test_the_section_evaluates_all_corruptions_of_shared_runs_and_three_of_them_at_further_severities():
    request = registry.request(section_3_4.NAME, "quick")
    corrupted = request.parts["corrupted"]
    assert corrupted.specs == request.specs
    shared = {spec.id for spec in registry.request("tian2021/4-1-class-bias", "quick").specs}
    assert {spec.id for spec in request.specs} <= shared
    names = [evaluation.transform for evaluation in corrupted.evaluations]
    assert names == [*ALL, *(f"{name}-{severity}" for name in section_3_4.SWEPT for severity in (1, 5))]


def test_each_claim_says_whether_it_was_found_expected_asked_or_cited():
    assert [claim.where for claim in section_3_4.CLAIMS] == [*["3.4, cited (direction of [13])"] * 2, "3.4, asked"]
    with pytest.raises(ValueError, match="not 'guessed'"):
        kinds.where("3.4", "guessed")
