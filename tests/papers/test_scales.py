from dataclasses import replace

import pytest

from classwise import attacks, defences
from classwise.papers import registry, scales, variants
from classwise.papers.scales import Recipe, Scale, merge
from classwise.papers.sections import CLEAN_AND_PGD, Section, resolve_request
from classwise.runs import load
from classwise.runs.compute import validate

SHARED = ("averages", "measure", "select")
# By defence, the images of a training at scale matched where they are not 200 epochs of 3,200.
IMAGES = {"csr": 2 * 49_000, "free-at": 200 * 1_216}
# After which epoch of 200 a part of a defence begins: averages and late weights as printed, FRL for 40 epochs.
SHARES = ("warm_up", "average_from", "weigh_from", "calibrate_from")
BEGINS = {key: {"average_from": 50} for key in ("at-fawa", "at-cfa", "trades-cfa", "fat-cfa")}
BEGINS |= {key: {"warm_up": 160} for key in ("frl-rw", "frl-rmrw")} | {"dafa": {"warm_up": 127}}
BEGINS |= {"ldam": {"weigh_from": 200}, "ldam-drw": {"weigh_from": 160}}


@pytest.mark.parametrize("scale", ["laptop", "matched"])
def test_one_training_of_a_recorded_scale_serves_all_its_readers(scale):
    specs = {spec for name in registry.SECTIONS for spec, _ in registry.request(name, scale).pairs}
    plain = dict.fromkeys(SHARED) | {"averages": (), "measure": 1, "keep_last": 1}
    assert len({replace(spec, **plain) for spec in specs}) == len(specs)
    # What a reader chooses is trained, also where a section may not choose it.
    chosen, *_ = registry.request("defences", scale, defences=["pgd-at"], measure=1, averages=()).specs
    assert (chosen.measure, chosen.averages, chosen.renewed) == (1, (), False)


@pytest.mark.parametrize("defence", defences.DEFENCES)
def test_defences_at_the_level_of_the_papers_see_as_many_images(defence):
    spec = registry.training("matched", defence, 0)
    validate.check(spec, [str(spec.warm_start)])
    assert spec.epochs * (spec.epoch_images or validate.size_of("cifar10").train) == IMAGES.get(defence, 640_000)
    assert spec.half
    parts = vars(defences.build(defence, spec.options)).values()
    begins = {name: round(200 * getattr(part, name)) for part in parts for name in SHARES if getattr(part, name, 0)}
    assert begins == BEGINS.get(defence, {})


def test_every_training_at_the_level_of_the_papers_is_on_cifar10_at_half_their_radius():
    pairs = [pair for name in registry.SECTIONS for pair in registry.request(name, "matched").pairs]
    forms = {(spec.dataset, spec.model, spec.half, spec.precision) for spec, _ in pairs}
    assert forms == {("cifar10", "resnet10-s2", True, "float32")}
    assert {spec.eps for spec, _ in pairs if spec.probe_eps is None} == {"4/255"}
    strong = {(one.per_class, one.classes) for _, some in pairs for one in some if one.attack == "strong"}
    assert strong == {(100, ()), (None, ("bird", "cat", "deer"))}


def test_options_are_merged_by_name_and_other_fields_replaced():
    layers = {"lr": 0.1, "attack_options": {"steps": 3}}, {"attack_options": {"target": 3}}, {"lr": 0.2, "options": {"beta": 1}}
    assert merge(*layers) == {"lr": 0.2, "attack_options": {"steps": 3, "target": 3}, "options": {"beta": 1}}
    assert layers[0]["attack_options"] == {"steps": 3}


def test_options_of_scale_paper_section_variant_take_precedence_in_this_order(monkeypatch):
    run = {"dataset": "digits", "eps": "0.2", "options": {"beta": 1, "form": "scale"}}
    monkeypatch.setitem(scales.SCALES, "made", Scale(run, (0,), inner_attack={"steps": 3}, paper_recipes=True))
    monkeypatch.setitem(scales.OTHER_DATASETS, "made", {})
    recipe = Recipe({"options": {"beta": 2, "paper": 2}}, {"trades": {"attack_options": {"steps": 4}}})
    section = Section(
        title="",
        defences=("trades", "standard"),
        run={"options": {"paper": 3, "section": 3}},
        variants=lambda scale, plain: [{"options": {"section": 4, "beta": 4}}],
    )
    with_steps, without = resolve_request(section, "made/1", "made", recipe).specs
    assert dict(with_steps.options) == {"beta": 4, "form": "scale", "paper": 3, "section": 4}
    assert (dict(with_steps.attack_options), dict(without.attack_options)) == ({"steps": 4}, {})


