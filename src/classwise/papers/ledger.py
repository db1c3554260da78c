"""The ledger: every claim with its verdicts as a row that opens in place, with pictures of their intervals, and counts."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from html import escape
from importlib import resources
from urllib.parse import urlencode

import numpy as np
import pandas as pd

from classwise.charts.style import VERDICT_COLOURS
from classwise.core import datasets
from classwise.core.markup import counted, escaped
from classwise.papers import claims
from classwise.papers.claims import VERDICTS, Claim, Verdict
from classwise.papers.scales import CLOSED_FORM, dataset_of, place, scale_title
from classwise.stats.significance import p_value

_THEIRS, _RANGE = "#8268dc", "#2a9d8f"
# The picture of a verdict in pixels: its width and margin.
_WIDTH, _EDGE = 240, 18


def anchor(claim: Claim) -> str:
    """Return the id of the row of a claim: "tian2021-4-1-class-bias-gap"."""
    return f"{claim.section.replace('/', '-')}-{claim.name}"


def address(claim: Claim | None = None, **filters: str) -> str:
    """Return the address of the page of the ledger, with filters (paper, section, scale, verdict) and the row of a claim."""
    query = urlencode({name: value for name, value in filters.items() if value})
    return "claims.html" + (f"?{query}" if query else "") + (f"#{anchor(claim)}" if claim else "")


def _by_claim(verdicts: Sequence[Verdict]) -> list[list[Verdict]]:
    """Return the verdicts on each claim."""
    result: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        result.setdefault(anchor(verdict.claim), []).append(verdict)
    return list(result.values())


def opening(verdicts: Sequence[Verdict]) -> str:
    """Return for each scale how many of the claims that were tested hold, fail or are open."""
    parts = []
    for scale in dict.fromkeys(sorted((verdict.scale for verdict in verdicts), key=place)):
        some = [verdict for verdict in verdicts if verdict.scale == scale]
        tested = [verdict for verdict in some if verdict.verdict != "not tested"]
        article = "the " if scale == CLOSED_FORM else ""
        parts.append(f"On {article}{_title(scale)}, {_shares(tested)}; not tested: {len(some) - len(tested)}.")
    return " ".join(parts) or "No claim was judged."


def _title(scale: str) -> str:
    """Return the dataset of a scale, which the names of its other datasets contain, and the scale: "CIFAR-10 (scale laptop)"."""
    return f"{datasets.title(dataset_of(scale))} ({scale_title(scale)})"


def _shares(tested: Sequence[Verdict]) -> str:
    """Return how many of the claims that were tested hold, fail and are open."""
    if not tested:
        return "no claim is tested"
    return f"of {counted(len(tested), 'claim')} tested, {_counted(tested, VERDICTS[:3])}"


def _counted(verdicts: Sequence[Verdict], names: Sequence[str] = VERDICTS) -> str:
    """Return how many verdicts there are of each kind: "1 holds, 2 fail, 1 is open and 0 are not tested"."""
    number = Counter(verdict.verdict for verdict in verdicts)
    verbs = {"holds": ("hold", "holds"), "fails": ("fail", "fails"), "open": ("are open", "is open")}
    verbs["not tested"] = ("are not tested", "is not tested")
    *first, last = (f"{number[name]} {verbs[name][number[name] == 1]}" for name in names)
    return f"{', '.join(first)} and {last}"


def claims_list(verdicts: Sequence[Verdict], pages: Collection[str] = (), *, filters: bool = True) -> str:
    """Return the ledger as HTML: a row for each claim, which opens to its measure, its verdicts and their intervals.

    pages: the sections that have a page, to which rows link. filters: controls above the list; they are also set by the address
    of the page (see `address`), and an id in it opens its row. Without them the list is that of the page of a section: it begins
    with the numbers of its verdicts, has no titles and no ids, shows the intervals next to the claims (a forest plot), its rows
    link to those of the ledger, and those of claims that no scale tests are folded.
    """
    groups, folder = _by_claim(verdicts), resources.files("classwise.papers")
    style, script = (folder.joinpath(f"ledger.{kind}").read_text() for kind in ("css", "js"))
    if not filters:
        head = f"<p>{escape(opening(verdicts))}</p>{_LEGEND if any(one.verdict != 'not tested' for one in verdicts) else ''}"
        return f'<style>{style}</style><div class="ledger">{head}{_rows_of_page(groups)}</div>'
    sections = dict.fromkeys(group[0].claim.section for group in groups)
    body = "".join(
        _section(section, [group for group in groups if group[0].claim.section == section], pages) for section in sections
    )
    return f'<style>{style}</style><div class="ledger">{_controls(verdicts)}{body}</div><script>{script}</script>'


def _controls(verdicts: Sequence[Verdict]) -> str:
    options = {
        "paper": {verdict.claim.paper: _paper_title(verdict.claim.paper) for verdict in verdicts},
        "section": {one.claim.section.partition("/")[2]: section_title(one.claim.section) for one in verdicts},
        "scale": {verdict.scale: _title(verdict.scale) for verdict in verdicts},
        "verdict": {name: name for name in VERDICTS if any(verdict.verdict == name for verdict in verdicts)},
    }
    boxes = "".join(
        f"<label>{name} <select name={name!r}>{_options(values)}</select></label>" for name, values in options.items()
    )
    return f'<form aria-label="filters">{boxes}<output></output></form>'


def _paper_title(paper: str) -> str:
    """Return "Tian 2021" of "tian2021"."""
    return re.sub(r"(?=\d)", " ", paper, count=1).capitalize()


def _options(titles: Mapping[str, str]) -> str:
    return '<option value="">all</option>' + "".join(
        f'<option value="{escape(value)}">{escape(title)}</option>' for value, title in titles.items()
    )


def _section(section: str, groups: Sequence[Sequence[Verdict]], pages: Collection[str]) -> str:
    """Return the claims of a section, folded under its name and the numbers of their verdicts at each scale."""
    verdicts = [verdict for group in groups for verdict in group]
    scales = dict.fromkeys(verdict.scale for verdict in verdicts)
    counts = "".join(
        f'<span data-scale="{scale}">{escape(_in_short([verdict for verdict in verdicts if verdict.scale == scale]))}</span>'
        for scale in scales
    )
    name = escape(f"{_paper_title(section.partition('/')[0])}: {section_title(section)}")
    page = f'<p><a href="{section}.html">Page of the section</a></p>' if section in pages else ""
    rows = "".join(_row(group, pages) for group in groups)
    line = f'<summary><span class="claim">{name}</span><span class="counts">{counts}</span></summary>'
    return f'<section><details class="group">{line}{page}{rows}</details></section>'


def _in_short(verdicts: Sequence[Verdict]) -> str:
    """Return the numbers of the verdicts at one scale, of those kinds that there are: "digits: 2 hold, 3 not tested"."""
    words = {"holds": "hold", "fails": "fail", "open": "open", "not tested": "not tested"}
    number = Counter(verdict.verdict for verdict in verdicts)
    listed = ", ".join(f"{number[name]} {words[name]}" for name in VERDICTS if number[name])
    return f"{' and '.join(dict.fromkeys(datasets.title(verdict.dataset) for verdict in verdicts))}: {listed}"


def section_title(section: str) -> str:
    """Return the name of a section in words: "Section 4.1, class bias" of "tian2021/4-1-class-bias"."""
    name = section.partition("/")[2]
    number = re.match(r"[\dA-Z](?:-\d+)*(?=-)", name)
    if number is None:
        return name.replace("-", " ")
    return f"Section {number[0].replace('-', '.')}, {name[number.end() + 1 :].replace('-', ' ')}"


def _row(verdicts: Sequence[Verdict], pages: Collection[str]) -> str:
    """Return a claim as a row of the ledger."""
    claim = verdicts[0].claim
    page = f'<a href="{claim.section}.html">Page of the section</a>. ' if claim.section in pages else ""
    attributes = f' id="{anchor(claim)}" data-paper="{claim.paper}" data-section="{claim.section.partition("/")[2]}"'
    return _foldable(verdicts, f'{page}<a href="#{anchor(claim)}">Link to this claim</a>.', attributes)


def _rows_of_page(groups: Sequence[Sequence[Verdict]]) -> str:
    """Return the rows of the page of a section; those of claims that no scale tests are folded below."""
    rows: dict[bool, list[str]] = {True: [], False: []}
    for group in groups:
        rows[any(one.verdict != "not tested" for one in group)].append(_row_elsewhere(group))
    line = f'<summary><span class="claim">{counted(len(rows[False]), "claim")} not tested</span></summary>'
    folded = f'<details class="group">{line}{"".join(rows[False])}</details>' if rows[False] else ""
    return "".join(rows[True]) + folded


def _row_elsewhere(verdicts: Sequence[Verdict]) -> str:
    """Return a claim as a row of the page of its section."""
    claim = verdicts[0].claim
    top = "../" * claim.section.count("/")
    return _foldable(verdicts, f'<a href="{top}{address(claim)}">This claim in the list of all claims</a>.', pictured=True)


def _foldable(verdicts: Sequence[Verdict], links: str, attributes: str = "", *, pictured: bool = False) -> str:
    """Return a row that opens to the measure, the verdicts and links; pictured: intervals are shown while it is folded, too."""
    claim = verdicts[0].claim
    pictures = [interval_picture(verdict) if verdict.verdict != "not tested" else "" for verdict in verdicts]
    badges = "".join(
        f'<span class="badge {_kind(verdict)}" data-scale="{verdict.scale}" data-verdict="{verdict.verdict}">'
        f"{verdict.verdict}: {escape(datasets.title(verdict.dataset))}</span>"
        for verdict in verdicts
    )
    place = f'<span class="place">({escape(claim.where)})</span>'
    facts = (
        f"<p>Holds if {escape(_measured(claim))} is {escape(claim.supported)}. "
        f"The paper: {escape(claims.published_value(claim) or 'no number')}. "
        f"Measure: {escape(claim.measured)}. {links}</p>"
    )
    line = f'<span class="verdicts">{badges}</span><span class="claim">{escape(claim.statement)} {place}</span>'
    if pictured and any(pictures):
        line, pictures = f'<span>{line}</span><span class="pictures">{"".join(pictures)}</span>', [""] * len(verdicts)
    inside = facts + "".join(map(_judged, verdicts, pictures)) + (_LEGEND if any(pictures) else "")
    return f'<details{attributes}><summary>{line}</summary><div class="facts">{inside}</div></details>'


_LEGEND = (
    "<p>Dot and bar: ours, with its interval, an arrow head where that has no end; diamond: the value of the paper; shaded: the "
    "range in which the claim holds.</p>"
)


def _kind(verdict: Verdict) -> str:
    return verdict.verdict.replace(" ", "-")


def _measured(claim: Claim) -> str:
    return "the ratio" if claim.log else "the measure"


def _judged(verdict: Verdict, picture: str) -> str:
    """Return a verdict with its numbers, and a picture below."""
    head = f'<p><span class="badge {_kind(verdict)}"><strong>{escape(verdict.words)}</strong></span>'
    if verdict.verdict == "not tested":
        return f'<div data-scale="{verdict.scale}">{head}: {escape(verdict.reason)}.</p></div>'
    p = "" if verdict.scale == CLOSED_FORM else f"{p_value(verdict.adjusted, 'p (Holm)')}, "
    numbers = f"{claims.measured_value(verdict)} {verdict.claim.unit}, {p}{verdict.sample}"
    return f'<div data-scale="{verdict.scale}">{head}: {escape(numbers)}.</p>{picture}</div>'


def interval_picture(verdict: Verdict) -> str:
    """Return a verdict as SVG: ours (dot) with its interval, the paper's value (diamond), the range of support (shaded)."""
    values, ends = _values(verdict)
    first, last = ends

    def at(value: float) -> float:
        return round(_EDGE + (_WIDTH - 2 * _EDGE) * (value - first) / (last - first), 1)

    marks = [f'<rect x="{at(values["from"])}" y="2" width="{at(values["to"]) - at(values["from"]):.1f}" height="26" {_SHADED}/>']
    marks.append(f'<path d="M{_EDGE} 30H{_WIDTH - _EDGE}" stroke="currentColor" stroke-opacity=".5"/>')
    for tick in ticks(first, last):
        anchored = f'x="{at(tick)}" y="44" text-anchor="middle"'
        marks.append(f'<path d="M{at(tick)} 30v4" stroke="currentColor"/><text {anchored}>{tick:g}</text>')
    colour = VERDICT_COLOURS[verdict.verdict]
    marks.append(f'<path d="M{at(values["low"])} 15H{at(values["high"])}" stroke="{colour}" stroke-width="3"/>')
    for end, turn in (("low", -1), ("high", 1)):
        if values[f"no {end}"]:
            marks.append(f'<path d="M{at(values[end])} 9v12l{7 * turn} -6z" fill="{colour}"/>')
    marks.append(f'<circle cx="{at(values["effect"])}" cy="15" r="5" fill="{colour}"/>')
    if np.isfinite(values["published"]):
        marks.append(f'<path d="M{at(values["published"])} 8l7 7-7 7-7-7z" fill="none" stroke="{_THEIRS}" stroke-width="2.5"/>')
    unit = f'<text x="{_WIDTH - _EDGE}" y="57" text-anchor="end">{escape(verdict.claim.unit)}</text>'
    theirs = claims.published_value(verdict.claim)
    label = f"Ours {claims.measured_value(verdict)}; holds if {verdict.claim.supported}" + (
        f"; the paper {theirs}" if theirs else ""
    )
    size = f'width="{_WIDTH}" height="60" viewBox="0 0 {_WIDTH} 60"'
    return f'<svg {size} role="img" aria-label="{escape(label)}">{"".join(marks)}{unit}</svg>'


