"""Benz et al. 2020, sections 3.1 and 3.2, on networks that others trained and published, with some of ours beside them.

Outcomes are along network and attack: clean images, then the attack at growing radii.
"""

from functools import partial
from itertools import product

import pandas as pd
import xarray as xr

from classwise.core.markup import decimal
from classwise.papers.benz2020 import networks_and_optimisers, same_classes
from classwise.papers.say import choose_by_sign, interval
from classwise.stats import aggregate, agreement, bootstrap, metrics
from classwise.stats.significance import p_text

WORST, BEST = ["cat", "bird", "deer"], ["automobile", "ship"]
# The repository of our networks; by how many points a measured accuracy may differ from the published one, exclusively.
OURS, CLOSE = "this study", 0.1
_CLAIMS = {claim.name: claim for claim in (*networks_and_optimisers.CLAIMS, *same_classes.CLAIMS)}


def add_measured(table: pd.DataFrame, outcomes: xr.Dataset) -> pd.DataFrame:
    """Return the table of networks with their clean accuracy as `measured`, in percent, and whether each is `shown`.

    Those are shown that were attacked at all radii and have the published accuracy, or for which none is published.
    """
    clean = metrics.overall(aggregate.counts(outcomes.sel(attack="clean"))).to_series().reindex(table.index)
    complete = (outcomes.truth >= 0).any("image").all("attack").to_series().reindex(table.index, fill_value=False)
    return table.assign(measured=clean, shown=complete & ~((clean - table["published"]).abs().round(6) >= CLOSE))


def trainings(table: pd.DataFrame, *, ours: bool = True) -> dict[str, list[str]]:
    """Return the networks that are shown by their training, "standard" and "robust"; ours: also those of this study."""
    shown = table[table["shown"] & (ours | (table["repository"] != OURS))]
    return {kind: list(shown.index[shown["training"] == kind]) for kind in ("standard", "robust")}


def sorted_counts(outcomes: xr.Dataset, table: pd.DataFrame) -> xr.DataArray:
    """Return the counts of the networks that are shown: classes, and networks of each training, by their mean accuracy."""
    count = aggregate.counts(outcomes)
    rates = metrics.accuracy(count).mean("attack").to_series().unstack("network")
    names = [name for some in trainings(table).values() for name in rates[some].mean().sort_values(ascending=False).index]
    return count.sel(network=names, label=rates[names].T.mean().sort_values(ascending=False).index)


def judged(outcomes: xr.Dataset, table: pd.DataFrame) -> xr.Dataset:
    """Return outcomes of the networks of others, along network: of standard ones clean, else at the largest radius.

    Standard ones withstand it on almost no image.
    """
    cases = {"standard": 0, "robust": -1}
    rows = [outcomes.sel(network=names).isel(attack=cases[kind]) for kind, names in trainings(table, ours=False).items()]
    return xr.concat([row.drop_vars("attack") for row in rows], "network")


def answer(outcomes: xr.Dataset, table: pd.DataFrame) -> str:
    """Return in bold in how many networks of others the worst and the best class are the expected ones, and how sure that is."""
    count = aggregate.counts(judged(outcomes, table))
    rates, share = metrics.accuracy(count), bootstrap.worst_share(count).sel(label=WORST).sum("label")
    worst = rates.sel(label=WORST).min("label") == rates.min("label")
    best = rates.sel(label=BEST).max("label") == rates.max("label")
    both, first, second = (int(some.sum()) for some in (worst & best, worst, best))
    text = f"In {both} of {len(worst)} networks of others, cat, bird or deer is the worst class, and automobile or ship the best."
    text = f"**{text}** Standard networks are judged on clean images, robust ones under attack."
    text += f" The worst class is as expected in {first}, the best in {second}." * bool(first + second > 2 * both)
    sure = f"{float(share.min()):.0f} % ({share.idxmin('network').item()})"
    return f"{text} In bootstrap draws, the worst class is one of the three in at least {sure}."


def orders(outcomes: xr.Dataset, table: pd.DataFrame) -> pd.DataFrame:
    """Return Kendall's W of the orders of the classes, of standard and of robust networks, of others alone and with ours.

    A line for each attack that leaves each of several networks more accurate than chance.
    """
    rows: dict[tuple[str, str], dict[str, object]] = {}
    for kind, attack, ours in product(("standard", "robust"), outcomes.attack.values, (False, True)):
        count = aggregate.counts(outcomes.sel(attack=attack, network=trainings(table, ours=ours)[kind]))
        if count.sizes["network"] > 1 and bool((metrics.overall(count) > 100 / count.sizes["label"]).all()):
            (value, p), whose = agreement.kendall_w(metrics.accuracy(count)), "with ours" if ours else "of others"
            cells = {f"networks {whose}": count.sizes["network"], f"W {whose}": decimal(value, 2), f"p {whose}": p_text(p)}
            rows.setdefault((kind, attack), {}).update(cells)
    return pd.DataFrame(rows).T.rename_axis(["kind", "images"])


def tested_claims(outcomes: xr.Dataset, table: pd.DataFrame) -> pd.DataFrame:
    """Return the claims that networks of others can test, with their measures on these, 95 % intervals, and what follows."""
    chosen, (standard, robust) = judged(outcomes, table), trainings(table, ours=False).values()
    count = aggregate.counts(chosen.sel(network=robust))
    measured = {"discrepancy-in-each-network": bootstrap.bootstrap(count, lambda some: metrics.cv_unbiased(some).min("network"))}
    for name, one in {"other-networks": robust, "standard-or-adversarial": standard}.items():
        measured[name] = agreement.interval(chosen, partial(_mean_agreement, one=one, other=robust), "network")
    rows = {}
    for claim, bounds in ((_CLAIMS[name], bounds) for name, bounds in measured.items()):
        unit, digits = (claim.unit, 0) if "squared" in claim.unit else ("", 2)
        cells = {"must be above": f"{claim.low:g}", "measured": interval(bounds, unit, digits)}
        rows[f"{claim.statement} ({claim.where})"] = cells | {
            "verdict": choose_by_sign(bounds, "holds", "fails", "open", claim.low)
        }
    return pd.DataFrame(rows).T.rename_axis("claim")


def _mean_agreement(profiles: xr.DataArray, one: list[str], other: list[str]) -> xr.DataArray:
    """Return the mean covariance of networks of two groups, over the root of their mean variances: each counts by its spread."""
    shared, both = agreement.covariance(profiles, "network"), ["network", "other"]
    own, pairs = shared.where(shared.network == shared.other), shared.where(shared.network != shared.other)
    spread = own.sel(network=one).mean(both) * own.sel(network=other).mean(both)
    return (pairs.sel(network=one, other=other).mean(both) / spread.where(spread > 0) ** 0.5).clip(-1, 1)
