"""What the reports on the papers and the home page say of verdicts: counts with links to the ledger, and a square for each."""

from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib import resources
from itertools import groupby

import numpy as np
import pandas as pd

from classwise.charts.style import VERDICT_COLOURS
from classwise.charts.tables import fold
from classwise.core import datasets
from classwise.core.markup import plural
from classwise.papers import ledger, registry
from classwise.papers.claims import VERDICTS, Verdict
from classwise.papers.scales import CLOSED_FORM, SCALES, dataset_of, display_order, title_of, where
from classwise.stats.significance import p_value


def link(number: int, **chosen: str) -> str:
    """Return a number that links to the page of the claims with its filters set: paper, scale and verdict."""
    if not number:
        return "0"
    words = f"{plural(number, 'claim')}: {', '.join(chosen.values())}"
    return f'<a href="{ledger.address(None, **chosen)}" aria-label="{words}">{number}</a>'


def decisive_verdicts(paper: str, verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """Return the `ledger.decisive` verdicts on a paper, "" for all, by scale, those recorded elsewhere first."""
    of_it = ledger.decisive([verdict for verdict in verdicts if paper in ("", verdict.claim.paper)])
    order = list(SCALES)
    some = sorted(of_it, key=lambda one: (display_order(one.scale), order.index(one.scale) if one.scale in order else 0))
    return {scale: list(group) for scale, group in groupby(some, lambda verdict: verdict.scale)}


def certainty(verdicts: Sequence[Verdict]) -> str:
    """Return a table in HTML of how many claims hold, fail, are open or were not tested, by paper and scale.

    Each number links to these claims.
    """
    lines = []
    for paper in registry.PAPERS.values():
        title = f'<a href="{ledger.address(paper=paper.name)}">{paper.title}</a>'
        for scale, some in decisive_verdicts(paper.name, verdicts).items():
            number = Counter(verdict.verdict for verdict in some)
            numbers = (link(number[name], paper=paper.name, scale=scale, verdict=name) for name in VERDICTS)
            cells = "".join(f"<td>{one}</td>" for one in numbers)
            lines.append(f'<tr><th scope="row">{title}, {title_of(scale)}</th>{cells}</tr>')
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("claims of", *VERDICTS))
    return f'<table class="table certainty"><thead><tr>{heads}</tr></thead><tbody>{"".join(lines)}</tbody></table>'


def mosaic(verdicts: Sequence[Verdict]) -> str:
    """Return a square in HTML for each claim, in the colour of its verdict: a row for each paper and scale, by section.

    A square shows the claim and its numbers in a tooltip, and links to its row of the ledger.
    """
    rows = []
    for paper in registry.PAPERS.values():
        for scale, some in decisive_verdicts(paper.name, verdicts).items():
            sections = (list(group) for _, group in groupby(some, lambda verdict: verdict.claim.section))
            squares = "".join(f"<span>{''.join(map(_square, group))}</span>" for group in sections)
            rows.append(f'<p><span class="of">{escape(f"{paper.title}, {title_of(scale)}")}</span>{squares}</p>')
    colours = "".join(f".mosaic .{name.replace(' ', '-')}{{--verdict:{colour}}}" for name, colour in VERDICT_COLOURS.items())
    kinds = {name.replace(" ", "-"): name for name in VERDICTS} | {"one-run": "outlined: one run of each defence"}
    legend = "".join(f'<span class="key"><i class="{kind}"></i>{name}</span>' for kind, name in kinds.items())
    squares = f'<p>{legend}</p>{"".join(rows)}<div class="tip" aria-hidden="true" hidden></div>'
    style, script = (resources.files("classwise.papers").joinpath(f"mosaic.{kind}").read_text() for kind in ("css", "js"))
    return f'<style>{style}{colours}</style><div class="mosaic">{squares}</div><script>{script}</script>'


def _square(verdict: Verdict) -> str:
    claim = verdict.claim
    why = verdict.reason if verdict.verdict == "not tested" else verdict.numbers
    words = escape(f"{ledger.section_title(claim.section)}. {claim.statement} {verdict.summary.capitalize()}: {why}.")
    # The table of counts is what keyboards and screen readers use: so many stops would hide the rest of the page.
    address = ledger.address(claim, scale=verdict.scale)
    return f'<a class="{ledger.kind(verdict)}" href="{address}" data-words="{words}" tabindex="-1" aria-hidden="true"></a>'


