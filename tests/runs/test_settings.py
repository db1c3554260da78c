"""Settings as the code has them, and images with what lies behind their objects."""

import numpy as np
import pytest

from classwise.core.errors import UserError
from classwise.core.spec import Evaluation
from classwise.papers import registry
from classwise.runs import artifacts, settings


def test_an_attack_tells_its_steps_and_what_is_unusual():
    assert settings.attack_settings("pgd-40@tian2021-mnist") == "PGD (steps=40, step=0.01, start=uniform)"
    assert settings.attack_settings("pgd-20", {"step": 0.02}) == "PGD (steps=20, step=0.02, start=uniform)"
    assert "inverse=5.0" in settings.attack_settings("temperature-pgd-20")
    assert settings.attack_settings("clean") == "Clean"


@pytest.mark.parametrize(
    ("paper", "attack", "options"), [("tian2021", "pgd-20@tian2021-a1", "steps=20, step=0.007"), ("wei2023", "autoattack", "")]
)
def test_the_paper_stands_beside_the_runs_that_follow_it(paper, attack, options):
    spec = registry.training("paper", "pgd-at", 0, paper)
    table = settings.comparison_with_paper(paper, "cifar10", {"ours": (spec, Evaluation(attack=attack))})
    for field in ("epochs", "milestones", "lr", "momentum", "eps", "optimiser"):
        assert table.loc[field, "ours"] == table.loc[field, "the paper"], field
    assert float(table.loc["weight_decay", "ours"]) == float(table.loc["weight_decay", "the paper"])
    assert options in table.loc["testing attack", "ours"]


def test_a_paper_without_numbers_has_settings_and_misprints():
    assert registry.tables_of("benz2020").rows().empty
    assert len(registry.tables_of("benz2020").misprints()) == 4
    printed = registry.tables_of("benz2020").settings()
    assert set(printed["setup"]) == {"3.1"}
    models = printed[printed["field"] == "models"]["value"].item().split(", ")
    assert (len(models), models[0], models[-1]) == (9, "LeNet", "Inception-v3")


def test_the_code_of_the_authors_is_a_setup_of_its_own_which_adds_to_the_paper_or_differs_from_it():
    printed = registry.tables_of("wei2023").settings().query("dataset == 'cifar10'")
    setups = printed["setup"].iloc[0], "code"
    paper, code = (printed[printed["setup"] == name].set_index("field")["value"] for name in setups)
    both = paper.index.intersection(code.index)
    assert len(both) == 6
    assert (code[both] != paper[both]).all()
    assert code["batch"] == str(registry.training("paper", "pgd-at", 0, "wei2023").batch)
    assert list(settings.comparison_with_paper("tian2021", "mnist", {}).loc[["eps"], "the paper"]) == ["0.3"]


def test_methods_have_the_settings_of_their_parts():
    table = settings.method_settings(["at-ccm", "trades-cfa", "ema", "fawa"])
    assert table.loc["at-ccm", "calibration"] == "CFA (lambda1=0.5)"
    assert "lambda1=0.3, lambda2=0.5" in table.loc["trades-cfa", "calibration"]
    assert table.loc["fawa", "averaging"].startswith("FAWA (decay=0.85, threshold=0.2, average_from=0.25")
    assert list(table.loc["ema"])[:2] == ["", ""]
    assert table.loc["at-ccm", "averaging"] == "NoAveraging"
    assert table.loc["trades-cfa", "objective"].startswith("TRADES (beta=6.0, normalised=True")


def test_every_training_of_the_sections_is_listed_once():
    table, shared = settings.trainings("tian2021", "quick")
    listed = list(zip(table.index, table["options"], strict=True))
    assert len(set(listed)) == len(listed)
    names = [name for name in registry.SECTIONS if name.startswith("tian2021/")]
    asked = {(s.dataset, s.defence, s.eps) for name in names for s, _ in registry.request(name).pairs}
    assert set(table.index) == asked
    assert "optimiser sgd" in shared
    assert "6-2-background" in settings.evaluations("tian2021", "quick")["sections"].str.cat()
    # Those of single epochs share a row.
    assert not settings.evaluations("wei2023", "quick").duplicated().any()


def test_scenes_are_the_images_that_are_asked_about():
    spec = registry.training("quick", "trades", 0, dataset="digits-cluttered")
    plain, white = (artifacts.scenes(spec, Evaluation(transform=name), behind=True) for name in ("none", "white-background"))
    np.testing.assert_array_equal(plain.truth, white.truth)
    assert (white.whiteness == 1).all()
    assert float(plain.whiteness.mean()) < 1
    assert "whiteness" not in artifacts.scenes(spec, Evaluation())


def test_the_settings_of_a_paper_stand_beside_ours_by_the_attack_that_tests():
    def compared(section):
        return settings.tables_of_paper(section, "pgd-20")["The settings that the paper prints, and ours"]

    plan, entropy = map(compared, ("benz2020/3-4-corruptions", "entropy2022/3-2-2b-trade-off-and-fairness"))
    assert "models" not in plan.index
    assert plan.loc["model", "the paper"].startswith("LeNet, VGG16")
    assert plan.loc["model", "quick"] == "small-cnn"
    tests = entropy.loc["testing attack"].drop("the paper")
    assert all(one.startswith("PGD (steps=20, ") for one in tests)
    assert "step=0.003" in tests["paper (scale)"]
    with pytest.raises(UserError, match=r"unknown attack 'pgd-2' \(did you mean 'pgd-20'\?\)"):
        settings.tables_of_paper("tian2021/4-1-class-bias", "pgd-2")
