"""Wei et al. 2023, section 5.3: gains of the components, and networks over the mean setting of their classes."""

from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd
import xarray as xr

from classwise.charts.style import titled, wide_bounds
from classwise.core.errors import NotRecorded
from classwise.core.markup import decimal
from classwise.papers.wei2023.calibrations import METHODS, WITHOUT, number_of, with_component
from classwise.papers.wei2023.classes import GROUPS, classes_of
from classwise.papers.wei2023.tables import TABLES
from classwise.stats import bootstrap, calibrations, intervals, metrics, pooling
from classwise.stats.metrics import Metric

MEASURES = (metrics.overall, metrics.worst)
NOT_IN_THE_PAPER = "Each grid begins with the method itself. The paper has all cells but those of calibrated settings with EMA."
# What is calibrated of each method: its name in Table 2.
_TERMS = {"AT": "CCM", "TRADES": "CCM + CCR", "FAT": "CCM"}
_CALIBRATION, _AVERAGING = ("uniform", "calibrated"), ("none", "EMA", "FAWA")
# Each row that has a component, and the row that lacks it: Table 2, then Table 3.
_COMPARED: Mapping[str, str] = {
    **{f"{method} + CCM": method for method in METHODS},
    "TRADES + CCR": "TRADES",
    "TRADES + CCM + CCR": "TRADES + CCR",
    **{f"{method} + FAWA": f"{method} + EMA" for method in METHODS},
}


def of_defence(history: xr.Dataset, defence: str) -> xr.Dataset:
    """Return the history of one defence, with the dimension defence; NotRecorded if it has no run."""
    if defence not in history.defence:
        raise NotRecorded(f"no run of {defence} is recorded")
    return history.sel(defence=[defence])


def row_of(method: str, calibration: str, averaging: str) -> str:
    """Return the name of the row of a method, "uniform" or "calibrated", with the averaging "none", "EMA" or "FAWA"."""
    term = _TERMS[method] if calibration == "calibrated" else ""
    if term and averaging == "FAWA":
        return with_component(method, "CFA")
    return with_component(with_component(method, term), "" if averaging == "none" else averaging)


def _grid(values: xr.DataArray) -> xr.DataArray:
    """Return values along defence, whose names are rows, along method, calibration and averaging; NaN for rows that lack."""
    axes = {"method": METHODS, "calibration": _CALIBRATION, "averaging": _AVERAGING}
    cells = values.reindex(defence=[row_of(*place) for place in product(*axes.values())]).transpose(..., "defence")
    rest = [str(dim) for dim in cells.dims if dim != "defence"]
    data = cells.values.reshape(*(cells.sizes[dim] for dim in rest), *map(len, axes.values()))
    coords = {dim: cells[dim].values for dim in rest} | {name: list(axis) for name, axis in axes.items()}
    grid = xr.DataArray(data, coords, (*rest, *axes), name=values.name)
    kept: xr.DataArray = grid.isel(method=grid.notnull().any([dim for dim in grid.dims if dim != "method"]).values)
    return kept


def factorial(rows: xr.Dataset, measure: Metric) -> tuple[xr.DataArray, xr.DataArray]:
    """Return a measure along method, calibration and averaging, and its difference from the plain method.

    The second has the further dimension bound ("low", "value", "high"). rows: outcomes of the rows of Tables 2 and 3 along
    defence, under one attack. NotRecorded if no method has its plain row.
    """
    present = set(map(str, rows.defence.values))
    names = {
        row: method
        for method in METHODS
        for row in (row_of(method, calibration, averaging) for calibration in _CALIBRATION for averaging in _AVERAGING)
        if {row, method} <= present
    }
    if not names:
        raise NotRecorded("no method of Tables 2 and 3 is recorded without a component")
    some = rows.sel(defence=list(names))
    values = measure(bootstrap.sums(some, {})["count"])
    return _grid(values), _grid(bootstrap.gains(some, names, measure))


def _printed(table: int, row: str, base: str, measure: str) -> str:
    values = TABLES.load(table)[measure].squeeze(drop=True)
    if not {row, base} <= set(values.defence.values):
        return ""
    return decimal(float(values.sel(defence=row) - values.sel(defence=base)), 1)


def component_gains(rows: xr.Dataset) -> pd.DataFrame:
    """Return what each component gains over the row that lacks it, ours with 95 % intervals and the paper's; Tables 2 and 3.

    rows: as for `factorial`. A line for each row whose counterpart is recorded.
    """
    present = set(map(str, rows.defence.values))
    names = {row: base for row, base in _COMPARED.items() if {row, base} <= present}
    if not names:
        raise NotRecorded("no two rows of Tables 2 and 3 that differ in a component are recorded")
    table = pd.DataFrame({"compared with": names}).rename_axis("method")
    for measure in MEASURES:
        title = titled(measure.__name__).partition(",")[0]
        bounds = wide_bounds(bootstrap.gains(rows, names, measure)).set_index("defence")
        ends = [bounds[end].map(lambda value: decimal(value, 1)) for end in ("value", "low", "high")]
        table[f"{title}, points"] = ends[0] + " [" + ends[1] + ", " + ends[2] + "]"
        number = {row: 3 if "FAWA" in row else 2 for row in names}
        table[f"{title}, theirs"] = [_printed(number[row], row, base, measure.__name__) for row, base in names.items()]
    return table


