"""The worst case over all attacks on a network at one radius, and the signs that attacks have failed (Carlini et al. 2019).

Data are those of an audit: `outcomes` has a dimension network with one member, and the attacks "clean", the audit's and its
sanity checks; `curve` has one attack with gradients and its radii along eval_eps. All are evaluated on the same images.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.results import BLACK_BOX_MEMBERS, MEMBERS
from classwise.stats import aggregate, intervals, metrics, sanity

# Their names along `attack`.
CURVE, WORST = "curve", "worst case"
# Causes of warnings, besides those of `sanity`.
SINGLE_STEP, WEAK = "training against a single step", "weak attacks or hidden gradients"
RENUMBERED, CHANCE = "classes in another order", "clean accuracy near chance"
# A cause is named where the lower end of the interval exceeds these shares of the correctly classified images: of images that
# only a black-box attack or a smaller radius breaks, and of those that withstand one step of an attack but not more. Up to 30 %
# of the images of networks without a fault withstand one step only.
_ALONE, _FAR = 0.05, 0.35
# The same of the images that attacks with gradients leave, which may be few; they are at least this share of the correct ones.
_OF_LEFT, _LEAST = 0.2, 0.01
# Higher than the limit of `sanity`, which says that an attack of the book failed: an audit names what is wrong with a network.
RULE = (
    f"It is a warning where this interval lies above {100 * _OF_LEFT:g} % and the images are more than {100 * _LEAST:g} % of all "
    f"correctly classified ones, or where the interval of that share lies above {100 * _ALONE:g} %: black-box attacks find fewer "
    "in networks without a fault, too."
)
# A network is called near chance up to this share of the way from chance to no mistake.
_NEAR_CHANCE = 0.1
# And its classes are called renumbered where another order would gain as many points.
_RENUMBERED, _FEW = 5.0, 10
# Attacks that are not merely too weak where a black-box attack breaks more.
THOROUGH = {"strong", "autoattack"}
_USED = ["truth", "prediction", "misclassified"]


def worst_case_outcomes(outcomes: xr.Dataset, curve: xr.Dataset, eps: str) -> xr.Dataset:
    """Return truth, prediction and misclassified along `attack`: "clean", each attack, CURVE up to the radius `eps`, and WORST.

    A clean mistake counts as broken under every attack, and an image that any attack broke is broken in the worst case, so that a
    verdict never improves from clean images to an attack to the worst case. The prediction is that under the first attack, in
    this order, that broke the image.
    """
    single, attacked = (data[_USED].assign_coords(predicted=outcomes.predicted) for data in (outcomes, curve))
    radii = [str(name) for name in curve.eval_eps.values if Fraction(str(name)) <= Fraction(eps)]
    below = attacked.isel(network=0, attack=[0], drop=True).sel(eval_eps=sorted(radii, key=Fraction))
    of_curve = aggregate.worst_case(below.assign_coords(attack=[CURVE]), "eval_eps")
    every = xr.concat([single.isel(network=0, drop=True), of_curve], "attack", join="exact")
    clean = every.sel(attack="clean", drop=True)
    every = every.sel(attack=["clean", *(name for name in every.attack.values if name != "clean")])
    return aggregate.add_worst_case(every.where(~clean.misclassified, clean).transpose("attack", ...), WORST)


def curve_with_worst_case(curve: xr.Dataset, results: xr.Dataset, eps: str) -> xr.Dataset:
    """Return a curve whose images at the radius `eps` are those of the worst case of `results` (`worst_case_outcomes`)."""
    worst, here = results.sel(attack=WORST, drop=True), curve.eval_eps == eps
    given = {name: curve[name].where(~here, worst[name]).transpose(*curve[name].dims) for name in _USED}
    return curve.assign({name: values.astype(curve[name].dtype) for name, values in given.items()})


@dataclass(frozen=True)
class BlackBoxCheck:
    """How many images attacks without gradients broke that those with gradients did not.

    correct: number of images that are classified correctly without an attack; left: those of them that no attack with gradients
    broke; broken: those of them left that an attack without gradients broke.
    """

    correct: int
    left: int
    broken: int

    def detectable(self, power: float = 0.9) -> float:
        """Return the smallest share of all such images that this check detects with this probability; 1 if none are left."""
        return float(1 - (1 - power) ** (1 / self.left)) if self.left else 1.0


def _broken(outcomes: xr.Dataset, curve: xr.Dataset, eps: str) -> xr.Dataset:
    """Return which images (image,) are classified correctly without an attack, and which attacks broke them."""
    network, results = outcomes.isel(network=0, drop=True), worst_case_outcomes(outcomes, curve, eps)
    correct = ~network.misclassified.sel(attack="clean", drop=True)
    single_step, black_box = (xr.zeros_like(correct) for _ in range(2))
    gradients = results.misclassified.sel(attack=CURVE, drop=True)
    for name in map(str, network.attack.values):
        broken, without = (
            network.misclassified.sel(attack=name, drop=True),
            _without_gradients(network.sel(attack=name, drop=True)),
        )
        black_box = black_box | (broken & without)
        if name.startswith("fgsm"):
            single_step = single_step | broken
        elif name != "clean":
            gradients = gradients | (broken & ~without)
    by = {"single_step": single_step, "gradients": gradients, "black_box": black_box}
    kinds = {name: correct & broken for name, broken in by.items()}
    return xr.Dataset(kinds | {"correct": correct, "left": correct & ~gradients & ~single_step})


def _without_gradients(attack: xr.Dataset) -> xr.DataArray:
    """Return which images (image,) an attack without gradients broke, if any did: one that counts queries, or such a member."""
    result = attack["queries"] >= 0 if "queries" in attack else xr.zeros_like(attack.misclassified)
    numbers = [MEMBERS.index(name) for name in BLACK_BOX_MEMBERS]
    return result | attack["member"].isin(numbers) if "member" in attack else result


def black_box_check(outcomes: xr.Dataset, curve: xr.Dataset, eps: str) -> BlackBoxCheck:
    """Return what the attacks without gradients broke, those that count queries and such members of ensembles."""
    broken = _broken(outcomes, curve, eps)
    return BlackBoxCheck(int(broken.correct.sum()), int(broken.left.sum()), int((broken.left & broken.black_box).sum()))


def warnings(outcomes: xr.Dataset, curve: xr.Dataset, eps: str, checks: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the causes for which robust accuracy may be misleading, each with the numbers that show it.

    checks: of each evaluation by its name, as `attacks.sanity.sanity_checks` returns them.
    """
    clean = aggregate.counts(outcomes.sel(attack="clean", drop=True).isel(network=0, drop=True))
    failed = [sanity.sanity_warnings(some, outcomes.sizes["image"]) for some in checks.values()]
    # Of several evaluations that fail alike, the first is stated. What ensembles break without gradients is computed below.
    stated = dict(reversed([pair for some in failed for pair in some.items() if pair[0] != sanity.BLACK_BOX_AHEAD]))
    signs = [(sanity.CAUSES[sentence], f"{sentence} ({figure})") for sentence, figure in stated.items()]
    causes = [cause for cause, _ in signs]
    # Randomness and saturation explain whatever follows from gradients that are useless.
    hidden = next((cause for cause in (sanity.RANDOM, sanity.SATURATED) if cause in causes), sanity.HIDDEN)
    broken = _broken(outcomes, curve, eps)
    ahead = _black_box_ahead(broken)
    cause = sanity.HIDDEN if {*causes} - {sanity.FLAT} or THOROUGH & set(outcomes.attack.values) else WEAK
    signs += [(cause, f"a black-box attack alone breaks {ahead}")] if ahead else []
    missed = _ahead(_missed_at_larger_radius(outcomes, curve, eps), broken.correct, _ALONE)
    text = f"the attack of the curve breaks {missed} of the correctly classified images at some radius, but not at a larger one"
    signs += [(sanity.HIDDEN, text)] if missed else []
    more = _ahead(broken.gradients & ~broken.single_step, broken.correct, _FAR)
    # A single step fails, too, where gradients are useless.
    explained = {sanity.RANDOM, sanity.SATURATED} & set(causes) or any(sanity.VANISH in some for some in failed)
    if more and not explained:
        text = (
            f"{more} of the correctly classified images withstand a single step, but not several, which indicates this training"
        )
        signs.append((SINGLE_STEP, text))
    result: dict[str, list[str]] = {cause: [text] for cause, text in clean_warnings(clean).items()}
    for cause, text in signs:
        result.setdefault(hidden if cause == sanity.HIDDEN else cause, []).append(text)
    return {cause: "; ".join(texts) for cause, texts in result.items()}


