"""Sentences of notebooks: templates whose numbers are written with their intervals, and verdicts in words.

Bounds are arrays along the dimension bound ("low", "value", "high"), as `stats.bootstrap` returns them.
"""

from collections.abc import Sequence
from string import Formatter
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.errors import NotAtScale, NotRecorded, unknown
from classwise.core.markup import class_name, decimal, escape, plural, plural_class, printed_name
from classwise.papers.claims import Verdict
from classwise.stats import bootstrap

# The beginning of a sentence whose interval contains the value of no effect.
UNCLEAR = "No clear effect"
_OPPOSITE = {"low": "high", "high": "low"}


class _Numbers(Formatter):
    def format_field(self, value: Any, spec: str) -> str:
        form, *directions = spec.split("|")
        unit, _, digits = form.partition(",")
        bounded = isinstance(value, xr.DataArray) and "bound" in value.dims
        if not bounded:
            value = value.item() if isinstance(value, xr.DataArray) else value
            if not directions and not digits.isdecimal():
                return escape(printed_name(value)) if isinstance(value, str) and not spec else super().format_field(value, spec)
        unclear = bounded and len(directions) > 2 and not choose_by_sign(value, "above", "below", "")
        falls = bool(directions) and not unclear and float(value.sel(bound="value") if bounded else value) < 0
        opposite: Any = -value
        if bounded:
            opposite = opposite.assign_coords(bound=[_OPPOSITE.get(str(end), end) for end in value.bound.values])
        number = (interval if bounded else _quantity)(opposite if falls else value, unit, int(digits or 0))
        return directions[2 if unclear else falls].replace("~", number) if directions else number


def text(template: str, **values: Any) -> str:
    """Return a template in Markdown with its values filled in.

    Bounds are written with their interval: {gap:points}, {share:%,1} with one digit, {r:,2} without a unit. With two phrases,
    {gap:points|rises by ~|falls by ~}, the sign of the value chooses one, and ~ is the number without its sign; a third one,
    |changes by ~, keeps the sign where the interval contains 0. A number that has no bounds may have phrases, or digits,
    {gap:,1}. Words are escaped, attacks and defences written as papers print them, {start:s} is neither.
    """
    return _Numbers().vformat(template, (), values)


def ends(values: xr.DataArray, template: str, **more: Any) -> str:
    """Return a template with the names of the lowest and the highest members of an array, and their values.

    {lowest:s}, {highest:s}: attacks and defences as papers print them, classes in the plural, a class and what it is predicted
    as "cat as dog"; of more than three equal ones "several". {low:.0f}, {high:.0f}: of bounds without their interval. NotRecorded
    without any value.
    """
    values = values.sel(bound="value", drop=True) if "bound" in values.dims else values
    flat = values.stack(member=values.dims).dropna("member")
    if not flat.size:
        raise NotRecorded("what this title compares is not recorded")
    kinds = {"label": plural_class, "partner": class_name, "other": class_name}
    name = kinds.get(" ".join(map(str, values.dims)), printed_name)
    words = {}
    for end, value in {"lowest": flat.min(), "highest": flat.max()}.items():
        members = [" as ".join(name(str(one)) for one in member) for member in flat.member.values[(flat == value).values]]
        words[end] = " and ".join([", ".join(members[:-1]), members[-1]][-len(members) :]) if len(members) < 4 else "several"
    return text(template, **words, low=float(flat.min()), high=float(flat.max()), **more)


def ends_by(dim: str, values: xr.DataArray, template: str, **more: Any) -> dict[str, str]:
    """Return `ends` for each member of a dimension, by its name; {defence} in the template is the member of that dimension."""
    parts = {str(one): values.sel({dim: one}, drop=True) for one in values[dim].values}
    return {name: ends(part, template, **{dim: name}, **more) for name, part in parts.items()}


def most_often_below(relative: xr.DataArray) -> str:
    """Return as a title which class is significantly below average in most cases, from `intervals.relative_robustness`."""
    measured = relative.notnull().any("label")
    below, cases = (relative < 0).sum(list(measured.dims)), int(measured.sum())
    words = "Most often significantly below average: {highest:s}, in {high:.0f} of {cases} cases"
    return ends(below, words if below.any() else "No class is significantly below average in {cases} cases", cases=cases)


