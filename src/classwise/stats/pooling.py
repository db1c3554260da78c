"""Seeds pooled: the number of independent images that their predictions are worth.

If each seed tests on different images (the folds of digits), every image is one more observation. If they share the images
(CIFAR-10), their mistakes coincide. The effect of a seed is common to all its images.
"""

import xarray as xr

from classwise.stats.aggregate import counts


def seeds_share_images(outcomes: xr.Dataset) -> bool:
    """Return whether more than one seed was evaluated on any image."""
    if "seed" not in outcomes.dims:
        return False
    present = outcomes.truth >= 0
    return bool((present.any([dim for dim in present.dims if dim not in ("seed", "image")]).sum("seed") > 1).any())


def design_effect(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the design effect of pooling the seeds: the variance of a class's accuracy relative to independent images.

    At least 1, a number for each setting (defence, attack ...), summed over its classes. Images and seeds are crossed random
    effects: the variance of a mean is that between images plus that between seeds, minus what both count (the two-way clustering
    of Cameron, Gelbach and Miller 2011, with the residual as in an analysis of variance). Kish 1965 for the design effect.
    """
    return design_effect_of((outcomes.prediction == outcomes.truth).astype("f8"), outcomes)


def design_effect_of(value: xr.DataArray, outcomes: xr.Dataset) -> xr.DataArray:
    """Return the design effect of pooling the seeds of a quantity of each image, like `design_effect` for accuracies."""
    if "seed" not in outcomes.dims:
        return xr.ones_like(value.isel(image=0, drop=True), dtype=float).rename("design_effect")
    parts = [_variances(value, outcomes.truth == number) for number in range(outcomes.sizes["predicted"])]
    independent, images, crossed, repeats = (xr.concat(list(some), "class").sum("class") for some in zip(*parts, strict=True))
    ratio = images.where(images > crossed, crossed) / independent.where(independent > 0, 1)
    # If all classes are always right, or never, nothing varies: then as if all seeds made the same prediction.
    effect: xr.DataArray = ratio.where(independent > 0, repeats / len(parts)).clip(min=1)
    return effect.rename("design_effect")


def _variances(value: xr.DataArray, members: xr.DataArray) -> tuple[xr.DataArray, ...]:
    """Return variances of the pooled mean of a class, whose images `members` marks, and the mean number of seeds of an image.

    The variances are those with all images independent, with images as clusters, and with images and seeds as clusters.
    """
    own = members.any([dim for dim in members.dims if dim != "image"]).values
    value, members = value.isel(image=own), members.isel(image=own)
    present = members.astype("f8")
    values = value.where(members, 0)
    total = present.sum(["seed", "image"])
    total = total.where(total > 0, 1)
    off = values - present * values.sum(["seed", "image"]) / total
    times, seeds = present.sum("seed"), (present.sum("image") > 0).sum("seed")
    independent = (off**2).sum(["seed", "image"])
    images = (off.sum("seed") ** 2).sum("image")
    between = (off.sum("image") ** 2).sum("seed") * (seeds / (seeds - 1).clip(min=1)).where(seeds > 1, 0)
    inner = (present * (values - values.sum("seed") / times.clip(min=1)) ** 2).sum("seed")
    several = inner * times / (times - 1).clip(min=1)
    residual = several.where(times > 1, off.sum("seed") ** 2).sum("image")
    repeats = total / (times > 0).sum("image").clip(min=1)
    return (*(variance / total**2 for variance in (independent, images, images + between - residual)), repeats)


def pool(outcomes: xr.Dataset) -> xr.DataArray:
    """Return count(..., label, predicted) of all seeds together, scaled to the number of independent images they are worth.

    These are the counts divided by the design effect: rates are unchanged, and every interval of counts (Wilson's, the
    bootstrap's) and the unbiased variance have the correct width. They are integers only if nothing is clustered.
    """
    count = counts(outcomes)
    if "seed" not in count.dims:
        return count
    effect, total = design_effect(outcomes), count.sum("seed")
    return (total if bool((effect == 1).all()) else total / effect).rename("count")