def clean_warnings(clean: xr.DataArray) -> dict[str, str]:
    """Return warnings about the clean predictions by cause: a network near chance, classes in another order.

    There are none for fewer than _FEW images a class, of which another order is right on more by chance.
    """
    if int(clean.sum()) < _FEW * clean.sizes["label"]:
        return {}
    chance, accuracy, relabelled = 100 / clean.sizes["label"], float(metrics.overall(clean)), metrics.best_relabelling(clean)
    if relabelled - accuracy > _RENUMBERED and relabelled > 50:
        text = f"with the classes of the dataset in another order it would be right on {relabelled:.0f} % of the clean images"
        return {RENUMBERED: f"{text}, not {accuracy:.0f} %"}
    if accuracy < chance + _NEAR_CHANCE * (100 - chance):
        text = f"it is right on {accuracy:.0f} % of the clean images, and {chance:.0f} % would be chance: probably another"
        return {CHANCE: f"{text} normalisation is expected (`--normalise`), or another order of the classes"}
    return {}


def _black_box_ahead(broken: xr.Dataset) -> str:
    """Return how many images only a black-box attack breaks, of all or else of those left, where it is a warning; else ""."""
    alone = broken.black_box & broken.left
    if of_all := _ahead(alone, broken.correct, _ALONE):
        return f"{of_all} of the correctly classified images"
    of_left = _ahead(alone, broken.left, _OF_LEFT) if _ahead(alone, broken.correct, _LEAST) else ""
    return f"{of_left} of the images left by attacks with gradients" if of_left else ""


