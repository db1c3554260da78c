"""The home page: the classes of our networks compared with Table 1 of Tian et al. 2021."""

import xarray as xr

from classwise.core.markup import printed
from classwise.papers import registry, say
from classwise.stats import bootstrap, metrics, pooling
from classwise.stats.combine import along

# The section with the defences of the table, and the attack of the chart.
SECTION, ATTACK = "tian2021/4-3-attacks-and-defences", "pgd-20"
# Above this correlation over the classes the same classes are weak.
_ALIKE = 0.5


def printed_rates(rates: xr.DataArray) -> xr.DataArray | None:
    """Return the robust accuracies that the paper prints of the defences and classes of `rates`; None without any."""
    printed = registry.tables_of("tian2021").load(1)["accuracy"].sel(attack=ATTACK, drop=True)
    if not set(rates.label.values.tolist()) <= set(printed.label.values.tolist()):
        return None
    shared = [name for name in printed.defence.values if name in rates.defence]
    return printed.sel(defence=shared, label=rates.label.values) if shared else None


def agreement(outcomes: xr.Dataset, theirs: xr.DataArray) -> xr.DataArray:
    """Return how alike robust accuracies of classes are to those of a paper, along quantity, defence and bound.

    outcomes: under one attack. "correlation": over the classes; "level": of all images, by how many points ours is higher.
    """
    ours = outcomes.sel(defence=theirs.defence.values)

    def correlation(count: xr.DataArray) -> xr.DataArray:
        return xr.corr(metrics.accuracy(count), theirs, "label")

    def level(count: xr.DataArray) -> xr.DataArray:
        return metrics.overall(count) - theirs.mean("label")

    return along("quantity", {one.__name__: bootstrap.bootstrap(ours, one) for one in (correlation, level)})


def titles(outcomes: xr.Dataset, alike: xr.DataArray | None) -> dict[str, str]:
    """Return the title of the chart of each defence; alike: `agreement`, None without numbers of the paper.

    outcomes: under no attack and under ATTACK.
    """
    rates = metrics.overall(pooling.pooled(outcomes))
    phrases = (
        "The same classes are weak as in the paper",
        "Other classes are weak than in the paper",
        "It is unclear whether the same classes are weak",
    )
    result = {}
    names = [str(name) for name in (outcomes if alike is None else alike).defence.values]
    for name in sorted(names, key=lambda name: name == "standard"):
        clean, robust = (float(rates.sel(defence=name, attack=attack)) for attack in ("clean", ATTACK))
        title = ""
        if alike is not None:
            r, level = (alike.sel(quantity=one, defence=name, drop=True) for one in ("correlation", "level"))
            words = "{same:s}: their accuracies correlate by {r:,2}. Overall, ours less theirs is {level:points}. "
            title = say.text(words, same=say.by_sign(r, *phrases, than=_ALIKE), r=r, level=level)
        result[name] = f"{title}{printed(name)}: {clean:.0f} % correct without an attack, {robust:.0f} % under {printed(ATTACK)}."
    return result
