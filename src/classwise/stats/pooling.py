"""Several seeds taken together: how many independent images their answers are worth.

Where seeds test on images of their own (the folds of digits), each image is one more observation. Where they test on the same
images (CIFAR-10), they mostly stumble over the same ones: five seeds on 1,000 images know less than one network on 5,000. And a
seed that is luckier than another is so for all its images. The images' own coordinates tell which is the case.
"""

import xarray as xr

from classwise.stats.aggregate import counts


def seeds_share_images(outcomes: xr.Dataset) -> bool:
    """Return whether any image was put to more than one seed: whether the seeds test on the same images."""
    if "seed" not in outcomes.dims:
        return False
    there = outcomes.truth >= 0
    return bool((there.any([dim for dim in there.dims if dim not in ("seed", "image")]).sum("seed") > 1).any())


def design_effect(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the design effect of pooling the seeds: by what the variance of a class's accuracy exceeds that of as many
    independent images; at least 1, a number for each setting (defence, attack ...), the same for all its classes.

    Images and seeds are crossed random effects: the variance of a mean is that between images and that between seeds, less what
    both count (the two-way clustering of Cameron, Gelbach and Miller 2011, with the residual as in an analysis of variance).
    Summed over the classes, three to five seeds still tell how far seeds differ. Kish 1965 for the design effect itself.
    """
    return design_effect_of((outcomes.answer == outcomes.truth).astype("f8"), outcomes)


def design_effect_of(value: xr.DataArray, outcomes: xr.Dataset) -> xr.DataArray:
    """Return the design effect of pooling the seeds of a quantity of each image, as `design` does for right answers."""
    if "seed" not in outcomes.dims:
        return xr.ones_like(value.isel(image=0, drop=True), dtype=float).rename("design")
    parts = [_variances(value, outcomes.truth == number) for number in range(outcomes.sizes["predicted"])]
    plain, images, whole, often = (xr.concat(list(some), "class").sum("class") for some in zip(*parts, strict=True))
    ratio = images.where(images > whole, whole) / plain.where(plain > 0, 1)
    # Nothing varies where all classes are always right, or never: then as if all seeds gave one answer.
    found: xr.DataArray = ratio.where(plain > 0, often / len(parts)).clip(min=1)
    return found.rename("design")


def _variances(value: xr.DataArray, asked: xr.DataArray) -> tuple[xr.DataArray, ...]:
    """Return the variance of the pooled mean of a class were all images independent, were only the images clustered, and were the
    seeds so, too; and how often an image was asked."""
    there = asked.astype("f8")
    found = value.where(asked, 0)
    total = there.sum(["seed", "image"])
    total = total.where(total > 0, 1)
    off = found - there * found.sum(["seed", "image"]) / total
    times, seeds = there.sum("seed"), (there.sum("image") > 0).sum("seed")
    plain = (off**2).sum(["seed", "image"])
    images = (off.sum("seed") ** 2).sum("image")
    between = (off.sum("image") ** 2).sum("seed") * (seeds / (seeds - 1).clip(min=1)).where(seeds > 1, 0)
    inner = (there * (found - found.sum("seed") / times.clip(min=1)) ** 2).sum("seed")
    several = inner * times / (times - 1).clip(min=1)
    residual = several.where(times > 1, off.sum("seed") ** 2).sum("image")
    often = total / (times > 0).sum("image").clip(min=1)
    return (*(one / total**2 for one in (plain, images, images + between - residual)), often)


def pooled(outcomes: xr.Dataset) -> xr.DataArray:
    """Return count(..., label, predicted) of all seeds together, as of so many independent images as they are worth.

    These are the counts divided by the design effect: rates stay as they are, and every interval of counts (Wilson's, the
    bootstrap's) and the unbiased variance have the width they should. They are whole numbers only where nothing is clustered.
    """
    count = counts(outcomes)
    if "seed" not in count.dims:
        return count
    worth, whole = design_effect(outcomes), count.sum("seed")
    return (whole if bool((worth == 1).all()) else whole / worth).rename("count")
