"""Table 4 of Tian et al. 2021 and the images of Figure 6: predictions for images on their background and on white."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import xarray as xr

from classwise.charts.gallery import image_rows
from classwise.charts.style import (
    names_of,
)
from classwise.stats.confidence import top_k


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
