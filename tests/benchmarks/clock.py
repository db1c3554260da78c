"""Two sides timed in turn."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Side = Callable[[], Tensor]  # returns which images are broken: (n,) bool


def timed(side: Callable[[], Tensor | None]) -> tuple[Tensor | None, float]:
    """Return what a side finds and its seconds."""
    started = time.perf_counter()
    found = side()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return found, time.perf_counter() - started


def in_turn(
    ours: Callable[[], Tensor | None], theirs: Callable[[], Tensor | None], rounds: int, *, warm: bool = True
) -> tuple[list[tuple[float, float]], tuple[Tensor | None, Tensor | None]]:
    """Return the seconds of both sides in each round, and what they found in the last."""
    if warm:  # the first calls pay for what is set up once
        ours(), theirs()
    seconds, found = [], (None, None)
    for _ in range(rounds):
        (mine, quick), (other, slow) = timed(ours), timed(theirs)
        seconds.append((quick, slow))
        found = (mine, other)
    return seconds, found


def entry(seconds: list[tuple[float, float]], peer: str) -> dict[str, Any]:
    """Return a measurement without verdicts: the median of the ratios of seconds, theirs to ours."""
    return {
        "ratio": statistics.median(slow / quick for quick, slow in seconds),
        "ours_s": statistics.median(quick for quick, _ in seconds),
        "peer_s": statistics.median(slow for _, slow in seconds),
        "peer": peer,
        "agreement": None,
        "rounds": len(seconds),
    }


def cost(seconds: list[tuple[float, float]], peer: str) -> dict[str, Any]:
    """Return a measurement said the other way round: how many times as long as the other side ours takes."""
    return entry(seconds, peer) | {"ratio": statistics.median(quick / slow for quick, slow in seconds)}


def against(ours: Side, theirs: Side, peer: str, rounds: int, *, warm: bool = True) -> dict[str, Any]:
    """Return the median of the ratios of seconds, theirs to ours, over so many rounds, and how the verdicts agree."""
    seconds, (mine, other) = in_turn(ours, theirs, rounds, warm=warm)
    assert mine is not None
    assert other is not None
    return entry(seconds, peer) | {
        "agreement": float((mine == other).float().mean()),
        "images": len(mine),
        "robust_ours": 100 * float((~mine).float().mean()),
        "robust_peer": 100 * float((~other).float().mean()),
    }
