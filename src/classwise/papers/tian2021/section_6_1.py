"""Tian et al. 2021, section 6.1: adjusting the training.

The claims need along `without` the networks trained without a class ("": the full one; "again 1", ...: the same trained again);
along `betas` those with another trade-off for a class ("": the usual one); on the classes, which is the `vulnerable` one and
which its `partner`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.spec import Evaluation
from classwise.papers import variants
from classwise.papers.claims import MeasurementError
from classwise.papers.measures import either
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Section
from classwise.papers.selection import vulnerable_pair
from classwise.papers.terms import claims
from classwise.papers.tian2021 import homing
from classwise.papers.tian2021.recipe import trade_offs
from classwise.papers.tian2021.tables import in_text
from classwise.stats import combine, metrics

NAME = "tian2021/6-1-training-adjustment"
# Sections 6.1 and 6.2 attack with Temperature-PGD.
TEMPERED = (Evaluation(), Evaluation(attack="temperature-pgd-20"))
# Runs whose history no page shows are measured at their first and last epoch only.
UNAVERAGED: dict[str, Any] = {"averages": ()}
ONCE = {"measure": 100, **UNAVERAGED}


def mark_pair(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes with the class coordinates `vulnerable` and `partner`, each true for one class of the dataset's pair."""
    names, pair = outcomes.predicted.values, vulnerable_pair(outcomes.attrs["dataset"])
    marks = {mark: ("predicted", names == name) for mark, name in zip(("vulnerable", "partner"), pair, strict=True)}
    return outcomes.assign_coords(marks)


def _without(full: xr.Dataset, again: xr.Dataset, without: xr.Dataset) -> xr.Dataset:
    """Return networks without a class next to the full one and its repetitions."""
    lacking = homing.left_out_runs(without)
    single = {str(name): lacking.sel(removed=name, drop=True) for name in lacking.removed.values}
    repeated = {f"again {number}": again.sel(redraw=number, drop=True) for number in again.redraw.values}
    return mark_pair(combine.combine("without", {"": full, **repeated, **single}))


def _betas(trades: xr.Dataset, adjusted: xr.Dataset) -> xr.Dataset:
    """Return other trade-offs next to the usual one."""
    swept = {str(name): adjusted.sel(betas=name, drop=True) for name in adjusted.betas.values}
    return mark_pair(combine.combine("betas", {"": trades, **swept}))


# The training of most runs, and how they are evaluated.
_MADRY: dict[str, Any] = {"defences": ("pgd-at",), "evaluations": CLEAN_AND_PGD, "max_seeds": 1}
SECTION = Section(
    title="Adjusting the training",
    parts={
        "without": Section(title="each class left out", run=ONCE, variants=variants.without, **_MADRY),
        "again": Section(
            title="the same classes, other initialisation and batch order",
            run=ONCE,
            variants=variants.reinitialised(1, 2),
            **_MADRY,
        ),
        "trades": Section(title="one trade-off for all", defences=("trades",), evaluations=TEMPERED, max_seeds=1),
        "choosing": Section(title="the runs that select the two classes", defences=("trades",)),
        "adjusted": Section(
            title="another trade-off for one class",
            defences=("trades-per-class",),
            evaluations=TEMPERED,
            run=ONCE,
            max_seeds=1,
            variants=trade_offs("0.5", "2", "18"),
        ),
    },
    arrange={"without": Arranged(_without, ("", "again", "without")), "betas": Arranged(_betas, ("trades", "adjusted"))},
    **_MADRY,
)


def _mistaken(sums: xr.Dataset, name: str) -> xr.DataArray:
    """Return a sum over the mistakes of the full network, first defence and attack."""
    part = sums[name].isel(defence=0, attack=0).sel(without="", drop=True)
    mistaken: xr.DataArray = part.where(part.label != part.predicted, 0)
    return mistaken


def _left_out(sums: xr.Dataset) -> xr.DataArray:
    """Return which classes some network was trained without."""
    count = sums["count"]
    left: xr.DataArray = count.predicted.isin(list(count["without"].values))
    return left


def comes_home(sums: xr.Dataset) -> xr.DataArray:
    """Return the share of mistakes that come home when their class is left out, less what the stronger control brings home.

    The controls: all classes trained again (`again`), and another class left out (`another`).
    """
    left, both = _left_out(sums), ["label", "predicted"]
    names = ("count", "home", "again", "another")
    total, home, again, another = (_mistaken(sums, name).where(left, 0).sum(both, skipna=False) for name in names)
    share: xr.DataArray = 100 * (home - xr.ufuncs.maximum(again, another)) / total
    return share


