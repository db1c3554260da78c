"""Results of many runs as one labelled Dataset; what is missing is computed first.

Torch is imported only where something is computed: reading what is there takes no more than xarray.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import xarray as xr

from classwise.core import results
from classwise.core.audit import Audit, Subject
from classwise.core.errors import UserError
from classwise.core.paths import data_folder
from classwise.core.spec import Evaluation, Spec
from classwise.runs import describe, store
from classwise.runs.ensure import ensure_results

# Fields that are dimensions of a combined Dataset even where they do not vary; the first names the owner of the options.
_ALWAYS: dict[type, tuple[str, ...]] = {Spec: ("defence", "seed"), Evaluation: ("attack",), Audit: ("network",)}
# Fields that belong to the recipe of a defence, or to the cost of an attack: dimensions only where they vary for the same one.
_OWN: dict[type, set[str]] = {
    Spec: {"attack", "epochs", "lr", "milestones", "schedule", "weight_decay"},
    Evaluation: {"batch", "per_class"},
    # What a network comes with; the name tells them apart.
    Audit: {each.name for each in fields(Audit)} - {"network"},
}


def _flat(item: Subject | Evaluation) -> dict[str, Any]:
    """Return the fields of a spec or evaluation with each option as a field of its own (inner attack: attack_...)."""
    values: dict[str, Any] = {}
    for name, value in vars(item).items():
        if isinstance(value, Mapping):
            prefix = "attack_" if name == "attack_options" else ""
            values |= {prefix + option: part for option, part in value.items()}
        else:
            values[name] = value if isinstance(value, int | float | str) and not isinstance(value, bool) else str(value)
    return values


def _varied(items: Sequence[Subject] | Sequence[Evaluation]) -> list[str]:
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


def _key(item: Subject | Evaluation, names: Sequence[str]) -> dict[str, Any]:
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
    asked: list[tuple[Subject, Sequence[Evaluation]]] = [(spec, ()) for spec in specs]
    found = [(spec, _get(spec, None, workers, asked)) for spec in dict.fromkeys(specs)]
    rows = [(_key(spec, names), data) for spec, data in found]
    whole = _combine(rows)
    return whole.assign_attrs(describe.provenance_attributes(rows))


def outcomes(specs: Sequence[Subject], evaluations: Sequence[Evaluation], *, workers: int | None = None) -> xr.Dataset:
    """Return outcomes (schema "outcomes 1") with the dimensions defence, seed, attack and every other field that varies.

    Of audits, which are asked in the same way, the dimensions are network and attack.

    A varied radius of the evaluations is the dimension `eval_eps`. An image that a run was not asked about (of another fold,
    say) has truth -1.
    """
    return outcomes_of([(spec, evaluations) for spec in specs], workers=workers)


def outcomes_of(asked: Sequence[tuple[Subject, Sequence[Evaluation]]], *, workers: int | None = None) -> xr.Dataset:
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
    return _combine(rows).assign_attrs(describe.provenance_attributes(rows) | describe.dataset_and_scale(specs))


def _get(
    spec: Subject,
    evaluation: Evaluation | None,
    workers: int | None,
    asked: Sequence[tuple[Subject, Sequence[Evaluation]]],
) -> xr.Dataset:
    """Return a stored result; where it is not there, compute all that is missing of what was asked for, then return it."""
    data = store.find(spec, evaluation)
    if data is None:
        ensure_results(asked, workers)
        data = store.find(spec, evaluation)
    assert data is not None, f"{spec.name} was computed but is not in {data_folder()}"
    return data
