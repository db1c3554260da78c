"""Measurements of `make bench`, on this machine (build/bench.json) and on others (data/recorded/bench/*.json)."""

import json
from pathlib import Path

import pandas as pd

from classwise.core.errors import UserError
from classwise.core.paths import build_folder, data_folder

# Columns of the table; `agreement` is missing if there are no predictions to compare.
_COLUMNS = ["name", "peer", "ratio", "ours_s", "peer_s", "agreement", "robust_ours", "robust_peer", "cost", "machine", "created"]


def files() -> list[Path]:
    """Return the existing files: the one of this machine, if any, then the recorded ones."""
    here = build_folder() / "bench.json"
    return [*([here] if here.exists() else []), *sorted((data_folder() / "recorded" / "bench").glob("*.json"))]


def load() -> pd.DataFrame:
    """Return one row for each measurement against each peer; no rows if nothing was measured.

    ratio: median of the seconds of the peer over ours; for ascent_overhead and every _cost, ours over the peer's. cost: whether
    it is one of these. machine: the device and its threads; "here" for this machine. An unreadable file is a UserError.
    """
    rows = []
    for path in files():
        try:
            measured = json.loads(path.read_text())
            # A name without a peer repeats the measurement against the fastest peer.
            for name, entry in measured.items():
                if "/" in name or not any(other.startswith(f"{name}/") for other in measured):
                    machine = f"{_short(entry['device'])}, {entry['threads']} threads"
                    where = "here" if path.parent == build_folder() else machine
                    rows.append({**entry, "name": name.split("/")[0], "machine": where, "cost": _is_cost(name)})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path} is not a file of `make bench` ({type(error).__name__}: {error}); delete it") from None
    # A measurement of this machine that was also recorded is shown once.
    return pd.DataFrame(rows).reindex(columns=_COLUMNS).drop_duplicates(["name", "peer", "created"], keep="last")


def _is_cost(name: str) -> bool:
    return name.endswith(("_cost", "_overhead"))


def _short(device: str) -> str:
    """Return the name of a device without the parts that all names share."""
    for part in ("(R)", "(TM)", "Processor", "CPU", "NVIDIA"):
        device = device.replace(part, "")
    return " ".join(device.split())
