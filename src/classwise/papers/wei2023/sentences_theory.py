"""What the Gaussian model of Wei et al. 2023, section 2, says at given parameters, in sentences with their numbers."""

import xarray as xr

from classwise.core.markup import counted
from classwise.papers.wei2023 import section_2, theory
from classwise.papers.wei2023.theory import LABELS, Model


def _rates(model: Model, trained: float, judged: float, *, intercept: bool = False) -> xr.DataArray:
    """Return the accuracy of each class after training against one radius, under an attack of another."""
    return model.accuracy(model.trained(trained, intercept=intercept), judged, model.intercept if intercept else 0.0)


def _gap(rates: xr.DataArray) -> float:
    return float(rates.sel(label="easy") - rates.sel(label="hard"))


def finding(model: Model, eps: float) -> str:
    """Return what training against a radius does to the clean gap, with and without an intercept, and counts violations."""
    cases = [(fitted, radius) for fitted in (False, True) for radius in (0.0, eps)]
    first, last, fitted_first, fitted_last = (_gap(_rates(model, radius, 0, intercept=fitted)) for fitted, radius in cases)
    drawn = section_2.settings()
    number = sum(int((claim.measure(drawn) <= 0).sum()) for claim in section_2.CLAIMS)
    wider = "widens" if last > first else "does not widen"
    return (
        f"**In the model, training against radius {eps:.2g} {wider} the clean gap between the easy and the hard class from "
        f"{first:.1f} to {last:.1f} points; with an intercept, which the paper leaves out, from {fitted_first:.1f} to "
        f"{fitted_last:.1f}.** In {drawn.sizes['setting']:,} drawn settings the theorems have {counted(number, 'violation')}."
    )


def agreement(model: Model, shown: int, number: int, seed: int = 0) -> str:
    """Return the largest gap between closed form and simulation, with so many points a class as are shown, and with more."""
    few, many = (theory.largest_error(model, size, seed) for size in (shown, number))
    return (
        f"The largest difference between closed form and simulation is {few:.1f} points with {shown:,} points of each class, as "
        f"in the chart, and {many:.2f} points with {number:,}."
    )


def premise(model: Model) -> str:
    """Return from which training radius on Theorem 4's premise holds."""
    return (
        f"The first half of Theorem 4 is about weights beyond both peaks: here about training radii above {model.premise:.3f}, "
        f"which is {model.premise / model.eta:.2f} η. At smaller radii the easy class still gains clean accuracy."
    )


def intercept(model: Model, eps: float) -> str:
    """Return what an intercept does to the robust accuracies after training without an attack, and to the clean gap."""
    plain, fitted = (_rates(model, 0.0, 2 * model.eta, intercept=one) for one in (False, True))
    turned = "the order of the classes is reversed" if _gap(plain) * _gap(fitted) < 0 else "the order of the classes stays"
    robust = [", ".join(f"{name} {float(rates.sel(label=name)):.1f} %" for name in LABELS) for rates in (plain, fitted)]
    gaps = [_gap(_rates(model, eps, 0, intercept=one)) for one in (False, True)]
    return (
        f"- The best intercept is {model.intercept:.3f} at every training radius: it favours the hard class.\n"
        f"- After training without an attack, at radius 2 η = {2 * model.eta:.2g}, **{turned}**: {robust[0]} without; "
        f"{robust[1]} with an intercept.\n"
        f"- After training against radius {eps:.2g} the clean gap is {gaps[0]:.1f} points without and {gaps[1]:.1f} with it."
    )


def one_radius(model: Model, easy: float, hard: float) -> str:
    """Return which one training radius gives the same classifier as two radii, one for each class."""
    radius = model.uniform_radius(easy, hard)
    return (
        f"Training the easy class against radius {easy:.2g} and the hard class against {hard:.2g} gives the same classifier as "
        f"training both against {radius:.3f}. In this model class-wise radii are one more uniform radius."
    )


def preferred(model: Model, eps: float) -> str:
    """Return which training radius is best for each class under an attack of a radius."""
    best = {name: float(model.preferred(eps).sel(label=name)) for name in LABELS}
    hard = f"{best['hard']:.3f}" if best["hard"] >= 0 else "no training radius is small enough, 0 is best"
    return (
        f"Under an attack of radius {eps:.2g} the easy class is best after training against {best['easy']:.3f}, and the hard "
        f"class after training against {hard}: **one lies above the radius of the attack, the other below, at any radius.**"
    )
