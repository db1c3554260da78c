"""Benz et al. 2020, section 3.4: the accuracy of each class on corrupted images, of standard and of adversarial training.

The claims need corruptions along `attack` ("fog-3"), next to clean images and an attack: of all networks ("corrupted"), and for
the last claim along `half`, each with every other image ("halves").
"""

import numpy as np
import xarray as xr

from classwise.core.spec import Evaluation
from classwise.papers.sections import Derived, Part, Section
from classwise.papers.terms import claims, profile_fields
from classwise.stats import aggregate, combine, metrics

NAME = "benz2020/3-4-corruptions"

# By their kind, in the order of Hendrycks and Dietterich (2019).
KINDS: dict[str, tuple[str, ...]] = {
    "noise": ("gaussian-noise", "shot-noise", "impulse-noise"),
    "blur": ("defocus-blur", "glass-blur", "motion-blur", "zoom-blur"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic-transform", "pixelate", "jpeg-compression"),
}
CORRUPTIONS = tuple(name for names in KINDS.values() for name in names)
# Of all corruptions; and further ones of those that the paper names, which the explorer shows.
SEVERITY, SEVERITIES, SWEPT = 3, (1, 5), ("gaussian-noise", "fog", "contrast")
# As many of each class as are evaluated of photographs; digits have fewer.
_IMAGES = 200
ATTACK = "pgd-20"

# How images are called that are corrupted at this severity.
_AT_SEVERITY = {name: f"{name}-{SEVERITY}" for name in CORRUPTIONS}
# What is shown of an image, in rows, and its captions in lines that fit a phone.
SHOWN = {"clean": ["none"]} | {kind: [_AT_SEVERITY[name] for name in names] for kind, names in KINDS.items()}
CAPTIONS = {"clean": ["clean"]} | {kind: [name.replace("-", "\n") for name in names] for kind, names in KINDS.items()}


def stack_corruptions(plain: xr.Dataset, corrupted: xr.Dataset) -> xr.Dataset:
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


DEFENCES = ("standard", "pgd-at")
_BOTH = ("", "corrupted")
SECTION = Section(
    title="Corruptions",
    defences=DEFENCES,
    parts={
        "corrupted": Part(
            title="corrupted images",
            defences=DEFENCES,
            evaluations=tuple(
                Evaluation(transform=name, per_class=_IMAGES)
                for name in (*_AT_SEVERITY.values(), *(f"{name}-{severity}" for name in SWEPT for severity in SEVERITIES))
            ),
        )
    },
    arrange={
        "corrupted": Derived(stack_corruptions, _BOTH),
        "halves": Derived(lambda *both: aggregate.split_halves(stack_corruptions(*both)), _BOTH),
    },
)


def drops(value: xr.DataArray) -> xr.DataArray:
    """Return how much lower an accuracy along `attack` is on corrupted images than on clean ones, along corruption."""
    names = [name for name in map(str, value.attack.values) if name not in ("clean", ATTACK)]
    corrupted = value.sel(attack=names).rename(attack="corruption")
    return value.sel(attack="clean", drop=True) - corrupted


def extra_drop(sums: xr.Dataset) -> xr.DataArray:
    """Return how much more accuracy the first network loses to corruptions than the second, on average over the corruptions."""
    lost = drops(metrics.overall(sums["count"])).mean("corruption")
    return lost.isel(defence=0) - lost.isel(defence=1)


def breaks_the_same_classes(profiles: xr.DataArray) -> xr.DataArray:
    """Return the correlation over the classes between the mean loss to corruptions and the robust accuracy on other images.

    The mean of both pairs of halves. Its draws are not reflected, which would move an attenuated correlation further.
    """
    robust = profiles.sel(attack=ATTACK, drop=True)
    other = robust.isel(half=slice(None, None, -1)).assign_coords(half=robust.half)
    return xr.corr(drops(profiles).mean("corruption"), other, dim="label").mean("half", skipna=False)


CLAIMS = claims(
    NAME,
    {
        "noise-standard-more": {"measure": extra_drop, "attacks": ("clean", *SHOWN["noise"])},
        "fog-contrast-at-more": {
            "measure": extra_drop,
            "defences": DEFENCES[::-1],
            "attacks": ("clean", _AT_SEVERITY["fog"], _AT_SEVERITY["contrast"]),
        },
        "corruptions-break-the-same": {
            **profile_fields(breaks_the_same_classes, "attack"),
            "defences": ("pgd-at",),
            "attacks": ("clean", ATTACK, *_AT_SEVERITY.values()),
            "permuted": f"attack={ATTACK}",
        },
    },
    defences=DEFENCES,
)


def select_severity(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes of the networks that have any, along attack: clean, attacked, and corrupted at SEVERITY ("shot noise")."""
    names = {"clean": "clean", ATTACK: ATTACK} | {written: name.replace("-", " ") for name, written in _AT_SEVERITY.items()}
    known = {written: name for written, name in names.items() if written in outcomes.attack.values}
    present = (outcomes.truth >= 0).any([dim for dim in outcomes.truth.dims if dim != "defence"])
    kept = outcomes.isel(defence=np.flatnonzero(present)).sel(attack=list(known))
    return kept.assign_coords(attack=list(known.values()))


def name_corruptions(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes of `stack_corruptions` without the attack: along defence, seed and corruption ("fog 3"), "clean" first."""
    shown = outcomes.drop_sel(attack=ATTACK).rename(attack="corruption").transpose("defence", "seed", "corruption", ...)
    return shown.assign_coords(corruption=[str(name).replace("-", " ") for name in shown.corruption.values])
