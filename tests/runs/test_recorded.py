"""Scales that are only read: what is stored of a request, and claims judged on it."""

import errno
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import mocks
import numpy as np
import pytest
from filelock import FileLock
from mocks import record

import classwise
from classwise import runs
from classwise.core.errors import NotAtScale, NotRecorded
from classwise.core.spec import Evaluation
from classwise.papers import registry, scales
from classwise.papers.sections import Derived, Section
from classwise.runs import judge
from classwise.runs.recorded import keep_stored

SECTION, SCALE = "tian2021/4-1-class-bias", "laptop"
CLEAN, PGD = Evaluation(), Evaluation(attack="pgd-20")


def recorded(request, *defences, seeds=(0, 1, 2)):
    """Record the runs of a request, or those of some defences and seeds, and return them."""
    specs = [spec for spec in request.specs if spec.defence in (defences or (spec.defence,)) and spec.seed in seeds]
    for spec in specs:
        record(spec, *request.evaluations_of(spec))
    return specs


def judged(section=SECTION):
    """Return the verdicts on the claims of a section, by claim."""
    return {one.claim.name: one for one in runs.verdicts(SCALE, [], [section])}


@pytest.fixture
def request_(data):
    """The request of a section with three seeds of three defences, each clean and under PGD."""
    return registry.request(SECTION, SCALE)


def test_nothing_recorded_is_an_error_that_names_the_command_and_other_scales_are_left_as_they_are(data):
    with pytest.raises(NotRecorded, match=r"no run .* at scale 'laptop'; `classwise record --scale laptop`"):
        runs.keep_recorded(registry.request(SECTION, SCALE))
    request = registry.request(SECTION, "quick")
    assert runs.keep_recorded(request) is request


def test_what_is_stored_is_kept_with_the_evaluations_that_all_runs_have(data):
    request = registry.request("tian2021/4-3-attacks-and-defences", SCALE)
    first = {spec.defence: spec for spec in request.specs if spec.seed == 0}
    record(first["pgd-at"], CLEAN, PGD, Evaluation(attack="fgsm"))
    record(first["trades"], CLEAN, PGD)
    record(first["mart"])  # trained, not evaluated
    part = runs.keep_recorded(request)
    assert part.specs == (first["pgd-at"], first["trades"])
    assert [one.attack for one in part.evaluations] == ["clean", "pgd-20"]
    extra = {name: [one.attack for one in some] for name, some in part.extra_evaluations.items()}
    assert extra == {"pgd-at": ["fgsm"], "trades": []}
    assert part.incomplete == {(spec.defence, spec.seed) for spec in request.specs}
    assert not part.absent
    outcomes = runs.outcomes(part)
    assert outcomes.sizes["defence"] == 2
    assert outcomes.attrs["recorded"] == "all"


def test_a_page_may_show_photographs_at_the_level_of_the_papers_first(request_):
    assert runs.shown_scales(SECTION, "quick") == ["quick"]
    recorded(request_, "pgd-at", seeds=[0])
    assert runs.shown_scales(SECTION, "quick") == ["laptop", "quick"]
    recorded(registry.request(SECTION, "matched"), "pgd-at", seeds=[0])
    assert runs.shown_scales(SECTION, "quick") == ["matched", "laptop", "quick"]
    assert runs.shown_scales(SECTION, "matched") == ["matched"]


def test_parts_that_are_not_recorded_say_so(data):
    request = registry.request("tian2021/6-1-training-adjustment", SCALE)
    record(request.specs[0], CLEAN, PGD)
    part = runs.keep_recorded(request)
    assert list(part.parts) == []
    with pytest.raises(NotRecorded, match="not all runs of 'again' are recorded; there are: none"):
        part.parts["again"]


def test_a_claim_is_judged_where_the_runs_that_it_needs_are_recorded(request_):
    recorded(request_, "pgd-at", seeds=[0])
    gap, wider = (judged()[name] for name in ("gap", "wider-than-standard"))
    assert (gap.verdict, gap.seeds) == ("described", 1)
    assert (wider.verdict, wider.reason) == ("not tested", "no results on CIFAR-10 at 8/255 for standard")
    recorded(request_, "standard", seeds=[0, 1])
    assert judged()["wider-than-standard"].verdict == "described"
    recorded(request_, "pgd-at", seeds=[1])
    wider = judged()["wider-than-standard"]
    assert wider.tested
    assert wider.words.endswith("(CIFAR-10 at 8/255, 2 seeds)")


