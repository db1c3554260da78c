"""Benz et al. 2020, section 1, Figures 1 and 2, and the datasets of section 3.1: are the classes unequally accurate and robust?

That classes differ is tested by the class-wise variance (CV), of which the bootstrap of a verdict takes off what the sampling of
the images adds. Classes differ if their standard deviation is above a point: a claim of more than none could not fail. Claims
that compare radii need them along `eval_eps`, "0" for clean images.
"""

from collections.abc import Mapping
from functools import partial
from itertools import product

import numpy as np
import xarray as xr

from classwise.core import datasets
from classwise.core.errors import NotAtScale
from classwise.core.markup import printed_name
from classwise.core.spec import Spec
from classwise.papers.sections import CLEAN_AND_PGD, Derived, Member, Part, Section, join_parts
from classwise.papers.terms import claims, least, profile_fields, value
from classwise.papers.variants import Variant, choose_by_scale, none
from classwise.stats import aggregate, agreement
from classwise.stats.bootstrap import bootstrap
from classwise.stats.intervals import interval_bounds
from classwise.stats.metrics import accuracy, cv, explained_share_of_rates, images, mcd, overall
from classwise.stats.pooling import pool

NAME = "benz2020/1-class-discrepancy"
NETWORKS = ("standard", "pgd-at")
# Section 3.1 names MNIST, SVHN, CIFAR-10, CIFAR-100, Tiny-ImageNet and ImageNet, of which no run here trains on the last; 20
# classes stand for Tiny-ImageNet where a single core trains.
_LARGE = ("mnist", "svhn", "cifar100")
# The classes of Tiny-ImageNet are those of its folders: it is used where a reader names it.
DATASETS = {"laptop": ("mnist", "tiny-imagenet:tiny20"), "short": _LARGE, "paper": _LARGE}


def _cluttered(scale: str, plain: Spec) -> tuple[Variant, ...]:
    """Return the same drawings on clutter, for datasets of drawings; no page shows the epochs of standard training on them."""
    base = datasets.base_dataset(plain.dataset)
    measured = {"measure": 60} if plain.defence == "standard" else {}
    return ({"dataset": f"{base}-cluttered", **measured},) if base in ("digits", "mnist") else ()


SECTION = Section(
    title="Discrepancy between classes",
    defences=NETWORKS,
    parts={
        "radii": Part(
            title="smaller radii of the attack", defences=NETWORKS, evaluations=CLEAN_AND_PGD[1:], at=("1/8", "1/4", "1/2", "1")
        ),
        "cluttered": Part(
            title="the same drawings on clutter",
            defences=("standard", "trades"),
            run={"averages": ()},
            max_seeds=2,
            variants=choose_by_scale(none, quick=_cluttered),
        ),
    },
    datasets=DATASETS,
    arrange={
        "": Derived(lambda outcomes: outcomes, ("",)),
        "radii": join_parts("eval_eps", Member("", "0", at={"attack": "clean"}), Member("radii", by="eval_eps")),
        "halves": Derived(aggregate.split_halves, ("",)),
    },
)


