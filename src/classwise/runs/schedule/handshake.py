"""Checks of remote workers: they must run the same code and see the same data folder."""

import hashlib
import secrets
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import classwise
from classwise.core import files
from classwise.core.paths import data_folder
from classwise.runs import store


@dataclass(frozen=True)
class Handshake:
    """What a worker must share with the process that calls it.

    version, commit: of the code; code: a digest of its files, which local changes alter too; token: a text in the data folder.
    """

    version: str
    commit: str
    code: str
    token: str


def handshake() -> Handshake:
    """Return the handshake of this process; the token is written to data/runs/.token if there is none yet."""
    folder = data_folder() / "runs"
    path = folder / ".token"
    with store.lock(folder):
        if not path.exists():
            files.write(path, secrets.token_hex(8).encode())
    return Handshake(classwise.__version__, store.commit(), _digest(), path.read_text())


def mismatch(expected: Handshake) -> str | None:
    """Return why this process may not work for another, and what to do about it; None if it may."""
    if (expected.version, expected.code) != (classwise.__version__, _digest()):
        theirs, ours = _code(classwise.__version__, store.commit()), _code(expected.version, expected.commit)
        return f"runs {theirs}, this is {ours}: bring both to the same commit, without local changes, and restart the workers"
    path = data_folder() / "runs" / ".token"
    try:
        same = path.read_text() == expected.token
    except OSError:
        same = False
    if not same:
        return f"sees another data folder ({data_folder()}): start it with CLASSWISE_DATA set to the folder that all share"
    return None


@cache
def _digest() -> str:
    digest, package = hashlib.sha256(), Path(classwise.__file__).parent
    for file in sorted(package.rglob("*.py")):
        digest.update(f"{file.relative_to(package)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _code(version: str, commit: str) -> str:
    return f"classwise {version}" + (f" at commit {commit}" if commit else "")
