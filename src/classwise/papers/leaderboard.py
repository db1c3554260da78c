"""The leaderboard: a row for each defence, with its classes as a heat map, that a reader sorts, searches and downloads."""

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
import xarray as xr

from classwise.charts.style import label_angle
from classwise.core.markup import class_name, decimal, printed_name
from classwise.papers.overview import OF_CFA, SOURCES
from classwise.papers.wei2023.tables import TABLES
from classwise.stats import aggregate, bootstrap, intervals, metrics
from classwise.stats.combine import concat_named

# The heads in front of those of the classes and behind them; a first click on one of _UP gives the lowest first.
_FIRST = ("rank", "defence", "worst class, %", "robust, %", "clean, %", "gain, points", "ρ")
_LAST = ("training, s",)
_UP = {"rank", "defence", *_LAST}
_RANK = ("rank, low", "rank, high")
_GAIN = ("gain", "gain, low", "gain, high")
_RHO = ("rho", "rho, low", "rho, high")
_BOUNDS = ("value", "low", "high")


def rows(outcomes: xr.Dataset, attack: str, bases: Mapping[str, str], seconds: xr.DataArray, network: str) -> pd.DataFrame:
    """Return a row for each defence, the most robust worst class first; accuracies are in percent, gains in points.

    outcomes: under "clean" and the attack. bases: by each defence the one over which its worst class gains, itself for no gain.
    seconds: of a training. network: of all rows. Rho is that of `rho`, ranks those of `intervals.rank_ranges`.
    """
    names = [str(name) for name in outcomes.defence.values]
    count = bootstrap.sums(outcomes.sel(attack=["clean", attack]), {})["count"]
    clean, robust = count.sel(attack="clean"), count.sel(attack=attack)
    rates = metrics.accuracy(robust)
    against = [bases[name] if bases[name] != name else "" for name in names]
    gains = bootstrap.gains(outcomes.sel(attack=attack), {name: bases[name] for name in names}, metrics.worst)
    gained = xr.DataArray(against, dims="defence") != ""
    rhos = rho(outcomes.sel(attack=attack), {name: bases[name] for name in names})
    ranks = intervals.rank_ranges(bootstrap.bootstrap(outcomes.sel(attack=attack), metrics.worst), "defence")
    lowest = [rates.label.values[row == np.nanmin(row)] for row in rates.transpose("defence", "label").values]
    columns = {
        **{name: ranks.sel(bound=bound) for name, bound in zip(_RANK, ("low", "high"), strict=True)},
        "defence": names,
        "worst class": [class_name(str(some[0])) if len(some) == 1 else f"{len(some)} classes" for some in lowest],
        "worst": rates.min("label"),
        "robust": metrics.overall(robust),
        "clean": metrics.overall(clean),
        **{name: gains.where(gained).sel(bound=bound) for name, bound in zip(_GAIN, _BOUNDS, strict=True)},
        **{name: rhos.where(gained).sel(bound=bound) for name, bound in zip(_RHO, _BOUNDS, strict=True)},
        "base": against,
        **{f"class {label}": rates.sel(label=label) for label in rates.label.values},
        "seconds": seconds.sel(defence=names),
        "network": network,
        "paper": [SOURCES.get(name, "") for name in names],
    }
    return pd.DataFrame(columns).sort_values(["worst", "robust"], ascending=False, ignore_index=True)


def rho(outcomes: xr.Dataset, bases: Mapping[str, str]) -> xr.DataArray:
    """Return low, value and high of the relative gain over the bases of the worst class plus that of all images.

    (Lee et al. 2024.) Each is compared with its base on the images and with the seeds that both have. The interval is that of
    percentiles, as a ratio is skewed. NaN over a base whose worst class is at 0 in 2.5 % of the draws or more.
    """
    return concat_named("defence", {name: (name, base) for name, base in bases.items()}, lambda pair: _rho(outcomes, *pair))


def _rho(outcomes: xr.Dataset, name: str, base: str) -> xr.DataArray:
    outcomes = aggregate.common_images(outcomes.sel(defence=list(dict.fromkeys((name, base)))), "defence")

    def relative(count: xr.DataArray) -> xr.DataArray:
        both = concat_named("of", {"worst": metrics.worst, "all": metrics.overall}, lambda measure: measure(count))
        old = both.sel(defence=base, drop=True)
        return (both.sel(defence=name, drop=True) / old.where(old > 0)).sum("of", skipna=False) - 2

    drawn = xr.concat([relative(part["count"]) for part in bootstrap.bootstrap_sums(outcomes, {}, 2000)], "draw")
    known = drawn.isnull().mean("draw") < 0.025
    # Draws without a number would be infinite; those few lie beyond the upper end.
    filled = drawn.where(known, 0).fillna(1e9)
    low, high = (filled.quantile(end, "draw").drop_vars("quantile") for end in (0.025, 0.975))
    return intervals.interval_bounds(low, relative(bootstrap.sums(outcomes, {})["count"]), high).where(known)


