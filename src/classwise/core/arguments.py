"""Checks of the command line's arguments that need nothing else: numbers of workers, addresses, paths."""

import os
import re
from pathlib import Path

from classwise.core.errors import UserError

# More processes than this on one machine, or than four for each core, are invalid.
MOST_WORKERS = 64
_ADDRESS = re.compile(r"(?:[a-z]+://)?(?:\[[0-9a-fA-F:]+\]|[^\s:/\[\]]+):(\d{1,5})", re.ASCII)


def workers(count: int | None) -> int | None:
    """Return a number of workers; a UserError if it is not above 0, or far above the number of CPU cores."""
    most = max(MOST_WORKERS, 4 * (os.cpu_count() or 1))
    if count is not None and not 1 <= count <= most:
        raise UserError(f"--workers {count} is not a number from 1 to {most}; leave it out for one per GPU or CPU core")
    return count


def scheduler(address: str | None) -> str | None:
    """Return the address of a scheduler; a UserError unless it has the form host:port. Whether one answers is known later."""
    form = _ADDRESS.fullmatch(address or "")
    if address is not None and (form is None or not 0 < int(form[1]) < 65536):
        advice = f"did you mean tcp://{address}:8786?" if re.fullmatch(r"[\w.-]+", address) else "write tcp://host:8786"
        raise UserError(f"--scheduler {address!r} is not an address with a port from 1 to 65535; {advice}")
    return address


def names(option: str, value: str | None) -> list[str]:
    """Return the names that an option lists, separated by commas; a UserError if it is given without any."""
    listed = [name.strip() for name in (value or "").split(",") if name.strip()]
    if value is not None and not listed:
        raise UserError(f"{option} is empty; name some, such as cat,dog, or leave it out")
    return listed


def path(option: str, value: str) -> Path:
    """Return the path that an option names; a UserError if it is empty."""
    if not value.strip():
        raise UserError(f"{option} is empty; name a file or a folder, or leave it out")
    return Path(value).expanduser()
