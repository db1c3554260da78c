"""Charts of Wei et al. 2023, section 5.2: gains with their intervals, ours and theirs, and two methods image by image."""

from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.explorer import Choice, explorer
from classwise.charts.gallery import png_address
from classwise.charts.primitives import faded, from_legend, panels
from classwise.charts.style import HIGHEST, LOWEST, Category, label_angle, names_of, tooltip, wide_bounds
from classwise.papers.wei2023.gains import REACH

OURS = "ours, last epoch"
_MEASURES = {"overall": "all images", "worst": "worst class", "worst_k": "worst fifth of the classes"}
# Pixels of all pictures of a class that the explorer can show: 12 of CIFAR-10. Pictures in a row, and their side on the page.
_PIXELS, _ROW, _SIDE = 12 * 32 * 32, 8, 40
# In front of the names of methods in columns of whether each classifies an image correctly.
_CORRECT = "correct: "


def gap_rows(printed: pd.DataFrame, ours: xr.DataArray | None = None) -> pd.DataFrame:
    """Return printed gains (`gains.gaps_as_printed`) and ours as rows with 95 % intervals.

    low, high: of theirs, by their test images. near, far: by their trainings, NaN where they print no spread, and of ours.
    """
    theirs = printed.assign(source="theirs, " + printed["checkpoint"] + " epoch")
    for ends, error in ((("low", "high"), "images"), (("near", "far"), "seeds")):
        for end, sign in zip(ends, (-1, 1), strict=True):
            theirs[end] = theirs["value"] + sign * REACH[error] * theirs[error]
    columns = ["comparison", "measure", "source", "value", "low", "high", "near", "far"]
    parts = [theirs[columns]]
    if ours is not None:
        parts.append(wide_bounds(ours).assign(source=OURS).reindex(columns=columns))
    return pd.concat(parts, ignore_index=True)


def gaps(rows: pd.DataFrame) -> Any:
    """Return gains as dots, a panel for each measure, with a thin line for the images and a thick one for the seeds."""
    sources = list(dict.fromkeys(rows["source"]))
    measures = [_MEASURES[name] for name in dict.fromkeys(rows["measure"])]
    table = rows.assign(measure=rows["measure"].map(_MEASURES))
    picked, hues = from_legend(Category("source", sources))
    order = list(dict.fromkeys(table["comparison"]))
    tips = tooltip("comparison", "source", value="gain, points", low="", high="", near="by seeds, from", far="by seeds, to")
    base = alt.Chart(table).encode(
        y=alt.Y("comparison:N", sort=order, title=None, axis=alt.Axis(labelLimit=260, labelPadding=8, ticks=False, grid=True)),
        yOffset=alt.YOffset("source:N", sort=sources, scale=alt.Scale(paddingOuter=0.4)),
        color=hues.colour,
        opacity=faded(picked),
        tooltip=tips,
    )
    x = alt.X("low:Q", title="gain, points")
    zero = alt.Chart(table).mark_rule(strokeDash=[4, 3], color="#888", aria=False).encode(x=alt.datum(0))
    marks = [zero, base.mark_rule(strokeWidth=1.5).encode(x=x, x2="high:Q")]
    if bool(table["near"].notna().any()):
        marks.append(base.transform_filter("isValid(datum.near)").mark_rule(strokeWidth=5).encode(x="near:Q", x2="far:Q"))
    marks.append(base.mark_point(filled=True, size=50, opacity=1).encode(x="value:Q"))
    height = (9 * len(sources) + 8) * len(order)
    chart = panels(alt.layer(*marks).properties(width=190, height=height), Category("measure", measures), 2)
    chart = chart.resolve_scale(x="independent").add_params(picked)
    texts = [
        extent(table[table["measure"] == name], ["comparison", "source"], f"Gain, {name}", "points", digits=1)
        for name in measures
    ]
    return described(chart, "Gains of robust accuracy, with 95 % intervals", " ".join(texts))


