"""Findings: sentences whose numbers are those of the outcomes, with intervals that hold them."""

import re

import texts
from claim_answers import at, outcomes_with

from classwise.papers import findings


def outcomes(tables, along=("defence", "attack")):
    return outcomes_with(tables, along=along).expand_dims(seed=[0])


def under_strong(**right):
    return outcomes({(name.replace("_", "-"), "strong"): value for name, value in right.items()})


def the_interval(sentence: str) -> float:
    """Return the value of the only interval of a sentence, which lies inside it."""
    number = r"(-?\d+(?:\.\d+)?)"
    ((value, low, high),) = re.findall(rf"{number}[ a-z%]* \({number} to {number}\)", sentence)
    assert float(low) <= float(value) <= float(high)
    assert float(low) < float(high)
    return float(value)


def test_findings_name_classes_attacks_and_defences_with_their_numbers():
    attacks = outcomes({("pgd-at", name): right for name, right in (("clean", 99), ("pgd-20", 80), ("strong", 60))})
    # Where the strong attack was evaluated on images that PGD does not break, the two differ on these only.
    few = attacks.truth.where((attacks.attack != "strong") | ~attacks.misclassified.sel(attack="pgd-20"), -1)
    data = under_strong(pgd_at=at(10, 2, rest=75), dafa=at(85, 2, rest=75), wat=at(8, 2, rest=75))
    higher = under_strong(pgd_at=at(25, 2, rest=75), dafa=at(27, 2, rest=75))
    alone = outcomes({("pgd-at", name): at(10, 2, rest=75) for name in ("clean", "strong")})
    some = (data, data.sel(defence=["pgd-at", "wat"]), higher, alone)
    sentences = [findings.weakest_attack(attacks), *(findings.best_for_the_worst_class(one, "strong") for one in some)]
    pairs = [*sentences, findings.weakest_attack(attacks.assign(truth=few))]
    texts.check("findings", *(one for pair in pairs for one in pair))
    assert [the_interval(one) for one, _ in sentences[:2]] == [20, 65]
    _, levels = findings.best_for_the_worst_class(data, "strong", bases={"dafa": "wat"})
    assert "It builds on WAT, whose worst class is 67 points" in levels


def test_intervals_for_all_defences_are_wider():
    names = ("pgd-at", "a", "b", "c", "d")
    data = outcomes({(name,): at(25 + 3 * place, 2, rest=75) for place, name in enumerate(names)}, ("defence",))
    bounds = (findings.worst_class_gains(data.sel(defence=list(some))).sel(defence="d") for some in (names[::4], names))
    narrow, wide = (float(gains.sel(bound="high") - gains.sel(bound="low")) for gains in bounds)
    assert narrow < wide


def test_names_of_classes_are_escaped():
    data = under_strong(pgd_at=at(10, 9, rest=75), dafa=at(85, 9, rest=75)).assign_coords(predicted=[*"abcdefghi", "<b>|*x_"])
    escaped = "&#60;b&#62;&#124;&#42;x&#95;"
    assert f"({escaped})." in findings.best_for_the_worst_class(data, "strong")[1]
