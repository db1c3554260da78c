"""From labelled arrays to Altair charts: one function a figure.

Rates are in percent. Charts carry their rows as one CSV string, so call `setup()` once before the first is shown.
"""

from collections.abc import Mapping

import pandas as pd
import xarray as xr

from classwise.charts.style import frame


def table(measures: Mapping[str, xr.DataArray], digits: int = 1) -> pd.DataFrame:
    """Return measures with the dimension bound ("low", "value", "high") as a table: "71.4 [69.0, 73.5]"."""

    def words(array: xr.DataArray) -> pd.Series:
        if array.isnull().all():  # one image a class has no variance, say
            return pd.Series(dtype=object)
        rows = frame(array).pivot(index=[d for d in array.dims if d != "bound"], columns="bound", values="value")
        return rows.apply(lambda row: f"{row['value']:.{digits}f} [{row['low']:.{digits}f}, {row['high']:.{digits}f}]", axis=1)

    whole = pd.DataFrame({name: words(array) for name, array in measures.items()})
    first = next(iter(measures.values()))
    order = [[str(one) for one in first[dim].values] for dim in first.dims if dim != "bound"]
    whole = whole.reindex(pd.MultiIndex.from_product(order, names=whole.index.names) if len(order) > 1 else order[0])
    return whole.fillna("unknown")


def extremes(accuracy: xr.DataArray) -> pd.DataFrame:
    """Return the best and the worst class for each combination of the dimensions beside label."""
    first, last = accuracy.idxmax("label"), accuracy.idxmin("label")
    columns = {
        "best class": first.to_series(),
        "its accuracy, %": accuracy.max("label").to_series().map("{:.1f}".format),
        "worst class": last.to_series(),
        "its accuracy, % ": accuracy.min("label").to_series().map("{:.1f}".format),
    }
    return pd.DataFrame(columns)


def lines(tables: Mapping[str, pd.DataFrame], name: str) -> pd.DataFrame:
    """Return tables one below the other, with what each is of in a first column of the index."""
    return pd.concat(dict(tables), names=[name])
