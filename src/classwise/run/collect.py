"""Results of many runs as one labelled Dataset; what is missing is computed first.

Torch is imported only where something is computed: reading what is there takes no more than xarray.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import xarray as xr

from classwise import results
from classwise.errors import UserError
from classwise.places import data_folder
from classwise.run import store
from classwise.scales import SCALES
from classwise.spec import Evaluation, Spec
from classwise.study import scale_of

# Fields that are dimensions of a combined Dataset even where they do not vary; the first names the owner of the options.
_ALWAYS = {Spec: ("defence", "seed"), Evaluation: ("attack",)}
# Fields that belong to the recipe of a defence, or to the cost of an attack: dimensions only where they vary for the same one.
_OWN: dict[type, set[str]] = {
    Spec: {"attack", "epochs", "lr", "milestones", "schedule", "weight_decay"},
    Evaluation: {"batch", "per_class"},
}


def _flat(item: Spec | Evaluation) -> dict[str, Any]:
    """Return the fields of a spec or evaluation with each option as a field of its own (inner attack: attack_...)."""
    values: dict[str, Any] = {}
    for name, value in vars(item).items():
        if isinstance(value, Mapping):
            prefix = "attack_" if name == "attack_options" else ""
            values |= {prefix + option: part for option, part in value.items()}
        else:
            values[name] = value if isinstance(value, int | float | str) and not isinstance(value, bool) else str(value)
    return values


def _varied(items: Sequence[Spec] | Sequence[Evaluation]) -> list[str]:
    """Return the fields that become dimensions: those that always do, then those that differ.

    An option counts only where it differs between items of the same defence or attack.
    """
    always, flat = _ALWAYS[type(items[0])], [_flat(item) for item in items]
    plain = {each.name for each in fields(items[0])} - _OWN[type(items[0])]
    varied = list(always)
    for name in dict.fromkeys(name for values in flat for name in values):
        groups: dict[Any, set[Any]] = {}
        for values in flat:
            groups.setdefault(None if name in plain else values[always[0]], set()).add(values.get(name, ""))
        if name not in varied and any(len(group) > 1 for group in groups.values()):
            varied.append(name)
    return varied


def _key(item: Spec | Evaluation, names: Sequence[str]) -> dict[str, Any]:
    flat = _flat(item)
    return {name: flat.get(name, "") for name in names}


def _combine(rows: list[tuple[dict[str, Any], xr.Dataset]]) -> xr.Dataset:
    """Return Datasets joined along the dimensions that their keys name, in the order of first appearance."""
    names = list(rows[0][0])
    keys = [tuple(key.values()) for key, _ in rows]
    if len(set(keys)) < len(keys):
        raise UserError(f"two runs share the same {', '.join(names)}: {max(keys, key=keys.count)}; ask for them one by one")
    classes = list(dict.fromkeys(str(name) for _, data in rows for name in data.predicted.values))
    whole = xr.concat(
        [_renumbered(data.drop_attrs(), classes) for _, data in rows],
        dim="run",
        join="outer",
        fill_value=results.MISSING,
        coords="minimal",
        compat="override",
    )
    for place, name in enumerate(names):
        whole = whole.assign_coords({name: ("run", [key[place] for key in keys])})
    if len(names) == 1:
        return whole.swap_dims(run=names[0])
    whole = whole.set_index(run=names).unstack("run", fill_value=results.MISSING)
    order = {name: list(dict.fromkeys(key[place] for key in keys)) for place, name in enumerate(names)}
    return whole.sel(order).transpose(*names, ...)


def _renumbered(data: xr.Dataset, classes: list[str]) -> xr.Dataset:
    """Return outcomes whose truth and answer are positions in `classes` rather than in the classes of their own run."""
    place = np.array([*(classes.index(str(name)) for name in data.predicted.values), -1], dtype=np.int16)
    numbers = {name: data[name].copy(data=place[data[name].values]) for name in ("truth", "answer") if name in data}
    return data.assign(numbers).reindex(predicted=classes, fill_value=results.MISSING)


def history(specs: Sequence[Spec], *, workers: int | None = None) -> xr.Dataset:
    """Return the histories of runs (schema "history 1") with the dimensions defence, seed and every other field that varies.

    Runs that are not there are trained first; where a combination was not asked for, its counts are zero.
    """
    names = _varied(specs)
    asked: list[tuple[Spec, Sequence[Evaluation]]] = [(spec, ()) for spec in specs]
    found = [(spec, _get(spec, None, workers, asked)) for spec in dict.fromkeys(specs)]
    rows = [(_key(spec, names), data) for spec, data in found]
    whole = _combine(rows)
    return whole.assign_attrs(_sources(rows))


def outcomes(specs: Sequence[Spec], evaluations: Sequence[Evaluation], *, workers: int | None = None) -> xr.Dataset:
    """Return outcomes (schema "outcomes 1") with the dimensions defence, seed, attack and every other field that varies.

    A varied radius of the evaluations is the dimension `eval_eps`. An image that a run was not asked about (of another fold,
    say) has truth -1.
    """
    return answers([(spec, evaluations) for spec in specs], workers=workers)


def answers(asked: Sequence[tuple[Spec, Sequence[Evaluation]]], *, workers: int | None = None) -> xr.Dataset:
    """Return outcomes like `outcomes`, where not every run is asked the same; an image that one was not asked about has truth -1.

    Attributes besides those of the runs: dataset and scale, what they speak of.
    """
    specs = list(dict.fromkeys(spec for spec, _ in asked))
    evaluations = list(dict.fromkeys(one for _, some in asked for one in some))
    names, varied = _varied(specs), _varied(evaluations)
    rows = []
    for spec, evaluation in dict.fromkeys((spec, one) for spec, some in asked for one in some):
        data = _get(spec, evaluation.of(spec), workers, asked)
        question = _key(evaluation, varied).items()
        key = {f"eval_{name}" if name in (*names, "eps", "seed") else name: value for name, value in question}
        rows.append((_key(spec, names) | key, data))
    return _combine(rows).assign_attrs(_sources(rows) | _subject(specs))


def _get(
    spec: Spec,
    evaluation: Evaluation | None,
    workers: int | None,
    asked: Sequence[tuple[Spec, Sequence[Evaluation]]],
) -> xr.Dataset:
    """Return a stored result; where it is not there, compute all that is missing of what was asked for, then return it."""
    data = store.find(spec, evaluation)
    if data is None:
        from classwise.run import pool

        pool.ensure(asked, workers=workers)
        data = store.find(spec, evaluation)
    assert data is not None, f"{spec.name} was computed but is not in {data_folder()}"
    return data


def _sources(rows: Sequence[tuple[dict[str, Any], xr.Dataset]]) -> dict[str, str]:
    """Return what the runs say of where they come from, each thing once."""
    names = ("schema", "version", "commit", "torch", "device", "threads")
    attrs = {name: ", ".join(sorted({str(data.attrs[name]) for _, data in rows})) for name in names}
    created = sorted(str(data.attrs["created"]) for _, data in rows)
    attrs["concerns"] = json.dumps(_concerns(rows))
    recorded = sum(bool(data.attrs.get("recorded")) for _, data in rows)
    attrs["recorded"] = "" if not recorded else "all" if recorded == len(rows) else f"{recorded} of {len(rows)}"
    return attrs | {"created": created[0] if created[0] == created[-1] else f"{created[0]} to {created[-1]}"}


def _subject(specs: Sequence[Spec]) -> dict[str, str]:
    """Return which dataset and scale runs speak of; other options of a defence, or classes left out, are of the same scale."""
    scales = [scale_of(replace(spec, options={}, classes=())) or "own settings" for spec in specs]
    return {"dataset": ", ".join(dict.fromkeys(spec.dataset for spec in specs)), "scale": ", ".join(dict.fromkeys(scales))}


def _concerns(rows: Sequence[tuple[dict[str, Any], xr.Dataset]]) -> dict[str, list[str]]:
    """Return what speaks against believing the outcomes, with the attacks and defences that it is said of."""
    found: dict[str, list[str]] = {}

    def say(sentence: str, name: str) -> None:
        found[sentence] = list(dict.fromkeys([*found.get(sentence, []), name]))

    runs: dict[str, list[tuple[str, xr.Dataset]]] = {}
    for key, data in rows:
        if data.attrs["schema"] == store.OUTCOMES:
            name = f"{key['defence']} under {key['attack']}"
            for sentence in results.concerns(data) if data.attrs.get("checks") else ["not checked"]:
                say(sentence, name)
            asked = Evaluation.from_json(data.attrs["evaluation"])
            problem = str((data.attrs["spec"], asked.eps, asked.norm, asked.split, asked.checkpoint, asked.transform))
            runs.setdefault(problem, []).append((name, data))
    for answers in runs.values():
        for name in _ahead(answers):
            say("a black-box attack breaks what none with gradients does", name)
    return found


def _ahead(answers: list[tuple[str, xr.Dataset]]) -> list[str]:
    """Return the black-box attacks that break more than one image in a hundred which no white-box attack breaks."""
    black: list[tuple[str, xr.DataArray]] = []
    white: list[tuple[str, xr.DataArray]] = []
    for name, data in answers:
        asked = Evaluation.from_json(data.attrs["evaluation"])
        if asked.substitute is None and asked.attack != "clean":
            (black if asked.attack.split("@")[0] in results.BLACK_BOX else white).append((name, data.flipped))
    if not white:
        return []
    # Only images that all white-box attacks were asked about.
    stood = ~xr.concat([flipped for _, flipped in white], "white", join="inner").any("white")
    pairs = [(name, xr.align(flipped, stood, join="inner")) for name, flipped in black]
    return [name for name, (broken, left) in pairs if len(left) and float((broken & left).mean()) > results.MASKED]


def summary(specs: Sequence[Spec], evaluations: Sequence[Evaluation], data: xr.Dataset) -> str:
    """Return in a few sentences what was run and asked, and where the numbers come from."""
    first, asked = specs[0], [one.of(specs[0]) for one in evaluations]
    last = asked[-1]
    images = int((data.truth >= 0).any([dim for dim in data.truth.dims if dim != "image"]).sum())
    runs = f"{len(specs)} run{'s' * (len(specs) > 1)} on {first.dataset}, {first.epochs} epochs, eps {first.eps}"
    probed = f"measured after every {first.measure} epochs by {first.probe}"
    ended = f"at the end by {', '.join(one.attack for one in asked)} at eps {last.eps} on {images} images ({last.split})"
    found = sources(data)
    scales = list(dict.fromkeys(scale_of(spec) for spec in specs))
    said = [f"scale {name}" + (f" ({SCALES[name].says})" if SCALES[name].says else "") for name in scales if name]
    sized = f"{', '.join(said)}: " if said and None not in scales else ""
    return f"{sized}{runs}; {probed}, {ended}. {found[0].upper()}{found[1:]}. {doubts(data)}"


def doubts(data: xr.Dataset) -> str:
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