def _quantity(value: float, unit: str, digits: int) -> str:
    number = decimal(value, digits) if np.isfinite(value) else "unbounded" if np.isinf(value) else "unknown"
    unit = "point" if (unit, number.lstrip("-")) == ("points", "1") else unit
    return number.replace("-", "\u2212") + " " * bool(unit) + unit


def interval(bounds: xr.DataArray, unit: str = "", digits: int = 0) -> str:
    """Return a number with its interval: "59 points (51 to 66)"; `bounds` has no dimension but bound."""
    low, value, high = (float(bounds.sel(bound=name)) for name in ("low", "value", "high"))
    ends = " to ".join(_quantity(end, "", digits) for end in (low, high)) if np.isfinite([low, high]).any() else "no interval"
    return f"{_quantity(value, unit, digits)} ({ends})"


def choose_by_sign(bounds: xr.DataArray, above: str, below: str, unclear: str = UNCLEAR, than: float = 0.0) -> str:
    """Return one of three phrases: the entire interval lies above a number, below it, or contains it."""
    low, high = (float(bounds.sel(bound=end)) for end in ("low", "high"))
    return above if low > than else below if high < than else unclear


def effect(bounds: xr.DataArray, sentence: str, answers: tuple[str, str] = ("", "")) -> str:
    """Return a sentence that states an effect, after "No clear effect" where its interval contains 0.

    answers: what else stands before it, above 0 and below: ("Yes", "No").
    """
    if np.isnan(bounds.sel(bound="value")):
        raise NotRecorded("the networks that this sentence compares are not recorded")
    # Names keep their capitals.
    after = sentence if sentence[1:2].isupper() else f"{sentence[:1].lower()}{sentence[1:]}"
    above, below = (f"{answer}: {after}" if answer else sentence for answer in answers)
    return choose_by_sign(bounds, above, below, f"{UNCLEAR}: {after}")


def bounds(verdicts: Sequence[Verdict], claim: str) -> xr.DataArray:
    """Return the value of a claim with the interval of its test along bound.

    A claim that is not tested is NotRecorded, an unreachable one NotAtScale. A name that no verdict has is a UserError.
    """
    # Those on the dataset of the page come first.
    one = next((one for one in verdicts if one.claim.name == claim), None)
    if one is None:
        raise unknown("claim among the verdicts", claim, dict.fromkeys(one.claim.name for one in verdicts))
    if one.verdict == "not tested":
        raise (NotAtScale if one.unreachable else NotRecorded)(f"not tested: {one.claim.statement} ({one.reason})")
    return xr.DataArray([one.low, one.effect, one.high], {"bound": ["low", "value", "high"]}, ("bound",))


def finding(verdicts: Sequence[Verdict], claim: str, /, template: str, answers: tuple[str, str] = ("", ""), **values: Any) -> str:
    """Return the `effect` of a claim in bold Markdown; {value:points,1} in the template stands for its `bounds`, as in `text`."""
    value = bounds(verdicts, claim)
    return f"**{effect(value, text(template, value=value, **values), answers)}**"


def sample(outcomes: xr.Dataset) -> str:
    """Return in a sentence how many networks of each defence or setting, or of the only one, were tested on how many images.

    Outcomes with the attribute `runs` are of networks that are taken as given.
    """
    outcomes = outcomes if "seed" in outcomes.dims else outcomes.expand_dims(seed=[0])
    images, present = int(bootstrap.evaluated_mask(outcomes).any("seed").sum()), outcomes.truth >= 0
    each = present.any([dim for dim in present.dims if dim not in ("seed", "defence")]).sum("seed")
    least, most = (int(outcomes.attrs.get("runs", end)) for end in (each.where(each > 0, each.max()).min(), each.max()))
    names = [printed_name(str(name)) for name in np.atleast_1d(outcomes.defence.values)] if "defence" in outcomes.coords else []
    of = "setting" if "setting" in outcomes.dims else "defence"
    what = f"networks of each {of}" if len(names) != 1 or of == "setting" else f"networks of {escape(names[0])}"
    number = f"{most:,}" if least == most else f"{least} to {most}"
    fixed = ", so the intervals of charts do not cover other training runs" * (most == 1 or "runs" in outcomes.attrs)
    fixed = fixed or ". The intervals cover other training runs only where we trained several networks" * (least == 1)
    what = what.replace("networks", "network", 1) if most == 1 else what
    return f"We tested {'one' if most == 1 else number} {what} on {plural(images, 'image')}{fixed}."
