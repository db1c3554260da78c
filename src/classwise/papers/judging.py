"""Statistical tests of claims: from outcomes to verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import xarray as xr

from classwise.core.errors import NotAtScale, NotRecorded
from classwise.papers.claims import DESCRIPTION, MAIN, Claim, Verdict
from classwise.papers.draws import ROUNDING, Draws, Quantity, true_values
from classwise.papers.scales import SCALES, location
from classwise.stats.bootstrap import evaluated_mask
from classwise.stats.features import complete_seeds
from classwise.stats.intervals import chance_below, interval_ends
from classwise.stats.significance import holm, permutation_p, permute_classes

# What is evaluated on the same images: attacks on fewer images restrict those that they are compared with.
_COMPARED = ("defence", "attack", "inverse", "eval_eps")


@dataclass(frozen=True)
class Bootstrap:
    """What a verdict comes from: the number of draws, their seed, the level of the interval, and trainings to compare with.

    base: by dataset, outcomes of trainings with several seeds, which show how networks differ from one training to the next
    (`trainings.base_deviations`); without it a claim on networks that were trained once is described.
    """

    draws: int = 1000
    seed: int = 0
    level: float = 0.95
    base: Mapping[str, xr.Dataset] = field(default_factory=dict)


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

    A claim that excludes `dataset` is "not tested"; so is one that cannot be measured on the outcomes, which `strict` makes
    NotRecorded. p-values and intervals cover images (a bootstrap, paired across what is compared) and trainings
    (`draws.true_values`). A claim is "described" and has no p where nothing shows how trainings differ, where it is a description
    (`Claim.family`), or says an absolute level that networks of this scale do not have. A claim holds where its adjusted p is
    below 1 - `level`, and fails where that of its opposite is. The interval agrees with the verdict: it lies within the range
    just where the claim holds, and outside just where it fails.
    Holm's correction is for the main claims of the section, given and tested or not; a control stands by itself.
    Of several Datasets each claim uses the one named by its `data`, and the dataset in that one's attributes. An attribute `runs`
    is the number of runs where it is not that of the seeds.
    """
    given = {one.data: outcomes.assign_attrs(dataset=dataset) for one in claims} if isinstance(outcomes, xr.Dataset) else outcomes

    @cache
    def named(data: str, readout: str) -> xr.Dataset:
        some = given[data]
        return canonical_names(some if "seed" in some.dims else some.expand_dims(seed=[0]), readout)

    unsound = SCALES[scale].unsound if scale in SCALES else {}
    measured: dict[int, tuple[Verdict, Draws]] = {}
    verdicts: list[Verdict] = []
    for claim in claims:
        tested = str(given[claim.data].attrs.get("dataset", dataset)) if claim.data in given else dataset
        poor = (f"{name}: {unsound[end]}" for name in claim.defences for end in unsound if name.endswith(end))
        why = claim.exclusion(tested) or next(poor, "")
        verdict = Verdict(claim, "not tested", scale, tested, reason=why, unreachable=bool(why))
        try:
            if not why and claim.data not in given:
                raise NotRecorded(f"claim {claim.name!r} needs the outcomes {claim.data!r}; there are: {_listed(given)}")
            if not why:
                verdict, truth = _measured(verdict, named(claim.data, claim.readout), bootstrap)
                measured |= {len(verdicts): (verdict, truth)} if verdict.tested else {}
        except NotRecorded as error:
            if strict:
                raise
            verdict = _refused(verdict, error, recorded=claim.data in given)
        verdicts.append(verdict)
    size = max(sum(claim.family == MAIN for claim in claims), *(claim.family_size for claim in claims), 0)
    final = _all_decided(measured, size, alpha=1 - bootstrap.level)
    return [final.get(place, verdict) for place, verdict in enumerate(verdicts)]


def _refused(verdict: Verdict, error: NotRecorded, *, recorded: bool) -> Verdict:
    """Return the verdict on a claim that cannot be measured; recorded: whether the outcomes that it needs are given at all."""
    lacking = f"no results on {location(verdict.dataset, verdict.scale)} {error.lacking}" if error.lacking else str(error)
    reason = lacking if recorded else "not all runs that it needs are recorded"
    return replace(verdict, reason=reason, unreachable=recorded and isinstance(error, NotAtScale))


