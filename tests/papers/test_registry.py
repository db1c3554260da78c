from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

from classwise import attacks, defences, papers
from classwise.book import notebooks
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
    assert request.specs
    for spec, evaluations in request.pairs:
        if not datasets.known_classes(spec.dataset):
            continue  # whose classes only its own folders tell
        validate.check(spec)
        for evaluation in evaluations:
            validate.check_evaluation(evaluation, spec)
    assert len(set(request.specs)) == len(request.specs)


def test_changes_reach_every_run():
    request = registry.request("tian2021/4-1-class-bias", seeds=[7], defences=["trades"], eps="0.1", eval_eps=0.3, epochs=2)
    assert [(one.defence, one.seed, one.eps, one.epochs) for one in request.specs] == [("trades", 7, "0.1", 2)]
    assert {one.eps for one in request.evaluations} == {"0.3"}


def test_sections_share_their_runs():
    pages = ("tian2021/4-1-class-bias", "tian2021/4-2-class-relations", "performance", "defences")
    ids = [{spec.id for spec in registry.request(section).specs} for section in pages]
    assert ids[0] == ids[1] >= ids[2]
    assert len(ids[0] & ids[3]) == 3
    attacked, tempered = (
        {spec.id for spec in registry.request(f"tian2021/{name}").specs}
        for name in ("4-3-attacks-and-defences", "5-temperature-pgd")
    )
    assert len(attacked & ids[0]) == 6
    assert len(attacked & tempered) == 8


def test_a_section_may_repeat_its_runs_less_often():
    assert {spec.seed for spec in registry.request("defences").specs} == {0}
    assert {spec.seed for spec in registry.request("defences", seeds=[3]).specs} == {3}


def test_the_page_of_the_defences_has_all_of_them_or_says_which_not():
    page = "".join(cell.source for cell in nbformat.read(notebooks.find("defences"), as_version=4).cells)
    compared = (*registry.SECTIONS["defences"].defences, *overview.OF_CFA)
    assert len(set(compared)) == len(compared)
    missing = set(DEFENCES) - set(compared) - set(overview.NOT_COMPARED)
    assert not missing, f"add {missing} to _COMPARED or OF_CFA in papers/overview.py, or to NOT_COMPARED with the reason"
    assert set(compared) | set(overview.NOT_COMPARED) == set(DEFENCES)
    assert not set(compared) & set(overview.NOT_COMPARED)
    for name in DEFENCES:
        assert f"**{name}**" in page, f"describe {name} in notebooks/defences.ipynb"


@pytest.mark.parametrize(("name", "method"), overview.OF_CFA.items())
def test_a_defence_that_averages_is_the_training_and_the_average_of_its_row(name, method):
    training, checkpoint = methods.METHODS[method]
    full, plain = defences.build(name), defences.build(training)
    assert (full.attack, full.calibration) == (plain.attack, plain.calibration)
    averaging = {"last": NoAveraging(), "ema": EMA(), "fawa": FAWA()}[checkpoint]
    assert full.averaging == averaging
    normalised = getattr(full.objective, "normalised", False)
    assert full.objective == (replace(plain.objective, normalised=True) if normalised else plain.objective)


@pytest.mark.parametrize("scale", ["quick", "laptop", "short"])
def test_a_normalised_loss_takes_the_steps_of_trades(scale):
    trades = registry.training(scale, "trades", 0)
    for name in scales.NORMALISED:
        spec = registry.training(scale, name, 0)
        assert spec.lr == pytest.approx(7 * trades.lr)
        assert spec.lr * spec.weight_decay == pytest.approx(trades.lr * trades.weight_decay)


def test_the_page_of_the_defences_asks_for_no_training_twice():
    request = registry.request("defences")
    part = request.parts[overview.CFA]
    trained = {spec.defence for spec in (*request.specs, *part.specs)}
    absent = set(DEFENCES) - set(overview.NOT_COMPARED) - set(overview.OF_CFA) - trained
    assert absent == {"trades-he", "trades-normalised", "fat", "fat-trades", "frl-rw", "targeted-at"}
    assert absent <= {spec.defence for spec in registry.request("defences", "laptop").specs}
    shared = {spec.defence for spec in part.specs if spec in request.specs}
    assert shared == {"pgd-at", "trades", "frl-rmrw"}
    assert {spec.defence for spec in part.specs} - shared == {"at-ccm", "trades-ccm-ccr", "fat-constant", "fat-ccm"}
    asked = {spec.defence: {one.checkpoint for one in evaluations} for spec, evaluations in part.pairs}
    assert asked.pop("frl-rmrw") == {"last", "ema"}
    assert set(map(frozenset, asked.values())) == {frozenset({"last", "ema", "fawa"})}


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: registry.request("tian2021/4-1-class-bias", epoch=3), "did you mean 'epochs'"),
    ],
)
def test_mistakes_are_named(call, says):
    with pytest.raises(UserError, match=says):
        call()


