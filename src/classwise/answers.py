"""Measures of outcomes, image by image: what counts of answers do not tell."""

import numpy as np
import xarray as xr

from classwise import pooling


def confidence(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the softmax of the logits, in 0 to 1: dimensions image and predicted. Classes without a logit have none."""
    logits = outcomes.logits
    power = np.exp(logits - logits.max("predicted"))
    share: xr.DataArray = power / power.sum("predicted")
    return share.rename("confidence")


def confidence_variance(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the variance of each image's confidence over the classes: small where the answer is smooth."""
    return confidence(outcomes).var("predicted").rename("confidence_variance")


def cvc(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the class-wise variance of confidence, the mean of `confidence_variance` over the images of each class.

    Tian 2021, Definition 5.1, with the mean confidence of an image taken over the classes (the paper's text divides by N).
    """
    spread, numbers = confidence_variance(outcomes), np.arange(outcomes.sizes["predicted"])
    of_class = xr.DataArray(numbers, dims="label", coords={"label": outcomes.predicted.values})
    return spread.where(outcomes.truth == of_class).mean("image").rename("cvc")


def cvc_bounds(outcomes: xr.Dataset, level: float = 0.95) -> xr.DataArray:
    """Return low, value and high of `cvc`, all seeds together, along a new dimension `bound`: a mean with its normal interval.

    Seeds that differ, or that share their images, widen it (`pooling.effect`).
    """
    from scipy import stats  # slow to import

    spread, numbers = confidence_variance(outcomes), np.arange(outcomes.sizes["predicted"])
    of_class = xr.DataArray(numbers, dims="label", coords={"label": outcomes.predicted.values})
    own = spread.where(outcomes.truth == of_class)
    over = [dim for dim in ("seed", "image") if dim in own.dims]
    error = own.std(over, ddof=1) * np.sqrt(pooling.effect(spread, outcomes) / own.count(over))
    mean, reach = own.mean(over), stats.norm.ppf(0.5 + level / 2) * error
    parts = [(mean - reach).clip(0), mean, mean + reach]
    bounds: xr.DataArray = xr.concat(parts, "bound").assign_coords(bound=["low", "value", "high"])
    return bounds.rename("cvc")


def margin(outcomes: xr.Dataset) -> xr.DataArray:
    """Return by how much the logit of the true class exceeds that of its strongest rival, for each image: below 0, it is lost."""
    number = xr.DataArray(np.arange(outcomes.sizes["predicted"]), dims="predicted", coords={"predicted": outcomes.predicted})
    true = outcomes.truth == number
    own, rival = outcomes.logits.where(true).max("predicted"), outcomes.logits.where(~true).max("predicted")
    found: xr.DataArray = (own - rival).where(outcomes.truth >= 0)
    return found.rename("margin")


def true_confidence(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the confidence in the true class, in percent, for each image."""
    truth = outcomes.truth.where(outcomes.truth >= 0, 0).astype(int)
    sure = 100 * confidence(outcomes).isel(predicted=truth).drop_vars("predicted")
    return sure.where(outcomes.truth >= 0).rename("confidence")


def ranks(outcomes: xr.Dataset, count: int = 2) -> xr.Dataset:
    """Return the classes that each image is most surely taken for, the surest first, along a new dimension `rank` from 1.

    name: of the class. confidence: in percent, the mean over the seeds that were asked. NaN and "" where none was.
    """
    sure = 100 * confidence(outcomes).where(outcomes.truth >= 0)
    sure = (sure.mean("seed") if "seed" in sure.dims else sure).transpose(..., "predicted")
    order = np.argsort(-sure.values, axis=-1, kind="stable")[..., :count]
    dims, there = (*sure.dims[:-1], "rank"), np.isfinite(sure.max("predicted").values)[..., None]
    coords = {dim: sure[dim] for dim in dims[:-1] if dim in sure.coords} | {"rank": range(1, count + 1)}
    names = np.where(there, sure.predicted.values.astype(str)[order], "")
    return xr.Dataset({"name": (dims, names), "confidence": (dims, np.take_along_axis(sure.values, order, -1))}, coords)


def homes(outcomes: xr.Dataset, over: str = "without", full: str = "") -> xr.DataArray:
    """Return which images are mistaken by the full network and answered right once the class they were taken for is left out.

    `outcomes` has along `over` the full network, named `full`, and networks trained without the class of that name. The homing
    property of Tian 2021, Definition 6.1: the image is attacked anew on each network.
    """
    whole = outcomes.sel({over: full}, drop=True)
    home: xr.DataArray = xr.zeros_like(whole.flipped)
    for place, name in enumerate(str(one) for one in outcomes.predicted.values):
        if name in outcomes[over].values:
            other = outcomes.sel({over: name}, drop=True)
            home = home | (whole.flipped & (whole.answer == place) & ~other.flipped & (other.truth >= 0))
    return home.rename("homes")


# How HE is read where its cosines answer without their scale.
COSINES = "cosines"


def network(defence: str, readout: str) -> str:
    """Return what a network is called, one that is read from its cosines by a name of its own: "pgd-he, cosines"."""
    return f"{defence}, {COSINES}" if readout == COSINES else defence


def inverse(value: object) -> str:
    """Return how 1 / T is written, "5"; PGD, which has none, is Temperature-PGD at "1"."""
    return "1" if value in (None, "") else f"{float(str(value)):g}"


def tempered(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes under pgd-20 and temperature-pgd-20 with the dimensions defence, seed, form, inverse, image and predicted.

    PGD stands at inverse "1", in each form: there its direction is that of Temperature-PGD. A defence that was also read from its
    cosines is one more along `defence`, by the name that `network` gives. form: "stable" and "published", where both were asked.
    """
    kinds = [str(name).partition("@")[0] for name in outcomes.attack.values]
    plain, hot = (outcomes.isel(attack=kinds.index(name), drop=True) for name in ("pgd-20", "temperature-pgd-20"))
    heats = [value for value in outcomes.inverse.values if value != ""]
    forms = [str(value) for value in outcomes.form.values if value != ""]
    first = plain.sel(inverse="", form="", drop=True)
    parts = [first.expand_dims(form=forms), *(hot.sel(inverse=value, form=forms, drop=True) for value in heats)]
    whole = xr.concat(parts, xr.DataArray([inverse(""), *map(inverse, heats)], dims="inverse", name="inverse"))
    if "readout" not in whole.dims:
        return whole
    read = {str(name): whole.sel(readout=name, drop=True) for name in whole.readout.values}
    there = (read[COSINES].truth >= 0).any([dim for dim in read[COSINES].truth.dims if dim != "defence"])
    other = read[COSINES].isel(defence=there.values)
    other = other.assign_coords(defence=[network(str(name), COSINES) for name in other.defence.values])
    return xr.concat([read["logits"], other], "defence")


def common(outcomes: xr.Dataset, over: str = "attack") -> xr.Dataset:
    """Return outcomes of those images alone that all along `over` were asked about; the others are not there (truth -1)."""
    return outcomes.assign(truth=outcomes.truth.where((outcomes.truth >= 0).all(over), -1))