def test_a_claim_on_runs_that_a_scale_has_not_says_so_where_the_plain_outcomes_are_recorded(data):
    section = "entropy2022/1-robust-fairness"
    for spec in registry.request(section, SCALE).specs:
        record(spec, CLEAN, PGD)
    reasons = {name: one.reason for name, one in judged(section).items()}
    assert reasons.pop("higher-similarity-at-equal-accuracy") == "this scale has no runs for it"
    assert set(reasons.values()) != {"this scale has no runs for it"}


def test_claims_that_no_run_of_a_scale_could_test_are_not_missing_from_a_complete_page(data):
    for spec in registry.request(SECTION, SCALE, defences=["standard"]).specs:
        record(spec, CLEAN, PGD)
    with pytest.raises(NotRecorded, match="the runs that the claims") as raised:
        runs.judge_section(SECTION, runs.keep_recorded(registry.request(SECTION, SCALE)))
    assert raised.type is NotRecorded
    section = "benz2020/3-1-over-training"
    for spec in registry.request(section, SCALE).specs:
        record(spec, CLEAN, PGD)
    with pytest.raises(NotAtScale, match="no run of scale 'laptop' could test the claims"):
        runs.judge_section(section, runs.keep_recorded(registry.request(section, SCALE)))


def test_verdicts_are_computed_again_only_if_results_change(request_, data, monkeypatch):
    """And the code that they depend on is read before."""
    steps, computed, code = [], registry.judge, judge._code
    monkeypatch.setattr(judge, "_code", lambda: steps.append("code") or code())
    monkeypatch.setattr(registry, "judge", lambda *given, **more: steps.append("judge") or computed(*given, **more))
    recorded(request_, "pgd-at", seeds=[0])
    assert [str(verdict) for verdict in judged().values()] == [str(verdict) for verdict in judged().values()]
    assert steps.count("judge") == 1
    assert steps.index("code") < steps.index("judge")
    recorded(request_, "standard", seeds=[0])
    assert judged()["wider-than-standard"].verdict != "not tested"
    assert steps.count("judge") == 2
    (kept,) = (data / "verdicts").glob("*.json")
    kept.write_text("damaged")
    judged()
    assert steps.count("judge") == 3


def test_a_section_that_another_process_judges_is_left_for_last(request_, data):
    other = "tian2021/4-2-class-relations"
    recorded(request_, "pgd-at", seeds=[0])
    place = data / "verdicts"
    place.mkdir(parents=True)
    with ThreadPoolExecutor(1) as thread:
        with FileLock(place / f"tian2021-4-1-class-bias-{SCALE}.lock"):
            verdicts, latest = thread.submit(runs.verdicts, SCALE, [], [SECTION, other]), time.monotonic() + 60
            while not (place / f"tian2021-4-2-class-relations-{SCALE}.json").exists():
                assert time.monotonic() < latest
                time.sleep(0.05)
            assert [path.name for path in place.glob("*.json")] == [f"tian2021-4-2-class-relations-{SCALE}.json"]
        assert list(dict.fromkeys(one.claim.section for one in verdicts.result(60))) == [SECTION, other]


def test_verdicts_that_results_changed_under_are_not_kept(request_, data, monkeypatch):
    recorded(request_, "pgd-at", "standard", seeds=[0])
    computed = registry.judge

    def slowly(*given, **more):
        verdicts = computed(*given, **more)
        recorded(request_, "pgd-at", seeds=[0])  # recorded again while the verdicts are computed
        return verdicts

    for function, kept in ((slowly, 0), (computed, 1)):
        monkeypatch.setattr(registry, "judge", function)
        judged()
        assert len(list((data / "verdicts").glob("*.json"))) == kept


