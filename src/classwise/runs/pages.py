"""The outcomes of a section as its page and its claims need them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.papers import registry, scales
from classwise.papers.sections import Part, Request, Section
from classwise.runs.artifacts import scenes
from classwise.runs.describe import recorded_runs, summary
from classwise.runs.load import add_features, history, outcomes
from classwise.runs.recorded import Present, keep_recorded, keep_stored
from classwise.stats import aggregate
from classwise.stats.features import add_pixels


def load_page(section: str, scale: str, **chosen: Any) -> tuple[Request, Mapping[str, xr.Dataset]]:
    """Return the request of a page as it can be shown, and its outcomes by the name that claims give as `data`.

    Those of the section itself are "", arranged where the section says so. Naming outcomes that need runs which are not recorded
    is NotRecorded. chosen: what the reader chooses, as of `registry.request`.
    """
    full = registry.request(section, scale, **chosen)
    request = keep_recorded(full)
    inputs = claim_inputs(section, request)
    result = Present(inputs if "" in inputs else {**inputs, "": outcomes(replace(request, parts={}))})
    arrange = registry.SECTIONS[section].arrange
    result.never = [name for name, how in arrange.items() if any(part and not full.parts[part].specs for part in how.needs)]
    return request, result


def claim_inputs(section: str, request: Request) -> Mapping[str, xr.Dataset]:
    """Return the outcomes of a section by the name that claims give as `data`; what is missing is computed.

    Of a request that was restricted to what is stored, Datasets that need a part without any run, or a network that is not there,
    are left out; naming one of these is NotRecorded.
    """
    definition = registry.SECTIONS[section]
    if not definition.arrange:
        return Present({"": _measured(definition, request)})
    parts = stored_parts(definition, request)
    wanted = {name: how for name, how in definition.arrange.items() if set(parts).issuperset(how.needs)}
    used = dict.fromkeys(part for how in wanted.values() for part in (*how.needs, *how.optional) if part in parts)
    data = {name: _measured(*parts[name]) for name in used}
    arranged = {}
    for name, how in wanted.items():
        named = (*how.needs, *how.optional)
        try:
            arranged[name] = how.function(*map(data.get, named))
        except NotRecorded:
            if not any(parts[part][1].incomplete for part in named if part in parts):
                raise
    return Present(arranged)


def stored_parts(section: Section, request: Request) -> dict[str, tuple[Part, Request]]:
    """Return a section and its parts, those that have any runs."""
    parts = {
        name: (section.parts[name], part) for name, part in request.parts.items() if name in section.parts and part.evaluations
    }
    return {name: (some, part) for name, (some, part) in {"": (section, request), **parts}.items() if part.specs}


def _measured(section: Part, request: Request) -> xr.Dataset:
    """Return the outcomes of a section or part without its own parts, with the features and variables that it adds."""
    request = replace(request, parts={})
    data = add_features(request, outcomes(request))
    # Recorded results are read where no images are.
    known = ADDED if not scales.SCALES[request.scale].recorded_only else {"late_settings": late_settings}
    for name in section.adds:
        data = known[name](request, data) if name in known else data
    return data


def whiteness(request: Request, data: xr.Dataset) -> xr.Dataset:
    """Return outcomes with how white each image is around its object (`white`)."""
    return data.assign(white=scenes(request.specs, request.evaluations[0], behind=True).whiteness.reindex(image=data.image))


def pixels(request: Request, data: xr.Dataset) -> xr.Dataset:
    """Return outcomes with sums of the pixels next to those of the features, where these are recorded."""
    return add_pixels(data, scenes(request.specs, request.evaluations[0])) if "total" in data else data


def late_settings(request: Request, data: xr.Dataset) -> xr.Dataset:
    """Return outcomes with what each class was trained with late in the training."""
    return data.assign(aggregate.late_settings(history(request.specs)))


# By the name in `Part.adds`.
ADDED: Mapping[str, Callable[[Request, xr.Dataset], xr.Dataset]] = {
    "whiteness": whiteness,
    "pixels": pixels,
    "late_settings": late_settings,
}


def shown_scales(section: str, scale: str) -> list[str]:
    """Return the scales at which a page may show a section: those only read of which any run is stored, then its own."""
    return [*stored_beside(section, scale), scale]


def stored_beside(section: str, scale: str) -> dict[str, Request]:
    """Return what a section requests at the scales that are only read, those of which any run is stored."""
    requests = {other: registry.request(section, other) for other in scales.scales_beside(scale)}
    return {other: request for other, request in requests.items() if keep_stored(request).specs}


def other_datasets(request: Request) -> dict[str, xr.Dataset]:
    """Return by dataset the outcomes of the parts on others than that of the section."""
    parts = [part for part in request.parts.values() if part.specs and part.specs[0].dataset != request.specs[0].dataset]
    return {part.specs[0].dataset: outcomes(part.specs, part.evaluations) for part in parts}


def provenance(section: str, request: Request, data: xr.Dataset) -> str:
    """Return in Markdown what was trained and evaluated, where, and how much of it is recorded."""
    recorded = scales.SCALES[request.scale].recorded_only
    return f"{summary(request, data)}\n\n{recorded_runs(section, request.scale) if recorded else ''}"
