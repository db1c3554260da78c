"""Images in charts: examples before and after an attack, chosen by the reader, and rows of images."""

import base64
import io
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr
from IPython.display import Markdown
from PIL import Image

from classwise.charts.descriptions import capital, describe
from classwise.charts.primitives import Choice, Show, explorer
from classwise.charts.style import COLUMN, GREY, names_of, tooltip
from classwise.core import datasets
from classwise.core.identity import radius_value
from classwise.core.spec import Evaluation, Subject
from classwise.stats.confidence import confidence

# Between two images of a row, and for the names of the rows, in pixels.
_APART, _NAMES = 26, 100
# Attacks of a few seconds that a reader can choose in a live kernel: by one step, by many, on the margin, at another temperature,
# by adaptive steps, and without gradients.
LIVE_ATTACKS = ("fgsm", "pgd-20", "margin-20", "temperature-pgd-20", "apgd-ce", "square")
_RIGHT, _WRONG = "✓", "✗"
_BELOW = (
    f"Below each image: the predicted class, {_RIGHT} if right, {_WRONG} if wrong, and the confidence in it. Grey: no change."
)


def png_address(pixels: np.ndarray) -> str:
    """Return an image (channels, height, width) with pixels in [0, 1] as a data address; others are clipped."""
    data = (np.clip(pixels, 0, 1) * 255).round().astype(np.uint8)
    image = Image.fromarray(data[0] if len(data) == 1 else data.transpose(1, 2, 0))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _grid(table: pd.DataFrame, rows: Sequence[str], side: int, lines: int = 1) -> Any:
    """Return images in rows with some lines of text below each: the columns row, place, url, caption and number."""
    axis, columns = alt.Axis(ticks=False, domain=False, labelLimit=110), int(table["place"].max()) + 1
    side = min(side, (COLUMN - _NAMES) // columns - _APART)
    lift = 7 * (lines - 1)
    tips = tooltip("row", *(["label"] if "label" in table else []), "caption")
    base = alt.Chart(table).encode(
        x=alt.X("place:O", axis=None),
        y=alt.Y("row:N", sort=list(rows), title=None, axis=axis),
        tooltip=[*tips, alt.Tooltip("number:Q", title="image no.")],
    )
    images = base.mark_image(width=side, height=side, smooth=False, yOffset=-lift).encode(url="url:N")
    # White pixels would melt into a white page, black ones into a dark one.
    frames = base.mark_point(shape="square", size=(side + 2) ** 2, filled=False, stroke=GREY, strokeWidth=1, yOffset=-lift)
    words = base.mark_text(dy=side / 2 + 8 - lift, fontSize=12, lineBreak="\n").encode(text="caption:N")
    layered = alt.layer(images, frames, words, view=alt.ViewBackground(stroke=None))
    return layered.properties(width=columns * (side + _APART), height=len(rows) * (side + 12 + 14 * lines))


def image_rows(rows: Mapping[str, xr.DataArray], captions: Mapping[str, Sequence[str]], side: int = 72, title: str = "") -> Any:
    """Return images in rows with a caption of one line or more below each.

    rows: by title, pixels (image, channel, row, column) from 0 to 1. captions: by title, one for each image. title: of the chart,
    "" for a general one. Images are drawn smaller than `side` pixels where the page has no room for a row.
    """
    lines = max(text.count("\n") + 1 for texts in captions.values() for text in texts)
    cells = [
        (name, place, png_address(pixels.values), captions[name][place], int(pixels.image))
        for name, images in rows.items()
        for place, pixels in enumerate(images)
    ]
    table = pd.DataFrame(cells, columns=["row", "place", "url", "caption", "number"])
    parts = [f"{capital(name)}: {', '.join(captions[name])}." for name in rows]
    text = f"{len(table)} images, by row. {' '.join(parts)}".replace("\n", " ")
    return describe(_grid(table, list(rows), side, lines), title or "Test images", text)


def one_per_class(scenes: Mapping[str, xr.Dataset]) -> Any:
    """Return the first image of each class of several datasets, a row for each: `scenes` by title, as `runs.scenes` has them."""
    rows, captions = {}, {}
    for title, data in scenes.items():
        names = names_of(data, "predicted")
        first = [int((data.truth == number).argmax("image")) for number in range(len(names))]
        rows[title], captions[title] = data.pixels.isel(image=first), names
    return image_rows(rows, captions, side=56, title="The first test image of each class")


def flipped(examples: xr.Dataset) -> xr.DataArray:
    """Return which images are classified correctly without the attack and wrongly with it, along image."""
    right = examples.prediction == examples.truth
    flips: xr.DataArray = right.sel(form="clean", drop=True) & ~right.sel(form="attacked", drop=True)
    return flips


def example_rows(examples: xr.Dataset, defence: str) -> list[dict[str, Any]]:
    """Return the rows of `example_grid`: each image, what the attack adds, and the attacked image, with the predictions.

    Images that the attack flips come first.
    """
    examples = examples.isel(image=np.argsort(~flipped(examples).values, kind="stable"))
    names = names_of(examples, "predicted")
    delta = examples.pixels.sel(form="attacked") - examples.pixels.sel(form="clean")
    reach = max(float(abs(delta).max()), 1e-9)
    likeliest = 100 * confidence(examples).max("predicted")
    rows: list[dict[str, Any]] = []
    seen: dict[str, int] = {}
    for place, number in enumerate(examples.image.values):
        example, label = examples.isel(image=place), names[int(examples.truth[place])]
        seen[label] = seen.get(label, -1) + 1
        common = {"defence": defence, "label": label, "place": seen[label], "number": int(number)}
        change = delta.isel(image=place).values
        for form in ("clean", "attacked"):
            sure = float(likeliest.isel(image=place).sel(form=form))
            named = names[int(example.prediction.sel(form=form))]
            caption = f"{named} {_RIGHT if named == label else _WRONG}\nconfidence {sure:.0f} %"
            rows.append({**common, "row": form, "url": png_address(example.pixels.sel(form=form).values), "caption": caption})
        caption = f"largest change\n{float(abs(change).max()):.3f}"
        rows.append({**common, "row": "perturbation", "url": png_address(0.5 + change / (2 * reach)), "caption": caption})
    return rows


def example_grid(table: pd.DataFrame, subtitle: str = "") -> Any:
    """Return images in columns, their three forms in rows: `table` of `example_rows`. subtitle: "" for what the captions are."""
    attacked = table[table["row"] == "attacked"]
    broken = attacked["caption"].str.contains(f" {_WRONG}\n").sum()
    text = f"{len(attacked)} images: clean, the perturbation and attacked. {broken} of the attacked ones are misclassified."
    grid = _grid(table, ("clean", "perturbation", "attacked"), side=96, lines=2)
    return describe(grid, "Images before and after the attack", text, subtitle or _BELOW)


def gallery(examples: dict[str, xr.Dataset], start: str | None = None, network: str | None = None) -> Any:
    """Return images of a chosen class: clean, the perturbation (grey: no change) and attacked, with the model's prediction.

    `examples` maps the name of a defence, or of a network, to its examples (schema "examples 1"); a single one needs no choice. A
    sentence is returned where there are none. start: the class at first, if the attack flips an image of it; else it is the one
    with the most such images. network: the defence or network at first; None is the last one.
    """
    if not examples:
        return Markdown("There are no images to show: these runs were recorded elsewhere, without their weights.")
    table = pd.DataFrame([row for name, data in examples.items() for row in example_rows(data, name)])
    first, shown = next(iter(examples.values())), network if network in examples else list(examples)[-1]
    names = names_of(first, "predicted")
    labels = [name for name in names if name in set(table["label"])]
    flips = dict(zip(names, np.bincount(examples[shown].truth, flipped(examples[shown]), len(names)), strict=True))
    choices = [
        Choice("gallery_class", labels, start if flips.get(start or "") else max(labels, key=lambda name: flips[name]), "class"),
        Choice("gallery_defence", list(examples), shown, "defence"),
    ]
    conditions = ["datum.label == gallery_class", "datum.defence == gallery_defence"]
    several = 1 + (len(examples) > 1)
    return explorer(example_grid(table).transform_filter(" && ".join(conditions[:several])), choices[:several])


def attack_live(
    attacker: Callable[[Any, Evaluation], Callable[..., xr.Dataset]],
    subjects: Sequence[Subject],
    evaluation: Evaluation,
    count: int = 4,
) -> Show:
    """Return what `class_explorer` shows in a live kernel: images of the chosen class, split and radius, attacked on each choice.

    `attacker` is `runs.attack_function`. Of each defence or network the first of `subjects` is attacked, after its last epoch, in
    `count` images. Further controls choose the attack (at first that of `evaluation`, else one of LIVE_ATTACKS), other images of
    the class, and a multiple of the radius. Above the images stand the attack, the radius and the seconds that it took.
    """
    first = {_name(subject): subject for subject in reversed(subjects)}

    @cache
    def ready(name: str, attack: str, split: str) -> Callable[..., xr.Dataset]:
        # Another attack has the options of its own table.
        options = evaluation.options if attack == evaluation.attack else {}
        chosen = replace(evaluation, attack=attack, options=options, split=split or evaluation.split)
        return attacker(first[name], chosen)

    @cache
    def chart(label: str, network: tuple[str, str, str], radius: str, place: int) -> Any:
        attacking = ready(*network)
        began = time.perf_counter()
        examples = attacking(label=label, count=count * place, eps=radius)
        took = time.perf_counter() - began
        last = examples.isel(image=slice(count * (place - 1), None))
        none = "" if last.sizes["image"] else " There are no more images: these are the last ones."
        last = examples.isel(image=slice(-count, None)) if none else last
        how = f"{network[1]} at radius {radius}, attacked in {took:.1f} s.{none} {_BELOW}"
        return example_grid(pd.DataFrame(example_rows(last, network[0])), how)

    def draw(chosen_class: str, chosen_defence: str = "", chosen_split: str = "", chosen_radius: str = "", **more: Any) -> Any:
        name, factor = chosen_defence or _name(subjects[0]), float(more.get("attacked_radius", 1))
        radius = chosen_radius or evaluation.eps or first[name].eps
        radius = radius if factor == 1 else f"{factor * radius_value(radius):.6g}"
        network = name, str(more.get("chosen_attack", evaluation.attack)), chosen_split
        return chart(chosen_class, network, radius, int(more.get("attacked_images", 1)))

    names = dict.fromkeys((evaluation.attack, *LIVE_ATTACKS))
    pages = Choice("attacked_images", [1, 2, 3, 4, 5], 1, f"which {count} images")
    factors = Choice("attacked_radius", [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0], 1.0, "radius, times that of the evaluation")
    return Show(draw, (Choice("chosen_attack", list(names), evaluation.attack, "attack"), pages, factors))


def attack_widgets(
    attacker: Callable[[Any, Evaluation], Callable[..., xr.Dataset]], subjects: Sequence[Subject], evaluation: Evaluation
) -> Any:
    """Return the widgets of `attack_live` alone, with choices of the class and the network; for a live kernel."""
    networks, classes = [_name(subject) for subject in subjects], datasets.known_classes(subjects[0].dataset)
    choices = [Choice("chosen_class", classes, classes[0], "class"), Choice("chosen_defence", networks, networks[-1], "network")]
    return explorer(None, choices, attack_live(attacker, subjects, evaluation))


def _name(subject: Subject) -> str:
    return str(getattr(subject, subject.dimensions[0]))
