"""Descriptions of results, in words and as attributes: provenance, settings and sanity warnings."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import xarray as xr

from classwise.core import results
from classwise.core.errors import unknown
from classwise.core.spec import Evaluation, Spec, Subject
from classwise.papers import registry, scales
from classwise.papers.registry import scale_of
from classwise.papers.scales import SCALES
from classwise.runs import store
from classwise.stats import sanity

# A result, and the fields in which it differs from the others.
Row = tuple[dict[str, Any], xr.Dataset]


def provenance_attributes(rows: Sequence[Row]) -> dict[str, str]:
    """Return the provenance of several results as attributes, each value once."""
    names = ("schema", "version", "commit", "torch", "device", "threads")
    attrs = {name: ", ".join(sorted({str(data.attrs[name]) for _, data in rows})) for name in names}
    created = sorted(str(data.attrs["created"]) for _, data in rows)
    attrs["concerns"] = json.dumps(collected_warnings(rows))
    recorded = sum(bool(data.attrs.get("recorded")) for _, data in rows)
    attrs["recorded"] = "" if not recorded else "all" if recorded == len(rows) else f"{recorded} of {len(rows)}"
    return attrs | {"created": created[0] if created[0] == created[-1] else f"{created[0]} to {created[-1]}"}


def dataset_and_scale(subjects: Sequence[Subject]) -> dict[str, str]:
    """Return the datasets and scales of subjects; other options of a defence or fewer classes do not change the scale."""
    plain = [replace(subject, options={}, classes=()) if isinstance(subject, Spec) else None for subject in subjects]
    names = dict.fromkeys((spec and scale_of(spec)) or "own settings" for spec in plain)
    return {"dataset": ", ".join(dict.fromkeys(subject.dataset for subject in subjects)), "scale": ", ".join(names)}


def collected_warnings(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return the sanity warnings of outcomes, each with the attacks and defences that it applies to."""
    warnings: dict[str, list[str]] = {}

    def warn(sentence: str, name: str) -> None:
        warnings[sentence] = list(dict.fromkeys([*warnings.get(sentence, []), name]))

    groups: dict[str, list[tuple[str, xr.Dataset]]] = {}
    for key, data in rows:
        if data.attrs["schema"] == store.OUTCOMES:
            name = f"{next(iter(key.values()))} under {key['attack']}"
            for sentence in sanity.stored_warnings(data) if data.attrs.get("checks") else ["not checked"]:
                warn(sentence, name)
            evaluation = Evaluation.from_json(data.attrs["evaluation"])
            fields = (evaluation.eps, evaluation.norm, evaluation.split, evaluation.checkpoint, evaluation.transform)
            groups.setdefault(str((data.attrs["spec"], *fields)), []).append((name, data))
    for group in groups.values():
        for name in sanity.black_box_ahead(group):
            warn(sanity.BLACK_BOX_AHEAD, name)
    return warnings


def summary(specs: Sequence[Spec], evaluations: Sequence[Evaluation], data: xr.Dataset) -> str:
    """Return a few sentences on the runs, their evaluations, their provenance and the sanity warnings."""
    first, resolved = specs[0], [evaluation.resolved_for(specs[0]) for evaluation in evaluations]
    last = resolved[-1]
    images = int((data.truth >= 0).any([dim for dim in data.truth.dims if dim != "image"]).sum())
    of = " and ".join(dict.fromkeys(spec.dataset for spec in specs))
    runs = f"{len(specs)} run{'s' * (len(specs) > 1)} on {of}, {first.epochs} epochs, eps {first.eps}"
    probed = f"measured after every {first.measure} epochs by {first.probe}"
    by = ", ".join(dict.fromkeys(evaluation.attack for evaluation in resolved))
    evaluated = f"at the end by {by} at eps {last.eps} on {images} images ({last.split})"
    origin = sources(data)
    names = list(dict.fromkeys(scale_of(spec) for spec in specs))
    noted = [f"scale {name}" + (f" ({SCALES[name].note})" if SCALES[name].note else "") for name in names if name]
    scale = f"{', '.join(noted)}: " if noted and None not in names else ""
    return f"{scale}{runs}; {probed}, {evaluated}. {origin[0].upper()}{origin[1:]}. {sanity_summary(data)}"


def sanity_summary(data: xr.Dataset) -> str:
    """Return the sanity warnings of a combined Dataset in one sentence."""
    if "concerns" not in data.attrs:
        return "No sanity checks were made."
    warnings = json.loads(data.attrs["concerns"])
    if not warnings:
        return "All sanity checks passed."
    return "Sanity warnings: " + "; ".join(f"{sentence} ({', '.join(names)})" for sentence, names in warnings.items()) + "."


def sources(data: xr.Dataset) -> str:
    """Return a line with the device, commit, torch version and date of a combined Dataset."""
    named = [f"{name} {data.attrs[name] or 'unknown'}" for name in ("device", "commit", "torch")]
    days = sorted({moment[:10] for moment in str(data.attrs["created"]).split(" to ")})
    recorded = str(data.attrs.get("recorded", ""))
    how = "computed here" if not recorded else f"{recorded.replace('all', 'all results')} recorded, not computed here"
    return ", ".join([*named, " to ".join(days), how])


def recorded_runs(section: str) -> str:
    """Return for each larger scale how many of a section's runs are recorded, with their device, commit and date."""
    if section not in registry.SECTIONS:
        raise unknown("section", section, registry.SECTIONS)
    lines = []
    for scale in scales.SCALES:
        if scale == "quick":
            continue
        pairs = registry.request(section, scale).pairs
        folders = [
            store.recorded(spec)
            for spec, evaluations in pairs
            if store.complete(store.recorded(spec), [evaluation.resolved_for(spec) for evaluation in evaluations])
        ]
        lines.append(f"Recorded at scale {scale}: {_origin(folders, len(pairs))}")
    return "; ".join(lines) + "."


def _origin(folders: list[Path], total: int) -> str:
    """Return how many of all runs are recorded, and their provenance."""
    if not folders:
        return "none yet"
    attrs = [results.load(folder / "history.nc", store.HISTORY).attrs for folder in folders]
    about = [", ".join(sorted({of_run[name] or "unknown" for of_run in attrs})) for name in ("device", "commit")]
    days = sorted({of_run["created"][:10] for of_run in attrs})
    return f"{len(folders)} of {total} runs ({about[0]}, commit {about[1]}, {' to '.join(dict.fromkeys((days[0], days[-1])))})"


def baselines(names: Iterable[str]) -> dict[str, str]:
    """Return for each named defence with a calibration or averaging the same defence without, if that is named too."""
    from classwise import defences  # torch

    names = list(dict.fromkeys(names))
    plain = {name: defences.baseline_of(name) for name in names}
    return {name: base for name, base in plain.items() if base in names}
