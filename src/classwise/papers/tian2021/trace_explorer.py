"""Failed attacks followed step by step, for an image that the reader chooses (Tian 2021, Figure 3b to d)."""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr
from IPython.display import Markdown

from classwise.charts.explorer import Choice, explorer
from classwise.charts.gallery import picture
from classwise.charts.style import frame
from classwise.stats import confidence

# Where PGD stands among the temperatures.
_PLAIN = "1"
# A page carries so many images.
_MOST = 8
_SIDE = 120


def _wrong(courses: xr.Dataset) -> xr.DataArray:
    """Return which images each network gets wrong after the last step, under each temperature."""
    last = courses.logits.isel(step=-1, drop=True)
    found: xr.DataArray = (last.fillna(0).argmax("predicted") != courses.truth) & last.notnull().all("predicted")
    return found


def standing(courses: xr.Dataset) -> xr.DataArray:
    """Return which images PGD failed to break in which network: Tian et al. look at one of those."""
    last = courses.logits.isel(step=-1, drop=True).sel(inverse=_PLAIN, drop=True)
    found: xr.DataArray = (~_wrong(courses).sel(inverse=_PLAIN, drop=True) & last.notnull().all("predicted")).rename("standing")
    return found


def nearest(courses: xr.Dataset, most: int = _MOST) -> xr.Dataset:
    """Return the courses of images that PGD failed to break: first those that a temperature breaks then, in the most networks.

    Among equals those come first whose true class has the lowest confidence left, in the network where it has least.
    """
    stood = standing(courses)
    gained = (_wrong(courses).any("inverse") & stood).sum("network")
    sure = confidence.true_confidence(courses.isel(step=-1).sel(inverse=_PLAIN)).where(stood).min("network")
    kept = np.flatnonzero(stood.any("network").values)
    order = sorted(kept, key=lambda place: (-int(gained[place]), float(sure[place])))
    return courses.isel(image=order[:most])


def _telling(near: xr.Dataset) -> tuple[str, str]:
    """Return a network in which PGD fails on the first image, and a temperature that breaks it there if any does."""
    first = near.isel(image=[0])
    stood = standing(first).squeeze("image", drop=True)
    gained = (_wrong(first).squeeze("image", drop=True) & stood).transpose("network", "inverse").values
    places = np.argwhere(gained) if gained.any() else [(int(np.argmax(stood.values)), 1)]
    network, heat = places[0]
    return str(near.network.values[network]), str(near.inverse.values[heat])


def _called(courses: xr.Dataset) -> list[str]:
    """Return what each image is called: "8, no. 459"."""
    labels = [str(name) for name in courses.predicted.values]
    return [f"{labels[int(truth)]}, no. {image}" for truth, image in zip(courses.truth.values, courses.image.values, strict=True)]


def confidences(courses: xr.Dataset) -> pd.DataFrame:
    """Return a row for each network, image, temperature and step with a column for each class: its confidence in percent."""
    share = (100 * confidence.confidence(courses)).transpose("network", "image", "inverse", "step", "predicted")
    labels = [str(name) for name in courses.predicted.values]
    table = frame(share.assign_coords(image=_called(courses)))
    wide = table.pivot(index=["network", "image", "inverse", "step"], columns="predicted", values="value")
    wide = wide[labels].round(1).reset_index()
    return wide.assign(truth=wide["image"].str.partition(",")[0])


def explore(courses: xr.Dataset | None, examples: dict[str, xr.Dataset], live: bool | None = None) -> Any:
    """Return the confidence of failed attacks over the steps, with controls: the image, the network, the temperature, the step.

    courses: of `run.courses`, with PGD at inverse "1". examples: of `run.pictures`, to show the images; those that are not
    there have none. Where there is nothing to show, a sentence says so.
    """
    if courses is None or not bool(standing(courses).any()):
        return Markdown(  # type: ignore[no-untyped-call]
            "There is no failed attack to follow: these runs came without weights, or PGD broke all images."
        )
    near = nearest(courses)
    table, labels = confidences(near), [str(name) for name in near.predicted.values]
    images, networks = _called(near), [str(name) for name in near.network.values]
    steps, heats = [int(step) for step in near.step.values], [str(name) for name in near.inverse.values if name != _PLAIN]
    choices = [
        Choice("followed_image", images, images[0], "image"),
        Choice("followed_network", networks, _telling(near)[0], "network"),
        Choice("followed_inverse", heats, _telling(near)[1], "1 / T"),
        Choice("followed_step", steps, steps[-1], "step"),
    ]
    base = (
        alt.Chart(table)
        .transform_filter("datum.image == followed_image && datum.network == followed_network")
        .transform_filter(f"datum.inverse == '{_PLAIN}' || datum.inverse == followed_inverse")
        .transform_calculate(attack=f"datum.inverse == '{_PLAIN}' ? 'PGD' : 'Temperature-PGD'")
        .transform_fold([*labels], as_=["label", "share"])
    )
    charts = _bars(base, labels) & _lines(base)
    shown = _shown(near, examples)
    return explorer((shown & charts) if shown is not None else charts, choices, live=live)


