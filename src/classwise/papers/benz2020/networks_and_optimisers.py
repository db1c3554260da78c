"""Benz et al. 2020, section 3.1: do the classes differ in every network, and under every optimiser, schedule and weight decay?

The claims need along `setting` networks, or trainings of one network, that have learned: the first one is that of the scale.
"""

from collections.abc import Callable, Sequence

import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.papers.benz2020 import networks
from classwise.papers.benz2020.networks import NETWORK_LABELS, TRAINING_LABELS
from classwise.papers.sections import Derived, Section
from classwise.papers.terms import Term, claims, least, value
from classwise.stats import bootstrap, metrics

NAME = "benz2020/3-1-networks-and-optimisers"
_TWINS = tuple(f"{label}, standard" for label in NETWORK_LABELS)
_EVERY = (*NETWORK_LABELS, *TRAINING_LABELS)
_Arrange = Callable[..., xr.Dataset]


def _settings(base: Callable[[str], str], labels: Sequence[str]) -> _Arrange:
    return lambda plain, *parts: networks.stack_settings(base(str(plain.attrs.get("scale", ""))), labels, plain, *parts)


def _judged(arrange: _Arrange) -> _Arrange:
    return lambda *parts: networks.merge_seeds(networks.only_learned(arrange(*parts)))


_all, _networks = (_settings(networks.base_network, labels) for labels in (_EVERY, NETWORK_LABELS))
_trainings = _settings(lambda scale: networks.STEP if scale == "paper" else networks.CYCLE, TRAINING_LABELS)


def _pairs(*parts: xr.Dataset | None) -> xr.Dataset:
    """Return the networks that also have a standard training; NotRecorded without any."""
    both = _judged(_networks)(*parts)
    if "standard" not in both.defence:
        raise NotRecorded("standard training of these networks is not recorded")
    present = both.truth.sel(defence="standard") >= 0
    return both.isel(setting=present.any([dim for dim in present.dims if dim != "setting"]).values)


SECTION = Section(
    title="Networks and optimisers",
    defences=("standard", "pgd-at"),
    max_seeds=1,
    parts=networks.parts(NETWORK_LABELS, standard=True) | networks.parts(TRAINING_LABELS),
    arrange={
        "all": Derived(_all, ("",), (*_EVERY, *_TWINS)),
        "learned": Derived(_judged(_all), ("",), (*_EVERY, *_TWINS)),
        "networks": Derived(_judged(_networks), ("",), (*NETWORK_LABELS, *_TWINS)),
        "pairs": Derived(_pairs, ("",), (*NETWORK_LABELS, *_TWINS)),
        "trainings": Derived(_judged(_trainings), ("",), TRAINING_LABELS),
    },
)


def least_over_settings(term: Term) -> Term:
    """Return the least of a term over the settings; NotRecorded for fewer than two, which do not show that each is so."""

    def several(sums: xr.Dataset) -> xr.DataArray:
        values = term(sums)
        if values.sizes["setting"] < 2:
            raise NotRecorded("the claim is about several networks or trainings, and only one is here", "for others")
        return values

    return least(Term(f"{term.words}, of each network or training", several, term.needs))


# Classes that are a point apart (standard deviation) count as equal.
_VARIANCE, _STANDARD = least_over_settings(value(metrics.cv, "pgd-at", "pgd-20")), value(metrics.mcd, "standard")
CLAIMS = claims(
    NAME,
    {
        "discrepancy-in-each-network": _VARIANCE,
        "wider-in-each-network-clean": {
            "measure": least_over_settings(value(metrics.mcd, "pgd-at") - _STANDARD),
            "attacks": ("clean", "pgd-20"),
        },
        "wider-in-each-network": least_over_settings(value(metrics.mcd, "pgd-at", "pgd-20") - _STANDARD),
        "discrepancy-in-each-training": _VARIANCE,
    },
)


def changes(outcomes: xr.Dataset) -> xr.DataArray:
    """Return low, value and high of the gap of PGD-AT minus the gap of standard training on clean images, in points.

    outcomes: along setting, defence and attack. Dimensions attack (of PGD-AT), setting and bound.
    """

    def change(count: xr.DataArray) -> xr.DataArray:
        gap = metrics.mcd(count)
        return gap.sel(defence="pgd-at", drop=True) - gap.sel(defence="standard", attack="clean", drop=True)

    bounds = bootstrap.paired_bounds(outcomes, change, span=(-100, 100))
    return bounds.transpose("attack", "setting", "bound")