def test_the_papers_train_by_their_own_recipes():
    spec = {name: registry.training("paper", name, 0, "tian2021") for name in ("standard", "pgd-at", "mart", "pgd-he")}
    assert {one.eps for one in spec.values()} == {"0.031"}
    assert (spec["pgd-at"].attack, spec["pgd-at"].epochs, spec["pgd-at"].weight_decay) == ("pgd-10@tian2021", 100, 2e-4)
    assert (spec["mart"].lr, spec["mart"].epochs, spec["mart"].weight_decay) == (0.01, 120, 3.5e-3)
    assert spec["pgd-he"].milestones == (75,)
    fair = registry.training("paper", "at-cfa", 0, "wei2023")
    assert (fair.model, fair.batch_norm, fair.epochs, fair.nesterov) == ("preact-resnet18", "train", 200, False)
    by_trades = {name for name, one in defences.DEFENCES.items() if isinstance(one.objective, defences.TRADES)}
    for name in defences.DEFENCES:
        spec = registry.training("paper", name, 0, "wei2023")
        assert (spec.batch_norm == "eval") == (name in by_trades), name
    for name in by_trades - {"fat-trades", "frl-rmrw"}:
        spec = registry.training("paper", name, 0, "wei2023")
        attack = attacks.build(spec.attack)
        assert (spec.batch_norm, attack.step, attack.start) == ("eval", 2 / 255, "gaussian")
    for name in ("pgd-at", "at-ccm", "fat", "fat-constant", "fat-ccm", "fat-cfa"):
        spec = registry.training("paper", name, 0, "wei2023")
        assert (spec.batch_norm, attacks.build(spec.attack).step) == ("train", 2 / 255)
    assert dict(registry.training("paper", "trades", 0, "wei2023").options) == {"normalised": True}
    asked = registry.request("tian2021/4-1-class-bias", "paper").evaluations
    assert [one.attack for one in asked] == ["clean", "pgd-20@tian2021-a1"]


def test_the_entropy_paper_selects_on_test_images_and_its_rst_trains_as_rst_does():
    names = ("standard", "pgd-at", "label-smoothing", "me-at", "single-class-at", "trades", "trades-smoothed", "me-trades")
    for name in names:
        spec = registry.training("paper", name, 0, "entropy2022")
        assert (spec.eps, spec.batch, spec.epochs, spec.nesterov) == ("0.03125", 64, 100, False)
        by = "clean" if name == "standard" else "pgd-20@entropy2022"
        assert (spec.select, spec.select_by, spec.test_selected) == (by, "average", True)
        assert name == "standard" or (attacks.build(spec.attack).steps, attacks.build(spec.attack).step) == (10, 0.008)
    for name in ("rst", "me-rst"):
        spec = registry.training("paper", name, 0, "entropy2022")
        assert (spec.eps, spec.batch, spec.epochs, spec.schedule) == ("0.031", 256, 200, "cosine")
        assert (spec.weight_decay, spec.nesterov, spec.select) == (5e-4, True, None)
        assert attacks.build(spec.attack) == attacks.build("pgd-10@trades")
    pages = ("3-1-label-smoothing", "3-2-2b-trade-off-and-fairness", "3-2-2a-similarity-and-variance", "A-3-more-data")
    pairs = [registry.request(f"entropy2022/{page}", "paper").pairs for page in pages]
    reported = [{one.checkpoint for _, some in each for one in some} for each in pairs]
    assert reported == [{"test-selected"}, {"test-selected"}, {"last"}, {"last"}]
    tested = [attacks.build(name).step for name in ("pgd-20@entropy2022", "pgd-20@entropy2022-train")]
    assert tested == [0.003, attacks.build("pgd-10@entropy2022").step]


def test_slow_attacks_are_cut_down_at_short_scale():
    asked = {one.attack: one for one in registry.request("performance", "short").evaluations}
    assert asked["cw"].per_class == asked["n-attack"].per_class == 20
    assert asked["strong"].per_class == 100
    assert asked["pgd-20"].per_class is None
    assert {one.precision for one in registry.request("performance", "short").specs} == {"bfloat16"}


def test_a_run_knows_its_scale():
    for scale in scales.SCALES:
        for section in registry.SECTIONS:
            assert {registry.scale_of(spec) for spec, _ in registry.request(section, scale).pairs} == {scale}
    assert registry.scale_of(registry.training("paper", "me-at", 0, "entropy2022")) == "paper"
    assert registry.scale_of(registry.training("quick", "pgd-at", 0, epochs=2)) is None


