"""Statistical tests of claims: from outcomes to verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from classwise.core.datasets import title
from classwise.core.markup import counted
from classwise.papers.claims import Claim, MeasurementError, Verdict, measured_value
from classwise.stats import features
from classwise.stats.bootstrap import add_pseudo_counts, bootstrap_sums, evaluated, sums
from classwise.stats.intervals import interval_ends

# The name in claims of an attack that is made on another network.
TRANSFER = "transfer"

# What is evaluated on the same images: attacks on fewer images restrict those that they are compared with.
_COMPARED = ("defence", "attack", "inverse")

# Sums over images are of single precision: a draw so close to a bound of a claim in points equals it, else it would be counted on
# either side at random.
_ROUNDING = 1e-4

# Where a smaller share of the draws than this lies on one side of the effect, they show a bias and no interval.
_LOPSIDED = 0.05


# Why a claim is not tested whose outcomes need runs that are not there.
_NOT_RECORDED = "not all runs that it needs are recorded"


@dataclass(frozen=True)
class Bootstrap:
    """The bootstrap of a verdict: the number of draws, their seed, and the level of the interval."""

    draws: int = 1000
    seed: int = 0
    level: float = 0.95


DEFAULT = Bootstrap()


def judge_all(
    claims: Sequence[Claim],
    outcomes: xr.Dataset | Mapping[str, xr.Dataset],
    *,
    scale: str,
    dataset: str,
    strict: bool = True,
    bootstrap: Bootstrap = DEFAULT,
) -> list[Verdict]:
    """Return a verdict on each of the claims, which are those of one section.

    A claim that excludes `dataset` is "not tested". One that cannot be measured on the outcomes is a MeasurementError that says
    what is missing; unless `strict` it is "not tested" as well. p-values and intervals come from a bootstrap over images, paired
    across what is compared and clustered by seed (`bootstrap.weights`); Holm's correction is for the claims that are tested. A
    claim holds where its adjusted p is below 1 - `level`, and fails where that of its opposite is. The interval agrees with the
    verdict: it lies within the range just where the claim holds, and outside just where it fails. An effect that no draw changes
    is not certain for that: it is redrawn with pseudo-counts of images classified otherwise (`bootstrap.add_pseudo_counts`).
    Of several Datasets each claim uses the one named by its `data`, and the dataset in that one's attributes; an attribute `runs`
    is the number of runs where it is not that of the seeds.
    """
    given = {"": outcomes} if isinstance(outcomes, xr.Dataset) else outcomes
    several = not isinstance(outcomes, xr.Dataset)
    datasets = {name: str(some.attrs.get("dataset", dataset)) for name, some in given.items()} if several else {}
    seeded = {name: some if "seed" in some.dims else some.expand_dims(seed=[0]) for name, some in given.items()}
    readouts = {claim.readout for claim in claims}
    plain = {readout: {name: canonical_names(some, readout) for name, some in seeded.items()} for readout in readouts}
    measured: dict[int, tuple[Verdict, np.ndarray]] = {}
    verdicts: list[Verdict] = []
    for claim in claims:
        tested = datasets.get(claim.data, dataset)
        reason = claim.exclusion(tested)
        verdict = Verdict(claim, "not tested", scale, tested, reason=reason)
        if not reason:
            try:
                verdict, truth = _measured(verdict, plain[claim.readout], bootstrap)
                measured[len(verdicts)] = verdict, truth
            except MeasurementError as error:
                if strict:
                    raise
                lacking = f"no results on {title(tested)} {error.lacking}" if error.lacking else str(error)
                lacking = lacking if _has_data(claim, given) else _NOT_RECORDED
                verdict = replace(verdict, reason=lacking, partly=_of_a_part(verdict, plain[claim.readout], bootstrap))
        verdicts.append(verdict)
    both = np.array([p_values(verdict.claim, truth) for verdict, truth in measured.values()]).reshape(-1, 2)
    adjusted = np.column_stack([holm(both[:, 0]), holm(both[:, 1])])
    for place, chance, corrected, (verdict, truth) in zip(measured, both, adjusted, measured.values(), strict=True):
        verdicts[place] = _decided(verdict, truth, chance, corrected, alpha=1 - bootstrap.level)
    return verdicts


def p_values(claim: Claim, truth: np.ndarray) -> tuple[float, float]:
    """Return the p-values for a claim and for its opposite, from draws of the true value; NaN counts against both.

    For the claim: the larger of the chances that the truth lies below the range and above it, each one-sided (two one-sided
    tests, Schuirmann 1987). For its opposite: the smaller of the chances that it does not lie below, or not above.
    """
    lost = np.isnan(truth)
    low, high = truth <= claim.low, truth >= claim.high
    p_low, p_high = (_share(side | lost) if np.isfinite(end) else 0.0 for side, end in ((low, claim.low), (high, claim.high)))
    below, above = (_share(~side | lost) if np.isfinite(end) else 1.0 for side, end in ((low, claim.low), (high, claim.high)))
    return max(p_low, p_high), min(below, above)


def _share(hit: np.ndarray) -> float:
    return float((1 + hit.sum()) / (1 + len(hit)))


def holm(chances: np.ndarray) -> np.ndarray:
    """Return p-values with Holm's correction."""
    from statsmodels.stats.multitest import multipletests  # slow to import, and `run` needs no verdict to compute

    return multipletests(chances, method="holm")[1] if len(chances) > 1 else chances


