"""Wei et al. 2023, section 5.3 and appendix C.3: each component of CFA alone, and the offsets of its rule.

Each claim names the Dataset that it is computed from: "methods", with the rows of Tables 2 and 3 along defence; "radius" and
"beta", with what each class was trained with late in the training; "uniform radius" and "uniform beta", with networks that have
one for all classes along `setting`; "lambda1" and "lambda2", along which that without the calibration is `WITHOUT`.

Measures take sums over images (`bootstrap.sums`). Points are points of a percentage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.errors import NotAtScale, NotRecorded
from classwise.core.spec import Evaluation
from classwise.papers import variants
from classwise.papers.draws import reflect_draws
from classwise.papers.sections import Derived, Part, Section
from classwise.papers.terms import claims, least
from classwise.papers.wei2023 import gains, methods, sweeps
from classwise.papers.wei2023.classes import classes_of, mark_groups
from classwise.stats import aggregate, bootstrap, combine, metrics
from classwise.stats.metrics import Metric, overall, worst

NAME = "wei2023/5-3-ablation"
# Figure 7 attacks with PGD; Figure 5 is under AutoAttack in the paper.
_PGD = (Evaluation(attack="pgd-20"),)
# Along lambda1 and lambda2: what the paper chose, and the member that has no calibration.
USUAL, WITHOUT = "0.5", "without"
# A uniform beta above the mean of those that CCR gives where t is high.
LARGER = 9.0


def _swept(sums: xr.Dataset, along: str, measure: Metric) -> tuple[xr.DataArray, xr.DataArray]:
    values = measure(sums["count"].isel(defence=0, attack=0))
    return values.drop_sel({along: WITHOUT}), values.sel({along: WITHOUT}, drop=True)


def gains_of_offsets(
    sums: xr.Dataset, along: str, measures: Sequence[Metric] = (worst,), offsets: Sequence[str] = ()
) -> xr.DataArray:
    """Return how much a calibration gains over none, with each offset and by each measure. Along gain; offsets: () for all."""
    gained = [values - without for values, without in (_swept(sums, along, measure) for measure in measures)]
    if offsets:
        if missing := [name for name in offsets if name not in gained[0][along].values]:
            raise NotRecorded(f"these outcomes have no {along} of {' and '.join(missing)}")
        gained = [part.sel({along: list(offsets)}) for part in gained]
    return xr.concat([part.rename({along: "gain"}).drop_vars("gain") for part in gained], "gain")


def gains_of_offset(sums: xr.Dataset, along: str, offset: str) -> xr.DataArray:
    """Return how much one offset gains over each other one, overall and in the worst class."""
    gained = []
    for measure in (overall, worst):
        values, _ = _swept(sums, along, measure)
        others = values.drop_sel({along: offset}).rename({along: "gain"}).drop_vars("gain")
        gained.append(values.sel({along: offset}, drop=True) - others)
    return xr.concat(gained, "gain")


def pgd_outcomes(outcomes: xr.Dataset) -> xr.Dataset:
    """Return the outcomes of the weights after the last epoch under PGD."""
    part = outcomes.sel(attack=["pgd-20"])
    return part.sel(checkpoint="last", drop=True) if "checkpoint" in part.dims else part


def stack_mean_radii(outcomes: xr.Dataset, swept: xr.Dataset) -> xr.Dataset:
    """Return AT with uniform radii, and AT + CCM, along `setting`: the mean radius as a multiple of the usual one.

    outcomes: of both, with `stats.aggregate.late_settings`. swept: of AT with other radii (section 3.1).
    """
    uniform = sweeps.stack_margins(sweeps.stack_radii(pgd_outcomes(outcomes).sel(defence=["pgd-at"]), swept))
    parts = {margin: uniform.sel(margin=margin, drop=True) for margin in map(str, uniform.margin.values)}
    return _at_setting(parts, outcomes.sel(defence=["at-ccm"]), "radius")


def stack_mean_betas(
    outcomes: xr.Dataset, components: xr.Dataset, swept: xr.Dataset, larger: xr.Dataset | None = None
) -> xr.Dataset:
    """Return TRADES with uniform betas, and TRADES + CCR, along `setting`: the mean beta as a multiple of the usual one.

    swept: of TRADES with other betas (section 3.2). larger: the same with one beyond those of the paper.
    """
    uniform = sweeps.stack_betas(pgd_outcomes(outcomes).sel(defence=["trades"]), swept)
    usual = float(components.uniform_beta.mean())
    parts = {f"{float(beta) / usual:.4g}": uniform.sel(beta=beta, drop=True) for beta in uniform.beta.values}
    if larger is not None:
        parts[f"{LARGER / usual:.4g}"] = larger
    return _at_setting(parts, components.sel(defence=["trades-ccr"]), "beta")


def _at_setting(uniform: Mapping[str, xr.Dataset], calibrated: xr.Dataset, name: str) -> xr.Dataset:
    parts = {(str(part.defence.values[0]), multiple): part for multiple, part in uniform.items()}
    parts[str(calibrated.defence.values[0]), f"{float(calibrated[name].mean()):.4g}"] = pgd_outcomes(calibrated)
    rows = [
        (
            {"defence": defence, "setting": multiple},
            part[list(methods.OF_IMAGES)].isel(defence=0, drop=True).assign_coords(predicted=part.predicted),
        )
        for (defence, multiple), part in combine.shared_seeds(parts).items()
    ]
    return combine.combine_rows(rows).assign_attrs(calibrated.attrs)


def gain_over_uniform(sums: xr.Dataset, measure: Metric = worst) -> xr.DataArray:
    """Return how much higher a measure is with a calibration than with one setting for all classes that equals its mean.

    Along `setting` each network has the mean over its classes as its name; the first defence has several, which are joined by
    straight lines, the last one, which is calibrated, has one.
    """
    values = measure(sums["count"].isel(attack=0))
    values = values.assign_coords(setting=[float(Fraction(one)) for one in values.setting.values]).sortby("setting")
    uniform, calibrated = (values.isel(defence=place, drop=True).dropna("setting", how="all") for place in (0, -1))
    at, known = calibrated.setting.item(), uniform.setting.values
    if not known.min() <= at <= known.max():
        reach = f"{known.min():g} to {known.max():g}"
        raise NotAtScale(f"the mean setting {at:g} of the classes lies outside the uniform ones ({reach})")
    return calibrated.sel(setting=at, drop=True) - uniform.interp(setting=at).drop_vars("setting")


def image_settings(outcomes: xr.Dataset, name: str) -> xr.DataArray:
    """Return for each image the radius or beta of its class late in the training, as a multiple of the uniform one."""
    label = outcomes.truth.max([dim for dim in outcomes.truth.dims if dim != "image"])
    return outcomes[name].drop_vars("predicted").isel(predicted=label.clip(0))


def _extreme(setting: xr.DataArray, marks: xr.DataArray, group: str) -> xr.DataArray:
    of_group = setting.where(marks)
    return of_group.max("label") if group == "hard" else of_group.min("label")


def late_setting(sums: xr.Dataset, setting: str, group: str) -> xr.DataArray:
    """Return the largest late setting of a hard class, or the smallest of an easy class, as a multiple of the usual one."""
    part = sums.isel(defence=0, attack=0)
    return _extreme(part[setting].sum("predicted") / metrics.images(part["count"]), sums[group], group)


def setting_draws(outcomes: xr.Dataset, draws: int, seed: int, *, setting: str, group: str) -> np.ndarray:
    """Return draws of the true extreme setting of the hard (the largest) or of the easy classes (the smallest).

    Nothing in it depends on test images: the training images of each class are redrawn, whose accuracy the setting follows.
    outcomes: of one defence, with the variables of `stats.aggregate.late_settings`.
    """
    rng, part = np.random.default_rng(seed), outcomes.isel(defence=0, drop=True).transpose(..., "seed", "predicted")
    values, rate = part[setting].values, part["trained"].values
    spread = np.sqrt(rate * (1 - rate) / part["sample"].values.clip(1))
    noisy = values + spread * rng.standard_normal((draws, *values.shape))
    label = {"label": part.predicted.values}
    marks = xr.DataArray(part[group].values, label, ("label",))
    effect = float(_extreme(xr.DataArray(values.mean(0), label, ("label",)), marks, group))
    return reflect_draws(effect, _extreme(xr.DataArray(noisy.mean(1), label, ("draw", "label")), marks, group).values)


def stack_offsets(along: str, calibrated: str, without: str, outcomes: xr.Dataset, swept: xr.Dataset) -> xr.Dataset:
    """Return the network without a calibration, the usual offset and others, on the seeds that all of them have."""
    plain = pgd_outcomes(outcomes)
    if not {without, calibrated} <= set(plain.defence.values.tolist()):
        raise NotRecorded(f"results of {without} and {calibrated} are not recorded")
    parts = {WITHOUT: plain.sel(defence=[without]), USUAL: plain.sel(defence=[calibrated])}
    parts |= {f"{value:g}": swept.sel({along: value}, drop=True) for value in swept[along].values.tolist()}
    return combine.combine(along, combine.shared_seeds(parts))


def group_outcomes(outcomes: xr.Dataset) -> xr.Dataset:
    """Return the outcomes after the last epoch under PGD, with the class coordinates `hard` and `easy`."""
    return mark_groups(pgd_outcomes(outcomes))


def _tables(title: str, *defences: str) -> dict[str, Any]:
    full = methods.TABLES_1_TO_3
    extra = {name: full.extra_evaluations[name] for name in defences}
    return {**vars(full), "title": title, "defences": defences, "extra_evaluations": extra, "adds": ("late_settings",)}


def _offsets(name: str, defence: str) -> Part:
    few, every = (variants.options(name, *values) for values in ((0.3, 0.7), (0.3, 0.4, 0.6, 0.7)))
    # No page shows their course over the epochs.
    run, swept = {"measure": 100}, variants.choose_by_scale(few, paper=every)
    return Part(title=f"other {name}", defences=(defence,), evaluations=_PGD, run=run, max_seeds=1, variants=swept)


SECTION = Section(
    **{
        **_tables("Ablation study", "pgd-at", "at-ccm"),
        "parts": {
            "TRADES": Part(**_tables("TRADES", "trades", "trades-ccm-ccr")),
            "FAT": Part(**_tables("FAT", "fat-constant", "fat-ccm")),
            "components": replace(methods.COMPONENTS, adds=("late_settings",)),
            "radii": replace(sweeps.RADII, title="one radius for all classes", evaluations=_PGD, at=("1",)),
            "betas": replace(sweeps.BETAS, title="one beta for all classes", evaluations=_PGD),
            "larger": replace(
                sweeps.BETAS,
                title="a larger beta for all classes",
                evaluations=_PGD,
                max_seeds=1,
                variants=variants.options("beta", LARGER),
            ),
            "lambda1": _offsets("lambda1", "at-ccm"),
            "lambda2": _offsets("lambda2", "trades-ccm-ccr"),
        },
        "arrange": {
            "methods": Derived(methods.name_rows, ("",), ("TRADES", "FAT", "components")),
            "radius": Derived(group_outcomes, ("",)),
            "beta": Derived(group_outcomes, ("TRADES",)),
            "uniform radius": Derived(stack_mean_radii, ("", "radii")),
            "uniform beta": Derived(stack_mean_betas, ("TRADES", "components", "betas"), ("larger",)),
            "lambda1": Derived(partial(stack_offsets, "lambda1", "at-ccm", "pgd-at"), ("", "lambda1")),
            "lambda2": Derived(partial(stack_offsets, "lambda2", "trades-ccm-ccr", "trades"), ("TRADES", "lambda2")),
        },
    }
)


def _of_group(setting: str, group: str, defence: str) -> dict[str, Any]:
    measure, truth = (partial(some, setting=setting, group=group) for some in (late_setting, setting_draws))
    values = {setting: partial(image_settings, name=setting)}
    return {"measure": measure, "truth": truth, "values": values, "defences": (defence,)}


def _gain(
    measure: Metric, component: str, over: str = "", table: int = 2, methods: Sequence[str] = gains.METHODS
) -> dict[str, Any]:
    fields = gains.component_fields(measure, component, over, methods=methods, table=table)
    pairs = zip(fields["defences"][1::2], fields["defences"][::2], strict=True)
    # The row without the component first: reasons list in this order what is missing.
    return {**fields, "defences": tuple(name for pair in pairs for name in pair), "attacks": ("autoattack|strong|cr",)}


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
        "lambda1-all": least(partial(gains_of_offsets, along="lambda1", measures=(overall, worst))),
        "lambda1-best": least(partial(gains_of_offset, along="lambda1", offset=USUAL)),
        "hard-smaller-radius": _of_group("radius", "hard", "at-ccm"),
        "easy-larger-radius": _of_group("radius", "easy", "at-ccm"),
        "lambda2-all": least(partial(gains_of_offsets, along="lambda2")),
        "lambda2-overall": least(partial(gains_of_offsets, along="lambda2", measures=(overall,), offsets=("0.5", "0.6"))),
        "hard-smaller-beta": _of_group("beta", "hard", "trades-ccm-ccr"),
        "easy-larger-beta": _of_group("beta", "easy", "trades-ccm-ccr"),
        "ccm-beyond-uniform": {"measure": gain_over_uniform, "defences": ("pgd-at", "at-ccm")},
    },
    attacks=("pgd-20",),
)


# Each row that has a component with the row that lacks it, of Tables 2 and 3.
_IN_2 = (*gains.pairs_of("CCM"), *gains.pairs_of("CCR", "", _TRADES), *gains.pairs_of("CCM + CCR", "CCR", _TRADES))
_IN_3 = gains.pairs_of("FAWA", "EMA")


def component_gains(rows: xr.Dataset) -> xr.DataArray:
    """Return what each component gains over the row that lacks it, along measure, source, comparison and bound.

    rows: outcomes of the rows of Tables 2 and 3 along defence, under one attack.
    """
    theirs = xr.concat([gains.printed_gains(2, _IN_2), gains.printed_gains(3, _IN_3)], "comparison")
    return gains.gains_by_source(theirs, gains.ours(rows, (*_IN_2, *_IN_3)))


# How the claims on offsets and uniform settings judge networks.
_RATES = {"all images": overall, "worst class": worst}


def _by_measure(compared: Mapping[str, xr.Dataset]) -> xr.DataArray:
    """Return the robust accuracy along measure ("lambda1, worst class") and bound; compared: by the name of a setting."""
    parts = {
        f"{name}, {title}": bootstrap.bootstrap(outcomes.isel(attack=0, drop=True), measure)
        for name, outcomes in compared.items()
        for title, measure in _RATES.items()
    }
    return combine.concat_named("measure", parts)


def offsets(compared: Mapping[str, xr.Dataset]) -> xr.DataArray:
    """Return the robust accuracy by offset, and the same without the calibration, along measure, calibration, offset and bound.

    compared: by the name of an offset, "lambda1", outcomes of `stack_offsets`.
    """
    renamed = {name: outcomes.isel(defence=0, drop=True).rename({name: "offset"}) for name, outcomes in compared.items()}
    bounds = _by_measure(renamed)
    swept, without = bounds.drop_sel(offset=WITHOUT), bounds.sel(offset=WITHOUT, drop=True)
    return combine.concat_named("calibration", {"uniform": without + 0 * swept, "calibrated": swept})


def accuracy_by_setting(compared: Mapping[str, xr.Dataset]) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the robust accuracy along measure, calibration, setting and bound, and the mean setting of the classes as a number.

    compared: by the name of a setting, "radius", outcomes of `stack_mean_radii` or `stack_mean_betas`.
    """
    kinds = {"defence": ["uniform", "calibrated"]}
    bounds = _by_measure({name: some.assign_coords(kinds).rename(defence="calibration") for name, some in compared.items()})
    return bounds, bounds.setting.copy(data=[float(Fraction(one)) for one in bounds.setting.values])


def recorded_rule(histories: Mapping[str, xr.Dataset], dataset: str) -> tuple[xr.DataArray, dict[str, float]]:
    """Return the training accuracy t of each class and epoch along network, and the offset lambda of each network.

    histories: by the name of a setting, of one defence in which it is calibrated. The offset is what the setting of the next
    epoch exceeds t by, to the next .05: the rule follows the last pass over the images, which may be longer than an epoch.
    """
    accuracies, of_rule = {}, {}
    for setting, history in histories.items():
        both = aggregate.training_accuracy(history), aggregate.multiples(history[setting])
        t, multiple = (some.isel(defence=0, drop=True).mean("seed") for some in both)
        name = f"{history.defence.values[0]}, {setting}"
        above = multiple.isel(epoch=slice(1, None)).values - t.isel(epoch=slice(None, -1)).values
        accuracies[name], of_rule[name] = t, round(round(20 * float(above.mean())) / 20, 2)
    joined = combine.concat_named("network", accuracies)
    groups = {group: ("label", np.isin(joined.label.values, names)) for group, names in classes_of(dataset).items()}
    return joined.assign_coords(groups), of_rule