def _all_decided(measured: Mapping[int, tuple[Verdict, Draws]], family: int, alpha: float) -> dict[int, Verdict]:
    both = {place: p_values(verdict.claim, truth) for place, (verdict, truth) in measured.items()}
    main = [place for place in both if measured[place][0].claim.family == MAIN]
    sides = [holm(np.array([both[place][side] for place in main]), family) for side in (0, 1)]
    adjusted = both | dict(zip(main, zip(*sides, strict=True), strict=True))
    return {place: _decided(*measured[place], np.array([both[place], adjusted[place]]), alpha) for place in measured}


def p_values(claim: Claim, truth: Draws) -> tuple[float, float]:
    """Return the p-values for a claim and for its opposite, from draws of the true value; NaN counts against both.

    For the claim: the larger of the chances that the truth lies below the range and above it, each one-sided (two one-sided
    tests, Schuirmann 1987). For its opposite: the smaller of the chances that it does not lie below, or not above.
    """
    values, low, high = _on_scale(claim, truth.values)
    against, opposite = [], []
    for sign, end in ((1, low),) * bool(np.isfinite(claim.low)) + ((-1, high),) * bool(np.isfinite(claim.high)):
        against.append(chance_below(sign * values, sign * end, truth.freedom))
        opposite.append(chance_below(-sign * values, -sign * end, truth.freedom, strict=True))
    return max(against, default=0.0), min(opposite, default=1.0)


