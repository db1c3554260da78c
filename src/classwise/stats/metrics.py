"""Measures of counts[label, predicted], in percent; further dimensions are kept.

Counts of clean images give accuracy, counts under an attack robust accuracy. The accuracy of a class without images is NaN, and
so are the measures over all classes.
"""

from collections.abc import Callable, Mapping

import numpy as np
import xarray as xr

Metric = Callable[[xr.DataArray], xr.DataArray]


def images(count: xr.DataArray) -> xr.DataArray:
    """Return the number of images of each class."""
    return count.sum("predicted")


def correct(count: xr.DataArray) -> xr.DataArray:
    """Return the number of correctly classified images of each class."""
    same = count.label == count.predicted
    return count.where(same, 0).sum("predicted")


def confusion(count: xr.DataArray) -> xr.DataArray:
    """Return the confusion matrix in percent: the share of each class (rows sum to 100) predicted as each class."""
    total = images(count)
    return (100 * count / total.where(total > 0)).rename("confusion")


def off_diagonal_confusion(count: xr.DataArray) -> xr.DataArray:
    """Return the confusion matrix with a zero diagonal: the misclassified images of each class (Tian 2021, Figure 4)."""
    return confusion(count).where(count.label != count.predicted, 0).where(images(count) > 0)


def accuracy(count: xr.DataArray) -> xr.DataArray:
    """Return the accuracy of each class."""
    total = images(count)
    return (100 * correct(count) / total.where(total > 0)).rename("accuracy")


def overall(count: xr.DataArray) -> xr.DataArray:
    """Return the accuracy over all images."""
    total = images(count).sum("label")
    return (100 * correct(count).sum("label") / total.where(total > 0)).rename("overall")


def worst(count: xr.DataArray) -> xr.DataArray:
    """Return the accuracy of the worst class."""
    return accuracy(count).min("label", skipna=False).rename("worst")


def worst_k(count: xr.DataArray, share: float = 0.2) -> xr.DataArray:
    """Return the mean accuracy of the worst classes, a `share` of all rounded up (CFA, Table 4: the worst 20 %)."""
    kept = int(np.ceil(share * count.sizes["label"]))
    rates = accuracy(count)
    lowest = np.sort(rates.values, axis=rates.get_axis_num("label"))
    ordered = rates.copy(data=lowest).isel(label=slice(kept))
    return ordered.mean("label").where(rates.notnull().all("label")).rename("worst_k")


def mcd(count: xr.DataArray) -> xr.DataArray:
    """Return the maximum class discrepancy: best minus worst class, in points (Tian 2021, section 4.3)."""
    rates = accuracy(count)
    return (rates.max("label", skipna=False) - rates.min("label", skipna=False)).rename("mcd")


def cv(count: xr.DataArray) -> xr.DataArray:
    """Return the class-wise variance, in points squared, divided by the number of classes (Tian 2021, section 4.3)."""
    return accuracy(count).var("label", skipna=False).rename("cv")


def gini(count: xr.DataArray) -> xr.DataArray:
    """Return the Gini coefficient of the class accuracies, in percent: half their mean difference, over their mean.

    0 where all classes are alike; NaN where no image is correct. Unlike the gap it does not depend on the level.
    """
    rates = accuracy(count)
    apart = abs(rates - rates.rename(label="other")).mean(["label", "other"], skipna=False)
    mean = rates.mean("label", skipna=False)
    return (50 * apart / mean.where(mean > 0)).rename("gini")


def share_of_mistakes(count: xr.DataArray) -> xr.DataArray:
    """Return the share of all mistakes that are predictions of each class, along label; NaN without mistakes."""
    mistakes = count.where(count.label != count.predicted, 0).sum("label").rename(predicted="label")
    total = mistakes.sum("label")
    return (100 * mistakes / total.where(total > 0)).rename("attracted")


def robust_classes(count: xr.DataArray) -> xr.DataArray:
    """Return which classes are more robust than the network overall; the others are vulnerable (Tian 2021, Definition 3.3)."""
    return (accuracy(count) > overall(count)).rename("robust")


def cv_unbiased(count: xr.DataArray) -> xr.DataArray:
    """Return the class-wise variance minus the expected contribution of sampling the images; it may be negative."""
    total = images(count)
    rate = correct(count) / total.where(total > 1)
    noise = (rate * (1 - rate) / (total - 1)).mean("label", skipna=False)
    return (cv(count) - (1 - 1 / count.sizes["label"]) * noise * 1e4).rename("cv_unbiased")


def explained_share(count: xr.DataArray) -> xr.DataArray:
    """Return the share of the variance of right and wrong predictions that the class explains, in percent.

    It is the unbiased class-wise variance over that of all predictions, p (1 - p) with p the mean accuracy of the classes: unlike
    the gap it does not shrink by itself where p is near 0 or 100 %. 100 where each class is always right or never, 0 if all are
    alike; it may be negative by chance. NaN where all predictions are right, or none.
    """
    return _relative(cv_unbiased(count), count).rename("explained")


def explained_share_of_rates(count: xr.DataArray) -> xr.DataArray:
    """Return `explained_share` by the observed accuracies, without taking off what the sampling of the images adds."""
    return _relative(cv(count), count).rename("explained")