def test_verdicts_depend_on_all_code_but_that_of_the_book_and_on_the_versions_of_libraries(tmp_path, monkeypatch):
    copy = tmp_path / "classwise"
    shutil.copytree(Path(classwise.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(classwise, "__file__", str(copy / "__init__.py"))
    first, changed = judge._code.__wrapped__(), {}
    for name in ("images/backgrounds.py", "papers/measures.py", "book/scale_switch.py", "papers/home.py"):
        text = (copy / name).read_text()
        (copy / name).write_text(text + "\n# changed\n")
        changed[name] = judge._code.__wrapped__() != first
        (copy / name).write_text(text)
    assert list(changed.values()) == [True, True, False, False]
    monkeypatch.setattr(judge.metadata, "version", lambda name: "0.0")
    assert judge._code.__wrapped__() != first


def test_verdicts_are_computed_where_nothing_can_be_written(request_, data, monkeypatch):
    recorded(request_, "pgd-at", "standard")

    def refuse(*given, **more):
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as only:
        only.setattr(judge, "FileLock", refuse)
        only.setattr(judge, "write", refuse)
        first = judged()
    assert any(verdict.tested for verdict in first.values())
    shutil.rmtree(data / "verdicts")
    (data / "verdicts").write_text("a file, where no folder can be made")
    assert {name: str(one) for name, one in judged().items()} == {name: str(one) for name, one in first.items()}


def test_a_page_says_what_was_trained(request_):
    record(request_.specs[0], CLEAN, PGD)
    part = runs.keep_recorded(request_)
    assert runs.training(part.specs) == "We trained one network of each defence: ResNet-10 of width 24, 13 epochs, radius 8/255."
    assert runs.training(request_.specs).startswith("We trained 3 networks of each defence")
    several = [spec for spec in request_.specs if spec.defence == "pgd-at" or (spec.defence, spec.seed) == ("trades", 0)]
    assert runs.training(several).startswith("We trained 1 to 3 networks of each defence: ResNet-10")
    assert runs.training(()) == ""


def test_a_part_has_the_runs_that_are_there_and_variants_count_together(data):
    request = registry.request("tian2021/6-2-background", SCALE, seeds=[0])
    plain, (one, other) = request.parts["plain"], request.specs
    for spec in plain.specs:
        record(spec, *plain.evaluations_of(spec)[: 1 if spec.defence == "pgd-at" else None])
    assert {spec.defence for spec in keep_stored(request).parts["plain"].specs} == {"standard"}
    record(one, *request.evaluations)
    with pytest.raises(NotRecorded, match="no run of this section is recorded"):
        runs.keep_recorded(request)
    record(other, request.evaluations[0])
    assert keep_stored(request).specs == ()
    record(other, *request.evaluations)
    assert runs.keep_recorded(request).specs == (one, other)


def test_two_methods_are_compared_before_all_of_a_table_are_recorded(data, monkeypatch):
    section = "wei2023/5-2-robustness-and-fairness"
    monkeypatch.setitem(scales.SCALES, SCALE, replace(scales.SCALES[SCALE], unsound={}))
    recorded(registry.request(section, SCALE), "trades", "frl-rmrw")
    verdicts = judged(section)
    assert verdicts["frl-costs-overall"].verdict in ("holds", "fails", "open")
    assert verdicts["cfa-worst"].reason.startswith("no results on CIFAR-10 at 8/255 for AT")
    assert verdicts["frl-costs-overall-best"].reason.startswith("no complete results on CIFAR-10 at 8/255 for pgd-at, at-ccm")


def test_a_network_that_an_arrangement_selects_is_recorded_or_its_claims_are_not_tested(data, monkeypatch):
    section = "benz2020/3-1-networks-and-optimisers"
    request = registry.request(section, SCALE)
    recorded(request, "standard")
    assert {one.verdict for one in judged(section).values()} == {"not tested"}
    for spec, evaluations in request.pairs:
        record(spec, *evaluations)
    arranged = {"all": Derived(lambda plain: plain.sel(defence=["another"]), ("",))}
    monkeypatch.setitem(registry.SECTIONS, section, replace(registry.SECTIONS[section], arrange=arranged))
    with pytest.raises(KeyError, match="not all values found in index 'defence'"):
        runs.claim_inputs(section, request)


def test_verdicts_on_one_claim_stand_together_and_scales_without_results_are_left_out(request_, monkeypatch):
    recorded(request_)
    monkeypatch.setitem(scales.SCALES, "quick", replace(scales.SCALES["quick"], seeds=()))
    both = runs.verdicts("short", None, [SECTION])
    names = [claim.name for claim in registry.claims_of(SECTION)]
    # At the first scale all claims are listed; nothing is stored at "paper".
    at_scales = [(name, scale) for name in names for scale in ("short", "laptop")]
    assert [(one.claim.name, one.scale) for one in both if one.scale != "quick"] == at_scales
    # A scale with results has a verdict on the claims of every section, also of those without any.
    further = "tian2021/6-2-background"
    both_sections = runs.verdicts("short", None, [SECTION, further])
    assert {one.scale for one in both_sections if one.claim.section == further} == {"short", "laptop"}
    short = [one for one in both if one.scale == "short" and not one.claim.exclusion("cifar10")]
    assert {one.reason for one in short} == {"no complete results on CIFAR-10 for standard, pgd-at, trades"}
    assert {one.seeds for one in both if one.verdict in ("holds", "fails", "open")} == {3}
    # Runs that keep many epochs are not trained at every scale.
    kept = runs.verdicts("short", None, [SECTION, "benz2020/3-1-over-training"])
    reasons = {one.scale: one.reason for one in kept if one.claim.name == "classes-settle-early"}
    assert reasons["laptop"] == "this scale has no runs for it"
    assert reasons["short"].startswith("no complete results on CIFAR-10 for pgd-at")


def test_a_selection_names_what_is_not_recorded():
    data = mocks.dataset("outcomes 1").expand_dims(attack=["clean", "pgd-20"])
    assert list(runs.select(data, attack=["pgd-20"]).attack.values) == ["pgd-20"]
    with pytest.raises(NotRecorded, match="results of attack cw, square are not recorded"):
        runs.select(data, attack=["cw", "clean", "square"])
    with pytest.raises(NotRecorded, match="results of precision bfloat16 are not recorded"):
        runs.select(data, precision=["bfloat16"])


def test_a_claim_uses_the_seeds_that_all_of_its_defences_have(request_):
    recorded(request_, seeds=[0])
    recorded(request_, "pgd-at")
    assert [judged()[name].seeds for name in ("gap", "wider-than-standard")] == [3, 1]


def test_arranged_outcomes_need_complete_parts(data, monkeypatch):
    part = Section(title="", defences=("trades",), evaluations=(CLEAN, PGD), max_seeds=2)
    arrange = {"alone": Derived(lambda own: own, ("",)), "both": Derived(lambda own, other: own, ("", "other"))}
    arrange["either"] = Derived(lambda own, other: own.assign_attrs(other=other is not None), ("",), ("other",))
    made = replace(part, defences=("pgd-at",), parts={"other": part}, arrange=arrange)
    monkeypatch.setitem(registry.SECTIONS, SECTION, made)
    request = registry.request(SECTION, SCALE)
    recorded(request)
    record(request.parts["other"].specs[0], CLEAN)
    alone = runs.claim_inputs(SECTION, runs.keep_recorded(request))
    assert list(alone) == ["alone", "either"]
    assert not alone["either"].attrs["other"]
    with pytest.raises(NotRecorded, match="not all runs of 'both' are recorded; there are: alone, either"):
        alone["both"]
    record(request.parts["other"].specs[1], CLEAN, PGD)
    complete = runs.claim_inputs(SECTION, runs.keep_recorded(request))
    assert list(complete) == ["alone", "both", "either"]
    assert complete["either"].attrs["other"]
    assert np.array_equal(alone["alone"].seed, [0, 1, 2])  # what is read is not limited by max_seeds
    never = replace(made.parts["other"], variants=lambda scale, plain: ())
    monkeypatch.setitem(registry.SECTIONS, SECTION, replace(made, parts={"other": never}))
    with pytest.raises(NotAtScale, match="this scale has no runs for 'both'"):
        runs.load_page(SECTION, SCALE)[1]["both"]


def test_calibrated_outcomes_hold_what_each_class_was_trained_with(data, monkeypatch):
    made = Section(title="", defences=("pgd-at",), evaluations=(CLEAN, PGD), adds=("late_settings",))
    monkeypatch.setitem(registry.SECTIONS, SECTION, replace(made, arrange={"": Derived(lambda own: own, ("",))}))
    specs = recorded(registry.request(SECTION, SCALE))
    found = runs.claim_inputs(SECTION, runs.keep_recorded(registry.request(SECTION, SCALE)))[""]
    assert found.radius.dims == ("defence", "seed", "predicted")
    radius = runs.history(specs).radius
    assert np.allclose(found.radius * found.uniform_radius, radius[..., -1, :] / radius[..., 0, :] * found.uniform_radius)


def test_a_run_that_lacks_an_evaluation_does_not_take_it_from_the_others(request_):
    first, second = (spec for spec in request_.specs if spec.defence == "pgd-at" and spec.seed < 2)
    record(first, CLEAN, PGD)
    record(second, CLEAN)
    part = runs.keep_recorded(request_)
    assert part.specs == (first,)
    assert [one.attack for one in part.evaluations] == ["clean", "pgd-20"]
    more = registry.request("tian2021/4-3-attacks-and-defences", SCALE)
    record(second, PGD)
    record(first, Evaluation(attack="fgsm"))
    part = runs.keep_recorded(more)
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
