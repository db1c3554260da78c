"""Charts of single sections: homing, trade-offs, answers line by line, ranked images; `charts.setup()` comes first."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from classwise.charts.gallery import image_rows
from classwise.charts.style import DIVERGING, SEQUENTIAL, bound_tooltips, by_class, class_colour, frame, names_of, wide_bounds
from classwise.core import datasets
from classwise.papers import published
from classwise.stats import significance
from classwise.stats.confidence import top_k

_CHANGE = ["#7f0000", "#d7301f", "#fdbb84", "#fffaf3", "#c7e0ee", "#4292c6", "#08306b"]
# The two classes of a pair: the most vulnerable one, and the one whose training is changed.
_TWO = ["#d7301f", "#4292c6"]
_PLAIN: dict[str, Any] = {"labelAngle": 0, "ticks": False, "domain": False}


def matrices(count: Mapping[str, xr.DataArray], rows: str = "class", columns: str = "answered as") -> Any:
    """Return matrices of numbers of images side by side under their titles, one scale of colour for all; zeros are left blank.

    The arrays have the dimensions label and predicted. Tian 2021, Figures 4(a) and 4(b).
    """
    table = pd.concat([frame(array).assign(what=title) for title, array in count.items()])
    first = next(iter(count.values()))
    whole = frame(first).rename(columns={"value": "of"})
    table = table.merge(whole)
    labels, titles = names_of(first, "label"), list(count)
    top = max(float(table["value"].max()), 1.0)
    base = alt.Chart(table).encode(
        x=alt.X("predicted:N", sort=labels, title=columns, axis=alt.Axis(**_PLAIN)),
        y=alt.Y("label:N", sort=labels, title=rows, axis=alt.Axis(**_PLAIN)),
        tooltip=["label:N", "predicted:N", "what:N", alt.Tooltip("value:Q", title="images"), alt.Tooltip("of:Q", title="of")],
    )
    cells = base.mark_rect(stroke="#8888", strokeWidth=0.5).encode(
        color=alt.Color("value:Q", scale=alt.Scale(range=SEQUENTIAL, domain=[0, top]), title="images")
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
    labels, rows = names_of(points, "label"), names_of(points, row)
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


def confused_with_group(count: Mapping[str, xr.DataArray], group: xr.DataArray) -> Any:
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
        rows.append(pd.DataFrame(table, index=pd.Index(names_of(one, "label"), name="class")))
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


def prediction_table(count: xr.DataArray, first: Mapping[str, str], row: str = "line") -> Any:
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
    labels, lines = names_of(count, "predicted"), names_of(count, row)
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


def first_ranks(outcomes: xr.Dataset, images: Sequence[int]) -> list[str]:
    """Return for each of some images, attack by attack, the two classes it is most surely taken for, a line for each of them."""
    found = top_k(outcomes.sel(image=list(images))).transpose("image", "attack", "rank")
    attacks = ["clean" if name == "clean" else "attacked" for name in names_of(found, "attack")]
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
    return image_rows(rows, {title: first_ranks(told, least) for title, (_, told) in ways.items()}, side=132)


def temperature_curves(
    found: Mapping[str, xr.DataArray], along: str = "inverse", colour: str = "defence", title: str = "1 / T"
) -> Any:
    """Return measures over the whole grid of temperatures with their bands, a panel for each measure by its title.

    Each array has the dimensions bound, `along` (numbers as text) and `colour`. A click in the legend picks one colour.
    """
    first = next(iter(found.values()))
    hues, ticks = names_of(first, colour), [float(name) for name in first[along].values]
    picked = alt.selection_point(fields=[colour], bind="legend")
    axis = alt.Axis(values=ticks, grid=False, format="~g")
    panels = []
    for name, bounds in found.items():
        table = wide_bounds(bounds)
        table[along] = table[along].astype(float)
        base = (
            alt.Chart(table)
            .encode(
                x=alt.X(f"{along}:Q", title=title, scale=alt.Scale(type="log"), axis=axis),
                color=class_colour(colour, hues),
                tooltip=[f"{colour}:N", f"{along}:Q", *bound_tooltips()],
            )
            .properties(width=230, height=190, title=alt.Title(name, fontWeight="normal", fontSize=12))
        )
        y = alt.Y("low:Q", title=None, scale=alt.Scale(zero=False))
        band = base.mark_area().encode(y=y, y2="high:Q", opacity=alt.condition(picked, alt.value(0.13), alt.value(0.02)))
        line = base.mark_line(point=True).encode(y="value:Q", opacity=alt.condition(picked, alt.value(1), alt.value(0.1)))
        panels.append(alt.layer(band, line))
    return alt.concat(panels[0].add_params(picked), *panels[1:], columns=2)


def accuracy_change(change: xr.DataArray, row: str = "inverse", column: str = "defence", title: str = "1 / T") -> Any:
    """Return by how many points the accuracy of each class changes, as cells: red where it falls; a panel for each `column`."""
    table, labels = frame(change), names_of(change, "label")
    reach = max(float(table["value"].abs().max()), 1.0)
    base = alt.Chart(table).encode(
        x=alt.X("label:N", sort=labels, title="class", axis=alt.Axis(labelAngle=0, ticks=False, domain=False)),
        y=alt.Y(f"{row}:N", sort=names_of(change, row), title=title, axis=alt.Axis(ticks=False, domain=False)),
        tooltip=[f"{column}:N", alt.Tooltip(f"{row}:N", title=title), "label:N", alt.Tooltip("value:Q", format="+.1f")],
    )
    shade = alt.Scale(range=DIVERGING, domain=[-reach, reach], interpolate="lab")
    cells = base.mark_rect(stroke="#8888", strokeWidth=0.5).encode(color=alt.Color("value:Q", scale=shade, title="points"))
    dark = f"abs(datum.value) > {0.6 * reach}"
    words = base.mark_text(fontSize=10).encode(
        text=alt.Text("value:Q", format="+.1f"), color=alt.condition(dark, alt.value("white"), alt.value("#222"))
    )
    panel = alt.layer(cells, words).properties(width=31 * len(labels), height=25 * change.sizes[row])
    return panel.facet(facet=alt.Facet(f"{column}:N", sort=names_of(change, column), title=None), columns=2)


def variances(bounds: xr.DataArray, row: str = "defence") -> Any:
    """Return the class-wise variance of confidence with its interval, a panel for each `row`: Tian 2021, Figure 3a.

    `bounds` has the dimensions bound, label and `row`; each panel has its own scale, since the networks differ by much.
    """
    labels = names_of(bounds, "label")
    base = alt.Chart(wide_bounds(bounds)).encode(
        x=alt.X("label:N", sort=labels, title="class", axis=alt.Axis(labelAngle=0)),
        color=by_class(labels, legend=None),
        tooltip=[f"{row}:N", "label:N", *bound_tooltips(".3g")],
    )
    bars = base.mark_bar(opacity=0.75).encode(y=alt.Y("value:Q", title="CVC"))
    ends = base.mark_rule(strokeWidth=1.5, color="#777").encode(y="low:Q", y2="high:Q", color=alt.value("#777"))
    panel = alt.layer(bars, ends).properties(width=23 * len(labels), height=130)
    facet = alt.Facet(f"{row}:N", sort=names_of(bounds, row), title=None)
    return panel.facet(facet=facet, columns=2).resolve_scale(y="independent")


def class_curves(rates: Mapping[str, xr.DataArray]) -> Any:
    """Return the accuracy of each class over the epochs, a panel for each dataset by its name: Tian 2021, Figure 1.

    The arrays have the dimensions epoch and label. The band reaches from the best class to the worst; these two are named at the
    end of their lines, and the title tells how far apart they end. Point at a line for its class.
    """
    panels = []
    for name, rate in rates.items():
        table, last = frame(rate), rate.isel(epoch=-1)
        ends = {kind: str(last[getattr(last, kind)("label")].label.values) for kind in ("argmax", "argmin")}
        gap = float(last.max() - last.min())
        base = alt.Chart(table).encode(x=alt.X("epoch:Q", title="epoch", axis=alt.Axis(tickMinStep=1)))
        y = alt.Y("value:Q", title="robust accuracy, %", scale=alt.Scale(domain=[0, 100]))
        band = base.mark_area(opacity=0.15, color="#888").encode(
            y=alt.Y("min(value):Q", title="robust accuracy, %"), y2="max(value):Q"
        )
        tips = ["label:N", "epoch:Q", alt.Tooltip("value:Q", format=".1f")]
        labels = names_of(rate, "label")
        hue = by_class(labels, legend=None) if len(labels) <= 20 else alt.value("#8aa")
        lines = base.mark_line(strokeWidth=1.5).encode(y=y, detail="label:N", color=hue, tooltip=tips)
        final = last.sel(label=list(ends.values())).to_dataframe("value").reset_index()
        words = alt.Chart(final).mark_text(align="left", dx=4, fontSize=11).encode(x="epoch:Q", y=y, text="label:N")
        told = f"{gap:.0f} points between {ends['argmax']} and {ends['argmin']} at the end"
        title = alt.Title(name, subtitle=told, anchor="start")
        panels.append(alt.layer(band, lines, words).properties(width=270, height=200, title=title))
    return alt.concat(*panels, columns=2).resolve_scale(color="independent")


def superclassed(dataset: str, counts: Mapping[str, xr.DataArray]) -> pd.DataFrame:
    """Return how many of the mistakes stay within superclasses, against chance, in percent: a row for each of `counts`.

    counts: of networks on a dataset that has superclasses. Below them what can be told from the paper's own Table 4 (TRADES on
    1,000 cats, plain and attacked): there chance is that a mistake falls on any other class alike (an exact binomial test).
    """
    rows: dict[str, tuple[float, float, float]] = {}
    if dataset in datasets.SUPERCLASSES:
        for name, count in counts.items():
            labels = list(map(str, count.label.values))
            group = count.label.copy(data=datasets.numbers(labels))
            rows[f"{dataset}, {name}"] = significance.within_test(count, group)
    lines = published.load("tian2021", 4)["count"].sel(treatment="as they are", drop=True)
    kinds = datasets.superclasses("cifar10")
    for attack in map(str, lines.attack.values):
        others = lines.sel(attack=attack, predicted=[name for name in kinds if name != "cat"])
        near = [kinds[str(name)] == kinds["cat"] for name in others.predicted.values]
        inside, whole = int(others.values[near].sum()), int(others.sum())
        p = stats.binomtest(inside, whole, float(np.mean(near)), alternative="greater").pvalue
        rows[f"theirs: cats of cifar10, {attack}"] = (100 * inside / whole, 100 * float(np.mean(near)), float(p))
    table = pd.DataFrame(rows, index=["within, % of the mistakes", "by chance, %", "p"]).T
    told = table.iloc[:, :2].map("{:.0f}".format)
    return told.assign(p=["< .001" if value < 0.001 else f"{value:.3f}" for value in table["p"]])
