"""Options by name: the fields of a frozen dataclass, replaced and checked."""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar, get_type_hints

from classwise.core.errors import UserError, unknown

Part = TypeVar("Part")

# A float may be written as an int; everything else is taken literally.
_ACCEPTED: dict[type, tuple[type, ...]] = {float: (float, int)}


@cache
def type_hints(part: type) -> Mapping[str, Any]:
    """Return the types that the annotations of a class name."""
    return get_type_hints(part)


def matches_type(value: object, hint: Any) -> bool:
    """Return whether a value is of a plain type (int, float, str, bool, None) or of a union of such."""
    if hint is Any:
        return True
    members = getattr(hint, "__args__", None) or (hint,)
    for member in members:
        wanted = type(None) if member is None else member
        if isinstance(value, bool) and wanted is not bool:
            continue
        if isinstance(value, _ACCEPTED.get(wanted, (wanted,))):
            return True
    return False


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
            wanted = getattr(hints[name], "__name__", str(hints[name]))
            raise UserError(f"{what}: {name} must be {wanted}, got {value!r} ({type(value).__name__})")
    return replace(part, **options)  # type: ignore[type-var]


def check_share(name: str, value: float) -> None:
    """Raise UserError where an option is no share of the training."""
    if not 0 <= value <= 1:
        raise UserError(f"{name} is a share of the training, 0 to 1, got {value}")


def check_not_negative(item: object, *names: str) -> None:
    for name in names:
        if not getattr(item, name) >= 0:
            raise UserError(f"{name} must be 0 or more, got {getattr(item, name)}")
