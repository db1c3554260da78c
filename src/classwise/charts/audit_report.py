"""The findings of an audit in sentences and tables: every number in a sentence is computed.

`count` has the dimensions attack ("clean", the attack, ...), label and predicted: those of one network.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from classwise.charts import tables
from classwise.charts.descriptions import describe, extent
from classwise.charts.primitives import Cells, heatmap
from classwise.charts.style import Category, frame, names_of, tooltip
from classwise.core.audit import Audit
from classwise.core.errors import UserError
from classwise.core.identity import radius_name
from classwise.core.markup import class_name, decimal, escape, plural
from classwise.stats import aggregate, bootstrap, intervals, masking, metrics, significance

# What the radius of an attack means.
_NORMS = {
    "linf": "L∞: no pixel is changed by more than that, where black is 0 and white is 1",
    "l2": "L2: the square root of the sum of all squared changes of pixels, where black is 0 and white is 1",
}
# On fewer images a black-box check detects only large shares.
_ENOUGH = 20
# As many classes fit a chart.
MOST = 20
# As many classes are named in a sentence.
_NAMED = 5
# All classes together, where they stand next to each class.
ALL = "all images"
# What says how uneven a network is, by its name in `metrics.METRICS`.
MEASURES = ("overall", "worst", "worst_k", "mcd", "gini", "cv", "cv_unbiased")


def network_counts(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the counts of outcomes of an audit, of its only network."""
    count = aggregate.counts(outcomes)
    return count.isel(network=0, drop=True) if "network" in count.dims else count


def notable_classes(count: xr.DataArray, marked: Sequence[str] | None = None, most: int = MOST) -> list[str]:
    """Return the classes to look at first: those that are marked critical, then the others, the least robust ones first.

    `count` is under one attack. At most `most` are returned, but all that are marked.
    """
    names, first = names_of(count), list(dict.fromkeys(marked or []))
    rates = metrics.accuracy(count).fillna(101.0).values
    rest = [names[place] for place in np.argsort(rates, kind="stable") if names[place] not in first]
    return [*first, *rest][: max(most, len(first))]


def rate(count: xr.DataArray) -> str:
    """Return the share of images that are classified correctly in percent with its Wilson interval; `count`: under one attack."""
    right, total = int(metrics.correct(count).sum()), int(count.sum())
    low, high = intervals.proportion(right, total)
    return f"{100 * right / max(total, 1):.0f} % (95 %: {low:.0f} to {high:.0f})"


def _class_rate(count: xr.DataArray, label: str) -> str:
    row, text = count.sel(label=label), rate(count.sel(label=[label]))
    mistakes = row.where(row.predicted != label, 0)
    most, share = escape(class_name(mistakes.idxmax("predicted").item())), 100 * int(mistakes.max()) / max(int(row.sum()), 1)
    return f"{text}, most often misclassified as {most} ({share:.0f} %)" if share else text


def summary(count: xr.DataArray, marked: Sequence[str] | None = None) -> str:
    """Return the findings of an audit as a list in Markdown: the critical classes, the weakest ones, the spread."""
    clean, worst = count.sel(attack="clean"), count.sel(attack=masking.WORST)
    lines = [
        f"**Critical: {escape(label)}.** Withstands the attacks on {_class_rate(worst, label)}."
        for label in dict.fromkeys(marked or [])
    ]
    lines.append(_weakest(worst))
    low, value, high = bootstrap.bootstrap(worst, metrics.mcd, draws=bootstrap_draws(worst)).values
    best = escape(metrics.accuracy(worst).idxmax("label").item())
    between = f"Between the best class ({best}) and the worst" if value > 0 else "Between any two classes"
    lines.append(
        f"**Spread.** {between} lie {value:.0f} points in the worst case (95 %: {low:.0f} to {high:.0f}); "
        f"without an attack {float(metrics.mcd(clean)):.0f}."
    )
    return "\n".join(f"- {line}" for line in lines)


