"""Homing: what becomes of images that were taken for a class when a network is trained without it (Tian 2021, section 6.1).

Outcomes are compared image by image: those of a network of all classes with those of others that were asked about the same images
under the same attack.
"""

from collections.abc import Sequence

import pandas as pd
import xarray as xr

from classwise.core.errors import UserError
from classwise.stats.aggregate import counts
from classwise.stats.intervals import proportion
from classwise.stats.metrics import accuracy
from classwise.stats.pooling import design_effect_of


def left_out_runs(without: xr.Dataset, along: str = "classes") -> xr.Dataset:
    """Return outcomes of networks that lack a class each, named and sorted by that class, in place of `along`.

    A UserError where some network lacks no class or more than one, or where two lack the same.
    """
    there = counts(without).sum([dim for dim in ("seed", "attack", "defence", "predicted") if dim in without.dims]) > 0
    names = [str(name) for name in without.predicted.values]
    lacking = [[name for name in names if not bool(one.sel(label=name))] for one in there.transpose(along, "label")]
    if [len(some) for some in lacking] != [1] * len(lacking) or len({some[0] for some in lacking}) < len(lacking):
        raise UserError(f"homing needs networks that lack one class each, got networks that lack {lacking}")
    found = without.assign_coords({along: [some[0] for some in lacking]}).rename({along: "removed"})
    return found.sel(removed=[name for name in names if [name] in lacking])


def _mistaken(whole: xr.Dataset, which: xr.DataArray | bool = True) -> xr.DataArray:
    """Return count(..., label, predicted) of the broken images, those only of which `which` says so; the diagonal is empty."""
    return counts(whole.assign(truth=whole.truth.where(whole.flipped & which, -1)))


def misclassification_counts(whole: xr.Dataset) -> xr.DataArray:
    """Return how many images of each class are taken for each other: the misclassified confusion matrix (Figure 4a)."""
    return _mistaken(whole).rename("misclassified")


def homing(whole: xr.Dataset, without: xr.Dataset) -> xr.DataArray:
    """Return how many of them are answered rightly under attack by a network without the class they were taken for (Figure 4b).

    `without` as `removed` returns it, of all classes; images that it was not asked about do not home.
    """
    stood = (~without.flipped & (without.truth >= 0)).sel(image=whole.image, removed=whole.predicted.values)
    return _mistaken(whole, stood.isel(removed=whole.answer.clip(0))).rename("homing")


def freed(whole: xr.Dataset, other: xr.Dataset) -> xr.DataArray:
    """Return how many of them are answered rightly under attack by another network: the control for `homing`.

    Of the same classes and other luck, it tells what seed noise alone does; without another class than the one they were taken
    for, what a smaller problem alone does. Images that it was not asked about are not counted: compare with `asked`.
    """
    stood = (~other.flipped & (other.truth >= 0)).sel(image=whole.image)
    return _mistaken(whole, stood).rename("freed")


def evaluated_by(whole: xr.Dataset, other: xr.Dataset) -> xr.DataArray:
    """Return how many of the broken images another network was asked about."""
    return _mistaken(whole, (other.truth >= 0).sel(image=whole.image)).rename("asked")


def pair_of(history: xr.Dataset, seeds: Sequence[int] = ()) -> tuple[str, str]:
    """Return the most vulnerable class and its partner, the class it is mixed up with most, counted in both directions.

    On the validation images, after the last epoch, under the attack that measures them; of several seeds the images are pooled.
    history: as `run.history` has it, of one defence. seeds: which of them count, those that are there; all where none is.
    """
    count = history["count"].isel(epoch=-1).sel(split="valid")
    chosen = [seed for seed in count.seed.values if seed in seeds] or list(count.seed.values)
    probe = next(name for name in count.attack.values if name != "clean")
    pooled = count.sel(attack=probe, seed=chosen).sum([dim for dim in count.dims if dim not in ("label", "predicted", "attack")])
    victim = accuracy(pooled).idxmin("label").item()
    mixed = pooled.where(pooled.label != pooled.predicted, 0)
    both = mixed + mixed.rename(label="predicted", predicted="label")
    return str(victim), str(both.sel(label=victim).idxmax("predicted").item())


def gains(whole: xr.Dataset, without: xr.Dataset) -> xr.DataArray:
    """Return how many points each class (label) gains in robust accuracy by training without another (removed); seeds pooled."""
    before, after = (accuracy(counts(one).sum("seed")) for one in (whole, without))
    order = whole.predicted.values
    return (after - before).sel(removed=order, label=order).rename("gain")


def comparison(whole: xr.Dataset, without: xr.Dataset, again: xr.Dataset) -> pd.DataFrame:
    """Return the share of the broken images that is answered rightly by each kind of other network, in percent.

    Rows: without the class they were taken for; without another class, neither that nor their own, the mean over these; with the
    same classes and other luck, the mean over the members of `redraw`, if any. Columns: share, low and high (Wilson, 95 %: for a
    mean, as of so many images; where seeds share images or differ, as of so many as they are worth), images.
    """
    names, total = whole.predicted.values, float(misclassification_counts(whole).sum())
    other = right = 0.0
    for name in without.removed.values:
        one = without.sel(removed=name, drop=True)
        keep = {"predicted": [each for each in names if each != name]}
        right += float(freed(whole, one).sel(keep).sum())
        other += float(evaluated_by(whole, one).sel(keep).sum())
    rows = {
        "without the class they were taken for": (float(homing(whole, without).sum()), total),
        "without another class": (right / other * total if other else float("nan"), total),
        "same classes, other luck": tuple(
            float(of(whole, again).sum()) / again.sizes.get("redraw", 1) for of in (freed, evaluated_by)
        ),
    }
    worth = [float(value) for value in _worth(whole, without, again)]
    bounds = [proportion(good / less, number / less) for (good, number), less in zip(rows.values(), worth, strict=True)]
    return pd.DataFrame(
        {
            "share": [100 * good / number if number else float("nan") for good, number in rows.values()],
            "low": [float(low) for low, _ in bounds],
            "high": [float(high) for _, high in bounds],
            "images": [int(number) for _, number in rows.values()],
        },
        index=pd.Index(list(rows), name="trained"),
    )


def _worth(whole: xr.Dataset, without: xr.Dataset, again: xr.Dataset) -> list[xr.DataArray]:
    """Return the design effect of each row of `comparison`: images are worth less where seeds share them, or differ."""
    broken = whole.assign(truth=whole.truth.where(whole.flipped, -1))
    confound = xr.DataArray(whole.predicted.values, dims="name")[whole.answer.clip(0)]
    home, luck = _right(whole, without), _right(whole, again)
    own = without.removed == confound
    means = [home.where(own).mean("removed"), home.where(~own).mean("removed")]
    means.append(luck.mean("redraw") if "redraw" in luck.dims else luck)
    return [design_effect_of(value.fillna(0), broken) for value in means]


def _right(whole: xr.Dataset, other: xr.Dataset) -> xr.DataArray:
    """Return which images another network answers rightly under attack, as 1 and 0: NaN for those it was not asked about."""
    there = other.sel(image=whole.image)
    right: xr.DataArray = (~there.flipped).astype(float).where(there.truth >= 0)
    return right


def homing_mask(outcomes: xr.Dataset, over: str = "without", full: str = "") -> xr.DataArray:
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
