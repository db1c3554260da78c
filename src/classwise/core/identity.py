"""A Spec decides a training, an Evaluation decides a question put to it: plain values, checked at the door, with an id.

Names of datasets, models, attacks and defences are checked by `run`, which knows the tables.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

from classwise.core.errors import UserError, unknown
from classwise.core.options import matches_type, type_hints

# Raised when the mathematics of training changes, so that no stale run is taken for a new one.
TRAINING_VERSION = 1

Scalar = str | int | float | bool | None
NORMS = ("linf", "l2")


def radius(eps: str | int | float, norm: str = "linf", name: str = "eps") -> str:
    """Return a radius as a tidy string that keeps it exactly ("8/255", "0.031"), after checking it.

    Pixels run from 0 to 1; an Linf radius of 1 or more is taken for a slip of the unit.
    """
    try:
        value = Fraction(str(eps).strip())
    except (ValueError, ZeroDivisionError):
        raise UserError(f"{name}={eps!r} is not a number; write a radius like 0.2 or 8/255") from None
    if value < 0:
        raise UserError(f"{name}={eps} is negative; a radius is 0 or more, like 0.1 or 8/255")
    if norm == "linf" and value >= 1:
        raise UserError(f"{name}={eps} covers the whole range of a pixel, 0 to 1; did you mean {eps}/255?")
    text = str(eps).strip()
    return text if "/" in text else format(Decimal(text).normalize(), "f")


def check_types(item: Any, what: str) -> None:
    """Raise UserError where a field of a dataclass is not of the type its annotation says."""
    hints = type_hints(type(item))  # type: ignore[arg-type]
    for each in fields(item):
        value, hint = getattr(item, each.name), hints[each.name]
        if each.name in ("options", "attack_options"):
            good = isinstance(value, Mapping) and all(matches_type(part, Scalar) for part in value.values())
            wanted = "a mapping of names to plain values"
        elif each.name in ("classes", "milestones"):
            part, wanted = (str, "names of classes") if each.name == "classes" else (int, "numbers of epochs")
            good = isinstance(value, tuple) and all(type(one) is part for one in value)
        else:
            good, wanted = matches_type(value, hint), getattr(hint, "__name__", str(hint))
        if not good:
            raise UserError(f"{what}: {each.name} must be {wanted}, got {value!r} ({type(value).__name__})")


def at_least(item: Any, what: str, **bounds: float) -> None:
    """Raise UserError where a field is below its bound."""
    for name, low in bounds.items():
        value = getattr(item, name)
        if value is not None and not value >= low:
            raise UserError(f"{what}: {name} must be {low} or more, got {value}")


def _fixed(each: Any) -> Any:
    """Return the default of a dataclass field; MISSING where it must be given."""
    return each.default_factory() if each.default_factory is not MISSING else each.default


def _tidy(value: Any) -> Any:
    """Return plain values with whole floats as ints: 2.0 and 2 are the same number."""
    if isinstance(value, dict):
        return {name: _tidy(part) for name, part in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def check_field_names(cls: type, values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return values for the fields of a dataclass as JSON gives them back, checked for unknown names."""
    names = [each.name for each in fields(cls)]
    for name in values:
        if name not in names:
            raise unknown(f"field of {what}", name, names)
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


class Identified:
    """What Spec, Evaluation and Audit share: canonical JSON without the fields that stand at their default, and its hash."""

    __slots__ = ("_id",)  # beside the fields, which `vars` returns: an id is asked for again and again
    _id: str

    def __getstate__(self) -> dict[str, Any]:
        return vars(self)

    def canonical(self) -> dict[str, Any]:
        """Return the fields that differ from their default, radii as exact fractions."""
        values = {each.name: (_tidy(getattr(self, each.name)), _fixed(each)) for each in fields(self)}  # type: ignore[arg-type]
        changed = {name: value for name, (value, fixed) in values.items() if value != fixed}
        if "classes" in changed:
            changed["classes"] = sorted(changed["classes"])
        if changed.get("eps") is not None:
            changed["eps"] = str(Fraction(changed["eps"]))
        return changed

    @property
    def id(self) -> str:
        """Ten hexadecimal digits: equal for equal content, whatever fields are added later."""
        if not hasattr(self, "_id"):
            text = json.dumps({"recipe": TRAINING_VERSION, **self.canonical()}, sort_keys=True)
            object.__setattr__(self, "_id", hashlib.sha256(text.encode()).hexdigest()[:10])
        return self._id

    def json(self) -> str:
        """Return all fields and the recipe number as JSON text that `from_json` reads back."""
        return json.dumps({"recipe": TRAINING_VERSION, **asdict(self)}, sort_keys=True)  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return what `json` wrote."""
        values = json.loads(text)
        values.pop("recipe", None)
        return cls(**check_field_names(cls, values, cls.__name__))

    def __hash__(self) -> int:
        return hash(self.id)