def _on_scale(claim: Claim, values: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Return draws, low and high of a claim; of a ratio their logarithms."""
    if not claim.log:
        return values, claim.low, claim.high
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(values), np.log(max(claim.low, 0.0)), np.log(claim.high)


def _decided(verdict: Verdict, truth: Draws, chances: np.ndarray, alpha: float) -> Verdict:
    """Return the verdict that follows from p-values, with its interval.

    chances: a row with p for the claim and for its opposite, and a row with both adjusted.
    """
    side = int(np.argmin(chances[0]))
    p, adjusted = map(float, chances[:, side])
    word = ("holds", "fails")[side] if adjusted < alpha else "open"
    # Holm's correction multiplies p by a factor; the probability at each end of the interval is divided by it.
    low, high = _interval(verdict.claim, truth, alpha * p / adjusted)
    return replace(verdict, verdict=word, low=low, high=high, p=p, adjusted=adjusted)


def _interval(claim: Claim, truth: Draws, alpha: float) -> tuple[float, float]:
    """Return the interval that leaves out the values whose one-sided p is below alpha."""
    low, high = interval_ends(_on_scale(claim, truth.values)[0], alpha, truth.freedom)
    if claim.log:
        # Where a training has a ratio near 0, logarithms have no bound: a million says no more than infinity.
        low, high = np.exp([end if abs(end) < np.log(1e6) else np.sign(end) * np.inf for end in (low, high)]).tolist()
    if claim.unit == "correlation":
        low, high = (float(np.clip(end, -1, 1)) for end in (low, high))
    if claim.absolute and claim.unit in ("%", "percent", "points"):  # a share, or the gap between two
        low, high = (float(np.clip(end, 0, 100)) for end in (low, high))
    return low, high


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
            other.assign_coords(attack=["transfer"])
            for name in outcomes.substitute.values
            for other in (outcomes.sel(substitute=name, attack=[attack], drop=True) for attack in outcomes.attack.values)
            if name != "None" and bool((other.truth >= 0).any())
        ]
        outcomes = xr.concat([direct, *made], "attack", coords="minimal", compat="override", join="outer")
    return outcomes.assign_coords(attack=[str(name).split("@")[0] for name in outcomes.attack.values])


def _either(outcomes: xr.Dataset, dim: str, preferred: str, other: str) -> xr.Dataset:
    first, second = (outcomes.sel({dim: name}, drop=True) for name in (preferred, other))
    return first.where((first.truth >= 0).any("image"), second)


def select(claim: Claim, outcomes: xr.Dataset) -> xr.Dataset:
    """Return the outcomes that a claim needs, on the images that all its runs and attacks were evaluated on."""
    part, messages, lacking, refused = outcomes, [], [], outcomes.attrs.get("refused", {})
    kind: type[NotRecorded] = NotAtScale
    for dim, needs, without in (("defence", claim.defences, "for"), ("attack", claim.attacks, "under")):
        names = [str(name) for name in outcomes[dim].values]
        chosen = {need: next((name for name in need.split("|") if name in names), "") for need in needs}
        missing = [need.split("|") for need, name in chosen.items() if not name]
        part = part.sel({dim: list(filter(None, chosen.values()))}) if needs else part
        if missing:
            wanted = ", ".join(" or ".join(map(repr, some)) for some in missing)
            messages.append(f"the {dim} {wanted}, which is not among the outcomes; there are: {_listed(names)}")
            kind = kind if all(set(some) & set(refused) for some in missing) else NotRecorded
            given = [[f"{one} ({refused[one]})" if one in refused else one for one in some] for some in missing]
            lacking += [f"{without} {' or '.join(some)}" for some in given]
    if messages:
        raise kind(f"claim {claim.name!r} needs {'; and '.join(messages)}", ", nor ".join(lacking))
    for dim in claim.dims:
        if dim in refused:
            raise NotAtScale(refused[dim])
        if dim not in outcomes.dims and dim not in outcomes.coords and dim not in outcomes:
            message = f"claim {claim.name!r} needs {dim!r} in the outcomes; there are: {_listed(outcomes.dims)}"
            raise NotRecorded(message, _at(claim, dim, claim.grid[dim]) if dim in claim.grid else f"with {dim!r}")
    present = part.truth >= 0
    _check_grid(claim, present)
    # Of the same seeds, too: where a run has only some, the claim is tested on these.
    used = present.any([dim for dim in ("image", "seed") if dim in present.dims])
    both = (present | ~used).all([dim for dim in _COMPARED if dim in present.dims])
    if not bool((present & both).any()):
        message = f"claim {claim.name!r}: all of its runs and attacks have no image in common"
        raise NotRecorded(message, "on the same images for all of its runs")
    part = part.assign(truth=part.truth.where(both, -1))
    return part.isel(seed=np.flatnonzero((part.truth >= 0).any([dim for dim in present.dims if dim != "seed"])))


def _listed(names: object) -> str:
    return ", ".join(sorted(map(str, names)))  # type: ignore[call-overload]


def _check_grid(claim: Claim, present: xr.DataArray) -> None:
    for dim, values in claim.grid.items():
        some = present.any([name for name in present.dims if name not in (dim, "defence")])
        present_at = {str(value) for value in some[dim].values[some.all("defence").values]}
        lost = [value for value in values if value not in present_at]
        if lost:
            message = f"claim {claim.name!r} needs each defence at {dim} {', '.join(lost)}"
            raise NotRecorded(message, _at(claim, dim, lost))


def _at(claim: Claim, dim: str, values: Sequence[str]) -> str:
    """Return values of a setting of the last attack of a claim in words: "under temperature-pgd-20 at 1/T = 10, 50"."""
    return f"under {claim.attacks[-1]} at {'1/T' if dim == 'inverse' else dim} = {', '.join(values)}"


def _measured(verdict: Verdict, outcomes: xr.Dataset, bootstrap: Bootstrap) -> tuple[Verdict, Draws]:
    claim = verdict.claim
    part = select(claim, outcomes)
    try:
        part = complete_seeds(part) if claim.of == "features" else part
    except NotRecorded as error:
        raise NotRecorded(f"claim {claim.name!r} needs features of {', '.join(claim.defences)}", error.lacking) from None
    quantity = Quantity(claim, part)
    truth = true_values(quantity, bootstrap.base.get(verdict.dataset), bootstrap.draws, bootstrap.seed)
    for bound in (claim.low, claim.high) if claim.unit == "points" else ():
        near = np.abs(truth.values - bound) < ROUNDING
        truth = replace(truth, values=np.where(near, bound, truth.values))
    present = evaluated_mask(part)
    seeds, images = (int(present.any(dim).sum()) for dim in ("image", "seed"))
    judged = replace(verdict, verdict="open", effect=quantity.effect, seeds=int(part.attrs.get("runs", seeds)), images=images)
    if claim.correlates_classes:
        permuted = claim.measure(permute_classes(quantity.totals, claim.permuted, bootstrap.draws, bootstrap.seed))
        judged = replace(judged, permutation_p=permutation_p(permuted))
    if why := _undecidable(claim, verdict.scale, truth):
        low, high = _interval(claim, truth, (1 - bootstrap.level) / 2)
        judged = replace(judged, verdict="described", reason=why, low=low, high=high)
    return judged, truth


def _undecidable(claim: Claim, scale: str, truth: Draws) -> str:
    if claim.family == DESCRIPTION:
        return "it could hardly be otherwise: a description, which is not tested"
    if claim.absolute and scale in SCALES and not SCALES[scale].levels:
        return "it says a level, which is judged where networks are as strong as those of the papers"
    if not truth.trainings:
        return "nothing shows how such networks differ from training to training: the interval covers images alone"
    return ""
