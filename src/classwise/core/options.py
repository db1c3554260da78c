"""Options by name: the fields of a frozen dataclass, replaced and checked."""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from classwise.core.errors import UserError, unknown

Part = TypeVar("Part")

# An int is accepted as a float; otherwise the type must match exactly.
_ACCEPTED: dict[type, tuple[type, ...]] = {float: (float, int)}


@cache
def type_hints(part: type) -> Mapping[str, Any]:
    """Return the resolved type hints of a class by field name."""
    return get_type_hints(part)


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
    hints = type_hints(type(part))  # type: ignore[arg-type]
    names = [field.name for field in fields(part)]  # type: ignore[arg-type]
    for name, value in options.items():
        if name not in names:
            if not names:
                raise UserError(f"{what} takes no options, got {name}={value!r}")
            raise unknown(f"option of {what}", name, names)
        if not matches_type(value, hints[name]):
            raise UserError(f"{what}: {name} must be {type_name(hints[name])}, got {value!r} ({type(value).__name__})")
    return replace(part, **options)  # type: ignore[type-var]


def check_share(name: str, value: float) -> None:
    """Raise UserError unless the option is a share of the training, 0 to 1."""
    if not 0 <= value <= 1:
        raise UserError(f"{name} is a share of the training, 0 to 1, got {value}")


def check_not_negative(item: object, *names: str) -> None:
    """Raise UserError if one of the named fields is below 0 or NaN."""
    for name in names:
        if not getattr(item, name) >= 0:
            raise UserError(f"{name} must be 0 or more, got {getattr(item, name)}")
