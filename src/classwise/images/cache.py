"""Decoded images, kept once beside their files as one uint8 array."""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

# An array of more bytes than this is mapped from the disk rather than read, and only its length is checked.
LARGE = 1 << 30
FOLDER = ".classwise"


# An array, the places of images in it that could not be read with what was wrong, and what else is told of it.
Kept = tuple[np.ndarray, dict[int, str], Mapping[str, Any]]


class ArraySource:
    """How an array of decoded images is made: its shape, its rows part by part, and plain values that are `told` beside it.

    `bad` collects the places of images that could not be read, each with what was wrong, while `parts` yields.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        parts: Callable[["ArraySource"], Iterator[np.ndarray]],
        told: Mapping[str, Any] | None = None,
    ) -> None:
        self.shape, self.told = shape, dict(told or {})
        self.bad: dict[int, str] = {}
        self._parts = parts

    def parts(self) -> Iterator[np.ndarray]:
        """Yield uint8 rows until all are there."""
        self.bad = {}
        yield from self._parts(self)


def cached(home: Path, name: str, key: str, make: Callable[[], ArraySource]) -> Kept:
    """Return a uint8 array of decoded images (n, channels, height, width), which could not be read and why, and what is told.

    It lies in `home`/.classwise as `name`.`key`.npy, and is made where it does not. One of another key is stale and is removed;
    one that is cut short or has another checksum is made again. Where nothing can be written it is made in memory. Arrays of more
    than 1 GiB are mapped from the disk.
    """
    path = home / FOLDER / f"{name}.{key}.npy"
    found = _read(path)
    if found is not None:
        return found
    try:
        path.parent.mkdir(exist_ok=True)
        with FileLock(path.parent / f"{name}.lock"):
            found = _read(path)
            if found is None:
                for old in (*path.parent.glob(f"{name}.*.npy"), *path.parent.glob(f"{name}.*.json")):
                    old.unlink()
                _write(path, make())
                found = _read(path)
    except OSError:  # a folder that cannot be written, a disk that is full
        found = None
    return found if found is not None else _in_memory(make())


def _told(path: Path) -> Path:
    """Return the file beside an array that tells its checksum and what could not be read."""
    return path.with_suffix(".json")


def _read(path: Path) -> Kept | None:
    try:
        told = json.loads(_told(path).read_text())
        large = path.stat().st_size > LARGE
        # Copied on write: torch wants arrays that it may write to.
        pixels = np.load(path, mmap_mode="c" if large else None, allow_pickle=False)
        if pixels.dtype != np.uint8 or (not large and zlib.crc32(pixels) != told["crc32"]):
            return None
        return pixels, {int(place): str(reason) for place, reason in told["bad"].items()}, told.get("told", {})
    except (OSError, ValueError, EOFError, KeyError, TypeError, AttributeError):
        return None


def _write(path: Path, making: ArraySource) -> None:
    """Write an array, then what is told of it: whoever finds the second finds the first whole."""
    partial, crc = path.with_suffix(".partial"), 0
    try:
        with partial.open("wb") as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": making.shape}
            np.lib.format.write_array_header_1_0(file, header)
            for rows in making.parts():
                content = np.ascontiguousarray(rows).tobytes()
                crc = zlib.crc32(content, crc)
                file.write(content)
        _told(path).unlink(missing_ok=True)
        partial.replace(path)
        partial.write_text(json.dumps({"crc32": crc, "bad": making.bad, "told": making.told}))
        partial.replace(_told(path))
    finally:
        partial.unlink(missing_ok=True)


def _in_memory(making: ArraySource) -> Kept:
    pixels, done = np.empty(making.shape, np.uint8), 0
    for rows in making.parts():
        pixels[done : done + len(rows)] = rows
        done += len(rows)
    return pixels, making.bad, making.told
