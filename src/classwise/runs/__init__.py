"""From specs to results and back: the only folder that knows both the torch half and the label half.

    available(request)                  of a scale that is only read, what is recorded
    check_recorded(results, what, scale)  an error, at such a scale, if these are missing
    select(outcomes, attack=[...])      members of dimensions, an error for those that are not recorded
    history(specs)                      training histories of runs as one Dataset
    outcomes(specs, evaluations)        predictions for each image as one Dataset; or outcomes(request)
    examples(spec, evaluation)          a few images with their attacked forms
    example_sets(specs, evaluation)     the same for each defence
    traces(pairs)                       logits at each step of an attack, for a few images
    attacker(spec, evaluation)          a function that attacks chosen images when called
    audit(weights, ...)                 the audit of a user's network, which takes the place of a spec
    audit_checks(audit)                 the sanity checks of its evaluations
    features(subject)                   sums of the penultimate features of each class, by block; or features(request)
    rebuilt(spec)                       the rebuilt training images of a run, and their distances in features
    rebuilt_sets(request)               the same of all runs that a section requests
    gates(spec)                         the gates of batch-instance norm
    scenes(spec, evaluation)            the images of an evaluation, and their backgrounds
    claim_inputs(section, request)      outcomes of a section as its claims need them
    page(section, scale)                the request of a page, and its outcomes by name
    shown_scales(section, scale)        the scales at which a page shows a section
    other_datasets(request)             outcomes of the parts on other datasets
    provenance(section, request, data)  what a page rests on
    judged(section, request)            the verdicts on the claims of a section
    verdicts(scale)                     the verdicts on all claims
    summary(request, data)              what was trained and evaluated, and where
    sanity_summary(data)                the sanity warnings of outcomes
    converged(scale)                    what twice the epochs change in the trainings of a scale
    sources(data)                       device, commit and date of results
    settings                            the settings of runs and attacks, and those that papers print
    training(specs)                     the network, epochs and radius of runs, in a sentence
    recording(request)                  the hours that the runs of a request took
    recorded_runs(section)              which results of a section were recorded on other machines
    baselines(names)                    the plain defence that each calibrated one is compared with

The results of a run are in data/runs/<dataset>/<model>/<defence>-<id>/, or in data/recorded/ if they were computed elsewhere.
Stored results are never computed again; missing ones are computed first (`schedule.pool`, several runs at once), and processes
that need the same run wait for each other.
"""

from classwise.runs import settings
from classwise.runs.artifacts import attacker, example_sets, examples, gates, rebuilt, rebuilt_sets, scenes, traces
from classwise.runs.audits import audit, audit_checks
from classwise.runs.convergence import converged
from classwise.runs.describe import baselines, recorded_runs, recording, sanity_summary, sources, summary, training
from classwise.runs.judge import claim_inputs, judged, other_datasets, page, provenance, shown_scales, verdicts
from classwise.runs.load import features, history, outcomes
from classwise.runs.recorded import available, check_recorded, select

__all__ = [
    "attacker",
    "audit",
    "audit_checks",
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