def _relative(variance: xr.DataArray, count: xr.DataArray) -> xr.DataArray:
    """Return a variance of accuracies, in points squared, in percent of that of right and wrong predictions."""
    mean = accuracy(count).mean("label", skipna=False)
    spread = mean * (100 - mean)
    return 100 * variance / spread.where(spread > 0)


def precision(count: xr.DataArray) -> xr.DataArray:
    """Return the precision of each class along `label`: the share of the images predicted as it that are of it, in percent.

    NaN for a class that is never predicted. Unlike the accuracy it depends on how many images each class has.
    """
    shares = accuracy(count.rename(label="predicted", predicted="label"))
    return shares.sel(label=count.label.values).rename("precision")


def symmetry(count: xr.DataArray) -> xr.DataArray:
    """Return the correlation of the confusion matrix with its transpose, off the diagonal.

    1 for a symmetric matrix, about 0 for one without any symmetry, negative for an opposed one; NaN if all entries are equal.
    Tian 2021, section 4.2, observation (i) judges the symmetry by eye.
    """
    mixed = off_diagonal_confusion(count)
    off = mixed.label != mixed.predicted
    mirrored = _mirrored(mixed).transpose(*mixed.dims)
    return xr.corr(mixed.where(off), mirrored.where(off), dim=["label", "predicted"]).rename("symmetry")


def _mirrored(mixed: xr.DataArray) -> xr.DataArray:
    return mixed.rename(label="predicted", predicted="label").assign_coords(label=mixed.label, predicted=mixed.predicted)


def reciprocity(count: xr.DataArray) -> xr.DataArray:
    """Return how much of the confusion goes both ways, from 0 to 1: the square root of the cosine of matrix and transpose.

    Off the diagonal, and corrected for what the sampling of the images adds to the squares (Spearman 1904), so it may be above 1.
    A square root, since the product of two counts of mistakes varies in proportion to itself. NaN where there are no mistakes.
    """
    mixed, squares = _mistakes(count)
    return (((mixed * _mirrored(mixed)).mean(["label", "predicted"]) / squares) ** 0.5).rename("reciprocity")


def symmetry_of(value: xr.DataArray, count: xr.DataArray) -> xr.DataArray:
    """Return the symmetry that a value of `reciprocity` amounts to in a table whose entries vary as those of `count` do.

    NaN where these vary no more than by sampling.
    """
    mixed, squares = _mistakes(count)
    without = mixed.mean(["label", "predicted"]) ** 2 / squares
    return ((value**2 - without) / (1 - without).where(without < 1)).rename("symmetry")


def _mistakes(count: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the rates off the diagonal, NaN on it, and their mean square without what sampling adds; NaN where that is 0."""
    mixed, total = off_diagonal_confusion(count), images(count)
    rate = mixed.where(mixed.label != mixed.predicted) / 100
    noise = rate * (1 - rate) / (total - 1).where(total > 1)
    squares = (rate**2 - noise).mean(["label", "predicted"])
    return rate, squares.where(squares > 0)


def groups(count: xr.DataArray) -> xr.DataArray:
    """Return the group of each class, numbered from 0 by size: classes confused with one another more than by chance.

    `count` has only the dimensions label and predicted. The groups maximise modularity (greedily) on the graph whose edges are
    weighted by the confusion between two classes, in both directions; a class without mistakes forms a group by itself.
    """
    import networkx as nx  # slow to import

    mixed = off_diagonal_confusion(count).transpose("label", "predicted").fillna(0).values
    if not mixed.any():
        return xr.DataArray(np.arange(len(mixed)), dims="label", coords={"label": count.label}, name="group")
    graph = nx.from_numpy_array(mixed + mixed.T)
    communities = nx.community.greedy_modularity_communities(graph, weight="weight")
    number = np.empty(count.sizes["label"], dtype=int)
    for place, members in enumerate(sorted(communities, key=lambda members: (-len(members), min(members)))):
        number[sorted(members)] = place
    return xr.DataArray(number, dims="label", coords={"label": count.label}, name="group")


def share_in_groups(count: xr.DataArray, group: xr.DataArray) -> xr.DataArray:
    """Return the share of the mistakes, in percent, whose true and predicted class are in the same group."""
    mixed = off_diagonal_confusion(count)
    same = group == group.rename(label="predicted").assign_coords(predicted=count.predicted.values)
    total = mixed.sum(["label", "predicted"])
    return (100 * mixed.where(same, 0).sum(["label", "predicted"]) / total.where(total > 0)).rename("within")


def best_relabelling(count: xr.DataArray) -> float:
    """Return the accuracy, in percent, under the best one-to-one relabelling of the predictions.

    It is far above `overall` only if the network numbers the classes in a different order.
    """
    from scipy.optimize import linear_sum_assignment  # slow to import

    table = count.transpose("label", "predicted").values
    return float(100 * table[linear_sum_assignment(table, maximize=True)].sum() / max(table.sum(), 1))


METRICS: Mapping[str, Metric] = {
    "overall": overall,
    "worst": worst,
    "worst_k": worst_k,
    "mcd": mcd,
    "cv": cv,
    "cv_unbiased": cv_unbiased,
    "gini": gini,
    "explained": explained_share,
    "symmetry": symmetry,
}
# By an estimator without bias the measure of known rates: what it aims at where images are drawn again from the observed ones.
OF_RATES: Mapping[Metric, Metric] = {cv_unbiased: cv, explained_share: explained_share_of_rates}
