"""Tables of numbers for readers. Rates are in percent."""

from collections.abc import Mapping, Sequence

import pandas as pd
import xarray as xr

from classwise.charts.style import display_name, names_of, wide_bounds
from classwise.core.markup import decimal, escape, printed_name
from classwise.core.spec import Spec


def interval_table(measured: Mapping[str, xr.DataArray], digits: int = 1) -> pd.DataFrame:
    """Return metrics with the dimension bound ("low", "value", "high") as a table: "71.4 [69.0, 73.5]".

    A column for each metric under its title, a line for each combination of the other dimensions.
    """

    def words(array: xr.DataArray) -> pd.Series:
        if array.isnull().all():  # one image a class has no variance, say
            return pd.Series(dtype=object)
        rows = wide_bounds(array).set_index([dim for dim in array.dims if dim != "bound"])
        ends = {end: rows[end].map(lambda value: decimal(value, digits)) for end in ("value", "low", "high")}
        return ends["value"] + " [" + ends["low"] + ", " + ends["high"] + "]"

    table = pd.DataFrame({display_name(name): words(array) for name, array in measured.items()})
    first = next(iter(measured.values()))
    dims = [str(dim) for dim in first.dims if dim != "bound"]
    order = [names_of(first, dim) for dim in dims]
    table = table.reindex(pd.MultiIndex.from_product(order, names=dims) if len(order) > 1 else pd.Index(order[0], name=dims[0]))
    return table.rename_axis([display_name(dim) for dim in dims]).fillna("unknown")


def final_settings(settings: xr.DataArray) -> pd.DataFrame:
    """Return the setting of each class in the last epoch: a line for each defence, a column for each class.

    settings: with the dimensions defence, epoch and label; after the last epoch of a defence they are NaN.
    """
    place = settings.notnull().any("label").cumsum("epoch").argmax("epoch")
    last = settings.isel(epoch=place).transpose("defence", "label").values
    index, columns = pd.Index(names_of(settings, "defence"), name="defence"), pd.Index(names_of(settings), name="class")
    return pd.DataFrame(last, index=index, columns=columns).map("{:.2f}".format)


def _printed(name: object) -> str:
    return printed_name(str(name))


def plain_table(table: pd.DataFrame) -> str:
    """Return a table in HTML without a border, attacks and defences as papers print them."""
    for level in ("defence", "attack", "training"):
        table = table.rename(index=_printed, level=level) if level in table.index.names else table
        table = table.rename(columns=_printed, level=level) if level in table.columns.names else table
    return table.to_html(border=0)


def fold(title: str, table: pd.DataFrame | str) -> str:
    """Return a table, or text in Markdown, as a block in Markdown that a click on its title opens."""
    inside = table if isinstance(table, str) else plain_table(table)
    return f"<details>\n<summary>{escape(title)}</summary>\n\n{inside}\n\n</details>"


def convergence_table(compared: xr.Dataset) -> pd.DataFrame:
    """Return a line for each training of a `stats.convergence.comparison`, with its epochs and its intervals."""
    columns = {str(name): column for name, column in compared.data_vars.items() if "bound" in column.dims}
    return interval_table(columns).assign(epochs=compared.epochs.values)


def training_settings(specs: Sequence[Spec]) -> pd.DataFrame:
    """Return a line for each defence with the settings in which the trainings of a scale may differ."""
    columns = {"epochs": "epochs", "lr": "learning rate", "weight_decay": "weight decay", "batch": "batch"}
    rows = {spec.defence: {title: f"{getattr(spec, name):.4g}" for name, title in columns.items()} for spec in specs}
    return pd.DataFrame(rows).T.rename_axis("defence")
