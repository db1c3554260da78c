"""Measurements of `make bench`, on this machine (build/bench.json) and on others (data/recorded/bench/*.json)."""

import json
from pathlib import Path

import pandas as pd

from classwise.core.errors import UserError
from classwise.core.paths import build_folder, data_folder

# Columns of the table; `agreement` is missing if there are no predictions to compare.
_COLUMNS = ["name", "peer", "ratio", "ours_s", "peer_s", "agreement", "robust_ours", "robust_peer", "cost", "machine", "created"]
_COLUMNS += ["precision", "title"]
# How pages name what `make bench` measures, and what it is. In `_BFLOAT16` ours computes in bfloat16 unless the name ends in
# _float32; all others do in float32.
_MEASUREMENTS = {
    "pgd20_forced": (
        "PGD-20, all steps",
        "PGD-20 on a ResNet-18 for 32×32 images without early stopping, ours with a search in bfloat16",
    ),
    "pgd20_forced_float32": ("PGD-20, all steps, float32", "the same with our search in float32, as the other packages"),
    "pgd20_eval": ("PGD-20, digits", "the robust accuracy of a digits network under PGD-20, both in float32"),
    "pgd20_eval_bfloat16": ("PGD-20, digits, bfloat16", "the same with our search in bfloat16"),
    "autoattack_eval": ("AutoAttack, digits", "AutoAttack on 200 images of the digits network, both in float32"),
    "strong_eval": (
        "cr, digits",
        "constraint relaxation with Square compared with AutoAttack, both ours and in float32, on the same network",
    ),
    "ascent_overhead": ("a step of PGD", "the cost of a PGD step in plain forward and backward passes"),
    "train_epoch": (
        "an epoch",
        "an epoch of PGD-10 adversarial training of a ResNet-18, ours in bfloat16, compared with the loop of common tutorials: a "
        "loader that transforms one image at a time, and an attack whose gradients also reach the parameters",
    ),
    "train_epoch_float32": ("an epoch, float32", "the same with ours in float32"),
    "quick_run": (
        "a training, digits",
        "one training of PGD-AT at scale quick, compared with a plain loop that takes the same steps, on one thread",
    ),
    "laptop_cost": (
        "scale laptop",
        "the steps of an epoch of PGD-AT of scale laptop in those of a plain loop",
    ),
    "trades_cost": ("TRADES", "an epoch of TRADES in epochs of PGD-AT"),
    "cfa_cost": ("CFA", "an epoch of CFA in epochs of PGD-AT"),
    "calibration_cost": (
        "calibration",
        "the share of an epoch of PGD-AT that counting its predictions and CFA's equations take, without the validation attack",
    ),
    "load_results": (
        "reading results",
        "reading 600 stored outcomes of digits networks, compared with opening them one by one with xarray",
    ),
    "measuring_cost": ("measuring", "a run of this book, with all measurements and files, relative to its training steps alone"),
}
_BFLOAT16 = ("pgd20_forced", "train_epoch", "pgd20_eval_bfloat16")


def files() -> list[Path]:
    """Return the existing files: the one of this machine, if any, then the recorded ones."""
    here = build_folder() / "bench.json"
    return [*([here] if here.exists() else []), *sorted((data_folder() / "recorded" / "bench").glob("*.json"))]


def load() -> pd.DataFrame:
    """Return one row for each measurement against each peer; no rows if nothing was measured.

    ratio: the ratio of the seconds of the peer to ours in each round, the median over the rounds; for ascent_overhead and every
    _cost, of ours to the peer's. cost: whether it is one of these. precision: in which ours computes; the peers use float32.
    machine: the device and its threads; "here" for this machine. title: the name of the measurement on
    pages. An unreadable file is a UserError.
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
                    head = name.split("/")[0]
                    precision = "bfloat16" if head in _BFLOAT16 else "float32"
                    named = {"name": head, "title": _title(head), "machine": where}
                    rows.append({**entry, **named, "cost": _is_cost(head), "precision": precision})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path} is not a file of `make bench` ({type(error).__name__}: {error}); delete it") from None
    # A measurement of this machine that was also recorded is shown once.
    return pd.DataFrame(rows).reindex(columns=_COLUMNS).drop_duplicates(["name", "peer", "created"], keep="last")


def meanings(bench: pd.DataFrame) -> str:
    """Return in Markdown what each measurement is, those of a cost apart, and which of `make bench` are not in the table."""
    names = [name for name in _MEASUREMENTS if name in set(bench["name"])]
    kinds = {"Speed, larger is better": [name for name in names if not _is_cost(name)]}
    kinds["Cost, smaller is better"] = [name for name in names if _is_cost(name)]
    lines = [
        f"**{kind}:**\n\n" + "\n".join("- *{}*: {}.".format(*_MEASUREMENTS[name]) for name in some)
        for kind, some in kinds.items()
        if some
    ]
    missing = [f"*{_title(name)}*" for name in _MEASUREMENTS if name not in names]
    return "\n\n".join([*lines, f"Not measured on these machines: {'; '.join(missing)}." if missing else ""]).rstrip()


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


def _title(name: str) -> str:
    return _MEASUREMENTS[name][0] if name in _MEASUREMENTS else name


def _is_cost(name: str) -> bool:
    return name.endswith(("_cost", "_overhead"))


def _short(device: str) -> str:
    """Return the name of a device without the parts that all names share."""
    for part in ("(R)", "(TM)", "Processor", "CPU", "NVIDIA"):
        device = device.replace(part, "")
    return " ".join(device.split())


def processors() -> pd.DataFrame:
    """Return accuracies of networks that were trained with other vector instructions, and the share of equal predictions.

    In percent, by machine, defence, kind of instructions and attack, all seeds together; no rows if nothing is recorded in
    data/recorded/processors/. The equal predictions are those of the network of the same seed that was trained with all
    instructions of the processor. An unreadable file is a UserError.
    """
    rows = []
    for path in sorted((data_folder() / "recorded" / "processors").glob("*.json")):
        try:
            measured = json.loads(path.read_text())
            rows += [{"machine": measured["device"], **row} for row in measured["rows"]]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is not a file of benchmarks.processors ({type(error).__name__}); delete it") from None
    keys = ["machine", "defence", "instructions", "attack"]
    table = pd.DataFrame(rows, columns=[*keys, "seed", "correct", "same", "images"])
    table = table.groupby(keys, sort=False)[["correct", "same", "images"]].sum()
    shares = {
        "accuracy, %": 100 * table["correct"] / table["images"],
        "same prediction, %": 100 * table["same"] / table["images"],
    }
    return pd.DataFrame(shares).astype(float).round(1)
