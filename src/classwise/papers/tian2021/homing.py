"""Homing: what becomes of images misclassified as a class when a network is trained without it (Tian 2021, section 6.1).

Outcomes are compared image by image: those of a network of all classes with those of others on the same images under the same
attack.
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
    present = counts(without).sum([dim for dim in ("seed", "attack", "defence", "predicted") if dim in without.dims]) > 0
    names = [str(name) for name in without.predicted.values]
    lacking = [[name for name in names if not bool(row.sel(label=name))] for row in present.transpose(along, "label")]
    if [len(some) for some in lacking] != [1] * len(lacking) or len({some[0] for some in lacking}) < len(lacking):
        raise UserError(f"homing needs networks that lack one class each, got networks that lack {lacking}")
    result = without.assign_coords({along: [some[0] for some in lacking]}).rename({along: "removed"})
    return result.sel(removed=[name for name in names if [name] in lacking])


def _mistaken(full: xr.Dataset, which: xr.DataArray | bool = True) -> xr.DataArray:
    """Return count(..., label, predicted) of the broken images, only where `which` is true; the diagonal is zero."""
    return counts(full.assign(truth=full.truth.where(full.flipped & which, -1)))


def misclassification_counts(full: xr.Dataset) -> xr.DataArray:
    """Return how many images of each class are misclassified as each other class (Figure 4a)."""
    return _mistaken(full).rename("misclassified")


def homing(full: xr.Dataset, without: xr.Dataset) -> xr.DataArray:
    """Return how many of them a network without the predicted class classifies correctly under attack (Figure 4b).

    `without` as `left_out_runs` returns it, of all classes; images that it was not evaluated on do not home.
    """
    stood = (~without.flipped & (without.truth >= 0)).sel(image=full.image, removed=full.predicted.values)
    return _mistaken(full, stood.isel(removed=full.answer.clip(0))).rename("homing")


def freed(full: xr.Dataset, other: xr.Dataset) -> xr.DataArray:
    """Return how many of them another network classifies correctly under attack: the control for `homing`.

    Images that it was not evaluated on are not counted: compare with `evaluated_by`.
    """
    stood = (~other.flipped & (other.truth >= 0)).sel(image=full.image)
    return _mistaken(full, stood).rename("freed")


def evaluated_by(full: xr.Dataset, other: xr.Dataset) -> xr.DataArray:
    """Return how many of the broken images another network was evaluated on."""
    return _mistaken(full, (other.truth >= 0).sel(image=full.image)).rename("evaluated")


def pair_of(history: xr.Dataset, seeds: Sequence[int] = ()) -> tuple[str, str]:
    """Return the most vulnerable class and its partner, the class it is confused with most, counted in both directions.

    On the validation images, after the last epoch, under the attack that measures them; the images of several seeds are pooled.
    history: of `runs.history`, of one defence. seeds: those that count, where present; all where none is.
    """
    count = history["count"].isel(epoch=-1).sel(split="valid")
    selected = [seed for seed in count.seed.values if seed in seeds] or list(count.seed.values)
    probe = next(name for name in count.attack.values if name != "clean")
    over = [dim for dim in count.dims if dim not in ("label", "predicted", "attack")]
    pooled = count.sel(attack=probe, seed=selected).sum(over)
    victim = accuracy(pooled).idxmin("label").item()
    mixed = pooled.where(pooled.label != pooled.predicted, 0)
    both = mixed + mixed.rename(label="predicted", predicted="label")
    return str(victim), str(both.sel(label=victim).idxmax("predicted").item())


def gains(full: xr.Dataset, without: xr.Dataset) -> xr.DataArray:
    """Return how many points each class (label) gains in robust accuracy by training without another (removed); seeds pooled."""
    before, after = (accuracy(counts(outcomes).sum("seed")) for outcomes in (full, without))
    order = full.predicted.values
    return (after - before).sel(removed=order, label=order).rename("gain")


def comparison(full: xr.Dataset, without: xr.Dataset, again: xr.Dataset) -> pd.DataFrame:
    """Return the share of the broken images that each kind of other network classifies correctly, in percent.

    Rows: without the predicted class; without another class, neither the predicted nor the true one, the mean over these; with
    the same classes and another initialisation and batch order, the mean over the members of `redraw`, if any. Columns: share,
    low and high (Wilson, 95 %, of the effective number of images where seeds share images or differ), images.
    """
    names, total = full.predicted.values, float(misclassification_counts(full).sum())
    other = right = 0.0
    for name in without.removed.values:
        lacking = without.sel(removed=name, drop=True)
        keep = {"predicted": [other_name for other_name in names if other_name != name]}
        right += float(freed(full, lacking).sel(keep).sum())
        other += float(evaluated_by(full, lacking).sel(keep).sum())
    rows = {
        "without the predicted class": (float(homing(full, without).sum()), total),
        "without another class": (right / other * total if other else float("nan"), total),
        "same classes, trained again": tuple(
            float(of(full, again).sum()) / again.sizes.get("redraw", 1) for of in (freed, evaluated_by)
        ),
    }
    worth = [float(value) for value in _design_effects(full, without, again)]
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


def _design_effects(full: xr.Dataset, without: xr.Dataset, again: xr.Dataset) -> list[xr.DataArray]:
    """Return the design effect of each row of `comparison`: images count less where seeds share them, or differ."""
    broken = full.assign(truth=full.truth.where(full.flipped, -1))
    confound = xr.DataArray(full.predicted.values, dims="name")[full.answer.clip(0)]
    home, repeated = _correct(full, without), _correct(full, again)
    of_confound = without.removed == confound
    means = [home.where(of_confound).mean("removed"), home.where(~of_confound).mean("removed")]
    means.append(repeated.mean("redraw") if "redraw" in repeated.dims else repeated)
    return [design_effect_of(value.fillna(0), broken) for value in means]


def _correct(full: xr.Dataset, other: xr.Dataset) -> xr.DataArray:
    """Return which images another network classifies correctly under attack, as 1 and 0; NaN for those not evaluated."""
    same = other.sel(image=full.image)
    correct: xr.DataArray = (~same.flipped).astype(float).where(same.truth >= 0)
    return correct


def homing_mask(outcomes: xr.Dataset, over: str = "without", name: str = "") -> xr.DataArray:
    """Return which images the full network misclassifies and the network without the predicted class classifies correctly.

    `outcomes` has along `over` the full network, by its name, and networks trained without the class of that name. The homing
    property of Tian 2021, Definition 6.1: each network is attacked on its own.
    """
    full = outcomes.sel({over: name}, drop=True)
    home: xr.DataArray = xr.zeros_like(full.flipped)
    for place, left_out in enumerate(map(str, outcomes.predicted.values)):
        if left_out in outcomes[over].values:
            other = outcomes.sel({over: left_out}, drop=True)
            home = home | (full.flipped & (full.answer == place) & ~other.flipped & (other.truth >= 0))
    return home.rename("homes")