def _decided(verdict: Verdict, truth: np.ndarray, chance: np.ndarray, adjusted: np.ndarray, alpha: float) -> Verdict:
    """Return the verdict that follows from the p-values for the claim and for its opposite, with its interval."""
    side = int(np.argmin(chance))
    word = ("holds", "fails")[side] if adjusted[side] < alpha else "open"
    # Holm's correction multiplies p by a factor; the probability at each end of the interval is divided by it.
    low, high = interval_ends(truth, alpha * chance[side] / adjusted[side])
    if verdict.claim.unit == "correlation":
        low, high = (float(np.clip(end, -1, 1)) for end in (low, high))
    p = {"p": float(chance[side]), "adjusted": float(adjusted[side])}
    return Verdict(**{**vars(verdict), "verdict": word, "low": low, "high": high, **p})


def canonical_names(outcomes: xr.Dataset, readout: str = "cosines") -> xr.Dataset:
    """Return outcomes in the vocabulary of claims: attacks by their general names, a transfer attack as an attack.

    "pgd-20@tian2021" becomes "pgd-20". Along a dimension substitute, what is made on a substitute becomes "transfer". Along a
    dimension readout, networks evaluated with this `readout` use it, the others use the other one: HE as published with its
    cosines, all others with their logits. Along a dimension form (of temperature-pgd-20), the stable one is used: that of the
    paper's equations, without underflow.
    """
    if "form" in outcomes.dims:
        outcomes = _either(outcomes, "form", "stable", "")
    if "readout" in outcomes.dims:
        outcomes = _either(outcomes, "readout", readout, "logits" if readout == "cosines" else "cosines")
    if "substitute" in outcomes.dims:
        direct = outcomes.sel(substitute="None", drop=True)
        made = [
            other.assign_coords(attack=[TRANSFER])
            for name in outcomes.substitute.values
            for other in (outcomes.sel(substitute=name, attack=[attack], drop=True) for attack in outcomes.attack.values)
            if name != "None" and bool((other.truth >= 0).any())
        ]
        outcomes = xr.concat([direct, *made], "attack", coords="minimal", compat="override", join="outer")
    return outcomes.assign_coords(attack=[str(name).split("@")[0] for name in outcomes.attack.values])


