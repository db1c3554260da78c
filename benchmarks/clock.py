"""Sides timed in turn."""

import statistics
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch import Tensor

Side = Callable[[], Tensor]  # returns which images are broken: (n,) bool


def timed(side: Callable[[], Tensor | None]) -> tuple[Tensor | None, float]:
    """Return the result of a side and its seconds."""
    started = time.perf_counter()
    result = side()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return result, time.perf_counter() - started


def in_turn(
    ours: Callable[[], Tensor | None], theirs: Callable[[], Tensor | None], rounds: int, *, warm: bool = True
) -> tuple[list[tuple[float, float]], tuple[Tensor | None, Tensor | None]]:
    """Return the seconds of both sides in each round, and their results in the last."""
    if warm:  # the first calls pay for what is set up once
        ours(), theirs()
    seconds, results = [], (None, None)
    for _ in range(rounds):
        (mine, quick), (other, slow) = timed(ours), timed(theirs)
        seconds.append((quick, slow))
        results = (mine, other)
    return seconds, results


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
    """Return a measurement with the inverse ratio: how many times as long as the other side ours takes."""
    return entry(seconds, peer) | {"ratio": statistics.median(quick / slow for quick, slow in seconds)}


def contest(ours: dict[str, Side], theirs: dict[str, Side], rounds: int, *, warm: bool = True) -> dict[str, dict[str, Any]]:
    """Run all sides in turn for some rounds; return for each of ours and each peer ("ours/peer") how they compare.

    In addition to `entry`: agreement, the share of images with the same verdict, and the robust accuracy that each side finds,
    in percent. `warm`: run each side once before anything is measured.
    """
    sides = {("ours", name): side for name, side in ours.items()} | {("theirs", name): side for name, side in theirs.items()}
    results = {key: side() for key, side in sides.items()} if warm else {}
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in sides}
    for _ in range(rounds):
        for key, side in sides.items():
            result, taken = timed(side)
            assert result is not None
            results[key] = result
            seconds[key].append(taken)
    compared = {}
    for mine, peer in product(ours, theirs):
        first, second = results["ours", mine], results["theirs", peer]
        pairs = list(zip(seconds["ours", mine], seconds["theirs", peer], strict=True))
        compared[f"{mine}/{peer}"] = entry(pairs, peer) | {
            "agreement": float((first == second).float().mean()),
            "images": len(first),
            "robust_ours": 100 * float((~first).float().mean()),
            "robust_peer": 100 * float((~second).float().mean()),
        }
    return compared
