"""Results of many runs as one labelled Dataset; what is missing is computed first.

Torch is imported only when something is computed: reading stored results needs no more than xarray.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, TypeVar

import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.core.results import schema_names
from classwise.core.spec import Evaluation, Spec, Subject
from classwise.papers.sections import Request
from classwise.runs import describe, ensure, store
from classwise.runs.ensure import Pair
from classwise.runs.store import Key
from classwise.stats.combine import combine_rows
from classwise.stats.features import SUMS, add_blocks

# Names of the Datasets, which no field or option can have as a dimension; `label` is that of the counts made of outcomes.
_IN_HISTORY = schema_names(store.HISTORY)
_IN_OUTCOMES = schema_names(store.OUTCOMES) | schema_names(store.FEATURES) | {"attack", "label"}


_Item = TypeVar("_Item", bound=Subject | Evaluation)


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


def _places(items: Iterable[_Item], taken: Collection[str] = ()) -> dict[_Item, dict[str, Any]]:
    """Return the coordinates of each item along the dimensions: `dimensions` of its class, then the fields that differ.

    Options and `owned_fields` count only if they differ between items of the same owner: defence, attack or network; the run that
    initialises a training, only between items that agree in all of `dimensions`.
    """
    flat = {item: _flat(item, taken) for item in items}
    first = next(iter(flat))
    names = {field.name for field in fields(first)}  # type: ignore[arg-type]
    owned = names - set(first.dimensions) if first.owned_fields is None else first.owned_fields
    shared = {_free(name, "training", taken) for name in names - owned}
    varied = list(first.dimensions)
    for name in dict.fromkeys(name for values in flat.values() for name in values):
        groups: dict[Any, set[Any]] = {}
        for values in flat.values():
            owner = None if name in shared else values[first.dimensions[0]]
            owner = tuple(values[dim] for dim in first.dimensions) if name == "warm_start" else owner
            groups.setdefault(owner, set()).add(values.get(name, ""))
        if name not in varied and any(len(group) > 1 for group in groups.values()):
            varied.append(name)
    return {item: {name: values.get(name, "") for name in varied} for item, values in flat.items()}


def history(runs: Sequence[Spec] | Request, *, workers: int | None = None) -> xr.Dataset:
    """Return the training histories of runs (schema "history 1"), along defence, seed and every other field that varies.

    runs: or what a section requests, without its parts. Runs are trained first if necessary. Combinations of fields without a
    run have zero counts. A field or an option with a name of the schema is the dimension "training_attack" or "option_beta".
    """
    specs = runs.specs if isinstance(runs, Request) else runs
    keys = [Key(spec) for spec in specs]
    rows = [(place, ensure.get(Key(spec), keys, workers)) for spec, place in _places(specs, _IN_HISTORY).items()]
    return combine_rows(rows).assign_attrs(describe.provenance_attributes(rows))


def outcomes(
    subjects: Sequence[Subject] | Request, evaluations: Sequence[Evaluation] = (), *, workers: int | None = None
) -> xr.Dataset:
    """Return outcomes (schema "outcomes 1"), along defence, seed, attack and every other field that varies; of audits, network.

    subjects: runs or audits; or what a section requests, whose runs may differ in their evaluations. evaluations: of each of the
    subjects; not used with a request.

    A field that evaluations and trainings both have is `eval_eps` of the evaluations and `eps` of the trainings, whichever of
    them varies; an option with a name of the schema, or of the counts made of it, is "option_label". Images that were not
    evaluated have truth -1. Attributes are those of the runs, and dataset and scale.
    """
    pairs: list[Pair]
    pairs = [*subjects.pairs] if isinstance(subjects, Request) else [(subject, evaluations) for subject in subjects]
    places = {Key(subject, store.OUTCOMES, one): place for (subject, one), place in _keys(pairs).items()}
    rows = [(place, ensure.get(key, places, workers)) for key, place in places.items()]
    subjects = list(dict.fromkeys(subject for subject, _ in pairs))
    return combine_rows(rows).assign_attrs(describe.provenance_attributes(rows) | describe.dataset_and_scale(subjects))


def _keys(pairs: Sequence[Pair]) -> dict[tuple[Subject, Evaluation], dict[str, Any]]:
    places = _places((subject for subject, _ in pairs), _IN_OUTCOMES)
    # Whether or not the trainings vary in it, so that a dimension has one name.
    taken = {field.name for subject in places for field in fields(subject)}  # type: ignore[arg-type]
    taken -= {*Evaluation.dimensions}
    taken = taken.union(*places.values())
    under = {
        evaluation: {f"eval_{name}" if name in taken else name: value for name, value in place.items()}
        for evaluation, place in _places(evaluation for _, some in pairs for evaluation in some).items()
    }
    return {(subject, one): places[subject] | under[one] for subject, some in pairs for one in some}


def features(subject: Subject, evaluation: Evaluation | None = None) -> xr.Dataset:
    """Return sums of the penultimate features of each class by block of images (schema "features 2"), computed once and stored.

    subject: a run or an audit. evaluation: which images, attacked as it says, and which checkpoint; None for the images of an
    audit, or the test images of a run, as they are. `stats.features.statistics` returns their means and variances. NotRecorded
    if a recorded run lacks them.
    """
    return ensure.get(Key(subject, store.FEATURES, evaluation or subject.evaluation_of()))


def add_features(request: Request, data: xr.Dataset) -> xr.Dataset:
    """Return the outcomes of a request with the sums of the features that it needs, as `stats.features.add_blocks` adds them.

    A run or an attack whose features are not recorded has 0 images; without any, the outcomes are as they are.
    """
    keys, rows = _keys(request.pairs), list[tuple[dict[str, Any], xr.Dataset]]()
    for spec, evaluation in dict.fromkeys((spec, one) for spec, some in request.feature_pairs for one in some):
        with suppress(NotRecorded):
            sums = features(spec, evaluation)[list(SUMS)]
            rows.append((keys[spec, evaluation], sums.rename(label="predicted")))
    return add_blocks(data, combine_rows(rows).rename(predicted="label")) if rows else data