def attack_summary(audit: Audit, count: xr.DataArray, check: masking.BlackBoxCheck) -> str:
    """Return as a list in Markdown what the attacks of an audit are, and what those without gradients broke."""
    names = [name for name in names_of(count, "attack") if name not in ("clean", masking.WORST)]
    radius = f"{radius_name(audit.eps)} ({_NORMS[audit.norm]})"
    alone = f"Under {audit.attack} alone the network classifies {rate(count.sel(attack=audit.attack))} correctly"
    lines = [
        f"**Worst case.** {alone}; an image counts as broken if it is misclassified without an attack or if any of these breaks "
        f"it: {', '.join(_attack_name(audit, name) for name in names)}, at radius {radius}.",
        f"**Black-box check.** {_black_box(audit, check)}",
    ]
    if audit.attack not in masking.THOROUGH:
        lines.append(f"**Note.** {audit.attack} is a quick look: `--attack strong` may break more images.")
    return "\n".join(f"- {line}" for line in lines)


def _attack_name(audit: Audit, name: str) -> str:
    cheap = f"{audit.cheap.attack} ({audit.cheap.options['steps']} steps, radii up to {radius_name(audit.eps)})"
    queries = f"{name} (up to {audit.queries:,} queries)"
    return cheap if name == masking.CURVE else queries if "square" in name else name


def _black_box(audit: Audit, check: masking.BlackBoxCheck) -> str:
    if not check.left:
        return (
            f"Attacks with gradients broke all {check.correct:,} images that are classified correctly: none is left for Square."
        )
    low, high = intervals.proportion(check.broken, check.left)
    result = (
        f"Square with up to {audit.queries:,} queries broke {check.broken} of the {plural(check.left, 'image')} that attacks "
        f"with gradients left ({100 * check.broken / check.left:.1f} %, 95 %: {low:.1f} to {high:.1f})."
    )
    if check.broken:
        return f"{result} {masking.RULE}"
    detects = (
        f"If it could break {100 * check.detectable():.1f} % of such images, it would have broken one with probability 0.90."
    )
    return f"{result} {detects}" if check.left >= _ENOUGH else result


