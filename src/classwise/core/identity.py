"""Frozen dataclasses with an id: exact radii, checks of the fields on input, canonical JSON and its hash."""

import hashlib
import json
import re
from dataclasses import MISSING, asdict, fields
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

from classwise.core.errors import UserError, check_known

# Raise this when the mathematics of training changes, so that no stale run is mistaken for a new one.
TRAINING_VERSION = 1

Scalar = str | int | float | bool | None
NORMS = ("linf", "l2")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?(/\d+)?", re.ASCII)


def exact_radius(eps: str | float, name: str = "eps") -> Fraction:
    """Return a radius such as "8/255" or "0.031" as an exact fraction; UserError, which calls it `name`, if it is no number."""
    text = str(eps).strip()
    try:
        # Not all that Fraction reads: digits of other scripts, and exponents that take all memory.
        number, _, denominator = (text if _NUMBER.fullmatch(text) else "").partition("/")
        return Fraction(number) / Fraction(denominator or 1)
    except (ValueError, ZeroDivisionError):
        raise UserError(f"{name}={eps!r} is not a number; write a radius like 0.2 or 8/255") from None


def radius_value(eps: str) -> float:
    """Return the float nearest to a radius: the one value that attacks, tables and charts compute with."""
    return float(exact_radius(eps))


def radius_text(eps: str | float, norm: str = "linf", name: str = "eps") -> str:
    """Return a radius as a normalised string that keeps it exactly ("8/255", "0.031").

    Pixels run from 0 to 1. An unknown norm is a UserError, and so are a negative radius and an Linf radius of 1 or more: the unit
    is wrong.
    """
    check_known("norm", [norm], NORMS)
    value = exact_radius(eps, name)
    if value < 0:
        raise UserError(f"{name}={eps} is negative; a radius is 0 or more, like 0.1 or 8/255")
    if norm == "linf" and value >= 1:
        in_levels = value.denominator == 1 and value < 255
        advice = f"did you mean {value}/255?" if in_levels else "write a radius below 1, like 8/255"
        raise UserError(f"{name}={eps} covers the whole range of a pixel, 0 to 1; {advice}")
    text = str(eps).strip()
    if "/" in text:
        return text if re.fullmatch(r"\d+/\d+", text) else str(value)
    return format(Decimal(text).normalize(), "f")


def radius_name(eps: str) -> str:
    """Return a radius as sentences and charts write it, fractions in 255ths: "0.5/255" for "1/510"."""
    return f"{float(255 * exact_radius(eps)):.6g}/255" if "/" in eps else eps


def scaled_radius(eps: str, factor: Fraction) -> str:
    """Return a multiple of a radius in the notation of the radius: half of "8/255" is "4/255", half of "0.2" is "0.1"."""
    product = exact_radius(eps) * factor
    _, slash, denominator = eps.partition("/")
    if not slash:
        return radius_text(str(Decimal(product.numerator) / Decimal(product.denominator)), "l2")
    count = product * int(denominator)
    return f"{count}/{denominator}" if count.denominator == 1 else str(product)


def _tidy(value: Any) -> Any:
    """Return plain values with integral floats as ints: 2.0 and 2 are the same number."""
    if isinstance(value, dict):
        return {name: _tidy(part) for name, part in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Identified:
    """Base of Spec, Evaluation and Audit: canonical JSON without the fields that have their default, and its hash."""

    __slots__ = ("_id",)  # not among the fields, which `vars` returns; cached, since the id is used often
    _id: str

    def __getstate__(self) -> dict[str, Any]:
        return vars(self)

    def canonical(self) -> dict[str, Any]:
        """Return the fields that differ from their default, radii as exact fractions and classes sorted."""
        changed = {}
        for field in fields(self):  # type: ignore[arg-type]
            value = _tidy(getattr(self, field.name))
            if value != (field.default if field.default_factory is MISSING else field.default_factory()):
                changed[field.name] = value
        if "classes" in changed:
            changed["classes"] = sorted(changed["classes"])
        for name in ("eps", "probe_eps"):
            if changed.get(name) is not None:
                changed[name] = str(exact_radius(changed[name]))
        return changed

    @property
    def id(self) -> str:
        """Ten hexadecimal digits: equal for equal content, whatever fields are added later."""
        if not hasattr(self, "_id"):
            text = json.dumps({"recipe": TRAINING_VERSION, **self.canonical()}, sort_keys=True)
            object.__setattr__(self, "_id", hashlib.sha256(text.encode()).hexdigest()[:10])
        return self._id

    def json(self) -> str:
        """Return all fields and the training version (key "recipe") as JSON text that `from_json` reads back."""
        return json.dumps({"recipe": TRAINING_VERSION, **asdict(self)}, sort_keys=True)  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the instance that `json` wrote; an unknown field is a UserError."""
        values, names = json.loads(text), [field.name for field in fields(cls)]  # type: ignore[arg-type]
        values.pop("recipe", None)
        check_known(f"field of {cls.__name__}", values, names)
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})

    def __hash__(self) -> int:
        return hash(self.id)
