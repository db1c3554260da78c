"""Networks of Wei et al. 2023 that differ in one setting of their training, for sections 3 and 5.3."""

from functools import partial
from typing import Any

import xarray as xr

from classwise.core.identity import exact_radius
from classwise.papers import variants
from classwise.papers.sections import Part
from classwise.papers.wei2023.classes import mark_groups
from classwise.stats import combine

# The radius of the scale, of half of which and of half more than which the claims speak.
USUAL, HALF, LARGE = "1", "1/2", "3/2"
# The networks are judged at the radius of the scale, and at half of it.
PGD_AT: dict[str, Any] = {"defences": ("pgd-at",), "max_seeds": 2, "at": (USUAL, HALF)}
# Figure 2 has eight radii at scale "paper".
RADII = Part(
    title="other radii",
    run={"averages": ()},
    variants=variants.choose_by_scale(
        variants.margins("1/4", HALF, LARGE),
        laptop=variants.margins(HALF, LARGE),
        paper=variants.margins("1/4", HALF, "3/4", "5/4", LARGE, "7/4", "2"),
    ),
    **PGD_AT,
)
# The lowest beta of the paper, and the one of its other experiments.
LOWEST_BETA, USUAL_BETA = "1", "6"
_betas = partial(variants.options, "beta")
TRADES: dict[str, Any] = {"defences": ("trades",), "max_seeds": 2}
BETAS = Part(
    title="other betas",
    run=variants.ONCE,
    variants=variants.choose_by_scale(_betas(1, 3), laptop=_betas(1), paper=_betas(1, 2, 3, 4, 5, 7, 8)),
    **TRADES,
)


def stack_radii(plain: xr.Dataset, swept: xr.Dataset) -> xr.Dataset:
    """Return outcomes along `eps`, the radius of the training, in rising order, and `eval_eps`, that of the evaluation.

    plain: of the networks trained at the radius of the scale, which the attribute `eps` says. swept: at other radii. Seeds that
    not all of them have are left out.
    """
    several = swept if "eps" in swept.dims else swept.expand_dims(eps=[swept.attrs["eps"]])
    parts = {str(eps): _trained(several.sel(eps=eps, drop=True)) for eps in several.eps.values} | {plain.attrs["eps"]: plain}
    kept = combine.shared_seeds({name: parts[name] for name in sorted(parts, key=exact_radius)})
    joined = combine.combine("eps", kept).assign_attrs(plain.attrs)
    return joined if "eval_eps" in joined.dims else joined.expand_dims(eval_eps=[plain.attrs["eps"]])


def _trained(swept: xr.Dataset) -> xr.Dataset:
    """Return the networks of one radius, against the number of steps that its scale gives it."""
    if "attack_steps" not in swept.dims:
        return swept
    present = (swept.truth >= 0).any([dim for dim in swept.truth.dims if dim != "attack_steps"])
    return swept.isel(attack_steps=int(present.argmax("attack_steps")), drop=True)


def stack_margins(outcomes: xr.Dataset) -> xr.Dataset:
    """Return what the claims need of `stack_radii`: judged at the first radius, along `margin`, with both groups of classes."""
    usual = exact_radius(outcomes.attrs["eps"])
    multiples = [str(exact_radius(str(eps)) / usual) for eps in outcomes.eps.values]
    return mark_groups(outcomes.isel(eval_eps=0, drop=True).assign_coords(eps=multiples).rename(eps="margin"))


def stack_betas(plain: xr.Dataset, swept: xr.Dataset) -> xr.Dataset:
    """Return outcomes along `beta`, in rising order, of the seeds that all of them have; plain: with the usual beta."""
    # A single one is the lowest.
    several = swept if "beta" in swept.dims else swept.expand_dims(beta=[float(LOWEST_BETA)])
    parts = {USUAL_BETA: plain} | {f"{float(beta):g}": several.sel(beta=beta, drop=True) for beta in several.beta.values}
    kept = combine.shared_seeds({name: parts[name] for name in sorted(parts, key=float)})
    return combine.combine("beta", kept).assign_attrs(plain.attrs)
