"""The verdicts of sections on their claims, from the runs that they ask for."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import xarray as xr

from classwise.core.errors import unknown
from classwise.core.spec import Evaluation, Spec
from classwise.papers import registry, scales
from classwise.papers.claims import Verdict
from classwise.papers.sections import Request
from classwise.papers.tian2021 import homing
from classwise.papers.variants import vulnerable_pair
from classwise.runs import store
from classwise.runs.artifacts import scenes
from classwise.runs.load import outcomes, outcomes_of
from classwise.stats import combine

# A bigger scale counts only where all that a section asks for is recorded; this one is computed.
_HERE = "quick"


def verdicts(scale: str = _HERE, others: Sequence[str] | None = None, sections: Sequence[str] | None = None) -> list[Verdict]:
    """Return a verdict on every claim of sections (None: of all that have any), at a scale.

    Where a section has no chapter yet, or its runs at a bigger scale are not all there, its claims are "not asked"; runs of scale
    "quick" are computed where they are missing. `others`: further scales (None: all), of which those sections are taken that
    are all there.
    """
    for name in (scale, *(others or ())):
        if name not in scales.SCALES:
            raise unknown("scale", name, scales.SCALES)
    known = list(sections or dict.fromkeys(claim.section for claim in registry.CLAIMS))
    found = [one for section in known for one in _judged(section, scale)]
    for name in scales.SCALES if others is None else others:
        if name != scale:
            found += [one for section in known if not _missing(section, name) for one in _judged(section, name)]
    return found


def _judged(section: str, scale: str) -> list[Verdict]:
    reason = _missing(section, scale)
    if not reason:
        asked = registry.request(section, scale)
        # What a section asks of further datasets is judged of each of them.
        kinds = {"": asked, **(asked.parts if registry.SECTIONS[section].widely else {})}
        return [
            one
            for part in kinds.values()
            for one in registry.judge(section, claim_inputs(section, part), scale=scale, strict=False)
        ]
    dataset = str(scales.SCALES[scale].run["dataset"])
    return [Verdict(claim, "not asked", scale, dataset, reason=reason) for claim in registry.claims_of(section)]


def _missing(section: str, scale: str) -> str:
    """Return why a section cannot be judged at a scale; "" where it can."""
    if section not in registry.SECTIONS:
        return "the section has no chapter yet"
    if scale == _HERE:
        return ""
    asked = registry.request(section, scale).asked
    there = sum(_there(spec, evaluations) for spec, evaluations in asked)
    return "" if there == len(asked) else f"{there} of {len(asked)} runs are there"


def _there(spec: Spec, evaluations: Sequence[Evaluation]) -> bool:
    asked = [one.of(spec) for one in evaluations]
    return any(store.complete(folder, asked) for folder in store.search_folders(spec))


Parts = Mapping[str, xr.Dataset]

# What the claims call the two classes of `study.pair`.
_PAIR = ("vulnerable", "partner")


def claim_inputs(section: str, request: Request) -> xr.Dataset | Parts:
    """Return the outcomes that a section asks for, as `claims.judge` takes them; what is missing is computed."""
    if section in _GATHERED:
        return _GATHERED[section](request)
    return outcomes_of([(spec, (*request.evaluations, *request.further.get(spec.defence, ()))) for spec in request.specs])


def _answered(request: Request) -> xr.Dataset:
    return outcomes(request.specs, request.evaluations)


def _paired(found: xr.Dataset, dataset: str) -> xr.Dataset:
    """Return outcomes whose classes tell which is the most vulnerable one, and which its partner."""
    names = found.predicted.values
    return found.assign_coords(
        {name: ("predicted", names == one) for name, one in zip(_PAIR, vulnerable_pair(dataset), strict=True)}
    )


def _training(request: Request) -> Parts:
    """Section 6.1: networks without a class beside the full one and that drawn anew; trade-offs beside the usual one."""
    whole, parts = _answered(request), {name: _answered(part) for name, part in request.parts.items() if part.evaluations}
    lacking, again = homing.left_out_runs(parts["without"]), parts["again"]
    single = {str(name): lacking.sel(removed=name, drop=True) for name in lacking.removed.values}
    anew = {f"again {number}": again.sel(redraw=number, drop=True) for number in again.redraw.values}
    swept = {str(name): parts["adjusted"].sel(betas=name, drop=True) for name in parts["adjusted"].betas.values}
    found = {
        "without": combine.combine("without", {"": whole, **anew, **single}),
        "betas": combine.combine("betas", {"": parts["trades"], **swept}),
    }
    return {name: _paired(one, request.specs[0].dataset) for name, one in found.items()}


def _background(request: Request) -> Parts:
    """Section 6.2: drawings whose classes share grounds two by two; images as they are, before white, and both remedies."""
    parts = request.parts
    plain, worn = _answered(parts["plain"]), _answered(parts["standard"]).sel(transform="none", drop=True)
    standard = combine.combine("dress", {"neighbours": worn, "none": plain.sel(defence=["standard"])})
    half = parts["published"]
    # As published: the first of the attacks, whose steps are short.
    coloured = outcomes(half.specs, half.evaluations[:2])
    dresses = {str(name).partition("-")[2]: coloured.sel(dataset=name, drop=True) for name in coloured.dataset.values}
    told = coloured.attrs | {"dataset": str(coloured.dataset.values[0])}
    at_half = combine.combine("dress", {name: dresses[name] for name in ("neighbours", "apart")}).assign_attrs(told)
    grounds = ("predicted", np.arange(at_half.sizes["predicted"]) // 2)
    return {
        "plain": plain,
        "standard": standard,
        "published": at_half.assign_coords(background=grounds),
        "treated": _treated(parts["scenes"], parts["adjusted"]),
    }


def _treated(seen: Request, moved: Request) -> xr.Dataset:
    """Return outcomes along `treatment`, with how white each image is around: none, where nothing is behind its object."""
    plain, adjusted = _answered(seen), _answered(moved)
    kinds = {"as they are": plain.sel(transform="none"), "white": plain.sel(transform="white-background")}
    kinds["both"] = adjusted.sel(transform="white-background")
    flat = {name: one.drop_vars("transform").squeeze(set(one.dims) & {"betas"}, drop=True) for name, one in kinds.items()}
    treated = combine.combine("treatment", flat)
    around = [scenes(spec, seen.evaluations[0].of(spec), behind=True).whiteness for spec in seen.specs]
    white = xr.concat(around, "image").drop_duplicates("image").reindex(image=treated.image)
    return _paired(treated.assign(white=white), seen.specs[0].dataset)


_GATHERED: dict[str, Callable[[Request], Parts]] = {
    "tian2021/6-1-training-adjustment": _training,
    "tian2021/6-2-background": _background,
}
