"""The data behind the charts of the book as CSV: one tidy table for each figure, with columns that the dictionary explains."""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import pandas as pd

from classwise.book.data import KEYS, MEASURES, column_names
from classwise.charts.explorers import CORRECT
from classwise.core.datasets import DATASETS
from classwise.core.markup import CHART

if TYPE_CHECKING:
    from nbformat import NotebookNode

_CLASSES = set(chain.from_iterable(info.classes for info in DATASETS.values()))


def specifications(outputs: Sequence["NotebookNode"]) -> list[dict[str, Any]]:
    """Return the specifications of the charts among the outputs of a cell."""
    return [json.loads("".join(output["data"][CHART])) for output in outputs if CHART in output.get("data", {})]


def table(spec: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows that a chart was made from, as text; empty if they only place marks or hold pictures.

    Charts with several sources of data are one table: columns that a source does not have are empty, and `panel` is the title of
    the panel that shows it, or its number.
    """
    titles: dict[str, str] = {}
    for source, channel in _channels(spec):
        if channel.get("field") == "value":
            title = str(channel.get("title") or (channel.get("axis") or {}).get("title") or "value")
            titles[source] = max(titles.get(source, ""), title, key=len)  # the longest one has the unit
    panels, usual = _panels(spec), max(titles.values(), key=len, default="")
    texts = {name: text for name, text in spec.get("datasets", {}).items() if isinstance(text, str)}
    parts = {name: _tidy(text, titles.get(name) or usual) for name, text in texts.items()}
    kept = {name: part for name, part in parts.items() if set(part.columns) & (set(KEYS) - {"quantity"})}
    if not kept:
        return pd.DataFrame()
    if len({panels.get(name, "") for name in kept}) > 1 and not any("claim" in part for part in kept.values()):
        kept = {name: part.assign(panel=panels.get(name, "")) for name, part in kept.items()}
    rows = pd.concat(kept.values(), ignore_index=True).fillna("").drop_duplicates(ignore_index=True)
    order = [name for name in (*KEYS, *MEASURES) if name in rows]
    return rows[[*order, *(name for name in rows if name not in order)]].replace("\n", "; ", regex=True)


def _tidy(text: str, title: str) -> pd.DataFrame:
    rows = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    names = column_names(rows.columns)
    if "step" in rows and not rows["step"].str.isdigit().all():
        names["step"] = "from attack to attack"
    if len(classes := [name for name in rows if name in _CLASSES]) > 1:
        rows = rows.melt([name for name in rows if name not in classes], classes, "predicted", "confidence")
    if methods := [name for name in rows if str(name).startswith(CORRECT)]:
        rows = rows.melt([name for name in rows if name not in methods], methods, "method", "correct")
        rows["method"] = rows["method"].str.removeprefix(CORRECT)
    rows = rows.drop(columns=[name for name in rows if names.get(str(name)) == ""]).rename(columns=names)
    if "value" in rows and "quantity" not in rows:
        rows.insert(0, "quantity", title)
    return rows


def _panels(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the panel that draws each source of data of a chart of several panels: its title, or its number if titles repeat."""
    parts: list[Any] = next((spec[name] for name in ("concat", "hconcat", "vconcat") if name in spec), [])
    texts = [title.get("text") if isinstance(title := part.get("title"), Mapping) else title for part in parts]
    titles = [" ".join(text) if isinstance(text, list) else str(text or "") for text in texts]
    names = titles if len(set(titles)) == len(titles) else [str(number) for number, _ in enumerate(titles, 1)]
    return {source: name for part, name in zip(parts, names, strict=True) for source, _ in _channels(part)}


def _channels(node: Any, source: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each channel of each encoding below a node of a specification, with the name of its data."""
    if isinstance(node, list):
        for part in node:
            yield from _channels(part, source)
    elif isinstance(node, Mapping):
        source = (node.get("data") or {}).get("name", source)
        for channel in (node.get("encoding") or {}).values():
            parts = channel if isinstance(channel, list) else [channel]
            yield from ((source, part) for part in parts if isinstance(part, Mapping))
        for name, part in node.items():
            if name not in ("data", "datasets", "encoding"):
                yield from _channels(part, source)
