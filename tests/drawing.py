"""Charts as Vega draws them, and which of their legends react to a click."""

import json
import re
from collections.abc import Iterator
from typing import Any

import vl_convert

from classwise.charts.primitives import CUE


def drawn(chart: Any, **chosen: Any) -> str:
    """Return the SVG that Vega draws of a chart after some choices; it raises where the specification is invalid."""
    spec = chart.to_dict()
    for param in (param for param in spec.get("params", []) if param["name"] in chosen):
        param["value"] = chosen[param["name"]]
    return vl_convert.vegalite_to_svg(json.dumps(spec))


def _parts(value: Any) -> Iterator[dict[str, Any]]:
    """Return all dictionaries inside a specification."""
    if isinstance(value, dict):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _parts(part)


def text_sizes(svg: str) -> list[float]:
    """Return the sizes of all texts of a drawing, in pixels."""
    return [float(size) for size in re.findall(r'font-size="([\d.]+)px"', svg)]


def width_of(svg: str) -> float:
    """Return the width of a drawing, in pixels."""
    return float(re.findall(r'<svg[^>]* width="([\d.]+)"', svg)[0])


def axes_without_a_panel(chart: Any) -> int:
    """Return how many facets have axes below a place of their last row that has no panel."""
    facets = [part for part in _parts(chart.to_dict()) if isinstance(part.get("facet"), dict) and "columns" in part]
    gaps = [part for part in facets if len(part["facet"]["sort"]) % part["columns"]]
    return sum(part.get("resolve", {}).get("axis", {}).get("x") != "independent" for part in gaps)


def tooltip_titles(chart: Any) -> set[str]:
    """Return the titles of all tooltips."""
    tips = [part["tooltip"] for part in _parts(chart.to_dict()) if isinstance(part.get("tooltip"), list)]
    return {str(tip["title"]) for several in tips for tip in several}


def legend_fields(chart: Any) -> tuple[set[str], set[str], set[str], set[str]]:
    """Return the fields of categories that a legend of colours names, of those with the cue, and of those that can be clicked.

    The last: the fields by which marks fade.
    """
    parts = list(_parts(chart.to_dict()))
    colours = [part["color"] for part in parts if isinstance(part.get("color"), dict) and part["color"].get("type") == "nominal"]
    named = {colour["field"]: str(colour.get("title")) for colour in colours if colour.get("legend", {}) is not None}
    bound = {part["name"]: part["select"]["fields"] for part in parts if part.get("bind") == "legend"}
    opacities = [part["opacity"] for part in parts if isinstance(part.get("opacity"), dict)]
    fading = {opacity["condition"].get("param") for opacity in opacities if "condition" in opacity}
    return (
        set(named),
        {field for field, title in named.items() if CUE in title},
        {field for fields in bound.values() for field in fields},
        {field for name, fields in bound.items() if name in fading for field in fields},
    )


def reacting_legends(chart: Any) -> dict[str, bool]:
    """Return by the title of each legend whether Vega lets it be clicked."""
    legends = [one for part in _parts(vl_convert.vegalite_to_vega(chart.to_json())) for one in part.get("legends", [])]
    return {str(one.get("title")): '"interactive": true' in json.dumps(one) for one in legends}
