"""The page on section 5.3: grids, gains, comparisons with uniform settings, and sentences."""

import numpy as np
import pytest
import xarray as xr
from claim_answers import ALONG, outcomes_with
from mocks import dataset

from classwise.core.errors import NotRecorded
from classwise.papers.wei2023 import ablation, methods, sentences_ablation
from classwise.papers.wei2023.calibrations import WITHOUT
from classwise.stats import calibrations, metrics


def table(**right):
    """Return rows of the tables under a strong attack, of one seed; names as in AT_CCM_EMA."""
    names = {name.replace("_", " + "): value for name, value in right.items()}
    data = outcomes_with({(name, "cr"): value for name, value in names.items()})
    return data.expand_dims(seed=[0])


def test_all_cells_of_the_grid_are_rows_of_the_methods():
    names = {
        ablation.row_of(method, calibration, averaging)
        for method in ("AT", "TRADES", "FAT")
        for calibration in ("uniform", "calibrated")
        for averaging in ("none", "EMA", "FAWA")
    }
    assert len(names) == 18
    assert names <= set(methods.METHODS)
    assert {"AT", "AT + FAWA", "AT + CCM + EMA", "AT + CFA", "TRADES + CCM + CCR"} <= names


def test_a_grid_has_the_values_and_their_differences_from_the_method_itself():
    rows = table(AT=50, AT_EMA=55, AT_CCM=60, AT_CFA=70, FAT=40, FAT_CFA=30).isel(attack=0, drop=True)
    values, change = ablation.factorial(rows, metrics.overall)
    assert values.method.values.tolist() == ["AT", "FAT"]
    assert np.array_equal(values.sel({"method": "AT"}), [[50, 55, np.nan], [60, np.nan, 70]], equal_nan=True)
    assert float(change.sel({"method": "FAT"}).sel(calibration="calibrated", averaging="FAWA", bound="value")) == -10
    assert change.sel(bound="value").isel(calibration=0, averaging=0).values.tolist() == [0, 0]
    with pytest.raises(NotRecorded, match="without a component"):
        ablation.factorial(rows.sel(defence=["AT + CCM"]), metrics.overall)


def test_gains_stand_next_to_those_of_the_paper():
    rows = table(AT=50, AT_EMA=55, AT_FAWA=54, AT_CCM=60, TRADES_CCM=60).isel(attack=0, drop=True)
    gains = ablation.component_gains(rows)
    assert gains.index.tolist() == ["AT + CCM", "AT + FAWA"]
    assert gains["compared with"].tolist() == ["AT", "AT + EMA"]
    assert gains["all images, points"].str.split(" ").str[0].tolist() == ["10.0", "-1.0"]
    assert gains["all images, theirs"].tolist() == ["0.9", "-0.3"]
    assert gains["worst class, theirs"].tolist() == ["2.7", "1.8"]
    with pytest.raises(NotRecorded, match="differ in a component"):
        ablation.component_gains(rows.sel(defence=["AT", "TRADES + CCM"]))


def compared(calibrated, mean="1.25"):
    known = {("pgd-at", "pgd-20", name): value for name, value in (("1/2", 20), ("1", 40), ("3/2", 80))}
    return outcomes_with(known | {("at-ccm", "pgd-20", mean): calibrated}, along=(*ALONG, "setting")).expand_dims(seed=[0])


def test_networks_are_placed_by_their_mean_setting():
    placed = ablation.networks(compared(70))
    assert placed.network.values.tolist() == ["1/2", "1", "3/2", "at-ccm"]
    assert placed.place.values.tolist() == [0.5, 1, 1.5, 1.25]
    assert placed.uniform.values.tolist() == [True, True, True, False]
    assert (placed.truth >= 0).all()


def test_offsets_are_swept_next_to_the_method_without_them():
    data = outcomes_with(
        {(name, "at-ccm", "pgd-20"): right for name, right in ((WITHOUT, 50), ("0.3", 60), ("0.5", 70))},
        along=("lambda1", *ALONG),
    )
    swept, without = ablation.sweeps({"lambda1": data.expand_dims(seed=[0])})
    assert list(swept) == ["lambda1, all images", "lambda1, worst class"]
    assert swept["lambda1, all images"].sel(bound="value").to_series().to_dict() == {"0.3": 60, "0.5": 70}
    assert float(without["lambda1, worst class"].sel(bound="value")) == 50


@pytest.mark.parametrize(
    ("both", "words"),
    [
        (90, "CFA makes the worst class of AT more robust"),
        (20, "CFA makes the worst class of AT less robust"),
        (60, "Whether CFA makes the worst class of AT more robust is open"),
    ],
)
def test_the_finding_says_what_is_certain(both, words):
    text = sentences_ablation.components(table(AT=60, AT_CCM=62, AT_FAWA=50, AT_CFA=both), "cr")
    assert text.startswith(f"**{words}")
    assert f"(AT + CFA) change its robust accuracy under cr by {both - 60} points" in text
    assert "AT + CCM alone by 2 points" in text
    assert "AT + FAWA alone by -10 points" in text
    with pytest.raises(NotRecorded):
        sentences_ablation.components(table(AT=60, AT_CCM=62), "cr")


def history(taken=((True, True, True), (True, False, True))):
    """Return a history of three epochs that EMA took, and FAWA but for some."""
    data = dataset(epochs=3).expand_dims(defence=["at-ccm"], seed=[0])
    array = np.array(taken).T[None, None]
    return data.assign(taken=(("defence", "seed", "epoch", "average"), array)).assign_coords(average=["ema", "fawa"])


def test_rejected_epochs_are_counted_with_their_weight():
    text = sentences_ablation.rejected(history())
    assert "rejected** 1 of 3 epochs of at-ccm" in text
    assert f"{100 * 0.15 * 0.85:.2g} % of the weight" in text
    first = sentences_ablation.rejected(history(((True, True, True), (False, True, True))))
    assert f"{100 * 0.85**2:.2g} % of the weight" in first


def test_late_settings_are_given_by_group():
    data = outcomes_with({("at-ccm", "pgd-20"): 60}).expand_dims(seed=[0])
    multiple = np.where(np.arange(10) == 3, 0.7, np.where(np.arange(10) > 6, 1.4, 1.1))
    data = data.assign(radius=(("defence", "seed", "predicted"), multiple[None, None]))
    marks = {"hard": np.isin(np.arange(10), [3, 4]), "easy": np.isin(np.arange(10), [7, 8])}
    data = data.assign_coords({name: ("predicted", mark) for name, mark in marks.items()})
    text = sentences_ablation.late_settings(data, "at-ccm", "radius")
    assert "hard classes (3, 4) 0.70 to 1.10 times" in text
    assert "easy classes (7, 8) 1.40 to 1.40 times" in text
    assert "1 of 10 classes have less" in text


def test_the_offset_is_recovered_from_the_recorded_settings():
    data = dataset(epochs=4).expand_dims(defence=["at-ccm"], seed=[0])
    t = calibrations.training_accuracy(data)
    radius = xr.concat([0 * t.isel(epoch=0) + 1, *(t.isel(epoch=place) + 0.35 for place in range(3))], "epoch").transpose(*t.dims)
    data = data.assign(radius=(t.dims, 0.2 * radius.values))
    accuracy, offsets = ablation.recorded_rule({"radius": data}, "digits")
    assert offsets == {"at-ccm, radius": 0.35}
    assert accuracy.dims[0] == "network"
    assert accuracy.hard.values.any()
    text = sentences_ablation.settling(data, "at-ccm", "radius")
    assert text.startswith("**at-ccm, radius**: from one epoch to the next")
