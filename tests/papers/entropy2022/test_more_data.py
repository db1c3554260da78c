"""Appendix A.3: two normalisations."""

import numpy as np
import pytest
import safetensors.numpy
from claim_answers import outcomes_with

from classwise import runs
from classwise.core.errors import UserError
from classwise.papers import registry
from classwise.papers.entropy2022 import more_data
from classwise.stats import bootstrap


def trained(batch, both, defence="me-trades", attack="cr"):
    """Return outcomes of the two normalisations from their clean and robust accuracies."""
    keys = {}
    for layer, rates in zip(more_data.LAYERS, (batch, both), strict=True):
        keys |= {(defence, name, layer): rate for name, rate in zip(("clean", attack), rates, strict=True)}
    return outcomes_with(keys, along=("defence", "attack", "layer"))


def two(plain, entropy):
    return outcomes_with({("rst", "autoattack"): plain, ("me-rst", "autoattack"): entropy})


# Both better; one of the two worse.
BETTER, WORSE = ((80, 40), (95, 60)), [((80, 60), (95, 40)), ((95, 40), (80, 60))]
EXTREMES = {
    "normalisation": ([trained(*BETTER)], [trained(*some) for some in WORSE]),
    "normalisation-with-more-images": (
        [trained(*BETTER, "me-rst", "autoattack")],
        [trained(*some, "me-rst", "autoattack") for some in WORSE],
    ),
    "entropy-with-more-images": ([two(40, 60)], [two(60, 40)]),
}


def test_points_are_those_that_the_new_normalisation_adds():
    count = bootstrap.sums(trained((80, 40), (95, 60)).expand_dims(seed=[0]), {})["count"].isel(defence=0, drop=True)
    for images_of in ("all classes", "the worst class"):
        points = more_data.gains(count).sel(images_of=images_of, attack=["clean", "cr"])
        assert points.values == pytest.approx([15, 20])


def test_table_5_has_ranks_and_differences_to_rst():
    table = more_data.table_5()
    assert list(table["rank"]) == [1, 2, 3, 5, 7, 8, 6, 4]
    assert table.loc["me-rst with BIN", "AutoAttack, against RST"] == "+0.84"
    assert table.loc["rst", "clean, against RST"] == "+0.00"
    assert table.index[0] == "Gowal et al. (2020)"
    assert more_data.printed_standard_error() == pytest.approx(0.49, abs=0.005)


def test_gates_are_read_from_the_weights(data):
    """Of a trained network: as its file holds them, in the order of the layers."""
    spec = registry.training("quick", "standard", 0, layer="batch-instance", epochs=1, measure=1)
    gates = runs.gates(spec)
    stored = safetensors.numpy.load_file(data / spec.folder / "weights.safetensors")
    held = {name: value for name, value in stored.items() if name.endswith("gate")}
    assert gates.sizes["layer"] == len(held) == 3
    for layer, name in zip(gates.layer.values, sorted(held, key=lambda one: int(one.split(".")[-2])), strict=True):
        row = gates.sel(layer=layer).values
        np.testing.assert_array_equal(row[~np.isnan(row)], held[name])
    assert float(gates.min()) >= 0
    assert float(gates.max()) <= 1
    assert float(gates.min()) < 1
    with pytest.raises(UserError, match="has no gates: layer='batch'"):
        runs.gates(registry.training("quick", "standard", 0, epochs=1, measure=1))
