"""Results of any subject and kind, computed first where they are missing; torch is imported only then."""

import os
from collections.abc import Iterable, Sequence

import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.core.spec import Evaluation, Spec, Subject
from classwise.papers import registry, scales
from classwise.runs import recorded, store
from classwise.runs.store import EXAMPLES, FEATURES, HISTORY, REBUILT, TRACE, Key

# A subject, and its evaluations.
Pair = tuple[Subject, Sequence[Evaluation]]

# What results are called where a recorded network lacks them.
_TITLES = {EXAMPLES: "examples", TRACE: "traces", FEATURES: "features", REBUILT: "rebuilt images"}


def get(key: Key, further: Iterable[Key] = (), workers: int | None = None) -> xr.Dataset:
    """Return a result; if it is missing, first compute it, together with what is missing of `further` ones.

    NotRecorded is raised for what only `classwise record` computes. A damaged file of data/runs/ is set aside, but for histories
    and outcomes, which raise Damaged.
    """
    data = key.read(repair=key.kind in _TITLES)
    if data is None:
        ensure_results([key, *further], workers)
        data = key.read()
    if data is None:
        raise NotRecorded(f"{key.name} of {key.subject.name} was removed; delete {key.file.parent} to train it again")
    return data


def ensure_results(keys: Iterable[Key], workers: int | None = None) -> None:
    """Compute the results that are missing, by `workers` processes at once.

    NotRecorded is raised for what is missing of a run that was recorded, or of a scale that is only read: only `classwise record`
    and `classwise run` compute that.
    """
    subjects: dict[Subject, list[Key]] = {}
    for key in dict.fromkeys(keys):
        subjects.setdefault(key.subject, []).append(key)
    for subject, some in subjects.items():
        shown = any(key.kind in _TITLES for key in some) and isinstance(subject, Spec) and store.lacks_weights(subject)
        if shown or store.has_recorded_network(subject) or _only_read(subject) or os.environ.get(scales.READ_ONLY):
            lacking = [key for key in some if key.path is None]
            if lacking or Key(subject).path is None:
                raise not_recorded(subject, lacking)
    from classwise.runs import audit_evaluation
    from classwise.runs.schedule import pool

    # A training makes its rebuilt images.
    wanted = {spec: [key for key in some if key.kind not in (HISTORY, REBUILT)] for spec, some in subjects.items()}
    pool.ensure_runs({spec: some for spec, some in wanted.items() if isinstance(spec, Spec)}, workers=workers)
    for subject, some in wanted.items():
        if not isinstance(subject, Spec):
            audit_evaluation.ensure_keys(some)


def _only_read(subject: Subject) -> str | None:
    """Return the scale of a subject if that is only read."""
    scale = registry.scale_of(subject) if isinstance(subject, Spec) else None
    return scale if scale is not None and scales.SCALES[scale].recorded_only else None


def not_recorded(subject: Subject, keys: Sequence[Key]) -> NotRecorded:
    """Return the error that results of a recorded network are not recorded."""
    names, scale = ", ".join(dict.fromkeys(key.evaluation.name for key in keys if key.evaluation)), _only_read(subject)
    what, under = _TITLES.get(keys[0].kind, "outcomes") if keys else "outcomes", f" under {names}" if names else ""
    how = recorded.how_to_record(scale) if scale else "`classwise record`, with a queue that names it, computes what is missing"
    return NotRecorded(f"{what} of {subject.name} ({subject.title}){under} are not recorded; {how}")