def _hue() -> alt.Color:
    scale = alt.Scale(domain=["PGD", "Temperature-PGD"], range=["#4292c6", "#d7301f"])
    return alt.Color("attack:N", scale=scale, title=None, legend=alt.Legend(orient="top", symbolOpacity=1))


def _title(text: str) -> alt.Title:
    return alt.Title(text, anchor="start", fontWeight="normal", fontSize=12)


_TIPS: list[Any] = ["attack:N", "label:N", "step:Q", alt.Tooltip("share:Q", format=".1f", title="confidence, %")]


def _bars(base: alt.Chart, labels: list[str]) -> Any:
    now = base.transform_filter("datum.step == followed_step").encode(
        x=alt.X(
            "label:N",
            scale=alt.Scale(domain=labels),
            title="class (framed: the true one)",
            axis=alt.Axis(labelAngle=0),
        ),
        xOffset=alt.XOffset("attack:N", scale=alt.Scale(domain=["PGD", "Temperature-PGD"])),
        y=alt.Y("share:Q", title="confidence, %", scale=alt.Scale(domainMin=0)),
        tooltip=_TIPS,
    )
    bars = now.mark_bar().encode(color=_hue())
    own = now.transform_filter("datum.label == datum.truth").mark_bar(fillOpacity=0, stroke="#888", strokeWidth=2)
    return alt.layer(bars, own).properties(width=480, height=170, title=_title("what the network says at the chosen step"))


def _lines(base: alt.Chart) -> Any:
    x = alt.X("step:Q", axis=alt.Axis(tickMinStep=1), title="step of the attack")
    y = alt.Y("share:Q", title="confidence, %")
    own = base.transform_filter("datum.label == datum.truth").mark_line(strokeWidth=2.5)
    others = base.transform_filter("datum.label != datum.truth").transform_joinaggregate(
        top="max(share)", groupby=["step", "attack"]
    )
    rival = others.transform_filter("datum.share == datum.top").mark_line(strokeWidth=1.5, strokeDash=[4, 3])
    rule = base.transform_filter("datum.step == followed_step").mark_rule(strokeDash=[3, 3], color="#888").encode(x=x)
    lines = [one.encode(x=x, y=y, color=_hue(), tooltip=_TIPS) for one in (own, rival)]
    title = _title("the true class (solid) and its strongest rival (dashed) over the steps")
    return alt.layer(rule, *lines).properties(width=480, height=170, title=title)


def _shown(near: xr.Dataset, examples: dict[str, xr.Dataset]) -> Any:
    """Return the chosen image as it is; None where no image came along."""
    clean = {int(image): one for some in examples.values() for image, one in _pixels(some).items()}
    rows = [
        {"image": name, "url": picture(clean[int(image)])}
        for name, image in zip(_called(near), near.image.values, strict=True)
        if int(image) in clean
    ]
    if not rows:
        return None
    chart = alt.Chart(pd.DataFrame(rows)).transform_filter("datum.image == followed_image")
    face = chart.mark_image(width=_SIDE, height=_SIDE, smooth=False).encode(
        url="url:N", x=alt.value(_SIDE / 2), y=alt.value(_SIDE / 2), tooltip=["image:N"]
    )
    return face.properties(width=_SIDE, height=_SIDE, title=_title("the chosen image, not attacked"))


def _pixels(examples: xr.Dataset) -> dict[int, np.ndarray]:
    return {int(image): examples.pixels.sel(image=image, form="clean").values for image in examples.image.values}
