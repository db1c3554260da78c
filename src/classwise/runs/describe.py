"""Descriptions of results, in words and as attributes: provenance, settings and sanity warnings."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import h5py
import xarray as xr

from classwise.core import results
from classwise.core.markup import plural
from classwise.core.spec import Evaluation, Spec, Subject
from classwise.papers import registry
from classwise.papers.registry import scale_of
from classwise.papers.scales import SCALES
from classwise.papers.sections import Request
from classwise.runs import store
from classwise.stats import sanity

# A result, and the fields in which it differs from the others.
Row = tuple[dict[str, Any], xr.Dataset]


def provenance_attributes(rows: Sequence[Row]) -> dict[str, str]:
    """Return the provenance of several results as attributes, each value once."""
    names = ("schema", "version", "commit", "torch", "device", "threads")
    attrs = {name: ", ".join(sorted({str(data.attrs[name]) for _, data in rows})) for name in names}
    created = sorted(str(data.attrs["created"]) for _, data in rows)
    attrs["warnings"] = json.dumps(collected_warnings(rows))
    recorded = sum(bool(data.attrs.get("recorded")) for _, data in rows)
    attrs["recorded"] = "" if not recorded else "all" if recorded == len(rows) else f"{recorded} of {len(rows)}"
    return attrs | {"created": created[0] if created[0] == created[-1] else f"{created[0]} to {created[-1]}"}


def dataset_and_scale(subjects: Sequence[Subject]) -> dict[str, str]:
    """Return the datasets, radii and scales of subjects; other options of a defence or fewer classes do not change the scale."""
    plain = [replace(subject, options={}, classes=()) if isinstance(subject, Spec) else None for subject in subjects]
    names = dict.fromkeys((spec and scale_of(spec)) or "own settings" for spec in plain)
    listed = {name: ", ".join(dict.fromkeys(getattr(subject, name) for subject in subjects)) for name in ("dataset", "eps")}
    return {**listed, "scale": ", ".join(names)}


def collected_warnings(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return the sanity warnings of outcomes, each with the attacks and defences that it applies to."""
    warnings, groups = defaultdict[str, dict[str, None]](dict), defaultdict[str, list[tuple[str, xr.Dataset]]](list)
    for key, data in rows:
        if data.attrs["schema"] == store.OUTCOMES:
            name = f"{next(iter(key.values()))} under {key['attack']}"
            for sentence in sanity.stored_warnings(data) if data.attrs.get("checks") else ["not checked"]:
                warnings[sentence][name] = None
            evaluation = Evaluation.from_json(data.attrs["evaluation"])
            fields = (evaluation.eps, evaluation.norm, evaluation.split, evaluation.checkpoint, evaluation.transform)
            groups[str((data.attrs["spec"], *fields))].append((name, data))
    for name in (name for group in groups.values() for name in sanity.black_box_ahead(group)):
        warnings[sanity.BLACK_BOX_AHEAD][name] = None
    return {sentence: list(names) for sentence, names in warnings.items()}


def summary(request: Request, data: xr.Dataset) -> str:
    """Return a few sentences on the runs of a request and its parts, their evaluations, provenance and sanity warnings.

    data: outcomes of the request, whose provenance and warnings are stated.
    """
    specs, first = request.specs, request.specs[0]
    names = dict.fromkeys(scale_of(spec) for spec in specs)
    scale = ", ".join(f"scale {name}" for name in names) if None not in names else ""
    about = f"{_trained(specs)}, measured after every {first.measure} epochs by {first.probe}"
    further = dict.fromkeys(spec for part in request.parts.values() for spec, _ in part.pairs if spec not in specs)
    parts = f" Further parts of this page use {_trained(list(further))}." if further else ""
    origin, evaluated = sources(data), _evaluated(request)
    about = f"{scale}: {about}" if scale else about
    return f"{about}; evaluated by {evaluated}.{parts} {origin[0].upper()}{origin[1:]}. {sanity_summary(data)}"


def scale_notes() -> dict[str, str]:
    """Return by scale what its networks stand for, and how far recorded PGD-AT is from Table 1 of Tian et al. 2021."""
    return {name: f"{scale.note}{_level(name)}" for name, scale in SCALES.items() if scale.note}


