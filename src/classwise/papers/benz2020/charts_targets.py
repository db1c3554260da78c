"""The chart of the similarity of classes (Benz et al. 2020, section 3.3)."""

from typing import Any

import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.primitives import Cells, heatmap, panels
from classwise.charts.style import Category, frame, names_of, tooltip


def cosines(cosine: xr.DataArray) -> Any:
    """Return the cosine of the mean logits of each two classes as shaded cells, a panel for each training.

    cosine: of `targets.cosines`.
    """
    labels = names_of(cosine)
    table = frame(cosine, "cosine").rename(columns={"other": "other class"})
    table = table[table["label"] != table["other class"]]
    cells = Cells("cosine", "cosine", "cosine", ".1f", step=(27, 24))
    tips = tooltip("defence", "label", "other class", cosine="cosine|.2f")
    chart = heatmap(table, Category("other class", labels, "class"), Category("label", labels, "class"), cells, tips)
    text = extent(table, ["defence", "label", "other class"], "Cosine of the mean logits of two classes", "", "cosine", 2)
    by = Category.of(cosine, "defence")
    return described(panels(chart, by), "Similarity of two classes by their mean logits (cosine)", text)
