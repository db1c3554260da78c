"""Charts with controls: the classes of a network, what is similar to a class, and two methods image by image.

Rates are in percent.
"""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import describe, extent, panel_title
from classwise.charts.gallery import png_address
from classwise.charts.primitives import Choice, explorer
from classwise.charts.style import CHOSEN, GREY, HIGHEST, LOWEST, PERCENT, THEIRS, Category, frame, names_of, tooltip, wide_bounds
from classwise.core.errors import NotRecorded

_DEFENCE = "ranking_defence"


def class_ranking(
    accuracy: xr.DataArray, interval: xr.DataArray, defences: Sequence[str], theirs: xr.DataArray | None = None
) -> Any:
    """Return the accuracy of each class as a dot with its interval, sorted, with the best and the worst class named.

    accuracy: with the dimensions defence and label; `interval` has the further dimension bound. defences: to choose from in the
    box above the chart; the first one is shown until then. theirs: the accuracies that a paper prints, drawn as diamonds.
    """
    table = frame(accuracy).merge(wide_bounds(interval))
    if theirs is not None:
        table = table.merge(frame(theirs, "theirs"), how="left")
    first, printed = defences[0], theirs is not None
    chart = alt.layer(*_ranks(table, printed=printed)).properties(width=500, height=19 * accuracy.sizes["label"])
    text = extent(table[table["defence"] == first], ["label"], f"Robust accuracy of {first}")
    below = f"Bars: 95 % intervals.{' Diamonds: Tian et al. 2021, Table 1.' * printed}"
    chart = describe(chart, "Robust accuracy of each class", text, below)
    return explorer(chart, [Choice(_DEFENCE, list(defences), first, "defence")])


def _ranks(table: pd.DataFrame, *, printed: bool) -> list[Any]:
    """Return the layers of a ranking; printed: with a diamond for the column `theirs`."""
    # Where all classes are equal, none is named.
    place = "datum.highest == datum.lowest ? 'other' : datum.value == datum.highest ? 'best' : "
    place += "datum.value == datum.lowest ? 'worst' : 'other'"
    # A narrow chart has no room for the name, which stands before the row, too.
    words = "datum.place + (width < 400 ? '' : ': ' + datum.label) + ', ' + format(datum.value, '.0f') + ' %'"
    base = (
        alt.Chart(table)
        .transform_filter(f"datum.defence == {_DEFENCE}")
        .transform_joinaggregate(highest="max(value)", lowest="min(value)")
        .transform_calculate(place=place, words=words)
        .encode(y=alt.Y("label:N", sort=alt.EncodingSortField("value", op="max", order="descending"), title="class"))
    )
    scale = alt.Scale(domain=["best", "worst", "other"], range=[HIGHEST, LOWEST, GREY])
    more = {"theirs": "the paper, %"} if printed else {}
    tips = tooltip("label", "defence", value="robust accuracy, %", low="", high="", **more)
    hued = base.encode(color=alt.Color("place:N", scale=scale, legend=None), tooltip=tips)
    named = base.transform_filter("datum.place != 'other'")
    x = alt.X("low:Q", title="robust accuracy, %", scale=PERCENT)
    # The name stands on the side of the dot that has room, beyond the diamond.
    ends = ", ".join(f"datum.{column}" for column in ("low", "high", *more))
    left, right = (
        named.transform_filter(f"datum.low {sign} 50").transform_calculate(end=f"{end}({ends})")
        for sign, end in ((">=", "min"), ("<", "max"))
    )
    diamonds = base.transform_filter("isValid(datum.theirs)").encode(x="theirs:Q", tooltip=tips)
    return [
        hued.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q"),
        hued.mark_point(filled=True, size=70, opacity=1).encode(x="value:Q"),
        *([diamonds.mark_point(shape="diamond", size=70, color=THEIRS, strokeWidth=2, opacity=1)] if printed else []),
        left.mark_text(align="right", dx=-10, fontWeight="bold").encode(x="end:Q", text="words:N"),
        right.mark_text(align="left", dx=10, fontWeight="bold").encode(x="end:Q", text="words:N"),
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
    text = extent(first, ["predicted"], f"Cosines of class {start} with other classes in {network}", "", "cosine", 2)
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
    choices = [
        Choice("chosen_class", ["all", *labels], "all", "class of the images"),
        Choice("chosen_method", names, first, "method"),
        Choice("other_method", names, second, "compared with"),
    ]
    alone = [(table[one] > table[other]).groupby(table["label"]).sum().max() for one in names for other in names]
    most = max(1, *map(int, alone))
    base = (
        alt.Chart(table.rename(columns={name: f"{CORRECT}{name}" for name in names}))
        .transform_calculate(sign=f"datum['{CORRECT}' + chosen_method] - datum['{CORRECT}' + other_method]")
        .transform_filter("datum.sign != 0")
        .transform_calculate(side="datum.sign > 0 ? 'only ' + chosen_method : 'only ' + other_method", what="'' + datum.sign")
    )
    legend = "'only ' + (datum.value == '1' ? chosen_method : other_method)"
    sides = alt.Color(
        "what:N",
        scale=alt.Scale(domain=["1", "-1"], range=[HIGHEST, LOWEST]),
        legend=alt.Legend(title=None, labelExpr=legend, labelLimit=300),
    )
    up = alt.Axis(format="d", labelExpr="abs(datum.value)", tickMinStep=1)
    bars = base.transform_aggregate(images="sum(sign)", groupby=["label", "side", "what"]).mark_bar()
    bars = bars.encode(
        x=Category("label", labels, "class").x.scale(domain=labels),
        y=alt.Y("images:Q", title="images", scale=alt.Scale(domain=[-most, most]), axis=up),
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
    return explorer(describe(chart, "Images that only one of two methods classifies correctly", text), choices)


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
