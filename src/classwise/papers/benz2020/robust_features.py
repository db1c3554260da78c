"""Benz et al. 2020, section 3.2: which features make classes unequal, by robust and non-robust datasets (Ilyas et al. 2019).

All networks train as usual and differ in their training images: those of the dataset, or images that are rebuilt with an
adversarially trained network (robust features) or with a standard one (non-robust features). The claims need them along
`defence`, by the names of SETS, with the attacks by their radius along `attack` ("sets").
"""

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.core.identity import radius_value
from classwise.core.spec import Spec
from classwise.papers.benz2020 import networks
from classwise.papers.benz2020.recipe import RECIPE
from classwise.papers.claims import first_sentence
from classwise.papers.scales import SCALES
from classwise.papers.sections import Member, Part, Section, join_parts
from classwise.papers.terms import Term, claims, least, value
from classwise.papers.variants import Variant, Variants
from classwise.stats import agreement, combine, metrics

NAME = "benz2020/3-2-features"
# Networks trained on the images as they are, and the sets of rebuilt images.
STANDARD, ADVERSARIAL = "standard", "pgd-at"
ROBUST, NON_ROBUST, RANDOM, NEXT = "robust set", "non-robust set", "random targets", "next targets"
SETS = (ROBUST, NON_ROBUST, RANDOM, NEXT)
# The radii of the attack in those of the scale: far below it, as networks that train as usual withstand none of that size.
AT = ("1/8", "1/4", "1/2")
ATTACKS = tuple(f"pgd-20 at {multiple} ε" for multiple in AT)
QUARTER = ATTACKS[AT.index("1/4")]
NETWORK = "ResNet18"
# An image is rebuilt in as many passes as ten epochs take or more: 15,000 of CIFAR-10.
_PER_CLASS = {"matched": 1500, "laptop": 1500}


def usual_variant(scale: str, plain: Spec) -> Sequence[Variant]:
    """Return the variant of the network without rebuilt images.

    It has few features for many pixels, so that images differ that share them.
    """
    return networks.network_variant(NETWORK)(scale, plain) or ({},)


def rebuilt(kind: str, by: str, *scales: str) -> Variants:
    """Return the variant that trains on images rebuilt with the network of a defence; scales: () for all."""

    def varied(scale: str, plain: Spec) -> tuple[Variant, ...]:
        if scales and scale not in scales:
            return ()
        source = SCALES[scale].fields(by, RECIPE, {"dataset": plain.dataset, "eps": plain.eps})
        fields: dict[str, Any] = {"rebuilt": kind, "images_by": by, "train_per_class": _PER_CLASS.get(scale)}
        fields |= {name: source[name] for name in ("attack", "attack_options") if name in source}
        # A network of its own has no averages.
        averages = {"averages": source["averages"]} if "averages" in source else {}
        return ({**averages, **usual_variant(scale, plain)[0], **fields},)

    return varied


def _part(title: str, variants: Variants, defence: str = STANDARD) -> Part:
    return Part(title=title, defences=(defence,), variants=variants, at=AT, max_seeds=2)