def _lesser(sums: xr.Dataset, of: Callable[[int, int], xr.DataArray]) -> xr.DataArray:
    """Return the smaller value of a function of one class of the pair and the other, by number, either way round."""
    first, second = (int(sums.coords[name].argmax("label")) for name in ("vulnerable", "partner"))
    less: xr.DataArray = xr.ufuncs.minimum(of(first, second), of(second, first))
    return less


def one_to_one(sums: xr.Dataset) -> xr.DataArray:
    """Return how many more of a hundred images come home to a class of the pair from the other one than from any third class.

    Of the two classes, the one for which it is less.
    """
    images = metrics.images(sums["count"].isel(defence=0, attack=0).sel(without="", drop=True))
    share = 100 * _mistaken(sums, "home") / images

    def margin(label: int, other: int) -> xr.DataArray:
        row = share.isel(label=label, drop=True)
        third = row.where(~row.predicted.isin(row.predicted.values[[label, other]]))
        return row.isel(predicted=other, drop=True) - third.max("predicted")

    return _lesser(sums, margin)


def partner_home(sums: xr.Dataset) -> xr.DataArray:
    """Return what share of the homes of a class of the pair come from the other one, less that one's share of its mistakes.

    In percent; of the two classes, the one for which it is less.
    """
    home, mistaken = _mistaken(sums, "home"), _mistaken(sums, "count").where(_left_out(sums), 0)

    def excess(label: int, other: int) -> xr.DataArray:
        rows = [array.isel(label=label, drop=True) for array in (home, mistaken)]
        of_homes, of_mistakes = (row.isel(predicted=other, drop=True) / row.sum("predicted") for row in rows)
        return 100 * (of_homes - of_mistakes)

    return _lesser(sums, excess)


def homing_of(sums: xr.Dataset, label: str, predicted: str) -> xr.DataArray:
    """Return the share of the images of a class misclassified as another that come home when that one is left out."""
    place = {"label": label, "predicted": predicted}
    return 100 * _mistaken(sums, "home").sel(place, drop=True) / _mistaken(sums, "count").sel(place, drop=True)


def pairs_home(sums: xr.Dataset, pairs: Sequence[tuple[str, str]]) -> xr.DataArray:
    """Return what share of the homes lies within the named pairs, less the share of the mistakes that does, in percent.

    Only mistakes count that could have come home: those misclassified as a class that was left out of some network.
    """
    home, left = _mistaken(sums, "home"), _left_out(sums)
    mistaken = _mistaken(sums, "count").where(left, 0)
    within = sum((either(home, *some) for some in pairs), start=xr.zeros_like(home.label == home.predicted))
    both = ["label", "predicted"]
    return 100 * home.where(within).sum(both) / home.sum(both) - 100 * mistaken.where(within).sum(both) / mistaken.sum(both)


# The weight of the robust term in TRADES, which section 6.1 keeps for all other classes.
_USUAL = 6.0


def _swept(sums: xr.Dataset, *, up: bool = False, of: str = "") -> tuple[xr.DataArray, xr.DataArray, int]:
    """Return the counts at the usual trade-off and at the lowest (highest) one of a class, and which class that is.

    of: the coordinate that marks this class ("partner"); of any where there is none.
    """
    count = sums["count"].isel(defence=0, attack=0)
    changed = {name: name.split(":") for name in map(str, count["betas"].values) if name}
    marked = range(count.sizes["label"]) if not of else [int(sums.coords[of].argmax("label"))]
    values = {name: float(value) for name, (_, value) in changed.items() if (float(value) > _USUAL) == up}
    values = {name: value for name, value in values.items() if int(changed[name][0]) in marked}
    if not values:
        whose = f" of the {of}" if of else ""
        raise MeasurementError(f"these outcomes have no trade-off {'above' if up else 'below'} {_USUAL:g}{whose}")
    last = (max if up else min)(values, key=lambda name: values[name])
    return count.sel(betas="", drop=True), count.sel(betas=last, drop=True), int(changed[last][0])


def vulnerable_class(sums: xr.Dataset) -> int:
    """Return the number of the most vulnerable class, which was not selected on these images."""
    return int(sums.coords["vulnerable"].argmax("label"))


