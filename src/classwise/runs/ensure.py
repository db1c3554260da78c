"""Results of many runs as one labelled Dataset; what is missing is computed first.

Torch is imported only where something is computed: reading what is there takes no more than xarray.
"""

from collections.abc import Sequence

from classwise.core.audit import Audit, Subject
from classwise.core.spec import Evaluation, Spec


def ensure_results(asked: Sequence[tuple[Subject, Sequence[Evaluation]]], workers: int | None = None) -> None:
    """Compute what is missing of runs and of audits."""
    from classwise.runs import audit_evaluation
    from classwise.runs.schedule import pool

    pool.ensure_runs([(one, evaluations) for one, evaluations in asked if isinstance(one, Spec)], workers=workers)
    for one, evaluations in asked:
        if isinstance(one, Audit):
            audit_evaluation.ensure_audit(one, evaluations)
