"""Benz et al. 2020, section 3.3: a term that makes the classes less similar, and adversarial training towards a class.

Claims take the Dataset "trainings" along defence, with the names of TRAININGS, or "validation": the validation images of those
with a similarity term, from whose logits the similarity of the classes is computed.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import xarray as xr

from classwise.core.datasets import base_dataset, class_names
from classwise.core.errors import NotAtScale
from classwise.core.spec import Evaluation, Spec
from classwise.papers import selection
from classwise.papers.benz2020 import critical
from classwise.papers.benz2020.critical import change, critical_class, join_trainings
from classwise.papers.sections import CLEAN_AND_PGD, Part, Section
from classwise.papers.terms import claims
from classwise.papers.variants import Variant, Variants, usual
from classwise.stats import combine, confidence, intervals, metrics, pooling

NAME = "benz2020/3-3-similarity-and-targets"
BASE = "pgd-at"


def _varied(fields: Callable[[Spec], Variant]) -> Variants:
    return lambda scale, plain: ({**fields(plain), **(critical.ONCE if scale == "quick" else {})},)


def _unless_digits(variants: Variants) -> Variants:
    return lambda scale, plain: () if base_dataset(plain.dataset) == "digits" else variants(scale, plain)


def _towards(choose: Callable[[str], str]) -> Callable[[Spec], Variant]:
    return lambda plain: {"attack_options": {"target": class_names(plain.dataset).index(choose(plain.dataset))}}


def _others_towards_critical(plain: Spec) -> Variant:
    names, target = class_names(plain.dataset), critical_class(plain.dataset)
    numbers = [names.index(selection.safest(plain.dataset) if name == target else target) for name in names]
    return {"attack_options": {"target": " ".join(map(str, numbers))}}


WEAK, STRONG = "similarity 0.1", "similarity 1"
CRITICAL, OTHERS, SAFEST, NEXT = "towards critical", "others only", "towards safest", "towards next"
# By name, the defence and its variant; `usual`: as other pages train it. Images of the target are attacked without a target; of
# OTHERS those of the critical class, towards the safest one, as they are in SAFEST. NEXT attacks each image towards the class
# after its label.
TRAININGS: Mapping[str, tuple[str, Variants]] = {
    WEAK: ("similarity", usual),
    STRONG: ("similarity", _varied(lambda plain: {"options": {"similarity": 1.0}})),
    CRITICAL: ("targeted-at", _varied(_towards(critical_class))),
    OTHERS: ("targeted-at", _unless_digits(_varied(_others_towards_critical))),
    SAFEST: ("targeted-at", _varied(_towards(selection.safest))),
    NEXT: ("targeted-at", _unless_digits(usual)),
}
SIMILARITY, TARGETED = (BASE, WEAK, STRONG), (BASE, CRITICAL, OTHERS, SAFEST, NEXT)
# What names of parts end in: the same trainings on validation images, and attacked towards the critical class.
VALIDATION, PUSHED = "validation", "pushed"


def _parts(names: Iterable[str], *evaluations: Evaluation, kind: str = "", **fields: Any) -> dict[str, Part]:
    trainings = {name: TRAININGS.get(name, (BASE, usual)) for name in names}
    shared: dict[str, Any] = {"evaluations": evaluations, **fields}
    return {
        name + kind: Part(title=name, defences=(one,), max_seeds=1 if name in TRAININGS else 2, variants=variants, **shared)
        for name, (one, variants) in trainings.items()
    }


_VALID = _parts(SIMILARITY, Evaluation(attack="clean", split="valid"), kind=f", {VALIDATION}")
_PUSHED = _parts(TARGETED, Evaluation(attack="targeted-pgd-20"), kind=f", {PUSHED}", target=critical_class)
SECTION = Section(
    title="Similarity of the classes, and targeted adversarial training",
    defences=(BASE,),
    max_seeds=2,
    parts={
        **_parts(TRAININGS, *CLEAN_AND_PGD),
        **_VALID,
        **_PUSHED,
        "choosing": Part(title="the runs that select the two classes", defences=(BASE,), evaluations=()),
    },
    arrange={
        "trainings": join_trainings({"": "", **{name: name for name in TRAININGS}}),
        VALIDATION: join_trainings(dict(zip(_VALID, SIMILARITY, strict=True)), confidence.stack_components),
        PUSHED: join_trainings(dict(zip(_PUSHED, TARGETED, strict=True))),
    },
)


def similar_pairs(sums: xr.Dataset) -> xr.DataArray:
    """Return the mean similarity of two classes: of max(0, cosine) of their centred mean logits, over all pairs.

    Centred, less the mean over the classes, they add up to 0, so that the mean of their cosines is nearly the same whatever the
    classes; of those above 0 it is not.
    """
    cosine = confidence.cosines(confidence.mean_logits(sums, centred=True))
    others = cosine.label != cosine.other
    return cosine.clip(min=0).where(others).mean(["label", "other"], skipna=True).where(cosine.notnull().all(["label", "other"]))


def similarity_change(sums: xr.Dataset) -> xr.DataArray:
    """Return how much higher the mean of max(0, cosine) over pairs of classes is after the first training than after the second.

    The cosine is between the mean logits of the two classes, minus the mean over the classes.
    """
    pairs = similar_pairs(sums).isel(attack=0, drop=True)
    return pairs.isel(defence=0, drop=True) - pairs.isel(defence=1, drop=True)


def others_attacked(sums: xr.Dataset) -> xr.DataArray:
    """Return by how many points the recall of the critical class is higher after the first training than after the second.

    NotAtScale where it is below chance after both, so that nothing is left to compare.
    """
    count = sums["count"].isel(attack=0, drop=True)
    rates = critical.recall(count)
    if set(rates.dims) == {"defence"} and float(rates.max()) < 100 / count.sizes["label"]:
        raise NotAtScale("the class is recognised less often than by chance after both training runs")
    return critical.difference(count, critical.recall)


CLAIMS = claims(
    NAME,
    {
        "term-lowers-similarity": {
            "measure": similarity_change,
            "defences": (STRONG, BASE),
            "attacks": ("clean",),
            "values": {"logit": lambda outcomes: outcomes["logit"]},
        },
        "term-narrows": change(metrics.cv, STRONG, BASE),
        "target-gains": change(critical.recall, CRITICAL, BASE),
        "target-gains-as-target": change(critical.recall, CRITICAL, SAFEST),
        # The training of OTHERS leaves digits, where the class is classified below chance.
        "target-gains-by-others": {"measure": others_attacked, "defences": (OTHERS, SAFEST), "attacks": ("pgd-20",)},
    },
)

# How images are attacked towards the critical class, as charts name it.
TOWARDS = "towards the class"


def predictions_as_critical(outcomes: xr.Dataset, pushed: xr.Dataset) -> xr.DataArray:
    """Return how many images of other classes are predicted as the critical one, in percent, along defence, attack and bound.

    Of the seeds that both Datasets have; with Wilson's intervals (95 %). pushed: under the attack towards the class.
    """
    name, both = critical.name_of(outcomes), (outcomes.sel(defence=pushed.defence.values), pushed.assign_coords(attack=[TOWARDS]))
    parts = combine.shared_seeds(dict(enumerate(critical.select_recorded(some, TARGETED) for some in both)))
    others = [pooling.pool(part).drop_vars("critical", errors="ignore").drop_sel(label=name) for part in parts.values()]
    return xr.concat(
        [
            intervals.rate_bounds(some.sel(predicted=name, drop=True).sum("label"), some.sum(["label", "predicted"]))
            for some in others
        ],
        "attack",
    )
