"""Benz et al. 2020, section 3.1: do the classes differ in every network, and under every optimiser, schedule and weight decay?

The claims need along `setting` networks, or trainings of one network, that have learned: the first one is that of the scale.
"""

from functools import partial
from typing import Any

import xarray as xr

from classwise.papers.benz2020 import networks
from classwise.papers.benz2020.kinds import where
from classwise.papers.benz2020.networks import NETWORK_LABELS, TRAINING_LABELS
from classwise.papers.claims import MeasurementError, claims_of
from classwise.papers.extremes import extreme
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Section
from classwise.stats import bootstrap, metrics

NAME = "benz2020/3-1-networks-and-optimisers"
_TWINS = tuple(map(networks.standard_of, NETWORK_LABELS))


def _scale(plain: xr.Dataset) -> str:
    return str(plain.attrs.get("scale", ""))


def all_settings(plain: xr.Dataset, *parts: xr.Dataset | None) -> xr.Dataset:
    """Return all networks, then the other trainings of the first one, along `setting`."""
    number = len(NETWORK_LABELS)
    others, twins, trainings = parts[:number], parts[number : 2 * number], parts[2 * number :]
    labels = (*NETWORK_LABELS, *TRAINING_LABELS)
    return networks.by_setting(networks.base_network(_scale(plain)), labels, plain, *others, *trainings, *twins)


def _judged(outcomes: xr.Dataset) -> xr.Dataset:
    """Return the settings that have learned, their trainings taken as given."""
    return networks.as_given(networks.only_learned(outcomes))


def _networks(plain: xr.Dataset, *parts: xr.Dataset | None) -> xr.Dataset:
    return _judged(networks.by_setting(networks.base_network(_scale(plain)), NETWORK_LABELS, plain, *parts))


def _pairs(plain: xr.Dataset, *parts: xr.Dataset | None) -> xr.Dataset:
    """Return the networks with a standard training, too."""
    both = _networks(plain, *parts)
    standard = (both.truth.sel(defence="standard") >= 0).any(
        [dim for dim in both.truth.dims if dim not in ("setting", "defence")]
    )
    return both.isel(setting=standard.values)


def _trainings(plain: xr.Dataset, *parts: xr.Dataset | None) -> xr.Dataset:
    return _judged(networks.by_setting(networks.base_training(_scale(plain)), TRAINING_LABELS, plain, *parts))


_OF_NETWORKS = (*NETWORK_LABELS, *_TWINS)
SECTION = Section(
    title="Networks and optimisers",
    defences=("standard", "pgd-at"),
    evaluations=CLEAN_AND_PGD,
    max_seeds=1,
    parts=networks.parts(NETWORK_LABELS, standard=True) | networks.parts(TRAINING_LABELS),
    arrange={
        "all": Arranged(all_settings, ("",), (*_OF_NETWORKS, *TRAINING_LABELS)),
        "learned": Arranged(lambda *parts: _judged(all_settings(*parts)), ("",), (*_OF_NETWORKS, *TRAINING_LABELS)),
        "networks": Arranged(_networks, ("",), _OF_NETWORKS),
        "pairs": Arranged(_pairs, ("",), _OF_NETWORKS),
        "trainings": Arranged(_trainings, ("",), TRAINING_LABELS),
    },
)


def _several(values: xr.DataArray) -> xr.DataArray:
    """Return values along `setting`; MeasurementError for fewer than two, which do not show that each is so."""
    if values.sizes["setting"] < 2:
        raise MeasurementError("the claim is about several networks or trainings, and there is one", "for others")
    return values


def variances(sums: xr.Dataset) -> xr.DataArray:
    """Return the class-wise variance of the adversarial training under attack, along setting."""
    return _several(metrics.cv(sums["count"].isel(defence=-1, attack=-1)))


def least_variance(sums: xr.Dataset) -> xr.DataArray:
    """Return the class-wise variance under attack of the setting in which the classes differ least."""
    return variances(sums).min("setting", skipna=False)


def widening(sums: xr.Dataset, *, attacked: bool = False) -> xr.DataArray:
    """Return the gap between the best and the worst class in PGD-AT less that in standard training, along setting.

    On clean images; attacked: that of PGD-AT under attack, and that of standard training on clean images.
    """
    gap = metrics.mcd(sums["count"])
    return _several(gap.isel(defence=1, attack=int(attacked)) - gap.isel(defence=0, attack=0))


def changes(outcomes: xr.Dataset) -> xr.DataArray:
    """Return low, value and high of the gap of PGD-AT less that of standard training on clean images, in points.

    outcomes: along setting, defence and attack. Dimensions attack (of PGD-AT), setting and bound.
    """

    def change(count: xr.DataArray) -> xr.DataArray:
        gap = metrics.mcd(count)
        return gap.sel(defence="pgd-at", drop=True) - gap.sel(defence="standard", attack="clean", drop=True)

    bounds = bootstrap.paired(outcomes, change, span=(-100, 100))
    return bounds.transpose("attack", "setting", "bound")


def least_widening(sums: xr.Dataset, *, attacked: bool = False) -> xr.DataArray:
    """Return `widening` of the network in which it is least."""
    return widening(sums, attacked=attacked).min("setting", skipna=False)


_claim = claims_of(NAME, defences=("pgd-at",), attacks=("pgd-20",), dims=("setting",))
# Classes that are a point apart (standard deviation) count as equal.
_VARIANCE: dict[str, Any] = {"unit": "points squared", "low": 1, "truth": extreme(variances)}
_WIDENING: dict[str, Any] = {"data": "pairs", "defences": ("standard", "pgd-at"), "attacks": ("clean", "pgd-20")}


def _widened(attacked: bool) -> dict[str, Any]:
    return _WIDENING | {"truth": extreme(partial(widening, attacked=attacked))}


CLAIMS = (
    _claim(
        "discrepancy-in-each-network",
        where("3.2", "expected"),
        "The classes of an adversarially trained network differ in robust accuracy, whatever its architecture.",
        least_variance,
        data="networks",
        **_VARIANCE,
    ),
    _claim(
        "wider-in-each-network-clean",
        where("3.1", "asked"),
        "Adversarial training widens the gap between the classes on clean images in each network.",
        least_widening,
        **_widened(False),
    ),
    _claim(
        "wider-in-each-network",
        where("3.1", "asked"),
        "In each network the gap of adversarial training under attack is wider than that of standard training on clean images.",
        partial(least_widening, attacked=True),
        **_widened(True),
    ),
    _claim(
        "discrepancy-in-each-training",
        where("3.2", "expected"),
        "The classes differ in robust accuracy under each optimiser, schedule and weight decay.",
        least_variance,
        data="trainings",
        **_VARIANCE,
    ),
)
