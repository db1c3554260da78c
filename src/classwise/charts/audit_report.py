"""What an audit says in words and tables: every number in a sentence is computed.

`count` has the dimensions attack ("clean", the attack, ...), label and predicted: those of one network.
"""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr

from classwise.charts import style
from classwise.core.audit import Audit, critical
from classwise.stats import aggregate, bootstrap, intervals, metrics, significance

# A network is said to be near chance up to this share of the way from chance to no mistake.
_NEAR = 0.1
# And to count its classes in another order, where that would make up for so many points.
_REORDERED = 5.0
# The attacks after which little is left to find.
_THOROUGH = ("strong", "autoattack")
# What a radius means to somebody who has never met one.
_SAID = {
    "linf": "L∞: no pixel is changed by more than that, where black is 0 and white is 1",
    "l2": "L2: the square root of the sum of all squared changes of pixels, where black is 0 and white is 1",
}
# So many classes fit a chart.
MOST = 20


def of(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the counts of an audit's only network."""
    return aggregate.counts(outcomes).isel(network=0, drop=True)


def notable(count: xr.DataArray, marked: Sequence[str] | None = None, most: int = MOST) -> list[str]:
    """Return the classes to look at first: those that are marked critical, then the others, the least robust ones first.

    `count` is under one attack; at most so many are returned, and a class that does not exist is a UserError.
    """
    names = [str(name) for name in count.label.values]
    first = critical(marked or [], names)
    rates = metrics.accuracy(count).fillna(101.0).values
    rest = [names[place] for place in np.argsort(rates, kind="stable") if names[place] not in first]
    return [*first, *rest][: max(most, len(first))]


def shown(count: xr.DataArray, marked: Sequence[str] | None = None, most: int = MOST) -> list[str]:
    """Return the notable classes in the order of the dataset."""
    chosen = set(notable(count, marked, most))
    return [str(name) for name in count.label.values if name in chosen]


def _rate(right: int, total: int) -> str:
    low, high = intervals.proportion(right, total)
    return f"{100 * right / max(total, 1):.0f} % (95 %: {low:.0f} to {high:.0f})"


def _overall(count: xr.DataArray) -> tuple[int, int]:
    return int(metrics.correct(count).sum()), int(count.sum())


def _of_class(count: xr.DataArray, label: str) -> str:
    own = count.sel(label=label)
    said = _rate(int(own.sel(predicted=label)), int(own.sum()))
    mixed = own.where(own.predicted != label, 0)
    if int(mixed.sum()) == 0:
        return said
    most = mixed.idxmax("predicted").item()
    return f"{said}, most often taken for {most} ({100 * int(mixed.max()) / int(own.sum()):.0f} %)"


def summary(audit: Audit, count: xr.DataArray, marked: Sequence[str] | None = None) -> str:
    """Return the findings of an audit as a list in Markdown: overall, the critical classes, the worst ones, the spread."""
    clean, robust = count.sel(attack="clean"), count.sel(attack=audit.attack)
    total = int(robust.sum())
    where = f"{audit.attack} at radius {audit.eps} ({_SAID[audit.norm]})"
    lines = [
        f"**{audit.network}** answers **{_rate(*_overall(clean))}** of {total:,} images of {audit.title} right, and "
        f"**{_rate(*_overall(robust))}** under attack: {where}."
    ]
    chosen = critical(marked or [], [str(name) for name in count.label.values])
    lines += [f"**Critical: {label}.** Withstands the attack on {_of_class(robust, label)}." for label in chosen]
    lines.append(_weakest(robust))
    low, value, high = bootstrap.bootstrap(robust, metrics.mcd, draws=draws(robust)).values
    best = metrics.accuracy(robust).idxmax("label").item()
    sure, before = f"(95 %: {low:.0f} to {high:.0f})", f"without an attack {float(metrics.mcd(clean)):.0f}"
    between = f"Between the best class ({best}) and the worst" if value > 0 else "Between any two classes"
    lines.append(f"**Spread.** {between} lie {value:.0f} points under attack {sure}; {before}.")
    beware = warnings(clean)
    if audit.attack not in _THOROUGH:
        beware.append(f"{audit.attack} is a quick look: `--attack strong` may break more images than it does.")
    return "\n".join(f"- {line}" for line in lines + [f"**Beware.** {one}" for one in beware])


def _weakest(robust: xr.DataArray) -> str:
    """Return which classes withstand an attack least: at most three and half of them, and none that does as well as the best."""
    rates = metrics.accuracy(robust)
    names = [label for label in notable(robust, most=3) if float(rates.sel(label=label)) < float(rates.max())]
    if not names:
        fewest = metrics.images(robust).idxmin("label").item()
        own = robust.sel(label=fewest)
        rate = _rate(int(own.sel(predicted=fewest)), int(own.sum()))
        return f"**Weakest classes.** None is weaker than the others: each withstands the attack on {rate}."
    said = "; ".join(f"**{label}** {_of_class(robust, label)}" for label in names[: max(robust.sizes["label"] // 2, 1)])
    return f"**Weakest classes.** {said}."


def draws(count: xr.DataArray) -> int:
    """Return how often a bootstrap draws: the more classes, the fewer, since each draw is a whole matrix."""
    return int(min(2000, max(200, 50_000_000 // count.sizes["label"] ** 2)))


def sample(audit: Audit, count: xr.DataArray) -> str:
    """Return how sure a class's accuracy can be on so many images."""
    sizes = metrics.images(count.sel(attack="clean"))
    least, most = int(sizes.min()), int(sizes.max())
    how = f"{least}" if least == most else f"{least} to {most}"
    half = 100 * 1.96 * np.sqrt(0.25 / max(least, 1))
    drawn = "a sample, evenly drawn" if audit.per_class is not None else "all there are"
    return (
        f"It was asked about {how} images of each class ({drawn}, seed {audit.seed}): an accuracy of 50 % measured on {least} "
        f"images is known to about ± {half:.0f} points, and the intervals on this page say so: each holds the figure of "
        "endlessly many such images 95 times in 100."
    )


def warnings(clean: xr.DataArray) -> list[str]:
    """Return what a look at the clean answers speaks against: a network near chance, classes in another order."""
    right, total = _overall(clean)
    chance, found = 1 / clean.sizes["label"], []
    rate = right / max(total, 1)
    moved = metrics.best_relabelling(clean)
    if moved - 100 * rate > _REORDERED and moved > 50:
        found.append(
            f"With its answers in another order it would be right on {moved:.0f} % of the clean images, not {100 * rate:.0f} %: "
            "its classes are probably numbered in another order than those of the dataset."
        )
    elif rate < chance + _NEAR * (1 - chance):
        found.append(
            f"It is right on {100 * rate:.0f} % of the clean images, and {100 * chance:.0f} % would be chance: probably another "
            "normalisation is expected (`--normalise`), or another order of the classes."
        )
    return found


def table(audit: Audit, count: xr.DataArray, marked: Sequence[str] | None = None) -> pd.DataFrame:
    """Return a row for each class, critical and weak ones first: its accuracies with intervals, and what it is taken for."""
    clean, robust = count.sel(attack="clean"), count.sel(attack=audit.attack)
    first, rows = list(marked or []), []
    for label in notable(robust, marked, count.sizes["label"]):
        own = robust.sel(label=label)
        mixed = own.where(own.predicted != label, 0).to_series().sort_values(ascending=False, kind="stable")
        taken = [f"{name} {100 * hits / int(own.sum()):.0f} %" for name, hits in mixed.head(3).items() if hits > 0]
        rates = [_interval(one.sel(label=label), label) for one in (clean, robust)]
        rows.append((label + (" (critical)" if label in first else ""), int(own.sum()), *rates, ", ".join(taken)))
    columns = ["class", "images", "clean, % [95 %]", "attacked, % [95 %]", "taken for"]
    return pd.DataFrame(rows, columns=columns).set_index("class")


def _interval(own: xr.DataArray, label: str) -> str:
    right, total = int(own.sel(predicted=label)), int(own.sum())
    low, high = intervals.proportion(right, total)
    return f"{100 * right / max(total, 1):.1f} [{low:.1f}, {high:.1f}]"


def likeness(cosine: xr.DataArray, chosen: Sequence[str]) -> Any:
    """Return the cosines between the mean features of some classes as a shaded matrix, the diagonal left blank."""
    part = cosine.sel(label=list(chosen), other=list(chosen))
    table = style.frame(part.where(part.label != part.other), "cosine")
    side = 24 * len(chosen)
    across = alt.Axis(ticks=False, domain=False, labelAngle=style.angle(chosen))
    axis = alt.Axis(ticks=False, domain=False)
    base = alt.Chart(table).encode(
        x=alt.X("other:N", sort=list(chosen), title="class", axis=across),
        y=alt.Y("label:N", sort=list(chosen), title="class", axis=axis),
        tooltip=["label:N", "other:N", alt.Tooltip("cosine:Q", format=".2f")],
    )
    bottom, top = float(table["cosine"].min()), float(table["cosine"].max())
    shade = alt.Scale(scheme="blues", domain=[bottom, max(top, bottom + 1e-6)])
    cells = base.mark_rect(stroke="#8888", strokeWidth=0.5).encode(color=alt.Color("cosine:Q", scale=shade))
    ink = alt.condition(f"datum.cosine > {bottom + 0.6 * (top - bottom)}", alt.value("white"), alt.value("#222"))
    text = base.mark_text(fontSize=8).encode(text=alt.Text("cosine:Q", format=".2f"), color=ink)
    return alt.layer(cells, text).properties(width=side, height=side)


def closest(cosine: xr.DataArray, robust: xr.DataArray, layer: str) -> str:
    """Return in words which classes lie closest together, and whether such classes are mistaken for one another."""
    names = [str(name) for name in cosine.label.values]
    one, other = np.triu_indices(len(names), 1)
    near = cosine.transpose("label", "other").values[one, other]
    first = [(names[one[place]], names[other[place]], near[place]) for place in np.argsort(-near)[:3]]
    said = "; ".join(f"{left} and {right} ({value:.2f})" for left, right, value in first)
    rank, p = significance.mantel_test(cosine, robust, draws(robust))
    linked = (
        ""
        if np.isnan(rank)
        else f" Lying close and being mistaken go together by a rank correlation of {rank:.2f} ({_chance(p)})."
    )
    from_where = "" if layer == "penultimate" else " The network shows no penultimate layer: its logits were compared."
    return f"**Closest together:** {said}.{linked}{from_where}"


def _chance(p: float) -> str:
    return "p < .001" if p < 0.001 else f"p = {p:.3f}"


def gap(audit: Audit, robust: xr.DataArray, cheap: xr.DataArray, attack: str) -> str:
    """Return how far the curve lies above the audit's own attack, at the audit's radius."""
    left = [float(metrics.overall(one)) for one in (cheap, robust)]
    return (
        f"At {audit.eps} the curve's attack ({attack}) leaves {left[0]:.1f} %, {audit.attack} {left[1]:.1f} %: there it lies "
        f"{left[0] - left[1]:+.1f} points off. Each of its points is an upper bound."
    )


def sanity_table(audit: Audit, outcomes: xr.Dataset) -> pd.DataFrame:
    """Return a row for each attack of an audit's network: what it broke, and how much of that no other attack did."""
    one = outcomes.isel(network=0)
    named = [str(name) for name in one.attack.values if name != "clean"]
    rows = []
    for name in named:
        own = one.sel(attack=name)
        others = one.flipped.sel(attack=["clean", *(other for other in named if other != name)]).any("attack")
        alone = float((own.flipped & ~others).mean())
        rows.append((name, f"{float(own.flipped.mean()):.1%}", f"{alone:.1%}", f"{float(own.distance.max()):.4g}"))
    columns = ["attack", "images misclassified", "by this attack alone", "farthest image"]
    return pd.DataFrame(rows, columns=columns).set_index("attack")


def of_classes(examples: xr.Dataset, labels: Sequence[str]) -> xr.Dataset:
    """Return the examples of some classes."""
    names = [str(name) for name in examples.predicted.values]
    return examples.isel(image=np.isin(examples.truth.values, [names.index(label) for label in labels]))