def _level(scale: str) -> str:
    spec, evaluation = registry.training(scale, "pgd-at", 0), Evaluation(attack="pgd-20")
    outcomes = store.Key(spec, store.OUTCOMES, evaluation).read() if SCALES[scale].recorded_only else None
    if outcomes is None:
        return ""
    level = 100 * float((outcomes.prediction == outcomes.truth).mean())
    theirs = float(registry.tables_of("tian2021").load(1).overall.sel(defence="pgd-at", attack="pgd-20"))
    return f"; pgd-at under pgd-20: {level:.1f} % of all images, {theirs - level:.1f} points below Table 1 of Tian et al. 2021"


def _trained(specs: Sequence[Spec]) -> str:
    """Return the number of runs, their datasets, epochs and radii: "2 runs on digits, 16 epochs, eps 0.2"."""
    on, radii = (_joined(str(getattr(spec, name)) for spec in specs) for name in ("dataset", "eps"))
    return f"{plural(len(specs), 'run')} on {on}, {_lengths(specs)}, eps {radii}"


def _lengths(specs: Sequence[Spec]) -> str:
    """Return how long runs are trained: "13 epochs", "13 and 20 epochs", "200 epochs of 3,200 images"."""
    groups: dict[int | None, list[str]] = {}
    for spec in specs:
        groups.setdefault(spec.epoch_images, []).append(str(spec.epochs))
    parts = {f" of {images:,} images" if images else "": _joined(numbers) for images, numbers in groups.items()}
    return " and ".join(f"{numbers} epochs{images}" for images, numbers in parts.items())


# How networks are written.
_NETWORKS = {
    "resnet10-s2": "ResNet-10",
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "preact-resnet18": "pre-activation ResNet-18",
    "small-cnn": "small CNN",
}


def networks(specs: Sequence[Spec]) -> str:
    """Return what networks were trained: "ResNet-18 of width 16"."""
    return _joined(f"{_NETWORKS.get(spec.model, spec.model)} of width {spec.width}" for spec in specs)


def training(specs: Sequence[Spec]) -> str:
    """Return what was trained: "We trained one network of each defence: ResNet-18 of width 16, 15 epochs, radius 8/255."

    "" without a run. Defences that differ in how many runs they have: "1 to 3 networks of each defence".
    """
    if not specs:
        return ""
    of_each = Counter(defence for defence, _ in {(spec.defence, spec.seed) for spec in specs}).values()
    numbers = " to ".join(str(number) for number in dict.fromkeys((min(of_each), max(of_each))))
    radii = _joined(spec.eps for spec in specs)
    number = "one network" if max(of_each) == 1 else f"{numbers} networks"
    return f"We trained {number} of each defence: {networks(specs)}, {_lengths(specs)}, radius {radii}."


def _origin(histories: Sequence[xr.Dataset]) -> str:
    about = [", ".join(sorted({one.attrs[name] or "unknown" for one in histories})) for name in ("device", "commit")]
    days = sorted({one.attrs["created"][:10] for one in histories})
    hours = sum(float(one["seconds"].sum()) for one in histories) / 3600
    return f"{about[0]}, commit {about[1]}, {' to '.join(dict.fromkeys((days[0], days[-1])))}, {hours:.1f} hours of training"


def _joined(names: Iterable[str]) -> str:
    *first, last = dict.fromkeys(names)
    return f"{', '.join(first)} and {last}" if first else last


