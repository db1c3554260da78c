"""The findings of the page on similarity and targets (Benz et al. 2020, section 3.3), in sentences with 95 % intervals."""

import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.core.markup import escaped
from classwise.papers.benz2020 import critical, targets
from classwise.papers.benz2020.section_3_3_targets import BASE, CRITICAL, SAFEST, SIMILARITY, STRONG, TARGETED
from classwise.papers.findings import interval, sample
from classwise.stats import metrics


def headline(outcomes: xr.Dataset, attack: str) -> str:
    """Return how robust the critical class is as the target of the training, compared with the two controls.

    outcomes: along defence, as the section arranges its trainings.
    """
    part = critical.compared(outcomes, [name for name in (BASE, CRITICAL, SAFEST) if name in outcomes.defence.values])
    shown, known = escaped(critical.name_of(outcomes)), set(map(str, part.defence.values))
    if CRITICAL not in known:
        rate = interval(critical.measured(part.sel(attack=[attack])).popitem()[1].isel(defence=0, attack=0), "%")
        return f"**No training towards class {shown} is recorded here.** Under {attack}, {BASE} classifies {rate} of the other classes correctly. {sample(part)}"
    over_base = interval(critical.gain(part, (CRITICAL, BASE), critical.recall, attack), "points")
    first = f"**Under {attack}, training towards class {shown} changes the robust accuracy of this class by {over_base}, compared with {BASE}"
    control = "; the same training towards another class is not recorded.**"
    if SAFEST in known:
        control = f", and by {interval(critical.gain(part, (CRITICAL, SAFEST), critical.recall, attack), 'points')} compared with the same training towards the most robust class.**"
    others = interval(critical.gain(part, (CRITICAL, BASE), critical.of_others, attack), "points")
    return f"{first}{control} The other classes change by {others}, compared with {BASE}. {sample(part)}"
