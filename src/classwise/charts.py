"""From labelled arrays to Altair charts: one function a figure.

Rates are in percent. Charts carry their rows as one CSV string, so call `setup()` once before the first is shown.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

MAX_ROWS = 50_000
_PARSE = {"i": "number", "u": "number", "f": "number", "b": "boolean"}
_HEAT = ["#fffaf3", "#fdbb84", "#d7301f", "#7f0000"]
_PERCENT = alt.Scale(domain=[0, 100])


def live() -> bool:
    """Return whether a Jupyter server runs this kernel for somebody: then charts may talk to Python."""
    return "JPY_SESSION_NAME" in os.environ


def inline_csv(data: Any) -> Any:
    """Return a data frame as one CSV string with four significant digits: a third of the size of JSON rows."""
    if not isinstance(data, pd.DataFrame):
        return alt.default_data_transformer(data, max_rows=MAX_ROWS)
    if len(data) > MAX_ROWS:
        raise alt.MaxRowsError(f"{len(data)} rows are more than {MAX_ROWS}: aggregate or sample first")
    plain = data.copy()
    for column in plain.columns:
        if plain[column].dtype.kind == "b":
            plain[column] = plain[column].map({True: "true", False: "false"})
    parse = {str(column): _PARSE.get(kind.kind, "string") for column, kind in data.dtypes.items()}
    return {"values": plain.to_csv(index=False, float_format="%.4g"), "format": {"type": "csv", "parse": parse}}


def setup() -> None:
    """Make charts carry their rows as CSV; in JupyterLab, make them work without a network."""
    alt.data_transformers.register("inline_csv", inline_csv)
    alt.data_transformers.enable("inline_csv")
    if live():
        alt.renderers.enable("jupyter", offline=True)


def frame(array: xr.DataArray, name: str = "value") -> pd.DataFrame:
    """Return a labelled array as a table with a column for each dimension, without the NaN."""
    return array.rename(name).to_dataframe()[name].dropna().reset_index()


def by_class(labels: Sequence[str], field: str = "label", **kwargs: Any) -> alt.Color:
    """Return the colour of each class: the same in every chart, whatever is filtered."""
    return alt.Color(f"{field}:N", scale=palette(labels), title="class", **kwargs)


def angle(labels: Sequence[str]) -> int:
    """Return how the names of classes stand below a column: upright where they are as short as digits."""
    return 0 if max(map(len, labels)) <= 2 else -90


def palette(labels: Sequence[str]) -> alt.Scale:
    """Return the scale that gives each class its colour."""
    return alt.Scale(domain=list(labels), scheme="tableau10" if len(labels) <= 10 else "tableau20")


def _names(array: xr.DataArray, dim: str = "label") -> list[str]:
    return [str(name) for name in array[dim].values]


def epochs(accuracy: xr.DataArray, row: str = "attack", column: str = "defence") -> Any:
    """Return the accuracy of each class over the epochs, with the gap between the best and the worst class shaded.

    `accuracy` has the dimensions epoch, label, `row` and `column`. A click in the legend picks classes.
    """
    table, labels = frame(accuracy), _names(accuracy)
    picked = alt.selection_point(fields=["label"], bind="legend")
    base = alt.Chart(table).encode(x=alt.X("epoch:Q", title="epoch", axis=alt.Axis(tickMinStep=1)))
    band = base.mark_area(opacity=0.18, color="#888").encode(
        y=alt.Y("min(value):Q", title="accuracy, %", scale=_PERCENT), y2="max(value):Q"
    )
    lines = base.mark_line(strokeWidth=1.8).encode(
        y=alt.Y("value:Q", scale=_PERCENT),
        color=by_class(labels),
        opacity=alt.condition(picked, alt.value(1), alt.value(0.12)),
        tooltip=["label:N", "epoch:Q", alt.Tooltip("value:Q", format=".1f", title="accuracy, %")],
    )
    rows, columns = _names(accuracy, row), _names(accuracy, column)
    return (
        alt.layer(band, lines.add_params(picked))
        .properties(width=180, height=170)
        .facet(row=alt.Row(f"{row}:N", sort=rows, title=None), column=alt.Column(f"{column}:N", sort=columns, title=None))
    )


def gap(spread: xr.DataArray, title: str, colour: str = "defence") -> Any:
    """Return a measure over the epochs with its interval: dimensions epoch, bound ("low", "value", "high") and `colour`."""
    table = frame(spread).pivot(index=["epoch", colour], columns="bound", values="value").reset_index()
    hue = alt.Color(f"{colour}:N", sort=_names(spread, colour), title=None, legend=alt.Legend(symbolOpacity=1))
    base = alt.Chart(table).encode(x=alt.X("epoch:Q", axis=alt.Axis(tickMinStep=1)), color=hue)
    band = base.mark_area(opacity=0.25).encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    tooltip = [
        f"{colour}:N",
        "epoch:Q",
        *(alt.Tooltip(f"{bound}:Q", format=".1f") for bound in ("low", "value", "high")),
    ]
    line = base.mark_line(point=True).encode(y="value:Q", tooltip=tooltip)
    return alt.layer(band, line).properties(width=520, height=220)


def classes(accuracy: xr.DataArray, interval: xr.DataArray, colour: str = "attack", column: str = "defence") -> Any:
    """Return the accuracy of each class as a dot with its interval; `interval` has the further dimension bound."""
    table = frame(accuracy).merge(
        frame(interval).pivot(index=["label", colour, column], columns="bound", values="value").reset_index()
    )
    labels, hues = _names(accuracy), _names(accuracy, colour)
    base = alt.Chart(table).encode(
        x=alt.X("label:N", sort=labels, title="class", axis=alt.Axis(labelAngle=0)),
        color=alt.Color(f"{colour}:N", sort=hues, title=None),
        tooltip=[
            "label:N",
            f"{colour}:N",
            *(alt.Tooltip(f"{name}:Q", format=".1f") for name in ("low", "value", "high")),
        ],
    )
    bars = base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", title="accuracy, %", scale=_PERCENT), y2="high:Q")
    dots = base.mark_point(filled=True, size=55, opacity=1).encode(y="value:Q")
    return (
        alt.layer(bars, dots)
        .properties(width=180, height=220)
        .facet(column=alt.Column(f"{column}:N", sort=_names(accuracy, column), title=None))
    )


def confusion(share: xr.DataArray, order: Sequence[str] | None = None, column: str = "defence") -> Any:
    """Return confusion matrices side by side: rows true, columns answered, in percent of the row.

    The diagonal is outlined rather than coloured, so that the colours tell the mistakes apart; `order` sorts the classes.
    """
    table, labels = frame(share), list(order or _names(share))
    table["right"] = table["label"] == table["predicted"]
    table["mistake"] = table["value"].where(~table["right"], 0.0)
    side = 21 * len(labels)
    axis = alt.Axis(labelAngle=0, ticks=False, domain=False)
    base = alt.Chart(table).encode(
        x=alt.X(
            "predicted:N", sort=labels, title="answered as", axis=alt.Axis(labelAngle=angle(labels), ticks=False, domain=False)
        ),
        y=alt.Y("label:N", sort=labels, title="class", axis=axis),
        tooltip=["label:N", "predicted:N", alt.Tooltip("value:Q", format=".1f", title="share, %")],
    )
    top = max(float(table["mistake"].max()), 1.0)
    cells = base.mark_rect(stroke="#8888", strokeWidth=0.5).encode(
        color=alt.Color("mistake:Q", scale=alt.Scale(range=_HEAT, domain=[0, top]), title="mistaken, %")
    )
    text = (
        base.transform_filter("datum.value >= 0.5")
        .mark_text(fontSize=9)
        .encode(
            text=alt.Text("value:Q", format=".0f"),
            color=alt.condition(f"datum.mistake > {0.55 * top}", alt.value("white"), alt.value("#222")),
        )
    )
    frames = base.transform_filter("datum.right").mark_rect(fillOpacity=0, stroke="#333", strokeWidth=1.2)
    return (
        alt.layer(cells, frames, text)
        .properties(width=side, height=side)
        .facet(column=alt.Column(f"{column}:N", sort=_names(share, column), title=None))
    )


def mirrored(share: xr.DataArray, colour: str = "defence") -> Any:
    """Return each pair of classes as a dot: "i taken for j" against "j taken for i"; a symmetrical matrix lies on the line."""
    table = frame(share)
    back = table.rename(columns={"label": "predicted", "predicted": "label", "value": "back"})
    pairs = table.merge(back)
    pairs = pairs[pairs["label"] < pairs["predicted"]]
    top = float(max(pairs["value"].max(), pairs["back"].max(), 1.0))
    scale = alt.Scale(domain=[0, top], nice=True)
    dots = (
        alt.Chart(pairs)
        .mark_circle(size=60, opacity=0.75)
        .encode(
            x=alt.X("value:Q", scale=scale, title="first taken for second, %"),
            y=alt.Y("back:Q", scale=scale, title="second taken for first, %"),
            color=alt.Color(f"{colour}:N", sort=_names(share, colour), title=None),
            tooltip=[
                "label:N",
                "predicted:N",
                f"{colour}:N",
                alt.Tooltip("value:Q", format=".1f"),
                alt.Tooltip("back:Q", format=".1f"),
            ],
        )
    )
    line = alt.Chart(pd.DataFrame({"value": [0.0, top], "back": [0.0, top]})).mark_line(strokeDash=[4, 4], color="#888")
    return alt.layer(line.encode(x="value:Q", y="back:Q"), dots).properties(width=320, height=320)


def pairs(mistakes: xr.DataArray, most: int = 12, colour: str = "defence") -> Any:
    """Return the pairs of classes that are most often taken for one another, both directions added up, as bars."""
    table = frame(mistakes)
    back = table.rename(columns={"label": "predicted", "predicted": "label", "value": "back"})
    both = table.merge(back)
    both = both[both["label"] < both["predicted"]].assign(flips=lambda rows: rows["value"] + rows["back"])
    both["pair"] = both["label"] + " and " + both["predicted"]
    order = both.groupby("pair")["flips"].max().sort_values(ascending=False).index[:most]
    names = _names(mistakes, colour)
    return (
        alt.Chart(both[both["pair"].isin(order)])
        .mark_bar()
        .encode(
            y=alt.Y("pair:N", sort=list(order), title=None),
            x=alt.X("flips:Q", title="one taken for the other, either way, % + %"),
            yOffset=alt.YOffset(f"{colour}:N", sort=names),
            color=alt.Color(f"{colour}:N", sort=names, title=None),
            tooltip=[
                "pair:N",
                f"{colour}:N",
                alt.Tooltip("value:Q", format=".1f"),
                alt.Tooltip("back:Q", format=".1f"),
            ],
        )
        .properties(width=420, height=26 * len(order))
    )


def seeds(accuracy: xr.DataArray, column: str = "defence") -> Any:
    """Return the accuracy of each class for each seed as a dot, with their mean as a line: dimensions seed, label, `column`."""
    table, labels = frame(accuracy), _names(accuracy)
    base = alt.Chart(table).encode(x=alt.X("label:N", sort=labels, title="class", axis=alt.Axis(labelAngle=0)))
    dots = base.mark_circle(size=45, opacity=0.7).encode(
        y=alt.Y("value:Q", title="robust accuracy, %", scale=_PERCENT),
        color=by_class(labels, legend=None),
        tooltip=["label:N", "seed:Q", alt.Tooltip("value:Q", format=".1f")],
    )
    mean = base.mark_tick(thickness=2, width=14).encode(y="mean(value):Q", color=by_class(labels, legend=None))
    return (
        alt.layer(dots, mean)
        .properties(width=180, height=200)
        .facet(column=alt.Column(f"{column}:N", sort=_names(accuracy, column), title=None))
    )


def ratios(bench: pd.DataFrame) -> Any:
    """Return how many times as long as ours each peer takes, beside the line of equal time; `bench` as `benches.load` has it."""
    name, where = alt.Y("name:N", sort=list(dict.fromkeys(bench["name"])), title=None), alt.Color("machine:N", title=None)
    tips = ["name:N", "peer:N", "machine:N", alt.Tooltip("ratio:Q", format=".2f"), "ours_s:Q", "peer_s:Q", "created:N"]
    scale = alt.Scale(type="log", domainMin=min(0.5, bench["ratio"].min()))
    dots = (
        alt.Chart(bench)
        .mark_point(size=80, filled=True)
        .encode(
            x=alt.X("ratio:Q", scale=scale, title="seconds of the peer over ours (log)"),
            y=name,
            color=where,
            shape=alt.Shape("peer:N", title=None, legend=alt.Legend(symbolFillColor="#888", symbolStrokeColor="#888")),
            tooltip=tips,
        )
    )
    equal = alt.Chart(pd.DataFrame({"x": [1]})).mark_rule(strokeDash=[4, 3], color="#888").encode(x="x:Q")
    return alt.layer(equal, dots).properties(width=420, height=alt.Step(26))


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
