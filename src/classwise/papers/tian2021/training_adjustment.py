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

from classwise.core.errors import NotAtScale
from classwise.papers import variants
from classwise.papers.measures import either
from classwise.papers.sections import Derived, Member, Part, Section, join_parts
from classwise.papers.selection import mark_pair, marked_class
from classwise.papers.terms import claims, least
from classwise.papers.tian2021 import homing
from classwise.papers.tian2021.recipe import TEMPERED, trade_offs
from classwise.papers.tian2021.tables import text_number
from classwise.stats import combine, metrics

NAME = "tian2021/6-1-training-adjustment"
# The training of most runs, and how they are evaluated.
_MADRY: dict[str, Any] = {"defences": ("pgd-at",), "max_seeds": 1}
SECTION = Section(
    title="Adjusting the training",
    parts={
        "without": Part(title="each class left out", run=variants.ONCE, variants=variants.leave_one_out, **_MADRY),
        "again": Part(
            title="the same classes, other initialisation and batch order",
            run=variants.ONCE,
            variants=variants.reinitialised,
            **_MADRY,
        ),
        "trades": Part(title="one trade-off for all", defences=("trades",), evaluations=TEMPERED, max_seeds=1),
        "choosing": Part(title="the runs that select the two classes", defences=("trades",), evaluations=()),
        "adjusted": Part(
            title="another trade-off for one class",
            defences=("trades-per-class",),
            evaluations=TEMPERED,
            run=variants.ONCE,
            max_seeds=1,
            variants=trade_offs("0.5", "2", "18"),
        ),
    },
    arrange={
        "without": Derived(homing.arrange_networks, ("", "again", "without")),
        "betas": join_parts("betas", Member("trades"), Member("adjusted", by="betas"), then=lambda both, _: mark_pair(both)),
    },
    **_MADRY,
)


def comes_home(sums: xr.Dataset) -> xr.DataArray:
    """Return the share of mistakes that come home when their class is left out, less what the stronger control brings home.

    The controls: all classes trained again (`again`), and another class left out (`another`).
    """
    share = homing.shares_elsewhere(sums)
    return share.sel(trained="home", drop=True) - share.drop_sel(trained="home").max("trained", skipna=False)


def _both_ways(sums: xr.Dataset, of: Callable[[int, int], xr.DataArray]) -> xr.DataArray:
    """Return a function of one class of the pair and the other, by number, either way round, along way."""
    first, second = marked_class(sums, "vulnerable"), marked_class(sums, "partner")
    return xr.concat([of(first, second), of(second, first)], "way")


def one_to_one(sums: xr.Dataset) -> xr.DataArray:
    """Return how many more of a hundred images come home to a class of the pair from the other one than from each third class."""
    images = metrics.images(sums["count"].isel(defence=0, attack=0).sel(without="", drop=True))
    share = 100 * homing.mistaken(sums, "home") / images

    def margin(label: int, other: int) -> xr.DataArray:
        row = share.isel(label=label, drop=True)
        third = row.where(~row.predicted.isin(row.predicted.values[[label, other]]), -np.inf)
        return row.isel(predicted=other, drop=True) - third

    return _both_ways(sums, margin)


def partner_home(sums: xr.Dataset) -> xr.DataArray:
    """Return what share of the homes of a class of the pair come from the other one, less that one's share of its mistakes.

    In percent, for both classes.
    """
    home, mistaken = homing.mistaken(sums, "home"), homing.mistaken(sums, "count").where(homing.left_out_classes(sums), 0)

    def excess(label: int, other: int) -> xr.DataArray:
        rows = [array.isel(label=label, drop=True) for array in (home, mistaken)]
        of_homes, of_mistakes = (row.isel(predicted=other, drop=True) / row.sum("predicted") for row in rows)
        return 100 * (of_homes - of_mistakes)

    return _both_ways(sums, excess)


def homing_of(sums: xr.Dataset, label: str, predicted: str) -> xr.DataArray:
    """Return the share of the images of a class misclassified as another that come home when that one is left out."""
    place = {"label": label, "predicted": predicted}
    return 100 * homing.mistaken(sums, "home").sel(place, drop=True) / homing.mistaken(sums, "count").sel(place, drop=True)


def pairs_home(sums: xr.Dataset, pairs: Sequence[tuple[str, str]]) -> xr.DataArray:
    """Return what share of the homes lies within the named pairs, less the share of the mistakes that does, in percent.

    Only mistakes count that could have come home: those misclassified as a class that was left out of some network.
    """
    home, left = homing.mistaken(sums, "home"), homing.left_out_classes(sums)
    mistaken = homing.mistaken(sums, "count").where(left, 0)
    within = sum((either(home, *some) for some in pairs), start=xr.zeros_like(home.label == home.predicted))
    both = ["label", "predicted"]
    return 100 * home.where(within).sum(both) / home.sum(both) - 100 * mistaken.where(within).sum(both) / mistaken.sum(both)


