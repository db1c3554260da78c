"""Charts with controls: the classes of a network, what is similar to a class, and two methods image by image.

Rates are in percent.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts import style
from classwise.charts.descriptions import describe, extent, panel_title
from classwise.charts.gallery import png_address
from classwise.charts.primitives import Choice, explorer
from classwise.charts.style import CHOSEN, GREY, HIGHEST, LOWEST, PERCENT, THEIRS, Category, frame, names_of, tooltip, wide_bounds
from classwise.core.errors import NotRecorded
from classwise.core.markup import printed_name

_DEFENCE = "ranking_defence"
_SHAPES = ["circle", "square", "diamond"]
# The columns of the hollow marks, and their colours.
_MARKS = {"clean": GREY, "theirs": THEIRS}


def class_ranking(accuracies: Mapping[str, xr.DataArray], interval: xr.DataArray, titles: Mapping[str, str]) -> Any:
    """Return the first accuracy of each class as a dot with its interval, sorted, the best and the worst in colour.

    accuracies: by words of the legend, with the dimensions defence and label; a second one, without an attack, and a third one,
    of a paper, are hollow marks. `interval` has the further dimension bound. titles: by the defences to choose from in the box
    above the chart; the first one is shown until then.
    """
    (of_dots, first), *others = accuracies.items()
    table = frame(first).merge(wide_bounds(interval))
    for column, (_, other) in zip(_MARKS, others, strict=False):
        table = table.merge(frame(other, column), how="left")
    chart = alt.layer(*_ranks(table, list(accuracies))).properties(width=500, height=19 * first.sizes["label"])
    start = next(iter(titles))
    text = extent(table, ["defence", "label"], f"Accuracy {of_dots}")
    return explorer(describe(chart, titles[start], text), [Choice(_DEFENCE, list(titles), start, "defence", titles)])


def _ranks(table: pd.DataFrame, kinds: Sequence[str]) -> list[Any]:
    # Where all classes are equal, none stands out.
    place = "datum.highest == datum.lowest ? 'other' : datum.value == datum.highest ? 'best' : "
    place += "datum.value == datum.lowest ? 'worst' : 'other'"
    base = (
        alt.Chart(table)
        .transform_filter(f"datum.defence == {_DEFENCE}")
        .transform_joinaggregate(highest="max(value)", lowest="min(value)")
        .transform_calculate(place=place, kind=f"'{kinds[0]}'")
        .encode(y=alt.Y("label:N", sort=alt.EncodingSortField("value", op="max", order="descending"), title=None))
    )
    others = dict(zip(_MARKS, kinds[1:], strict=False))
    named = {column: f"{kind}, %" for column, kind in others.items()}
    tips = tooltip("label", "defence", value=f"accuracy {kinds[0]}, %", low="", high="", **named)
    scale = alt.Scale(domain=["best", "worst", "other"], range=[HIGHEST, LOWEST, GREY])
    hued = base.encode(color=alt.Color("place:N", scale=scale, legend=None), tooltip=tips)
    legend = alt.Legend(symbolFillColor="transparent", symbolStrokeColor=GREY, symbolSize=70, labelLimit=0)
    shape = alt.Shape("kind:N", scale=alt.Scale(domain=list(kinds), range=_SHAPES[: len(kinds)]), title=None, legend=legend)
    hollow = [
        base.transform_filter(f"isValid(datum.{column})")
        .transform_calculate(kind=f"'{kind}'")
        .mark_point(size=60, color=_MARKS[column], strokeWidth=1.6, opacity=1)
        .encode(x=f"{column}:Q", shape=shape, tooltip=tips)
        for column, kind in others.items()
    ]
    return [
        hued.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title="accuracy, %", scale=PERCENT), x2="high:Q"),
        hued.mark_point(filled=True, size=70, opacity=1).encode(x="value:Q", shape=shape),
        *hollow,
    ]


def similar_classes(cosine: xr.DataArray, share: xr.DataArray, start: str, network: str) -> Any:
    """Return the explorer of a class: its cosines with the others, and what its images are classified as, in a network.

    cosine: dimensions defence, label and other. share: in percent, dimensions defence, attack, label and predicted. start,
    network: the class and the network at first.
    """
    classes, attacks = names_of(cosine), names_of(share, "attack")
    near = frame(cosine, "cosine").rename(columns={"other": "predicted"})
    choices = [
        Choice("chosen_class", classes, start, "class"),
        Choice("chosen_network", names_of(cosine, "defence"), network, "network"),
        Choice("chosen_attack", attacks, attacks[-1], "images"),
    ]
    chosen = "datum.label == chosen_class && datum.defence == chosen_network && datum.label != datum.predicted"

    def bars(rows: alt.Chart, other: str, title: str, y: alt.Y, tips: Sequence[alt.Tooltip]) -> Any:
        x = Category("predicted", classes, other).x.scale(domain=classes)
        highest = alt.condition("datum.cosine == datum.highest", alt.value(CHOSEN), alt.value(GREY))
        drawn = rows.mark_bar().encode(x=x, y=y, color=highest, tooltip=tips)
        return drawn.properties(width=260, height=180, title=panel_title(title))

    cosines = alt.Chart(near).transform_filter(chosen).transform_joinaggregate(highest="max(cosine)")
    mistakes = alt.Chart(frame(share)).transform_filter(f"{chosen} && datum.attack == chosen_attack")
    mistakes = mistakes.transform_joinaggregate(cosine="max(value)").transform_calculate(highest="datum.value")
    near_to, up = "cosine of its mean with that of another class", "share of the class, %"
    y = alt.Y("cosine:Q", title="cosine", scale=alt.Scale(domain=[min(0.0, float(near["cosine"].min())), 1]))
    left = bars(cosines, "other class", near_to, y, tooltip("predicted", cosine="|.3f"))
    y = alt.Y("value:Q", title=up, scale=PERCENT)
    right = bars(mistakes, "mistaken for", "its images, mistaken for", y, tooltip("predicted", value=up))
    first = near[(near["label"] == start) & (near["defence"] == network) & (near["label"] != near["predicted"])]
    what = f"Cosines of class {start} with other classes in {printed_name(network)}"
    text = extent(first, ["predicted"], what, "", "cosine", 2)
    return explorer(describe(left | right, "One class: what is similar to it, and what it is mistaken for", text), choices)


# Pixels of all pictures of a class that the explorer of methods can show: 12 of CIFAR-10. Pictures in a row, and their side.
_PIXELS, _ROW, _SIDE = 12 * 32 * 32, 8, 40
# In front of the names of methods in columns of whether each classifies an image correctly.
CORRECT = "correct: "


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
    right = (~outcomes.misclassified | ~present).all("seed").transpose("image", "defence")
    kept = present.any("seed").all("defence").values
    names, labels = names_of(outcomes, "defence"), outcomes.predicted.values.astype(str)
    table = pd.DataFrame(right.values[kept].astype(int), columns=names)
    table.insert(0, "label", labels[outcomes.truth.max(["defence", "seed"]).values[kept]])
    table.insert(1, "number", outcomes.image.values[kept])
    differ = table[names].nunique(axis=1) > 1
    most = 0 if scenes is None else max(1, _PIXELS // (scenes.sizes["row"] * scenes.sizes["column"]))
    shown = differ & (table.assign(differ=differ).groupby(["label", "differ"]).cumcount() < most)
    pictures = {} if scenes is None else dict(zip(scenes.image.values.tolist(), scenes.pixels.values, strict=True))
    drawn = zip(table["number"], shown, strict=True)
    return table.assign(url=[png_address(pictures[one]) if some and one in pictures else "" for one, some in drawn])


def methods(table: pd.DataFrame) -> list[str]:
    """Return the methods of a table of `method_rows`."""
    return [name for name in table.columns if name not in ("label", "number", "url")]


def two_methods(table: pd.DataFrame, first: str, second: str) -> Any:
    """Return the explorer of two methods: the images of each class that only one of them classifies correctly.

    table: of `method_rows`. first, second: the methods at the start. Below the bars are some of these images.
    """
    names, labels = methods(table), sorted(set(table["label"]))
    pictured = bool((table["url"] != "").any())
    choices = [
        *[Choice("chosen_class", ["all", *labels], "all", "class of the images")] * pictured,
        Choice("chosen_method", names, first, "method"),
        Choice("other_method", names, second, "compared with"),
    ]
    alone = [(table[one] > table[other]).groupby(table["label"]).sum().max() for one in names for other in names]
    most = max(1, *map(int, alone))
    printed = json.dumps({name: style.short_name(name) for name in names})
    one, two = (f"'only ' + ({printed})[{choice}]" for choice in ("chosen_method", "other_method"))
    base = (
        alt.Chart(table.rename(columns={name: f"{CORRECT}{name}" for name in names}))
        .transform_calculate(sign=f"datum['{CORRECT}' + chosen_method] - datum['{CORRECT}' + other_method]")
        .transform_filter("datum.sign != 0")
        .transform_calculate(side=f"datum.sign > 0 ? {one} : {two}", what="'' + datum.sign")
    )
    sides = alt.Color(
        "what:N",
        scale=alt.Scale(domain=["1", "-1"], range=[HIGHEST, LOWEST]),
        legend=alt.Legend(title=None, labelExpr=f"datum.value == '1' ? {one} : {two}", labelLimit=300),
    )
    up = alt.Axis(format="d", labelExpr="abs(datum.value)", tickMinStep=1)
    # Bars below zero are numbers of images, too.
    said = "'class: ' + datum.label + '; side: ' + datum.side + '; images: ' + datum.number"
    bars = base.transform_aggregate(images="sum(sign)", groupby=["label", "side", "what"])
    bars = bars.transform_calculate(number="abs(datum.images)").transform_calculate(said=said).mark_bar()
    bars = bars.encode(
        x=Category("label", labels, "class").x.scale(domain=labels),
        y=alt.Y("images:Q", title="images", scale=alt.Scale(domain=[-most, most]), axis=up),
        color=sides,
        tooltip=tooltip("label", "side", number="images|.0f"),
        description="said:N",
    )
    same = alt.Chart(alt.InlineData(values=[{}])).transform_filter("chosen_method == other_method")
    same = same.mark_text().encode(x=alt.value(280), y=alt.value(85), text=alt.value("Choose two different methods."))
    lost, won = (int(((table[first] - table[second]) == sign).sum()) for sign in (-1, 1))
    ours, theirs = printed_name(first), printed_name(second)
    text = f"Only {ours} classifies {won} images correctly, only {theirs} {lost} images, of {len(table)}."
    chart: Any = (bars + same).properties(width=560, height=170)
    if pictured:
        chart = chart & _pictures(base, sides)
    return explorer(describe(chart, "Images that only one of two methods classifies correctly", text), choices)


def _pictures(base: alt.Chart, sides: alt.Color) -> Any:
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
