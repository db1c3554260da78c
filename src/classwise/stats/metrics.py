"""Measures of counts[label, predicted], in percent; further dimensions stay as they are.

Counts under no attack give accuracy, counts under an attack robust accuracy: one function serves both. A class without images
has no rate: it is NaN, and so are the measures over all classes.
"""

from collections.abc import Callable, Mapping

import numpy as np
import xarray as xr

from classwise.core.errors import unknown

Metric = Callable[[xr.DataArray], xr.DataArray]


def images(count: xr.DataArray) -> xr.DataArray:
    """Return the number of images of each class."""
    return count.sum("predicted")


def correct(count: xr.DataArray) -> xr.DataArray:
    """Return how many images of each class were answered as such."""
    same = count.label == count.predicted
    return count.where(same, 0).sum("predicted")


def confusion(count: xr.DataArray) -> xr.DataArray:
    """Return the share of each class (rows sum to 100) that is answered as each class."""
    total = images(count)
    return (100 * count / total.where(total > 0)).rename("confusion")


def off_diagonal_confusion(count: xr.DataArray) -> xr.DataArray:
    """Return the confusion without its diagonal: what the images of each class are mistaken for (Tian 2021, Figure 4)."""
    return confusion(count).where(count.label != count.predicted, 0).where(images(count) > 0)


def accuracy(count: xr.DataArray) -> xr.DataArray:
    """Return the share of each class that is answered as such."""
    total = images(count)
    return (100 * correct(count) / total.where(total > 0)).rename("accuracy")


def overall(count: xr.DataArray) -> xr.DataArray:
    """Return the share of all images that is answered right."""
    total = images(count).sum("label")
    return (100 * correct(count).sum("label") / total.where(total > 0)).rename("overall")


def worst(count: xr.DataArray) -> xr.DataArray:
    """Return the accuracy of the worst class."""
    return accuracy(count).min("label", skipna=False).rename("worst")


def worst_k(count: xr.DataArray, share: float = 0.2) -> xr.DataArray:
    """Return the mean accuracy of the worst classes, a `share` of them rounded up (CFA, Table 4: the worst 20 %)."""
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


def robust_classes(count: xr.DataArray) -> xr.DataArray:
    """Return which classes are more robust than the network is overall; the others are vulnerable (Tian 2021, Definition 3.3)."""
    return (accuracy(count) > overall(count)).rename("robust")


def cv_unbiased(count: xr.DataArray) -> xr.DataArray:
    """Return the class-wise variance less what the sampling of images adds to it on average; it may fall below 0."""
    total = images(count)
    rate = correct(count) / total.where(total > 1)
    noise = (rate * (1 - rate) / (total - 1)).mean("label", skipna=False)
    return (cv(count) - (1 - 1 / count.sizes["label"]) * noise * 1e4).rename("cv_unbiased")


def symmetry(count: xr.DataArray) -> xr.DataArray:
    """Return how alike "i taken for j" and "j taken for i" are: the correlation of the confusion with its transpose.

    Off the diagonal only: 1 for a symmetrical matrix, about 0 for an unrelated one, negative for an opposed one; NaN where
    every confusion is the same. Tian 2021, section 4.2, observation (i) states the symmetry by eye.
    """
    mixed = off_diagonal_confusion(count)
    mirrored = mixed.rename(label="predicted", predicted="label").transpose(*mixed.dims)
    mirrored = mirrored.assign_coords(label=mixed.label, predicted=mixed.predicted)
    off = mixed.label != mixed.predicted
    pairs = mixed.where(off), mirrored.where(off)
    return xr.corr(*pairs, dim=["label", "predicted"]).rename("symmetry")


def groups(count: xr.DataArray) -> xr.DataArray:
    """Return the group of each class, numbered from 0 by size: classes that flip into one another more than chance has it.

    `count` has just the dimensions label and predicted. The groups are those of greedy modularity on the graph whose edges weigh
    the flips between two classes, both ways; a class without any flip is a group of its own.
    """
    import networkx as nx  # slow to import

    mixed = off_diagonal_confusion(count).transpose("label", "predicted").fillna(0).values
    if not mixed.any():
        return xr.DataArray(np.arange(len(mixed)), dims="label", coords={"label": count.label}, name="group")
    graph = nx.from_numpy_array(mixed + mixed.T)
    found = nx.community.greedy_modularity_communities(graph, weight="weight")
    number = np.empty(count.sizes["label"], dtype=int)
    for place, members in enumerate(sorted(found, key=lambda members: (-len(members), min(members)))):
        number[sorted(members)] = place
    return xr.DataArray(number, dims="label", coords={"label": count.label}, name="group")


def within(count: xr.DataArray, group: xr.DataArray) -> xr.DataArray:
    """Return the share of the mistakes that stay within the groups of classes, in percent."""
    mixed = off_diagonal_confusion(count)
    same = group == group.rename(label="predicted").assign_coords(predicted=count.predicted.values)
    total = mixed.sum(["label", "predicted"])
    return (100 * mixed.where(same, 0).sum(["label", "predicted"]) / total.where(total > 0)).rename("within")


def best_relabelling(count: xr.DataArray) -> float:
    """Return the share of all images that would be answered right if the answers were names of classes in another order.

    It is the best of all one-to-one orders; far above `overall` only where a network counts its classes in an order of its own.
    """
    from scipy.optimize import linear_sum_assignment  # slow to import

    table = count.transpose("label", "predicted").values
    return float(100 * table[linear_sum_assignment(table, maximize=True)].sum() / max(table.sum(), 1))


def similarity(mean: xr.DataArray) -> xr.DataArray:
    """Return the cosine between the mean features of each two classes (Entropy 2022, section 2), dimensions label and other.

    `mean` has the dimensions label and feature.
    """
    unit = mean / np.sqrt((mean**2).sum("feature")).clip(1e-12)
    return unit.dot(unit.rename(label="other"), dim="feature").rename("similarity")


METRICS: Mapping[str, Metric] = {
    "overall": overall,
    "worst": worst,
    "worst_k": worst_k,
    "mcd": mcd,
    "cv": cv,
    "cv_unbiased": cv_unbiased,
    "symmetry": symmetry,
}


def metric(name: str) -> Metric:
    """Return the measure of that name."""
    if name not in METRICS:
        raise unknown("measure", name, METRICS)
    return METRICS[name]
