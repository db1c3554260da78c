"""Charts with controls: one explorer in two dresses.

In a static page the controls are the chart's own and need no kernel. In JupyterLab they are ipywidgets, which can also show what
only a kernel can compute. `live` decides; None asks `charts.live()`.
"""

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr
from IPython.display import Markdown
from PIL import Image

from classwise import charts, metrics
from classwise.spec import Evaluation, Spec

Show = Callable[..., object]

# The Wilson interval at 95 %, written for Vega.
_WILSON = (
    "({z2} + 2 * datum.count {sign} {z} * sqrt({z2} + 4 * datum.count * (1 - datum.count / datum.images)))"
    " / (2 * (datum.images + {z2})) * 100"
)


@dataclass(frozen=True)
class Choice:
    """One control: a drop-down of `options`, or a slider where these are numbers in even steps.

    name: of the chart's parameter, unlike any column of its rows; label: what the reader sees.
    """

    name: str
    options: Sequence[Any]
    value: Any
    label: str

    @property
    def slider(self) -> tuple[float, float, float] | None:
        """Lowest, highest and step of a slider; None for a drop-down."""
        numbers = [one for one in self.options if isinstance(one, int | float)]
        steps = {round(after - before, 9) for before, after in pairwise(numbers)}
        return (numbers[0], numbers[-1], steps.pop()) if len(numbers) == len(self.options) and len(steps) == 1 else None

    def param(self, *, bound: bool) -> alt.Parameter:
        """Return the chart's parameter, with its own control if `bound`."""
        if not bound:
            return alt.param(name=self.name, value=self.value)
        if self.slider:
            low, high, step = self.slider
            return alt.param(
                name=self.name, value=self.value, bind=alt.binding_range(min=low, max=high, step=step, name=self.label)
            )
        return alt.param(name=self.name, value=self.value, bind=alt.binding_select(options=list(self.options), name=self.label))

    def widget(self) -> Any:
        """Return the ipywidget."""
        import ipywidgets

        if self.slider:
            return ipywidgets.SelectionSlider(options=list(self.options), value=self.value, description=self.label)
        return ipywidgets.Dropdown(options=list(self.options), value=self.value, description=self.label)


def explorer(chart: Any, choices: Sequence[Choice], show: Show | None = None, live: bool | None = None) -> Any:
    """Return a chart with controls; in a live kernel `show(**choices)` is displayed below it and again after each change."""
    if not (charts.live() if live is None else live):
        return chart.add_params(*[choice.param(bound=True) for choice in choices])
    import ipywidgets
    from IPython.display import display

    alt.JupyterChart.enable_offline(True)
    view = alt.JupyterChart(chart.add_params(*[choice.param(bound=False) for choice in choices]))
    boxes, below = {choice.name: choice.widget() for choice in choices}, ipywidgets.Output()

    def again(*_: object) -> None:
        if show is not None:
            with below:
                below.clear_output(wait=True)
                display(show(**{name: box.value for name, box in boxes.items()}))

    for name, box in boxes.items():
        ipywidgets.link((box, "value"), (view.params, name))
        box.observe(again, "value")
    again()
    return ipywidgets.VBox([ipywidgets.HBox(list(boxes.values()), layout={"flex_flow": "row wrap"}), view, below])


def _tidy(count: xr.DataArray) -> pd.DataFrame:
    """Return counts as rows, seeds pooled; cells off the diagonal that are empty are left out."""
    table = metrics.forms(count.sum("seed")).rename("count").to_dataframe()["count"].reset_index()
    where = [name for name in table.columns if name not in ("predicted", "count")]
    table["images"] = table.groupby(where)["count"].transform("sum")
    return table[(table["images"] > 0) & ((table["count"] > 0) | (table["label"] == table["predicted"]))]


