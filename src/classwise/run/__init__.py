"""From specs to files and back: the only place that knows both the torch half and the label half.

    history(specs)                  one Dataset of what every epoch saw
    outcomes(specs, evaluations)    one Dataset of what is answered for each image
    examples(spec, evaluation)      a few images with their attacked forms
    attacker(spec, evaluation)      a function that attacks chosen images now
    summary(specs, evaluations, data)   what was run, asked and found where
    doubts(data)                        what speaks against believing them
    sources(data)                   where the numbers of a Dataset come from
    scenes(spec, evaluation)            the images of an evaluation, and what lies behind their objects
    settings                            what runs, questions and attacks are made with, and what papers print of theirs
    recorded(section)               which results of a section come from bigger machines

A run lives in data/runs/<dataset>/<model>/<defence>-<id>/ and is looked for there first, then in data/recorded/. What is there is
never computed again, what is missing is computed first (`run.pool`, several runs at once), and two processes that want the same
run wait for each other.
"""

from classwise.run import settings
from classwise.run.chapters import recorded
from classwise.run.collect import attacker, doubts, examples, history, outcomes, sources, summary
from classwise.run.scenes import scenes

__all__ = ["attacker", "doubts", "examples", "history", "outcomes", "recorded", "scenes", "settings", "sources", "summary"]
