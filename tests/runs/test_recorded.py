"""Scales that are only read: what is stored of a request, and claims judged on it."""

from dataclasses import replace

import mocks
import numpy as np
import pytest

from classwise import runs
from classwise.core import results
from classwise.core.errors import NotRecorded
from classwise.core.spec import Evaluation
from classwise.papers import registry, scales
from classwise.papers.sections import Arranged, Section
from classwise.runs import store

SECTION, SCALE = "tian2021/4-1-class-bias", "laptop"
CLEAN, PGD = Evaluation(), Evaluation(attack="pgd-20")
NAMES = tuple("abcdefghij")


def record(spec, *evaluations, accuracy=0.5):
    """Write results with random content as those of a recorded run."""
    folder, attrs = store.recorded(spec), {"spec": spec.json(), "id": spec.id, "device": "a CPU", "commit": "abc"}
    results.save(mocks.dataset(classes=NAMES).assign_attrs(attrs), store.HISTORY, store.file(folder))
    for evaluation in evaluations:
        resolved = evaluation.resolved_for(spec)
        chance = {resolved.attack: accuracy if resolved.attack != "clean" else 0.9}
        data = mocks.dataset("outcomes 1", NAMES, chance, seed=spec.seed + len(spec.defence))
        data = data.assign_attrs(attrs, evaluation=resolved.json(), checks="")
        results.save(data, store.OUTCOMES, store.file(folder, resolved))


def test_nothing_recorded_is_an_error_that_names_the_command(data):
    with pytest.raises(NotRecorded, match=r"no run .* at scale 'laptop'; `classwise record --scale laptop`"):
        runs.available(registry.request(SECTION, SCALE))


def test_other_scales_are_left_as_they_are(data):
    request = registry.request(SECTION, "quick")
    assert runs.available(request) is request


def test_what_is_stored_is_kept_with_the_evaluations_that_all_runs_have(data):
    request = registry.request("tian2021/4-3-attacks-and-defences", SCALE)
    first = {spec.defence: spec for spec in request.specs if spec.seed == 0}
    record(first["pgd-at"], CLEAN, PGD, Evaluation(attack="fgsm"))
    record(first["trades"], CLEAN, PGD)
    record(first["mart"])  # trained, not evaluated
    part = runs.available(request)
    assert part.specs == (first["pgd-at"], first["trades"])
    assert [one.attack for one in part.evaluations] == ["clean", "pgd-20"]
    assert {name: [one.attack for one in some] for name, some in part.extra_evaluations.items()} == {
        "pgd-at": ["fgsm"],
        "trades": [],
    }
    assert part.incomplete == {0, 1}
    assert not part.absent
    outcomes = runs.outcomes(part)
    assert outcomes.sizes["defence"] == 2
    assert outcomes.attrs["recorded"] == "all"


def test_parts_that_are_not_recorded_say_so(data):
    request = registry.request("tian2021/6-1-training-adjustment", SCALE)
    record(request.specs[0], CLEAN, PGD)
    part = runs.available(request)
    assert list(part.parts) == []
    with pytest.raises(NotRecorded, match="the part 'again' of this section is not recorded; there are: none"):
        part.parts["again"]


def test_a_claim_is_judged_where_the_runs_that_it_needs_are_recorded(data):
    request = registry.request(SECTION, SCALE)
    (spec,) = [spec for spec in request.specs if (spec.defence, spec.seed) == ("pgd-at", 0)]
    record(spec, CLEAN, PGD)
    judged = {verdict.claim.name: verdict for verdict in runs.verdicts(SCALE, [], [SECTION])}
    gap = judged["gap"]
    assert gap.verdict in ("holds", "fails", "open")
    assert gap.words.endswith("(CIFAR-10, scale laptop, one run)")
    assert judged["wider-than-standard"].verdict == "not tested"
    assert judged["wider-than-standard"].reason == "no results on CIFAR-10 for standard"


def test_verdicts_are_computed_again_only_if_results_change(data, monkeypatch):
    request, judged = registry.request(SECTION, SCALE), []
    computed = registry.judge
    monkeypatch.setattr(registry, "judge", lambda *given, **more: judged.append(1) or computed(*given, **more))
    base, standard = (
        next(spec for spec in request.specs if (spec.defence, spec.seed) == (name, 0)) for name in ("pgd-at", "standard")
    )
    record(base, CLEAN, PGD)
    first, second = (runs.verdicts(SCALE, [], [SECTION]) for _ in range(2))
    assert [str(verdict) for verdict in first] == [str(verdict) for verdict in second]
    assert len(judged) == 1
    record(standard, CLEAN, PGD)
    assert {one.claim.name for one in runs.verdicts(SCALE, [], [SECTION]) if one.verdict != "not tested"} >= {
        "wider-than-standard"
    }
    assert len(judged) == 2
    (kept,) = (data / "verdicts").glob("*.json")
    kept.write_text("damaged")
    runs.verdicts(SCALE, [], [SECTION])
    assert len(judged) == 3


