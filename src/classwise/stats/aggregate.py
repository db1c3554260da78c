"""Measures of counts[label, predicted], in percent; further dimensions stay as they are.

Counts under no attack give accuracy, counts under an attack robust accuracy: one function serves both. A class without images
has no rate: it is NaN, and so are the measures over all classes.
"""

import numpy as np
import xarray as xr


def counts(outcomes: xr.Dataset) -> xr.DataArray:
    """Return count(..., label, predicted) of outcomes; images that are not there (truth -1) do not count."""
    numbers = xr.DataArray(np.arange(outcomes.sizes["predicted"]), dims="predicted", coords={"predicted": outcomes.predicted})
    there = outcomes.truth >= 0
    label = numbers.rename(predicted="label")
    rows: xr.DataArray = ((outcomes.truth == label) & there).astype("i4")
    count: xr.DataArray = rows.dot((outcomes.answer == numbers).astype("i4"), dim="image")
    return count.rename("count")


def worst_case(outcomes: xr.Dataset, over: str = "attack") -> xr.Dataset:
    """Return outcomes in which an image is broken where any of the attacks along `over` broke it.

    The answer is that under the first attack which did, else under the first that was tried: a reduction of outcomes, image by
    image, never a mean of robust accuracies. Images that one of the attacks was not asked about are left out (truth -1): they
    might look more robust than the others.
    """
    there = (outcomes.truth >= 0).all(over)
    first = outcomes.flipped.argmax(over)
    worst = outcomes[["truth", "answer", "flipped"]].isel({over: first}).drop_vars(over)
    for name, value in {"truth": -1, "answer": -1, "flipped": False}.items():
        worst[name] = worst[name].where(there, value)
    return worst.assign_coords(predicted=outcomes.predicted)


def with_worst_case(outcomes: xr.Dataset, name: str, over: str = "attack") -> xr.Dataset:
    """Return the same outcomes with their worst case as one more attack of that name."""
    worst = worst_case(outcomes, over).expand_dims({over: [name]})
    return xr.concat([outcomes[["truth", "answer", "flipped"]], worst], over).assign_coords(predicted=outcomes.predicted)


def cumulative_over_radius(outcomes: xr.Dataset, over: str = "eval_eps") -> xr.Dataset:
    """Return outcomes in which an image that is broken at one radius is broken at every later one along `over`.

    The radii ascend: an adversarial image of a small ball lies in every larger one, so this takes nothing from the defender that
    the attacks have not shown. The answer is that of the first radius that broke the image.
    """
    parts = [worst_case(outcomes.isel({over: slice(end)}), over) for end in range(1, outcomes.sizes[over] + 1)]
    return xr.concat(parts, outcomes[over]).assign_coords(predicted=outcomes.predicted)


def strongest(outcomes: xr.Dataset, over: str) -> xr.Dataset:
    """Return for each network the outcomes under the setting along `over` that leaves the lowest robust accuracy.

    The coordinate `over` tells which (Tian 2021, section 5: the best 1 / T of each model). It is a choice that the attacker makes
    on these very images: report all settings beside it. They are compared on the images that all of them were asked about.
    """
    there = (outcomes.truth >= 0).all(over)
    return outcomes.isel({over: (outcomes.flipped & there).sum("image").argmax(over)})


def black_box_only(outcomes: xr.Dataset, black: str, white: str) -> xr.DataArray:
    """Return the share of images, in percent, that a black-box attack breaks and a white-box attack does not.

    More than a few mean that gradients mislead the white-box attack: its robust accuracy is not to be believed. Only images that
    both were asked about count.
    """
    both = (outcomes.truth.sel(attack=[black, white]) >= 0).all("attack")
    flipped = [outcomes.flipped.sel(attack=name, drop=True) for name in (black, white)]
    share: xr.DataArray = 100 * (flipped[0] & ~flipped[1] & both).sum("image") / both.sum("image")
    return share.rename("lead")


def clean_and_attacked(count: xr.DataArray) -> xr.DataArray:
    """Return counts with the dimension `images_are` ("clean", "attacked") in place of `attack`.

    In a history the splits are attacked by different attacks, no two of them by the same; here they stand side by side.
    """
    attacked = count.drop_sel(attack="clean").sum("attack")
    parts = [count.sel(attack="clean", drop=True), attacked]
    return xr.concat(parts, dim="images_are").assign_coords(images_are=["clean", "attacked"])


def measured_epochs(count: xr.DataArray) -> xr.DataArray:
    """Return counts at the epochs at which something was counted."""
    seen = count.sum([dim for dim in count.dims if dim != "epoch"]) > 0
    return count.isel(epoch=seen.values)


def common(outcomes: xr.Dataset, over: str = "attack") -> xr.Dataset:
    """Return outcomes of those images alone that all along `over` were asked about; the others are not there (truth -1)."""
    return outcomes.assign(truth=outcomes.truth.where((outcomes.truth >= 0).all(over), -1))
