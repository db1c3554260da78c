"""The outcomes of a section as its claims take them: as one Dataset, or as several where it sets runs of other kinds beside."""

from collections.abc import Callable, Mapping

import numpy as np
import xarray as xr

from classwise import claims, homing
from classwise.run.collect import answers, outcomes
from classwise.run.scenes import scenes
from classwise.study import Request, pair

Parts = Mapping[str, xr.Dataset]


def gathered(section: str, request: Request) -> xr.Dataset | Parts:
    """Return the outcomes that a section asks for, as `claims.judge` takes them; what is missing is computed."""
    if section in _GATHERED:
        return _GATHERED[section](request)
    return answers([(spec, (*request.evaluations, *request.further.get(spec.defence, ()))) for spec in request.specs])


def _answered(request: Request) -> xr.Dataset:
    return outcomes(request.specs, request.evaluations)


def _training(request: Request) -> Parts:
    """Section 6.1: networks without a class beside the full one and the full one again; trade-offs beside the usual one."""
    whole, parts = _answered(request), {name: _answered(part) for name, part in request.parts.items()}
    lacking = homing.removed(parts["without"])
    single = {str(name): lacking.sel(removed=name, drop=True) for name in lacking.removed.values}
    victim = pair(request.specs[0].dataset)[0]
    swept = {str(name): parts["adjusted"].sel(betas=name, drop=True) for name in parts["adjusted"].betas.values}
    return {
        "without": claims.joined("without", {"": whole, "nothing": parts["again"], **single}),
        "betas": claims.joined("betas", {"": parts["trades"], **swept}).assign_coords(vulnerable=victim),
    }


def _background(request: Request) -> Parts:
    """Section 6.2: drawings whose classes share grounds two by two; images as they are, before white, and both remedies."""
    worn = [spec for spec in request.specs if spec.dataset.endswith("-coloured")]
    coloured = outcomes(worn, request.evaluations).sel(transform="none", drop=True)
    coloured = coloured.assign_coords(background=("predicted", np.arange(coloured.sizes["predicted"]) // 2))
    seen, adjusted = request.parts["scenes"], _answered(request.parts["adjusted"])
    plain = _answered(seen)
    kinds = {"as they are": plain.sel(transform="none"), "white": plain.sel(transform="white-background")}
    kinds["both"] = adjusted.sel(transform="white-background")
    flat = {name: one.drop_vars("transform").squeeze(set(one.dims) & {"betas"}, drop=True) for name, one in kinds.items()}
    treated = claims.joined("treatment", flat)
    around = [scenes(spec, seen.evaluations[0].of(spec), behind=True).whiteness for spec in seen.specs]
    white = xr.concat(around, "image").drop_duplicates("image").reindex(image=treated.image)
    victim = pair(seen.specs[0].dataset)[0]
    return {"coloured": coloured, "treated": treated.assign(white=white).assign_coords(vulnerable=victim)}


_GATHERED: dict[str, Callable[[Request], Parts]] = {
    "tian2021/6-1-training-adjustment": _training,
    "tian2021/6-2-background": _background,
}