def networks(compared: xr.Dataset) -> xr.Dataset:
    """Return a comparison with uniform settings, which is along defence and setting, along network.

    network: the multiple of the usual setting, "3/2", of uniform networks, and the defence of the other. Its coordinates: place,
    the multiple as a number, and uniform, whether all classes have the same setting.
    """
    present = (compared.truth >= 0).any([dim for dim in compared.truth.dims if dim not in ("defence", "setting")])
    pairs = [
        (str(defence), str(setting))
        for defence in compared.defence.values
        for setting in compared.setting.values
        if bool(present.sel(defence=defence, setting=setting))
    ]
    uniform = pairs[0][0]
    names = [setting if defence == uniform else defence for defence, setting in pairs]
    parts = [compared.sel(defence=defence, setting=setting, drop=True) for defence, setting in pairs]
    joined = xr.concat(parts, pd.Index(names, name="network")).assign_attrs(compared.attrs)
    places = np.array([number_of(setting) for _, setting in pairs])
    return joined.assign_coords(place=("network", places), uniform=("network", [defence == uniform for defence, _ in pairs]))


def sweeps(compared: Mapping[str, xr.Dataset]) -> tuple[dict[str, xr.DataArray], dict[str, xr.DataArray]]:
    """Return the accuracy over all images and of the worst class for each offset, and without the calibration, with intervals.

    compared: by the name of an offset, "lambda1", outcomes of `section_5_3.by_offset`. By titles such as "lambda1, worst class".
    """
    swept, without = {}, {}
    for along, outcomes in compared.items():
        for measure in MEASURES:
            bounds = bootstrap.bootstrap(outcomes.isel(defence=0, attack=0, drop=True), measure)
            title = f"{along}, {titled(measure.__name__).partition(',')[0]}"
            swept[title], without[title] = bounds.drop_sel({along: WITHOUT}), bounds.sel({along: WITHOUT}, drop=True)
    return swept, without


def settings_and_accuracy(
    calibrated: Mapping[str, xr.Dataset], plain: Mapping[str, str]
) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray]:
    """Return what each class was trained with, and its accuracy and interval without the calibration, along network and label.

    calibrated: by the name of a setting, outcomes of `section_5_3.marked`, of two defences: without and with the calibration.
    plain: by the same names, the first of them.
    """
    multiples: list[xr.DataArray] = []
    accuracies: list[xr.DataArray] = []
    bounds: list[xr.DataArray] = []
    for setting, outcomes in calibrated.items():
        calibration = next((str(name) for name in outcomes.defence.values if name != plain[setting]), "")
        if not calibration:
            raise NotRecorded(f"no network with the settings of classes of {setting} is recorded")
        settings = outcomes[setting].sel(defence=calibration, drop=True).mean("seed").rename(predicted="label")
        count = pooling.pooled(outcomes.sel(defence=plain[setting], drop=True)).isel(attack=0, drop=True)
        network = {"network": [f"{calibration}, {setting}"]}
        multiples.append(settings.reset_coords(drop=True).expand_dims(network))
        accuracies.append(metrics.accuracy(count).expand_dims(network))
        bounds.append(intervals.wilson(count).expand_dims(network))
    marks = next(iter(calibrated.values()))
    accuracy = xr.concat(accuracies, "network").assign_coords({group: ("label", marks[group].values) for group in GROUPS})
    return xr.concat(multiples, "network"), accuracy, xr.concat(bounds, "network")


def recorded_rule(histories: Mapping[str, xr.Dataset], dataset: str) -> tuple[xr.DataArray, dict[str, float]]:
    """Return the training accuracy t of each class and epoch along network, and the offset lambda of each network.

    histories: by the name of a setting, of one defence in which it is calibrated. The offset is what the setting of the next
    epoch exceeds t by.
    """
    accuracies, offsets = [], {}
    for setting, history in histories.items():
        name = f"{history.defence.values[0]}, {setting}"
        t = calibrations.training_accuracy(history).isel(defence=0, drop=True).mean("seed")
        multiple = calibrations.multiples(history[setting]).isel(defence=0, drop=True).mean("seed")
        offsets[name] = round(
            float((multiple.isel(epoch=slice(1, None)).values - t.isel(epoch=slice(None, -1)).values).mean()), 2
        )
        accuracies.append(t.expand_dims(network=[name]))
    joined = xr.concat(accuracies, "network")
    groups = classes_of(dataset)
    return joined.assign_coords({group: ("label", np.isin(joined.label.values, groups[group])) for group in GROUPS}), offsets
