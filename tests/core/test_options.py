"""Bounds of fields: every option of an attack or a defence, and every field of a training or an evaluation."""

from dataclasses import MISSING, dataclass, fields
from typing import Annotated, get_args

import pytest
from annotated_types import Ge, Gt, Le, Lt

from classwise.attacks import ATTACKS
from classwise.core.audit import Audit
from classwise.core.errors import UserError, unknown
from classwise.core.options import BelowOne, Count, NotNegative, OneOf, Positive, Seed, Share, check_bounds, configure
from classwise.core.spec import Evaluation, Spec
from classwise.defences import DEFENCES
from classwise.defences.averaging import AVERAGINGS

PARTS = {type(attack) for attack in ATTACKS.values()} | {type(average) for average in AVERAGINGS.values()}
PARTS |= {type(part) for one in DEFENCES.values() for part in (one.objective, one.calibration, one.averaging)}
CLASSES = sorted([*PARTS, Spec, Evaluation, Audit], key=lambda kind: kind.__name__)
NEEDED = {Spec: {"dataset": "digits", "eps": "0.2"}, Audit: {"network": "n", "sha256": "s", "dataset": "digits", "eps": "0.2"}}
# Numbers that may have any value, or are checked together with others.
FREE = {"backward", "overshoot", "bias", "slack", "least_slack", "near", "reach", "target"}
# Options of another type that name one of a few.
NAMES = {"start", "loss", "success", "form", "goal", "reward", "per", "statistics", "by", "rebuilt"}


def marks(field):
    return getattr(field.type, "__metadata__", ())


def outside(mark):
    """A value that a bound or a table of names excludes."""
    match mark:
        case Ge(limit) | Le(limit):
            return limit - 1 if isinstance(mark, Ge) else limit + 1
        case Gt(limit) | Lt(limit):
            return limit
    return "unknwon"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_value_out_of_bounds_is_named(kind):
    for field in fields(kind):
        numeric = {int, float} & {field.type, *get_args(getattr(field.type, "__origin__", field.type))}
        assert marks(field) or field.name in FREE or not (numeric or field.name in NAMES), field.name
        for mark in marks(field):
            if not isinstance(mark, str):
                given = outside(mark)
                says = "unknown" if given == "unknwon" else f"{field.name} must be .*, got {given}"
                with pytest.raises(UserError, match=says) as caught:
                    kind(**NEEDED.get(kind, {}), **{field.name: given})
                assert field.name in str(caught.value)
        if field.default is not MISSING and marks(field):
            kind(**NEEDED.get(kind, {}), **{field.name: field.default})


@dataclass(frozen=True)
class Knobs:
    count: Count = 1
    rate: Positive = 1.0
    weight: NotNegative = 0.0
    decay: BelowOne = 0.0
    share: Share = 0.0
    seed: Seed = 0
    some: Annotated[int | None, Ge(2), Le(3)] = None
    name: Annotated[str, OneOf({"one": 1, "two": 2})] = "one"

    def __post_init__(self):
        check_bounds(self, "knobs: ")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"count": 0}, "knobs: count must be 1 or more, got 0"),
        ({"rate": 0}, "rate must be above 0, got 0"),
        ({"rate": float("nan")}, "rate must be above 0, got nan"),
        ({"decay": 1.0}, "decay must be 0 or more and below 1, got 1.0"),
        ({"share": 70}, "share must be a share of the training, 0 to 1, got 70"),
        ({"seed": 2**32}, "seed must be below 4294967296"),
        ({"some": 4}, "some must be 3 or less, got 4"),
        ({"name": "tow"}, "unknown name 'tow'"),
        ({"name": 1}, r"the part: name must be str, got 1 \(int\)"),
        ({"some": "2"}, r"some must be int \| None, got '2'"),
        ({"count": True}, "count must be int, got True"),
        ({"cuont": 1}, "unknown option of the part 'cuont'"),
    ],
)
def test_what_is_wrong_and_what_is_right_is_said(options, says):
    with pytest.raises(UserError, match=says):
        configure(Knobs(), options, "the part")


@pytest.mark.parametrize(
    ("got", "valid", "says"),
    [
        ("xyz", ["quick"], "unknown scale 'xyz'; there are: quick"),
        ("Quik", ["quick", "paper"], "unknown scale 'Quik' (did you mean 'quick'?); there are: quick, paper"),
        ("tow", [*map(str, range(20)), "two"], "unknown scale 'tow' (did you mean 'two'?); there are 21, such as two"),
        ("a", [], "unknown scale 'a'; there are none"),
    ],
)
def test_an_unknown_name_has_its_nearest_neighbour_and_a_long_table_is_shortened(got, valid, says):
    assert str(unknown("scale", got, valid)) == says


def test_bounds_let_in_what_is_within():
    assert configure(Knobs(), {"some": 2, "share": 1, "decay": 0.999, "name": "two", "rate": 3}, "it").rate == 3
    with pytest.raises(UserError, match="unknown option of it 'a'; there are none"):
        configure(ATTACKS["clean"], {"a": 1}, "it")
