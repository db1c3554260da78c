"""Charts of single sections of Tian et al. 2021: homing, trade-offs, Table 4, temperatures, images on backgrounds."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent, largest
from classwise.charts.gallery import image_rows
from classwise.charts.heatmaps import change_heatmap
from classwise.charts.primitives import (
    Cells,
    dots_with_intervals,
    from_legend,
    heatmap,
    lines_with_bands,
    panels,
    spread,
)
from classwise.charts.style import (
    PERCENT,
    Category,
    frame,
    names_of,
    tooltip,
    wide_bounds,
)
from classwise.stats.confidence import top_k

# The two classes of a pair: the most vulnerable one, and the one whose training is changed.
_PAIR_COLOURS = ["#e05a00", "#3152dd"]


def count_matrices(count: Mapping[str, xr.DataArray]) -> Any:
    """Return matrices of numbers of images side by side under their titles, one scale of colour for all; zeros are left blank.

    The arrays have the dimensions label and predicted. Tian 2021, Figures 4(a) and 4(b).
    """
    first = next(iter(count.values()))
    table = pd.concat([frame(array).assign(matrix=title) for title, array in count.items()])
    table = table.merge(frame(first).rename(columns={"value": "of"}))
    cells = Cells("value", "images", "value", ".0f", diverging=False, blank="datum.value <= 0", step=(26, 26))
    tips = tooltip("label", "predicted", "matrix", value="images|.0f", of="of images|.0f")
    x, y = Category.of(first, "predicted", "predicted class"), Category.of(first, "label", "class")
    parts = [largest(table[table["matrix"] == name], ["label", "predicted"], f"Most images {name}", "") for name in count]
    chart = panels(heatmap(table, x, y, cells, tips), Category("matrix", list(count)))
    return described(chart, "Images of each class by predicted class", " ".join(parts))


def class_changes(points: xr.DataArray, row: str = "removed") -> Any:
    """Return how many points each class (label) gains or loses as coloured cells, a line for each `row`."""
    return change_heatmap(points, row, digits="+.0f")


def share_intervals(table: pd.DataFrame, title: str, colour: str | None = None) -> Any:
    """Return shares with their intervals as dots on lines: a row for each entry of the index.

    `table` has the columns share, low, high and images, all but the last in percent; `colour` names a further one, of which a
    click in the legend picks members.
    """
    rows = table.rename_axis("row").reset_index().rename(columns={"share": "value"})
    order = Category("row", list(dict.fromkeys(rows["row"])))
    text = extent(rows, ["row", *filter(None, [colour])], title.removesuffix(", %").capitalize())
    if colour is None:
        chart = dots_with_intervals(rows, order, title).properties(width=400, height=alt.Step(30))
    else:
        picked, hues = from_legend(Category(colour, list(dict.fromkeys(rows[colour]))))
        chart = dots_with_intervals(rows, order, title, hues, picked=picked).add_params(picked)
        chart = chart.properties(width=400, height=alt.Step(20, **{"for": "position"}))
    return described(chart, f"{title.removesuffix(', %').capitalize()}, with 95 % intervals", text)


def trade_offs(accuracy: xr.DataArray, interval: xr.DataArray, pair: Sequence[str], along: str = "betas") -> Any:
    """Return the accuracy of each class over the values of a setting, with the interval of the two classes of `pair` as bands.

    `accuracy` has the dimensions label and `along`, whose coordinate reads as written ("0.5"); its axis is logarithmic. The
    other classes are thin lines. A click in the legend picks one of the two. Tian 2021, Figure 4(c).
    """
    table = frame(accuracy).merge(wide_bounds(interval)).assign(setting=lambda rows: rows[along].astype(float))
    names = {label: f"class {label}" for label in names_of(accuracy)}
    names |= {pair[0]: f"class {pair[0]}, most vulnerable", pair[1]: f"class {pair[1]}, changed"}
    table["name"] = table["label"].map(names)
    values, title = sorted(float(value) for value in accuracy[along].values), "robust accuracy, %"
    x = alt.X(
        "setting:Q",
        scale=alt.Scale(type="log", domain=[values[0], values[-1] * 1.02]),
        title=f"beta of class {pair[1]} (of all others 6)",
        axis=alt.Axis(values=values, format="~g", grid=False),
    )
    y, tips = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False)), tooltip("name", along, value=title, low="", high="")
    chosen = table["label"].isin(list(pair))
    others = alt.Chart(table[~chosen]).mark_line(strokeWidth=1, color="#999", opacity=0.6)
    picked, hues = from_legend(Category("name", [names[label] for label in pair]))
    colour = alt.Color(
        hues.encoded,
        scale=alt.Scale(domain=list(hues.values), range=_PAIR_COLOURS),
        title=hues.title,
        legend=alt.Legend(orient="top", labelLimit=260, symbolOpacity=1),
    )
    both = lines_with_bands(table[chosen], x, title, colour, tips, scale=alt.Scale(zero=False), picked=picked)
    both = both.add_params(picked)
    # The other classes are named at the ends of their lines.
    ends = spread(table[~chosen & (table["setting"] == values[-1])], 4.0)
    words = alt.Chart(ends).mark_text(align="left", dx=6).encode(x=x, y="at:Q", text="label:N")
    lines = others.encode(x=x, y=y, detail="label:N", tooltip=tips)
    text = extent(table[chosen], ["name", along], f"Robust accuracy of classes {pair[0]} and {pair[1]}")
    title = f"Robust accuracy of each class over the trade-off of class {pair[1]}"
    return described(alt.layer(lines, both, words).properties(width=400, height=300), title, text, "Grey: all other classes.")


def prediction_table(count: xr.DataArray, first: Mapping[str, str], row: str = "line") -> pd.DataFrame:
    """Return the predictions for the images of one class, a line for each kind of them: "56 (+3)", images and their change.

    `count` has the dimensions `row` and predicted; `first` names for each line the one that it is compared with (itself for a
    line that begins a block). Tian 2021, Table 4.
    """
    table = count.transpose(row, "predicted").to_pandas()
    change = table - table.loc[[first[name] for name in table.index]].to_numpy()
    text = table.map("{:.0f}".format) + change.map(" ({:+.0f})".format)
    begins = [name == first[name] for name in table.index]
    text.loc[begins] = table.loc[begins].map("{:.0f}".format)
    return pd.DataFrame(text).rename_axis(index=None, columns="predicted class")


def table_4(plain: xr.DataArray, adjusted: xr.DataArray, label: str) -> tuple[xr.DataArray, dict[str, str]]:
    """Return the six lines of Tian 2021, Table 4, for one class, and the line that each is compared with.

    Both counts have the dimensions attack ("clean" and another), transform, label and predicted; `adjusted` is that of the
    network with another trade-off for one class. `prediction_table` takes the result.
    """
    lines: dict[str, xr.DataArray] = {}
    first: dict[str, str] = {}
    for attack in plain.attack.values:
        kind, number = ("natural", 1) if attack == "clean" else ("attacked", 4)
        place = {"attack": attack, "label": label}
        titles = [f"{number + line} {words}, {kind}" for line, words in enumerate(("as it is", "white", "white, adjusted"))]
        networks = plain.sel(place, drop=True), adjusted.sel(place, drop=True)
        parts = networks[0].sel(transform="none"), *(part.sel(transform="white-background") for part in networks)
        lines |= {title: part.drop_vars("transform") for title, part in zip(titles, parts, strict=True)}
        first |= dict.fromkeys(titles, titles[0])
    return xr.concat(list(lines.values()), "line").assign_coords(line=list(lines)).rename("images"), first


def confidence_scatter(confidence: xr.DataArray, whiteness: xr.DataArray, label: str) -> Any:
    """Return each image of a class as a dot: the lightness of its background, and the confidence in the class under attack.

    Both arrays have the dimension image; a line is fitted to guide the eye. Tian 2021, section 6.2, about Figure 6.
    """
    table = frame(100 * confidence, "sure").merge(frame(100 * whiteness, "light")).rename(columns={"image": "number"})
    titles = "lightness of the background, %", f"confidence in {label} under attack, %"
    base = alt.Chart(table).encode(
        x=alt.X("light:Q", title=titles[0], scale=alt.Scale(zero=False)), y=alt.Y("sure:Q", title=titles[1], scale=PERCENT)
    )
    dots = base.mark_circle(size=55, opacity=0.7).encode(
        tooltip=tooltip(number="image no.|d", light=f"{titles[0]}|.0f", sure=titles[1])
    )
    line = base.transform_regression("light", "sure").mark_line(color="#888", strokeDash=[4, 3])
    rank = table["light"].corr(table["sure"], method="spearman")
    text = extent(table, [], titles[1].removesuffix(", %").capitalize(), column="sure")
    text = f"{text} Rank correlation with the lightness of the background: {rank:.2f}, {len(table)} images."
    return described(alt.layer(line, dots).properties(width=460, height=180), "Lightness of the background and confidence", text)


def top_two(outcomes: xr.Dataset, images: Sequence[int]) -> list[str]:
    """Return for each of some images, attack by attack, the two most confident predictions, a line for each of them."""
    ranks = top_k(outcomes.sel(image=list(images))).transpose("image", "attack", "rank")
    attacks = ["clean" if name == "clean" else "attacked" for name in names_of(ranks, "attack")]
    starts = [start for attack in attacks for start in (f"{attack}:", "then")]
    names, confidences = (ranks[part].values.reshape(len(images), -1) for part in ("name", "confidence"))
    lines = (zip(starts, *pair, strict=True) for pair in zip(names, confidences, strict=True))
    return ["\n".join(f"{start} {name} {share:.0f} %" for start, name, share in parts) for parts in lines]


def repainted_images(
    confidence: xr.DataArray, before: tuple[xr.DataArray, xr.Dataset], after: tuple[xr.DataArray, xr.Dataset], count: int = 5
) -> Any:
    """Return the images with the least confidence, as they are and painted, with the two most confident predictions below.

    confidence: of each image. before, after: pixels and outcomes of the images as they are, and painted. Tian 2021, Figure 6.
    """
    least = confidence.sortby(-confidence).image.values[-count:]
    ways = {"as it is": before, "painted white": after}
    rows = {title: pixels.sel(image=least) for title, (pixels, _) in ways.items()}
    captions = {title: top_two(outcomes, least) for title, (_, outcomes) in ways.items()}
    return image_rows(rows, captions, side=132, title="The least confident images, as they are and painted white")
