"""Verdicts on the claims of sections, computed from their runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import xarray as xr

from classwise.core.errors import unknown
from classwise.papers import registry, scales
from classwise.papers.claims import Verdict
from classwise.papers.sections import Request, Section
from classwise.runs.artifacts import scenes
from classwise.runs.load import outcomes
from classwise.runs.recorded import recorded_part

# The scale whose missing runs are computed; at all others claims are judged on what is stored.
_HERE = "quick"


def verdicts(scale: str = _HERE, others: Sequence[str] | None = None, sections: Sequence[str] | None = None) -> list[Verdict]:
    """Return a verdict on every claim of sections (None: of all that have any), at a scale and at others.

    Runs of scale "quick" are computed where they are missing. At other scales a claim is judged where the runs and evaluations
    that it needs are stored, else it is "not tested". `others`: further scales (None: all), each for the sections of which any
    run is stored there. Verdicts on one claim stand together.
    """
    for name in (scale, *(others or ())):
        if name not in scales.SCALES:
            raise unknown("scale", name, scales.SCALES)
    result: list[Verdict] = []
    for section in sections or dict.fromkeys(claim.section for claim in registry.CLAIMS):
        judged = _judged(section, scale)
        for name in scales.SCALES if others is None else others:
            if name != scale and section in registry.SECTIONS and _stored(section, name).pairs:
                judged += _judged(section, name)
        order = [claim.name for claim in registry.claims_of(section)]
        result += sorted(judged, key=lambda verdict: order.index(verdict.claim.name))
    return result


def _stored(section: str, scale: str) -> Request:
    """Return what is stored of a section; at scale "quick" all of it, because what is missing is computed."""
    request = registry.request(section, scale)
    return request if scale == _HERE else recorded_part(request)


def _judged(section: str, scale: str) -> list[Verdict]:
    reason = "" if section in registry.SECTIONS else "there is no such section yet"
    if not reason:
        request = _stored(section, scale)
        # A section that is repeated on other datasets is judged on each of them.
        requests = [request, *(request.parts.values() if registry.SECTIONS[section].all_datasets else ())]
        inputs = [claim_inputs(section, each) for each in requests if each.pairs]
        judged = [verdict for data in inputs if data for verdict in registry.judge(section, data, scale=scale, strict=False)]
        if judged:
            return judged
        reason = "none of its runs is stored"
    dataset = str(scales.SCALES[scale].run["dataset"])
    return [Verdict(claim, "not tested", scale, dataset, reason=reason) for claim in registry.claims_of(section)]


def claim_inputs(section: str, request: Request) -> xr.Dataset | Mapping[str, xr.Dataset]:
    """Return the outcomes of a section as `registry.judge` takes them; what is missing is computed.

    Of a request that was restricted to what is stored, Datasets that need a part which is not complete are left out.
    """
    definition = registry.SECTIONS[section]
    if not definition.arrange:
        return outcomes(replace(request, parts={}))
    parts = {"": (definition, request)}
    parts |= {name: (definition.parts[name], part) for name, part in request.parts.items() if part.evaluations}
    parts = {name: (some, _complete(part)) for name, (some, part) in parts.items()}
    stored = {name for name, (_, part) in parts.items() if part.specs}
    wanted = {name: how for name, how in definition.arrange.items() if stored.issuperset(how.needs)}
    data = {name: _measured(*parts[name]) for name in dict.fromkeys(need for how in wanted.values() for need in how.needs)}
    return {name: how.function(*(data[need] for need in how.needs)) for name, how in wanted.items()}


def _complete(request: Request) -> Request:
    """Return the runs of the seeds of which nothing is left out."""
    return replace(request, specs=tuple(spec for spec in request.specs if spec.seed not in request.incomplete), parts={})


def _measured(section: Section, request: Request) -> xr.Dataset:
    """Return the outcomes of a section or part without its own parts, with the whiteness of its images where it needs that."""
    data = outcomes(replace(request, parts={}))
    if not section.whiteness:
        return data
    around = [scenes(spec, request.evaluations[0].resolved_for(spec), behind=True).whiteness for spec in request.specs]
    return data.assign(white=xr.concat(around, "image").drop_duplicates("image").reindex(image=data.image))