# The weight of the robust term in TRADES, which section 6.1 keeps for all other classes.
_USUAL = 6.0


def _swept(sums: xr.Dataset, measure: metrics.Metric, *, up: bool = False) -> xr.DataArray:
    """Return by how much a measure grows from the usual trade-off to the lowest (highest) one of the partner class."""
    count, partner = sums["count"].isel(defence=0, attack=0), f"{marked_class(sums, 'partner')}:"
    values = {name: float(name.removeprefix(partner)) for name in map(str, count.betas.values) if name.startswith(partner)}
    beyond = [name for name, value in values.items() if (value > _USUAL) == up]
    if not beyond:
        raise NotAtScale(f"these outcomes have no trade-off {'above' if up else 'below'} {_USUAL:g} of the partner")
    last = (max if up else min)(beyond, key=lambda name: values[name])
    return measure(count.sel(betas=last, drop=True)) - measure(count.sel(betas="", drop=True))


def victim_gains(sums: xr.Dataset, *, up: bool = False) -> xr.DataArray:
    """Return how much the most vulnerable class gains when the trade-off of its partner is lowered (`up`: raised)."""
    return _swept(sums, metrics.accuracy, up=up).isel(label=marked_class(sums, "vulnerable"), drop=True)


def gain_changes(sums: xr.Dataset) -> xr.DataArray:
    """Return how much the class gains whose own trade-off is lowered."""
    return _swept(sums, metrics.accuracy).isel(label=marked_class(sums, "partner"), drop=True)


def gap_reduction(sums: xr.Dataset) -> xr.DataArray:
    """Return by how much the class-wise variance grows when the trade-off of a class is lowered."""
    return _swept(sums, metrics.cv)


_HOMES: dict[str, Any] = {"attacks": ("pgd-20|temperature-pgd-20",), "values": homing.MASKS}
_BETAS: dict[str, Any] = {"defences": ("trades-per-class|trades",), "attacks": ("temperature-pgd-20|pgd-20",)}
_GROUPS = (("cat", "dog"), ("automobile", "truck"), ("airplane", "ship"))


def _lowered(name: str) -> float:
    """Return how much a class gains in the text when the trade-off of dogs is lowered."""
    return text_number(name, "beta of dogs 0.5") - text_number(name, "beta of dogs 6")


CLAIMS = claims(
    NAME,
    {
        "homing": {"measure": comes_home, **_HOMES},
        "cat-to-dog-homes": {
            "measure": partial(homing_of, label="cat", predicted="dog"),
            "reported": lambda: 100 * text_number("home", "cats as dogs") / text_number("misclassified", "cats as dogs"),
            **_HOMES,
        },
        "one-to-one": {"measure": least(one_to_one), **_HOMES},
        "one-to-one-beyond-mistakes": {"measure": least(partner_home), **_HOMES},
        "groups-home": {"measure": partial(pairs_home, pairs=_GROUPS), **_HOMES},
        "victim-gains": {"measure": victim_gains, "reported": partial(_lowered, "cat"), **_BETAS},
        "victim-loses": {"measure": partial(victim_gains, up=True), **_BETAS},
        "changed-class-loses": {"measure": gain_changes, "reported": partial(_lowered, "dog"), **_BETAS},
        "evener": {"measure": gap_reduction, **_BETAS},
    },
)


def stack_trade_offs(outcomes: xr.Dataset, usual: str = f"{_USUAL:g}") -> xr.Dataset:
    """Return outcomes under the attack along `beta`, the weight of the robust term for the partner class, in ascending order."""
    betas = [str(name).partition(":")[2] or usual for name in outcomes.betas.values]
    named = outcomes.isel(defence=0, attack=-1, drop=True).assign_coords(betas=betas).rename(betas="beta")
    return named.sel(beta=sorted(betas, key=float))


def groups(count: xr.DataArray) -> xr.DataArray:
    """Return the robust accuracy of the vulnerable class, of its partner, and the mean of the other classes, in percent."""
    rates = metrics.accuracy(count)
    pair = [str(count.label.values[marked_class(count, mark)]) for mark in ("vulnerable", "partner")]
    parts = {name: rates.sel(label=name, drop=True) for name in pair}
    return combine.concat_named("class", parts | {"others, mean": rates.drop_sel(label=pair).mean("label", skipna=False)})
