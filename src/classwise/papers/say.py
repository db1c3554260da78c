"""Sentences of notebooks: templates whose numbers are written with their intervals, and verdicts in words.

Bounds are arrays along the dimension bound ("low", "value", "high"), as `stats.bootstrap` returns them.
"""

from collections.abc import Sequence
from string import Formatter
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.errors import NotAtScale, NotRecorded, unknown
from classwise.core.markup import decimal, escape, plural, printed_name
from classwise.papers.claims import Verdict
from classwise.stats import bootstrap

# The beginning of a sentence whose interval contains the value of no effect.
UNCLEAR = "No clear effect"


class _Numbers(Formatter):
    def format_field(self, value: Any, spec: str) -> str:
        if isinstance(value, xr.DataArray) and "bound" in value.dims:
            unit, _, digits = spec.partition(",")
            return interval(value, unit, int(digits or 0))
        if isinstance(value, xr.DataArray):
            value = value.item()
        return escape(printed_name(value)) if isinstance(value, str) and not spec else super().format_field(value, spec)


def text(template: str, **values: Any) -> str:
    """Return a template in Markdown with its values filled in.

    Bounds are written with their interval: {gap:points}, {share:%,1} with one digit, {r:,2} without a unit. Words are escaped,
    attacks and defences written as papers print them, {start:s} is neither.
    """
    return _Numbers().vformat(template, (), values)


def interval(bounds: xr.DataArray, unit: str = "", digits: int = 0) -> str:
    """Return a number with its interval: "59 points (95 % interval 51 to 66)"; `bounds` has no dimension but bound.

    The attribute `called` of bounds takes the place of "95 % interval".
    """
    numbers = (float(bounds.sel(bound=name)) for name in ("low", "value", "high"))
    low, value, high = (decimal(number, digits) if np.isfinite(number) else "unknown" for number in numbers)
    unit = "point" if (unit, value.lstrip("-")) == ("points", "1") else unit
    ends = "no interval" if low == high == "unknown" else f"{bounds.attrs.get('called', '95 % interval')} {low} to {high}"
    return f"{value}{' ' * bool(unit)}{unit} ({ends})"


def choose_by_sign(bounds: xr.DataArray, above: str, below: str, unclear: str = UNCLEAR, than: float = 0.0) -> str:
    """Return one of three phrases: the entire interval lies above a number, below it, or contains it."""
    low, high = (float(bounds.sel(bound=end)) for end in ("low", "high"))
    return above if low > than else below if high < than else unclear


def effect(bounds: xr.DataArray, sentence: str, than: float = 0.0) -> str:
    """Return a sentence that states an effect, after "No clear effect" where its interval contains `than`."""
    if np.isnan(bounds.sel(bound="value")):
        raise NotRecorded("the networks that this sentence compares are not recorded")
    return choose_by_sign(bounds, sentence, sentence, f"{UNCLEAR}: {sentence[:1].lower()}{sentence[1:]}", than)


def verdicts(judged: Sequence[Verdict], *names: str) -> str:
    """Return the verdicts on some claims in Markdown, a line each: the claim, whether it holds, our value, p and the images.

    judged: of `runs.judge_section`. Names of claims that are not among them are a UserError.
    """
    for name in names:
        _named(judged, name)
    return "\n".join(f"- {_line(one)}" for one in judged if one.claim.name in names)


def finding(verdicts: Sequence[Verdict], claim: str, /, template: str, than: float = 0.0, **values: Any) -> str:
    """Return a template in bold Markdown; {value:points,1} is the value of a claim with the interval of its test, as in `text`.

    It begins with "No clear effect" where this interval contains `than`. A claim that is not tested is NotRecorded, an
    unreachable one NotAtScale; a name that is not among the verdicts is a UserError.
    """
    one = _named(verdicts, claim)
    if one.verdict == "not tested":
        raise (NotAtScale if one.unreachable else NotRecorded)(f"the claim {claim!r} is not tested: {one.reason}")
    numbers, called = [one.low, one.effect, one.high], {"called": "interval of the test" if one.tested else "interval"}
    bounds = xr.DataArray(numbers, {"bound": ["low", "value", "high"]}, ("bound",), attrs=called)
    return f"**{effect(bounds, text(template, value=bounds, **values), than)}**"


def _named(judged: Sequence[Verdict], name: str) -> Verdict:
    # Verdicts on the dataset of the page come first, before those on further ones.
    first = next((one for one in judged if one.claim.name == name), None)
    if first is None:
        raise unknown("claim among the verdicts", name, dict.fromkeys(one.claim.name for one in judged))
    return first


def _line(one: Verdict) -> str:
    numbers = f"{one.numbers}, {one.p_values}{one.sample}"
    why = f"; {escape(one.reason)}" if one.reason else ""
    text = escape(one.reason) if one.verdict == "not tested" else f"{numbers}{why}"
    return f"{escape(one.claim.statement)} **{one.summary.capitalize()}**: {text}."


def sample(outcomes: xr.Dataset) -> str:
    """Return how many runs of each defence or setting, or of the only one, the intervals are of, and how many test images.

    Outcomes with the attribute `runs` are of trainings that are taken as given.
    """
    outcomes = outcomes if "seed" in outcomes.dims else outcomes.expand_dims(seed=[0])
    images, present = int(bootstrap.evaluated_mask(outcomes).any("seed").sum()), outcomes.truth >= 0
    each = present.any([dim for dim in present.dims if dim not in ("seed", "defence")]).sum("seed")
    least, most = (int(outcomes.attrs.get("runs", end)) for end in (each.where(each > 0, each.max()).min(), each.max()))
    names = [str(name) for name in np.atleast_1d(outcomes.defence.values)] if "defence" in outcomes.coords else []
    of = f"of {escape(names[0])}" if len(names) == 1 else "of each defence"
    runs = f"{most} runs" if least == most > 1 else f"{least} to {most} runs" if most > 1 else "One run"
    number = f"{runs} {'of each setting' if 'setting' in outcomes.dims else of}"
    fixed = ": the intervals of charts do not cover other trainings" if least == 1 or "runs" in outcomes.attrs else ""
    return f"{number}{fixed}. {plural(images, 'test image')}."
