"""Verdicts on claims, kept until the results or the code change."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path

import xarray as xr
from filelock import FileLock, Timeout

import classwise
from classwise.core.errors import NotAtScale, NotRecorded
from classwise.core.files import digest, write
from classwise.core.paths import data_folder
from classwise.papers import registry, scales
from classwise.papers.claims import Claim, Verdict
from classwise.papers.judging import Bootstrap, canonical_names
from classwise.papers.sections import Request
from classwise.runs import store
from classwise.runs.load import add_features, outcomes
from classwise.runs.pages import claim_inputs, stored_parts
from classwise.runs.recorded import keep_stored

# The scale whose missing runs are computed; at all others claims are judged on what is stored.
_HERE = "quick"
# The parts of this package that verdicts do not depend on, and the libraries that they do.
_WITHOUT = {"book", "charts", "home.py", "reports.py"}
_LIBRARIES = ("numpy", "scipy", "statsmodels", "xarray")


def verdicts(scale: str = _HERE, others: Sequence[str] | None = None, sections: Sequence[str] | None = None) -> list[Verdict]:
    """Return a verdict on every claim of sections (None: of all that have any), at a scale and at others.

    Runs of scale "quick" are computed where they are missing. At other scales a claim is judged where the runs and evaluations
    that it needs are stored, else it is "not tested". `others`: further scales (None: all), of which those count where any run of
    these sections is stored. Theorems have one verdict, at scale CLOSED_FORM. Verdicts on one claim stand together.
    """
    named = list(sections or dict.fromkeys(claim.section for claim in registry.CLAIMS))
    further = [name for name in (scales.SCALES if others is None else others) if name != scale]
    with_runs = [section for section in named if section not in registry.THEOREMS]
    further = [name for name in further if any(_stored(registry.request(section, name)).pairs for section in with_runs)]
    pairs, known, later = [(section, name) for section in with_runs for name in (scale, *further)], {}, []
    for pair in pairs:
        try:
            known[pair] = _judged(*pair, wait=False)
        except Timeout:  # another page is at it
            later.append(pair)
    known |= {pair: _judged(*pair) for pair in later}
    result: list[Verdict] = []
    for section in named:
        theorems = registry.THEOREMS.get(section)
        judged = list(theorems()) if theorems else [verdict for name in (scale, *further) for verdict in known[section, name]]
        order = [claim.name for claim in registry.claims_of(section)]
        result += sorted(judged, key=lambda verdict: order.index(verdict.claim.name))
    return result


def judge_section(section: str, request: Request) -> list[Verdict]:
    """Return the verdicts on the claims of a section, from the runs of a request; `registry.judge` describes them.

    Those on the runs as their scale trains them are kept, so that pages, the ledger and the reports show the same. NotRecorded is
    raised where no claim can be tested at a scale that is only read, NotAtScale where none ever can.
    """
    plain = request == _stored(registry.request(section, request.scale))
    verdicts = _judged(section, request.scale) if plain else _computed(section, request.scale, request)
    if scales.is_only_read(request.scale) and all(verdict.verdict == "not tested" for verdict in verdicts):
        if all(verdict.unreachable for verdict in verdicts):
            raise NotAtScale(f"no run of scale {request.scale!r} could test the claims of {section}")
        raise NotRecorded(f"the runs that the claims of {section} need are not recorded")
    return verdicts


def _stored(request: Request) -> Request:
    """Return what is stored of a request; at scale "quick" all of it, because what is missing is computed."""
    return request if request.scale == _HERE and not scales.is_only_read(_HERE) else keep_stored(request)


def _judged(section: str, scale: str, *, wait: bool = True) -> list[Verdict]:
    request = _stored(registry.request(section, scale))
    if scales.is_only_read(scale) and not scales.SCALES[scale].recorded_only:  # another call completes the results
        return _computed(section, scale, request)
    path = data_folder() / "verdicts" / f"{section.replace('/', '-')}-{scale}.json"
    with ExitStack() as held:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Pages that are built at once wait for each other, so that each verdict is computed once.
            held.enter_context(FileLock(path.with_suffix(".lock"), timeout=-1 if wait else 0))
        except Timeout:
            raise
        except OSError:  # a folder that can only be read: verdicts are computed each time
            pass
        claims = {claim.name: claim for claim in registry.claims_of(section)}
        # The code before it runs: a file that changes meanwhile is not what the verdicts come from.
        based = _stored(registry.base(scale))
        before = _states(request, based)
        known = _digest(section, before)
        with suppress(OSError, ValueError, KeyError, TypeError):
            stored = json.loads(path.read_text(encoding="utf-8"))
            if stored["digest"] == known:
                return [Verdict(**{**row, "claim": claims[row["claim"]]}) for row in stored["verdicts"]]
        verdicts = _computed(section, scale, request)
        rows = [{**vars(verdict), "claim": verdict.claim.name} for verdict in verdicts]
        # Runs that were missing may be there now; those that were there are the same, or the verdicts are of neither.
        if before.items() <= (after := _states(request, based)).items():
            with suppress(OSError):
                write(path, json.dumps({"digest": _digest(section, after), "verdicts": rows}).encode())
    return verdicts


def _digest(section: str, states: Mapping[str, tuple[int, int]]) -> str:
    claims = [(claim.name, claim.measured, claim.low, claim.high, claim.datasets) for claim in registry.claims_of(section)]
    return digest((_code(), str(claims), str(states)))


def _states(*requests: Request) -> dict[str, tuple[int, int]]:
    keys = [key for request in requests for key in store.outcomes_of(request.pairs)]
    pairs = [pair for request in requests for pair in request.feature_pairs]
    keys += [store.Key(spec, store.FEATURES, one) for spec, evaluations in pairs for one in evaluations]
    states = {str(path): path.stat() for key in keys if (path := key.path) is not None}
    return {name: (state.st_size, state.st_mtime_ns) for name, state in states.items()}


@cache
def _code() -> str:
    root = Path(classwise.__file__).parent
    files = {str(file.relative_to(root)): file for suffix in ("py", "csv") for file in root.rglob(f"*.{suffix}")}
    used = {name: file for name, file in sorted(files.items()) if _WITHOUT.isdisjoint(Path(name).parts)}
    return digest((*map(metadata.version, _LIBRARIES), *used, *used.values()))


@lru_cache(maxsize=2)
def _trainings(scale: str, states: str) -> dict[str, xr.Dataset]:
    """Return by dataset the outcomes and features of the base; none where nothing of it is stored."""
    request = _stored(registry.base(scale))
    if not request.specs:
        return {}
    return {request.specs[0].dataset: canonical_names(add_features(request, outcomes(request)))}


def _computed(section: str, scale: str, request: Request) -> list[Verdict]:
    # A section that is repeated on other datasets is judged on each of them.
    others = registry.SECTIONS[section].datasets.get(scale, ())
    requests = [request, *(request.parts[name] for name in others if name in request.parts)]
    judged: list[Verdict] = []
    base = _trainings(scale, str(_states(_stored(registry.base(scale)))))
    for each in requests:
        data = claim_inputs(section, each) if each.pairs else {}
        # Without aligning what is aligned, a tenth of the time.
        with xr.set_options(arithmetic_join="exact"):  # type: ignore[no-untyped-call]
            tested = registry.judge(section, data, scale=scale, strict=False, bootstrap=Bootstrap(base=base)) if data else []
        judged += [one if one.claim.data in data else _untested(one.claim, scale, request) for one in tested]
    return judged or [_untested(claim, scale, request) for claim in registry.claims_of(section)]


def _untested(claim: Claim, scale: str, stored: Request) -> Verdict:
    """Return the verdict on a claim whose runs are not all stored: what is missing, and on which dataset."""
    definition, full = registry.SECTIONS[claim.section], registry.request(claim.section, scale)
    how = definition.arrange.get(claim.data)
    known = stored_parts(definition, stored)
    complete = {
        name for name, (_, part) in known.items() if {spec.seed for spec in part.specs} - {seed for _, seed in part.incomplete}
    }
    lacking: dict[str, list[str]] = {}
    for name in (*how.needs, *(how.optional if complete.issuperset(how.needs) else ())) if how else ("",):
        section, part = (definition.parts[name], full.parts[name]) if name else (definition, full)
        if name not in complete and part.specs:
            runs = ", ".join(section.defences) + (f" ({section.title})" if name else "")
            lacking.setdefault(part.specs[0].dataset, []).append(runs)
    dataset = next(iter(lacking), str(scales.SCALES[scale].run["dataset"]))
    parts = [f"on {scales.location(where, scale)} for {', '.join(some)}" for where, some in lacking.items()]
    why = claim.exclusion(dataset)
    reason = why or (f"no complete results {'; '.join(parts)}" if parts else "this scale has no runs for it")
    return Verdict(claim, "not tested", scale, dataset, reason=reason, unreachable=bool(why) or not parts)
