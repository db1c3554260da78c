"""Verdicts on the claims of sections, computed from their runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import xarray as xr

from classwise.core.errors import unknown
from classwise.core.spec import Evaluation, Spec
from classwise.papers import registry, scales
from classwise.papers.claims import Verdict
from classwise.papers.sections import Request, Section
from classwise.runs import store
from classwise.runs.artifacts import scenes
from classwise.runs.load import outcomes

# A bigger scale counts only where all results of a section are recorded; this one is computed.
_HERE = "quick"


def verdicts(scale: str = _HERE, others: Sequence[str] | None = None, sections: Sequence[str] | None = None) -> list[Verdict]:
    """Return a verdict on every claim of sections (None: of all that have any), at a scale.

    Where a section does not exist yet, or its results at a bigger scale are incomplete, its claims are "not tested"; runs of
    scale "quick" are computed where they are missing. `others`: further scales (None: all), at which only complete sections are
    judged.
    """
    for name in (scale, *(others or ())):
        if name not in scales.SCALES:
            raise unknown("scale", name, scales.SCALES)
    known = list(sections or dict.fromkeys(claim.section for claim in registry.CLAIMS))
    result = [verdict for section in known for verdict in _judged(section, scale)]
    for name in scales.SCALES if others is None else others:
        if name != scale:
            result += [verdict for section in known if not _missing(section, name) for verdict in _judged(section, name)]
    return result


def _judged(section: str, scale: str) -> list[Verdict]:
    reason = _missing(section, scale)
    if not reason:
        request = registry.request(section, scale)
        # A section that is repeated on other datasets is judged on each of them.
        requests = [request, *(request.parts.values() if registry.SECTIONS[section].all_datasets else ())]
        inputs = (claim_inputs(section, each) for each in requests)
        return [verdict for data in inputs for verdict in registry.judge(section, data, scale=scale, strict=False)]
    dataset = str(scales.SCALES[scale].run["dataset"])
    return [Verdict(claim, "not tested", scale, dataset, reason=reason) for claim in registry.claims_of(section)]


def _missing(section: str, scale: str) -> str:
    """Return why a section cannot be judged at a scale; "" where it can."""
    if section not in registry.SECTIONS:
        return "there is no such section yet"
    if scale == _HERE:
        return ""
    pairs = registry.request(section, scale).pairs
    present = sum(_complete(spec, evaluations) for spec, evaluations in pairs)
    return "" if present == len(pairs) else f"{present} of {len(pairs)} runs are there"


def _complete(spec: Spec, evaluations: Sequence[Evaluation]) -> bool:
    resolved = [evaluation.resolved_for(spec) for evaluation in evaluations]
    return any(store.complete(folder, resolved) for folder in store.search_folders(spec))


def claim_inputs(section: str, request: Request) -> xr.Dataset | Mapping[str, xr.Dataset]:
    """Return the outcomes of a section as `registry.judge` takes them; what is missing is computed."""
    definition = registry.SECTIONS[section]
    if definition.arrange is None:
        return outcomes(replace(request, parts={}))
    parts = {"": (definition, request)}
    parts |= {name: (definition.parts[name], part) for name, part in request.parts.items() if part.evaluations}
    return definition.arrange({name: _measured(*part) for name, part in parts.items()})


def _measured(section: Section, request: Request) -> xr.Dataset:
    """Return the outcomes of a section or part without its own parts, with the whiteness of its images where it needs that."""
    data = outcomes(replace(request, parts={}))
    if not section.whiteness:
        return data
    around = [scenes(spec, request.evaluations[0].resolved_for(spec), behind=True).whiteness for spec in request.specs]
    return data.assign(white=xr.concat(around, "image").drop_duplicates("image").reindex(image=data.image))