def test_a_page_says_what_was_trained_and_how_long_the_recording_took(data):
    request = registry.request(SECTION, SCALE)
    record(request.specs[0], CLEAN, PGD)
    part = runs.available(request)
    assert runs.training(part.specs) == "One run of each defence: ResNet-18 of width 16, 15 epochs, radius 8/255."
    assert runs.training(request.specs).startswith("3 runs of each defence")
    hours = float(store.find(part.specs[0])["seconds"].sum()) / 3600
    assert runs.recording(part).startswith(f"Recorded: 1 run, {hours:.1f} hours of training (a CPU, threads: ")


def test_verdicts_on_one_claim_stand_together_and_scales_without_results_are_left_out(data, monkeypatch):
    request = registry.request(SECTION, SCALE)
    for spec in request.specs:
        record(spec, CLEAN, PGD)
    monkeypatch.setitem(scales.SCALES, "quick", replace(scales.SCALES["quick"], seeds=()))
    both = runs.verdicts("short", None, [SECTION])
    names = [claim.name for claim in registry.claims_of(SECTION)]
    # At the first scale all claims are listed; nothing is stored at "paper".
    assert [(one.claim.name, one.scale) for one in both if one.scale != "quick"] == [
        (name, scale) for name in names for scale in ("short", "laptop")
    ]
    short = [one for one in both if one.scale == "short" and not one.claim.exclusion("cifar10")]
    assert {one.reason for one in short} == {"no complete results on CIFAR-10 for standard, pgd-at, trades"}
    assert {one.seeds for one in both if one.verdict in ("holds", "fails", "open")} == {3}


def test_a_selection_names_what_is_not_recorded():
    data = mocks.dataset("outcomes 1", NAMES, {"clean": 0.9}, seed=0).expand_dims(attack=["clean", "pgd-20"])
    assert list(runs.select(data, attack=["pgd-20"]).attack.values) == ["pgd-20"]
    with pytest.raises(NotRecorded, match="results of attack cw, square are not recorded"):
        runs.select(data, attack=["cw", "clean", "square"])
    with pytest.raises(NotRecorded, match="results of precision bfloat16 are not recorded"):
        runs.select(data, precision=["bfloat16"])


def test_a_claim_uses_the_seeds_that_all_of_its_defences_have(data):
    request = registry.request(SECTION, SCALE)
    for spec in request.specs:
        if spec.defence == "pgd-at" or spec.seed == 0:
            record(spec, CLEAN, PGD)
    judged = {verdict.claim.name: verdict for verdict in runs.verdicts(SCALE, [], [SECTION])}
    assert judged["gap"].seeds == 3
    assert judged["wider-than-standard"].seeds == 1


def test_arranged_outcomes_need_complete_parts(data, monkeypatch):
    part = Section(title="", defences=("trades",), evaluations=(CLEAN, PGD), max_seeds=2)
    made = replace(
        part,
        defences=("pgd-at",),
        parts={"other": part},
        arrange={
            "alone": Arranged(lambda own: own, ("",)),
            "both": Arranged(lambda own, other: own, ("", "other")),
        },
    )
    monkeypatch.setitem(registry.SECTIONS, SECTION, made)
    request = registry.request(SECTION, SCALE)
    for spec in request.specs:
        record(spec, CLEAN, PGD)
    record(request.parts["other"].specs[0], CLEAN)
    alone = runs.claim_inputs(SECTION, runs.available(request))
    assert list(alone) == ["alone"]
    record(request.parts["other"].specs[1], CLEAN, PGD)
    assert list(runs.claim_inputs(SECTION, runs.available(request))) == ["alone", "both"]
    assert np.array_equal(alone["alone"].seed, [0, 1])


def test_a_run_that_lacks_an_evaluation_does_not_take_it_from_the_others(data):
    request = registry.request(SECTION, SCALE)
    first, second = (next(s for s in request.specs if (s.defence, s.seed) == ("pgd-at", seed)) for seed in (0, 1))
    record(first, CLEAN, PGD)
    record(second, CLEAN)
    part = runs.available(request)
    assert part.specs == (first,)
    assert [one.attack for one in part.evaluations] == ["clean", "pgd-20"]
    more = registry.request("tian2021/4-3-attacks-and-defences", SCALE)
    record(second, PGD)
    record(first, Evaluation(attack="fgsm"))
    part = runs.available(more)
    fgsm = part.extra_evaluations["pgd-at"][0]
    assert fgsm.attack == "fgsm"
    assert part.absent == {(second, fgsm)}
    outcomes = runs.outcomes(part)
    assert (outcomes.truth.sel(attack="fgsm", seed=1) == -1).all()
    assert (outcomes.truth.sel(attack="fgsm", seed=0) >= 0).all()


def test_nothing_of_a_scale_that_is_only_read_is_computed_by_reading(data, monkeypatch):
    spec = registry.training(SCALE, "mart", 0)
    with pytest.raises(NotRecorded, match=r"mart.* are not recorded; `classwise record --scale laptop`"):
        runs.history([spec])
    with pytest.raises(NotRecorded, match=r"under clean-.* are not recorded"):
        runs.outcomes([spec], [CLEAN])
    with pytest.raises(NotRecorded, match="mart"):
        runs.features(spec)
