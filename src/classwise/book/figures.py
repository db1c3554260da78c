"""The data behind the charts of the book as CSV: one tidy table for each figure, with columns that the dictionary explains."""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pandas as pd

from classwise.book.dictionary import KEYS, MEASURES
from classwise.core.datasets import DATASETS

# What stands in front of the specification of a chart in the HTML that Altair writes.
_CALL = "})({"
# Columns of charts that are called otherwise in the files; "" leaves a column out, which only places or words marks.
_NAMES = {
    "label": "class",
    "first": "first class",
    "second": "second class",
    "removed": "class left out",
    "images_are": "images are",
    "images_of": "images of",
    "overall": "accuracy",
    "inverse": "1/T",
    "betas": "beta",
    "row": "case",
    "line": "case",
    "metric": "quantity",
    "right": "correct",
    "off": "deviation",
    "the class is": "deviation in words",
    "of": "images of",
    "number": "image",
    "sure": "confidence",
    "light": "lightness",
    "back": "vice versa",
    "sum": "both directions",
    "apart": "difference",
    "value2": "worst class",
    "low2": "worst class, low",
    "high2": "worst class, high",
    "front": "best trade-off",
    "cost": "training seconds",
    "from": "range from",
    "to": "range to",
    "name": "benchmark",
    "peer": "other library",
    "ours_s": "ours, seconds",
    "peer_s": "theirs, seconds",
    "robust_ours": "ours, robust",
    "robust_peer": "theirs, robust",
    "created": "measured",
    "training": "training radius",
    "x1": "robust feature",
    "total": "non-robust features",
    "chance": "uniform number",
    "normal": "normal number",
    "eval_eps": "radius",
    "near": "by trainings, low",
    "far": "by trainings, high",
    "kind": "group",
    "trained": "offset",
    **dict.fromkeys(("align", "at", "before", "dy", "end", "eps", "mistake", "no high", "no low", "sign", "text", "url"), ""),
    **dict.fromkeys(
        ("across", "height", "truth", "verdict in words", "was", "written", "x", "left", "who", "networks", "lost"), ""
    ),
}
# The same in charts that have a certain column.
_SPECIAL: dict[str, dict[str, str]] = {
    "url": {"row": "form", "place": "", "name": ""},
    "claim": {"row": ""},
    "matrix": {"of": "images"},
    "peer": {"cost": "minimum norm", "title": "measurement"},
    "setting": {"name": ""},
    # Over a setting of the training, whose place on the axis is its value.
    "group": {"place": "", "eps": "training radius"},
    "eval_eps": {"place": "", "eps": "training radius"},
    "beta": {"place": ""},
    "partner": {"kind": ""},
}
# In front of the names of methods in columns of whether each classifies an image correctly.
_CORRECT = "correct: "
_CLASSES = set(chain.from_iterable(info.classes for info in DATASETS.values()))


def specification(html: str) -> dict[str, Any] | None:
    """Return the specification of the chart that an output in HTML draws; None if it draws none."""
    if "vegaEmbed(" not in html:
        return None
    start = html.rindex(_CALL) + len(_CALL) - 1
    spec: dict[str, Any] = json.JSONDecoder().raw_decode(html[start:])[0]
    return spec


def table(spec: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows that a chart was made from, as text; empty if they only place marks or hold pictures.

    Charts with several sources of data are one table: columns that a source does not have are empty, and `panel` is the title of
    the panel that shows it, or its number.
    """
    titles, panels = _titles(spec), _panels(spec)
    usual = max(titles.values(), key=len, default="")
    parts = {
        name: _tidy(text, titles.get(name) or usual) for name, text in spec.get("datasets", {}).items() if isinstance(text, str)
    }
    kept = {name: part for name, part in parts.items() if set(part.columns) & (set(KEYS) - {"quantity"})}
    if not kept:
        return pd.DataFrame()
    if len({panels.get(name, "") for name in kept}) > 1 and not any("claim" in part for part in kept.values()):
        kept = {name: part.assign(panel=panels.get(name, "")) for name, part in kept.items()}
    rows = pd.concat(kept.values(), ignore_index=True).fillna("").drop_duplicates(ignore_index=True)
    order = [name for name in (*KEYS, *MEASURES) if name in rows]
    return rows[[*order, *(name for name in rows if name not in order)]].replace("\n", "; ", regex=True)


def _tidy(text: str, title: str) -> pd.DataFrame:
    """Return the rows of one source of data under the names of the dictionary; title: of the column `value`."""
    rows = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    names = dict(_NAMES)
    for column, special in _SPECIAL.items():
        names |= special if column in rows else {}
    if "step" in rows and not rows["step"].str.isdigit().all():
        names["step"] = "from attack to attack"
    if len(classes := [name for name in rows if name in _CLASSES]) > 1:
        rows = rows.melt([name for name in rows if name not in classes], classes, "predicted", "confidence")
    if methods := [name for name in rows if str(name).startswith(_CORRECT)]:
        rows = rows.melt([name for name in rows if name not in methods], methods, "method", "correct")
        rows["method"] = rows["method"].str.removeprefix(_CORRECT)
    rows = rows.drop(columns=[name for name in rows if names.get(str(name)) == ""]).rename(columns=names)
    if "value" in rows and "quantity" not in rows:
        rows.insert(0, "quantity", title)
    return rows


def _titles(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return by source of data the longest title that the chart gives to its column `value`, which has the unit."""
    titles: dict[str, str] = {}
    for source, channel in _channels(spec, ""):
        title = str(channel.get("title") or (channel.get("axis") or {}).get("title") or channel.get("field"))
        if channel.get("field") == "value" and len(title) > len(titles.get(source, "")):
            titles[source] = title
    return titles


def _panels(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the panel that draws each source of data of a chart of several panels: its title, or its number if titles repeat."""
    parts: list[Any] = next((spec[name] for name in ("concat", "hconcat", "vconcat") if name in spec), [])
    titles = [_text(part.get("title")) for part in parts]
    names = titles if len(set(titles)) == len(titles) else [str(number) for number, _ in enumerate(titles, 1)]
    return {source: name for part, name in zip(parts, names, strict=True) for source in _sources(part)}


def _text(title: Any) -> str:
    words = title.get("text") if isinstance(title, Mapping) else title
    return " ".join(words) if isinstance(words, list) else str(words or "")


def _sources(node: Any) -> Iterator[str]:
    """Yield the names of the data that a part of a specification draws."""
    if isinstance(node, Mapping):
        if "name" in (node.get("data") or {}):
            yield node["data"]["name"]
        for part in node.values():
            yield from _sources(part)
    elif isinstance(node, list):
        for part in node:
            yield from _sources(part)


def _channels(node: Any, source: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each channel of each encoding below a node of a specification, with the name of its data."""
    if isinstance(node, Sequence) and not isinstance(node, str):
        for part in node:
            yield from _channels(part, source)
    if not isinstance(node, Mapping):
        return
    source = (node.get("data") or {}).get("name", source)
    for channel in (node.get("encoding") or {}).values():
        parts = channel if isinstance(channel, list) else [channel]
        yield from ((source, part) for part in parts if isinstance(part, Mapping))
    for name, part in node.items():
        if name not in ("data", "datasets", "encoding"):
            yield from _channels(part, source)
