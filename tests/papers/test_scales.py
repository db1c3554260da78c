from dataclasses import replace

import pytest

from classwise import attacks, defences
from classwise.papers import registry, scales, variants
from classwise.papers.scales import Recipe, Scale, merged
from classwise.papers.sections import CLEAN_AND_PGD, Choices, Section, requested

# Ids of runs at scale "laptop", trained at commit ca80f6b (training version 1): defence, seed, changed fields.
LAPTOP = {
    "0f2e5d75ad": ("pgd-at", 0, {}),
    "d8ff298b9b": ("pgd-at", 1, {}),
    "1b1344459b": ("pgd-at", 2, {}),
    "9662d85788": ("standard", 0, {}),
    "afad29079f": ("mart", 0, {}),
    "453bfe1ba8": ("me-at", 0, {}),
    "9b5a08c6fb": ("label-smoothing", 0, {}),
    "12e8612029": ("pgd-at", 0, {"model": "vgg16"}),
    "ef3358ae72": ("dafa", 0, {}),
    "6c04586ab5": ("at-per-class", 0, {"options": {"weights": "3:3"}}),
    "5167014207": ("trades", 0, {}),
    "8aadc1657e": ("trades", 1, {}),
    "4fa1eeddec": ("pgd-he", 0, {}),
    "d88b3469ed": ("me-trades", 0, {}),
    "91057df6ed": ("frl-rmrw", 0, {}),
    "a698d14813": ("trades", 0, {"options": {"beta": 15}}),
    "1a81e3e34d": ("standard", 1, {}),
    "7e4ac60d30": ("fat", 0, {}),
    "6e98e7f56f": ("wat", 0, {}),
    "7018c7d7a0": ("targeted-at", 0, {"attack_options": {"target": 3}}),
}


@pytest.mark.parametrize("number", LAPTOP)
def test_runs_of_scale_laptop_have_the_ids_under_which_they_are_recorded(number):
    defence, seed, changed = LAPTOP[number]
    assert registry.training("laptop", defence, seed, **changed).id == number
    (spec,) = registry.request("defences", "laptop", seeds=[seed], defences=[defence], **changed).specs
    assert spec.id == number


def test_sections_ask_for_the_recorded_runs_of_scale_laptop():
    asked = {spec.id for name in registry.SECTIONS for spec, _ in registry.request(name, "laptop").pairs}
    plain = {number for number, (_, _, changed) in LAPTOP.items() if not changed}
    # The second seed of the standard network belongs to sections with all seeds.
    assert plain <= asked


def test_options_are_merged_by_name_and_other_fields_replaced():
    layers = {"lr": 0.1, "attack_options": {"steps": 3}}, {"attack_options": {"target": 3}}, {"lr": 0.2, "options": {"beta": 1}}
    assert merged(*layers) == {"lr": 0.2, "attack_options": {"steps": 3, "target": 3}, "options": {"beta": 1}}
    assert layers[0]["attack_options"] == {"steps": 3}


def test_options_of_scale_paper_section_variant_take_precedence_in_this_order(monkeypatch):
    run = {"dataset": "digits", "eps": "0.2", "options": {"beta": 1, "form": "scale"}}
    monkeypatch.setitem(scales.SCALES, "made", Scale(run, (0,), 1, inner_attack={"steps": 3}, paper_recipes=True))
    monkeypatch.setitem(scales.OTHER_DATASETS, "made", {})
    recipe = Recipe({"options": {"beta": 2, "paper": 2}}, {"trades": {"attack_options": {"steps": 4}}})
    section = Section(
        title="",
        defences=("trades", "standard"),
        run={"options": {"paper": 3, "section": 3}},
        variants=lambda scale, plain: [{"options": {"section": 4, "beta": 4}}],
    )
    with_steps, without = requested(section, "made/1", "made", recipe, Choices()).specs
    assert dict(with_steps.options) == {"beta": 4, "form": "scale", "paper": 3, "section": 4}
    assert (dict(with_steps.attack_options), dict(without.attack_options)) == ({"steps": 4}, {})


def _made(monkeypatch, eps):
    """A scale with recipes of papers and a radius."""
    monkeypatch.setitem(scales.SCALES, "made", Scale({"dataset": "digits", "eps": eps}, (0,), 1, paper_recipes=True))
    monkeypatch.setitem(scales.OTHER_DATASETS, "made", {})


def test_attacks_are_evaluated_at_multiples_of_the_radius_of_the_scale_and_clean_images_once(monkeypatch):
    _made(monkeypatch, "8/255")
    section = Section(
        title="", defences=("pgd-at",), evaluations=CLEAN_AND_PGD, at=("1", "3/2"), variants=lambda scale, plain: [{"eps": "0.1"}]
    )

    def radii(**chosen):
        given = requested(section, "made/1", "made", Recipe(), Choices(**chosen))
        return [spec.eps for spec in given.specs], [(one.attack, one.eps) for one in given.evaluations]

    assert radii() == (["0.1"], [("clean", "8/255"), ("pgd-20", "8/255"), ("pgd-20", "12/255")])
    # Those of another radius of the scale; and the reader's radius in place of all.
    assert radii(fields={"eps": "0.2"})[1] == [("clean", "0.2"), ("pgd-20", "0.2"), ("pgd-20", "0.3")]
    assert radii(eval_eps="0.4")[1] == [("clean", "0.4"), ("pgd-20", "0.4")]


def test_margins_are_multiples_of_the_radius_of_the_recipe_measured_at_that_radius(monkeypatch):
    _made(monkeypatch, "0.5")
    section = Section(
        title="", defences=("pgd-at",), variants=variants.by_scale(variants.margins("1/2", "1", "3/2"), other=variants.unvaried)
    )
    specs = requested(section, "made/1", "made", Recipe({"eps": "8/255"}), Choices()).specs
    assert [(spec.eps, spec.probe_eps) for spec in specs] == [("4/255", "8/255"), ("8/255", None), ("12/255", "8/255")]
    assert specs[1] == replace(specs[0], eps="8/255")
    assert section.variants("other", specs[0]) == ({},)


def test_weights_of_cfa_and_trades_are_options():
    plain = registry.training("quick", "trades-ccm", 0)
    assert [dict(one["options"]) for one in variants.betas(1, 3)("quick", plain)] == [{"beta": 1}, {"beta": 3}]
    assert [dict(one["options"]) for one in variants.lambdas("lambda1", 0.3)("quick", plain)] == [{"lambda1": 0.3}]


def test_scales_reduce_the_steps_of_every_defence_that_takes_some():
    steps = {name: getattr(attacks.build(one.attack), "steps", 1) if one.attack else 0 for name, one in defences.DEFENCES.items()}
    assert {name for name, number in steps.items() if number <= 1} == set(scales.WITHOUT_STEPS)


@pytest.mark.parametrize("scale", ["quick", "laptop"])
def test_friendly_pgd_of_constant_tau_stops_earlier_than_pgd(scale):
    for name in ("fat-constant", "fat-ccm", "fat-cfa"):
        options = registry.training(scale, name, 0).attack_options
        assert options["tau"] / options["steps"] == pytest.approx(3 / 10, abs=0.05)


def test_normalised_defences_are_those_by_a_normalised_loss():
    normalised = {name for name, one in defences.DEFENCES.items() if getattr(one.objective, "normalised", False)}
    assert normalised == set(scales.NORMALISED)