def per_class(history: xr.Dataset, show: Show | None = None, live: bool | None = None, design: float = 1.0) -> Any:
    """Return the explorer of a class: its accuracy over the epochs against all others, and what it is taken for.

    `history` is of schema "history 1" with the dimensions defence and seed (seeds are pooled). Choose the class, the defence,
    clean or attacked images, the split and the epoch. `show` is described at `explorer`. design: by what the intervals' variance
    exceeds that of independent images, where seeds share theirs (`intervals.design`).
    """
    count, z = history["count"], 1.96 * design**0.5
    table = _tidy(count.sel(epoch=metrics.measured(count.sel(split="test", drop=True)).epoch))
    labels = [str(name) for name in count.label.values]
    ends = {name: _WILSON.format(z=z, z2=z**2, sign=sign) for name, sign in (("low", "-"), ("high", "+"))}
    seen = [int(epoch) for epoch in np.unique(table["epoch"])]
    defences = [str(name) for name in count.defence.values]
    weakest = metrics.accuracy(metrics.forms(count.isel(defence=-1, epoch=-1).sel(split="test").sum("seed")))
    first = str(weakest.sel(images_are="attacked").idxmin("label").values)
    choices = [
        Choice("chosen_class", labels, first, "class"),
        Choice("chosen_defence", defences, defences[-1], "defence"),
        Choice("chosen_images", ["clean", "attacked"], "attacked", "images"),
        Choice("chosen_split", [str(name) for name in count.split.values], "test", "split"),
        Choice("chosen_epoch", list(range(seen[0], seen[-1] + 1)), seen[-1], "epoch"),
    ]
    base = (
        alt.Chart(table)
        .transform_filter("datum.defence == chosen_defence && datum.images_are == chosen_images && datum.split == chosen_split")
        .transform_calculate(share="100 * datum.count / datum.images", **ends)
    )
    return explorer(_over_epochs(base, labels) & _taken_for(base, labels), choices, show, live)


def _latest(base: alt.Chart) -> Any:
    """Return the chart at the chosen epoch; one that was not measured shows the last before it that was."""
    past = base.transform_filter("datum.epoch <= chosen_epoch").transform_joinaggregate(latest="max(epoch)")
    return past.transform_filter("datum.epoch == datum.latest")


def _over_epochs(base: alt.Chart, labels: Sequence[str]) -> Any:
    rates = base.transform_filter("datum.label == datum.predicted").encode(
        x=alt.X("epoch:Q", axis=alt.Axis(tickMinStep=1)),
    )
    chosen = rates.transform_filter("datum.label == chosen_class")
    percent = alt.Y("share:Q", title="accuracy, %", scale=alt.Scale(domain=[0, 100]))
    tooltip = [
        "label:N",
        "epoch:Q",
        *(alt.Tooltip(f"{name}:Q", format=".1f") for name in ("low", "share", "high")),
        "images:Q",
    ]
    others = rates.mark_line(strokeWidth=1, opacity=0.45, color="#999").encode(y=percent, detail="label:N", tooltip=tooltip)
    band = chosen.mark_area(opacity=0.25).encode(
        y=alt.Y("low:Q", title="accuracy, %"), y2="high:Q", color=charts.by_class(labels, legend=None)
    )
    line = chosen.mark_line(strokeWidth=3, point=True).encode(
        y=percent, color=charts.by_class(labels, legend=None), tooltip=tooltip
    )
    now = _latest(rates.transform_filter("datum.label == chosen_class")).mark_rule(strokeDash=[3, 3], color="#888")
    title = alt.Title(
        "the chosen class over the epochs, with its 95 % interval; grey: the others",
        anchor="start",
        fontWeight="normal",
        fontSize=12,
    )
    return alt.layer(others, band, now, line).properties(width=520, height=230, title=title)


def _taken_for(base: alt.Chart, labels: Sequence[str]) -> Any:
    now = _latest(base.transform_filter("datum.label == chosen_class")).encode(
        x=alt.X(
            "predicted:N",
            sort=list(labels),
            scale=alt.Scale(domain=list(labels)),
            title="answered as",
            axis=alt.Axis(labelAngle=0),
        ),
        tooltip=[
            "predicted:N",
            "epoch:Q",
            "count:Q",
            "images:Q",
            *(alt.Tooltip(f"{n}:Q", format=".1f") for n in ("low", "share", "high")),
        ],
    )
    hue = charts.by_class(labels, "predicted", legend=None)
    bars = now.mark_bar().encode(y=alt.Y("share:Q", title="share, %", scale=alt.Scale(domain=[0, 100])), color=hue)
    ends = now.mark_rule(strokeWidth=1.5, color="#777").encode(y="low:Q", y2="high:Q")
    title = alt.Title("what its images are answered as, at the chosen epoch", anchor="start", fontWeight="normal", fontSize=12)
    return alt.layer(bars, ends).properties(width=520, height=180, title=title)


