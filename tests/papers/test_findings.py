"""Findings: sentences whose numbers are those of the outcomes, with intervals that hold them."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from classwise.papers import findings

PER_CLASS = 40
SETTINGS = ("defence", "attack")


def outcomes(correct: Mapping[tuple[str, ...], Sequence[int]], dims: Sequence[str] = SETTINGS, off: int = 1) -> xr.Dataset:
    """Return outcomes of one seed in which the first so many images of each class are predicted correctly.

    correct: by the members of `dims`, a number for each class. The others are predicted as the class `off` places further; with
    off 0, as the other class of a pair of neighbours.
    """
    size = len(next(iter(correct.values())))
    truth = np.repeat(np.arange(size), PER_CLASS)
    wrong = truth ^ 1 if off == 0 else (truth + off) % size
    place = np.tile(np.arange(PER_CLASS), size)
    levels = [list(dict.fromkeys(key[number] for key in correct)) for number in range(len(dims))]
    shape = [len(level) for level in levels]
    answer = np.full((*shape, 1, len(truth)), -1)
    for key, numbers in correct.items():
        at = tuple(level.index(name) for level, name in zip(levels, key, strict=True))
        answer[at] = np.where(place < np.asarray(numbers)[truth], truth, wrong)
    true = np.where(answer < 0, -1, truth)
    coords = dict(zip(dims, levels, strict=True)) | {
        "seed": [0],
        "image": np.arange(len(truth)),
        "predicted": list("abcdefghij"[:size]),
    }
    data = {"truth": true, "answer": answer, "flipped": (true != answer) & (true >= 0)}
    return xr.Dataset({name: ((*dims, "seed", "image"), value) for name, value in data.items()}, coords)


def intervals_of(sentence: str) -> list[tuple[float, ...]]:
    """Return value, low and high of each interval in a sentence."""
    number = r"(-?\d+(?:\.\d+)?)"
    parts = re.findall(
        rf"{number}[ a-z%]* \(95 % interval(?:, corrected for \d+ (?:defences|networks),)? {number} to {number}\)", sentence
    )
    return [tuple(map(float, part)) for part in parts]


def the_interval(sentence: str) -> float:
    """Return the value of the only interval of a sentence, which lies inside it."""
    ((value, low, high),) = intervals_of(sentence)
    assert low <= value <= high
    assert low < high
    return value


def test_the_gap_of_a_defence_names_both_classes():
    given = {("standard", "clean"): [40, 38, 36], ("standard", "pgd-20"): [0, 0, 0]}
    given |= {("pgd-at", "clean"): [36, 36, 32], ("pgd-at", "pgd-20"): [32, 24, 8]}
    data = outcomes(given)
    text = findings.class_gap(data, "pgd-at", "pgd-20")
    assert text.startswith("**Under PGD-20, PGD-AT classifies class a 60 points (95 % interval ")
    assert [value for value, _, _ in intervals_of(text)] == [60]
    assert "standard" not in text


def test_an_attack_is_compared_with_all_together_on_the_same_images():
    given = {("pgd-at", "clean"): [40] * 3, ("pgd-at", "pgd-20"): [32] * 3, ("pgd-at", "strong"): [24] * 3}
    data = outcomes(given)
    text = findings.weakest_attack(data)
    assert "compared with all 2 attacks together.** It is 80.0 % under PGD-20 alone and 60.0 % under all of them" in text
    assert the_interval(text) == 20
    assert text.endswith("on the 120 images that all attacks were evaluated on.")
    # Where the strong attack was evaluated on images that PGD does not break, the two differ on these only.
    few = data.truth.copy()
    few.loc[{"attack": "strong"}] = few.sel(attack="strong").where(data.image % PER_CLASS < 32, -1)
    assert "100.0 % under PGD-20 alone and 75.0 %" in findings.weakest_attack(data.assign(truth=few))


def test_the_defence_with_the_best_worst_class_is_compared_with_the_base():
    given = {("pgd-at", "strong"): [30, 30, 4], ("dafa", "strong"): [30, 30, 34], ("wat", "strong"): [30, 30, 3]}
    data = outcomes(given)
    text = findings.best_for_the_worst_class(data, "strong")
    assert text.startswith("**The most robust worst class under APGD, that of DAFA, is 65 points (95 % interval ")
    assert "above that of PGD-AT.** It has 75 % (2 classes), compared with 10 % (class c)." in text
    assert the_interval(text) == 65
    assert "Significantly more robust worst classes: 1 of 2 defences;" in text
    none = findings.best_for_the_worst_class(data.sel(defence=["pgd-at", "wat"]), "strong")
    assert none.startswith("**No clear effect: the most robust worst class under APGD, that of WAT, is -2 points")
    assert "It has 8 %" in none
    assert "Significantly more robust worst classes: 0 of 1 defences;" in none
    higher = outcomes({("pgd-at", "strong"): [30, 30, 10], ("dafa", "strong"): [30, 30, 11]})
    assert findings.best_for_the_worst_class(higher, "strong").startswith("**No clear effect: ")
    alone = outcomes({("pgd-at", name): [30, 30, 4] for name in ("clean", "strong")})
    assert "Under APGD, PGD-AT classifies class a" in findings.best_for_the_worst_class(alone, "strong")


def test_intervals_for_all_defences_are_wider():
    data = outcomes({(name,): [30, 20, 10 + number] for number, name in enumerate(("pgd-at", "a", "b", "c", "d"))}, ["defence"])
    two, all_of_them = (
        findings.worst_class_gains(data.sel(defence=names)) for names in (["pgd-at", "d"], list(data.defence.values))
    )
    wide = [float(gains.sel(defence="d", bound="high") - gains.sel(defence="d", bound="low")) for gains in (two, all_of_them)]
    assert wide[0] < wide[1]


def test_names_of_classes_are_escaped():
    data = outcomes({("pgd-at", "clean"): [40, 38, 36], ("pgd-at", "pgd-20"): [32, 24, 8]})
    data = data.assign_coords(predicted=["a", "b", "<b>|*x_"])
    escaped = "&#60;b&#62;&#124;&#42;x&#95;"
    assert f"more accurately than class {escaped}.**" in findings.class_gap(data, "pgd-at", "pgd-20")
