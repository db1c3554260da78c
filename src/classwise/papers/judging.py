"""Statistical tests of claims: from outcomes to verdicts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import xarray as xr

from classwise.core.datasets import title
from classwise.papers.claims import Claim, ClaimMeasure, MeasurementError, NoAverage, Value, Verdict
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

    A claim that excludes `dataset` is "not tested"; so is one that cannot be measured on the outcomes, which `strict` makes a
    MeasurementError. p-values and intervals come from a bootstrap over images, paired across what is compared and clustered by
    seed (`bootstrap.weights`); Holm's correction is for the claims that are tested. A claim holds where its adjusted p is below
    1 - `level`, and fails where that of its opposite is. The interval agrees with the verdict: it lies within the range just
    where the claim holds, and outside just where it fails.
    Of several Datasets each claim uses the one named by its `data`, and the dataset in that one's attributes. An attribute `runs`
    is the number of runs where it is not that of the seeds.
    """
    given = {one.data: outcomes.assign_attrs(dataset=dataset) for one in claims} if isinstance(outcomes, xr.Dataset) else outcomes

    @cache
    def named(data: str, readout: str) -> xr.Dataset:
        some = given[data]
        return canonical_names(some if "seed" in some.dims else some.expand_dims(seed=[0]), readout)

    measured: dict[int, tuple[Verdict, np.ndarray]] = {}
    verdicts: list[Verdict] = []
    for claim in claims:
        tested = str(given[claim.data].attrs.get("dataset", dataset)) if claim.data in given else dataset
        verdict = Verdict(claim, "not tested", scale, tested, reason=(why := claim.exclusion(tested)), unreachable=bool(why))
        if not why:
            try:
                if claim.data not in given:
                    raise MeasurementError(f"claim {claim.name!r} needs the outcomes {claim.data!r}; there are: {_listed(given)}")
                verdict, truth = _measured(verdict, named(claim.data, claim.readout), bootstrap)
                measured[len(verdicts)] = verdict, truth
            except MeasurementError as error:
                if strict:
                    raise
                lacking = f"no results on {title(tested)} {error.lacking}" if error.lacking else str(error)
                lacking = lacking if claim.data in given else _NOT_RECORDED
                final = claim.data in given and (not error.lacking or isinstance(error, NoAverage))
                verdict = replace(verdict, reason=lacking, unreachable=final)
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
    lost, number = np.isnan(truth), 1 + len(truth)
    sides = [side for side, end in ((truth <= claim.low, claim.low), (truth >= claim.high, claim.high)) if np.isfinite(end)]
    against, opposite = (
        [float(1 + (lost | side).sum()) / number for side in some] for some in (sides, [~side for side in sides])
    )
    return max(against, default=0.0), min(opposite, default=1.0)


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
    """Return outcomes in the vocabulary of claims: attacks by their general names ("pgd-20" of "pgd-20@tian2021").

    Along a dimension substitute, what is made on a substitute becomes the attack "transfer". Along readout, networks evaluated
    with this `readout` use it, the others the other one: HE as published with its cosines, all others with their logits. Along
    form (of temperature-pgd-20), the stable one is used: that of the paper's equations, without underflow.
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
    part, messages, lacking, refused = outcomes, [], [], outcomes.attrs.get("refused", {})
    kind: type[MeasurementError] = NoAverage
    for dim, needs, without in (("defence", claim.defences, "for"), ("attack", claim.attacks, "under")):
        names = [str(name) for name in outcomes[dim].values]
        chosen = {need: next((name for name in need.split("|") if name in names), "") for need in needs}
        missing = [need.split("|") for need, name in chosen.items() if not name]
        part = part.sel({dim: list(filter(None, chosen.values()))}) if needs else part
        if missing:
            wanted = ", ".join(" or ".join(map(repr, some)) for some in missing)
            messages.append(f"the {dim} {wanted}, which is not among the outcomes; there are: {_listed(names)}")
            kind = kind if all(set(some) & set(refused) for some in missing) else MeasurementError
            given = [[f"{one} ({refused[one]})" if one in refused else one for one in some] for some in missing]
            lacking += [f"{without} {' or '.join(some)}" for some in given]
    if messages:
        raise kind(f"claim {claim.name!r} needs {'; and '.join(messages)}", ", nor ".join(lacking))
    for dim in claim.dims:
        if dim in refused:
            raise MeasurementError(refused[dim])
        if dim not in outcomes.dims and dim not in outcomes.coords and dim not in outcomes:
            message = f"claim {claim.name!r} needs {dim!r} in the outcomes; there are: {_listed(outcomes.dims)}"
            raise MeasurementError(message, _at(claim, dim, claim.grid[dim]) if dim in claim.grid else f"with {dim!r}")
    present = part.truth >= 0
    _check_grid(claim, present)
    # Of the same seeds, too: where a run has only some, the claim is tested on these.
    used = present.any([dim for dim in ("image", "seed") if dim in present.dims])
    both = (present | ~used).all([dim for dim in _COMPARED if dim in present.dims])
    if not bool((present & both).any()):
        message = f"claim {claim.name!r}: all of its runs and attacks have no image in common"
        raise MeasurementError(message, "on the same images for all of its runs")
    return part.assign(truth=part.truth.where(both, -1))


def _listed(names: object) -> str:
    return ", ".join(sorted(map(str, names)))  # type: ignore[call-overload]


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
    return f"under {claim.attacks[-1]} at {'1/T' if dim == 'inverse' else dim} = {', '.join(values)}"


def _measured(verdict: Verdict, outcomes: xr.Dataset, bootstrap: Bootstrap) -> tuple[Verdict, np.ndarray]:
    """Return a verdict with the measure of its claim, not decided yet, and draws of the true value."""
    claim = verdict.claim
    part = select(claim, outcomes)
    part = _with_features(claim, part) if claim.of == "features" else part
    effect = _number(claim, *_taken(part, claim.of, claim.values))
    truth = _true_values(claim, part, effect, bootstrap)
    for bound in (claim.low, claim.high) if claim.unit == "points" else ():
        truth = np.where(np.abs(truth - bound) < _ROUNDING, bound, truth)
    present = evaluated(part)
    seeds, images = (int(present.any(dim).sum()) for dim in ("image", "seed"))
    return replace(verdict, verdict="open", effect=effect, seeds=int(part.attrs.get("runs", seeds)), images=images), truth


def _with_features(claim: Claim, part: xr.Dataset) -> xr.Dataset:
    """Return outcomes of the seeds of which all runs have features; MeasurementError if there is none."""
    if "total" in part:
        present = (part.images > 0).any([dim for dim in part.images.dims if dim not in ("defence", "seed")])
        complete = present.all([dim for dim in present.dims if dim != "seed"])
        if bool(complete.any()):
            return part.isel(seed=np.flatnonzero(complete))
    raise MeasurementError(f"claim {claim.name!r} needs features of {', '.join(claim.defences)}", "with features")


def _true_values(claim: Claim, part: xr.Dataset, effect: float, bootstrap: Bootstrap) -> np.ndarray:
    """Return draws of the true value of the measure of a claim, NaN for those without a number.

    Those of an effect that no draw changes are redrawn with pseudo-counts and not reflected: what is always correct would be more
    than that. A measure of one kind of mistake may not vary until there is a pseudo-count of each kind.
    """
    draws, seed = bootstrap.draws, bootstrap.seed
    if claim.of == "features" and not features.resampled(part):
        return np.full(draws, np.nan)
    if claim.truth:
        return claim.truth(part, draws, seed)
    if each := getattr(claim.measure, "each", None):
        largest = bool(getattr(claim.measure, "largest", False))
        return extreme_draws(part, draws, seed, parts=each, largest=largest, of=claim.of, values=claim.values)
    redrawn = _redrawn(claim.measure, _taken(part, claim.of, claim.values, draws, seed))[:, 0]
    if not _constant(redrawn):
        return reflect_draws(effect, redrawn, log=claim.log)
    for every_mistake in (False, True) if claim.of == "outcomes" else ():
        padded = add_pseudo_counts(part, seed, every_mistake=every_mistake)
        redrawn = _redrawn(claim.measure, _taken(padded, claim.of, claim.values, draws, seed))[:, 0]
        if not _constant(redrawn):
            return np.where(np.isfinite(redrawn) & ((redrawn > 0) | (not claim.log)), redrawn, np.nan)
    return np.full(draws, np.nan)


def _taken(outcomes: xr.Dataset, of: str, values: Mapping[str, Value], draws: int = 0, seed: int = 0) -> Iterator[xr.Dataset]:
    """Yield what measures take (`Claim.of`, `Claim.values`): of all images, or of redrawn ones or blocks, some at a time."""
    if of == "features":
        blocks = features.by_block(outcomes)
        yield features.drawn(blocks, draws, seed) if draws else features.statistics(blocks)
    else:
        each = {name: value(outcomes) for name, value in values.items()}
        yield from bootstrap_sums(outcomes, each, draws, seed) if draws else [sums(outcomes, each)]


def _redrawn(measure: ClaimMeasure, chunks: Iterable[xr.Dataset]) -> np.ndarray:
    """Return a measure of `_taken`: a row for each draw, a column for each number that it gives."""
    return np.concatenate([measure(chunk).transpose("draw", ...).values.reshape(chunk.sizes["draw"], -1) for chunk in chunks])


def _constant(redrawn: np.ndarray) -> bool:
    """Return whether all draws give the same number, up to rounding."""
    finite = redrawn[np.isfinite(redrawn)]
    return not len(finite) or bool(np.ptp(finite) <= 1e-9 * max(1.0, abs(float(finite[0]))))


def _number(claim: Claim, totals: xr.Dataset) -> float:
    value = claim.measure(totals)
    if value.ndim:
        kept = f"its measure keeps the dimensions {_listed(value.dims)}"
        raise MeasurementError(f"claim {claim.name!r}: {kept}, expected one number")
    if not np.isfinite(float(value)) or (claim.log and float(value) <= 0):
        why = "some class has no images, or a ratio no base"
        raise MeasurementError(f"claim {claim.name!r} has no value on these outcomes: {why}")
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


def extreme_draws(
    outcomes: xr.Dataset,
    draws: int,
    seed: int,
    *,
    parts: ClaimMeasure,
    largest: bool = False,
    of: str = "outcomes",
    values: Mapping[str, Value] | None = None,
) -> np.ndarray:
    """Return draws of the true least (`largest`) of the quantities that `parts` returns along one dimension.

    All lie above a bound just where each does (intersection-union test, Berger 1982), so the lower half of the draws are, rank by
    rank, the least of those of single quantities. Draws reflected at the least itself would correct a bias that is small where
    one quantity is the least by far: with three, such a claim would hold at the level .05 in up to a seventh of the cases in
    which it is false. The least of many uncertain quantities is low by chance, so the upper half does not lie below the reflected
    draws of the least.
    """
    sign, given = -1.0 if largest else 1.0, values or {}
    effects = sign * np.atleast_1d(parts(*_taken(outcomes, of, given)).values)
    redrawn = sign * _redrawn(parts, _taken(outcomes, of, given, draws, seed)).astype(float)
    fixed = np.ptp(redrawn, axis=0) <= _ROUNDING
    if of == "features" and fixed.any():
        return np.full(draws, np.nan)
    if fixed.any():
        padded = _redrawn(parts, _taken(add_pseudo_counts(outcomes, seed), of, given, draws, seed))
        redrawn = np.where(fixed, sign * padded.astype(float), redrawn)
    kept = redrawn[np.isfinite(redrawn).all(1)]
    if not len(kept):
        return np.full(draws, np.nan)
    each = np.stack([_ranked(value, some) for value, some in zip(effects, kept.T, strict=True)])
    together = _ranked(float(effects.min()), kept.min(1))
    least = each.min(0)
    upper = np.arange(len(least)) >= len(least) // 2
    truth = np.where(upper, np.maximum(least, together), least)
    return sign * np.concatenate([truth, np.full(len(redrawn) - len(kept), np.nan)])


def _ranked(effect: float, redrawn: np.ndarray) -> np.ndarray:
    """Return reflected draws in rising order, as many as were redrawn, also where `reflect_draws` adds the draws themselves."""
    truth = np.sort(reflect_draws(effect, redrawn))
    return truth if len(truth) == len(redrawn) else truth[::2]
