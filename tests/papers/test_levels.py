"""The page on levels: networks at both radii, a deeper one and a paper, and the claims whose verdicts change."""

from dataclasses import replace

import pytest

from classwise import runs
from classwise.papers import home, levels, registry
from classwise.papers.claims import Verdict
from classwise.stats import metrics

CLAIMS = registry.PAPERS["tian2021"].claims


def found(*verdicts):
    """Return verdicts on one claim after another, each at both radii."""
    return [
        Verdict(claim, one, scale, "cifar10", 4.0, 3.0, 5.0, seeds=3, images=100)
        for claim, both in zip(CLAIMS, verdicts, strict=False)
        for scale, one in zip(levels.RADII, both, strict=True)
    ]


def test_claims_count_that_are_tested_at_both_radii_and_those_that_change_are_listed():
    some = found(("holds", "holds"), ("open", "holds"), ("described", "holds"), ("not tested", "fails"))
    both = levels.pairs([*some, replace(some[0], scale="quick", dataset="digits")])
    assert [one.scale for pair in both for one in pair] == [*levels.RADII] * 2
    assert levels.answer(both) == (
        "**Hardly: of 2 claims tested at both radii, 1 has the same verdict, and none holds at one radius and fails at the other."
        "** Of these 1, 0 are open at both."
    )
    (line,) = levels.changes(both).splitlines()
    assert CLAIMS[1].statement in line
    assert "**open** at 8/255, 4.0" in line
    assert "**holds** at 4/255, 4.0" in line
    turned = levels.answer(levels.pairs(found(("holds", "fails"))))
    assert turned.startswith("**In part: of 1 claim")
    assert "and some hold at one radius and fail at the other" in turned
    assert levels.changes(both[:1]) == "None."


@pytest.fixture(scope="module")
def networks():
    known = {name: runs.keep_recorded(one) for name, one in levels.requests().items()}
    some = {name: runs.outcomes(one.specs, one.evaluations) for name, one in known.items()}
    return {name: levels.attacked(runs.select(one, defence=["pgd-at", "trades"])) for name, one in some.items()}


def test_each_level_has_its_own_networks_and_the_paper_its_printed_numbers(networks):
    count = levels.counts(networks)
    assert count.level.values.tolist() == ["8/255", "8/255, deeper", "4/255", "Tian et al. 2021"]
    printed = registry.tables_of("tian2021").load(1)["accuracy"].sel(attack=home.ATTACK, defence="pgd-at")
    theirs = metrics.accuracy(count).sel(level="Tian et al. 2021", defence="pgd-at")
    assert theirs.sel(label="cat").item() == pytest.approx(printed.sel(label="cat").item(), abs=0.05)
    measured = levels.measures(networks)
    assert set(measured) == {"all images, %", "worst class, %", "rank correlation with the paper"}
    for values in measured.values():
        assert values.level.values.tolist() == count.level.values.tolist()[:3]
        assert bool((values.sel(bound="low") <= values.sel(bound="high")).all())
    ours = metrics.overall(count).sel(level=list(networks))
    assert ours.values == pytest.approx(measured["all images, %"].sel(bound="value").values, abs=0.5)
