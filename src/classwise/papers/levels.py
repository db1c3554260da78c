"""Whether the answer depends on how strong networks are: our base defences at both radii, a deeper network, and a paper."""

from collections.abc import Mapping, Sequence

import xarray as xr

from classwise.core.markup import escape, plural
from classwise.papers import home, ledger, published, registry, scales
from classwise.papers.claims import Verdict
from classwise.papers.sections import Request
from classwise.papers.tian2021.attacks_and_defences import EARLIER, correlation_bounds
from classwise.stats import aggregate, bootstrap, metrics, pooling
from classwise.stats.combine import concat_named

# The scales of the two radii, the weaker networks first.
RADII = ("laptop", "matched")


def requests() -> dict[str, Request]:
    """Return the networks that are compared, the weakest first, by their radius; "deeper": a ResNet-18, not a ResNet-10."""
    weak, strong = (registry.request(home.SECTION, scale) for scale in RADII)
    return {_radius(RADII[0]): weak, f"{_radius(RADII[0])}, deeper": EARLIER, _radius(RADII[1]): strong}


def _radius(scale: str) -> str:
    return str(scales.SCALES[scale].run["eps"])


def attacked(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes along defence under the attack of the paper, on the images of all these networks."""
    return aggregate.common_images(outcomes.sel(attack=home.ATTACK, drop=True), "defence")


def _printed(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the robust accuracies that the paper prints of these defences, which are some of its own, and classes."""
    rates = home.printed_rates(outcomes.rename(predicted="label").label.expand_dims(defence=outcomes.defence.values))
    assert rates is not None
    return rates


def counts(networks: Mapping[str, xr.Dataset]) -> xr.DataArray:
    """Return the counts of `attacked` networks along `level`, the paper last."""
    ours, printed = {name: pooling.pool(one) for name, one in networks.items()}, _printed(next(iter(networks.values())))
    return concat_named("level", {**ours, "Tian et al. 2021": published.counts(printed)})


def measures(networks: Mapping[str, xr.Dataset]) -> dict[str, xr.DataArray]:
    """Return by title all images, the worst class and the correlation with the paper, along level, defence and bound."""
    parts = {"all images, %": metrics.overall, "worst class, %": metrics.worst}
    measured = {title: {name: bootstrap.bootstrap(one, how) for name, one in networks.items()} for title, how in parts.items()}
    measured["rank correlation with the paper"] = {name: correlation_bounds(one, _printed(one)) for name, one in networks.items()}
    return {title: concat_named("level", some) for title, some in measured.items()}


def pairs(verdicts: Sequence[Verdict]) -> list[list[Verdict]]:
    """Return the verdicts on each claim that is tested at both radii, in their order."""
    found: dict[str, dict[str, Verdict]] = {}
    for one in verdicts:
        if one.scale in RADII and one.tested:
            found.setdefault(ledger.anchor(one.claim), {})[one.scale] = one
    return [[some[scale] for scale in RADII] for some in found.values() if len(some) == len(RADII)]


def answer(both: Sequence[Sequence[Verdict]]) -> str:
    """Return in bold how many claims have the same verdict at both radii, and whether any holds at one and fails at the other."""
    kinds = [{one.verdict for one in some} for some in both]
    same, undecided = sum(len(some) == 1 for some in kinds), kinds.count({"open"})
    turned = "some hold" if {"holds", "fails"} in kinds else "none holds"
    start = "Hardly" if turned == "none holds" and 2 * same >= len(kinds) else "In part"
    text = f"of {plural(len(both), 'claim')} tested at both radii, {same} {'has' if same == 1 else 'have'} the same verdict"
    text = f"**{start}: {text}, and {turned} at one radius and fail{'s' * turned.startswith('none')} at the other.**"
    return f"{text} Of these {same}, {undecided} {'is' if undecided == 1 else 'are'} open at both."


def changes(both: Sequence[Sequence[Verdict]]) -> str:
    """Return a line in Markdown for each claim with another verdict at the other radius: both verdicts with their numbers."""
    lines = list[str]()
    for some in both:
        if some[0].verdict != some[1].verdict:
            results = "; ".join(f"**{one.verdict}** at {_radius(one.scale)}, {escape(one.numbers)}" for one in some)
            lines.append(f"- [{escape(some[0].claim.statement)}]({ledger.address(some[0].claim)}) {results}.")
    return "\n".join(lines) or "None."