def add_published(table: pd.DataFrame, dataset: str) -> pd.DataFrame:
    """Return ours and theirs, a row for each defence of `rows` and paper that prints it and its base; none but on CIFAR-10.

    Theirs are the main results of Lee et al. 2024 (published.csv; an attack of the family of AutoAttack) and Table 1 of Wei et
    al. 2023 at the best epoch under AutoAttack.
    """
    ours, result = table.set_index("defence"), []
    for row in _published().to_dict("records") if dataset == "cifar10" else []:
        if row["defence"] in ours.index:
            sides = {"ours": ours.loc[row["defence"]], "theirs": row}
            cells = {f"{name}, {who}": f"{one[name]:.1f}" for name in ("worst", "robust") for who, one in sides.items()}
            for who, one in sides.items():
                cells[f"ρ, {who}"] = f"{one['rho']:+.2f} over {printed_name(one['base'])}" if pd.notna(one["rho"]) else "–"
            result.append({"paper": row["paper"], "defence": printed_name(row["defence"]), **cells})
    return pd.DataFrame(result)


def _published() -> pd.DataFrame:
    names = {"AT": "pgd-at", "TRADES": "trades"} | {method: name for name, method in OF_CFA.items()}
    best: pd.DataFrame = TABLES.load("1").sel(checkpoint="best", attack="autoattack")[["overall", "worst"]].to_dataframe()
    wei = best[best.index.isin(names)].rename(columns={"overall": "robust"})
    places: dict[str, Any] = {"defence": wei.index.map(names), "base": [names[method.split(" + ")[0]] for method in wei.index]}
    lee: pd.DataFrame = pd.read_csv(str(resources.files("classwise.papers").joinpath("published.csv")))
    rows = pd.concat([lee, wei.assign(paper="Wei et al. 2023", **places)[list(lee.columns)]])
    bases = rows[rows["defence"] == rows["base"]].drop(columns="defence")
    rows = rows.merge(bases, on=["paper", "base"], suffixes=("", " of base"))
    relative = rows["worst"] / rows["worst of base"] + rows["robust"] / rows["robust of base"] - 2
    return rows.assign(rho=relative)[rows["defence"] != rows["base"]]


def leaderboard(table: pd.DataFrame, name: str) -> str:
    """Return `rows` as a table in HTML with a search box, heads that sort it, and a link to it as a CSV file of that name."""
    classes = [str(column) for column in table if str(column).startswith("class ")]
    heads = "".join(
        f'<th scope="col"{" data-up" * (title in _UP)}{" aria-sort=descending" * (title == "worst class, %")}>'
        f'<button type="button">{escape(title.removeprefix("class "))}</button></th>'
        for title in (*_FIRST, *classes, *_LAST)
    )
    over = f'<td colspan="{len(_FIRST)}"></td><th scope="colgroup" colspan="{len(classes)}">robust accuracy of each class, %</th>'
    turned = " class=turned" * bool(label_angle([name.removeprefix("class ") for name in classes]))
    # At most so many percent of colour: numbers stay legible on a light and on a dark page.
    scale = 60 / max(np.nanmax(table[classes].to_numpy(float)), 1.0)
    body = "".join(_row(row, classes, scale) for row in table.to_dict("records"))
    file = quote(table.to_csv(index=False, float_format="%.6g"))
    style, script = (resources.files("classwise.papers").joinpath(f"leaderboard.{kind}").read_text() for kind in ("css", "js"))
    return (
        f'<style>{style}</style><div class="leaderboard"><p><label>Search <input type="search"></label> <output></output> '
        f'<a href="data:text/csv;charset=utf-8,{file}" download="{escape(name)}.csv">Download as CSV</a></p>'
        f'<table class="dataframe"><thead><tr>{over}<td colspan="{len(_LAST)}"></td></tr><tr{turned}>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div><script>{script}</script>"
    )


def _row(row: Mapping[Any, Any], classes: Sequence[str], scale: float) -> str:
    gain, low, high, seconds = (row[name] for name in (*_GAIN, "seconds"))
    interval = f"{round(gain, 1) + 0.0:+.1f} <small>[{decimal(low)}, {decimal(high)}]</small>"
    relative, *ends = (row[name] for name in _RHO)
    around = f"{round(relative, 2) + 0.0:+.2f} <small>[{', '.join(decimal(end, 2) for end in ends)}]</small>"
    about = " ".join(f"<small>{escape(row[name])}</small>" for name in ("paper", "network"))
    cells = [
        _cell(row[_RANK[0]], " to ".join(dict.fromkeys(str(row[name]) for name in _RANK))),
        f'<th scope="row">{escape(printed_name(row["defence"]))} {about}</th>',
        _cell(row["worst"], f"{row['worst']:.0f} <small>{escape(row['worst class'])}</small>"),
        *(_cell(row[name], decimal(row[name])) for name in ("robust", "clean")),
        _cell(gain, f"{interval} <small>over {escape(printed_name(row['base']))}</small>"),
        _cell(relative, around),
        *(_cell(row[name], f"{row[name]:.0f}", f' style="--share:{scale * row[name]:.0f}"') for name in classes),
        _cell(seconds, f"{seconds:,.0f}"),
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _cell(value: float, text: object, attributes: str = "") -> str:
    return f'<td data-value="{value:.6g}"{attributes}>{text}</td>' if pd.notna(value) else '<td data-value="">–</td>'
