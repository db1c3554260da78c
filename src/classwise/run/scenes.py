"""The images of an evaluation themselves, with what is object in them and what is background."""

from collections.abc import Sequence

import xarray as xr

from classwise.errors import unknown
from classwise.spec import Evaluation, Spec


def scenes(spec: Spec | Sequence[Spec], evaluation: Evaluation, label: str | None = None, *, behind: bool = False) -> xr.Dataset:
    """Return the images of an evaluation before they are attacked, all or those of a class; of several runs, each image once.

    No network is needed.

    pixels (image, channel, row, column) from 0 to 1; truth (image) as in outcomes. `behind` tells objects from what lies behind
    them: object (image, row, column) and whiteness (image), how light the background is, 0 to 1 (`backgrounds.objects`).
    """
    if not isinstance(spec, Spec):
        each = [scenes(one, evaluation, label, behind=behind) for one in spec]
        return xr.concat(each, "image").drop_duplicates("image")
    from classwise import backgrounds  # torch
    from classwise.run import questions

    images, _, _ = questions.problem(spec, evaluation)
    if label is not None:
        if label not in images.classes:
            raise unknown("class", label, images.classes)
        images = images.take(images.labels == images.classes.index(label))
    pixels, _ = images.batch(slice(None))
    found = xr.Dataset(
        {
            "pixels": (("image", "channel", "row", "column"), pixels.cpu().numpy()),
            "truth": ("image", images.labels.cpu().numpy()),
        },
        coords={"image": images.index.cpu().numpy(), "predicted": list(images.classes)},
    )
    if not behind:
        return found
    found["object"] = (("image", "row", "column"), backgrounds.objects(images.pixels).cpu().numpy())
    return found.assign(whiteness=("image", backgrounds.whiteness(images.pixels).cpu().numpy()))
