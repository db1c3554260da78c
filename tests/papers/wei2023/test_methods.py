"""Methods as trainings and checkpoints."""

import numpy as np
import pytest
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.papers import overview
from classwise.papers.wei2023 import methods
from classwise.papers.wei2023.robustness_and_fairness import COMPARISONS
from classwise.papers.wei2023.tables import TABLES


def trained(defences, checkpoints, lacking=()):
    """Return outcomes whose answer numbers the training and the checkpoint; of those in `lacking` nothing was asked."""
    sizes = {"defence": len(defences), "seed": 1, "attack": 1, "checkpoint": len(checkpoints), "image": 4}
    answer = np.arange(sizes["defence"] * sizes["checkpoint"]).reshape(sizes["defence"], 1, 1, -1, 1)
    answer = np.broadcast_to(answer, tuple(sizes.values())).astype("i2").copy()
    truth = np.zeros_like(answer)
    for defence, checkpoint in lacking:
        truth[defences.index(defence), :, :, checkpoints.index(checkpoint)] = -1
    data = {
        name: (tuple(sizes), value)
        for name, value in (("truth", truth), ("prediction", answer), ("misclassified", truth != answer))
    }
    coords = {"defence": defences, "attack": ["cr"], "checkpoint": checkpoints, "seed": [0], "predicted": ["0"]}
    return xr.Dataset(data, coords, {"scale": "quick"})


DEFENCES = ["pgd-at", "at-ccm", "frl-rmrw"]
CHECKPOINTS = ["last", "ema", "fawa"]


def test_rows_are_trainings_and_checkpoints_in_the_order_of_the_tables():
    found = methods.name_methods(trained(DEFENCES, CHECKPOINTS, [("frl-rmrw", "fawa"), ("at-ccm", "ema")]))
    assert "checkpoint" not in found.dims
    assert found.attrs == {"scale": "quick", "refused": {}}
    answers = {str(name): int(found.prediction.sel(defence=name).isel(image=0).squeeze()) for name in found.defence.values}
    assert answers == {"AT": 0, "AT + EMA": 1, "AT + FAWA": 2, "AT + CCM": 3, "AT + CFA": 5, "FRL": 6, "FRL + EMA": 7}


def test_an_average_that_no_epoch_entered_is_no_row():
    trainings = trained(DEFENCES, CHECKPOINTS)
    at_ccm = {"defence": "at-ccm", "checkpoint": "fawa"}
    trainings.prediction.loc[at_ccm] = trainings.prediction.sel(at_ccm | {"checkpoint": "last"})
    found = methods.name_methods(trainings)
    assert {"AT + FAWA", "AT + CCM"} <= set(found.defence.values)
    assert "AT + CFA" not in found.defence
    assert found.attrs["refused"] == {"AT + CFA": "FAWA gave no average"}
    assert "at-cfa" not in overview.add_cfa(trained(["standard"], ["last"]), trainings).defence.values


def test_best_epochs_are_of_the_same_methods():
    found = methods.name_methods(trained(DEFENCES, ["last", "best", "best-ema", "best-fawa"]), best=True)
    answers = {str(name): int(found.prediction.sel(defence=name).isel(image=0).squeeze()) for name in found.defence.values}
    assert {name: answers[name] for name in ("AT", "AT + EMA", "AT + CFA")} == {"AT": 1, "AT + EMA": 2, "AT + CFA": 7}


def test_without_averages_there_are_the_last_weights():
    found = methods.name_methods(trained(DEFENCES, ["last"]).squeeze("checkpoint", drop=True))
    assert found.defence.values.tolist() == ["AT", "AT + CCM", "FRL"]
    with pytest.raises(NotRecorded, match="no method of Tables 1 to 3"):
        methods.name_methods(trained(["mart"], ["last"]))


def test_every_row_of_the_tables_is_a_method():
    printed = {str(name) for table in (1, 2, 3, 4) for name in TABLES.load(table).defence.values}
    assert printed <= set(methods.METHODS)
    assert list(TABLES.load(1).defence.values) == list(methods.COMPARED)
    assert {name for pair in COMPARISONS for name in pair} <= set(methods.COMPARED)
    further = {"AT + CCM + EMA", "TRADES + CCM + CCR + EMA", "FAT + CCM + EMA"}
    assert set(methods.METHODS) - printed == further


def test_the_page_of_the_defences_has_the_rows_of_cfa_that_are_there():
    data, cfa = trained(["standard", "pgd-at"], ["last"]), trained(DEFENCES, CHECKPOINTS, [("at-ccm", "fawa")])
    found = overview.add_cfa(data.squeeze("checkpoint", drop=True), cfa)
    answers = {str(name): int(found.prediction.sel(defence=name).isel(image=0).squeeze()) for name in found.defence.values}
    assert answers == {"standard": 0, "pgd-at": 1, "at-ccm": 3, "at-ema": 1, "at-fawa": 2}


def test_a_history_belongs_to_every_checkpoint_of_a_training():
    history = xr.Dataset({"seconds": (("defence", "epoch"), [[1.0, 2.0], [3.0, 4.0]])}, {"defence": ["pgd-at", "at-ccm"]})
    found = overview.add_cfa(history.sel(defence=["pgd-at"]), history)
    assert found.seconds.sum("epoch").to_series().to_dict() == {"pgd-at": 3, "at-ccm": 7, "at-cfa": 7, "at-ema": 3, "at-fawa": 3}
