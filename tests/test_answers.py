"""The gate of the claims: what each of them says and tests, and its verdicts on answers made by hand, stay as they are.

The answers are the EXTREMES and CASES of the tests of the papers: for each claim, some on which it holds and others on which it
fails. REFUSED are answers on which a claim cannot be measured, each with what the error says. golden/answers.json holds a line
for each claim, by section and name. `python -m tests.test_answers` writes it again: do that when a claim or a statistic changes
on purpose, and say why in the commit.
"""

import importlib.util
import json
import math
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

TESTS = Path(__file__).parent
sys.path += [str(TESTS)] * (str(TESTS) not in sys.path)

import claim_answers  # noqa: E402

from classwise.core.errors import NotRecorded  # noqa: E402
from classwise.papers import registry  # noqa: E402
from classwise.papers.claims import Claim, Verdict  # noqa: E402

GOLDEN = TESTS / "golden" / "answers.json"
KNOWN = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
NAMES = ("EXTREMES", "CASES")
FIELDS = ("where", "statement", "low", "high", "unit", "family", "absolute", "data", "dims", "datasets", "theirs")
NUMBERS = ("verdict", "effect", "low", "high", "p")
# Of the correlations those over the images of one class, which no order of classes could make.
OVER_IMAGES = ("white-is-sure",)


def loaded(path: Path) -> ModuleType:
    """Return a module of tests, that of pytest where it has imported it."""
    known = next((one for one in list(sys.modules.values()) if getattr(one, "__file__", None) == str(path)), None)
    if known is None:
        spec = importlib.util.spec_from_file_location(f"answers_{path.parent.name}_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        known = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(known)
    return known


@cache
def modules() -> list[ModuleType]:
    """Return the modules of tests that hold answers."""
    paths = sorted((TESTS / "papers").glob("*/test_*.py"))
    return [loaded(path) for path in paths if any(f"\n{name} = " in path.read_text() for name in NAMES)]


@cache
def made() -> dict[str, tuple[ModuleType, list[tuple[str, Any]]]]:
    """Return by the name of a claim the module that judges its answers, and these with the verdict that they are made for."""
    result = {}
    for module in modules():
        several = {claim: ([one], [other]) for claim, (one, other) in getattr(module, "CASES", {}).items()}
        for claim, both in {**several, **getattr(module, "EXTREMES", {})}.items():
            pairs = zip(("holds", "fails"), both, strict=True)
            result[claim] = module, [(verdict, data) for verdict, some in pairs for data in some]
    return result


def judged(module: ModuleType, name: str, data: Any) -> Verdict:
    """Return the verdict of a claim on answers, judged as their module says."""
    return getattr(module, "judged", claim_answers.judged)(name, data)


def verdicts_on(claim: Claim) -> list[Verdict]:
    """Return the verdicts of a claim on its answers."""
    module, some = made()[claim.name]
    return [judged(module, claim.name, data) for _, data in some]


def key(claim: Claim) -> str:
    return f"{claim.section} {claim.name}"


def plain(value: Any) -> Any:
    """Return a value as JSON holds it, numbers with nine digits, NaN as None."""
    if isinstance(value, float):
        return None if math.isnan(value) else value if math.isinf(value) else float(f"{value:.9g}")
    return list(value) if isinstance(value, tuple) else value


def described(claim: Claim) -> dict[str, Any]:
    """Return what a claim says and tests."""
    fields = {name: plain(getattr(claim, name)) for name in FIELDS}
    return fields | {"defences": sorted(claim.defences), "attacks": sorted(claim.attacks)}


def row(verdict: Verdict) -> list[Any]:
    return [plain(getattr(verdict, name)) for name in NUMBERS]


def differences(known: dict[str, Any], now: dict[str, Any], about: str) -> list[str]:
    """Return a line about each field that differs, numbers by more than 1e-6, relative and absolute."""

    def same(one: Any, other: Any) -> bool:
        if isinstance(one, float | int) and isinstance(other, float | int):
            return bool(np.isclose(one, other, rtol=1e-6, atol=1e-6))
        return bool(one == other)

    return [
        f"{about}: {name} was {known.get(name)!r}, is {now.get(name)!r}"
        for name in dict.fromkeys((*known, *now))
        if not same(known.get(name), now.get(name))
    ]


def test_the_claims_say_and_test_the_same():
    now = {key(claim): described(claim) for claim in registry.CLAIMS}
    assert list(now) == list(KNOWN), "claims were added, lost, renamed or moved"
    lines = [line for name, one in now.items() for line in differences(one, {f: KNOWN[name][f] for f in one}, name)]
    assert not lines, "\n".join(lines)


def test_each_claim_on_runs_has_answers_on_which_it_holds_and_answers_on_which_it_fails():
    kinds = {name: {verdict for verdict, _ in some} for name, (_, some) in made().items()}
    assert kinds == {one.name: {"holds", "fails"} for one in registry.CLAIMS if one.section not in registry.THEOREMS}


@pytest.mark.parametrize("claim", [one for one in registry.CLAIMS if one.section not in registry.THEOREMS], ids=key)
def test_each_claim_holds_or_fails_as_it_must_by_the_same_numbers(claim):
    verdicts = verdicts_on(claim)
    assert [one.verdict for one in verdicts] == [wanted for wanted, _ in made()[claim.name][1]], verdicts
    assert all(one.low <= one.high for one in verdicts), verdicts
    rows, known = list(map(row, verdicts)), KNOWN[key(claim)]["answers"]
    assert len(rows) == len(known), f"{key(claim)} has {len(rows)} answers, had {len(known)}"
    lines = []
    for number, (now, then) in enumerate(zip(rows, known, strict=True)):
        fields = [dict(zip(NUMBERS, values, strict=True)) for values in (then, now)]
        lines += differences(*fields, f"{key(claim)}, answer {number}")
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("claim", [one for one in registry.CLAIMS if one.unit == "correlation"], ids=key)
def test_the_row_of_a_correlation_over_classes_has_the_p_of_permuted_classes(claim):
    correlates_classes = claim.name not in OVER_IMAGES
    for one in verdicts_on(claim):
        assert ("p (permuted classes) " in one.p_values) == correlates_classes, one
        assert one.sample.endswith(", for these classes") == correlates_classes, one


@pytest.mark.parametrize(
    ("module", "name", "data", "words"),
    [pytest.param(module, *one, id=f"{one[0]}: {one[2]}") for module in modules() for one in getattr(module, "REFUSED", ())],
)
def test_what_cannot_be_measured_on_answers_is_an_error_that_says_why(module, name, data, words):
    with pytest.raises(NotRecorded, match=words):
        judged(module, name, data)


@pytest.mark.parametrize("section", registry.THEOREMS)
def test_theorems_hold_by_the_same_numbers(section):
    for verdict in registry.THEOREMS[section]():
        assert row(verdict) == KNOWN[key(verdict.claim)]["answers"][0]


def written() -> str:
    """Return the content of answers.json with what the claims say and test now, a line for each."""
    theorems = {one.claim.name: [row(one)] for judged in registry.THEOREMS.values() for one in judged()}
    lines = []
    for claim in registry.CLAIMS:
        rows = theorems.get(claim.name) or list(map(row, verdicts_on(claim)))
        lines.append(f"{json.dumps(key(claim))}: {json.dumps(described(claim) | {'answers': rows}, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    GOLDEN.write_text(written())
