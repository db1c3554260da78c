"""The explorer of a class: which classes are similar to it, and which ones its images are mistaken for."""

from typing import Any

import altair as alt
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.explorer import Choice, explorer
from classwise.charts.style import CHOSEN, GREY, PERCENT, frame, label_angle, names_of, panel_title, tooltip

_WIDTH = 260


def one_class(cosine: xr.DataArray, share: xr.DataArray, start: str, network: str) -> Any:
    """Return the explorer of a class: its cosines with the others, and what its images are classified as, in a network.

    cosine: dimensions defence, label and other. share: in percent, dimensions defence, attack, label and predicted. start,
    network: the class and the network at first.
    """
    classes = names_of(cosine)
    near = frame(cosine).rename(columns={"other": "predicted", "value": "cosine"})
    choices = [
        Choice("chosen_class", classes, start, "class"),
        Choice("chosen_network", names_of(cosine, "defence"), network, "network"),
        Choice("chosen_attack", names_of(share, "attack"), names_of(share, "attack")[-1], "images"),
    ]
    axis = alt.Axis(labelAngle=label_angle(classes))
    x = alt.X("predicted:N", sort=classes, scale=alt.Scale(domain=classes), title="other class", axis=axis)
    chosen = "datum.label == chosen_class && datum.defence == chosen_network && datum.label != datum.predicted"
    highest = alt.condition("datum.cosine == datum.highest", alt.value(CHOSEN), alt.value(GREY))
    near_bars = alt.Chart(near).transform_filter(chosen).transform_joinaggregate(highest="max(cosine)").mark_bar()
    near_bars = near_bars.encode(
        x=x,
        y=alt.Y("cosine:Q", title="cosine", scale=alt.Scale(domain=[min(0.0, float(near["cosine"].min())), 1])),
        color=highest,
        tooltip=tooltip("predicted", cosine="|.3f"),
    )
    mistakes = alt.Chart(frame(share)).transform_filter(f"{chosen} && datum.attack == chosen_attack")
    mistakes = mistakes.transform_joinaggregate(cosine="max(value)").transform_calculate(highest="datum.value")
    bars = mistakes.mark_bar().encode(
        x=alt.X("predicted:N", sort=classes, scale=alt.Scale(domain=classes), title="mistaken for", axis=axis),
        y=alt.Y("value:Q", title="share of the class, %", scale=PERCENT),
        color=highest,
        tooltip=tooltip("predicted", value="share of the class, %"),
    )
    left = near_bars.properties(width=_WIDTH, height=180, title=panel_title("cosine of its mean with that of another class"))
    right = bars.properties(width=_WIDTH, height=180, title=panel_title("its images, mistaken for"))
    first = near[(near["label"] == start) & (near["defence"] == network) & (near["label"] != near["predicted"])]
    text = extent(first, ["predicted"], f"Cosines of class {start} with other classes in {network}", "", "cosine", 2)
    return explorer(
        described(alt.hconcat(left, right), "One class: what is similar to it, and what it is mistaken for", text), choices
    )
