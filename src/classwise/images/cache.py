"""Decoded images, cached next to their files as one uint8 array."""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

# An array of more bytes than this is mapped from the disk rather than read.
LARGE = 1 << 30
FOLDER = ".classwise"
# What reading an array raises that is missing, cut short or without its metadata.
_UNREADABLE = (OSError, ValueError, KeyError, EOFError)


@dataclass
class ArraySource:
    """How an array of decoded images is made: its shape, its rows as uint8 arrays part by part, and plain values as `metadata`.

    `bad` holds the positions of unreadable images, each with the reason, once all parts are read.
    """

    shape: tuple[int, ...]
    parts: Iterable[np.ndarray]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    bad: dict[int, str] = field(default_factory=dict)


# An array, the positions of unreadable images in it with the reason, and metadata.
Cached = tuple[np.ndarray, dict[int, str], Mapping[str, Any]]


def read_cached(home: Path, name: str, key: str, make: Callable[[], ArraySource]) -> Cached:
    """Return a uint8 array of decoded images (n, channels, height, width), the unreadable ones with the reason, and metadata.

    The array is `home`/.classwise/`name`.`key`.npy, made if missing or cut short. Arrays with another key are stale and are
    removed. Where nothing can be written the array is made in memory. Arrays of more than 1 GiB are mapped from the disk.
    """
    path = home / FOLDER / f"{name}.{key}.npy"
    with suppress(*_UNREADABLE):
        return _read(path)
    try:
        path.parent.mkdir(exist_ok=True)
        with FileLock(path.parent / f"{name}.lock"):
            with suppress(*_UNREADABLE):  # another process has made it meanwhile
                return _read(path)
            for old in (*path.parent.glob(f"{name}.*.npy"), *path.parent.glob(f"{name}.*.json")):
                old.unlink()
            _write(path, make())
            return _read(path)
    except OSError:  # a folder that cannot be written, a disk that is full
        source = make()
        return np.concatenate(list(source.parts)), source.bad, source.metadata


def _read(path: Path) -> Cached:
    metadata = json.loads(path.with_suffix(".json").read_text())
    # Copied on write: torch wants arrays that it may write to.
    pixels = np.load(path, mmap_mode="c" if path.stat().st_size > LARGE else None, allow_pickle=False)
    return pixels, {int(place): reason for place, reason in metadata["bad"].items()}, metadata["told"]


def _write(path: Path, source: ArraySource) -> None:
    """Write an array, then its metadata: where the second file exists the first is complete."""
    partial = path.with_suffix(".partial")
    try:
        with partial.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": source.shape})
            for rows in source.parts:
                file.write(rows.tobytes())
        partial.replace(path)
        partial.write_text(json.dumps({"bad": source.bad, "told": source.metadata}))
        partial.replace(path.with_suffix(".json"))
    finally:
        partial.unlink(missing_ok=True)
