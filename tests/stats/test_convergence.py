import numpy as np
import pytest
import texts
import xarray as xr

from classwise.charts import tables
from classwise.papers import findings
from classwise.stats import convergence
from tests import mocks


def compared(once, twice, **how):
    """Return a mock comparison whose networks are right with the given chances after the training, and after twice the epochs."""
    data = mocks.dataset("convergence 1", per_class=100, **how).copy(deep=True)
    rng = np.random.default_rng(1)
    for number, name in enumerate(data.training.values):
        for epochs, chance in (("once", once[number]), ("twice", twice[number])):
            truth = data.truth.sel(training=name, epochs=epochs)
            wrong = (truth + 1) % data.sizes["predicted"]
            data.prediction.loc[{"training": name, "epochs": epochs}] = truth.where(rng.random(truth.shape) < chance, wrong)
    return data


def changes(once, twice):
    return convergence.comparison(compared(once, twice))


def test_the_comparison_is_that_of_the_robust_accuracies():
    data = compared((0.5, 0.7), (0.52, 0.8))
    changes = convergence.comparison(data)
    assert changes.epochs.values.tolist() == data.number.sel(epochs="once").values.tolist()
    columns = {name: column for name, column in changes.data_vars.items() if name != "epochs"}
    right = 100 * (data.prediction == data.truth).mean(["seed", "image"])
    value = {name: column.sel(bound="value") for name, column in columns.items()}
    assert value["overall"].values == pytest.approx(right.sel(epochs="once").values)
    assert value["gain"].values == pytest.approx((right.sel(epochs="twice") - right.sel(epochs="once")).values)
    for column in columns.values():
        assert (column.sel(bound="low") <= column.sel(bound="value")).all()
        assert (column.sel(bound="value") <= column.sel(bound="high")).all()
    right_of_class = (data.prediction == data.truth).where(data.truth == xr.DataArray(range(10), dims="label"))
    worst = 100 * right_of_class.mean(["seed", "image"]).min("label")
    assert value["worst"].values == pytest.approx(worst.sel(epochs="once").values)
    assert value["worst_gain"].values == pytest.approx((worst.sel(epochs="twice") - worst.sel(epochs="once")).values)


def test_a_network_that_gains_more_than_three_points_has_not_converged():
    assert convergence.unconverged_trainings(changes((0.5, 0.5), (0.51, 0.6))) == ["trades"]
    assert convergence.unconverged_trainings(changes((0.5, 0.5), (0.4, 0.45))) == []


def test_the_table_and_the_sentence_say_the_same():
    data = changes((0.5, 0.5), (0.51, 0.6))
    table = tables.convergence_table(data)
    assert list(table["epochs"]) == data.epochs.values.tolist()
    gain = data["gain"].sel(bound="value", training="pgd-at")
    assert table.loc["pgd-at", "gain by twice the epochs, points"].startswith(f"{float(gain):.1f} [")
    some = data, changes((0.5, 0.5), (0.3, 0.5))
    texts.check("convergence", *(findings.convergence_finding(one.assign_attrs(dataset="digits")) for one in some))
