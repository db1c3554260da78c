"""The chart of the similarity of classes (Benz et al. 2020, section 3.3)."""

from typing import Any

import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.primitives import Cells, heatmap, panels
from classwise.charts.style import Category, frame, names_of, tooltip


def cosines(cosine: xr.DataArray) -> Any:
    """Return the cosine of the mean logits of each two classes as shaded cells, a panel for each training.

    cosine: of `targets.cosines`. A click is not needed: the number of a cell stands in its tooltip.
    """
    labels = names_of(cosine)
    table = frame(cosine, "cosine").rename(columns={"other": "other class", "defence": "training"})
    table = table[table["label"] != table["other class"]]
    cells = Cells("cosine", "cosine", "cosine", ".1f", step=(27, 24))
    tips = tooltip("training", "label", "other class", cosine="cosine|.2f")
    chart = heatmap(table, Category("other class", labels, "class"), Category("label", labels, "class"), cells, tips)
    text = extent(table, ["training", "label", "other class"], "Cosine of the mean logits of two classes", "", "cosine", 2)
    by = Category("training", names_of(cosine, "defence"))
    return described(panels(chart, by), "Similarity of two classes by their mean logits (cosine)", text)
