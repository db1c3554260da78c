"""Charts of single sections: homing, trade-offs, answers line by line, ranked images; `charts.setup()` comes first."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr
from statsmodels.stats.proportion import proportion_confint

from classwise.answers import ranks
from classwise.charts import frame
from classwise.explore import picture

_HEAT = ["#fffaf3", "#fdbb84", "#d7301f", "#7f0000"]
_CHANGE = ["#7f0000", "#d7301f", "#fdbb84", "#fffaf3", "#c7e0ee", "#4292c6", "#08306b"]
# The two classes of a pair: the most vulnerable one, and the one whose training is changed.
_TWO = ["#d7301f", "#4292c6"]
_PLAIN: dict[str, Any] = {"labelAngle": 0, "ticks": False, "domain": False}


def _names(array: xr.DataArray | xr.Dataset, dim: str) -> list[str]:
    return [str(name) for name in array[dim].values]


def matrices(count: Mapping[str, xr.DataArray], rows: str = "class", columns: str = "answered as") -> Any:
    """Return matrices of numbers of images side by side under their titles, one scale of colour for all; zeros are left blank.

    The arrays have the dimensions label and predicted. Tian 2021, Figures 4(a) and 4(b).
    """
    table = pd.concat([frame(array).assign(what=title) for title, array in count.items()])
    first = next(iter(count.values()))
    whole = frame(first).rename(columns={"value": "of"})
    table = table.merge(whole)
    labels, titles = _names(first, "label"), list(count)
    top = max(float(table["value"].max()), 1.0)
    base = alt.Chart(table).encode(
        x=alt.X("predicted:N", sort=labels, title=columns, axis=alt.Axis(**_PLAIN)),
        y=alt.Y("label:N", sort=labels, title=rows, axis=alt.Axis(**_PLAIN)),
        tooltip=["label:N", "predicted:N", "what:N", alt.Tooltip("value:Q", title="images"), alt.Tooltip("of:Q", title="of")],
    )
    cells = base.mark_rect(stroke="#8888", strokeWidth=0.5).encode(
        color=alt.Color("value:Q", scale=alt.Scale(range=_HEAT, domain=[0, top]), title="images")
    )
    ink = alt.condition(f"datum.value > {0.55 * top}", alt.value("white"), alt.value("#222"))
    text = (
        base.transform_filter("datum.value > 0").mark_text(fontSize=10).encode(text=alt.Text("value:Q", format=".0f"), color=ink)
    )
    side = 24 * len(labels)
    panels = alt.layer(cells, text).properties(width=side, height=side)
    return panels.facet(facet=alt.Facet("what:N", sort=titles, title=None, header=alt.Header(labelFontSize=12)), columns=2)


def gains(points: xr.DataArray, row: str = "removed") -> Any:
    """Return how many points each class (label) gains or loses as coloured cells, a line for each `row`."""
    table = frame(points)
    labels, rows = _names(points, "label"), _names(points, row)
    reach = max(float(table["value"].abs().max()), 1.0)
    base = alt.Chart(table).encode(
        x=alt.X("label:N", sort=labels, title="class", axis=alt.Axis(**_PLAIN)),
        y=alt.Y(f"{row}:N", sort=rows, axis=alt.Axis(**_PLAIN)),
        tooltip=[f"{row}:N", "label:N", alt.Tooltip("value:Q", format="+.1f", title="points")],
    )
    cells = base.mark_rect(stroke="#8888", strokeWidth=0.5).encode(
        color=alt.Color("value:Q", scale=alt.Scale(range=_CHANGE, domain=[-reach, reach]), title="points")
    )
    ink = alt.condition(f"abs(datum.value) > {0.6 * reach}", alt.value("white"), alt.value("#222"))
    text = base.mark_text(fontSize=10).encode(text=alt.Text("value:Q", format="+.0f"), color=ink)
    return alt.layer(cells, text).properties(width=32 * len(labels), height=25 * len(rows))


def shares(table: pd.DataFrame, title: str, colour: str | None = None) -> Any:
    """Return shares with their intervals as dots on lines: a row for each entry of the index.

    `table` has the columns share, low, high and images, all but the last in percent; `colour` names a further one.
    """
    name = "row"
    rows = table.rename_axis(name).reset_index()
    order = list(dict.fromkeys(rows[name]))
    hue: dict[str, Any] = (
        {} if colour is None else {"color": alt.Color(f"{colour}:N", sort=list(dict.fromkeys(rows[colour])), title=None)}
    )
    offset: dict[str, Any] = (
        {} if colour is None else {"yOffset": alt.YOffset(f"{colour}:N", sort=list(dict.fromkeys(rows[colour])))}
    )
    tips: list[Any] = [f"{name}:N", *([f"{colour}:N"] if colour else [])]
    tips += [alt.Tooltip(f"{each}:Q", format=".1f") for each in ("low", "share", "high")] + ["images:Q"]
    base = alt.Chart(rows).encode(
        y=alt.Y(f"{name}:N", sort=order, title=None, axis=alt.Axis(labelLimit=260, ticks=False)), tooltip=tips, **hue, **offset
    )
    mark: dict[str, Any] = {} if colour else {"color": "#4c78a8"}
    lines = base.mark_rule(strokeWidth=2, **mark).encode(
        x=alt.X("low:Q", title=title, scale=alt.Scale(domain=[0, 100])), x2="high:Q"
    )
    dots = base.mark_point(filled=True, size=70, opacity=1, **mark).encode(x="share:Q")
    return alt.layer(lines, dots).properties(width=360, height=alt.Step(30 if colour is None else 14))


def toward(count: Mapping[str, xr.DataArray], group: xr.DataArray) -> Any:
    """Return how often each class is taken for others of its group, as dots with Wilson intervals, a colour for each of `count`.

    count: by what it is of, counts (`pooled` of several seeds) with just the dimensions label and predicted. group (label)
    numbers the group of each class.
    """
    rows = []
    for title, one in count.items():
        numbers = group.sel(label=one.label)
        other = xr.DataArray(numbers.values, dims="predicted", coords={"predicted": one.label.values})
        drawn = one.where((numbers == other) & (one.label != one.predicted), 0).sum("predicted")
        total = one.sum("predicted")
        low, high = proportion_confint(drawn.values, total.values.clip(1), method="wilson")
        table = {"share": 100 * drawn / total, "low": 100 * low, "high": 100 * high, "images": total.round(), "of": title}
        rows.append(pd.DataFrame(table, index=pd.Index(_names(one, "label"), name="class")))
    return shares(pd.concat(rows), "taken for the neighbour, %", colour="of")


def trade_offs(accuracy: xr.DataArray, interval: xr.DataArray, pair: Sequence[str], along: str = "betas") -> Any:
    """Return the accuracy of each class over the values of a setting, with the interval of the two classes of `pair` as bands.

    `accuracy` has the dimensions label and `along`, whose coordinate reads as written ("0.5") and is drawn on a scale of
    logarithms; the other classes are thin lines. Tian 2021, Figure 4(c).
    """
    table = frame(accuracy).merge(frame(interval).pivot(index=["label", along], columns="bound", values="value").reset_index())
    values, names = sorted(float(one) for one in accuracy[along].values), {pair[0]: "most vulnerable", pair[1]: "changed"}
    table = table.assign(setting=table[along].astype(float), name=[f"class {one}" for one in table["label"]])
    table["name"] = [
        f"{name}, {names[one]}" if one in names else name for name, one in zip(table["name"], table["label"], strict=True)
    ]
    x = alt.X(
        "setting:Q",
        scale=alt.Scale(type="log", domain=[values[0], values[-1] * 1.02]),
        title=f"beta of class {pair[1]} (of all others 6)",
        axis=alt.Axis(values=values, format="~g", grid=False),
    )
    y = alt.Y("value:Q", title="robust accuracy, %", scale=alt.Scale(zero=False))
    tips: list[Any] = ["name:N", f"{along}:N", *(alt.Tooltip(f"{name}:Q", format=".1f") for name in ("low", "value", "high"))]
    base = alt.Chart(table).encode(x=x, tooltip=tips)
    chosen = alt.FieldOneOfPredicate(field="label", oneOf=list(pair))
    others = base.transform_filter(~chosen).mark_line(strokeWidth=1, color="#999", opacity=0.6).encode(y=y, detail="label:N")
    order = [f"class {one}, {said}" for one, said in names.items()]
    colour = alt.Color(
        "name:N",
        scale=alt.Scale(domain=order, range=_TWO),
        sort=order,
        title=None,
        legend=alt.Legend(orient="top", labelLimit=260, symbolOpacity=1),
    )
    both = base.transform_filter(chosen).encode(color=colour)
    bands = both.mark_area(opacity=0.18).encode(y=alt.Y("low:Q", title="robust accuracy, %"), y2="high:Q")
    lines = both.mark_line(strokeWidth=3, point=alt.OverlayMarkDef(size=70)).encode(y=y)
    # The other classes are named where their lines end.
    ends = _spread(table[(table["setting"] == values[-1]) & ~table["label"].isin(list(pair))], 0.04)
    words = alt.Chart(ends).mark_text(align="left", dx=6, fontSize=10).encode(x=x, y="at:Q", text="label:N")
    return alt.layer(others, bands, lines, words).properties(width=380, height=300)


def _spread(table: pd.DataFrame, share: float) -> pd.DataFrame:
    """Return rows by rising value with a place `at` for the word of each, at least so great a `share` of 100 above the last."""
    rows, place, places = table.sort_values("value"), -float("inf"), []
    for value in rows["value"]:
        place = max(value, place + 100 * share)
        places.append(place)
    return rows.assign(at=places)


def answers(count: xr.DataArray, first: Mapping[str, str], row: str = "line") -> Any:
    """Return what the images of one class are answered as, a line for each kind of them: numbers, and changes as colours.

    `count` has the dimensions `row` and predicted; `first` names for each line the one that it is compared with (itself for a
    line that begins a block). Tian 2021, Table 4.
    """
    table = frame(count)
    before = table.rename(columns={row: "before", "value": "was"})
    table = table.assign(before=table[row].map(dict(first))).merge(before, on=["before", "predicted"])
    table["change"] = table["value"] - table["was"]
    table["said"] = [
        f"{value:.0f}" if line == start else f"{value:.0f} ({change:+.0f})"
        for value, change, line, start in zip(table["value"], table["change"], table[row], table["before"], strict=True)
    ]
    reach = max(float(table["change"].abs().max()), 1.0)
    labels, lines = _names(count, "predicted"), _names(count, row)
    base = alt.Chart(table).encode(
        x=alt.X("predicted:N", sort=labels, title="answered as", axis=alt.Axis(orient="top", **_PLAIN)),
        y=alt.Y(f"{row}:N", sort=lines, title=None, axis=alt.Axis(ticks=False, domain=False, labelLimit=260)),
        tooltip=[f"{row}:N", "predicted:N", "value:Q", "change:Q"],
    )
    cells = base.mark_rect(stroke="#8888", strokeWidth=0.5).encode(
        color=alt.Color("change:Q", scale=alt.Scale(range=_CHANGE, domain=[-reach, reach]), title="more images")
    )
    ink = alt.condition(f"abs(datum.change) > {0.6 * reach}", alt.value("white"), alt.value("#222"))
    text = base.mark_text(fontSize=10).encode(text="said:N", color=ink)
    return alt.layer(cells, text).properties(width=58 * len(labels), height=30 * len(lines))


def table4(plain: xr.DataArray, adjusted: xr.DataArray, label: str) -> tuple[xr.DataArray, dict[str, str]]:
    """Return the six lines of Tian 2021, Table 4, for one class, and what each is compared with, as `answers` takes them.

    Both counts have the dimensions attack ("clean" and another), transform, label and predicted; `adjusted` is that of the
    network with another trade-off for one class.
    """
    lines: dict[str, xr.DataArray] = {}
    first: dict[str, str] = {}
    for attack in plain.attack.values:
        natural = attack == "clean"
        kind, number = ("natural", 1) if natural else ("attacked", 4)
        chosen = {"attack": attack, "label": label}
        titles = [f"{number + place} {words}, {kind}" for place, words in enumerate(("as it is", "white", "white, adjusted"))]
        found = plain.sel(chosen, drop=True), adjusted.sel(chosen, drop=True)
        parts = found[0].sel(transform="none"), *(one.sel(transform="white-background") for one in found)
        lines |= {title: part.drop_vars("transform") for title, part in zip(titles, parts, strict=True)}
        first |= dict.fromkeys(titles, titles[0])
    return xr.concat(list(lines.values()), "line").assign_coords(line=list(lines)).rename("images"), first


def ranked(confidence: xr.DataArray, whiteness: xr.DataArray, label: str) -> Any:
    """Return each image of a class as a dot: how light its background is against how sure the attacked network is of the class.

    Both arrays have the dimension image; a line is fitted to guide the eye. Tian 2021, section 6.2, about Figure 6.
    """
    table = frame(100 * confidence, "sure").merge(frame(100 * whiteness, "light"))
    base = alt.Chart(table).encode(
        x=alt.X("light:Q", title="lightness of the background, %", scale=alt.Scale(zero=False)),
        y=alt.Y("sure:Q", title=f"confidence in {label} under attack, %", scale=alt.Scale(domain=[0, 100])),
    )
    dots = base.mark_circle(size=55, opacity=0.7).encode(
        tooltip=["image:Q", alt.Tooltip("light:Q", format=".0f"), alt.Tooltip("sure:Q", format=".1f")]
    )
    line = base.transform_regression("light", "sure").mark_line(color="#888", strokeDash=[4, 3])
    return alt.layer(line, dots).properties(width=420, height=280)


def strips(rows: Mapping[str, xr.DataArray], said: Mapping[str, Sequence[str]], side: int = 72) -> Any:
    """Return pictures in rows with a line or a few below each: `rows` by title, pixels (image, channel, row, column), 0 to 1."""
    lines = max(text.count("\n") + 1 for texts in said.values() for text in texts)
    table = pd.DataFrame(
        {"row": title, "place": place, "url": picture(pixels.values), "said": said[title][place], "image": int(pixels.image)}
        for title, images in rows.items()
        for place, pixels in enumerate(images)
    )
    base = (
        alt.Chart(table)
        .encode(
            x=alt.X("place:O", axis=None),
            y=alt.Y("row:N", sort=list(rows), title=None, axis=alt.Axis(ticks=False, domain=False, labelLimit=180)),
            tooltip=["row:N", "said:N", "image:Q"],
        )
        .properties(width=(int(table["place"].max()) + 1) * (side + 8), height=len(rows) * (side + 12 + 14 * lines))
    )
    lift = 7 * (lines - 1)
    pictures = base.mark_image(width=side, height=side, smooth=False, yOffset=-lift).encode(url="url:N")
    words = base.mark_text(dy=side / 2 + 8 - lift, fontSize=11, lineBreak="\n").encode(text="said:N")
    return alt.layer(pictures, words, view=alt.ViewBackground(stroke=None))


def first_ranks(outcomes: xr.Dataset, images: Sequence[int]) -> list[str]:
    """Return for each of some images, attack by attack, the two classes it is most surely taken for, a line for each of them."""
    found = ranks(outcomes.sel(image=list(images))).transpose("image", "attack", "rank")
    attacks = ["clean" if name == "clean" else "attacked" for name in _names(found, "attack")]
    starts = [start for attack in attacks for start in (f"{attack}:", "then")]
    names, sure = (found[part].values.reshape(len(images), -1) for part in ("name", "confidence"))
    each = (zip(starts, *pair, strict=True) for pair in zip(names, sure, strict=True))
    return ["\n".join(f"{start} {name} {share:.0f} %" for start, name, share in lines) for lines in each]


def repainted(
    sure: xr.DataArray, before: tuple[xr.DataArray, xr.Dataset], after: tuple[xr.DataArray, xr.Dataset], count: int = 5
) -> Any:
    """Return the images that a network is least sure of, as they are and painted, with what it takes them for below.

    sure: of each image. before, after: pixels and outcomes of the images as they are, and painted. Tian 2021, Figure 6.
    """
    least = sure.sortby(-sure).image.values[-count:]
    ways = {"as it is": before, "painted white": after}
    rows = {title: pixels.sel(image=least) for title, (pixels, _) in ways.items()}
    return strips(rows, {title: first_ranks(told, least) for title, (_, told) in ways.items()}, side=132)


def one_each(scenes: Mapping[str, xr.Dataset]) -> Any:
    """Return the first image of each class of several datasets, a row for each: `scenes` by title, as `run.scenes` has them."""
    rows, said = {}, {}
    for title, data in scenes.items():
        names = _names(data, "predicted")
        first = [int((data.truth == number).argmax("image")) for number in range(len(names))]
        rows[title], said[title] = data.pixels.isel(image=first), names
    return strips(rows, said, side=56)
