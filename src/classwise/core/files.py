"""Files written atomically, and digests of files and folders."""

import hashlib
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from classwise.core.paths import find_image_folder


def write(path: Path, content: bytes) -> None:
    """Write a file atomically: to a temporary name in the same folder, then renamed.

    The temporary name is `.<16 hexadecimal digits>.part`: a killed call leaves such a file, which nothing reads.
    """
    part = path.with_name(f".{secrets.token_hex(8)}.part")  # not from `tempfile`, whose files only their owner may read
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        # When the disk is full, the system names no file.
        reason = f"{error.strerror or error} ({len(content) / 1e6:.3g} MB)"
        raise OSError(error.errno, reason, str(path)) from error
    finally:
        with suppress(OSError):
            part.unlink()


def digest(parts: Iterable[str | bytes | Path]) -> str:
    """Return a digest of texts, and of the names and the contents of files."""
    result = hashlib.sha256()
    for part in parts:
        content = part.name.encode() + b"\n" + part.read_bytes() if isinstance(part, Path) else part
        result.update(hashlib.sha256(content.encode() if isinstance(content, str) else content).digest())
    return result.hexdigest()


def folder_digest(dataset: str, *, times: bool = False) -> str:
    """Return a digest of the names and sizes of the files of a `folder:PATH`, with `times` also of their modification times.

    "" for other datasets, which are published and do not change, and for a folder that does not exist.
    """
    kind, _, path = dataset.partition("?")[0].partition(":")
    if kind != "folder" or not find_image_folder(path).is_dir():
        return ""
    root, files = find_image_folder(path), list[Path]()
    for place, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += sorted(Path(place, name) for name in names if not name.startswith("."))
    return files_digest(root, files, times=times)[:16]


def files_digest(root: Path, files: Iterable[Path], *, times: bool = True) -> str:
    """Return a digest of the names and sizes of files below `root`, with `times` also of their modification times."""
    result = hashlib.sha256()
    for file in files:
        stat = file.stat() if file.exists() else file.lstat()  # a link that leads nowhere
        result.update(f"{file.relative_to(root)} {stat.st_size} {stat.st_mtime_ns if times else ''}\n".encode())
    return result.hexdigest()
