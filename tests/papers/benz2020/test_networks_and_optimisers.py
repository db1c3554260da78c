"""Section 3.1 of Benz et al.: networks, optimisers, schedules and weight decays."""

from itertools import pairwise

import mocks
import numpy as np
import xarray as xr
from claim_answers import UP, outcomes_with

from benchmarks import convergence
from classwise.core.datasets import class_names
from classwise.papers import registry, say
from classwise.papers.benz2020 import networks, networks_and_optimisers
from classwise.stats import bootstrap

ALONG = ("defence", "attack", "setting")
EVEN = 60
# So many images that chance moves equal classes by less than a point.
MANY = 40


def attacked(*tables, times=1):
    """Return networks by their answers under attack; the other answers say the opposite."""
    cells = {("pgd-at", "pgd-20", f"network {place}"): table for place, table in enumerate(tables)}
    cells |= {("pgd-at", "clean", f"network {place}"): EVEN if np.ndim(table) else UP for place, table in enumerate(tables)}
    return outcomes_with(cells, along=ALONG, times=times)


def trained(*rows):
    """Return networks from the answers of standard and adversarial training on clean images, and of the latter under attack."""
    keys = ("standard", "clean"), ("pgd-at", "clean"), ("pgd-at", "pgd-20"), ("standard", "pgd-20")
    cells = {}
    for place, tables in enumerate(rows):
        cells |= {(*key, f"network {place}"): table for key, table in zip(keys, (*tables, EVEN), strict=True)}
    return outcomes_with(cells, along=ALONG)


WIDER, NARROWER = (90, UP, 60), (UP, 90, 60)
UNDER_ATTACK, NOT_UNDER_ATTACK = (90, 90, UP), (UP, UP, 60)
UNEQUAL = ([attacked(UP, UP[::-1])], [attacked(UP, EVEN, times=MANY), attacked(EVEN, EVEN, times=MANY)])
EXTREMES = {
    **dict.fromkeys(("discrepancy-in-each-network", "discrepancy-in-each-training"), UNEQUAL),
    "wider-in-each-network-clean": ([trained(WIDER, WIDER)], [trained(WIDER, NARROWER), trained(NARROWER, NARROWER)]),
    "wider-in-each-network": (
        [trained(UNDER_ATTACK, UNDER_ATTACK)],
        [trained(UNDER_ATTACK, NOT_UNDER_ATTACK), trained(NOT_UNDER_ATTACK, NOT_UNDER_ATTACK)],
    ),
}

REFUSED = [(name, data[0].isel(setting=[0]), "the claim is about several") for name, (data, _) in EXTREMES.items()]


def test_each_network_has_a_name_of_its_own_among_the_trainings_that_are_compared():
    named = convergence.trainings("short")
    asked = [spec for spec, _ in registry.request(networks_and_optimisers.NAME, "short").pairs if spec.seed == 0]
    names = {name for name, spec in named.items() if spec in asked}
    models_of = {spec.model for spec in asked}
    with_model = {name for name in names if "model=" in name}
    assert {name for name in names for model in models_of if f"model={model}" in name} == with_model
    assert len(named) == len({spec.id for spec in named.values()})
    assert any("optimiser=adam" in name for name in names)
    assert any("weight_decay=0.005" in name for name in names)


def folds(rates, seeds=2):
    """Return outcomes of a fold for each seed: right with these rates (setting, attack, class) of clean and attacked images."""
    coords = {"setting": [f"network {place}" for place in range(len(rates))], "attack": ["clean", "pgd-20"]}
    rates = xr.DataArray(np.array(rates), coords | {"label": list(class_names("digits"))}, ("setting", "attack", "label"))
    return mocks.folds(rates, seeds=seeds).expand_dims(defence=["pgd-at"])


GOOD = np.array([np.full(10, 0.9), np.linspace(0.3, 0.9, 10)])
COLLAPSED = np.array([np.eye(10)[3], np.eye(10)[3]])


def test_a_network_with_one_answer_has_not_learned():
    data = folds([GOOD, COLLAPSED])
    assert networks.is_above_chance(data).values.tolist() == [True, False]
    assert networks.only_learned(data).setting.values.tolist() == ["network 0"]


def test_folds_are_taken_as_one_set_of_images():
    data = folds([GOOD, GOOD[::-1]], seeds=3)
    given = networks.merge_seeds(data)
    assert given.sizes["seed"] == 1
    assert int((given.truth >= 0).isel(setting=0, defence=0, attack=0).sum()) == 3 * 200
    sums = [bootstrap.sums(some, {})["count"] for some in (data, given)]
    assert np.array_equal(sums[0].transpose(*sums[1].dims), sums[1])
    fixed = "so the intervals of charts do not cover other training runs."
    assert say.sample(given) == f"We tested 3 networks of each setting on 600 images, {fixed}"
    assert say.sample(given.assign_attrs(runs=1)) == f"We tested one network of each setting on 600 images, {fixed}"
    shared = data.isel(image=slice(0, 200), seed=[0, 0]).assign_coords(seed=[0, 1])
    assert networks.merge_seeds(shared).identical(shared)


def test_settings_have_the_seeds_that_all_adversarial_trainings_have():
    one, other = (folds([GOOD]).isel(setting=0, drop=True) for _ in range(2))
    twin = one.assign_coords(defence=["standard"])
    data = networks.stack_settings("base", ("first", "second", "third"), one, other.isel(seed=[1]), None, other, twin)
    assert data.setting.values.tolist() == ["base", "first", "third"]
    assert data.seed.values.tolist() == [1]
    present = (data.truth >= 0).any(["attack", "seed", "image"])
    assert present.sel(defence="standard").values.tolist() == [False, True, False]
    assert present.sel(defence="pgd-at").all()


def test_the_gap_is_compared_with_that_of_standard_training():
    data = trained(WIDER, NARROWER).expand_dims(seed=[0])
    changes = networks_and_optimisers.changes(data)
    expected = [63, -63]
    assert np.allclose(changes.sel(bound="value", attack="clean"), expected)
    assert all(low <= high for low, high in pairwise(changes.sel(attack="clean", setting="network 0").values))


def test_what_was_trained_is_a_row_for_each_setting():
    table = networks.training_table(registry.request(networks_and_optimisers.NAME))
    assert table.index[0] == "small CNN"
    assert table.loc[networks.ADAM, "optimiser"] == "adam"
    assert set(table["network"]) == {"small-cnn", "lenet", "vgg16", "resnet18"}
