"""Errors of the user in one sentence: what was given, what was expected, what to do."""

from collections.abc import Collection
from difflib import get_close_matches


class UserError(ValueError):
    """An error that the user can correct; the command line prints it without a traceback and exits with 2."""


class NotRecorded(UserError):
    """A result of a scale that is only read has not been recorded."""


def unknown(kind: str, got: object, valid: Collection[str]) -> UserError:
    """Return the error for a name that is not in a table, with the nearest valid name.

    `kind` is what the name is of ("dataset"), `got` the name as given, `valid` the names of the table.
    """
    names = [str(name) for name in valid]
    near = get_close_matches(str(got), names, n=1, cutoff=0.5)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return UserError(f"unknown {kind} {got!r}{hint}; there are: {', '.join(names)}")
