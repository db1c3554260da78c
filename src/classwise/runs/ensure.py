"""Compute what is missing of any subject; torch is imported only when something is."""

from collections.abc import Sequence

from classwise.core.spec import Evaluation, Spec, Subject


def ensure_results(pairs: Sequence[tuple[Subject, Sequence[Evaluation]]], workers: int | None = None) -> None:
    """Train runs and evaluate subjects where results are missing; `workers` processes at once train."""
    from classwise.runs import audit_evaluation
    from classwise.runs.schedule import pool

    pool.ensure_runs([(spec, evaluations) for spec, evaluations in pairs if isinstance(spec, Spec)], workers=workers)
    for subject, evaluations in pairs:
        if not isinstance(subject, Spec):
            audit_evaluation.ensure_evaluations(subject, evaluations)
