"""From outcomes to counts[label, predicted], reductions over attacks, radii and settings, and what histories hold of classes.

An image that is missing or was not evaluated has truth -1 and is never counted.
"""

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.stats.metrics import accuracy, images

_REDUCED = {"truth": -1, "prediction": -1, "misclassified": False}


def counts(outcomes: xr.Dataset) -> xr.DataArray:
    """Return count(..., label, predicted) of outcomes, the number of images of each class predicted as each class.

    Where attacks or networks were evaluated on different numbers of images, the coordinate `evaluated` holds these.
    """
    numbers = xr.DataArray(np.arange(outcomes.sizes["predicted"]), dims="predicted", coords={"predicted": outcomes.predicted})
    present = outcomes.truth >= 0
    label = numbers.rename(predicted="label")
    rows: xr.DataArray = ((outcomes.truth == label) & present).astype("i4")
    count: xr.DataArray = rows.dot((outcomes.prediction == numbers).astype("i4"), dim="image")
    evaluated = count.sum(["label", "predicted"])
    evaluated = evaluated.max("seed") if "seed" in evaluated.dims else evaluated
    alike = not evaluated.size or bool(((evaluated == 0) | (evaluated == evaluated.max())).all())
    return count.rename("count") if alike else count.rename("count").assign_coords(evaluated=evaluated)


def worst_case(outcomes: xr.Dataset, over: str = "attack") -> xr.Dataset:
    """Return outcomes in which an image is broken if any of the attacks along `over` broke it.

    The prediction is that under the first attack that broke the image, else under the first attack. Images that any of the
    attacks was not evaluated on are left out (truth -1).
    """
    present = (outcomes.truth >= 0).all(over)
    first = outcomes.misclassified.argmax(over)
    worst = outcomes[list(_REDUCED)].isel({over: first}).drop_vars(over)
    for name, value in _REDUCED.items():
        worst[name] = worst[name].where(present, value)
    return worst.assign_coords(predicted=outcomes.predicted)


def add_worst_case(outcomes: xr.Dataset, name: str, over: str = "attack") -> xr.Dataset:
    """Return the outcomes with their worst case as one more attack of that name."""
    worst = worst_case(outcomes, over).expand_dims({over: [name]})
    return xr.concat([outcomes[list(_REDUCED)], worst], over).assign_coords(predicted=outcomes.predicted)


def cumulative_over_radius(outcomes: xr.Dataset, over: str = "eval_eps") -> xr.Dataset:
    """Return outcomes in which an image that is broken at one radius is broken at every larger one along `over`.

    The radii ascend. The prediction is that at the first radius that broke the image.
    """
    parts = [worst_case(outcomes.isel({over: slice(end)}), over) for end in range(1, outcomes.sizes[over] + 1)]
    return xr.concat(parts, outcomes[over]).assign_coords(predicted=outcomes.predicted)


def strongest(outcomes: xr.Dataset, over: str) -> xr.Dataset:
    """Return for each network the outcomes under the setting along `over` with the lowest robust accuracy.

    The coordinate `over` holds that setting (Tian 2021, section 5: the best 1 / T of each model). The settings are compared on
    the images that all of them were evaluated on. The attacker selects on these very images, so report all settings as well.
    """
    present = (outcomes.truth >= 0).all(over)
    return outcomes.isel({over: (outcomes.misclassified & present).sum("image").argmax(over)})


def black_box_only(outcomes: xr.Dataset, black: str, white: str) -> xr.DataArray:
    """Return the share of images, in percent, that a black-box attack breaks and a white-box attack does not.

    Only images that both were evaluated on count. More than a few indicate gradient masking (Athalye et al. 2018).
    """
    both = (outcomes.truth.sel(attack=[black, white]) >= 0).all("attack")
    misclassified = [outcomes.misclassified.sel(attack=name, drop=True) for name in (black, white)]
    share: xr.DataArray = 100 * (misclassified[0] & ~misclassified[1] & both).sum("image") / both.sum("image")
    return share.rename("black_box_only")


def clean_and_attacked(count: xr.DataArray) -> xr.DataArray:
    """Return counts with the dimension `images_are` ("clean", "attacked") instead of `attack`.

    In a history each split is attacked by a different attack, so their sum is the one that was measured.
    """
    attacked = count.drop_sel(attack="clean").sum("attack")
    return xr.concat([count.sel(attack="clean", drop=True), attacked], pd.Index(["clean", "attacked"], name="images_are"))