def _either(outcomes: xr.Dataset, dim: str, preferred: str, other: str) -> xr.Dataset:
    """Return outcomes with the preferred setting along `dim` where any image was evaluated in it, else with the other."""
    first, second = (outcomes.sel({dim: name}, drop=True) for name in (preferred, other))
    return first.where((first.truth >= 0).any("image"), second)


def select(claim: Claim, outcomes: xr.Dataset) -> xr.Dataset:
    """Return the outcomes that a claim needs, on the images that all its runs and attacks were evaluated on."""
    _check_names(claim, outcomes)
    for dim in claim.dims:
        if dim not in outcomes.dims and dim not in outcomes.coords and dim not in outcomes:
            message = f"claim {claim.name!r} needs {dim!r} in the outcomes; there are: {_listed(outcomes.dims)}"
            raise MeasurementError(message, _at(claim, dim, claim.grid[dim]) if dim in claim.grid else "")
    part = outcomes
    for dim, needs in _named(claim):
        names = [str(name) for name in part[dim].values]
        part = part.sel({dim: [_one_of(need, names) for need in needs] or names})
    present = part.truth >= 0
    _check_grid(claim, present)
    # Of the same seeds, too: where a run has only some, the claim is tested on these.
    used = present.any([dim for dim in ("image", "seed") if dim in present.dims])
    both = (present | ~used).all([dim for dim in _COMPARED if dim in present.dims])
    if not bool((present & both).any()):
        raise MeasurementError(f"claim {claim.name!r}: all of its runs and attacks have no image in common")
    return part.assign(truth=part.truth.where(both, -1))


def _listed(names: object) -> str:
    return ", ".join(sorted(map(str, names)))  # type: ignore[call-overload]


def _named(claim: Claim) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return ("defence", claim.defences), ("attack", claim.attacks)


def _one_of(need: str, names: Sequence[str]) -> str:
    """Return the first of "a|b" that is among the names, "" where none is."""
    return next((name for name in need.split("|") if name in names), "")


# The words for which defences, attacks or values of a setting have no results.
_WITHOUT = {"defence": "for", "attack": "under"}
_SYMBOLS = {"inverse": "1/T"}


def _check_names(claim: Claim, outcomes: xr.Dataset) -> None:
    """Raise MeasurementError where the defences or attacks of a claim are not among the outcomes."""
    messages, lacking = [], []
    for dim, needs in _named(claim):
        names = [str(name) for name in outcomes[dim].values]
        missing = [need.split("|") for need in needs if not _one_of(need, names)]
        if missing:
            wanted = ", ".join(" or ".join(map(repr, some)) for some in missing)
            messages.append(f"the {dim} {wanted}, which is not among the outcomes; there are: {_listed(names)}")
            lacking += [f"{_WITHOUT[dim]} {' or '.join(some)}" for some in missing]
    if messages:
        raise MeasurementError(f"claim {claim.name!r} needs {'; and '.join(messages)}", ", nor ".join(lacking))


def _check_grid(claim: Claim, present: xr.DataArray) -> None:
    """Raise MeasurementError where a defence was not evaluated at all values of a setting that a claim compares."""
    for dim, values in claim.grid.items():
        some = present.any([name for name in present.dims if name not in (dim, "defence")])
        present_at = {str(value) for value in some[dim].values[some.all("defence").values]}
        lost = [value for value in values if value not in present_at]
        if lost:
            message = f"claim {claim.name!r} needs each defence at {dim} {', '.join(lost)}"
            raise MeasurementError(message, _at(claim, dim, lost))


def _at(claim: Claim, dim: str, values: Sequence[str]) -> str:
    """Return values of a setting of the last attack of a claim in words: "under temperature-pgd-20 at 1/T = 10, 50"."""
    return f"under {claim.attacks[-1]} at {_SYMBOLS.get(dim, dim)} = {', '.join(values)}"