def _made(monkeypatch, eps):
    """A scale with recipes of papers and a radius."""
    monkeypatch.setitem(scales.SCALES, "made", Scale({"dataset": "digits", "eps": eps}, (0,), paper_recipes=True))
    monkeypatch.setitem(scales.OTHER_DATASETS, "made", {})


def test_attacks_are_evaluated_at_multiples_of_the_radius_of_the_scale_and_clean_images_once(monkeypatch):
    _made(monkeypatch, "8/255")
    variant = {"variants": lambda scale, plain: [{"eps": "0.1"}]}
    section = Section(title="", defences=("pgd-at",), evaluations=CLEAN_AND_PGD, at=("1", "3/2"), **variant)

    def radii(**chosen):
        given = resolve_request(section, "made/1", "made", Recipe(), **chosen)
        return [spec.eps for spec in given.specs], [(one.attack, one.eps) for one in given.evaluations]

    assert radii() == (["0.1"], [("clean", "8/255"), ("pgd-20", "8/255"), ("pgd-20", "12/255")])
    # Those of another radius of the scale; and the reader's radius in place of all.
    assert radii(fields={"eps": "0.2"})[1] == [("clean", "0.2"), ("pgd-20", "0.2"), ("pgd-20", "0.3")]
    assert radii(eval_eps="0.4")[1] == [("clean", "0.4"), ("pgd-20", "0.4")]


def test_margins_are_multiples_of_the_radius_of_the_recipe_measured_at_that_radius(monkeypatch):
    _made(monkeypatch, "0.5")
    margins = variants.choose_by_scale(variants.margins("1/2", "1", "3/2"), other=variants.usual)
    section = Section(title="", defences=("pgd-at",), variants=margins)
    specs = resolve_request(section, "made/1", "made", Recipe({"eps": "8/255"})).specs
    assert [(spec.eps, spec.probe_eps) for spec in specs] == [("4/255", "8/255"), ("8/255", None), ("12/255", "8/255")]
    assert specs[1] == replace(specs[0], eps="8/255")
    assert section.variants("other", specs[0]) == ({},)


def test_weights_of_cfa_and_trades_are_options():
    plain = registry.training("quick", "trades-ccm", 0)
    assert [dict(one["options"]) for one in variants.options("beta", 1, 3)("quick", plain)] == [{"beta": 1}, {"beta": 3}]
    assert [dict(one["options"]) for one in variants.options("lambda1", 0.3)("quick", plain)] == [{"lambda1": 0.3}]


def test_scales_reduce_the_steps_of_every_defence_that_takes_some():
    steps = {name: getattr(attacks.build(one.attack), "steps", 1) if one.attack else 0 for name, one in defences.DEFENCES.items()}
    assert {name for name, number in steps.items() if number <= 1} == set(scales.WITHOUT_STEPS)


def test_a_defence_that_fine_tunes_starts_from_the_run_of_its_base():
    for scale in scales.SCALES:
        by_name = {(spec.defence, spec.seed): spec for spec in registry.request("defences", scale, seeds=[0, 1]).specs}
        for name, base in scales.FINE_TUNED.items():
            assert all(by_name[name, seed].warm_start == by_name[base, seed].id for seed in (0, 1))
            assert (by_name[name, 0].epochs, by_name[name, 0].schedule) == (2, "constant")
            assert defences.baseline_of(name) == base


def test_normalised_defences_are_those_by_a_normalised_loss():
    normalised = {name for name, one in defences.DEFENCES.items() if getattr(one.objective, "normalised", False)}
    assert normalised == set(scales.NORMALISED)


def dimensions(request):
    """Return the dimensions of the results of a request without its parts, None where it has none."""
    pairs = replace(request, parts={}).pairs
    return set().union(*load._keys(pairs).values()) if any(some for _, some in pairs) else None


@pytest.mark.parametrize("section", registry.SECTIONS)
def test_recorded_scales_have_results_along_the_same_dimensions(section):
    """Averages with new statistics, and epochs of other lengths, belong to a defence: results are not compared along them."""
    known, other = (registry.request(section, scale) for scale in ("laptop", "matched"))
    pairs = [(known, other), *((known.parts[name], part) for name, part in other.parts.items() if name in known.parts)]
    both = [tuple(map(dimensions, some)) for some in pairs]
    assert all(one == two for one, two in both if one and two)