def interpolate_at_accuracy(count: xr.DataArray, target: xr.DataArray) -> xr.DataArray:
    """Return counts interpolated along eval_eps, ascending, where their accuracy falls to a target in percent; NaN if nowhere."""
    rates, size = overall(count).astype(float), count.sizes["eval_eps"]
    last = (rates >= target).cumprod("eval_eps").sum("eval_eps").astype(int) - 1
    place = last.clip(0, size - 2)

    def ends(some: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
        first, second = (some.isel(eval_eps=at).drop_vars("eval_eps", errors="ignore") for at in (place, place + 1))
        return first, second

    (before, after), (first, second) = ends(rates), ends(count)
    share = ((before - target) / (before - after).where(before > after)).where((last >= 0) & (last < size - 1))
    return (first + share * (second - first)).rename("count")


def _of(sums: xr.Dataset, defence: str) -> xr.DataArray:
    return sums["count"].isel(attack=0, drop=True).sel(defence=defence, drop=True)


def _reached(count: xr.DataArray) -> xr.DataArray:
    if "draw" not in count.dims and not bool(count.notnull().all()):
        raise NotAtScale("standard training reaches this accuracy at no radius of the evaluation")
    return count


def standard_at_half_accuracy(sums: xr.Dataset) -> xr.DataArray:
    """Return counts of standard training at the radius that leaves half of its clean accuracy."""
    count = _of(sums, "standard")
    return _reached(interpolate_at_accuracy(count, overall(count.isel(eval_eps=0, drop=True)) / 2))


def standard_variance(sums: xr.Dataset) -> xr.DataArray:
    """Return the class-wise variance (CV) of standard training at the radius that leaves half of its clean accuracy."""
    return cv(standard_at_half_accuracy(sums))


def standard_lies_below(sums: xr.Dataset, name: str) -> xr.DataArray:
    """Return by how much a class is below each other class in standard training, at the radius that leaves half the accuracy."""
    rates = accuracy(standard_at_half_accuracy(sums))
    return rates.drop_sel(label=name) - rates.sel(label=name, drop=True)


def widening_at_equal_accuracy(sums: xr.Dataset) -> xr.DataArray:
    """Return the share of the variance that the class explains: PGD-AT under attack minus standard training at equal accuracy."""
    trained = _of(sums, "pgd-at").isel(eval_eps=-1, drop=True)
    standard = _reached(interpolate_at_accuracy(_of(sums, "standard"), overall(trained)))
    return explained_share_of_rates(trained) - explained_share_of_rates(standard)


def widening_under_attack(sums: xr.Dataset) -> xr.DataArray:
    """Return the gap (MCD) after PGD-AT minus the gap after standard training, on the same images.

    NotAtScale where standard training is no better than always naming one class: it has no gap that could be widened.
    """
    standard = _of(sums, "standard")
    if "draw" not in standard.dims and float(overall(standard)) <= 100 / standard.sizes["label"]:
        raise NotAtScale("under attack, the standard network is no better than always naming one class")
    return mcd(_of(sums, "pgd-at")) - mcd(standard)


def network_correlation(profiles: xr.DataArray) -> xr.DataArray:
    """Return the correlation of the class accuracies of standard training and PGD-AT, on opposite halves of the images."""
    return agreement.cross_half(profiles, "defence").sel(defence="standard", other="pgd-at", drop=True)


ATTACKED = "pgd-20|pgd-40|pgd-50"
_GAPS = {(defence, attack): value(mcd, defence, attack) for defence in NETWORKS for attack in ("clean", ATTACKED)}
_MOST = _GAPS.pop(("pgd-at", ATTACKED))

CLAIMS = claims(
    NAME,
    {
        "standard-clean-discrepancy": value(cv, "standard"),
        "standard-robust-discrepancy": {"measure": standard_variance, "defences": ("standard",)},
        "cat-is-vulnerable": {"measure": least(partial(standard_lies_below, name="cat")), "defences": ("standard",)},
        "wider-clean": value(mcd, "pgd-at") - value(mcd, "standard"),
        "wider-attacked": widening_under_attack,
        "not-from-unequal-classes": value(cv, "pgd-at", ATTACKED),
        "wider-at-equal-accuracy": widening_at_equal_accuracy,
        "similar-trend": {**profile_fields(network_correlation, "defence"), "attacks": ("clean",)},
        "most-for-attacked": least(*(_MOST - other for other in _GAPS.values())),
        "accuracy-for-robustness": least(
            value(overall, "standard") - value(overall, "pgd-at"),
            value(overall, "pgd-at", ATTACKED) - value(overall, "standard", ATTACKED),
        ),
    },
    defences=NETWORKS,
    attacks=(ATTACKED,),
)


def equal_classes(count: xr.DataArray, draws: int = 2000, seed: int = 0) -> xr.DataArray:
    """Return the gap (MCD) that classes of equal accuracy have by chance: its mean and 95 % range along `bound`, in points.

    count: pooled. Each class has as many images as it has there, and the mean accuracy of the classes.
    """
    rng, number = np.random.default_rng(seed), images(count).round().astype(int)
    number, chance = xr.broadcast(number, (accuracy(count).mean("label", skipna=False) / 100).clip(0, 1).fillna(0))
    rates = 100 * rng.binomial(number.values, chance.values, size=(draws, *number.shape)) / np.maximum(number.values, 1)
    gaps = np.ptp(rates, axis=1 + number.get_axis_num("label"))
    low, high = np.quantile(gaps, [0.025, 0.975], axis=0)
    like = number.isel(label=0, drop=True)
    ends = (like.copy(data=end) for end in (low, gaps.mean(0), high))
    return interval_bounds(*ends).where((number > 0).all("label"))


def gap_by_case(outcomes: Mapping[str, xr.Dataset]) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the gap, and that of equal classes, along case and bound.

    outcomes: by dataset, along defence and attack, from which the cases have their names: "MNIST, PGD-AT, clean".
    """
    rows = [(datasets.title(name), some) for name, some in outcomes.items()]
    gaps = xr.concat([_cases(bootstrap(some, mcd), name) for name, some in rows], "case")
    return gaps, xr.concat([_cases(equal_classes(pool(some)), name) for name, some in rows], "case")


def _cases(bounds: xr.DataArray, dataset: str) -> xr.DataArray:
    pairs = product(bounds.defence.values, bounds.attack.values)
    names = [", ".join([dataset, *(printed_name(str(name)) for name in pair)]) for pair in pairs]
    flat = bounds.stack(case=("defence", "attack"), create_index=False)
    return flat.drop_vars(["defence", "attack"]).assign_coords(case=names)