def _weakest(robust: xr.DataArray) -> str:
    """Return which classes withstand an attack least: at most three and half of them, and none that does as well as the best."""
    rates = metrics.accuracy(robust)
    names = [label for label in notable_classes(robust, most=3) if float(rates.sel(label=label)) < float(rates.max())]
    if not names:
        fewest = metrics.images(robust).idxmin("label").item()
        each = rate(robust.sel(label=[fewest]))
        return f"**Weakest classes.** None is weaker than the others: each withstands the attacks on {each}."
    weakest = names[: max(robust.sizes["label"] // 2, 1)]
    classes = "; ".join(f"**{escape(class_name(label))}**: {_class_rate(robust, label)}" for label in weakest)
    return f"**Weakest classes.** {classes}."


def stability(results: xr.Dataset) -> str:
    """Return as an item of the summary how sure it is which class is the worst, and which one attracts the mistakes.

    results: of `masking.worst_case_outcomes`.
    """
    robust = network_counts(results).sel(attack=masking.WORST)
    share, attracted = bootstrap.worst_share(robust, bootstrap_draws(robust)), metrics.share_of_mistakes(robust)
    label, (right, total) = escape(class_name(share.idxmax("label").item())), held_out_worst(results)
    text = f"- **How sure?** The worst class is {label} in {float(share.max()):.0f} % of bootstrap draws."
    if total:
        low, high = intervals.proportion(right, total)
        text += f" Chosen on one half of the images, the worst class withstands the attacks on {100 * right / total:.0f} % "
        text += f"of its images in the other half (95 %: {low:.0f} to {high:.0f})."
    if attracted.isnull().all():
        return text
    most = escape(class_name(attracted.idxmax("label").item()))
    return f"{text} Most mistakes go to {most} ({float(attracted.max()):.0f} %)."


def bootstrap_draws(count: xr.DataArray) -> int:
    """Return the number of draws of a bootstrap: the more classes, the fewer, since each draw is a full matrix."""
    return int(min(2000, max(200, 50_000_000 // count.sizes["label"] ** 2)))


def sample_note(audit: Audit, count: xr.DataArray) -> str:
    """Return how precise the accuracy of a class can be with as many images."""
    sizes = metrics.images(count.sel(attack="clean"))
    least, most = int(sizes.min()), int(sizes.max())
    number = f"{least}" if least == most else f"{least} to {most}"
    half = 100 * 1.96 * np.sqrt(0.25 / max(least, 1))
    sampled = "a sample, balanced across classes" if audit.per_class is not None else "all of the dataset"
    return (
        f"The audit uses {number} images of each class ({sampled}, seed {audit.seed}). An accuracy of 50 % measured on {least} "
        f"images is known to about ± {half:.0f} points. The intervals on this page have a confidence level of 95 %."
    )


def critical_radius(count: xr.DataArray) -> xr.DataArray:
    """Return the radius at which half of the images of each class are misclassified, with its interval, along label and bound.

    count: (radius, label, predicted), cumulative. Accuracies, and the ends of their intervals, are interpolated between radii. 0
    where half are misclassified without an attack, infinite where more withstand the largest radius.
    """
    rates = intervals.rate_bounds(metrics.correct(count), metrics.images(count))

    def crossing(values: np.ndarray) -> float:
        below = np.flatnonzero(values <= 50)
        if not len(below):
            return np.nan if np.isnan(values).all() else np.inf
        place = max(below[0], 1)
        return float(np.interp(50, values[[place, place - 1]], count.radius.values[[place, place - 1]])) if below[0] else 0.0

    radii: xr.DataArray = xr.apply_ufunc(crossing, rates, input_core_dims=[["radius"]], vectorize=True)
    return radii.rename("critical_radius")


def class_numbers(audit: Audit, count: xr.DataArray, radii: xr.DataArray) -> xr.Dataset:
    """Return the numbers of an audit on each class, along label.

    accuracy (bound, attack, label): without an attack, under the audit's and in the worst case, in percent; images; in the worst
    case attracted, the share of all mistakes that are predictions of the class, and worst_share, that of the draws of a bootstrap
    in which it is the worst, in percent; critical_radius (bound, label) of `radii`, counts along radius.
    """
    shown, worst = count.sel(attack=["clean", audit.attack, masking.WORST]), count.sel(attack=masking.WORST, drop=True)
    return xr.Dataset(
        {
            "accuracy": intervals.rate_bounds(metrics.correct(shown), metrics.images(shown)),
            "images": metrics.images(worst),
            "attracted": metrics.share_of_mistakes(worst),
            "worst_share": bootstrap.worst_share(worst, bootstrap_draws(worst)),
            "critical_radius": critical_radius(radii),
        }
    )


def class_table(numbers: xr.Dataset, count: xr.DataArray, marked: Sequence[str] | None = None) -> pd.DataFrame:
    """Return a row for each class, critical and weak ones first: `class_numbers`, and the most frequent mistakes."""
    robust, rows = count.sel(attack=masking.WORST), []
    for label in notable_classes(robust, marked, count.sizes["label"]):
        one, row = numbers.sel(label=label), robust.sel(label=label)
        rates = {f"{name}, % [95 %]": _bounds(one.accuracy.sel(attack=name), ".1f") for name in names_of(one.accuracy, "attack")}
        total, mistakes = int(row.sum()), row.where(row.predicted != label, 0).to_series().nlargest(3)
        frequent = ", ".join(
            f"{class_name(str(name))}: {100 * hits / total:.0f} %" for name, hits in mistakes.items() if hits > 0
        )
        rows.append(
            {
                "class": label + (" (critical)" if label in (marked or []) else ""),
                "images": int(one.images),
                **rates,
                "half broken at radius [95 %]": _bounds(one.critical_radius, ".3g"),
                "worst in, % of draws": f"{float(one.worst_share):.0f}",
                "attracts, % of mistakes": "" if np.isnan(one.attracted) else f"{float(one.attracted):.0f}",
                "misclassified as": frequent,
            }
        )
    return pd.DataFrame(rows).set_index("class")


def _bounds(bounds: xr.DataArray, form: str) -> str:
    """Return "25.0 [11.2, 46.9]"; an end beyond all radii is "∞"."""
    if bounds.isnull().any():
        return "unknown"
    ends = [float(bounds.sel(bound=end)) for end in ("low", "value", "high")]
    low, value, high = (format(round(end, 6), f"z{form}").replace("inf", "∞") for end in ends)
    return f"{value} [{low}, {high}]"


def held_out_worst(results: xr.Dataset) -> tuple[int, int]:
    """Return how many images the worst class is right on in one half of the images where the other half chose it, of how many.

    Of both choices together. results: of `masking.worst_case_outcomes`. The accuracy of the worst class on the images that chose
    it is low by chance.
    """
    count = aggregate.counts(aggregate.split_halves(results.sel(attack=masking.WORST, drop=True)))
    right = total = 0
    for half, other in (("first", "second"), ("second", "first")):
        rates = metrics.accuracy(count.sel(half=half))
        if bool(rates.notnull().any()):  # else it has no image
            row = count.sel(half=other, label=rates.idxmin("label").item())
            right, total = right + int(row.sel(predicted=row.label)), total + int(row.sum())
    return right, total


def match_networks(results: xr.Dataset, others: xr.Dataset) -> xr.Dataset:
    """Return two networks in the worst case, image by image, along label: "all images", then the classes.

    results, others: of `runs.audit_outcomes`; a UserError unless they are of the same images and attacks. first, second: the
    accuracies in percent; difference: first less second, in points, along bound, with the interval of matched pairs; only_first,
    only_second: the numbers of images that one of them withstands alone; apart: whether the interval, of classes corrected for
    their number, excludes 0.
    """
    worst = [some.sel(attack=masking.WORST, drop=True) for some in (results, others)]
    alike = all(results.attrs.get(name) == others.attrs.get(name) for name in ("images", "attack", "eps", "norm"))
    if not alike or not worst[0].truth.equals(worst[1].truth):
        raise UserError("the two audits are of other images or attacks; give both the same dataset, --eps, --attack, --limit ...")
    (first, second), truth = (~one.misclassified for one in worst), worst[0].truth
    labels = [ALL, *names_of(results, "predicted")]
    members = xr.concat([truth >= 0, *(truth == place for place in range(len(labels) - 1))], "label").assign_coords(label=labels)
    total = members.sum("image")
    alone = [(one & members).sum("image") for one in (first & ~second, second & ~first)]
    shares = [100 * (one & members).sum("image") / total.where(total > 0) for one in (first, second)]
    names = ("first", "second", "only_first", "only_second")
    numbers = dict(zip(names, (*shares, *alone), strict=True))
    levels = 0.95, 1 - 0.05 / (len(labels) - 1)
    difference, corrected = (intervals.matched_difference(alone[0], alone[1], total, level) for level in levels)
    wide = corrected.where(total.label != ALL, difference)
    apart = (wide.sel(bound="low") > 0) | (wide.sel(bound="high") < 0)
    return xr.Dataset({**numbers, "difference": difference, "apart": apart})


def comparison(pairs: xr.Dataset, names: tuple[str, str]) -> str:
    """Return `match_networks` as a sentence and a table in Markdown, with the names of both networks."""
    one, other = names if names[0] != names[1] else (f"{names[0]} (first)", f"{names[1]} (second)")
    rows = {
        str(label): {
            f"{one}, %": "unknown" if row.first.isnull() else decimal(float(row.first)),
            f"{other}, %": "unknown" if row.second.isnull() else decimal(float(row.second)),
            "difference, points [95 %]": _bounds(row.difference, ".1f"),
            f"only {one}": int(row.only_first),
            f"only {other}": int(row.only_second),
        }
        for label, row in ((label, pairs.sel(label=label)) for label in pairs.label.values)
    }
    classes = pairs.sel(label=pairs.label != ALL)
    classes = classes.sortby(-abs(classes.difference.sel(bound="value", drop=True)))
    apart = [
        f"{escape(label)} {_bounds(classes.difference.sel(label=label), '.1f')}"
        for label in classes.label.values[classes.apart.values]
    ]
    more = f" and {len(apart) - _NAMED} more" if len(apart) > _NAMED else ""
    weakest = " and ".join(
        f"that of {escape(name)} {escape(rates.idxmin('label').item())} ({decimal(float(rates.min()))} %)"
        for name, rates in ((one, classes.first), (other, classes.second))
    )
    text = (
        f"**{escape(one)} less {escape(other)}**, image by image, in the worst case: "
        f"{_bounds(pairs.difference.sel(label=ALL), '.1f')} points of all images. The worst class: {weakest}. "
        f"Significantly different classes, corrected for their number: {', '.join(apart[:_NAMED]) or 'none'}{more}."
    )
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("class")
    return f"{text}\n\n{tables.fold('All classes, compared', table) if len(rows) > MOST else tables.plain_table(table)}"


def similarity_heatmap(cosine: xr.DataArray, labels: Sequence[str]) -> Any:
    """Return the cosines between the mean features of some classes as a shaded matrix with a blank diagonal."""
    table = frame(cosine.sel(label=list(labels), other=list(labels)), "cosine").rename(columns={"other": "other class"})
    table = table[table["label"] != table["other class"]]
    bottom = float(table["cosine"].min())
    cells = Cells("cosine", "cosine", "cosine", ".2f", diverging=False, bottom=bottom, step=(28, 28))
    tips = tooltip("label", "other class", cosine="cosine|.2f")
    chart = heatmap(table, Category("other class", labels, "class"), Category("label", labels, "class"), cells, tips)
    text = extent(table, ["label", "other class"], "Cosine between the mean features of two classes", "", "cosine", 2)
    return describe(chart, "Similarity of the features of two classes (cosine)", text)


def closest_classes(cosine: xr.DataArray, robust: xr.DataArray, layer: str) -> str:
    """Return in words which classes have the most similar features, and whether such classes are confused with each other."""
    names = names_of(cosine)
    left, right = np.triu_indices(len(names), 1)
    near = cosine.transpose("label", "other").values[left, right]
    most = [(escape(names[left[place]]), escape(names[right[place]]), near[place]) for place in np.argsort(-near)[:3]]
    pairs = "; ".join(f"{one} and {other} ({value:.2f})" for one, other, value in most)
    rank, p = significance.mantel_test(cosine, robust, bootstrap_draws(robust))
    linked = f" Similarity and confusion of classes have a rank correlation of {rank:.2f} ({significance.p_value(p)})."
    logits = " The network has no penultimate layer that could be read: its logits were compared."
    return f"**Most similar classes:** {pairs}.{'' if np.isnan(rank) else linked}{'' if layer == 'penultimate' else logits}"


def attack_gap(audit: Audit, count: xr.DataArray) -> str:
    """Return how far the curve's attack, up to the audit's radius, lies above the worst case."""
    cheap, worst = (float(metrics.overall(count.sel(attack=name))) for name in (masking.CURVE, masking.WORST))
    return (
        f"At radius {radius_name(audit.eps)} the curve is the worst case over all attacks, {worst:.1f} %. Its attack alone "
        f"({audit.cheap.attack}, {audit.cheap.options['steps']} steps) leaves {cheap:.1f} %, {cheap - worst:.1f} points more. "
        "Each point of the curve is an upper bound."
    )


def sanity_table(audit: Audit, results: xr.Dataset, checks: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return a row for each attack: the images it broke, those that no other broke, and what members of an ensemble broke first.

    `results` is what `masking.worst_case_outcomes` returns, `checks` what `runs.audit_checks` returns. Misclassified clean
    images count as broken by each attack.
    """
    attacks, rows = [name for name in names_of(results, "attack") if name not in ("clean", masking.WORST)], []
    for name in attacks:
        broken = results.misclassified.sel(attack=name)
        others = results.misclassified.sel(attack=["clean", *(other for other in attacks if other != name)]).any("attack")
        shares = [f"{float(images.mean()):.1%}" for images in (broken, broken & ~others)]
        first = checks.get(f"{name} at {audit.eps}", {}).get("broken_by", {})
        rows.append((_attack_name(audit, name), *shares, ", ".join(f"{member}: {number}" for member, number in first.items())))
    columns = ["attack", "images misclassified", "by this attack alone", "images broken first by"]
    return pd.DataFrame(rows, columns=columns).set_index("attack")


def select_classes(examples: xr.Dataset, labels: Sequence[str]) -> xr.Dataset:
    """Return the examples of some classes."""
    return examples.isel(image=np.isin(examples.predicted.values[examples.truth.values], labels))
