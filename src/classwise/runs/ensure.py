"""Compute what is missing of any subject; torch is imported only when something is."""

from collections.abc import Sequence

import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.core.paths import data_folder
from classwise.core.spec import Evaluation, Spec, Subject
from classwise.papers import registry, scales
from classwise.runs import recorded, store
from classwise.runs.store import OUTCOMES, Key

# A subject, and its evaluations.
Pair = tuple[Subject, Sequence[Evaluation]]


def get(key: Key, pairs: Sequence[Pair], workers: int | None = None) -> xr.Dataset:
    """Return a history or outcomes; if they are missing, first compute everything that is missing of `pairs`."""
    data = key.read()
    if data is None:
        ensure_results(pairs, workers)
        data = key.read()
    assert data is not None, f"{key.subject.name} was computed but is not in {data_folder()}"
    return data


def ensure_results(pairs: Sequence[Pair], workers: int | None = None) -> None:
    """Train runs and evaluate subjects where results are missing; `workers` processes at once train.

    NotRecorded is raised for what is missing of a run that was recorded with its weights, or of a scale that is only read: only
    `classwise record` and `classwise run` compute that.
    """
    for subject, evaluations in pairs:
        if store.has_recorded_network(subject) or _only_read(subject):
            keys = [Key(subject, OUTCOMES, evaluation) for evaluation in evaluations]
            lacking = [key.evaluation for key in keys if key.evaluation is not None and key.path is None]
            if lacking or Key(subject).path is None:
                raise not_recorded(subject, lacking)
    from classwise.runs import audit_evaluation
    from classwise.runs.schedule import pool

    pool.ensure_runs([(spec, evaluations) for spec, evaluations in pairs if isinstance(spec, Spec)], workers=workers)
    for subject, evaluations in pairs:
        if not isinstance(subject, Spec):
            audit_evaluation.ensure_evaluations(subject, evaluations)


def _only_read(subject: Subject) -> str | None:
    """Return the scale of a subject if that is only read."""
    scale = registry.scale_of(subject) if isinstance(subject, Spec) else None
    return scale if scale is not None and scales.SCALES[scale].only_read else None


def not_recorded(subject: Subject, evaluations: Sequence[Evaluation], what: str = "outcomes") -> NotRecorded:
    """Return the error that results of a recorded network under evaluations are not recorded."""
    names, scale = ", ".join(dict.fromkeys(evaluation.name for evaluation in evaluations)), _only_read(subject)
    under = f" under {names}" if names else ""
    how = recorded.how_to_record(scale) if scale else "`classwise record`, with a queue that names it, computes what is missing"
    return NotRecorded(f"{what} of {subject.name} ({subject.title}){under} are not recorded; {how}")