def image_rows(outcomes: xr.Dataset, scenes: xr.Dataset | None) -> pd.DataFrame:
    """Return a row for each image that all methods were evaluated on: its class, for each method 1 if it is right, else 0.

    outcomes: of methods, without the dimension attack; where seeds share an image, it is right if all are. scenes: pixels of
    images; column url: of a few images of each class on which methods differ, "" of all others.
    """
    present = outcomes.truth >= 0
    right = (~outcomes.flipped | ~present).all("seed").transpose("image", "defence")
    kept = present.any("seed").all("defence").values
    truth = outcomes.truth.max(["defence", "seed"]).values[kept]
    names, labels = names_of(outcomes, "defence"), names_of(outcomes, "predicted")
    table = pd.DataFrame(right.values[kept].astype(int), columns=names)
    table.insert(0, "label", [labels[number] for number in truth])
    table.insert(1, "number", outcomes.image.values[kept])
    differ = table[names].nunique(axis=1) > 1
    most = 0 if scenes is None else max(1, _PIXELS // (scenes.sizes["row"] * scenes.sizes["column"]))
    shown = differ & (table.assign(differ=differ).groupby(["label", "differ"]).cumcount() < most)
    pictures = {} if scenes is None else dict(zip(scenes.image.values.tolist(), scenes.pixels.values, strict=True))
    urls = [
        png_address(pictures[one]) if some and one in pictures else "" for one, some in zip(table["number"], shown, strict=True)
    ]
    return table.assign(url=urls)


def two_methods(table: pd.DataFrame, first: str, second: str) -> Any:
    """Return the explorer of two methods: the images of each class that only one of them classifies correctly.

    table: of `image_rows`. first, second: the methods at the start. Below the bars are some of these images.
    """
    methods = [name for name in table.columns if name not in ("label", "number", "url")]
    labels = list(dict.fromkeys(sorted(table["label"])))
    choices = [
        Choice("chosen_class", ["all", *labels], "all", "class of the images"),
        Choice("chosen_method", methods, first, "method"),
        Choice("other_method", methods, second, "compared with"),
    ]
    most = max(_most(table, one, other) for one in methods for other in methods)
    base = (
        alt.Chart(table.rename(columns={name: f"{_CORRECT}{name}" for name in methods}))
        .transform_calculate(sign=f"datum['{_CORRECT}' + chosen_method] - datum['{_CORRECT}' + other_method]")
        .transform_filter("datum.sign != 0")
    )
    base = base.transform_calculate(
        side="datum.sign > 0 ? 'only ' + chosen_method : 'only ' + other_method", what="'' + datum.sign"
    )
    sides = alt.Color(
        "what:N",
        scale=alt.Scale(domain=["1", "-1"], range=[HIGHEST, LOWEST]),
        legend=alt.Legend(title=None, labelExpr="'only ' + (datum.value == '1' ? chosen_method : other_method)", labelLimit=300),
    )
    bars = base.transform_aggregate(images="sum(sign)", groupby=["label", "side", "what"]).mark_bar()
    bars = bars.encode(
        x=alt.X(
            "label:N", sort=labels, scale=alt.Scale(domain=labels), title="class", axis=alt.Axis(labelAngle=label_angle(labels))
        ),
        y=alt.Y(
            "images:Q",
            title="images",
            scale=alt.Scale(domain=[-most, most]),
            axis=alt.Axis(format="d", labelExpr="abs(datum.value)", tickMinStep=1),
        ),
        color=sides,
        tooltip=tooltip("label", "side", images="images|.0f"),
    )
    same = alt.Chart(alt.InlineData(values=[{}])).transform_filter("chosen_method == other_method")
    same = same.mark_text().encode(x=alt.value(280), y=alt.value(85), text=alt.value("Choose two different methods."))
    lost, won = (int(((table[first] - table[second]) == sign).sum()) for sign in (-1, 1))
    text = f"Only {first} classifies {won} images correctly, only {second} {lost} images, of {len(table)}."
    chart: Any = (bars + same).properties(width=560, height=170)
    if bool((table["url"] != "").any()):
        chart = chart & _pictures(base, sides)
    return explorer(described(chart, "Images that only one of two methods classifies correctly", text), choices)


def _most(table: pd.DataFrame, first: str, second: str) -> int:
    """Return the largest number of images of a class that only the first of two methods classifies correctly; at least 1."""
    return max(1, int((table[first] > table[second]).groupby(table["label"]).sum().max()))


def _pictures(base: alt.Chart, sides: alt.Color) -> Any:
    """Return some of the images that only one method classifies correctly, in a row for each of the two, framed in its colour."""
    some = base.transform_filter("datum.url && (chosen_class == 'all' || datum.label == chosen_class)")
    some = some.transform_window(place="row_number()", groupby=["what"], sort=[alt.SortField("label")])
    some = some.transform_filter(f"datum.place <= {_ROW}")
    placed = some.encode(
        x=alt.X("place:O", scale=alt.Scale(domain=list(range(1, _ROW + 1))), axis=None),
        y=alt.Y("what:N", sort=["1", "-1"], scale=alt.Scale(domain=["1", "-1"]), axis=None),
        tooltip=[*tooltip("label", "side"), alt.Tooltip("number:Q", title="image no.")],
    )
    frames = placed.mark_point(shape="square", size=(_SIDE - 2) ** 2, filled=False, strokeWidth=1.5).encode(color=sides)
    drawn = placed.mark_image(width=_SIDE - 4, height=_SIDE - 4, smooth=False).encode(url="url:N")
    return alt.layer(drawn, frames, view=alt.ViewBackground(stroke=None)).properties(width=_ROW * _SIDE, height=2 * (_SIDE + 6))