def test_a_section_leaves_each_class_out_and_keeps_one_with_other_luck():
    request = registry.request("tian2021/6-1-training-adjustment", seeds=[3], eps="0.1")
    (whole,) = request.specs
    without = request.parts["without"].specs
    assert [set("0123456789") - set(spec.classes) for spec in without] == [{name} for name in "0123456789"]
    again = request.parts["again"].specs
    assert [(one.seed, one.redraw, one.classes, one.eps) for one in again] == [(3, 1, (), "0.1"), (3, 2, (), "0.1")]
    assert len({whole.training_seed, *(one.training_seed for one in again)}) == 3
    swept = request.parts["adjusted"].specs
    assert [spec.options["betas"] for spec in swept] == ["1:0.5", "1:2", "1:18"]
    assert registry.request("tian2021/6-1-training-adjustment", "short").parts["adjusted"].specs[0].options["betas"] == "5:0.5"


def test_backgrounds_follow_the_dataset_and_the_scale():
    quick = registry.request("tian2021/6-2-background")
    assert {spec.dataset for spec in quick.specs} == {"digits-neighbours", "digits-apart"}
    assert {spec.eps for spec in quick.specs} == {"0.5"}
    assert {spec.dataset for spec in quick.parts["scenes"].specs} == {"digits-cluttered"}
    short = registry.request("tian2021/6-2-background", "short")
    assert {(spec.dataset, spec.eps) for spec in short.specs} == {("mnist-neighbours", "0.5"), ("mnist-apart", "0.5")}
    assert {spec.dataset for spec in short.parts["scenes"].specs} == {"cifar10"}
    assert set(short.parts["scenes"].specs) <= set(registry.request("tian2021/4-1-class-bias", "short").specs)


def test_a_dataset_whose_classes_nobody_knows_is_named():
    with pytest.raises(UserError, match=r"unknown dataset whose classes can be left out 'cifar'.*did you mean 'cifar10'"):
        registry.request("tian2021/6-1-training-adjustment", dataset="cifar")


def test_figure_1_has_six_datasets_where_the_scale_allows():
    section = "tian2021/4-1-class-bias"
    assert not registry.request(section).parts
    assert not registry.request(section, "short").parts
    asked = ["cifar10", "mnist", "svhn", "stl10", "cifar100"]
    short, paper = registry.request(section, "short", datasets=asked), registry.request(section, "paper")
    assert ["cifar10", *short.parts] == asked
    assert {spec.model for spec in short.parts["mnist"].specs} == {"small-cnn"}
    assert short.specs == registry.request(section, "short").specs
    assert ["cifar10", *paper.parts] == asked  # and ImageNet where it is named: nobody can fetch it for the reader
    paper = registry.request(section, "paper", datasets=[*asked, "imagenet"])
    trained = {name: next(one for one in part.specs if one.defence == "pgd-at") for name, part in paper.parts.items()}
    assert {name: (one.dataset, one.lr, one.eps) for name, one in trained.items()} == {
        "mnist": ("mnist", 0.01, "0.3"),
        "svhn": ("svhn", 0.01, "0.031"),
        "stl10": ("stl10", 0.01, "0.031"),
        "cifar100": ("cifar100", 0.1, "0.031"),
        "imagenet": ("imagenet", 0.1, "0.007"),
    }
    attacks = {name: part.evaluations[-1].attack for name, part in paper.parts.items()}
    assert (attacks["mnist"], attacks["svhn"]) == ("pgd-40@tian2021-mnist", "pgd-20@tian2021-a1")
    assert attacks["imagenet"] == "pgd-50@tian2021-imagenet"
    assert (trained["imagenet"].model, trained["imagenet"].attack) == ("resnet50", "fast")


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


def test_each_module_of_a_section_has_a_test_module_of_its_name():
    modules = [path for path in Path(papers.__file__).parent.glob("*/*.py") if "\nCLAIMS = " in path.read_text()]
    tests = {f"{path.parent.name}/{path.name}" for path in Path(__file__).parent.glob("*/test_*.py")}
    assert len(modules) == len({claim.section for claim in registry.CLAIMS})
    assert {f"{path.parent.name}/test_{path.name}" for path in modules} <= tests


@pytest.mark.parametrize("given", [{"seed": 7}, {"defence": "trades"}])
def test_a_request_is_of_all_seeds_and_defences(given):
    ((name, value),) = given.items()
    with pytest.raises(UserError, match=rf"give all of them: {name}s=\[{value!r}\]"):
        registry.request("tian2021/4-1-class-bias", **given)
