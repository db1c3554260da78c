"""Failed attacks followed step by step, for an image that the reader chooses (Tian 2021, Figure 3b to d)."""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import describe, panel_title
from classwise.charts.gallery import png_address
from classwise.charts.primitives import Choice, explorer, fade, legend_selection
from classwise.charts.style import HIGHEST, LOWEST, Category, label_angle, names_of, tooltip
from classwise.core.errors import NotRecorded
from classwise.core.markup import plural
from classwise.stats import confidence

# PGD among the temperatures.
_PGD = "1"
# A page carries as many images.
_MOST = 8
_SIDE = 120
_ATTACKS = ["PGD", "Temperature-PGD"]


def _misclassified(traces: xr.Dataset) -> xr.DataArray:
    last = traces["logits"].isel(step=-1, drop=True)
    return (last.fillna(0).argmax("predicted") != traces["truth"]) & last.notnull().all("predicted")


def pgd_failures(traces: xr.Dataset) -> xr.DataArray:
    """Return on which images PGD failed, for each network: Tian et al. look at one of those."""
    plain = traces.sel(inverse=_PGD, drop=True)
    present = plain.logits.isel(step=-1, drop=True).notnull().all("predicted")
    result: xr.DataArray = ~_misclassified(plain) & present
    return result.rename("failed")


def select_images(traces: xr.Dataset, most: int = _MOST) -> xr.Dataset:
    """Return the traces of images on which PGD failed: first those that a temperature breaks, in the most networks.

    Among equals those come first whose true class has the lowest confidence left, in the network where it has least.
    """
    failed = pgd_failures(traces)
    gained = (_misclassified(traces).any("inverse") & failed).sum("network")
    sure = confidence.true_confidence(traces.isel(step=-1).sel(inverse=_PGD)).where(failed).min("network")
    order = np.lexsort([sure.values, -gained.values])
    return traces.isel(image=order[failed.any("network").values[order]][:most])


def _image_names(traces: xr.Dataset) -> list[str]:
    labels = names_of(traces, "predicted")
    return [f"{labels[int(truth)]}, no. {image}" for truth, image in zip(traces.truth.values, traces.image.values, strict=True)]


def confidences(traces: xr.Dataset) -> pd.DataFrame:
    """Return a row for each network, image, temperature and step with a column for each class: its confidence in percent."""
    share = (100 * confidence.confidence(traces)).round(1).assign_coords(image=_image_names(traces))
    table = share.to_dataset("predicted").to_dataframe().dropna().reset_index()
    return table.assign(truth=table["image"].str.partition(",")[0])


def explore(traces: xr.Dataset | None, examples: dict[str, xr.Dataset]) -> Any:
    """Return the confidence over the steps of failed attacks, with controls: the image, the network, the temperature, the step.

    traces: of `runs.traces`, with PGD at inverse "1". examples: of `runs.example_sets`, to show the images, if any. It begins
    with a network in which PGD fails on the first image, and a temperature that breaks it there if any does. NotRecorded where no
    failure of PGD is traced at other temperatures, too.
    """
    if traces is None or traces.sizes["inverse"] == 1 or not bool(pgd_failures(traces).any()):
        raise NotRecorded("no failed attack is traced under temperature-pgd-20")
    few = select_images(traces)
    failed, heated = pgd_failures(few), few.drop_sel(inverse=_PGD)
    gained = _misclassified(heated) & failed
    start = (1 * failed + gained).isel(image=0).stack(both=("network", "inverse"))
    network, inverse = map(str, start.both.values[int(start.argmax("both"))])
    labels, images, steps = names_of(few, "predicted"), _image_names(few), [int(step) for step in few.step.values]
    choices = [
        Choice("followed_image", images, images[0], "image"),
        Choice("followed_network", names_of(few, "network"), network, "network"),
        Choice("followed_inverse", names_of(heated, "inverse"), inverse, "1/T"),
        Choice("followed_step", steps, steps[-1], "step"),
    ]
    base = (
        alt.Chart(confidences(few))
        .transform_filter("datum.image == followed_image && datum.network == followed_network")
        .transform_filter(f"datum.inverse == '{_PGD}' || datum.inverse == followed_inverse")
        .transform_calculate(attack=f"datum.inverse == '{_PGD}' ? '{_ATTACKS[0]}' : '{_ATTACKS[1]}'")
        .transform_fold([*labels], as_=["label", "share"])
        .encode(
            y=alt.Y("share:Q", title="confidence, %", scale=alt.Scale(domainMin=0)),
            tooltip=tooltip("attack", "label", "step", share="confidence, %"),
        )
    )
    picked, attack = legend_selection(Category("attack", _ATTACKS))
    # One selection serves both panels.
    charts = _bars(base, labels, attack, picked).add_params(picked) & _lines(base, attack, picked)
    seen = f"{plural(few.sizes['image'], 'image')} and {plural(few.sizes['network'], 'network')}"
    broken = int(gained.any("inverse").sum())
    text = f"{plural(int(failed.sum()), 'failure')} of PGD on {seen}. Another temperature succeeds in {broken} of them."
    return explorer(describe(_with_images(few, examples, charts), "Failed attacks, step by step", text), choices)


