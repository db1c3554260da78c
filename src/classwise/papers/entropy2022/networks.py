"""The networks of Tables 2 to 4 of Entropy 2022: what each row is trained with.

The paper calls the trade-off of TRADES lambda and the weight of the maximised entropy beta; the options of the defences are
called beta and entropy.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.core.spec import Evaluation
from classwise.papers.sections import Part, Request
from classwise.papers.variants import ONCE, Variants, choose_by_scale, each, none, usual
from classwise.stats import combine

# Clean images, and the attacks of Tables 2 to 4; "strong" stands for AutoAttack.
EVALUATIONS = tuple(Evaluation(attack=name) for name in ("clean", "pgd-20", "margin-20", "strong"))
# What claims take for AutoAttack.
AUTOATTACK = "autoattack|strong|cr"


def strong_attack(outcomes: xr.Dataset) -> str:
    """Return the attack of these outcomes that stands for AutoAttack; NotRecorded if they have none."""
    names = [name for name in AUTOATTACK.split("|") if name in outcomes.attack]
    if not names:
        raise NotRecorded("results under AutoAttack, or what stands for it, are not recorded")
    return names[0]


# By the name that `tables` reads from a row: its defence, and the options in which it differs from what that has by default.
NETWORKS: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "pgd-at": ("pgd-at", {}),
    "label-smoothing": ("label-smoothing", {}),
    "me-at (β=0.5)": ("me-at", {}),
    "me-at (β=1)": ("me-at", {"entropy": 1}),
    "trades (λ=6)": ("trades", {}),
    "trades (λ=9)": ("trades", {"beta": 9}),
    "trades (λ=12)": ("trades", {"beta": 12}),
    "trades (λ=15)": ("trades", {"beta": 15}),
    "trades-smoothed (λ=6)": ("trades-smoothed", {}),
    "me-trades (β=1, λ=15)": ("me-trades", {}),
    "me-trades (β=1, λ=18)": ("me-trades", {"beta": 18}),
    "me-trades (β=1, λ=24)": ("me-trades", {"beta": 24}),
    "me-trades (β=1, λ=27)": ("me-trades", {"beta": 27}),
}
# Those that other networks are compared with.
PLAIN = ("pgd-at", "trades (λ=6)")
# Values of lambda between others, which only scales with a GPU train.
BETWEEN = ("trades (λ=9)", "me-trades (β=1, λ=18)", "me-trades (β=1, λ=24)")


def variant(**options: float) -> Variants:
    """Return the one variant with other options of the defence; scale quick measures it at its first and last epoch only.

    Without options it is the defence as other pages train it.
    """
    once = each({"options": options, **ONCE})
    return choose_by_scale(each({"options": options}), quick=once) if options else usual


def part(name: str, **fields: Any) -> Part:
    """Return the part of a section that trains and evaluates one network with other options."""
    defence, options = NETWORKS[name]
    variants = variant(**options)
    if name in BETWEEN:
        variants = choose_by_scale(variants, quick=none, laptop=none)
    shared: dict[str, Any] = {"evaluations": EVALUATIONS, "max_seeds": 1, "variants": variants}
    return Part(title=name, defences=(defence,), **(shared | fields))


def name_networks(names: tuple[str, ...], plain: xr.Dataset, *parts: xr.Dataset | None) -> xr.Dataset:
    """Return outcomes or histories along defence with the names of NETWORKS.

    plain: of "pgd-at" and "trades" as other pages train them. parts: of the networks of these names, None for one that is not
    recorded.
    """
    defences = {name: NETWORKS[name][0] for name in PLAIN}
    rows = {name: plain.sel(defence=one, drop=True) for name, one in defences.items() if one in plain.defence.values}
    rows |= {name: part.isel(defence=0, drop=True) for name, part in zip(names, parts, strict=True) if part is not None}
    ordered = [*(name for name in NETWORKS if name in rows), *(name for name in rows if name not in NETWORKS)]
    return combine.combine_rows([({"defence": name}, rows[name]) for name in ordered]).assign_attrs(plain.attrs)


def load_networks(request: Request, load: Callable[[Request], xr.Dataset]) -> xr.Dataset:
    """Return what is recorded of a section and of its parts along defence, as `name_networks` does.

    load: `runs.outcomes`, or the `runs.history` of the runs of a request.
    """
    parts = {name: part for name, part in request.parts.items() if part.specs}
    return name_networks(tuple(parts), load(replace(request, parts={})), *(load(part) for part in parts.values()))


def name_methods(values: xr.DataArray) -> xr.DataArray:
    """Return values along method and setting instead of defence: "me-trades (β=1, λ=15)" is of me-trades with "λ=15".

    The setting of a network without any is its name. NotRecorded without a network.
    """
    if not values.sizes["defence"]:
        raise NotRecorded("no network of these methods is recorded")
    parts = [str(name).removesuffix(")").partition(" (") for name in values.defence.values]
    keys = [(method, settings.rpartition(", ")[2] or method) for method, _, settings in parts]
    return combine.apart(values, "defence", keys, ("method", "setting"))