def measured_epochs(count: xr.DataArray) -> xr.DataArray:
    """Return counts of the epochs that have any."""
    measured = count.sum([dim for dim in count.dims if dim != "epoch"]) > 0
    return count.isel(epoch=measured.values)


def common_images(outcomes: xr.Dataset, *along: str, same_seeds: bool = True) -> xr.Dataset:
    """Return outcomes of the images that all networks and attacks of a seed were evaluated on; the others have truth -1.

    along: the dimensions that name networks and attacks. Those of them without any image do not count. same_seeds: a seed counts
    only if all of them were evaluated with it; else those that were. NotRecorded where nothing is left.
    """
    present = outcomes.truth >= 0
    never = ~present.any([dim for dim in present.dims if dim not in along and (same_seeds or dim == "image")])
    shared = (present | never).all(along)
    if not bool((present & shared).any()):
        raise NotRecorded("the networks and attacks that are compared have no images in common")
    return outcomes.assign(truth=outcomes.truth.where(shared, -1))


def split_halves(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes along a new first dimension `half`, "first" and "second", each with every other image of each class.

    An image is in the same half for all runs and attacks, so what two networks have in common in opposite halves is no oddity
    of single images. Images are dealt in turn within their class; where seeds have different images (folds), within their seed.
    The images of the other half have truth -1.
    """
    half = _half_of(outcomes)
    parts = [outcomes.assign(truth=outcomes.truth.where(half == number, -1)) for number in (0, 1)]
    joined = xr.concat(parts, pd.Index(["first", "second"], name="half"), data_vars=["truth"])
    return joined.assign_attrs(outcomes.attrs)


def _half_of(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the half of each image, 0 or 1; -1 for images without a class."""
    truth = outcomes.truth.max([dim for dim in outcomes.truth.dims if dim != "image"])
    present = (outcomes.truth >= 0).any([dim for dim in outcomes.truth.dims if dim not in ("seed", "image")])
    seed = present.argmax("seed") if "seed" in present.dims else xr.zeros_like(truth)
    place = pd.DataFrame({"truth": truth.values, "seed": seed.values}).groupby(["truth", "seed"]).cumcount()
    half: xr.DataArray = truth.copy(data=place.to_numpy() % 2).where(truth >= 0, -1)
    return half


def multiples(setting: xr.DataArray) -> xr.DataArray:
    """Return a setting of a calibration as a multiple of that of the first epoch, before any calibration; NaN where that is 0.

    setting: with the dimensions epoch and label, and further ones.
    """
    first = setting.isel(epoch=0, drop=True)
    result: xr.DataArray = setting / first.where(first > 0)
    return result


def training_accuracy(history: xr.Dataset) -> xr.DataArray:
    """Return the accuracy of each class on the attacked training images of each epoch, 0 to 1 (t in Wei et al. 2023)."""
    result: xr.DataArray = accuracy(_attacked(history)) / 100
    return result


def _attacked(history: xr.Dataset) -> xr.DataArray:
    count: xr.DataArray = history["count"].sel(split="train", drop=True)
    return count.drop_sel(attack="clean", errors="ignore").sum("attack")


def late_settings(history: xr.Dataset) -> xr.Dataset:
    """Return what each class had in the last quarter of a training, the mean over its epochs; dimension predicted for label.

    radius, beta: as multiples of the uniform ones, which are `uniform_radius` and `uniform_beta`. trained: the accuracy that they
    follow, of `training_accuracy`. sample: the number of training images behind that in an epoch.
    """
    values = {name: multiples(history[name]) for name in ("radius", "beta")} | {"trained": training_accuracy(history)}
    values["sample"] = images(_attacked(history)).astype(float)
    last = slice(-max(1, history.sizes["epoch"] // 4), None)
    late = {name: array.isel(epoch=last).mean("epoch") for name, array in values.items()}
    uniform = {f"uniform_{name}": history[name].isel(epoch=0, drop=True).mean("label") for name in ("radius", "beta")}
    return xr.Dataset(late | uniform).rename(label="predicted")
