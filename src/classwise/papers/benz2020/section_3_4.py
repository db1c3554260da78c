"""Benz et al. 2020, section 3.4: the accuracy of each class on corrupted images, of standard and of adversarial training.

The claims need corruptions along `attack` ("fog-3"), next to clean images and an attack: of all networks ("corrupted"), and for
the last claim along `half`, each with every other image ("halves").
"""

from functools import partial

import numpy as np
import xarray as xr

from classwise.core.spec import Evaluation
from classwise.papers.benz2020.kinds import where
from classwise.papers.claims import claims_of
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Section
from classwise.stats import aggregate, agreement, combine, metrics

NAME = "benz2020/3-4-corruptions"

# By their kind, in the order of Hendrycks and Dietterich (2019).
KINDS: dict[str, tuple[str, ...]] = {
    "noise": ("gaussian-noise", "shot-noise", "impulse-noise"),
    "blur": ("defocus-blur", "glass-blur", "motion-blur", "zoom-blur"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic-transform", "pixelate", "jpeg-compression"),
}
CORRUPTIONS = tuple(name for names in KINDS.values() for name in names)
# Of all corruptions; and further ones of those that the paper names.
SEVERITY, SEVERITIES, SWEPT = 3, (1, 5), ("gaussian-noise", "fog", "contrast")
# As many of each class as are evaluated of photographs; digits have fewer.
_IMAGES = 200
ATTACK = "pgd-20"


def at_severity(corruption: str, severity: int = SEVERITY) -> str:
    """Return the name of a corruption at a severity, "fog-3"."""
    return f"{corruption}-{severity}"


def _evaluation(corruption: str, severity: int) -> Evaluation:
    return Evaluation(transform=at_severity(corruption, severity), per_class=_IMAGES)


def by_corruption(plain: xr.Dataset, corrupted: xr.Dataset) -> xr.Dataset:
    """Return outcomes with the corruptions along `attack`, after clean and attacked images.

    Of the images of each network that it was evaluated on under all of them; a network that lacks any has none. A corruption that
    no network was evaluated on is left out.
    """
    evaluated = (corrupted.truth >= 0).any([dim for dim in corrupted.truth.dims if dim != "transform"])
    parts = {str(name).split("@")[0]: plain.sel(attack=name, drop=True) for name in plain.attack.values}
    parts |= {
        str(name): corrupted.sel(attack="clean", transform=name, drop=True) for name in corrupted.transform.values[evaluated]
    }
    both = combine.combine("attack", combine.shared_seeds(parts)).assign_attrs(plain.attrs).drop_vars("logits", errors="ignore")
    return both.assign(truth=both.truth.where((both.truth >= 0).all("attack"), -1))


def _halves(plain: xr.Dataset, corrupted: xr.Dataset) -> xr.Dataset:
    return aggregate.halved(by_corruption(plain, corrupted))


DEFENCES = ("standard", "pgd-at")
_BOTH = ("", "corrupted")
SECTION = Section(
    title="Corruptions",
    defences=DEFENCES,
    evaluations=CLEAN_AND_PGD,
    parts={
        "corrupted": Section(
            title="corrupted images",
            defences=DEFENCES,
            evaluations=(
                *(_evaluation(name, SEVERITY) for name in CORRUPTIONS),
                *(_evaluation(name, severity) for name in SWEPT for severity in SEVERITIES),
            ),
        )
    },
    arrange={"corrupted": Arranged(by_corruption, _BOTH), "halves": Arranged(_halves, _BOTH)},
)


def drops(value: xr.DataArray) -> xr.DataArray:
    """Return how much lower an accuracy along `attack` is on corrupted images than on clean ones, along corruption."""
    names = [name for name in map(str, value.attack.values) if name not in ("clean", ATTACK)]
    corrupted = value.sel(attack=names).rename(attack="corruption")
    lost: xr.DataArray = value.sel(attack="clean", drop=True) - corrupted
    return lost


def lost_more(sums: xr.Dataset) -> xr.DataArray:
    """Return how much more accuracy the first network loses to corruptions than the second, the mean over the corruptions."""
    lost = drops(metrics.overall(sums["count"])).mean("corruption")
    return lost.isel(defence=0) - lost.isel(defence=1)


def correlation(lost: xr.DataArray, rates: xr.DataArray) -> xr.DataArray:
    """Return the correlation over classes of what corruptions take with the robust accuracy of other images.

    lost, rates: along half and label, the latter also along attack. The mean of both pairs of halves.
    """
    robust = rates.sel(attack=ATTACK, drop=True)
    other = robust.isel(half=slice(None, None, -1)).assign_coords(half=robust.half)
    return xr.corr(lost, other, dim="label").mean("half", skipna=False)


def breaks_the_same_classes(sums: xr.Dataset) -> xr.DataArray:
    """Return the correlation over classes of the mean drop on corrupted images with the robust accuracy of other images."""
    rates = metrics.accuracy(sums["count"].isel(defence=0, drop=True))
    return correlation(drops(rates).mean("corruption"), rates)


def _redrawn(outcomes: xr.Dataset, draws: int, seed: int) -> np.ndarray:
    """Return draws of `breaks_the_same_classes`; they are not reflected, which would move an attenuated correlation further."""
    full = outcomes.assign(truth=outcomes.truth.max("half")).drop_vars("half").isel(defence=0, drop=True)
    rates = agreement.drawn_profiles(full, "attack", draws, seed)
    return correlation(drops(rates).mean("corruption"), rates).values


_claim = partial(claims_of(NAME), data="corrupted", attacks=("clean",))
_NOISE = tuple(at_severity(name) for name in KINDS["noise"])
_FOG = (at_severity("fog"), at_severity("contrast"))

CLAIMS = (
    _claim(
        "noise-standard-more",
        where=where("3.4", "cited", "(direction of [13])"),
        statement="Noise lowers the accuracy of standard training more than that of adversarial training.",
        measure=lost_more,
        defences=DEFENCES,
        attacks=("clean", *_NOISE),
    ),
    _claim(
        "fog-contrast-at-more",
        where=where("3.4", "cited", "(direction of [13])"),
        statement="Fog and lower contrast lower the accuracy of adversarial training more than that of standard training.",
        measure=lost_more,
        defences=DEFENCES[::-1],
        attacks=("clean", *_FOG),
    ),
    _claim(
        "corruptions-break-the-same",
        where=where("3.4", "asked"),
        statement="After adversarial training, of these classes those that are least robust lose most to corruptions.",
        measure=breaks_the_same_classes,
        truth=_redrawn,
        low=-np.inf,
        high=0.0,
        unit="correlation",
        defences=("pgd-at",),
        attacks=("clean", ATTACK, *(at_severity(name) for name in CORRUPTIONS)),
        dims=("half",),
        data="halves",
    ),
)