def victim_gains(sums: xr.Dataset, *, up: bool = False) -> xr.DataArray:
    """Return how much the most vulnerable class gains when the trade-off of its partner is lowered (`up`: raised)."""
    usual, changed, _ = _swept(sums, up=up, of="partner")
    return (metrics.accuracy(changed) - metrics.accuracy(usual)).isel(label=vulnerable_class(sums), drop=True)


def changed_gains(sums: xr.Dataset) -> xr.DataArray:
    """Return how much the class gains whose own trade-off is lowered."""
    usual, changed, number = _swept(sums)
    return (metrics.accuracy(changed) - metrics.accuracy(usual)).isel(label=number, drop=True)


def evener(sums: xr.Dataset) -> xr.DataArray:
    """Return by how much the class-wise variance grows when the trade-off of a class is lowered."""
    usual, changed, _ = _swept(sums)
    return metrics.cv(changed) - metrics.cv(usual)


def _classes_left_out(outcomes: xr.Dataset) -> list[str]:
    present = [str(name) for name in outcomes["without"].values]
    return [str(name) for name in outcomes.predicted.values if name in present]


def _withstands(outcomes: xr.Dataset, name: str) -> xr.DataArray:
    """Return on which images the network of a name withstands the attack."""
    of_network = outcomes.sel(without=name, drop=True)
    robust: xr.DataArray = ~of_network.flipped & (of_network.truth >= 0)
    return robust


def trained_again(outcomes: xr.Dataset) -> xr.DataArray:
    """Return for each mistake of the full network the share of its repetitions that classify the image correctly."""
    left, full = _classes_left_out(outcomes), outcomes.sel(without="", drop=True)
    again = [str(name) for name in outcomes["without"].values if name and name not in left]
    stands = xr.concat([_withstands(outcomes, name) for name in again], "again") if again else xr.zeros_like(full.flipped)
    share: xr.DataArray = stands.mean("again") if again else stands * np.nan
    return share.where(full.flipped, 0)


def without_another(outcomes: xr.Dataset) -> xr.DataArray:
    """Return for each mistake of the full network the share of the networks without a third class that are correct."""
    full, names = outcomes.sel(without="", drop=True), [str(name) for name in outcomes.predicted.values]
    stood = evaluated = xr.zeros_like(full.truth, dtype=float)
    for name in _classes_left_out(outcomes):
        third = (outcomes.truth.sel(without=name, drop=True) >= 0) & (full.answer != names.index(name))
        stood, evaluated = stood + (_withstands(outcomes, name) & third), evaluated + third
    share: xr.DataArray = (stood / evaluated.where(evaluated > 0)).where(full.flipped, 0)
    return share


_HOMES: dict[str, Any] = {
    "attacks": ("pgd-20|temperature-pgd-20",),
    "values": {"home": homing.homing_mask, "again": trained_again, "another": without_another},
}
_BETAS: dict[str, Any] = {"defences": ("trades-per-class|trades",), "attacks": ("temperature-pgd-20|pgd-20",)}
_GROUPS = (("cat", "dog"), ("automobile", "truck"), ("airplane", "ship"))


def _lowered(name: str) -> float:
    """Return how much a class gains in the text when the trade-off of dogs is lowered."""
    return in_text(name, "beta of dogs 0.5") - in_text(name, "beta of dogs 6")


CLAIMS = claims(
    NAME,
    {
        "homing": {"measure": comes_home, **_HOMES},
        "cat-to-dog-homes": {
            "measure": partial(homing_of, label="cat", predicted="dog"),
            "reported": lambda: 100 * in_text("home", "cats as dogs") / in_text("misclassified", "cats as dogs"),
            **_HOMES,
        },
        "one-to-one": {"measure": one_to_one, **_HOMES},
        "one-to-one-beyond-mistakes": {"measure": partner_home, **_HOMES},
        "groups-home": {"measure": partial(pairs_home, pairs=_GROUPS), **_HOMES},
        "victim-gains": {"measure": victim_gains, "reported": partial(_lowered, "cat"), **_BETAS},
        "victim-loses": {"measure": partial(victim_gains, up=True), **_BETAS},
        "changed-class-loses": {"measure": changed_gains, "reported": partial(_lowered, "dog"), **_BETAS},
        "evener": {"measure": evener, **_BETAS},
    },
)