def _missed_at_larger_radius(outcomes: xr.Dataset, curve: xr.Dataset, eps: str) -> xr.DataArray:
    """Return which images (image,) the attack of a curve breaks at one radius, but not at a larger one.

    Radii above `eps` count only for images that nothing broke at `eps`.
    """
    order = sorted(map(str, curve.eval_eps.values), key=Fraction)
    misclassified = curve.misclassified.isel(network=0, attack=0, drop=True).sel(eval_eps=order).transpose("eval_eps", "image")
    missed = misclassified.copy(data=np.logical_or.accumulate(misclassified.values)) & ~misclassified
    robust = ~worst_case_outcomes(outcomes, curve, eps).misclassified.sel(attack=WORST, drop=True)
    up_to = missed.sel(eval_eps=[radius for radius in order if Fraction(radius) <= Fraction(eps)])
    result: xr.DataArray = up_to.any("eval_eps") | (missed.any("eval_eps") & robust)
    return result


def _ahead(images: xr.DataArray, correct: xr.DataArray, share: float) -> str:
    """Return "k of n (x %, 95 %: low to high)" where k is above 1 and the interval of the share above a limit, else ""."""
    number, total = int((images & correct).sum()), int(correct.sum())
    low, high = intervals.proportion(number, total)
    text = f"{number} of {total} ({100 * number / max(total, 1):.0f} %, 95 %: {low:.0f} to {high:.0f})"
    return text if number > 1 and low > 100 * share else ""
