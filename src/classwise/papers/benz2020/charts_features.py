"""Charts of section 3.2 of Benz et al., features: rebuilt images next to the originals."""

from typing import Any

import xarray as xr

from classwise.charts import gallery
from classwise.charts.style import names_of
from classwise.core.errors import NotRecorded
from classwise.papers.benz2020.rebuilt_images import Images, by_features

_TARGET, _START = "original", "start"


def pictures(images: Images) -> Any:
    """Return one image of each class: the original, the image that rebuilding starts from, and its form in each set.

    Below each image stands its class; below a rebuilt one the label that it is trained with.
    """
    first = {name: some[0] for name, some in images.items()}
    if not first:
        raise NotRecorded("no rebuilt images are recorded")
    known = list(by_features({name: images[name] for name in first}))
    base = first[(known or list(first))[0]]
    names = names_of(base, "predicted")
    labels = base.truth.sel(image=base.shown.values) if known else base.original.sel(image=base.shown.values)
    chosen = base.shown.values[[int((labels.values == number).argmax()) for number in range(len(names))]]
    rows, captions = {}, {}

    def add(title: str, data: xr.Dataset, form: str, of: str) -> None:
        rows[title] = data.pixels.sel(form=form, shown=chosen).rename(shown="image")
        captions[title] = [names[int(number)] for number in data[of].sel(image=chosen).values]

    add(_TARGET, base, "target", "truth" if known else "original")
    if known:
        add(_START, base, "start", "original")
    for name, data in first.items():
        # A phone has room for two lines.
        add(name.removesuffix(" set"), data, "rebuilt", "truth")
    return gallery.image_rows(rows, captions, side=52, title="One training image of each class, and what replaces it")