def agreement(verdicts: Sequence[Verdict], recorded: str, computed: str) -> str:
    """Return a table in HTML of how many claims have each pair of verdicts on the datasets of two scales: of the first in rows.

    Of several scales on one dataset the `ledger.decisive` verdicts count.
    """
    images = [dataset_of(scale) for scale in (recorded, computed)]
    names = list(map(datasets.title, images))
    if names[0] == names[1]:
        return f"<p>None: all results are of {names[0]}.</p>"
    of_claim: dict[str, dict[str, str]] = {}
    for verdict in ledger.decisive(verdicts):
        if verdict.scale in SCALES:
            # The first one is on the dataset of the scale itself.
            of_claim.setdefault(ledger.anchor(verdict.claim), {}).setdefault(dataset_of(verdict.scale), verdict.verdict)
    pairs, kinds = Counter(tuple(map(one.get, images)) for one in of_claim.values()), VERDICTS[:3]
    rows, columns = ([f"{kind}, {name}" for kind in kinds] for name in names)
    table = pd.DataFrame([[pairs[row, column] for column in kinds] for row in kinds], index=rows, columns=columns)
    return f"{table.to_html(border=0)}<p>{_kappa(table.to_numpy()[:2, :2], names)}</p>"


def _kappa(decided: np.ndarray, names: Sequence[str]) -> str:
    """Return in words how far verdicts that are decided on both of two datasets agree beyond chance (Cohen 1960)."""
    from scipy.stats import fisher_exact  # slow to import

    number, same = int(decided.sum()), int(np.trace(decided))
    chance = float(decided.sum(0) @ decided.sum(1)) / max(number, 1) ** 2
    if chance in (0, 1):
        return f"Of {plural(number, 'claim')} decided on both, {same} have the same verdict."
    kappa, p = (same / number - chance) / (1 - chance), float(fisher_exact(decided)[1])
    tells = "tell us something" if p < 0.05 else "tell us next to nothing"
    return (
        f"Of {plural(number, 'claim')} decided on both, {same} have the same verdict. Cohen's kappa is {kappa:.2f}, where 0 is "
        f"chance and 1 full agreement ({p_value(p)} by Fisher's exact test): verdicts on {names[1]} {tells} about "
        f"{names[0]}."
    )


def untested_reasons(verdicts: Sequence[Verdict]) -> str:
    """Return why claims were not tested, with the number of verdicts at each scale; "" if all of them were tested."""
    verdicts, parts = ledger.decisive(verdicts), list[str]()
    for scale in sorted({verdict.scale for verdict in verdicts}, key=display_order):
        some = [verdict for verdict in verdicts if verdict.scale == scale and verdict.verdict == "not tested"]
        other = sum(verdict.excluded for verdict in some)
        final = sum(verdict.unreachable and not verdict.excluded for verdict in some)
        reasons = (
            (len(some) - other - final, ("await", "awaits"), "training runs"),
            (final, ("cannot", "cannot"), "be tested with networks and training of this size"),
            (other, ("cannot", "cannot"), "be tested on these images"),
        )
        words = [f"{number} {verbs[number == 1]} {what}" for number, verbs, what in reasons if number]
        if words:
            parts.append(f"on {where(scale)}, {', '.join(words)}")
    return f"*Not tested*: {'; '.join(parts)}." if parts else ""


def verdict(paper: str, verdicts: Sequence[Verdict]) -> str:
    """Return in bold how many of the tested claims hold and fail on each dataset: of a paper, with links, or, "", of all."""
    parts: dict[str, list[Verdict]] = {}
    for scale, some in decisive_verdicts(paper, verdicts).items():
        on = f"{'in the' if scale == CLOSED_FORM else 'on'} {datasets.title(dataset_of(scale))}"
        if tested := [verdict for verdict in some if verdict.tested]:
            parts.setdefault(on, []).extend(tested)
    words = list[str]()
    for on, tested in parts.items():
        number = Counter(verdict.verdict for verdict in tested)
        hold, fail = (name if number[name] < 2 else name[:-1] for name in VERDICTS[:2])
        of = f"{len(tested)}{'' if words else ' tested claims'}"
        words.append(f"{on}, {number['holds'] or 'none'} of {of} {hold} and {number['fails'] or 'none'} {fail}")
    text = "; ".join(words) or "no claim was tested"
    text = f"**{text[:1].upper()}{text[1:]}.**"
    if not paper:
        return text
    links = {"all claims": ledger.address(paper=paper), "those that fail": ledger.address(paper=paper, verdict="fails")}
    more = ", ".join(f'<a href="{address}">{name}</a>' for name, address in links.items())
    return f"{text} See {more}."


def misprints(paper: str) -> str:
    """Return in Markdown what a paper misprints or leaves unclear, folded, and its printed tables as a file."""
    tables = registry.PAPERS[paper].tables
    if tables is None:
        return ""
    notes, numbers = tables.misprints(), len(tables.rows())
    title = f"Misprints and ambiguities ({len(notes)}), and how we read them"
    file = f'<a href="tables/{paper}.csv" download>Its printed tables, {plural(numbers, "number")} (CSV)</a>' if numbers else ""
    return f"{fold(title, ledger.notes(notes))}\n\n{file}"