def _has_data(claim: Claim, given: Mapping[str, xr.Dataset]) -> bool:
    """Return whether the outcomes that a claim is computed from are given; a single Dataset is that of all claims."""
    return claim.data in given or list(given) == [""]


def _measured(verdict: Verdict, given: Mapping[str, xr.Dataset], bootstrap: Bootstrap) -> tuple[Verdict, np.ndarray]:
    """Return a verdict with the measure of its claim, not decided yet, and draws of the true value."""
    claim = verdict.claim
    if not _has_data(claim, given):
        raise MeasurementError(f"claim {claim.name!r} needs the outcomes {claim.data!r}; there are: {_listed(given)}")
    part = select(claim, given[claim.data if claim.data in given else ""])
    part = _with_features(claim, part) if claim.of == "features" else part
    effect = _number(claim, _totals(claim, part))
    truth = _at_bounds(claim, _true_values(claim, part, effect, bootstrap))
    present = evaluated(part)
    seeds, images = (int(present.any(dim).sum()) for dim in ("image", "seed"))
    seeds = int(part.attrs.get("runs", seeds))
    return replace(verdict, verdict="open", effect=effect, seeds=seeds, images=images), truth


def _at_bounds(claim: Claim, truth: np.ndarray) -> np.ndarray:
    """Return draws in points of which those that differ from a bound of the claim by rounding alone equal it."""
    for bound in (claim.low, claim.high) if claim.unit == "points" else ():
        truth = np.where(np.abs(truth - bound) < _ROUNDING, bound, truth)
    return truth


def _true_values(claim: Claim, part: xr.Dataset, effect: float, bootstrap: Bootstrap) -> np.ndarray:
    """Return draws of the true value of the measure of a claim, NaN for those without a number."""
    if claim.of == "features" and not features.resampled(part):
        return np.full(bootstrap.draws, np.nan)
    if claim.truth:
        return claim.truth(part, bootstrap.draws, bootstrap.seed)
    redrawn = _redrawn(claim, part, bootstrap)
    if not _constant(redrawn):
        return reflect_draws(effect, redrawn, log=claim.log)
    return np.full(bootstrap.draws, np.nan) if claim.of == "features" else _with_pseudo_counts(claim, part, bootstrap)


def _of_a_part(verdict: Verdict, given: Mapping[str, xr.Dataset], bootstrap: Bootstrap) -> str:
    """Return what the defences and attacks that a claim needs and that are there say of it; "" if that is nothing certain.

    It is no verdict: the p-value is not corrected, and the claim is about all of them.
    """
    claim = verdict.claim
    if claim.data not in given or not claim.over:
        return ""
    names = {dim: [str(name) for name in given[claim.data][dim].values] for dim in claim.over}
    kept = {
        dim: tuple(filter(None, (_one_of(need, names[dim]) for need in needs))) for dim, needs in _named(claim) if dim in names
    }
    if not all(kept.values()):
        return ""
    part = replace(claim, defences=kept.get("defence", claim.defences), attacks=kept.get("attack", claim.attacks))
    try:
        measured, truth = _measured(replace(verdict, claim=part), given, bootstrap)
    except MeasurementError:
        return ""
    chance = np.array(p_values(claim, truth))
    decided = _decided(measured, truth, chance, chance, alpha=1 - bootstrap.level)
    if decided.verdict == "open":
        return ""
    says = {"holds": "support", "fails": "contradict"}[decided.verdict]
    of = "; ".join(", ".join(some) for some in kept.values())
    numbers = f"{measured_value(decided)} {claim.unit}, {counted(measured.images, 'image')}"
    return f"{says} it ({of}): {numbers}"


def _totals(claim: Claim, part: xr.Dataset) -> xr.Dataset:
    """Return what the measure of a claim takes, of all images."""
    return features.statistics(features.by_block(part)) if claim.of == "features" else sums(part, _values(claim, part))


