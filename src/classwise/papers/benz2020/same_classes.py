"""Benz et al. 2020, section 3.2: are the same classes robust, or vulnerable, in other networks and other trainings?

The claims need along `setting` PGD-AT of the scale itself, BASE, and other networks and trainings, and the halves of the images
along `half`. A setting may also differ from BASE in its rate and its epochs (`networks`). Every network is judged under attack,
standard training on clean images: under attack it has no class left.
"""

from functools import partial

import numpy as np
import xarray as xr

from classwise.core.errors import NotAtScale, NotRecorded
from classwise.papers import variants
from classwise.papers.benz2020 import networks
from classwise.papers.sections import Derived, Part, Section
from classwise.papers.terms import claims, profile_fields
from classwise.stats import aggregate, agreement, combine

NAME = "benz2020/3-2-same-classes"
BASE = "pgd-at"
# What a network mainly differs in from BASE, in the order of the page.
SAME, OPTIMISED, NETWORK, TRAINED = "same training", "another optimisation", "another network", "another training"
AGAIN = ("initialisation 1", "initialisation 2")
OTHER_SEEDS = "other seeds"
STANDARD = "standard, clean images"
DEFENCES = {"trades": "trades", "mart": "mart", "pgd-he": "pgd-he", "standard": STANDARD}
GROUPS: dict[str, str] = {
    **dict.fromkeys((*AGAIN, OTHER_SEEDS), SAME),
    **dict.fromkeys(networks.TRAINING_LABELS, OPTIMISED),
    **dict.fromkeys(networks.NETWORK_LABELS, NETWORK),
    **dict.fromkeys(DEFENCES.values(), TRAINED),
}
_PARTS = ("again", *networks.TRAINING_LABELS, *networks.NETWORK_LABELS, *DEFENCES)


def _settings(plain: xr.Dataset, *parts: xr.Dataset | None) -> xr.Dataset:
    """Return the networks along `setting`, each in the attack that it is judged under; the order of `parts` is that of _PARTS.

    BASE and most others have the seeds that all of these have, OTHER_SEEDS the rest of those of BASE.
    """
    given = {name: part for name, part in zip(_PARTS, parts, strict=True) if part is not None}
    rows, attack = {BASE: plain}, plain.attack.values[-1]
    for name, part in given.items():
        if name == "again":
            rows |= {label: part.sel(redraw=number, drop=True) for label, number in zip(AGAIN, part.redraw.values, strict=False)}
        else:
            rows[DEFENCES.get(name, name)] = part
    shared = combine.shared_seeds(rows)
    rest = plain.sel(seed=~plain.seed.isin(shared[BASE].seed))
    shared |= {OTHER_SEEDS: rest} if rest.sizes["seed"] else {}
    judged = {
        name: shared[name].sel(attack=["clean" if name == STANDARD else attack]).assign_coords(attack=[attack])
        for name in (BASE, *GROUPS)
        if name in shared
    }
    joined = combine.combine("setting", judged).sel(setting=list(judged))
    return _counted(aggregate.common_images(networks.mark_vulnerable(joined), "setting", same_seeds=False))


def _counted(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes with the least number of runs of a setting as the attribute `runs`, which a verdict states."""
    present = (outcomes.truth >= 0).any([dim for dim in outcomes.truth.dims if dim not in ("setting", "seed")])
    return outcomes.assign_attrs(runs=int(present.sum("seed").min()))


def _halves(plain: xr.Dataset, *parts: xr.Dataset | None) -> xr.Dataset:
    return aggregate.split_halves(_counted(networks.only_learned(_settings(plain, *parts))))


SECTION = Section(
    title="The same classes?",
    defences=("pgd-at",),
    parts={
        "again": Part(
            title="the same training, other initialisation and batch order",
            defences=("pgd-at",),
            run=variants.ONCE,
            max_seeds=1,
            variants=variants.choose_by_scale(variants.reinitialised, laptop=variants.none),
        ),
        **networks.parts((*networks.TRAINING_LABELS, *networks.NETWORK_LABELS)),
        **{name: Part(title=name, defences=(name,), max_seeds=1) for name in DEFENCES},
    },
    arrange={"settings": Derived(_settings, ("",), optional=_PARTS), "halves": Derived(_halves, ("",), optional=_PARTS)},
)


def members(data: xr.Dataset | xr.DataArray, *groups: str) -> list[str]:
    """Return the settings of some groups that are present."""
    return [name for name in map(str, data.setting.values) if GROUPS.get(name) in groups]


def repeated_settings(data: xr.Dataset | xr.DataArray) -> list[str]:
    """Return the settings whose agreement with BASE is the ceiling: on the same images if there are such, else other seeds."""
    same = members(data, SAME)
    return [name for name in same if name != OTHER_SEEDS] or same


def _mean(profiles: xr.DataArray, names: list[str], what: str) -> xr.DataArray:
    if not names:
        raise NotRecorded(f"these outcomes have no result of {what}", f"for {what}")
    mean = agreement.corrected_mean(profiles, BASE, names)
    if not mean.ndim and not np.isfinite(mean):
        raise NotAtScale("the classes of one of the two hardly differ, so that their order is unknown")
    return mean


def mean_network_agreement(profiles: xr.DataArray) -> xr.DataArray:
    """Return the corrected correlation of the classes with PGD-AT, on opposite halves of the images, mean over other networks."""
    return _mean(profiles, members(profiles, NETWORK), "other networks")


def less_than_ceiling(profiles: xr.DataArray) -> xr.DataArray:
    """Return the corrected correlation with PGD-AT, averaged over other networks, minus the one of the same training repeated."""
    again = repeated_settings(profiles)
    if len(again) < 2:
        raise NotRecorded("at least two repetitions of the same training are needed", "for two repetitions of pgd-at")
    return mean_network_agreement(profiles) - _mean(profiles, again, "other initialisations")


def setting_agreement(profiles: xr.DataArray, setting: str) -> xr.DataArray:
    """Return the corrected correlation of the classes of one setting with PGD-AT, on opposite halves of the images."""
    return _mean(profiles, [setting] if setting in profiles.setting.values else [], setting)


def weakest_is_weak(profiles: xr.DataArray) -> xr.DataArray:
    """Return how many points the weakest class of PGD-AT on validation images lies below the mean class of other networks."""
    names = members(profiles, NETWORK)
    if not names:
        raise NotRecorded("these outcomes have no other network", "for other networks")
    rates = profiles.sel(setting=names).mean(["half", "setting"], skipna=False)
    return rates.mean("label", skipna=False) - rates.isel(label=int(networks.weakest(profiles).argmax()), drop=True)


CLAIMS = claims(
    NAME,
    {
        "other-networks": profile_fields(mean_network_agreement, "setting"),
        "little-to-do-with-architecture": profile_fields(less_than_ceiling, "setting"),
        "sgd-or-adam": profile_fields(partial(setting_agreement, setting=networks.ADAM), "setting"),
        "standard-or-adversarial": profile_fields(partial(setting_agreement, setting=STANDARD), "setting"),
        "weakest-is-weak": profile_fields(weakest_is_weak, "setting"),
    },
)
