"""Options by name: the fields of a frozen dataclass, replaced and checked."""

import operator
from collections.abc import Collection, Iterator, Mapping
from dataclasses import Field, fields, replace
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

from classwise.core.errors import UserError, check_known

Part = TypeVar("Part")


class OneOf:
    """The valid names of a field, a mark of its type."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names

    def __repr__(self) -> str:
        return f"one of {', '.join(self.names)}"


# Types of fields with bounds, which `check_bounds` reads.
Count = Annotated[int, Ge(1)]
Positive = Annotated[float, Gt(0)]
NotNegative = Annotated[float, Ge(0)]
BelowOne = Annotated[float, Ge(0), Lt(1), "0 or more and below 1"]
Share = Annotated[float, Ge(0), Le(1), "a share of the training, 0 to 1"]
Seed = Annotated[int, Ge(0), Lt(2**32)]  # some libraries take 32 bits

_BOUNDS = {"ge": "{} or more", "gt": "above {}", "le": "{} or less", "lt": "below {}"}

# An int is accepted as a float; otherwise the type must match exactly.
_ACCEPTED: dict[type, tuple[type, ...]] = {float: (float, int)}
_type_hints = cache(get_type_hints)  # of a class, by the names of its fields


def matches_type(value: object, hint: Any) -> bool:
    """Return whether a value matches a type hint.

    The hint is Any, a plain type (int, float, str, bool, None), a union, a `Mapping[key, value]`, a `tuple[item, ...]` or a
    `list[item]` of such.
    """
    if type(value) is hint:  # most fields
        return True
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin is Mapping:
        key, item = args
        return isinstance(value, Mapping) and all(matches_type(k, key) and matches_type(v, item) for k, v in value.items())
    if origin in (tuple, list):
        return isinstance(value, origin) and all(matches_type(item, args[0]) for item in value)
    if args:
        return any(matches_type(value, member) for member in args)
    plain = type(None) if hint is None else hint
    return isinstance(value, _ACCEPTED.get(plain, (plain,))) and (plain is bool or not isinstance(value, bool))


def type_name(hint: Any) -> str:
    """Return a type hint in the words of an error message: "a tuple of str", "int | None"."""
    args = get_args(hint)
    if get_origin(hint) is Mapping:
        return f"a mapping of {type_name(args[0])} to {type_name(args[1])}"
    if get_origin(hint) is tuple:
        return f"a tuple of {type_name(args[0])}"
    return str(hint) if args else getattr(hint, "__name__", str(hint))


def configure(part: Part, options: Mapping[str, object], what: str) -> Part:
    """Return a copy of the dataclass instance `part` with some fields replaced.

    `what` names the part in the errors: an unknown name or a value of another type is a UserError.
    """
    names = [field.name for field in fields(part)]  # type: ignore[arg-type]
    for name, value in options.items():
        check_known(f"option of {what}", [name], names)
        _check_type(what, name, value, _type_hints(type(part))[name])  # type: ignore[arg-type]
    return replace(part, **options)  # type: ignore[type-var]


def _check_type(what: str, name: str, value: object, hint: Any) -> None:
    if not matches_type(value, hint):
        raise UserError(f"{what}: {name} must be {type_name(hint)}, got {value!r} ({type(value).__name__})")


def check_fields(item: Any, what: str) -> None:
    """Raise UserError if a field of a dataclass instance is of another type than its hint or out of bounds; `what` names it."""
    for field, value in _given(item):
        _check_type(what, field.name, value, _type_hints(type(item))[field.name])  # type: ignore[arg-type]
    check_bounds(item, f"{what}: ")


def _given(item: Any) -> Iterator[tuple[Field[Any], Any]]:
    """Yield the fields of a dataclass instance with their values, except those left at their default, most of a run."""
    named = ((field, getattr(item, field.name)) for field in fields(item))
    return ((field, value) for field, value in named if value is not field.default)


def check_bounds(item: Any, prefix: str = "") -> None:
    """Raise UserError if a field of a dataclass instance is out of the bounds of its type; None is within any.

    Such a type is Annotated: with bounds (Ge, Gt, Le, Lt), then also with words for all of them, or with OneOf.
    """
    for field, value in _given(item):
        exceeded, words = "", ""
        for mark in getattr(field.type, "__metadata__", ()):
            kind = type(mark).__name__.lower()
            if isinstance(mark, OneOf):
                check_known(field.name, [value], mark.names)
            words = mark if isinstance(mark, str) else words
            if kind in _BOUNDS and value is not None and not getattr(operator, kind)(value, getattr(mark, kind)):
                exceeded = _BOUNDS[kind].format(getattr(mark, kind))
        if exceeded:
            raise UserError(f"{prefix}{field.name} must be {words or exceeded}, got {value}")