def _with_features(claim: Claim, part: xr.Dataset) -> xr.Dataset:
    """Return outcomes of the seeds of which all runs have features; MeasurementError if there is none."""
    if "total" in part:
        evaluated = (part.images > 0).any([dim for dim in part.images.dims if dim not in ("defence", "seed")])
        complete = evaluated.all([dim for dim in evaluated.dims if dim != "seed"])
        if bool(complete.any()):
            return part.isel(seed=np.flatnonzero(complete))
    raise MeasurementError(f"claim {claim.name!r} needs features of {', '.join(claim.defences)}", "with features")


def _values(claim: Claim, part: xr.Dataset) -> dict[str, xr.DataArray]:
    return {name: value(part) for name, value in claim.values.items()}


def _redrawn(claim: Claim, part: xr.Dataset, bootstrap: Bootstrap) -> np.ndarray:
    """Return the measure of redrawn images, or blocks of them, for each draw."""
    if claim.of == "features":
        redrawn = claim.measure(features.drawn(features.by_block(part), bootstrap.draws, bootstrap.seed))
        return np.asarray(redrawn.values, dtype=float)
    chunks = bootstrap_sums(part, _values(claim, part), bootstrap.draws, bootstrap.seed)
    return np.concatenate([np.atleast_1d(claim.measure(chunk).values) for chunk in chunks])


def _constant(redrawn: np.ndarray) -> bool:
    """Return whether all draws give the same number, up to rounding."""
    finite = redrawn[np.isfinite(redrawn)]
    return not len(finite) or bool(np.ptp(finite) <= 1e-9 * max(1.0, abs(float(finite[0]))))


def _with_pseudo_counts(claim: Claim, part: xr.Dataset, bootstrap: Bootstrap) -> np.ndarray:
    """Return draws of the true value of an effect that no draw changed, NaN where pseudo-counts do not change it either.

    They are the draws themselves: reflected as by `reflect_draws`, what is always correct would be more than that. A measure of
    one kind of mistake may not vary until there is a pseudo-count of each kind.
    """
    for every_mistake in (False, True):
        redrawn = _redrawn(claim, add_pseudo_counts(part, bootstrap.seed, every_mistake=every_mistake), bootstrap)
        if not _constant(redrawn):
            valid = np.isfinite(redrawn) & ((redrawn > 0) | (not claim.log))
            return np.where(valid, redrawn, np.nan)
    return np.full(bootstrap.draws, np.nan)


def _number(claim: Claim, totals: xr.Dataset) -> float:
    value = claim.measure(totals)
    if value.ndim:
        kept = f"its measure keeps the dimensions {_listed(value.dims)}"
        raise MeasurementError(f"claim {claim.name!r}: {kept}, expected one number")
    if not np.isfinite(float(value)) or (claim.log and float(value) <= 0):
        why = "some class has no images, or a ratio no base"
        raise MeasurementError(f"claim {claim.name!r} comes to {float(value)} on these outcomes: {why}")
    return float(value)


def reflect_draws(effect: float, redrawn: np.ndarray, *, log: bool = False) -> np.ndarray:
    """Return the draws of the true value behind the basic bootstrap interval; NaN for those without a number.

    Each draw is reflected at the effect, which corrects what sampling adds to a gap instead of adding it twice (Davison and
    Hinkley 1997, 5.2). Where nearly all draws lie on one side of the effect, the bootstrap shows a bias and no interval, and the
    draws themselves are added to the reflected ones.
    """
    valid = np.isfinite(redrawn) & ((redrawn > 0) | (not log))
    kept = np.where(valid, redrawn, effect)
    truth = np.where(valid, np.exp(2 * np.log(effect) - np.log(kept)) if log else 2 * effect - kept, np.nan)
    lopsided = min(np.mean(kept <= effect), np.mean(kept >= effect)) < _LOPSIDED
    return np.concatenate([truth, np.where(valid, kept, np.nan)]) if lopsided else truth
