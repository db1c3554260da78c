"""From specs to files and back: the only place that knows both the torch half and the label half.

    history(specs)                  one Dataset of what every epoch saw
    outcomes(specs, evaluations)    one Dataset of what is answered for each image
    examples(spec, evaluation)      a few images with their attacked forms
    pictures(specs, evaluation)     the same of every defence, where they can be had
    courses(asked)                  what networks answer for a few images at each step of an attack
    attacker(spec, evaluation)      a function that attacks chosen images now
    audit(weights, ...)             somebody's network, to be asked in place of a spec
    features(subject)               where a network puts each class, for a spec or an audit
    summary(specs, evaluations, data)   what was run, asked and found where
    doubts(data)                        what speaks against believing them
    sources(data)                   where the numbers of a Dataset come from
    answers(asked)                  the same where not every run is asked the same
    gathered(section, request)      the same as the claims of a section take them
    judged(scale)                   the verdicts on all claims
    scenes(spec, evaluation)            the images of an evaluation, and what lies behind their objects
    settings                            what runs, questions and attacks are made with, and what papers print of theirs
    recorded(section)               which results of a section come from bigger machines
    uncalibrated(names)             what a calibrated defence is to be compared with

A run lives in data/runs/<dataset>/<model>/<defence>-<id>/ and is looked for there first, then in data/recorded/. What is there is
never computed again, what is missing is computed first (`run.pool`, several runs at once), and two processes that want the same
run wait for each other.
"""

from classwise.runs import settings
from classwise.runs.artifacts import attacker, example_sets, examples, features, scenes, traces
from classwise.runs.audits import audit
from classwise.runs.describe import baselines, recorded_runs, sanity_summary, sources, summary
from classwise.runs.judge import claim_inputs, verdicts
from classwise.runs.load import history, outcomes, outcomes_of

__all__ = [
    "attacker",
    "audit",
    "baselines",
    "claim_inputs",
    "example_sets",
    "examples",
    "features",
    "history",
    "outcomes",
    "outcomes_of",
    "recorded_runs",
    "sanity_summary",
    "scenes",
    "settings",
    "sources",
    "summary",
    "traces",
    "verdicts",
]
