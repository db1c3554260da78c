"""Measures of counts[label, predicted], in percent; further dimensions stay as they are.

Counts under no attack give accuracy, counts under an attack robust accuracy: one function serves both. A class without images
has no rate: it is NaN, and so are the measures over all classes.
"""

from collections.abc import Callable, Mapping

import numpy as np
import xarray as xr

from classwise.errors import unknown

Measure = Callable[[xr.DataArray], xr.DataArray]


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


def nested(outcomes: xr.Dataset, over: str = "eval_eps") -> xr.Dataset:
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


def lead(outcomes: xr.Dataset, black: str, white: str) -> xr.DataArray:
    """Return the share of images, in percent, that a black-box attack breaks and a white-box attack does not.

    More than a few mean that gradients mislead the white-box attack: its robust accuracy is not to be believed. Only images that
    both were asked about count.
    """
    both = (outcomes.truth.sel(attack=[black, white]) >= 0).all("attack")
    flipped = [outcomes.flipped.sel(attack=name, drop=True) for name in (black, white)]
    share: xr.DataArray = 100 * (flipped[0] & ~flipped[1] & both).sum("image") / both.sum("image")
    return share.rename("lead")


def forms(count: xr.DataArray) -> xr.DataArray:
    """Return counts with the dimension `images_are` ("clean", "attacked") in place of `attack`.

    In a history the splits are attacked by different attacks, no two of them by the same; here they stand side by side.
    """
    attacked = count.drop_sel(attack="clean").sum("attack")
    parts = [count.sel(attack="clean", drop=True), attacked]
    return xr.concat(parts, dim="images_are").assign_coords(images_are=["clean", "attacked"])


def measured(count: xr.DataArray) -> xr.DataArray:
    """Return counts at the epochs at which something was counted."""
    seen = count.sum([dim for dim in count.dims if dim != "epoch"]) > 0
    return count.isel(epoch=seen.values)


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


def misclassified(count: xr.DataArray) -> xr.DataArray:
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
    mixed = misclassified(count)
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

    mixed = misclassified(count).transpose("label", "predicted").fillna(0).values
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
    mixed = misclassified(count)
    same = group == group.rename(label="predicted").assign_coords(predicted=count.predicted.values)
    total = mixed.sum(["label", "predicted"])
    return (100 * mixed.where(same, 0).sum(["label", "predicted"]) / total.where(total > 0)).rename("within")


def relabelled(count: xr.DataArray) -> float:
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


MEASURES: Mapping[str, Measure] = {
    "overall": overall,
    "worst": worst,
    "worst_k": worst_k,
    "mcd": mcd,
    "cv": cv,
    "cv_unbiased": cv_unbiased,
    "symmetry": symmetry,
}


def measure(name: str) -> Measure:
    """Return the measure of that name."""
    if name not in MEASURES:
        raise unknown("measure", name, MEASURES)
    return MEASURES[name]
