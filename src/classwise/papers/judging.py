"""From outcomes to verdicts."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from classwise.papers.claims import Claim, MeasurementError, Verdict
from classwise.stats import bootstrap

# What an attack is called in claims where it is made on another network.
TRANSFER = "transfer"

# Where a smaller share of the draws than this lies on one side of the effect, they tell a bias and no interval.
_LOPSIDED = 0.05


def judge_all(
    claims: Sequence[Claim],
    outcomes: xr.Dataset | Mapping[str, xr.Dataset],
    *,
    scale: str,
    dataset: str,
    strict: bool = True,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> list[Verdict]:
    """Return a verdict on each of the claims, which are those of one section.

    A claim that `dataset` cannot speak to is "not asked". One that cannot be measured on the outcomes is a MeasurementError that
    says what is missing; unless `strict` it is "not asked" as well. p-values and intervals come from a bootstrap over images,
    paired across what is compared and clustered by seed (`sampling.weights`); Holm's correction is for the claims asked. A
    claim holds where its adjusted p is below 1 - `level`, and fails where that of its opposite is. The interval is the one that
    this comes to: so wide that it lies within the range just where the claim holds, and outside just where it fails. An effect
    that no draw changes is not thereby sure: it is drawn again with images that were answered otherwise (`sampling.loosened`).
    Of several Datasets each claim takes that of the name of its `part`, and speaks of the dataset that this one names.
    """
    given = {"": outcomes} if isinstance(outcomes, xr.Dataset) else outcomes
    spoken = (
        {} if isinstance(outcomes, xr.Dataset) else {part: some.attrs.get("dataset", dataset) for part, some in given.items()}
    )
    seeded = {part: some if "seed" in some.dims else some.expand_dims(seed=[0]) for part, some in given.items()}
    readouts = {claim.readout for claim in claims}
    plain = {readout: {part: canonical_names(some, readout) for part, some in seeded.items()} for readout in readouts}
    found: dict[int, tuple[Verdict, np.ndarray]] = {}
    verdicts: list[Verdict] = []
    for claim in claims:
        data = str(spoken.get(claim.part, dataset))
        reason = "" if not claim.datasets or data in claim.datasets else f"cannot be asked of {data}: {claim.because}"
        if not reason:
            try:
                found[len(verdicts)] = _measured(claim, plain[claim.readout], scale, data, draws, seed)
                verdicts.append(found[len(verdicts)][0])
                continue
            except MeasurementError as error:
                if strict:
                    raise
                reason = str(error)
        verdicts.append(Verdict(claim, "not asked", scale, data, reason=reason))
    both = np.array([p_values(one.claim, truth) for one, truth in found.values()]).reshape(-1, 2)
    adjusted = np.column_stack([holm(both[:, 0]), holm(both[:, 1])])
    for place, chance, corrected, (verdict, truth) in zip(found, both, adjusted, found.values(), strict=True):
        verdicts[place] = _decided(verdict, truth, chance, corrected, alpha=1 - level)
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
    """Return the verdict that the p-values for the claim and for its opposite come to, with the interval that goes with it."""
    side = int(np.argmin(chance))
    word = ("holds", "fails")[side] if adjusted[side] < alpha else "open"
    # Holm's correction has made p so many times as large; the chance left at each end of the interval is as many times smaller.
    low, high = interval_ends(truth, alpha * chance[side] / adjusted[side])
    if verdict.claim.unit == "correlation":
        low, high = (float(np.clip(end, -1, 1)) for end in (low, high))
    p = {"p": float(chance[side]), "adjusted": float(adjusted[side])}
    return Verdict(**{**vars(verdict), "verdict": word, "low": low, "high": high, **p})


def interval_ends(truth: np.ndarray, alpha: float) -> tuple[float, float]:
    """Return the interval that leaves out just those values whose one-sided p, from draws of the truth, is below `alpha`.

    NaN among the draws counts against both ends; where there are too few draws for such a p, an end is infinite.
    """
    good = np.sort(truth[~np.isnan(truth)])
    place = int(np.ceil(alpha * (1 + len(truth)) - 1 - 1e-9)) - (len(truth) - len(good))
    return (float(good[place - 1]), float(good[-place])) if place >= 1 else (-np.inf, np.inf)


def canonical_names(outcomes: xr.Dataset, readout: str = "cosines") -> xr.Dataset:
    """Return outcomes in the vocabulary of claims: attacks by their general names, a transfer attack as an attack.

    "pgd-20@tian2021" becomes "pgd-20". Where there is a dimension substitute, what is made on a substitute becomes "transfer".
    Where there is a dimension readout, those asked in this `readout` answer in it, the others in the other one: HE as published
    with its cosines, all others with their logits.
    Where there is a dimension form (of temperature-pgd-20), the stable one speaks: what the paper's equations say, uncut.
    """
    if "form" in outcomes.dims:
        outcomes = _either(outcomes, "form", "stable", "")
    if "readout" in outcomes.dims:
        outcomes = _either(outcomes, "readout", readout, "logits" if readout == "cosines" else "cosines")
    if "substitute" in outcomes.dims:
        own = outcomes.sel(substitute="None", drop=True)
        made = [
            other.assign_coords(attack=[TRANSFER])
            for name in outcomes.substitute.values
            for other in (outcomes.sel(substitute=name, attack=[attack], drop=True) for attack in outcomes.attack.values)
            if name != "None" and bool((other.truth >= 0).any())
        ]
        outcomes = xr.concat([own, *made], "attack", coords="minimal", compat="override", join="outer")
    return outcomes.assign_coords(attack=[str(name).split("@")[0] for name in outcomes.attack.values])


def _either(outcomes: xr.Dataset, dim: str, first: str, other: str) -> xr.Dataset:
    """Return outcomes with one setting along `dim` where any image was asked about in it, else with the other."""
    one, rest = (outcomes.sel({dim: name}, drop=True) for name in (first, other))
    return one.where((one.truth >= 0).any("image"), rest)


def select(claim: Claim, outcomes: xr.Dataset) -> xr.Dataset:
    """Return the outcomes that a claim speaks of, on the images that all its runs and attacks were asked about."""
    for dim in claim.dims:
        if dim not in outcomes.dims and dim not in outcomes.coords and dim not in outcomes:
            raise MeasurementError(f"claim {claim.name!r} needs {dim!r} in the outcomes; there are: {_listed(outcomes.dims)}")
    part = outcomes
    for dim, needs in (("defence", claim.defences), ("attack", claim.attacks)):
        names = [str(name) for name in part[dim].values]
        part = part.sel({dim: [_one_of(need, names, dim, claim) for need in needs] or names})
    there = part.truth >= 0
    put = there.any("image")
    both = (there | ~put).all([dim for dim in ("defence", "attack") if dim in there.dims])
    if not bool((there & both).any()):
        raise MeasurementError(f"claim {claim.name!r}: no image was put to all of its runs and attacks")
    return part.assign(truth=part.truth.where(both, -1))


def _listed(names: object) -> str:
    return ", ".join(sorted(map(str, names)))  # type: ignore[call-overload]


def _one_of(need: str, names: Sequence[str], dim: str, claim: Claim) -> str:
    for name in need.split("|"):
        if name in names:
            return name
    wanted = " or ".join(map(repr, need.split("|")))
    found = f"which is not among the outcomes; there are: {_listed(names)}"
    raise MeasurementError(f"claim {claim.name!r} needs the {dim} {wanted}, {found}")


def _measured(
    claim: Claim, given: Mapping[str, xr.Dataset], scale: str, dataset: str, draws: int, seed: int
) -> tuple[Verdict, np.ndarray]:
    """Return the measure of a claim, not judged yet, and draws of its true value."""
    if claim.part not in given and "" not in given:
        raise MeasurementError(f"claim {claim.name!r} needs the outcomes {claim.part!r}; there are: {_listed(given)}")
    part = select(claim, given.get(claim.part, given.get("", xr.Dataset())))
    effect = _number(claim, bootstrap.sums(part, _values(claim, part)))
    again = _again(claim, part, draws, seed)
    truth = _loose(claim, part, draws, seed) if _still(again) else reflect_draws(effect, again, log=claim.log)
    there = bootstrap.evaluated(part)
    seeds, images = (int(there.any(dim).sum()) for dim in ("image", "seed"))
    verdict = Verdict(claim, "open", scale, dataset, effect, seeds=seeds, images=images)
    return verdict, truth


def _values(claim: Claim, part: xr.Dataset) -> dict[str, xr.DataArray]:
    return {name: value(part) for name, value in claim.values.items()}


def _again(claim: Claim, part: xr.Dataset, draws: int, seed: int) -> np.ndarray:
    """Return the measure of images drawn anew, of each draw."""
    drawn = bootstrap.bootstrap_sums(part, _values(claim, part), draws, seed)
    return np.concatenate([np.atleast_1d(claim.measure(some).values) for some in drawn])


def _still(again: np.ndarray) -> bool:
    """Return whether all draws come to the same number, but for rounding."""
    good = again[np.isfinite(again)]
    return not len(good) or bool(np.ptp(good) <= 1e-9 * max(1.0, abs(float(good[0]))))


def _loose(claim: Claim, part: xr.Dataset, draws: int, seed: int) -> np.ndarray:
    """Return draws of the true value of an effect that never varied, NaN where it does not vary now either.

    They are the draws themselves: taken off the effect, as `turned` does, what is always right would have to be more than that.
    What feels one kind of mistake alone may not vary until there is one of each.
    """
    for each in (False, True):
        again = _again(claim, bootstrap.add_pseudo_counts(part, seed, each=each), draws, seed)
        if not _still(again):
            good = np.isfinite(again) & ((again > 0) | (not claim.log))
            return np.where(good, again, np.nan)
    return np.full(draws, np.nan)


def _number(claim: Claim, found: xr.Dataset) -> float:
    value = claim.measure(found)
    if value.ndim:
        kept = f"its measure keeps the dimensions {_listed(value.dims)}"
        raise MeasurementError(f"claim {claim.name!r}: {kept}, expected one number")
    if not np.isfinite(float(value)) or (claim.log and float(value) <= 0):
        why = "some class has no images, or a ratio no base"
        raise MeasurementError(f"claim {claim.name!r} comes to {float(value)} on these outcomes: {why}")
    return float(value)


def reflect_draws(effect: float, again: np.ndarray, *, log: bool = False) -> np.ndarray:
    """Return the draws of the true value that the basic bootstrap interval has its ends from; NaN for those without a number.

    Each draw's distance from the effect is taken off the effect: so what sampling adds to a gap is taken off, not put on twice
    (Davison and Hinkley 1997, 5.2). Where nearly all draws lie on one side of the effect, that is more than the bootstrap can
    tell, and the draws themselves stand beside the turned ones.
    """
    good = np.isfinite(again) & ((again > 0) | (not log))
    kept = np.where(good, again, effect)
    truth = np.where(good, np.exp(2 * np.log(effect) - np.log(kept)) if log else 2 * effect - kept, np.nan)
    lopsided = min(np.mean(kept <= effect), np.mean(kept >= effect)) < _LOPSIDED
    return np.concatenate([truth, np.where(good, kept, np.nan)]) if lopsided else truth
