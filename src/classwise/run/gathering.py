"""The outcomes of a section as its claims take them: as one Dataset, or as several where it sets runs of other kinds beside."""

from collections.abc import Callable, Mapping

import numpy as np
import xarray as xr

from classwise import claims, homing
from classwise.run.collect import answers, outcomes
from classwise.run.scenes import scenes
from classwise.study import Request, pair

Parts = Mapping[str, xr.Dataset]

# What the claims call the two classes of `study.pair`.
_PAIR = ("vulnerable", "partner")


def gathered(section: str, request: Request) -> xr.Dataset | Parts:
    """Return the outcomes that a section asks for, as `claims.judge` takes them; what is missing is computed."""
    if section in _GATHERED:
        return _GATHERED[section](request)
    return answers([(spec, (*request.evaluations, *request.further.get(spec.defence, ()))) for spec in request.specs])


def _answered(request: Request) -> xr.Dataset:
    return outcomes(request.specs, request.evaluations)


def _paired(found: xr.Dataset, dataset: str) -> xr.Dataset:
    """Return outcomes whose classes tell which is the most vulnerable one, and which its partner."""
    names = found.predicted.values
    return found.assign_coords({name: ("predicted", names == one) for name, one in zip(_PAIR, pair(dataset), strict=True)})


def _training(request: Request) -> Parts:
    """Section 6.1: networks without a class beside the full one and that drawn anew; trade-offs beside the usual one."""
    whole, parts = _answered(request), {name: _answered(part) for name, part in request.parts.items() if part.evaluations}
    lacking, again = homing.removed(parts["without"]), parts["again"]
    single = {str(name): lacking.sel(removed=name, drop=True) for name in lacking.removed.values}
    anew = {f"again {number}": again.sel(redraw=number, drop=True) for number in again.redraw.values}
    swept = {str(name): parts["adjusted"].sel(betas=name, drop=True) for name in parts["adjusted"].betas.values}
    found = {
        "without": claims.joined("without", {"": whole, **anew, **single}),
        "betas": claims.joined("betas", {"": parts["trades"], **swept}),
    }
    return {name: _paired(one, request.specs[0].dataset) for name, one in found.items()}


def _background(request: Request) -> Parts:
    """Section 6.2: drawings whose classes share grounds two by two; images as they are, before white, and both remedies."""
    parts = request.parts
    plain, worn = _answered(parts["plain"]), _answered(parts["standard"]).sel(transform="none", drop=True)
    standard = claims.joined("dress", {"neighbours": worn, "none": plain.sel(defence=["standard"])})
    half = parts["published"]
    # As published: the first of the attacks, whose steps are short.
    coloured = outcomes(half.specs, half.evaluations[:2])
    dresses = {str(name).partition("-")[2]: coloured.sel(dataset=name, drop=True) for name in coloured.dataset.values}
    told = coloured.attrs | {"dataset": str(coloured.dataset.values[0])}
    at_half = claims.joined("dress", {name: dresses[name] for name in ("neighbours", "apart")}).assign_attrs(told)
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
    treated = claims.joined("treatment", flat)
    around = [scenes(spec, seen.evaluations[0].of(spec), behind=True).whiteness for spec in seen.specs]
    white = xr.concat(around, "image").drop_duplicates("image").reindex(image=treated.image)
    return _paired(treated.assign(white=white), seen.specs[0].dataset)


_GATHERED: dict[str, Callable[[Request], Parts]] = {
    "tian2021/6-1-training-adjustment": _training,
    "tian2021/6-2-background": _background,
}
