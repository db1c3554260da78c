"""What is there of the runs of a section, at scales that are recorded elsewhere and only read here."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import xarray as xr

from classwise.core import netcdf
from classwise.core.errors import NotAtScale, NotRecorded, UserError
from classwise.core.paths import data_folder
from classwise.core.results import load
from classwise.core.spec import Evaluation, Spec
from classwise.papers import registry
from classwise.papers.scales import is_only_read
from classwise.papers.sections import CLEAN_AND_PGD, Request
from classwise.runs.store import OUTCOMES, Key
from classwise.stats.convergence import comparison

# The schema of trainings next to the same ones of twice as many epochs.
CONVERGENCE = "convergence 1"
# The section whose runs are compared with people.
BESIDE_PEOPLE = "tian2021/4-1-class-bias"
_What = TypeVar("_What")


class Present(dict[str, _What]):
    """What is there of a section, by name; naming other runs says that they are not recorded.

    never: the names of those that the scale does not have.
    """

    never: Collection[str] = ()

    def __missing__(self, name: str) -> _What:
        if name in self.never:
            raise NotAtScale(f"this scale has no runs for {name!r}")
        raise NotRecorded(f"not all runs of {name!r} are recorded; there are: {', '.join(self) or 'none'}")


def keep_recorded(request: Request) -> Request:
    """Return a request, or where nothing is computed what is recorded of it; NotRecorded if none of its own runs is.

    Its evaluations are those that all kept runs have; one that only some have is an extra evaluation of their defences.
    """
    if not is_only_read(request.scale):
        return request
    result = keep_stored(request)
    if not result.specs:
        raise NotRecorded(f"no run of this section is recorded at scale {request.scale!r}; {how_to_record(request.scale)}")
    return result


def select(outcomes: xr.Dataset, **members: Sequence[str]) -> xr.Dataset:
    """Return outcomes restricted to some members of dimensions; NotRecorded names those that are missing."""
    for dim, names in members.items():
        recorded = outcomes[dim].values.tolist() if dim in outcomes.dims else []
        missing = [name for name in names if name not in recorded]
        if missing:
            raise NotRecorded(f"results of {dim} {', '.join(missing)} are not recorded")
    return outcomes.sel({dim: list(names) for dim, names in members.items()})


def check_recorded(results: object, what: str, scale: str) -> None:
    """Raise NotRecorded if `results` is false or empty at a scale that is only read; what: these results in words."""
    if not results and is_only_read(scale):
        raise NotRecorded(f"results of {what} are not recorded")


def how_to_record(scale: str) -> str:
    """Return a sentence with the command that computes what is missing at a scale that is only read."""
    return f"`classwise record --scale {scale}` computes what is missing"


def keep_stored(request: Request) -> Request:
    """Return what is stored of a request, computed here or recorded.

    A run counts once it has the evaluations that all pages show, clean and by PGD; in a section that does not request both, all
    of its evaluations. Runs that differ only in what a section varies count together.
    """
    stored = {
        spec: {one for one in request.evaluations_of(spec) if Key(spec, OUTCOMES, one).path is not None}
        for spec in request.specs
        if Key(spec).path is not None
    }
    shown = set(CLEAN_AND_PGD) & set(request.evaluations)
    needed = shown if shown == set(CLEAN_AND_PGD) else set(request.evaluations)
    ready = [spec for spec, some in stored.items() if needed <= some and (some or not request.evaluations_of(spec))]
    varied, counted = (Counter((spec.defence, spec.seed) for spec in some) for some in (request.specs, ready))
    specs = tuple(spec for spec in ready if counted[spec.defence, spec.seed] == varied[spec.defence, spec.seed])
    common = tuple(one for one in request.evaluations if specs and all(one in stored[spec] for spec in specs))
    extra: dict[str, tuple[Evaluation, ...]] = {}
    absent: set[tuple[Spec, Evaluation]] = set()
    for defence in dict.fromkeys(spec.defence for spec in specs):
        of_defence = [spec for spec in specs if spec.defence == defence]
        further = [one for one in request.evaluations_of(of_defence[0]) if one not in common]
        extra[defence] = tuple(one for one in further if any(one in stored[spec] for spec in of_defence))
        absent |= {(spec, one) for spec in of_defence for one in extra[defence] if one not in stored[spec]}
    parts = {name: keep_stored(part) for name, part in request.parts.items()}
    kept = Present({name: part for name, part in parts.items() if part.specs})
    lacking = [spec for spec in request.specs if len(stored.get(spec, ())) < len(set(request.evaluations_of(spec)))]
    lacking += [spec for spec in request.specs if spec not in specs]
    present = replace(request, specs=specs, evaluations=common, extra_evaluations=extra, parts=kept)
    return replace(present, incomplete=frozenset((spec.defence, spec.seed) for spec in lacking), absent=frozenset(absent))


def convergence_file(scale: str) -> Path:
    """Return the path of the recorded comparison of the trainings of a scale with those of twice as many epochs."""
    return data_folder() / "recorded" / "convergence" / f"{scale}.nc"


def doubled_epochs(scale: str) -> xr.Dataset:
    """Return what twice the epochs change in the recorded trainings of a scale, as `stats.convergence.comparison`.

    A UserError is raised if nothing is recorded.
    """
    if not convergence_file(scale).exists():
        raise UserError(f"no comparison with twice the epochs is recorded: `make converged SCALE={scale}` computes it")
    return comparison(load(convergence_file(scale), CONVERGENCE))


def people_file(scale: str) -> Path:
    """Return the path of the recorded comparison of the runs of a scale with people."""
    return data_folder() / "recorded" / "people" / f"{scale}.nc"


def beside_people(scale: str) -> tuple[Request, xr.Dataset]:
    """Return the runs of a scale that are compared with people, and the recorded comparison, `stats.people.compare`.

    NotRecorded if there is none, or if it is of a run or an evaluation that is not stored.
    """
    how = "`classwise fetch human-labels` and `python -m benchmarks.people` record it"
    if not people_file(scale).exists():
        raise NotRecorded(f"no comparison with people is recorded at scale {scale!r}; {how}")
    compared, request = netcdf.read(people_file(scale)), keep_stored(registry.request(BESIDE_PEOPLE, scale))
    named = compared.attrs["runs"].split()
    specs = tuple(spec for spec in request.specs if spec.id in named)
    evaluations = tuple(one for one in request.evaluations if one.id in named)
    if lacking := set(named) - {one.id for one in (*specs, *evaluations)}:
        raise NotRecorded(f"{people_file(scale)} is of {', '.join(sorted(lacking))}, which {BESIDE_PEOPLE} has not; {how}")
    return replace(request, specs=specs, evaluations=evaluations, parts={}), compared