def picture(pixels: np.ndarray) -> str:
    """Return an image (channels, height, width) in [0, 1], or in any range with more rows than that, as a data address."""
    data = (np.clip(pixels, 0, 1) * 255).round().astype(np.uint8)
    image = Image.fromarray(data[0] if len(data) == 1 else data.transpose(1, 2, 0))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def pictures(examples: xr.Dataset, defence: str) -> list[dict[str, Any]]:
    """Return the rows of `shown`: each image, what the attack adds, and the attacked image, with the answers."""
    names = [str(name) for name in examples.predicted.values]
    delta = examples.pixels.sel(form="attacked") - examples.pixels.sel(form="clean")
    reach = max(float(abs(delta).max()), 1e-9)
    chance = np.exp(examples.logits - examples.logits.max("predicted"))
    sure = (100 * chance / chance.sum("predicted")).max("predicted")
    rows: list[dict[str, Any]] = []
    seen: dict[str, int] = {}
    for number, image in enumerate(examples.image.values):
        one, label = examples.isel(image=number), names[int(examples.truth[number])]
        place = seen[label] = seen.get(label, 0) + 1
        common = {"defence": defence, "label": label, "place": place, "image": int(image)}
        for form in ("clean", "attacked"):
            said = f"{names[int(one.answer.sel(form=form))]}, {float(sure.isel(image=number).sel(form=form)):.0f} %"
            rows.append({**common, "form": form, "url": picture(one.pixels.sel(form=form).values), "said": said})
        change = delta.isel(image=number).values
        said = f"largest change {float(abs(change).max()):.3f}"
        rows.append({**common, "form": "perturbation", "url": picture(0.5 + change / (2 * reach)), "said": said})
    return rows


def shown(table: pd.DataFrame) -> Any:
    """Return images in columns, their three forms in rows."""
    forms, side = ["clean", "perturbation", "attacked"], 96
    base = (
        alt.Chart(table)
        .encode(
            x=alt.X("place:O", axis=None),
            y=alt.Y("form:N", sort=forms, title=None, axis=alt.Axis(ticks=False, domain=False)),
            tooltip=["label:N", "form:N", "said:N", "image:Q"],
        )
        .properties(width=max(table["place"]) * (side + 24), height=3 * (side + 30))
    )
    pictures = base.mark_image(width=side, height=side, smooth=False).encode(url="url:N")
    words = base.mark_text(dy=side / 2 + 8, fontSize=11).encode(text="said:N")
    return alt.layer(pictures, words)


def _weakest(examples: xr.Dataset) -> int:
    """Return the class whose examples are most often broken."""
    broken = examples.answer.sel(form="attacked") != examples.truth
    return int(broken.astype(float).groupby(examples.truth).mean().idxmax())


def gallery(examples: dict[str, xr.Dataset], live: bool | None = None) -> Any:
    """Return images of a chosen class: clean, the perturbation (grey: no change) and attacked, with the model's answer.

    `examples` maps the name of a defence, or of a network, to its examples (schema "examples 1"); one alone needs no choice, and
    where there are none a sentence says so.
    """
    if not examples:
        return Markdown("There are no images to show: these runs were recorded elsewhere, and their weights did not come along.")
    table = pd.DataFrame([row for name, data in examples.items() for row in pictures(data, name)])
    first, last = next(iter(examples.values())), list(examples)[-1]
    labels = [str(name) for name in first.predicted.values if name in set(table["label"])]
    weakest = str(first.predicted.values[_weakest(examples[last])])
    choices = [Choice("gallery_class", labels, weakest, "class"), Choice("gallery_defence", list(examples), last, "defence")]
    conditions = ["datum.label == gallery_class", "datum.defence == gallery_defence"]
    several = 1 + (len(examples) > 1)
    return explorer(shown(table).transform_filter(" && ".join(conditions[:several])), choices[:several], live=live)


def attacked_now(
    attacker: Callable[[Spec, Evaluation], Callable[..., xr.Dataset]],
    specs: Sequence[Spec],
    evaluation: Evaluation,
    count: int = 4,
) -> Show:
    """Return what `per_class` shows in a live kernel: images of the chosen class and split, attacked now.

    It is the network of the chosen defence after its last epoch that is attacked.

    `attacker` is `run.attacker`; of each defence the first of `specs` is attacked, in `count` images.
    """
    first = {spec.defence: spec for spec in reversed(specs)}
    ready: dict[tuple[str, str], Callable[..., xr.Dataset]] = {}
    drawn: dict[tuple[str, str, str], Any] = {}

    def show(chosen_class: str, chosen_defence: str, chosen_split: str, **_: object) -> Any:
        network, picture = (chosen_defence, chosen_split), (chosen_defence, chosen_split, chosen_class)
        if network not in ready:
            ready[network] = attacker(first[chosen_defence], replace(evaluation, split=chosen_split))
        if picture not in drawn:
            rows = pictures(ready[network](label=chosen_class, count=count), chosen_defence)
            drawn[picture] = shown(pd.DataFrame(rows))
        return drawn[picture]

    return show
