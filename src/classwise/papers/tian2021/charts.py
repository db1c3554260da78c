"""Table 4 of Tian et al. 2021 and the images of Figure 6: predictions for images on their background and on white."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import xarray as xr

from classwise.charts.gallery import image_rows
from classwise.stats.aggregate import counts
from classwise.stats.confidence import top_k


def table_4(treated: xr.Dataset, label: str) -> pd.DataFrame:
    """Return the predictions for the images of a class, a line for each attack and treatment (Tian 2021, Table 4).

    Numbers of images, with their change from the first treatment: "56 (+3)". treated: along attack and treatment.
    """
    count = counts(treated).sum(["defence", "seed"]).sel(label=label, drop=True)
    each = (one.stack(line=("attack", "treatment")).transpose("line", ...) for one in (count, count - count.isel(treatment=0)))
    table, change = (one.to_pandas() for one in each)
    text = table.map("{:.0f}".format)
    treated_lines = text.index.get_level_values("treatment") != count.treatment.values[0]
    text[treated_lines] += change[treated_lines].map(" ({:+.0f})".format)
    return pd.DataFrame(text.set_axis([", ".join(line) for line in text.index])).rename_axis(columns="predicted class")


def top_two(outcomes: xr.Dataset, images: Sequence[int]) -> list[str]:
    """Return for each of some images, attack by attack, the two most confident predictions, a line for each of them."""
    ranks = top_k(outcomes.sel(image=list(images))).transpose("image", "attack", "rank")
    starts = [start for name in ranks.attack.values for start in ("clean:" if name == "clean" else "attacked:", "then")]
    names, confidences = (ranks[part].values.reshape(len(images), -1) for part in ("name", "confidence"))
    lines = (zip(starts, *pair, strict=True) for pair in zip(names, confidences, strict=True))
    return ["\n".join(f"{start} {name} {share:.0f} %" for start, name, share in parts) for parts in lines]


def repainted_images(confidence: xr.DataArray, pixels: Mapping[str, xr.DataArray], treated: xr.Dataset, count: int = 5) -> Any:
    """Return the images with the least confidence in each treatment, with the two most confident predictions below.

    confidence: of each image. pixels: of the images, by treatment. treated: outcomes along treatment. Tian 2021, Figure 6.
    """
    least = confidence.sortby(-confidence).image.values[-count:]
    rows = {name: some.sel(image=least) for name, some in pixels.items()}
    captions = {name: top_two(treated.sel(treatment=name), least) for name in pixels}
    return image_rows(rows, captions, side=132, title="The least confident images, as they are and painted white")
