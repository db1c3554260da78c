"""Charts with controls: one explorer in two dresses.

In a static page the controls are the chart's own and need no kernel. In JupyterLab they are ipywidgets, which can also show what
only a kernel can compute. `live` decides; None asks `charts.live()`.
"""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr
from IPython.display import Markdown
from PIL import Image

from classwise.charts.explorer import Choice, Show, explorer
from classwise.charts.style import names_of
from classwise.core.spec import Evaluation, Spec


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


def _weakest_class(examples: xr.Dataset) -> int:
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
    weakest = str(first.predicted.values[_weakest_class(examples[last])])
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


def image_rows(rows: Mapping[str, xr.DataArray], said: Mapping[str, Sequence[str]], side: int = 72) -> Any:
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


def one_each(scenes: Mapping[str, xr.Dataset]) -> Any:
    """Return the first image of each class of several datasets, a row for each: `scenes` by title, as `run.scenes` has them."""
    rows, said = {}, {}
    for title, data in scenes.items():
        names = names_of(data, "predicted")
        first = [int((data.truth == number).argmax("image")) for number in range(len(names))]
        rows[title], said[title] = data.pixels.isel(image=first), names
    return image_rows(rows, said, side=56)