_SHADED = f'fill="{_RANGE}" fill-opacity=".25"'


def ticks(first: float, last: float, most: int = 4) -> list[float]:
    """Return at most so many round numbers within an axis, in even steps."""
    reach = max(last - first, 1e-9)
    unit = 10.0 ** np.floor(np.log10(reach))
    steps = [factor * unit for factor in (0.1, 0.2, 0.5, 1, 2, 5)]
    step = next((step for step in steps if np.floor(last / step) - np.ceil(first / step) < most), steps[-1])
    start = int(np.ceil(first / step))
    return [round(number * step, 10) + 0.0 for number in range(start, int(np.floor(last / step)) + 1)]


def _values(verdict: Verdict) -> tuple[dict[str, float], tuple[float, float]]:
    """Return the numbers of a verdict, and the ends of an axis that holds them all and the edge of the range.

    An end that is infinite is at the end of the axis, and its "no low" or "no high" is 1.
    """
    claim = verdict.claim
    theirs = np.nan if claim.theirs is None else float(claim.theirs)
    values = {"effect": verdict.effect, "low": verdict.low, "high": verdict.high, "published": theirs}
    unbounded = {f"no {end}": float(np.isinf(values[end])) for end in ("low", "high")}
    finite = [value for value in (*values.values(), claim.low, claim.high) if np.isfinite(value)]
    reach = max(max(finite) - min(finite), 1e-6)
    first, last = min(finite) - 0.08 * reach, max(finite) + 0.08 * reach
    if claim.unit == "correlation":
        first, last = max(first, -1.0), min(last, 1.0)
    values |= {end: float(np.clip(values[end], first, last)) for end in ("low", "high")}
    values |= {"from": float(np.clip(claim.low, first, last)), "to": float(np.clip(claim.high, first, last))}
    return values | unbounded, (first, last)


def not_tested(verdicts: Sequence[Verdict]) -> str:
    """Return in Markdown how many claims of each section were not tested, for each reason."""
    untested = [verdict for verdict in verdicts if verdict.verdict == "not tested"]
    numbers = Counter((verdict.claim.section, verdict.scale, verdict.reason) for verdict in untested)
    lines = ["| section | results | claims | not tested because |", "|---|---|---|---|"]
    cells = ((section_title(section), _title(scale), number, why) for (section, scale, why), number in numbers.items())
    return "\n".join([*lines, *(_line(*some) for some in cells)])


def notes(misprints: pd.DataFrame) -> str:
    """Return in Markdown what the papers misprint or leave unclear, and how it is read here."""
    lines = ["| paper | where | printed | read as | why |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *(_line(*line) for line in misprints.values)])


def _line(*cells: object) -> str:
    """Return a line of a table in Markdown."""
    return "| " + " | ".join(escaped(str(cell)) for cell in cells) + " |"
