"""What people find hard beside what networks find hard: votes on images, and the outcomes of networks on the same images.

Classes may be hard for both for another reason. Images are therefore also compared with others of their class alone.
"""

import numpy as np
import pandas as pd
import xarray as xr

from classwise.stats import metrics
from classwise.stats.aggregate import counts
from classwise.stats.agreement import rank_correlation
from classwise.stats.bootstrap import bootstrap_sums, sums
from classwise.stats.combine import concat_named
from classwise.stats.intervals import interval_bounds
from classwise.stats.significance import permutation_p, permute_classes

# How many points of disagreement an odds ratio is for.
POINTS = 10
# The outcomes that an odds ratio is of: right without an attack, right under it, and the same of images that are right without.
CLEAN, ATTACKED, KEPT = "without an attack", "under attack", "under attack, if right without"


def disagreement(votes: np.ndarray) -> np.ndarray:
    """Return how likely two of the people who saw an image named different classes, in percent: (image,) of (image, class)."""
    number = votes.sum(1)
    return np.asarray(100 * (1 - (votes * (votes - 1)).sum(1) / (number * (number - 1))))


def odds_ratio(right: np.ndarray, number: np.ndarray, apart: np.ndarray, truth: np.ndarray) -> xr.DataArray:
    """Return by what factor the odds that an image is right change with POINTS more disagreement, within classes, along bound.

    right, number: how many networks are right on each image, of how many; apart: its disagreement; truth: its class. Logistic
    regression with a constant for each class. The 95 % interval is over images (White 1980): networks are taken as given.
    """
    import statsmodels.api as sm  # slow to import

    seen = number > 0
    cells = np.stack([right, number - right], axis=1)[seen]
    causes = np.column_stack([apart / POINTS, pd.get_dummies(truth)])[seen].astype(float)
    fit = sm.GLM(cells, causes, family=sm.families.Binomial()).fit(cov_type="HC0")
    low, high = fit.conf_int()[0]
    return xr.DataArray(np.exp([low, fit.params[0], high]), {"bound": ["low", "value", "high"]}, ("bound",))


def compare(outcomes: xr.Dataset, votes: np.ndarray, draws: int = 2000) -> xr.Dataset:
    """Return what people and networks have in common, class by class and within classes.

    outcomes: of networks along defence, seed, attack ("clean" and another one) and image. votes: how many people took each image
    for each class, (image, class). Returned are: votes (label, predicted), on all images of a class; right (defence, attack,
    label), on how many images networks are right, over the seeds; disagreement (label), the mean of a class. Along defence and
    attack: correlation, of the ranks of disagreement and accuracy over the classes; p, of permuted classes; gap (label), the
    accuracy on images on which all people agree less that on the others, in points. ratio (defence, outcome): `odds_ratio`. Other
    intervals, along bound, are percentiles of a bootstrap over images and seeds, since ranks change in steps.
    """
    votes = votes[outcomes.image.values]
    apart = xr.DataArray(disagreement(votes), dims="image")
    truth = outcomes.truth.max(["defence", "seed", "attack"]).values
    parts = {name: _compared(outcomes.sel(defence=[name]), apart, truth, draws) for name in outcomes.defence.values}
    joined = xr.concat(list(parts.values()), "defence").assign(right=metrics.correct(counts(outcomes).sum("seed")))
    names = {"label": outcomes.predicted.values, "predicted": outcomes.predicted.values}
    people = [votes[truth == label].sum(0) for label in range(len(names["label"]))]
    mean = joined.disagreement.isel(defence=0, attack=0, drop=True)
    return joined.assign(disagreement=mean, votes=(("label", "predicted"), people)).assign_coords(names)


def _compared(outcomes: xr.Dataset, apart: xr.DataArray, truth: np.ndarray, draws: int) -> xr.Dataset:
    """Return what `compare` does of the seeds of a single defence; apart, truth: disagreement on each image, and its class."""
    present = (outcomes.truth >= 0).isel(defence=0)
    outcomes = outcomes.isel(seed=np.flatnonzero(present.any(["attack", "image"])))
    values = {"apart": apart, "agreed": apart == 0}
    total = sums(outcomes, values)
    drawn = xr.concat([_measures(part) for part in bootstrap_sums(outcomes, values, draws)], "draw")
    low, high = (drawn.quantile(end, "draw").drop_vars("quantile") for end in (0.025, 0.975))
    bounds = {name: interval_bounds(low[name], value, high[name]) for name, value in _measures(total).items()}
    orders = _measures(permute_classes(total, "count", 5 * draws)).correlation
    p = orders.isel(draw=0).copy(data=[[permutation_p(one) for one in orders.isel(defence=0).transpose("attack", "draw")]])
    right = (outcomes.truth >= 0) & (outcomes.prediction == outcomes.truth)
    clean, attacked = (right.isel(defence=0, attack=place) for place in (0, 1))
    number = present.isel(attack=0).sum("seed")
    cases = {CLEAN: (clean, number), ATTACKED: (attacked, number), KEPT: (attacked & clean, clean.sum("seed"))}
    ratios = {name: odds_ratio(one.sum("seed").values, of.values, apart.values, truth) for name, (one, of) in cases.items()}
    return xr.Dataset(bounds).assign(p=p, ratio=concat_named("outcome", ratios).expand_dims(defence=outcomes.defence.values))


def _measures(total: xr.Dataset) -> xr.Dataset:
    count, agreed = total["count"], total["agreed"]
    mean = total["apart"].sum("predicted") / metrics.images(count)
    gap = metrics.accuracy(agreed) - metrics.accuracy(count - agreed)
    return xr.Dataset({"disagreement": mean, "correlation": rank_correlation(mean, metrics.accuracy(count)), "gap": gap})
