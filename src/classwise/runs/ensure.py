"""Compute what is missing of any subject; torch is imported only when something is."""

from collections.abc import Sequence

from classwise.core.errors import NotRecorded
from classwise.core.spec import Evaluation, Spec, Subject
from classwise.papers import registry, scales
from classwise.runs import recorded, store


def ensure_results(pairs: Sequence[tuple[Subject, Sequence[Evaluation]]], workers: int | None = None) -> None:
    """Train runs and evaluate subjects where results are missing; `workers` processes at once train.

    NotRecorded is raised for what is missing of a run that was recorded with its weights, or of a scale that is only read: only
    `classwise record` and `classwise run` compute that.
    """
    for subject, evaluations in pairs:
        if store.has_recorded_network(subject) or _only_read(subject):
            lacking = [one.resolved_for(subject) for one in evaluations if not recorded.is_stored(subject, one)]
            if lacking or not recorded.is_stored(subject):
                raise not_recorded(subject, lacking)
    from classwise.runs import audit_evaluation
    from classwise.runs.schedule import pool

    pool.ensure_runs([(spec, evaluations) for spec, evaluations in pairs if isinstance(spec, Spec)], workers=workers)
    for subject, evaluations in pairs:
        if not isinstance(subject, Spec):
            with audit_evaluation.fast_threads(subject, evaluations):
                audit_evaluation.ensure_evaluations(subject, evaluations)


def _only_read(subject: Subject) -> bool:
    scale = registry.scale_of(subject) if isinstance(subject, Spec) else None
    return scale is not None and scales.SCALES[scale].only_read


def not_recorded(subject: Subject, evaluations: Sequence[Evaluation], what: str = "outcomes") -> NotRecorded:
    """Return the error that results of a recorded network under evaluations are not recorded."""
    names = ", ".join(dict.fromkeys(evaluation.name for evaluation in evaluations))
    how = "`classwise record`, with a queue that names it, computes what is missing"
    if _only_read(subject):
        how = recorded.how_to_record(str(registry.scale_of(subject)))  # type: ignore[arg-type]
    under = f" under {names}" if names else ""
    return NotRecorded(f"{what} of {subject.name} ({subject.title}){under} are not recorded; {how}")
