"""Entropy 2022, section 3.2.2, Tables 2 to 4: maximum entropy, the trade-off and the worst class.

Claims take the Dataset "networks", along defence with the names of `networks.NETWORKS`, or "best", with the two of BEST.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import xarray as xr

from classwise.core.datasets import base_dataset
from classwise.papers.entropy2022 import networks
from classwise.papers.entropy2022.gains import Pair, printed_gain, published_accuracies
from classwise.papers.entropy2022.networks import AUTOATTACK, NETWORKS, PLAIN
from classwise.papers.sections import Derived, Section
from classwise.papers.terms import Term, claims, least, value
from classwise.stats import metrics

NAME = "entropy2022/3-2-2b-trade-off-and-fairness"
_OTHERS = tuple(name for name in NETWORKS if name not in PLAIN)
# TRADES and ME-TRADES with the lambda that `select_most_robust` names on the validation images. Runs on CIFAR-10 take those that
# the paper finds best.
BEST = ("trades, best λ", "me-trades, best λ")
_SELECTED = {"digits": ("trades (λ=15)", "me-trades (β=1, λ=15)"), "cifar10": ("trades (λ=6)", "me-trades (β=1, λ=27)")}


def selection_of(dataset: str) -> tuple[str, str]:
    """Return which networks BEST stands for on a dataset."""
    return _SELECTED.get(base_dataset(dataset), _SELECTED["cifar10"])


def select_most_robust(history: xr.Dataset) -> tuple[str, ...]:
    """Return the networks of TRADES and of ME-TRADES that are the most robust ones on the validation images.

    history: of `networks.name_networks`; under the attack that measures the training, after the last epoch.
    """
    # The inner attacks of the training have no counts of these images.
    count = history["count"].isel(epoch=-1).sel(split="valid").drop_sel(attack="clean").sum(["attack", "seed"])
    best = metrics.overall(count).to_series().groupby(lambda name: NETWORKS[name][0], sort=False).idxmax()
    return tuple(str(best[name]) for name in best.index if name in ("trades", "me-trades"))


def _best(*parts: xr.Dataset | None) -> xr.Dataset:
    """Return the two networks with the selected lambda under the names of BEST, or those of them that are recorded."""
    data = networks.name_networks(_OTHERS, *parts)  # type: ignore[arg-type]
    names = dict(zip(selection_of(data.attrs["dataset"]), BEST, strict=True))
    kept = data.sel(defence=[name for name in names if name in data.defence.values])
    return kept.assign_coords(defence=[names[name] for name in kept.defence.values])


SECTION = Section(
    title="Maximum entropy: trade-off and fairness",
    defences=("pgd-at", "trades"),
    evaluations=networks.EVALUATIONS,
    max_seeds=1,
    parts={name: networks.part(name) for name in _OTHERS},
    arrange={
        "networks": Derived(partial(networks.name_networks, _OTHERS), ("",), _OTHERS),
        "best": Derived(_best, ("",), _OTHERS),
    },
)

_AT, _SMOOTHED, _ME_AT = "pgd-at", "label-smoothing", "me-at (β=0.5)"
_TRADES, _TRADES_15 = "trades (λ=6)", "trades (λ=15)"
_ME_15, _ME_27 = "me-trades (β=1, λ=15)", "me-trades (β=1, λ=27)"
_BOTH = ("clean", AUTOATTACK)
_MEASURES = (metrics.overall, metrics.worst)

# What the page compares: first the network that should be better.
EQUAL = "ME-TRADES 15 over TRADES 15"
COMPARISONS: Mapping[str, Pair] = {
    EQUAL: (_ME_15, _TRADES_15),
    "ME-TRADES 15 over TRADES 6": (_ME_15, _TRADES),
    "ME-TRADES 27 over TRADES 6": (_ME_27, _TRADES),
    "TRADES with LS over TRADES 6": ("trades-smoothed (λ=6)", _TRADES),
    "ME-AT 0.5 over PGD-AT": (_ME_AT, _AT),
    "ME-AT 1 over PGD-AT": ("me-at (β=1)", _AT),
    "PGD-AT with LS over PGD-AT": (_SMOOTHED, _AT),
}


def _least_gain(pairs: Sequence[Pair], attacks: Sequence[str], *measures: metrics.Metric) -> Term:
    parts = [value(one, better, at) - value(one, worse, at) for one in measures for better, worse in pairs for at in attacks]
    return least(*parts) if len(parts) > 1 else parts[0]


def _gain(pairs: Sequence[Pair], attacks: Sequence[str], *measures: metrics.Metric) -> dict[str, Any]:
    chosen = measures or (metrics.overall,)
    names = [attack.partition("|")[0] for attack in attacks], [measure.__name__ for measure in chosen]
    return {"measure": _least_gain(pairs, attacks, *chosen), "reported": partial(printed_gain, pairs, *names)}


_EITHER = [_least_gain([(name, _TRADES)], _BOTH, *_MEASURES) for name in (_ME_15, _ME_27)]


def gains_of_either(sums: xr.Dataset) -> xr.DataArray:
    """Return the gains of ME-TRADES 15 and 27 over TRADES, overall and in the worst class, under each attack."""
    return xr.concat([term.each(sums) for term in _EITHER if term.each], "network")


def _either_in_print() -> float:
    names = [measure.__name__ for measure in _MEASURES]
    return max(printed_gain([(one, _TRADES)], ("clean", "autoattack"), names) for one in (_ME_15, _ME_27))


def _fall(network: str) -> Term:
    return value(metrics.overall, network, "pgd-20") - value(metrics.overall, network, AUTOATTACK)


def _wider_in_print() -> float:
    rates = published_accuracies().overall
    lost = rates.sel(attack="pgd-20") - rates.sel(attack="autoattack")
    return float(lost.sel(defence=_ME_AT) - lost.sel(defence=_AT))


CLAIMS = claims(
    NAME,
    {
        "trades-loses-past-six": _gain([(_TRADES_15, _TRADES)], [AUTOATTACK]),
        "me-trades-gains-up-to-27": _gain([(_ME_27, _ME_15)], [AUTOATTACK]),
        "larger-best-robustness": {
            **_gain([BEST[::-1]], [AUTOATTACK]),
            "reported": partial(printed_gain, [selection_of("cifar10")[::-1]], ["autoattack"]),
        },
        "equal-lambda": _gain([(_ME_15, _TRADES_15)], _BOTH),
        "me-at-both": _gain([(_ME_AT, _AT)], _BOTH),
        "worst-class-clean": _gain([(_SMOOTHED, _AT), (_ME_AT, _AT)], ["clean"], metrics.worst),
        "worst-class-robust": _gain([(_SMOOTHED, _AT), (_ME_AT, _AT)], [AUTOATTACK], metrics.worst),
        "trades-more-robust": _gain([(_TRADES, _AT)], [AUTOATTACK]),
        "trades-fairer": _gain([(_TRADES, _AT)], _BOTH, metrics.worst),
        "me-trades-worst-clean": _gain([(_ME_15, _TRADES)], ["clean"], metrics.worst),
        "me-trades-worst-robust": _gain([(_ME_27, _TRADES)], [AUTOATTACK], metrics.worst),
        "me-at-all-four": _gain([(_ME_AT, _AT)], _BOTH, *_MEASURES),
        "me-trades-all-four": {
            "measure": least(gains_of_either, outer="network"),
            "defences": (_ME_15, _ME_27, _TRADES),
            "attacks": _BOTH,
            "reported": _either_in_print,
        },
        "wider-gap-of-attacks": {"measure": _fall(_ME_AT) - _fall(_AT), "reported": _wider_in_print},
    },
)
