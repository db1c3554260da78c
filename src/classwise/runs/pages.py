"""What a page begins and ends with: its request, its Datasets by name, and what they rest on."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import xarray as xr

from classwise.papers import registry, scales
from classwise.papers.sections import Request
from classwise.runs.describe import recorded_runs, summary
from classwise.runs.judge import Inputs, claim_inputs
from classwise.runs.load import outcomes
from classwise.runs.recorded import available, recorded_part


def page(section: str, scale: str, **chosen: Any) -> tuple[Request, Mapping[str, xr.Dataset]]:
    """Return the request of a page as it can be shown, and its outcomes by the name that claims give as `data`.

    Those of the section itself are "", arranged where the section says so. Naming outcomes that need runs which are not recorded
    is NotRecorded. chosen: what the reader chooses, as of `registry.request`.
    """
    request = available(registry.request(section, scale, **chosen))
    inputs = claim_inputs(section, request)
    if isinstance(inputs, xr.Dataset):
        return request, Inputs({"": inputs})
    return request, Inputs(inputs if "" in inputs else {**inputs, "": outcomes(replace(request, parts={}))})


def shown_scales(section: str, scale: str) -> list[str]:
    """Return the scales at which a page shows a section: those only read of which any run is stored, then its own."""
    return [*(other for other in scales.also_read(scale) if recorded_part(registry.request(section, other)).specs), scale]


def other_datasets(request: Request) -> dict[str, xr.Dataset]:
    """Return by dataset the outcomes of the parts on others than that of the section."""
    parts = [part for part in request.parts.values() if part.specs and part.specs[0].dataset != request.specs[0].dataset]
    return {part.specs[0].dataset: outcomes(part.specs, part.evaluations) for part in parts}


def provenance(section: str, request: Request, data: xr.Dataset) -> str:
    """Return in Markdown what was trained and evaluated, where, and what was recorded on other machines."""
    return f"{summary(request, data)}\n\n{recorded_runs(section)}"
