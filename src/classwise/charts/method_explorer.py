"""The explorer of two methods, image by image."""

from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described
from classwise.charts.explorer import Choice, explorer
from classwise.charts.gallery import png_address
from classwise.charts.style import HIGHEST, LOWEST, label_angle, names_of, tooltip
from classwise.core.errors import NotRecorded

# Pixels of all pictures of a class that the explorer can show: 12 of CIFAR-10. Pictures in a row, and their side on the page.
_PIXELS, _ROW, _SIDE = 12 * 32 * 32, 8, 40
# In front of the names of methods in columns of whether each classifies an image correctly.
_CORRECT = "correct: "


def method_rows(outcomes: xr.Dataset, scenes: xr.Dataset | None) -> pd.DataFrame:
    """Return a row for each image that all methods were evaluated on: its class, for each method 1 if it is right, else 0.

    outcomes: of methods, without the dimension attack; where seeds share an image, it is right if all are. scenes: pixels of
    images; column url: of a few images of each class on which methods differ, "" of all others. Methods without results are left
    out; NotRecorded if fewer than two are left.
    """
    outcomes = outcomes.sel(defence=(outcomes.truth >= 0).any(["seed", "image"]))
    if outcomes.sizes["defence"] < 2:
        raise NotRecorded("no two of these methods are recorded under this attack")
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


def methods(table: pd.DataFrame) -> list[str]:
    """Return the methods of a table of `method_rows`."""
    return [name for name in table.columns if name not in ("label", "number", "url")]


def two_methods(table: pd.DataFrame, first: str, second: str) -> Any:
    """Return the explorer of two methods: the images of each class that only one of them classifies correctly.

    table: of `method_rows`. first, second: the methods at the start. Below the bars are some of these images.
    """
    names = methods(table)
    labels = list(dict.fromkeys(sorted(table["label"])))
    choices = [
        Choice("chosen_class", ["all", *labels], "all", "class of the images"),
        Choice("chosen_method", names, first, "method"),
        Choice("other_method", names, second, "compared with"),
    ]
    most = max(_most(table, one, other) for one in names for other in names)
    base = (
        alt.Chart(table.rename(columns={name: f"{_CORRECT}{name}" for name in names}))
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
    both = alt.layer(drawn, frames, view=alt.ViewBackground(stroke=None))
    return both.properties(width=_ROW * (_SIDE + 22), height=2 * (_SIDE + 6))
