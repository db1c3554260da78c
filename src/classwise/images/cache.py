"""Decoded images, cached next to their files as one uint8 array."""

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

# An array of more bytes than this is mapped from the disk rather than read, and only its length is checked.
LARGE = 1 << 30
FOLDER = ".classwise"

# An array, the positions of unreadable images in it with the reason, and metadata.
Cached = tuple[np.ndarray, dict[int, str], Mapping[str, Any]]


@dataclass
class ArraySource:
    """How an array of decoded images is made: its shape, its rows part by part, and plain values as `metadata`.

    `bad` collects the positions of unreadable images, each with the reason, while `parts` yields.
    """

    shape: tuple[int, ...]
    rows: Callable[["ArraySource"], Iterator[np.ndarray]]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    bad: dict[int, str] = field(default_factory=dict)

    def parts(self) -> Iterator[np.ndarray]:
        """Yield all rows as uint8 arrays."""
        self.bad = {}
        yield from self.rows(self)


def digest(root: Path, files: Iterable[Path]) -> str:
    """Return a digest of the names, sizes and times of files below `root`."""
    result = hashlib.sha256()
    for file in files:
        stat = file.stat()
        result.update(f"{file.relative_to(root)} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return result.hexdigest()[:12]


def cached(home: Path, name: str, key: str, make: Callable[[], ArraySource]) -> Cached:
    """Return a uint8 array of decoded images (n, channels, height, width), the unreadable ones with the reason, and metadata.

    The array is `home`/.classwise/`name`.`key`.npy, made if missing. Arrays with another key are stale and are removed; a
    truncated array or one with another checksum is made again. Where nothing can be written the array is made in memory. Arrays
    of more than 1 GiB are mapped from the disk.
    """
    path = home / FOLDER / f"{name}.{key}.npy"
    result = _read(path)
    if result is not None:
        return result
    try:
        path.parent.mkdir(exist_ok=True)
        with FileLock(path.parent / f"{name}.lock"):
            result = _read(path)
            if result is None:
                for old in (*path.parent.glob(f"{name}.*.npy"), *path.parent.glob(f"{name}.*.json")):
                    old.unlink()
                _write(path, make())
                result = _read(path)
    except OSError:  # a folder that cannot be written, a disk that is full
        result = None
    return result if result is not None else _in_memory(make())


def _metadata_file(path: Path) -> Path:
    """Return the file with an array's checksum, its unreadable images and its metadata."""
    return path.with_suffix(".json")


def _read(path: Path) -> Cached | None:
    try:
        metadata = json.loads(_metadata_file(path).read_text())
        large = path.stat().st_size > LARGE
        # Copied on write: torch wants arrays that it may write to.
        pixels = np.load(path, mmap_mode="c" if large else None, allow_pickle=False)
        if pixels.dtype != np.uint8 or (not large and zlib.crc32(pixels) != metadata["crc32"]):
            return None
        return pixels, {int(place): str(reason) for place, reason in metadata["bad"].items()}, metadata.get("told", {})
    except (OSError, ValueError, EOFError, KeyError, TypeError, AttributeError):
        return None


def _write(path: Path, source: ArraySource) -> None:
    """Write an array, then its metadata: where the second file exists the first is complete."""
    partial, crc = path.with_suffix(".partial"), 0
    try:
        with partial.open("wb") as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": source.shape}
            np.lib.format.write_array_header_1_0(file, header)
            for rows in source.parts():
                content = np.ascontiguousarray(rows).tobytes()
                crc = zlib.crc32(content, crc)
                file.write(content)
        _metadata_file(path).unlink(missing_ok=True)
        partial.replace(path)
        partial.write_text(json.dumps({"crc32": crc, "bad": source.bad, "told": source.metadata}))
        partial.replace(_metadata_file(path))
    finally:
        partial.unlink(missing_ok=True)


def _in_memory(source: ArraySource) -> Cached:
    pixels, done = np.empty(source.shape, np.uint8), 0
    for rows in source.parts():
        pixels[done : done + len(rows)] = rows
        done += len(rows)
    return pixels, source.bad, source.metadata
