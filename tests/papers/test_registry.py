import re
from dataclasses import replace

import pytest

from classwise import attacks, defences
from classwise.core import datasets
from classwise.core.errors import UserError
from classwise.defences import DEFENCES
from classwise.defences.averaging import EMA, FAWA, NoAveraging
from classwise.papers import overview, registry, scales
from classwise.papers.wei2023 import methods
from classwise.runs.compute import validate


@pytest.mark.parametrize("section", registry.SECTIONS)
@pytest.mark.parametrize("scale", scales.SCALES)
def test_every_section_asks_for_runs_that_exist(section, scale):
    request = registry.request(section, scale)
    assert request.pairs
    planned = {spec.id for spec, _ in request.pairs}
    for spec, evaluations in request.pairs:
        if not datasets.known_classes(spec.dataset):
            continue  # whose classes only its own folders tell
        validate.check(spec, planned)
        for evaluation in evaluations:
            validate.check_evaluation(evaluation, spec)
    assert len(set(request.specs)) == len(request.specs)


def test_changes_reach_every_run_and_every_part():
    request = registry.request("tian2021/4-1-class-bias", seeds=[7], defences=["trades"], eps="0.1", eval_eps=0.3, epochs=2)
    assert [(one.defence, one.seed, one.eps, one.epochs) for one in request.specs] == [("trades", 7, "0.1", 2)]
    assert {one.eps for one in request.evaluations} == {"0.3"}
    request = registry.request("tian2021/6-1-training-adjustment", seeds=[3], eps="0.1")
    again = request.parts["again"].specs
    assert [(one.seed, one.redraw, one.classes, one.eps) for one in again] == [(3, 1, (), "0.1"), (3, 2, (), "0.1")]
    assert len({one.training_seed for one in (*request.specs, *again)}) == 3


def test_what_is_said_of_defences_is_of_those_that_there_are():
    named = [*registry.SECTIONS["defences"].defences, *overview.OF_CFA, *overview.NOT_COMPARED]
    assert len(set(named)) == len(named)
    assert set(named) <= set(DEFENCES)
    assert set(re.findall(r"\*\*([a-z0-9-]+)\*\*", overview.formulas())) == set(named)


@pytest.mark.parametrize(("name", "method"), overview.OF_CFA.items())
def test_a_defence_that_averages_is_the_training_and_the_average_of_its_row(name, method):
    training, checkpoint = methods.METHODS[method]
    full, plain = defences.build(name), defences.build(training)
    assert (full.attack, full.calibration) == (plain.attack, plain.calibration)
    averaging = {"last": NoAveraging(), "ema": EMA(), "fawa": FAWA()}[checkpoint]
    assert full.averaging == averaging
    normalised = getattr(full.objective, "normalised", False)
    assert full.objective == (replace(plain.objective, normalised=True) if normalised else plain.objective)


def test_attacks_of_the_papers_take_their_published_steps():
    built = {name: attacks.build(f"pgd-{name}") for name in ("10@wei2023", "10@wei2023-trades", "10@trades", "10@tian2021")}
    built |= {name: attacks.build(f"pgd-{name}") for name in ("10@entropy2022", "20@entropy2022", "20@entropy2022-train")}
    published = [(10, 2 / 255, "uniform"), (10, 2 / 255, "gaussian"), (10, 0.007, "gaussian"), (10, 0.007, "uniform")]
    published += [(10, 0.008, "uniform"), (20, 0.003, "uniform"), (20, 0.008, "uniform")]
    assert [(one.steps, one.step, one.start) for one in built.values()] == published


def test_a_run_knows_its_scale():
    for scale in scales.SCALES:
        for section in registry.SECTIONS:
            assert {registry.scale_of(spec) for spec, _ in registry.request(section, scale).pairs} == {scale}
    assert registry.scale_of(registry.training("paper", "me-at", 0, "entropy2022")) == "paper"
    assert registry.scale_of(registry.training("quick", "pgd-at", 0, epochs=2)) is None


def test_figure_1_has_further_datasets_where_they_are_named():
    section, named = "tian2021/4-1-class-bias", ["cifar10", "mnist", "svhn", "stl10", "cifar100"]
    assert ["cifar10", *registry.request(section, "short", datasets=named).parts] == named
    # ImageNet is at no scale: nobody can fetch it for the reader.
    imagenet = registry.request(section, "paper", datasets=[*named, "imagenet"]).parts["imagenet"]
    spec = next(one for one in imagenet.specs if one.defence == "pgd-at")
    assert (spec.dataset, spec.lr, spec.eps, spec.model, spec.attack) == ("imagenet", 0.1, "0.007", "resnet50", "fast")
    assert imagenet.evaluations[-1].attack == "pgd-50@tian2021-imagenet"


def test_a_reader_chooses_datasets():
    section = "tian2021/4-1-class-bias"
    one = registry.request(section, "short", datasets=["svhn"], defences=["pgd-at"])
    assert ({spec.dataset for spec in one.specs}, dict(one.parts)) == ({"svhn"}, {})
    assert {spec.lr for spec in one.specs} == {0.01}
    several = registry.request(section, "quick", datasets=["digits", "mnist"], seeds=[0], eps="0.1")
    assert {spec.dataset for spec in several.specs} == {"digits"}
    assert {(spec.dataset, spec.eps) for spec in several.parts["mnist"].specs} == {("mnist", "0.1")}
    assert not registry.request(section, "short", dataset="svhn").parts
    with pytest.raises(UserError, match="say two things"):
        registry.request(section, dataset="digits", datasets=["mnist"])
    with pytest.raises(UserError, match="datasets must be a list"):
        registry.request(section, datasets="mnist")


@pytest.mark.parametrize(
    ("section", "given", "says"),
    [
        ("4-1-class-bias", {"seed": 7}, r"give all of them: seeds=\[7\]"),
        ("4-1-class-bias", {"defence": "trades"}, r"give all of them: defences=\['trades'\]"),
        ("4-1-class-bias", {"epoch": 3}, "unknown .* 'epoch'"),
        ("6-1-training-adjustment", {"dataset": "cifar"}, "whose classes can be left out 'cifar'"),
    ],
)
def test_a_wrong_request_is_named(section, given, says):
    with pytest.raises(UserError, match=says):
        registry.request(f"tian2021/{section}", **given)
