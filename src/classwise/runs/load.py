"""Results of many runs as one labelled Dataset; what is missing is computed first.

Torch is imported only when something is computed: reading stored results needs no more than xarray.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

import xarray as xr

from classwise.core.paths import data_folder
from classwise.core.results import schema_names
from classwise.core.spec import Evaluation, Spec, Subject
from classwise.papers.sections import Request
from classwise.runs import describe, store
from classwise.runs.ensure import ensure_results
from classwise.stats.combine import combine_rows

# A subject, and its evaluations.
Pair = tuple[Subject, Sequence[Evaluation]]


# Names of the Datasets, which no field or option can have as a dimension; `label` is that of the counts made of outcomes.
_IN_HISTORY = schema_names(store.HISTORY)
_IN_OUTCOMES = schema_names(store.OUTCOMES) | {"attack", "label"}


def _flat(item: Subject | Evaluation, taken: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a subject or an evaluation, each option as a separate field (of the inner attack: attack_...).

    A name that is `taken` has a prefix: "option_label", "training_attack".
    """
    values: dict[str, Any] = {}
    for name, value in vars(item).items():
        if isinstance(value, Mapping):
            prefix = "attack_" if name == "attack_options" else ""
            values |= {_free(prefix + option, "option", taken): part for option, part in value.items()}
        else:
            plain = isinstance(value, int | float | str) and not isinstance(value, bool)
            values[_free(name, "training", taken)] = value if plain else str(value)
    return values


def _free(name: str, prefix: str, taken: Collection[str]) -> str:
    return f"{prefix}_{name}" if name in taken else name


def _varied(items: Sequence[Subject] | Sequence[Evaluation], taken: Collection[str] = ()) -> list[str]:
    """Return the fields that become dimensions: `dimensions` of the class, then those that differ.

    Options and `owned_fields` count only if they differ between items of the same owner: defence, attack or network.
    """
    first, flat = items[0], [_flat(item, taken) for item in items]
    names = {field.name for field in fields(first)}  # type: ignore[arg-type]
    owned = names - set(first.dimensions) if first.owned_fields is None else first.owned_fields
    shared = {_free(name, "training", taken) for name in names - owned}
    varied = list(first.dimensions)
    for name in dict.fromkeys(name for values in flat for name in values):
        groups: dict[Any, set[Any]] = {}
        for values in flat:
            owner = None if name in shared else values[first.dimensions[0]]
            groups.setdefault(owner, set()).add(values.get(name, ""))
        if name not in varied and any(len(group) > 1 for group in groups.values()):
            varied.append(name)
    return varied


def _key(item: Subject | Evaluation, names: Sequence[str], taken: Collection[str] = ()) -> dict[str, Any]:
    flat = _flat(item, taken)
    return {name: flat.get(name, "") for name in names}


def history(specs: Sequence[Spec], *, workers: int | None = None) -> xr.Dataset:
    """Return the training histories of runs (schema "history 1"), along defence, seed and every other field that varies.

    Runs are trained first if necessary. Combinations of fields without a run have zero counts. A field or an option with a name
    of the schema is the dimension "training_attack" or "option_beta".
    """
    names = _varied(specs, _IN_HISTORY)
    pairs: list[Pair] = [(spec, ()) for spec in specs]
    rows = [(_key(spec, names, _IN_HISTORY), _result(spec, None, workers, pairs)) for spec in dict.fromkeys(specs)]
    return combine_rows(rows).assign_attrs(describe.provenance_attributes(rows))


def outcomes(
    subjects: Sequence[Subject] | Request, evaluations: Sequence[Evaluation] = (), *, workers: int | None = None
) -> xr.Dataset:
    """Return outcomes (schema "outcomes 1"), along defence, seed, attack and every other field that varies; of audits, network.

    subjects : runs or audits; or what a section requests, whose runs may differ in their evaluations.
    evaluations : of each of the subjects; not used with a request.

    A varied radius of the evaluations is the dimension `eval_eps`; an option with a name of the schema, or of the counts made of
    it, is "option_label". Images that were not evaluated have truth -1. Attributes are
    those of the runs, and dataset and scale.
    """
    pairs: list[Pair]
    pairs = [*subjects.pairs] if isinstance(subjects, Request) else [(subject, evaluations) for subject in subjects]
    subjects = list(dict.fromkeys(subject for subject, _ in pairs))
    names = _varied(subjects, _IN_OUTCOMES)
    varied = _varied(list(dict.fromkeys(evaluation for _, some in pairs for evaluation in some)))
    rows = []
    for subject, evaluation in dict.fromkeys((subject, evaluation) for subject, some in pairs for evaluation in some):
        data = _result(subject, evaluation.resolved_for(subject), workers, pairs)
        key = {
            f"eval_{name}" if name in (*names, "eps", "seed") else name: value for name, value in _key(evaluation, varied).items()
        }
        rows.append((_key(subject, names, _IN_OUTCOMES) | key, data))
    return combine_rows(rows).assign_attrs(describe.provenance_attributes(rows) | describe.dataset_and_scale(subjects))


def _result(subject: Subject, evaluation: Evaluation | None, workers: int | None, pairs: Sequence[Pair]) -> xr.Dataset:
    """Return a stored result; if it is missing, first compute everything that is missing of `pairs`."""
    data = store.find(subject, evaluation)
    if data is None:
        ensure_results(pairs, workers)
        data = store.find(subject, evaluation)
    assert data is not None, f"{subject.name} was computed but is not in {data_folder()}"
    return data