def _colour(attack: Category) -> alt.Color:
    scale = alt.Scale(domain=list(attack.values), range=[HIGHEST, LOWEST])
    return alt.Color(attack.encoding, scale=scale, title=attack.title, legend=alt.Legend(orient="top", symbolOpacity=1))


def _bars(base: alt.Chart, labels: list[str], attack: Category, picked: alt.Parameter) -> Any:
    axis = alt.Axis(labelAngle=label_angle(labels))
    now = base.transform_filter("datum.step == followed_step").encode(
        x=alt.X("label:N", scale=alt.Scale(domain=labels), title="class (framed: the true one)", axis=axis),
        xOffset=alt.XOffset(attack.encoding, scale=alt.Scale(domain=list(attack.values))),
    )
    frames = now.transform_filter("datum.label == datum.truth").mark_bar(fillOpacity=0, stroke="#888", strokeWidth=2)
    layers = alt.layer(now.mark_bar().encode(color=_colour(attack), opacity=fade(picked)), frames)
    return layers.properties(width=560, height=170, title=panel_title("confidence in each class at the chosen step"))


def _lines(base: alt.Chart, attack: Category, picked: alt.Parameter) -> Any:
    x = alt.X("step:Q", axis=alt.Axis(tickMinStep=1), title="step of the attack")
    true = base.transform_filter("datum.label == datum.truth").mark_line(strokeWidth=2.5)
    others = base.transform_filter("datum.label != datum.truth").transform_joinaggregate(
        top="max(share)", groupby=["step", "attack"]
    )
    rival = others.transform_filter("datum.share == datum.top").mark_line(strokeWidth=1.5, strokeDash=[4, 3])
    now = base.transform_filter("datum.step == followed_step").mark_rule(strokeDash=[3, 3], color="#888")
    now = now.encode(x=x, y=alt.value(0), y2=alt.value(170))
    title = panel_title("the true class (solid) and its strongest rival (dashed) over the steps")
    layers = alt.layer(now, *(line.encode(x=x, color=_colour(attack), opacity=fade(picked)) for line in (true, rival)))
    return layers.properties(width=560, height=170, title=title)


def _with_images(traces: xr.Dataset, examples: dict[str, xr.Dataset], charts: Any) -> Any:
    clean = {int(one.image): png_address(one.values) for data in examples.values() for one in data.pixels.sel(form="clean")}
    rows = [
        {"name": name, "url": clean[int(image)]}
        for name, image in zip(_image_names(traces), traces.image.values, strict=True)
        if int(image) in clean
    ]
    if not rows:
        return charts
    chart = alt.Chart(pd.DataFrame(rows)).transform_filter("datum.name == followed_image")
    image = chart.mark_image(width=_SIDE, height=_SIDE, smooth=False).encode(
        url="url:N", x=alt.value(_SIDE / 2), y=alt.value(_SIDE / 2), tooltip=alt.Tooltip("name:N", title="class and number")
    )
    return image.properties(width=_SIDE, height=_SIDE, title=panel_title("the chosen image, without an attack")) & charts
