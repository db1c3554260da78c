"""What can be said of results: where they come from, what speaks against believing them, in words and as attributes."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import xarray as xr

from classwise.core import results
from classwise.core.audit import Subject
from classwise.core.errors import unknown
from classwise.core.spec import Evaluation, Spec
from classwise.papers import registry, scales
from classwise.papers.registry import scale_of
from classwise.papers.scales import SCALES
from classwise.runs import store
from classwise.stats import sanity
from classwise.stats.sanity import black_box_ahead

# A result, and the fields that tell it from the others.
Row = tuple[dict[str, Any], xr.Dataset]


def provenance_attributes(rows: Sequence[Row]) -> dict[str, str]:
    """Return what the runs say of where they come from, each thing once."""
    names = ("schema", "version", "commit", "torch", "device", "threads")
    attrs = {name: ", ".join(sorted({str(data.attrs[name]) for _, data in rows})) for name in names}
    created = sorted(str(data.attrs["created"]) for _, data in rows)
    attrs["concerns"] = json.dumps(collected_warnings(rows))
    recorded = sum(bool(data.attrs.get("recorded")) for _, data in rows)
    attrs["recorded"] = "" if not recorded else "all" if recorded == len(rows) else f"{recorded} of {len(rows)}"
    return attrs | {"created": created[0] if created[0] == created[-1] else f"{created[0]} to {created[-1]}"}


def dataset_and_scale(specs: Sequence[Subject]) -> dict[str, str]:
    """Return which dataset and scale runs speak of; other options of a defence, or classes left out, are of the same scale."""
    scales = [scale_of(replace(one, options={}, classes=())) if isinstance(one, Spec) else None for one in specs]
    named = dict.fromkeys(name or "own settings" for name in scales)
    return {"dataset": ", ".join(dict.fromkeys(one.dataset for one in specs)), "scale": ", ".join(named)}


def collected_warnings(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return what speaks against believing the outcomes, with the attacks and defences that it is said of."""
    found: dict[str, list[str]] = {}

    def say(sentence: str, name: str) -> None:
        found[sentence] = list(dict.fromkeys([*found.get(sentence, []), name]))

    runs: dict[str, list[tuple[str, xr.Dataset]]] = {}
    for key, data in rows:
        if data.attrs["schema"] == store.OUTCOMES:
            name = f"{next(iter(key.values()))} under {key['attack']}"
            for sentence in sanity.stored_warnings(data) if data.attrs.get("checks") else ["not checked"]:
                say(sentence, name)
            asked = Evaluation.from_json(data.attrs["evaluation"])
            problem = str((data.attrs["spec"], asked.eps, asked.norm, asked.split, asked.checkpoint, asked.transform))
            runs.setdefault(problem, []).append((name, data))
    for answers in runs.values():
        for name in black_box_ahead(answers):
            say("a black-box attack breaks what none with gradients does", name)
    return found


def summary(specs: Sequence[Spec], evaluations: Sequence[Evaluation], data: xr.Dataset) -> str:
    """Return in a few sentences what was run and asked, and where the numbers come from."""
    first, asked = specs[0], [one.of(specs[0]) for one in evaluations]
    last = asked[-1]
    images = int((data.truth >= 0).any([dim for dim in data.truth.dims if dim != "image"]).sum())
    of = " and ".join(dict.fromkeys(spec.dataset for spec in specs))
    runs = f"{len(specs)} run{'s' * (len(specs) > 1)} on {of}, {first.epochs} epochs, eps {first.eps}"
    probed = f"measured after every {first.measure} epochs by {first.probe}"
    by = ", ".join(dict.fromkeys(one.attack for one in asked))
    ended = f"at the end by {by} at eps {last.eps} on {images} images ({last.split})"
    found = sources(data)
    scales = list(dict.fromkeys(scale_of(spec) for spec in specs))
    said = [f"scale {name}" + (f" ({SCALES[name].says})" if SCALES[name].says else "") for name in scales if name]
    sized = f"{', '.join(said)}: " if said and None not in scales else ""
    return f"{sized}{runs}; {probed}, {ended}. {found[0].upper()}{found[1:]}. {sanity_summary(data)}"


def sanity_summary(data: xr.Dataset) -> str:
    """Return in a sentence or a few what speaks against believing the outcomes of a combined Dataset."""
    if "concerns" not in data.attrs:
        return "Nothing was checked for believability."
    said = json.loads(data.attrs["concerns"])
    if not said:
        return "The checks of believability (`outcomes.soundness`) found nothing."
    return "To doubt: " + "; ".join(f"{sentence} ({', '.join(names)})" for sentence, names in said.items()) + "."


def sources(data: xr.Dataset) -> str:
    """Return in one line where the numbers of a combined Dataset come from."""
    named = [f"{name} {data.attrs[name] or 'unknown'}" for name in ("device", "commit", "torch")]
    days = sorted({moment[:10] for moment in str(data.attrs["created"]).split(" to ")})
    recorded = str(data.attrs.get("recorded", ""))
    how = "computed here" if not recorded else f"{recorded.replace('all', 'all results')} recorded, not computed here"
    return ", ".join([*named, " to ".join(days), how])


def recorded_runs(section: str) -> str:
    """Return a line for each bigger scale: how many of a section's runs are recorded, on what device, when, from which commit."""
    if section not in registry.SECTIONS:
        raise unknown("section", section, registry.SECTIONS)
    lines = []
    for scale in scales.SCALES:
        if scale == "quick":
            continue
        asked = registry.request(section, scale).asked
        there = [
            store.recorded(spec)
            for spec, evaluations in asked
            if store.complete(store.recorded(spec), [one.of(spec) for one in evaluations])
        ]
        lines.append(f"Recorded at scale {scale}: {_told(there, len(asked))}")
    return "; ".join(lines) + "."


def _told(folders: list[Path], asked: int) -> str:
    """Return how many runs there are, and where they come from."""
    if not folders:
        return "none yet"
    attrs = [results.load(folder / "history.nc", store.HISTORY).attrs for folder in folders]
    about = [", ".join(sorted({one[name] or "unknown" for one in attrs})) for name in ("device", "commit")]
    days = sorted({one["created"][:10] for one in attrs})
    return f"{len(folders)} of {asked} runs ({about[0]}, commit {about[1]}, {' to '.join(dict.fromkeys((days[0], days[-1])))})"


def baselines(names: Iterable[str]) -> dict[str, str]:
    """Return of each named defence that calibrates or averages the one that it adds this to, where both are named."""
    from classwise import defences  # torch

    asked = list(dict.fromkeys(names))
    plain = {name: defences.baseline_of(name) for name in asked}
    return {name: base for name, base in plain.items() if base in asked}
