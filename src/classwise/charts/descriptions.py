"""Titles of charts, and their text alternatives: what a chart shows, in a sentence with numbers computed from its data."""

import html
import math
import re
import textwrap
from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from classwise.charts.style import CLASSES
from classwise.core.markup import printed_name

# Letters in a line of a title and of a subtitle.
_TITLE, _SUBTITLE = 60, 84
# What a subtitle says of `primitives.class_lines`.
LINES = "Blue: highest at the end. Orange: lowest. Grey: all others."


def describe(chart: Any, title: str, text: str, subtitle: str = "") -> Any:
    """Return a chart with a title, and with `text` as its description, which screen readers read in place of the drawing."""
    lines: dict[str, Any] = {"subtitle": textwrap.wrap(subtitle, _SUBTITLE)} if subtitle else {}
    return chart.properties(title=alt.Title(title_lines(title), **lines), description=text)


def title_lines(title: str) -> list[str]:
    """Return the lines, of about the same length, of a title whose entities of HTML become characters."""
    title = re.sub(r"(?<![\w.-])-(?=\d)", "\u2212", html.unescape(title).replace(" %", "\u00a0%"))
    return textwrap.wrap(title, len(title) // (len(title) // (_TITLE + 1) + 1) + 6, break_on_hyphens=False)


def headline(chart: Any, finding: str) -> Any:
    """Return a chart whose title is a finding; what its title said until then begins its subtitle."""
    above = chart.title.to_dict()
    lines = [" ".join(above[name]) for name in ("text", "subtitle") if name in above]
    return describe(chart, finding, chart.description, ". ".join(lines))


def panel_title(text: str) -> alt.Title:
    return alt.Title(text, anchor="start", fontWeight="normal", fontSize=12)


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# How the members of a column are named in a sentence.
_NAMED = {
    "label": "class {}",
    "predicted": "predicted as {}",
    "epoch": "epoch {}",
    "seed": "seed {}",
    "removed": "without class {}",
    "eps": "radius {}",
    "inverse": "1/T = {}",
    "images_are": "{} images",
    "betas": "beta {}",
}


def extent(table: pd.DataFrame, names: Sequence[str], what: str, unit: str = "%", column: str = "value", digits: int = 0) -> str:
    """Return the lowest and the highest number of a column in a sentence.

    "Accuracy, 10 classes: 27 % (class 8) to 90 % (class 0)." names: the columns that name a row; one that has a single member is
    left out. unit: written after each number, "" for none.
    """
    rows = table[table[column].notna()]
    if rows.empty:
        return f"{what}: no values."
    number = rows["label"].nunique() if "label" in names else 1
    of = f", {number} classes" if number > 1 else ""
    ends = rows.iloc[rows[column].argmin()], rows.iloc[rows[column].argmax()]
    low, high = (f"{row[column]:.{digits}f} {unit}".rstrip() + _where(rows, names, row) for row in ends)
    return f"{capital(what)}{of}: {low} to {high}."


def digits_of(values: pd.Series) -> int:
    """Return how many digits after the point the largest of values needs: 0 from 20 on, 1 from 2 on, else 2, below .01 more."""
    largest = values.abs().max()
    return 0 if largest >= 20 else 1 if largest >= 2 else max(2, -math.floor(math.log10(largest))) if largest > 0 else 2


def largest(table: pd.DataFrame, names: Sequence[str], what: str) -> str:
    """Return the highest number of the column value, in percent, in a sentence, as `extent` does."""
    if table.empty:
        return f"{what}: no values."
    row = table.iloc[table["value"].argmax()]
    return f"{capital(what)}: {row['value']:.0f} %{_where(table, names, row)}."


def _where(rows: pd.DataFrame, names: Sequence[str], row: pd.Series) -> str:
    """Return what sets a row apart from others: " (class 8, epoch 2)"."""
    values = {name: row[name] for name in names if rows[name].nunique() > 1}
    plain = {name: f"{value:g}" if isinstance(value, float) else value for name, value in values.items()}
    printed = {name: value if name in CLASSES else printed_name(str(value)) for name, value in plain.items()}
    words = ", ".join(_NAMED.get(name, "{}").format(value) for name, value in printed.items())
    return f" ({words})" if words else ""
