"""Measurements of `make bench`, on this machine (build/bench.json) and on others (data/recorded/bench/*.json)."""

import csv
import json
import re
from pathlib import Path

import pandas as pd

from classwise.core.paths import build_folder, data_folder

# Columns of the table; `agreement` is missing if there are no predictions to compare.
_COLUMNS = ["name", "peer", "ratio", "ours_s", "peer_s", "agreement", "robust_ours", "robust_peer", "cost", "machine", "created"]
_COLUMNS += ["precision", "title"]
# How pages name what `make bench` measures, what it is, and the precision in which ours computes.
_LINES = Path(__file__).with_suffix(".csv").read_text(encoding="utf-8").splitlines()
_MEASUREMENTS = {row["name"]: row for row in csv.DictReader(_LINES)}


def files() -> list[Path]:
    """Return the existing files: the one of this machine, if any, then the recorded ones."""
    here = build_folder() / "bench.json"
    return [*([here] if here.exists() else []), *sorted((data_folder() / "recorded" / "bench").glob("*.json"))]


def load() -> pd.DataFrame:
    """Return one row for each measurement against each peer; no rows if nothing was measured.

    ratio: the ratio of the seconds of the peer to ours in each round, the median over the rounds; for ascent_overhead and every
    _cost, of ours to the peer's. cost: whether it is one of these. precision: in which ours computes; the peers use float32.
    machine: the device and its threads; "here" for this machine. title: the name of the measurement on pages.
    """
    rows = []
    for path in files():
        measured = json.loads(path.read_text())
        # A name without a peer repeats the measurement against the fastest peer.
        for name, entry in measured.items():
            if "/" in name or not any(other.startswith(f"{name}/") for other in measured):
                # Without the parts that the names of all devices share.
                device = " ".join(re.sub(r"\(R\)|\(TM\)|Processor|CPU|NVIDIA", "", entry["device"]).split())
                where = "here" if path.parent == build_folder() else f"{device}, {entry['threads']} threads"
                head = name.split("/")[0]
                known = {"title": head, "precision": "float32"} | _MEASUREMENTS.get(head, {})
                rows.append(entry | known | {"name": head, "machine": where, "cost": _is_cost(head)})
    # A measurement of this machine that was also recorded is shown once.
    return pd.DataFrame(rows).reindex(columns=_COLUMNS).drop_duplicates(["name", "peer", "created"], keep="last")


def meanings(bench: pd.DataFrame) -> str:
    """Return in Markdown what each measurement of the table is, those of a cost apart."""
    names = [name for name in _MEASUREMENTS if name in set(bench["name"])]
    kinds = {"Speed, larger is better": [name for name in names if not _is_cost(name)]}
    kinds["Cost, smaller is better"] = [name for name in names if _is_cost(name)]
    return "\n\n".join(
        f"**{kind}:**\n\n" + "\n".join("- *{title}*: {meaning}.".format(**_MEASUREMENTS[name]) for name in some)
        for kind, some in kinds.items()
        if some
    )


def like_for_like(bench: pd.DataFrame) -> str:
    """Return in Markdown the ratio of each measurement in bfloat16 next to that with float32 on both sides."""
    rows = bench.to_dict("records")
    plain = {(row["name"], row["peer"], row["machine"]): f"{row['ratio']:.2f}" for row in rows if row["precision"] == "float32"}
    lines = []
    for row in rows:
        name = str(row["name"])
        if row["precision"] == "bfloat16":
            base = name.removesuffix("_bfloat16")
            equal = plain.get((base if base != name else f"{name}_float32", row["peer"], row["machine"]), "not recorded")
            both = f"{row['ratio']:.2f} with ours in bfloat16, {equal} with both in float32"
            lines.append(f"- *{row['title']}*, {row['peer']}, {row['machine']}: {both}.")
    return "\n".join(lines) or "No measurement in bfloat16."


def _is_cost(name: str) -> bool:
    return name.endswith(("_cost", "_overhead"))


def processors() -> pd.DataFrame:
    """Return accuracies of networks that were trained with other vector instructions, and the share of equal predictions.

    In percent, by machine, defence, kind of instructions and attack, all seeds together; no rows if nothing is recorded in
    data/recorded/processors/. The equal predictions are those of the network of the same seed that was trained with all
    instructions of the processor.
    """
    rows = []
    for path in sorted((data_folder() / "recorded" / "processors").glob("*.json")):
        measured = json.loads(path.read_text())
        rows += [{"machine": measured["device"], **row} for row in measured["rows"]]
    keys = ["machine", "defence", "instructions", "attack"]
    table = pd.DataFrame(rows, columns=[*keys, "seed", "correct", "same", "images"])
    table = table.groupby(keys, sort=False)[["correct", "same", "images"]].sum()
    shares = {
        "accuracy, %": 100 * table["correct"] / table["images"],
        "same prediction, %": 100 * table["same"] / table["images"],
    }
    return pd.DataFrame(shares).astype(float).round(1)
