"""The home page: the classes of our networks compared with Table 1 of Tian et al. 2021."""

import xarray as xr

from classwise.charts.descriptions import capital
from classwise.core.markup import plural_class, printed_name
from classwise.papers import registry, say
from classwise.papers.tian2021.attacks_and_defences import correlation_bounds
from classwise.stats import bootstrap, metrics
from classwise.stats.combine import concat_named

# The section with the defences of the table, and the attack of the chart.
SECTION, ATTACK = "tian2021/4-3-attacks-and-defences", "pgd-20"
# The networks that readers attack; the form begins with the second one.
ATTACKED = ("standard", "pgd-at", "trades")
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

    outcomes: under one attack. "correlation": of ranks, over the classes; "level": how many points ours is higher, of all images.
    """
    ours = outcomes.sel(defence=theirs.defence.values)
    level = bootstrap.bootstrap(ours, lambda count: metrics.overall(count) - theirs.mean("label"))
    return concat_named("quantity", {"correlation": correlation_bounds(ours, theirs), "level": level})


def compared_defences(rates: xr.DataArray | xr.Dataset, theirs: xr.DataArray | None) -> list[str]:
    """Return the defences that the page compares: those that the paper prints, too; else all, standard training last."""
    names = [str(name) for name in (rates if theirs is None else theirs).defence.values]
    return sorted(names, key=lambda name: name == "standard")


FINDING = (
    "**Under attack, a network trained by {name} on {where} still recognises {most:.0f} % of {best}, but only {least:.0f} % of "
    "{worst}.**"
)
TITLE = "{name}: {best} fall from {most_clean:.0f} to {most:.0f} %, {worst} from {least_clean:.0f} to {least:.0f} %"


def extremes(rates: xr.DataArray) -> dict[str, str | float]:
    """Return the names and accuracies of the best and the worst class of one defence, for FINDING and TITLE.

    rates: along label and attack, of which "clean" and ATTACK are used; the latter says which class is best.
    """
    robust = rates.sel(attack=ATTACK)
    values: dict[str, str | float] = {"name": str(rates.defence.item())}
    for end, number, label in (("best", "most", robust.idxmax("label")), ("worst", "least", robust.idxmin("label"))):
        both = rates.sel(label=label.item())
        values |= {end: plural_class(str(label.item())), number: both.sel(attack=ATTACK).item()}
        values[f"{number}_clean"] = both.sel(attack="clean").item()
    return values


def titles(rates: xr.DataArray, theirs: xr.DataArray | None) -> dict[str, str]:
    """Return by name the TITLE of each compared defence."""
    names = compared_defences(rates, theirs)
    return {name: capital(say.text(TITLE, **extremes(rates.sel(defence=name)))) for name in names}


def marks(rates: xr.DataArray, theirs: xr.DataArray | None) -> dict[str, xr.DataArray]:
    """Return by words of a legend the accuracies of each class under ATTACK, without an attack, and those that a paper prints."""
    ours = {"under attack": rates.sel(attack=ATTACK, drop=True), "without an attack": rates.sel(attack="clean", drop=True)}
    return ours if theirs is None else ours | {"under attack in Tian et al. 2021": theirs}


def same_classes(alike: xr.DataArray | None) -> str:
    """Return whether the classes are weak that are weak in the paper, of its first defence; "" without numbers of the paper."""
    if alike is None:
        return ""
    r, name = alike.sel(quantity="correlation").isel(defence=0), alike.defence.values[0]
    phrases = "The same classes are weak as in the paper", "Other classes are weak than in the paper"
    same = say.choose_by_sign(r, *phrases, "It is unclear whether the same classes are weak as in the paper", than=_ALIKE)
    return say.text("{same:s}: for {name}, the rank correlation over the ten classes is {r:,2}.", same=same, name=name, r=r)


def overall(outcomes: xr.Dataset, alike: xr.DataArray | None) -> dict[str, xr.DataArray]:
    """Return by column of a table the accuracy of each compared defence under no attack and under ATTACK, and `agreement`."""
    names = compared_defences(outcomes, alike)
    both = bootstrap.bootstrap(outcomes.sel(defence=names, attack=["clean", ATTACK]), metrics.overall)
    columns = {"clean": "clean, %", ATTACK: f"{printed_name(ATTACK)}, %"}
    table = {title: both.sel(attack=attack, drop=True) for attack, title in columns.items()}
    if alike is not None:
        table["rank correlation"] = alike.sel(quantity="correlation", drop=True)
        table["difference, points"] = alike.sel(quantity="level", drop=True)
    return table
