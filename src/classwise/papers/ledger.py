"""The ledger: every claim with its verdicts as a row that opens in place, with pictures of their intervals, and counts."""

import csv
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from types import MappingProxyType
from urllib.parse import urlencode

import numpy as np
import pandas as pd

from classwise.charts.style import VERDICT_COLOURS
from classwise.core.markup import plural
from classwise.papers import claims
from classwise.papers.claims import VERDICTS, Claim, Verdict
from classwise.papers.scales import CLOSED_FORM, SCALES, dataset_of, display_order, location, origin
from classwise.stats.significance import p_value

# The picture of a verdict in pixels: its width and margin.
_WIDTH, _EDGE = 240, 18


def anchor(claim: Claim) -> str:
    """Return the id of the row of a claim: "tian2021-4-1-class-bias-gap"."""
    return f"{claim.section.replace('/', '-')}-{claim.name}"


def address(claim: Claim | None = None, **filters: str) -> str:
    """Return the address of the page of the ledger, with filters (paper, section, scale, verdict) and the row of a claim."""
    query = urlencode({name: value for name, value in filters.items() if value})
    return "claims.html" + (f"?{query}" if query else "") + (f"#{anchor(claim)}" if claim else "")


def decisive(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts that count: on photographs those at the level of the papers where that tests a claim, else the others.

    A claim that no recorded scale tests counts once: where it is described, else at the last one that has a verdict on it.
    """
    first, *others = [name for name, size in SCALES.items() if size.recorded_only]

    def level(one: Verdict) -> int:
        return 2 if one.tested else VERDICTS[::-1].index(one.verdict)

    best: dict[tuple[bool, str], int] = {}
    for one in verdicts:
        if one.scale == first or one.scale in others:
            place = one.scale == first, anchor(one.claim)
            best[place] = max(best.get(place, -1), level(one))

    def counts(one: Verdict) -> bool:
        ahead, behind = (best.get((place, anchor(one.claim)), -1) for place in (True, False))
        if one.scale == first:
            return level(one) == ahead and (ahead >= behind if ahead else behind < 0)
        return one.scale not in others or not ahead or ahead < behind or (anchor(one.claim), one.dataset) not in chosen

    chosen = {(anchor(one.claim), one.dataset) for one in verdicts if one.scale == first and level(one) > 0}
    return [one for one in verdicts if counts(one)]


def opening(verdicts: Sequence[Verdict]) -> str:
    """Return for each scale how many claims hold, fail, are open or are not tested, of the `decisive` verdicts."""
    verdicts, parts = decisive(verdicts), list[str]()
    for scale in dict.fromkeys(sorted((verdict.scale for verdict in verdicts), key=display_order)):
        some = [verdict for verdict in verdicts if verdict.scale == scale]
        parts.append(f"On {'the ' if scale == CLOSED_FORM else ''}{_title(scale)}: {numbers(some)}.")
    return " ".join(parts) or "No claim was judged."


def _title(scale: str) -> str:
    return origin(dataset_of(scale), scale)


def numbers(verdicts: Sequence[Verdict]) -> str:
    """Return the numbers of verdicts, of those kinds that there are: "2 hold, 1 fails, 3 not tested"."""
    number = Counter(verdict.verdict for verdict in verdicts)
    return ", ".join(
        f"{number[name]} {name if number[name] == 1 else name.removesuffix('s')}" for name in VERDICTS if number[name]
    )


def remark(verdict: Verdict) -> str:
    """Return why a claim fails or stays open, in a sentence of remarks.csv on this verdict and its trainings; "" without one."""
    return _remarks().get(_place(verdict), "")


def _place(verdict: Verdict) -> tuple[str, ...]:
    claim = verdict.claim
    return claim.section, claim.name, verdict.scale, verdict.dataset, verdict.verdict, str(verdict.seeds)


@cache
def _remarks() -> dict[tuple[str, ...], str]:
    _, *lines = csv.reader(resources.files("classwise.papers").joinpath("remarks.csv").read_text(encoding="utf-8").splitlines())
    return {tuple(place): text for *place, text in lines}


def claims_list(verdicts: Sequence[Verdict], pages: Collection[str] = (), *, filters: bool = True) -> str:
    """Return the ledger as HTML: a row for each claim, which opens to its measure, its verdicts and their intervals.

    pages: the sections that have a page, to which rows link. filters: controls above the list; they are also set by the address
    of the page (see `address`), and an id in it opens its row. Without them the list is that of the page of a section: it begins
    with the numbers of its verdicts, has no titles and no ids, shows the intervals next to the claims (a forest plot), its rows
    link to those of the ledger, and those of claims that no scale tests are folded.
    """
    groups: dict[str, dict[str, list[Verdict]]] = {}
    for one in verdicts:
        groups.setdefault(one.claim.section, {}).setdefault(anchor(one.claim), []).append(one)
    up = "../" * (verdicts[0].claim.section.count("/") if verdicts and not filters else 0)
    how = f'<a href="{up}guide/reading.html#claims">How to read a claim</a>'
    folder = resources.files("classwise.papers")
    style, script = (folder.joinpath(f"ledger.{kind}").read_text() for kind in ("css", "js"))
    if filters:
        rates = false_discovery_rates(verdicts)
        body = "".join(_section(section, [*some.values()], section in pages, rates) for section, some in groups.items())
        tests = f"<p>q is corrected for all {len(rates)} tests of the book. {how}</p>" * bool(rates)
        body = f"{_controls(verdicts)}{tests}{body}"
        return f'<style>{style}</style><div class="ledger">{body}</div><script>{script}</script>'
    tested: dict[bool, list[str]] = {True: [], False: []}
    for group in (group for some in groups.values() for group in some.values()):
        top = "../" * group[0].claim.section.count("/")
        link = f'<a href="{top}{address(group[0].claim)}">This claim in the list of all claims</a>.'
        tested[any(one.verdict != "not tested" for one in group)].append(_foldable(group, link, pictured=True))
    head = f"<p>{escape(opening(verdicts))} {how}</p>"
    line = f'<summary><span class="claim">{plural(len(tested[False]), "claim")} not tested</span></summary>'
    folded = f'<details class="group">{line}{"".join(tested[False])}</details>' if tested[False] else ""
    return f'<style>{style}</style><div class="ledger">{head}{"".join(tested[True])}{folded}</div>'


def _controls(verdicts: Sequence[Verdict]) -> str:
    options = {
        "paper": {one.claim.paper: _paper_title(one.claim.paper) for one in verdicts},
        "section": {one.claim.section.partition("/")[2]: section_title(one.claim.section) for one in verdicts},
        "scale": {one.scale: _title(one.scale) for one in verdicts},
        "verdict": {name: name for name in VERDICTS if any(one.verdict == name for one in verdicts)},
    }
    boxes = ""
    for name, titles in options.items():
        lines = "".join(f'<option value="{escape(value)}">{escape(title)}</option>' for value, title in titles.items())
        label = "dataset" if name == "scale" else name
        boxes += f'<label>{label} <select name="{name}"><option value="">all</option>{lines}</select></label>'
    return f'<form aria-label="filters">{boxes}<output></output></form>'


def _paper_title(paper: str) -> str:
    return re.sub(r"(?=\d)", " ", paper, count=1).capitalize()


def _section(section: str, groups: Sequence[Sequence[Verdict]], linked: bool, rates: Mapping[int, float]) -> str:
    scales: dict[str, list[Verdict]] = {}
    for one in decisive([verdict for group in groups for verdict in group]):
        scales.setdefault(one.scale, []).append(one)
    counts = ""
    for scale, some in scales.items():
        tested = [verdict for verdict in some if verdict.verdict != "not tested"]
        on = " and ".join(dict.fromkeys(location(verdict.dataset, scale) for verdict in tested or some))
        counts += f'<span data-scale="{scale}">{escape(f"{on}: {numbers(some)}")}</span>'
    paper, _, short = section.partition("/")
    name = escape(f"{_paper_title(paper)}: {section_title(section)}")
    page = f'<a href="{section}.html">Page of the section</a>' * linked
    rows = ""
    for group in groups:
        link = f'{page}{". " * linked}<a href="#{anchor(group[0].claim)}">Link to this claim</a>.'
        rows += _foldable(group, link, f' id="{anchor(group[0].claim)}" data-paper="{paper}" data-section="{short}"', rates=rates)
    line = f'<summary><span class="claim">{name}</span><span class="counts">{counts}</span></summary>'
    return f'<section><details class="group">{line}{f"<p>{page}</p>" * linked}{rows}</details></section>'


def section_title(section: str) -> str:
    """Return the name of a section in words: "Section 4.1, class bias" of "tian2021/4-1-class-bias"."""
    name = section.partition("/")[2]
    number, _, words = re.sub(r"^([\dA-Z](?:-\d+[a-z]?)*)-", r"\1 ", name).rpartition(" ")
    return f"Section {number.replace('-', '.')}, {words.replace('-', ' ')}" if number else words.replace("-", " ")


def _foldable(
    verdicts: Sequence[Verdict],
    links: str,
    attributes: str = "",
    *,
    pictured: bool = False,
    rates: Mapping[int, float] = MappingProxyType({}),
) -> str:
    claim = verdicts[0].claim
    pictures = [interval_picture(verdict) if verdict.verdict != "not tested" else "" for verdict in verdicts]
    counting = decisive(verdicts)
    badges = ""
    for verdict in verdicts:
        filtered = f' data-verdict="{verdict.verdict}"' if verdict in counting else ""
        words = f"{verdict.summary}: {escape(location(verdict.dataset, verdict.scale))}"
        badges += f'<span class="badge {kind(verdict)}" data-scale="{verdict.scale}"{filtered}>{words}</span>'
    place = f'<span class="place">({escape(claim.where)})</span>'
    facts = (
        f"<p>Holds if the {'ratio' if claim.log else 'measure'} is {escape(claim.supported)}. "
        f"The paper: {escape(claims.published_value(claim) or 'no number')}. Measure: {escape(claim.measured)}. {links}</p>"
    )
    line = f'<span class="verdicts">{badges}</span><span class="claim">{escape(claim.statement)} {place}</span>'
    why = "".join(
        f'<span class="remark">{escape(f"{location(verdict.dataset, verdict.scale)}: {remark(verdict)}")}</span>'
        for verdict in verdicts
        if remark(verdict)
    )
    if pictured and any(pictures):
        line, pictures = f'<span>{line}{why}</span><span class="pictures">{"".join(pictures)}</span>', [""] * len(verdicts)
    else:
        facts += why
    inside = facts + "".join(_judged(*both, rates) for both in zip(verdicts, pictures, strict=True))
    return f'<details{attributes}><summary>{line}</summary><div class="facts">{inside}</div></details>'


def kind(verdict: Verdict) -> str:
    """Return the classes in HTML of what shows a verdict: "not-tested", "holds one-run"."""
    return verdict.verdict.replace(" ", "-") + " one-run" * (verdict.seeds == 1)


def _judged(verdict: Verdict, picture: str, rates: Mapping[int, float]) -> str:
    text = verdict.reason
    if verdict.verdict != "not tested":
        q = f"{p_value(rates[id(verdict)], 'q (Benjamini-Hochberg)')}, " if id(verdict) in rates else ""
        text = f"{verdict.numbers}, {verdict.p_values}{q}{verdict.sample}" + (f"; {verdict.reason}" if verdict.reason else "")
    head = f'<span class="badge {kind(verdict)}"><strong>{escape(verdict.words)}</strong></span>'
    return f'<div data-scale="{verdict.scale}"><p>{head}: {escape(text)}.</p>{picture}</div>'


def false_discovery_rates(verdicts: Sequence[Verdict]) -> dict[int, float]:
    """Return the p-values of all tested verdicts as corrected for all of them (Benjamini and Hochberg 1995), by id."""
    from statsmodels.stats.multitest import multipletests  # slow to import

    tested = [one for one in verdicts if not np.isnan(one.p)]
    rates = multipletests([one.p for one in tested], method="fdr_bh")[1] if tested else []
    return dict(zip(map(id, tested), map(float, rates), strict=True))


def interval_picture(verdict: Verdict) -> str:
    """Return a verdict as SVG: ours (dot) with its interval, the paper's value (diamond), the range of support (shaded).

    An end that is infinite lies at the end of the axis, with an arrow head.
    """
    claim, theirs = verdict.claim, claims.published_value(verdict.claim)
    numbers = (verdict.effect, verdict.low, verdict.high, claim.low, claim.high, np.nan if claim.theirs is None else claim.theirs)
    finite = [number for number in numbers if np.isfinite(number)]
    edge = 0.08 * max(max(finite) - min(finite), 1e-6)
    first, last = min(finite) - edge, max(finite) + edge
    if claim.unit == "correlation":
        first, last = max(first, -1.0), min(last, 1.0)

    def place(value: float) -> float:
        return round(float(_EDGE + (_WIDTH - 2 * _EDGE) * (np.clip(value, first, last) - first) / (last - first)), 1)

    colour = VERDICT_COLOURS[verdict.verdict]
    start, width = place(claim.low), place(claim.high) - place(claim.low)
    marks = [f'<rect x="{start}" y="2" width="{width:.1f}" height="26" fill="#2a9d8f" fill-opacity=".25"/>']
    marks.append(f'<path d="M{_EDGE} 30H{_WIDTH - _EDGE}" stroke="currentColor" stroke-opacity=".5"/>')
    for tick in ticks(first, last):
        label = f'<text x="{place(tick)}" y="44" text-anchor="middle">{tick:g}</text>'
        marks.append(f'<path d="M{place(tick)} 30v4" stroke="currentColor"/>{label}')
    marks.append(f'<path d="M{place(verdict.low)} 15H{place(verdict.high)}" stroke="{colour}" stroke-width="3"/>')
    for end, turn in ((verdict.low, -1), (verdict.high, 1)):
        marks += [f'<path d="M{place(end)} 9v12l{7 * turn} -6z" fill="{colour}"/>'] * bool(np.isinf(end))
    marks.append(f'<circle cx="{place(verdict.effect)}" cy="15" r="5" fill="{colour}"/>')
    if claim.theirs is not None:
        marks.append(f'<path d="M{place(claim.theirs)} 8l7 7-7 7-7-7z" fill="none" stroke="#8268dc" stroke-width="2.5"/>')
    marks.append(f'<text x="{_WIDTH - _EDGE}" y="57" text-anchor="end">{escape(claim.unit)}</text>')
    words = f"Ours {claims.measured_value(verdict)}; holds if {claim.supported}{f'; the paper {theirs}' if theirs else ''}"
    size = f'width="{_WIDTH}" height="60" viewBox="0 0 {_WIDTH} 60"'
    return f'<svg {size} role="img" aria-label="{escape(words)}">{"".join(marks)}</svg>'


def ticks(first: float, last: float, most: int = 4) -> list[float]:
    """Return at most so many round numbers within an axis, in even steps."""
    unit = 10.0 ** np.floor(np.log10(max(last - first, 1e-9)))
    steps = [factor * unit for factor in (0.1, 0.2, 0.5, 1, 2, 5)]
    step = next((step for step in steps if np.floor(last / step) - np.ceil(first / step) < most), steps[-1])
    return [round(float(number * step), 10) + 0.0 for number in np.arange(np.ceil(first / step), np.floor(last / step) + 1)]


def not_tested(verdicts: Sequence[Verdict]) -> str:
    """Return as a table in HTML how many claims of each section were not tested, for each reason."""
    untested = (one for one in verdicts if one.verdict == "not tested")
    numbers = Counter((section_title(one.claim.section), _title(one.scale), one.reason) for one in untested)
    return notes(pd.DataFrame([(*key, n) for key, n in numbers.items()], columns=["section", "results", "reason", "claims"]))


def notes(table: pd.DataFrame) -> str:
    """Return a table of notes in HTML: of what the papers misprint or leave unclear (`registry.misprints`)."""
    with pd.option_context("display.max_colwidth", None):
        return table.to_html(index=False, border=0, justify="left")
