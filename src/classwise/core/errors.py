"""Slips of a user, said in one sentence: what was got, what was expected, what to do."""

from collections.abc import Collection
from difflib import get_close_matches


class UserError(ValueError):
    """A slip that its author can mend; the command line prints it without a traceback and exits with 2."""


def unknown(kind: str, got: object, valid: Collection[str]) -> UserError:
    """Return the error for a name that is not in a table, with the nearest one that is.

    `kind` says what was named ("dataset"), `got` is the name as given, `valid` the names there are.
    """
    names = [str(name) for name in valid]
    near = get_close_matches(str(got), names, n=1, cutoff=0.5)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return UserError(f"unknown {kind} {got!r}{hint}; there are: {', '.join(names)}")
