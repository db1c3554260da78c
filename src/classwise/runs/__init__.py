"""From specs to results and back: the only folder that knows both the torch half and the label half.

`runs.history(specs)` and `runs.outcomes(specs, evaluations)` return the results of runs as one Dataset.

The results of a run are in data/runs/<dataset>/<model>/<defence>-<id>/, or in data/recorded/ if they were computed elsewhere.
Stored results are never computed again; missing ones are computed first (`schedule.pool`, several runs at once), and processes
that need the same run wait for each other.
"""

from classwise.runs import settings
from classwise.runs.artifacts import attacker, example_sets, examples, gates, rebuilt, rebuilt_sets, scenes, traces
from classwise.runs.audits import audit, audit_checks, audited
from classwise.runs.describe import baselines, recorded_runs, recording, sanity_summary, sources, summary, training
from classwise.runs.judge import judged, verdicts
from classwise.runs.load import features, history, outcomes
from classwise.runs.pages import claim_inputs, other_datasets, page, provenance, shown_scales
from classwise.runs.recorded import available, check_recorded, converged, recorded_part, select

__all__ = [
    "attacker",
    "audit",
    "audit_checks",
    "audited",
    "available",
    "baselines",
    "check_recorded",
    "claim_inputs",
    "converged",
    "example_sets",
    "examples",
    "features",
    "gates",
    "history",
    "judged",
    "other_datasets",
    "outcomes",
    "page",
    "provenance",
    "rebuilt",
    "rebuilt_sets",
    "recorded_part",
    "recorded_runs",
    "recording",
    "sanity_summary",
    "scenes",
    "select",
    "settings",
    "shown_scales",
    "sources",
    "summary",
    "traces",
    "training",
    "verdicts",
]
