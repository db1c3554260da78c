"""Wei et al. 2023, section 5.3 and appendix C.3: each component of CFA alone, and the offsets of its rule.

Each claim names the Dataset that it is computed from: "methods", with the rows of Tables 2 and 3 along defence; "radius" and
"beta", with what each class was trained with late in the training; "uniform radius" and "uniform beta", with networks that have
one for all classes along `setting`; "lambda1" and "lambda2", along which that without the calibration is `calibrations.WITHOUT`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import xarray as xr

from classwise.core.spec import Evaluation
from classwise.papers import variants
from classwise.papers.sections import Arranged, Section
from classwise.papers.terms import claims, least
from classwise.papers.wei2023 import calibrations, gains, methods, sweeps
from classwise.papers.wei2023.calibrations import METHODS, WITHOUT
from classwise.papers.wei2023.classes import mark_groups
from classwise.stats import combine
from classwise.stats.metrics import Metric, overall, worst

NAME = "wei2023/5-3-ablation"
# Figure 7 attacks with PGD; Figure 5 is under AutoAttack in the paper.
_PGD = (Evaluation(attack="pgd-20"),)
# Runs whose course over the epochs no page shows.
_ONCE: dict[str, Any] = {"measure": 100}

# Along lambda1 and lambda2: what the paper chose; all of its runs have others of these.
USUAL, SWEPT = "0.5", (0.3, 0.7)
ALL_SWEPT = (0.3, 0.4, 0.6, 0.7)
# A uniform beta above the mean of those that CCR gives where t is high.
_LARGER = 9.0


# What a verdict needs of outcomes, and its value where there is no image.
_OF_IMAGES = {"truth": -1, "answer": -1, "flipped": False}


def by_row(*parts: xr.Dataset | None) -> xr.Dataset:
    """Return the rows of Tables 2 and 3 along defence, from the outcomes of the trainings of AT, TRADES, FAT, and of COMPONENTS.

    None of those that are not recorded.
    """
    rows = [
        methods.by_method(part[list(_OF_IMAGES)].assign_coords(predicted=part.predicted)) for part in parts if part is not None
    ]
    joined = xr.concat(rows, "defence", join="outer", fill_value=_OF_IMAGES)
    return joined.assign_attrs(rows[0].attrs)


def under_pgd(outcomes: xr.Dataset) -> xr.Dataset:
    """Return the outcomes of the weights after the last epoch under PGD."""
    part = outcomes.sel(attack=["pgd-20"])
    return part.sel(checkpoint="last", drop=True) if "checkpoint" in part.dims else part


def by_offset(along: str, calibrated: str, without: str, outcomes: xr.Dataset, swept: xr.Dataset) -> xr.Dataset:
    """Return the network without a calibration, the usual offset and others, on the seeds that all of them have."""
    plain = under_pgd(outcomes)
    parts = {WITHOUT: plain.sel(defence=[without]), USUAL: plain.sel(defence=[calibrated])}
    parts |= {f"{value:g}": swept.sel({along: value}, drop=True) for value in swept[along].values.tolist()}
    return combine.combine(along, combine.shared_seeds(parts))


def with_mean_radius(outcomes: xr.Dataset, swept: xr.Dataset) -> xr.Dataset:
    """Return AT with uniform radii, and AT + CCM, along `setting`: the mean radius as a multiple of the usual one.

    outcomes: of both, with `stats.calibrations.late_settings`. swept: of AT with other radii (section 3.1).
    """
    uniform = sweeps.by_margin(sweeps.by_radius(under_pgd(outcomes).sel(defence=["pgd-at"]), swept))
    parts = {margin: uniform.sel(margin=margin, drop=True) for margin in map(str, uniform.margin.values)}
    return _at_setting(parts, outcomes.sel(defence=["at-ccm"]), "radius")


def with_mean_beta(
    outcomes: xr.Dataset, components: xr.Dataset, swept: xr.Dataset, larger: xr.Dataset | None = None
) -> xr.Dataset:
    """Return TRADES with uniform betas, and TRADES + CCR, along `setting`: the mean beta as a multiple of the usual one.

    swept: of TRADES with other betas (section 3.2). larger: the same with one beyond those of the paper.
    """
    uniform = sweeps.by_beta(under_pgd(outcomes).sel(defence=["trades"]), swept)
    usual = float(components.uniform_beta.mean())
    parts = {f"{float(beta) / usual:.4g}": uniform.sel(beta=beta, drop=True) for beta in uniform.beta.values}
    if larger is not None:
        parts[f"{_LARGER / usual:.4g}"] = larger
    return _at_setting(parts, components.sel(defence=["trades-ccr"]), "beta")


def _at_setting(uniform: Mapping[str, xr.Dataset], calibrated: xr.Dataset, name: str) -> xr.Dataset:
    """Return networks along defence and setting, on the seeds that all of them have; uniform: by the multiple."""
    parts = {(str(part.defence.values[0]), multiple): part for multiple, part in uniform.items()}
    parts[str(calibrated.defence.values[0]), f"{float(calibrated[name].mean()):.4g}"] = under_pgd(calibrated)
    rows = [
        (
            {"defence": defence, "setting": multiple},
            part[list(_OF_IMAGES)].isel(defence=0, drop=True).assign_coords(predicted=part.predicted),
        )
        for (defence, multiple), part in combine.shared_seeds(parts).items()
    ]
    return combine.combine_rows(rows).assign_attrs(calibrated.attrs)


def marked(outcomes: xr.Dataset) -> xr.Dataset:
    """Return the outcomes after the last epoch under PGD, with the class coordinates `hard` and `easy`."""
    return mark_groups(under_pgd(outcomes))


def _tables(title: str, *defences: str) -> dict[str, Any]:
    """Return the fields of a part of the section with some trainings of Tables 1 to 3."""
    full = methods.TABLES_1_TO_3
    extra = {name: full.extra_evaluations[name] for name in defences}
    return {**vars(full), "title": title, "defences": defences, "extra_evaluations": extra, "calibrated": True}


def _offsets(name: str, defence: str) -> Section:
    swept = variants.by_scale(variants.lambdas(name, *SWEPT), paper=variants.lambdas(name, *ALL_SWEPT))
    shared: dict[str, Any] = {"evaluations": _PGD, "run": _ONCE, "max_seeds": 1}
    return Section(title=f"other {name}", defences=(defence,), variants=swept, **shared)


_RADII, _BETAS = sweeps.RADII, sweeps.BETAS
SECTION = Section(
    **{
        **_tables("Ablation study", "pgd-at", "at-ccm"),
        "parts": {
            "TRADES": Section(**_tables("TRADES", "trades", "trades-ccm-ccr")),
            "FAT": Section(**_tables("FAT", "fat-constant", "fat-ccm")),
            "components": replace(methods.COMPONENTS, calibrated=True),
            "radii": replace(_RADII, title="one radius for all classes", evaluations=_PGD, at=("1",)),
            "betas": replace(_BETAS, title="one beta for all classes", evaluations=_PGD),
            "larger": replace(
                _BETAS, title="a larger beta for all classes", evaluations=_PGD, max_seeds=1, variants=variants.betas(_LARGER)
            ),
            "lambda1": _offsets("lambda1", "at-ccm"),
            "lambda2": _offsets("lambda2", "trades-ccm-ccr"),
        },
        "arrange": {
            "methods": Arranged(by_row, ("",), ("TRADES", "FAT", "components")),
            "radius": Arranged(marked, ("",)),
            "beta": Arranged(marked, ("TRADES",)),
            "uniform radius": Arranged(with_mean_radius, ("", "radii")),
            "uniform beta": Arranged(with_mean_beta, ("TRADES", "components", "betas"), ("larger",)),
            "lambda1": Arranged(partial(by_offset, "lambda1", "at-ccm", "pgd-at"), ("", "lambda1")),
            "lambda2": Arranged(partial(by_offset, "lambda2", "trades-ccm-ccr", "trades"), ("TRADES", "lambda2")),
        },
    }
)


def _of_group(setting: str, group: str, defence: str) -> dict[str, Any]:
    """Return the fields of a claim on what a defence trains the hard or the easy classes with."""
    measure, truth = calibrations.of_group(setting, group)
    value = calibrations.radius_of_images if setting == "radius" else calibrations.beta_of_images
    return {"measure": measure, "truth": truth, "values": {setting: value}, "defences": (defence,)}


def _gain(measure: Metric, component: str, over: str = "", table: int = 2, methods: Sequence[str] = METHODS) -> dict[str, Any]:
    """Return the fields of a claim about the gain by a component in a table, there by AutoAttack."""
    fields = gains.by_component(measure, component, over, methods=methods, table=table)
    pairs = zip(fields["defences"][1::2], fields["defences"][::2], strict=True)
    # The row without the component first: reasons list in this order what is missing.
    return {**fields, "defences": tuple(name for pair in pairs for name in pair), "attacks": ("autoattack|strong|cr",)}


_of_offsets, _of_offset = calibrations.gains_of_offsets, calibrations.gains_of_offset
_TRADES = ("TRADES",)

CLAIMS = claims(
    NAME,
    {
        "ccm-overall": _gain(overall, "CCM"),
        "ccm-worst": _gain(worst, "CCM"),
        "ccr-overall": _gain(overall, "CCR", methods=_TRADES),
        "ccr-worst": _gain(worst, "CCR", methods=_TRADES),
        "ccm-with-ccr": _gain(worst, "CCM + CCR", "CCR", methods=_TRADES),
        "fawa-worst": _gain(worst, "FAWA", "EMA", 3),
        "fawa-overall": _gain(overall, "FAWA", "EMA", 3),
        "lambda1-all": least(partial(_of_offsets, along="lambda1", measures=(overall, worst))),
        "lambda1-best": least(partial(_of_offset, along="lambda1", offset=USUAL)),
        "hard-smaller-radius": _of_group("radius", "hard", "at-ccm"),
        "easy-larger-radius": _of_group("radius", "easy", "at-ccm"),
        "lambda2-all": least(partial(_of_offsets, along="lambda2")),
        "lambda2-overall": least(partial(_of_offsets, along="lambda2", measures=(overall,), offsets=("0.5", "0.6"))),
        "hard-smaller-beta": _of_group("beta", "hard", "trades-ccm-ccr"),
        "easy-larger-beta": _of_group("beta", "easy", "trades-ccm-ccr"),
        "ccm-beyond-uniform": {"measure": calibrations.over_uniform, "defences": ("pgd-at", "at-ccm")},
    },
    attacks=("pgd-20",),
)
