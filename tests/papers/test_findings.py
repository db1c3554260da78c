"""Findings: sentences whose numbers are those of the outcomes, with intervals that hold them."""

import re

from claim_answers import at, outcomes_with

from classwise.papers import findings


def outcomes(tables, along=("defence", "attack")):
    return outcomes_with(tables, along=along).expand_dims(seed=[0])


def under_strong(**right):
    return outcomes({(name.replace("_", "-"), "strong"): value for name, value in right.items()})


def the_interval(sentence: str) -> float:
    """Return the value of the only interval of a sentence, which lies inside it."""
    number, corrected = r"(-?\d+(?:\.\d+)?)", r"(?:, corrected for \d+ (?:defences|networks),)?"
    ((value, low, high),) = re.findall(rf"{number}[ a-z%]* \(95 % interval{corrected} {number} to {number}\)", sentence)
    assert float(low) <= float(value) <= float(high)
    assert float(low) < float(high)
    return float(value)


ATTACKED = {("pgd-at", "clean"): 90, ("pgd-at", "pgd-20"): at(20, 9, rest=80)}


def test_the_gap_of_a_defence_names_both_classes():
    data = outcomes({("standard", "clean"): 99, ("standard", "pgd-20"): 0} | ATTACKED)
    text = findings.class_gap(data, "pgd-at", "pgd-20")
    assert text.startswith("**Under PGD-20, PGD-AT classifies class 0 60 points (95 % interval ")
    assert the_interval(text) == 60
    assert "standard" not in text


def test_an_attack_is_compared_with_all_together_on_the_same_images():
    data = outcomes({("pgd-at", name): right for name, right in (("clean", 99), ("pgd-20", 80), ("strong", 60))})
    text = findings.weakest_attack(data)
    assert "compared with all 2 attacks together.** It is 80.0 % under PGD-20 alone and 60.0 % under all of them" in text
    assert the_interval(text) == 20
    assert text.endswith("on the 1,000 images that all attacks were evaluated on.")
    # Where the strong attack was evaluated on images that PGD does not break, the two differ on these only.
    few = data.truth.where((data.attack != "strong") | ~data.misclassified.sel(attack="pgd-20"), -1)
    assert "100.0 % under PGD-20 alone and 75.0 %" in findings.weakest_attack(data.assign(truth=few))


def test_the_defence_with_the_best_worst_class_is_compared_with_the_base():
    data = under_strong(pgd_at=at(10, 2, rest=75), dafa=at(85, 2, rest=75), wat=at(8, 2, rest=75))
    text = findings.best_for_the_worst_class(data, "strong")
    assert text.startswith("**The most robust worst class under APGD-CE + APGD-T, that of DAFA, is 65 points (95 % interval ")
    assert "above that of PGD-AT.** It has 75 % (9 classes), compared with 10 % (class 2)." in text
    assert the_interval(text) == 65
    assert "Significantly more robust worst classes: 1 of 2 defences;" in text
    none = findings.best_for_the_worst_class(data.sel(defence=["pgd-at", "wat"]), "strong")
    assert none.startswith("**No clear effect: the most robust worst class under APGD-CE + APGD-T, that of WAT, is -2 points")
    assert "It has 8 %" in none
    assert "Significantly more robust worst classes: 0 of 1 defences;" in none
    higher = under_strong(pgd_at=at(25, 2, rest=75), dafa=at(27, 2, rest=75))
    assert findings.best_for_the_worst_class(higher, "strong").startswith("**No clear effect: ")
    alone = outcomes({("pgd-at", name): at(10, 2, rest=75) for name in ("clean", "strong")})
    assert "Under APGD-CE + APGD-T, PGD-AT classifies class 0" in findings.best_for_the_worst_class(alone, "strong")


def test_intervals_for_all_defences_are_wider():
    names = ("pgd-at", "a", "b", "c", "d")
    data = outcomes({(name,): at(25 + 3 * place, 2, rest=75) for place, name in enumerate(names)}, ("defence",))
    bounds = (findings.worst_class_gains(data.sel(defence=list(some))).sel(defence="d") for some in (names[::4], names))
    narrow, wide = (float(gains.sel(bound="high") - gains.sel(bound="low")) for gains in bounds)
    assert narrow < wide


def test_names_of_classes_are_escaped():
    data = outcomes(ATTACKED).assign_coords(predicted=[*"abcdefghi", "<b>|*x_"])
    escaped = "&#60;b&#62;&#124;&#42;x&#95;"
    assert f"more accurately than class {escaped}.**" in findings.class_gap(data, "pgd-at", "pgd-20")
