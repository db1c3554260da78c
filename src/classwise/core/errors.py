"""Errors of the user in one sentence: what was given, what was expected, what to do."""

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches

# A table with more names than this is not listed if there are near ones, of which so many are.
_LISTED, _NEAR = 20, 4


class UserError(ValueError):
    """An error that the user can correct; the command line prints it without a traceback and exits with 2."""


class NotRecorded(UserError):
    """A result is missing; lacking: what outcomes lack in words ("under cw"), with which a verdict names the dataset."""

    def __init__(self, message: str, lacking: str = "") -> None:
        super().__init__(message)
        self.lacking = lacking


class NotAtScale(NotRecorded):
    """What a scale does not have, although all its runs may be recorded: other runs, weights, a value of a measure on them."""


def unknown(kind: str, got: object, valid: Collection[str]) -> UserError:
    """Return the error for a name that is not in a table, with the nearest valid name.

    `kind` is what the name is of ("dataset"), `got` the name as given, `valid` the names of the table, of which a long one is
    shortened to those near the given name.
    """
    names = [str(name) for name in valid]
    folded = {name.casefold(): name for name in names}
    near = [folded[name] for name in get_close_matches(str(got).casefold(), folded, n=_NEAR, cutoff=0.5)]
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    listed = f"there are: {', '.join(names)}" if names else "there are none"
    if near and len(names) > _LISTED:
        listed = f"there are {len(names)}, such as {', '.join(near)}"
    return UserError(f"unknown {kind} {got!r}{hint}; {listed}")


def check_known(kind: str, names: Iterable[object], valid: Collection[str]) -> None:
    """Raise the error of `unknown` for the first of some names that is not in a table."""
    for name in names:
        if name not in valid:
            raise unknown(kind, name, valid)


def check_once(name: str, values: Sequence[object]) -> None:
    """Raise a UserError if a list, which the error calls `name`, has a member twice."""
    twice = next((value for place, value in enumerate(values) if value in values[:place]), None)
    if twice is not None:
        raise UserError(f"{name}={list(values)} names {twice!r} twice; write each once")
