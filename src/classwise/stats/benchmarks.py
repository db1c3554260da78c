"""What `make bench` measured: here (build/bench.json) and on other machines (data/recorded/bench/*.json)."""

import json
from pathlib import Path

import pandas as pd

from classwise.core.errors import UserError
from classwise.core.paths import build_folder, data_folder

# What each measurement says; `agreement` is missing where there are no verdicts to compare.
_COLUMNS = ["name", "peer", "ratio", "ours_s", "peer_s", "agreement", "robust_ours", "robust_peer", "cost", "machine", "created"]


def files() -> list[Path]:
    """Return the files there are: the one made here, if any, then the recorded ones."""
    here = build_folder() / "bench.json"
    return [*([here] if here.exists() else []), *sorted((data_folder() / "recorded" / "bench").glob("*.json"))]


def load() -> pd.DataFrame:
    """Return every measurement against every peer as a row; no rows where nothing was measured.

    ratio: the median of the seconds of the peer over ours; of ascent_overhead and every _cost, ours over the other's.
    cost: whether it is one of these.
    machine: the device and its threads, "here" first where it was measured on this machine.
    """
    rows = []
    for path in files():
        try:
            measured = json.loads(path.read_text())
            # A plain name repeats its measurement against the fastest peer.
            for name, entry in measured.items():
                if "/" in name or not any(other.startswith(f"{name}/") for other in measured):
                    machine = f"{_short(entry['device'])}, {entry['threads']} threads"
                    where = "here" if path.parent == build_folder() else machine
                    rows.append({**entry, "name": name.split("/")[0], "machine": where, "cost": _is_cost(name)})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path} is no file of `make bench` ({type(error).__name__}: {error}); delete it") from None
    # A measurement that was made here and recorded is shown once.
    return pd.DataFrame(rows).reindex(columns=_COLUMNS).drop_duplicates(["name", "peer", "created"], keep="last")


def _is_cost(name: str) -> bool:
    return name.endswith(("_cost", "_overhead"))


def _short(device: str) -> str:
    """Return the name of a device without what every such name holds."""
    for part in ("(R)", "(TM)", "Processor", "CPU", "NVIDIA"):
        device = device.replace(part, "")
    return " ".join(device.split())