def _evaluated(request: Request) -> str:
    """Return the evaluations of the runs of a request, together those on as many images: "clean at eps 0.2 on 360 images (test)".

    The images are counted in the stored results; of evaluations of some of the runs, the number of these is added. Many
    checkpoints are counted, few are named.
    """
    images, runs = defaultdict[tuple[str, str, str], set[int]](set), defaultdict[tuple[str, str, str], set[str]](set)
    checkpoints = {one.checkpoint for spec in request.specs for one in request.evaluations_of(spec)}
    weights = f"weights of {len(checkpoints)} checkpoints" if len(checkpoints) > 9 else ""
    for spec in request.specs:
        for evaluation in request.evaluations_of(spec):
            resolved, path = evaluation.resolve_for(spec), store.Key(spec, store.OUTCOMES, evaluation).path
            key = (_attack(evaluation, weights), str(resolved.eps), resolved.split)
            runs[key].add(spec.id)
            if path is not None:
                with h5py.File(path) as file:
                    images[key].update(file["image"][:].tolist())
    groups = defaultdict[tuple[str, str, int, int], list[str]](list)
    for (attack, eps, split), ids in runs.items():
        groups[eps, split, len(images[attack, eps, split]), len(ids)].append(attack)
    texts = []
    for (eps, split, number, count), attacks in groups.items():
        where = f"{number} images ({split})" if number else split
        of = f", {count} of the runs" if count < len(set(request.specs)) else ""
        texts.append(f"{_joined(attacks)} at eps {eps} on {where}{of}")
    return "; ".join(texts)


def _attack(evaluation: Evaluation, weights: str = "") -> str:
    """Return the attack of an evaluation, with what distinguishes it from the same attack in other evaluations."""
    marks = [] if evaluation.substitute is None else [f"transferred from {evaluation.substitute}"]
    marks += [evaluation.precision] * (evaluation.precision != "float32")
    marks += [evaluation.readout] * (evaluation.readout != "logits")
    marks += [weights or f"{evaluation.checkpoint} weights"] * bool(weights or evaluation.checkpoint != "last")
    marks += [evaluation.transform] * (evaluation.transform != "none")
    return f"{evaluation.attack} ({', '.join(marks)})" if marks else evaluation.attack


def sanity_summary(data: xr.Dataset) -> str:
    """Return the sanity warnings of a combined Dataset, and from which share of the images on a check is one."""
    if "warnings" not in data.attrs:
        return "No sanity checks were made."
    warnings = json.loads(data.attrs["warnings"])
    if not warnings:
        return "All sanity checks passed."
    listed = "; ".join(f"{sentence} ({', '.join(names)})" for sentence, names in warnings.items())
    return f"Sanity warnings: {listed}."


def sources(data: xr.Dataset) -> str:
    """Return a line with the device, commit, torch version and date of a combined Dataset."""
    named = [f"{name} {data.attrs[name] or 'unknown'}" for name in ("device", "commit", "torch")]
    days = sorted({moment[:10] for moment in str(data.attrs["created"]).split(" to ")})
    recorded = str(data.attrs.get("recorded", ""))
    how = "computed here" if not recorded else f"{recorded.replace('all', 'all results')} recorded, not computed here"
    return ", ".join([*named, " to ".join(days), how])


def recorded_runs(section: str, scale: str) -> str:
    """Return how many of a section's runs are recorded at a scale, with their device, commit, date and hours, and the refused."""
    keys = defaultdict[Spec, list[store.Key]](list)
    for spec, evaluations in registry.request(section, scale).pairs:
        keys[spec] += store.outcomes_of([(spec, evaluations)])
    folders = {spec: store.recorded_folder(spec) for spec in keys}
    files = [folders[spec] / some[0].name for spec, some in keys.items() if store.complete(folders[spec], some)]
    origin = f" ({_origin([results.load(file, store.HISTORY) for file in files])})" if files else ""
    lines = [f"Recorded at scale {scale}: {len(files)} of {len(keys)} runs{origin}."]
    reasons = {f"{spec.name} (seed {spec.seed})": store.refusal(spec) for spec in keys}
    return " ".join(lines + [f"Refused: {name}: {reason}." for name, reason in reasons.items() if reason])


def baselines(names: Iterable[str]) -> dict[str, str]:
    """Return for each named defence with a calibration or averaging the same defence without, if that is named too."""
    from classwise import defences  # torch

    names = list(dict.fromkeys(names))
    # Two names of one loss, which differ in the size of the steps: a base that is not named is the other.
    same = {base: base if base in names else "trades" for base in (*names, "trades-normalised")}
    plain = {name: same.get(defences.baseline_of(name) or "") for name in names}
    return {name: base for name, base in plain.items() if base in names}
