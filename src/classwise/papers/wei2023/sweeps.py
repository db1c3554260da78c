"""Networks of Wei et al. 2023 that differ in one setting of their training alone, for sections 3 and 5.3."""

from typing import Any

import xarray as xr

from classwise.papers import variants
from classwise.papers.sections import CLEAN_AND_PGD, Section
from classwise.stats import combine

# The lowest beta of the paper, and the one of its other experiments.
LOWEST_BETA, USUAL_BETA = "1", "6"
TRADES: dict[str, Any] = {"defences": ("trades",), "evaluations": CLEAN_AND_PGD, "max_seeds": 2}
BETAS = Section(
    title="other betas",
    run={"measure": 100, "averages": ()},
    variants=variants.by_scale(variants.betas(1, 3), laptop=variants.betas(1), paper=variants.betas(1, 2, 3, 4, 5, 7, 8)),
    **TRADES,
)


def by_beta(plain: xr.Dataset, swept: xr.Dataset) -> xr.Dataset:
    """Return outcomes along `beta`, in rising order, of the seeds that all of them have; plain: with the usual beta."""
    # A single one is the lowest.
    several = swept if "beta" in swept.dims else swept.expand_dims(beta=[float(LOWEST_BETA)])
    parts = {USUAL_BETA: plain} | {f"{float(beta):g}": several.sel(beta=beta, drop=True) for beta in several.beta.values}
    kept = combine.shared_seeds({name: parts[name] for name in sorted(parts, key=float)})
    return combine.combine("beta", kept).assign_attrs(plain.attrs)