def stack_radii(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes with each radius of an attack as an attack of its own ("pgd-20 at 1/4 ε")."""
    if "eval_eps" not in outcomes.dims:
        return outcomes
    (attack,) = (name for name in outcomes.attack.values if str(name) != "clean")
    part = outcomes.sel(attack=attack, drop=True)
    present = (part.truth >= 0).any([dim for dim in part.truth.dims if dim != "eval_eps"])
    radii = sorted(part.eval_eps.values[present.values], key=lambda value: radius_value(str(value)))
    names = ATTACKS if len(radii) == len(ATTACKS) else [f"{str(attack).partition('@')[0]} at {radius}" for radius in radii]
    of_clean = outcomes.sel(attack="clean", drop=True)
    evaluated = (of_clean.truth >= 0).any([dim for dim in of_clean.truth.dims if dim != "eval_eps"])
    rows = [({"attack": "clean"}, of_clean.isel(eval_eps=int(evaluated.argmax("eval_eps")), drop=True))]
    rows += [({"attack": name}, part.sel(eval_eps=radius, drop=True)) for name, radius in zip(names, radii, strict=True)]
    return combine.combine_rows(rows).transpose("defence", ...).assign_attrs(outcomes.attrs)


_ROWS = Member("", STANDARD, by="defence"), *(Member(name, name, by="defence") for name in (ADVERSARIAL, *SETS))
SECTION = Section(
    title="Robust and non-robust features",
    defences=(STANDARD,),
    at=AT,
    max_seeds=2,
    variants=usual_variant,
    parts={
        ADVERSARIAL: _part("adversarial training", usual_variant, ADVERSARIAL),
        ROBUST: _part("robust features", rebuilt("features", ADVERSARIAL)),
        NON_ROBUST: _part("non-robust features", rebuilt("features", STANDARD)),
        RANDOM: _part("perturbed towards random classes", rebuilt("random", STANDARD)),
        NEXT: _part("perturbed towards the next class", rebuilt("next", STANDARD, "short", "paper")),
    },
    arrange={"sets": join_parts("defence", *_ROWS, optional=True, then=lambda outcomes, _: stack_radii(outcomes))},
)


def accuracy_above_chance(count: xr.DataArray) -> xr.DataArray:
    """Return how many points the accuracy is above always naming one class."""
    images = metrics.images(count)
    return metrics.overall(count) - 100 * images.max("label") / images.sum("label")


def metric_of_each(metric: metrics.Metric, words: str = "") -> Term:
    """Return a metric of the training sets of a claim, under its first attack, along defence; words: in place of its own."""
    named = f"{words or first_sentence(metric)}, of each training set"
    return Term(named, lambda sums: metric(sums["count"].isel(attack=0, drop=True)))


# That both are unequal is tested by the square of two points: no variance is below zero, so that one above it would be no claim.
CLAIMS = claims(
    NAME,
    {
        "robust-features-useful": value(accuracy_above_chance, ROBUST),
        "non-robust-features-useful": {"measure": least(metric_of_each(accuracy_above_chance)), "defences": (NON_ROBUST, RANDOM)},
        "only-robust-set-robust": value(metrics.overall, ROBUST, QUARTER) - value(metrics.overall, NON_ROBUST, QUARTER),
        "both-unequal": {
            "measure": least(metric_of_each(metrics.cv, "class-wise variance (CV)")),
            "defences": (ROBUST, NON_ROBUST),
        },
    },
    attacks=("clean",),
)


# By the name of a set, what is known of its images in each run (`runs.rebuilt_sets`).
Images = Mapping[str, Sequence[xr.Dataset]]
# How much more alike a profile is to that of ADVERSARIAL than to that of STANDARD.
LEANING = f"{ADVERSARIAL} minus {STANDARD}"


def pictures(images: Images) -> tuple[dict[str, xr.DataArray], dict[str, list[str]]]:
    """Return one image of each class by row, as `gallery.image_rows` takes them: original, start, and its form in each set.

    The captions are its class and, of a rebuilt one, the label that it is trained with.
    """
    if ROBUST not in images:
        raise NotRecorded(f"the rebuilt images of the {ROBUST} are not recorded")
    first = images[ROBUST][0]
    labels, names = first.truth.sel(image=first.shown.values).values, list(map(str, first.predicted.values))
    chosen = first.shown.values[[int((labels == number).argmax()) for number in range(len(names))]]
    forms = {"original": (first, "target", "truth"), "start": (first, "start", "original")}
    # A phone has room for two lines.
    forms |= {name.removesuffix(" set"): (some[0], "rebuilt", "truth") for name, some in images.items()}
    rows = {title: data.pixels.sel(form=form, shown=chosen).rename(shown="image") for title, (data, form, _) in forms.items()}
    captions = {title: [names[int(one)] for one in data[of].sel(image=chosen)] for title, (data, _, of) in forms.items()}
    return rows, captions


def likeness(outcomes: xr.Dataset) -> xr.DataArray:
    """Return how alike the class profile of each network is to those of training on the original images, with intervals.

    Correlations over the classes of robust accuracy at a quarter of the radius, one half of the images against the other, so that
    a network that is compared with itself gives the most that chance leaves of a perfect agreement: dimensions bound, defence and
    network (STANDARD, ADVERSARIAL and LEANING). NaN where too few redrawn images give a correlation.
    """

    def compared(profiles: xr.DataArray) -> xr.DataArray:
        both = agreement.cross_half(profiles, "defence").sel(defence=[STANDARD, ADVERSARIAL])
        both = both.rename(defence="network", other="defence")
        leaning = both.sel(network=ADVERSARIAL, drop=True) - both.sel(network=STANDARD, drop=True)
        return xr.concat([both, leaning.expand_dims(network=[LEANING])], "network")

    bounds = agreement.interval(outcomes.sel(attack=QUARTER, drop=True), compared, "defence")
    return bounds.where(xr.ufuncs.isfinite(bounds).all("bound"))
