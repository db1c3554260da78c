"""What the chapters of the book ask beside results: which sections are recorded, and what to compare a defence with."""

from collections.abc import Iterable
from pathlib import Path

from classwise import results, study
from classwise.errors import unknown
from classwise.run import store


def recorded(section: str) -> str:
    """Return a line for each bigger scale: how many of a section's runs are recorded, on what device, when, from which commit."""
    if section not in study.SECTIONS:
        raise unknown("section", section, study.SECTIONS)
    lines = []
    for scale in study.SCALES:
        if scale == "quick":
            continue
        asked = study.request(section, scale).asked
        there = [
            store.recorded(spec)
            for spec, evaluations in asked
            if store.complete(store.recorded(spec), [one.of(spec) for one in evaluations])
        ]
        lines.append(f"Recorded at scale {scale}: {_told(there, len(asked))}")
    return "; ".join(lines) + "."


def _told(folders: list[Path], asked: int) -> str:
    """Return how many runs there are, and where they come from."""
    if not folders:
        return "none yet"
    attrs = [results.load(folder / "history.nc", store.HISTORY).attrs for folder in folders]
    about = [", ".join(sorted({one[name] or "unknown" for one in attrs})) for name in ("device", "commit")]
    days = sorted({one["created"][:10] for one in attrs})
    return f"{len(folders)} of {asked} runs ({about[0]}, commit {about[1]}, {' to '.join(dict.fromkeys((days[0], days[-1])))})"


def uncalibrated(names: Iterable[str]) -> dict[str, str]:
    """Return of each named defence that calibrates or averages the one that it adds this to, where both are named."""
    from classwise import defences  # torch

    asked = list(dict.fromkeys(names))
    plain = {name: defences.plain(name) for name in asked}
    return {name: base for name, base in plain.items() if base in asked}
