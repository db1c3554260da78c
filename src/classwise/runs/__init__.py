"""From specs to results and back: the only folder that knows both the torch half and the label half.

`runs.history(specs)` and `runs.outcomes(specs, evaluations)` return the results of runs as one Dataset.

The results of a run are in data/runs/<dataset>/<model>/<defence>-<id>/, or in data/recorded/ if they were computed elsewhere.
Stored results are never computed again; missing ones are computed first (`schedule.pool`, several runs at once), and processes
that need the same run wait for each other.
"""

from classwise.runs import settings
from classwise.runs.artifacts import attack_function, example_sets, examples, gates, layers, rebuilt, rebuilt_sets, scenes, traces
from classwise.runs.audits import audit, audit_checks, audit_outcomes, published_networks
from classwise.runs.describe import baselines, networks, recorded_runs, sanity_summary, scale_notes, sources, summary, training
from classwise.runs.judge import judge_section, verdicts
from classwise.runs.load import features, history, outcomes
from classwise.runs.pages import claim_inputs, load_page, other_datasets, provenance, shown_scales
from classwise.runs.recorded import beside_people, check_recorded, doubled_epochs, keep_recorded, keep_stored, select

__all__ = ["attack_function", "audit", "audit_checks", "audit_outcomes", "baselines", "beside_people", "check_recorded"]
__all__ += ["claim_inputs", "doubled_epochs", "example_sets", "examples", "features", "gates", "history", "judge_section"]
__all__ += ["keep_recorded", "keep_stored", "layers", "load_page", "networks", "other_datasets", "outcomes", "provenance"]
__all__ += ["published_networks", "rebuilt", "rebuilt_sets", "recorded_runs", "sanity_summary", "scale_notes", "scenes"]
__all__ += ["select", "settings", "shown_scales", "sources", "summary", "traces", "training", "verdicts"]
