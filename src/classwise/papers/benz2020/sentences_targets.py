"""The findings of the page on similarity and targets (Benz et al. 2020, section 3.3), in sentences with 95 % intervals."""

from collections.abc import Mapping

import xarray as xr

from classwise.core.markup import escaped
from classwise.papers import selection as rule
from classwise.papers.benz2020 import critical, targets
from classwise.papers.benz2020.section_3_3_targets import BASE, CRITICAL, OTHERS, SAFEST, SIMILARITY, STRONG
from classwise.papers.findings import effect, interval, sample
from classwise.stats import metrics


def headline(outcomes: xr.Dataset, attack: str, epochs: Mapping[str, int]) -> str:
    """Return how robust the critical class is as the target of the training, compared with the two controls.

    outcomes: along defence, as the section arranges its trainings; NotRecorded without that towards the class. epochs: by
    training.
    """
    part = critical.compared(outcomes, (BASE, CRITICAL, SAFEST))
    shown, known = escaped(critical.name_of(outcomes)), set(map(str, part.defence.values))
    gains = {name: critical.gain(part, (CRITICAL, name), critical.recall, attack) for name in (BASE, SAFEST) if name in known}
    base, *safest = (interval(bounds, "points") for bounds in gains.values())
    others = interval(critical.gain(part, (CRITICAL, BASE), critical.of_others, attack), "points")
    isolated = f" {_by_others(outcomes, attack)}" if {OTHERS, SAFEST} <= set(map(str, outcomes.defence.values)) else ""
    control = " The same training towards another class, the control, is not recorded."
    if safest:
        than = f"Compared with the same training towards the most robust class, it differs by {safest[0]}."
        control = f" {effect(gains[SAFEST], than)}"
    says = f"Under {attack} and trained towards class {shown}, its robust accuracy differs by {base} from that of {BASE}"
    return (
        f"**{effect(gains[BASE], says)}.**{control}{isolated} The mean of the other classes differs by {others} from that of "
        f"{BASE}.{critical.unequal_epochs(epochs, BASE)} {sample(part)}"
    )


def _by_others(outcomes: xr.Dataset, attack: str) -> str:
    """Return whether the class gains from the attacks on images of the other classes, with its own attacked alike."""
    bounds = critical.gain(outcomes, (OTHERS, SAFEST), critical.recall, attack)
    difference = interval(bounds, "points")
    first, second, chance = critical.recalls(outcomes, (OTHERS, SAFEST), attack)
    if max(first, second) < chance:
        return (
            f"Where its own images are attacked as in that other training, nothing is left to compare: {first:.0f} % of its "
            f"images are classified correctly, against {second:.0f} %: both below chance, {chance:.0f} %. The difference is "
            f"{difference}."
        )
    says = "it gains, too" if float(bounds.sel(bound="low")) > 0 else "it does not gain significantly"
    return f"Where its own images are attacked as in that other training, {says}: the difference is {difference}."


def selection(history: xr.Dataset, dataset: str) -> str:
    """Return which classes are critical and safest by the rule of the page, and whether the page takes them."""
    return critical.selection(history, dataset, {"critical": critical.critical_class(dataset), "safest": rule.safest(dataset)})


def similarity(values: dict[str, xr.DataArray], outcomes: xr.Dataset, attack: str) -> str:
    """Return the accuracies, then the similarity, with the strongest term and without; values: of `targets.similarity`."""
    part = critical.compared(outcomes, SIMILARITY)
    known = [name for name in (BASE, STRONG) if name in part.defence.values]
    gains = [critical.gain(part, (STRONG, BASE), metrics.overall, name) for name in ("clean", attack)]
    clean, robust = (interval(bounds, "points", 1) for bounds in gains)
    lines = [
        f"Of {title}: {' and '.join(f'{_cosine(bounds.sel(defence=name))} ({name})' for name in known)}."
        for title, bounds in values.items()
    ]
    says = f"Under {attack} and with the term of weight 1, accuracy over all images differs by {robust}"
    return (
        f"**{effect(gains[1], says)} from that of {BASE}.** Without an attack it differs by {clean}. "
        f"Mean over all pairs of max(0, cosine), on validation images: {' '.join(lines)}"
    )


def _cosine(bounds: xr.DataArray) -> str:
    return interval(bounds.isel(attack=0) if "attack" in bounds.dims else bounds, digits=2)


def pushed(shares: xr.DataArray) -> str:
    """Return how many images of other classes an attacker moves into the critical class; shares: of `targets.named_critical`."""
    each = [
        f"{interval(shares.sel(attack=targets.TOWARDS, defence=name), '%')} ({name})" for name in map(str, shares.defence.values)
    ]
    return f"**Attacked towards the critical class, images of other classes are predicted as it:** {'; '.join(each)}."
