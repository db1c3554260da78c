"""Crashes: operations that are killed, interrupted or find the disk full at a change of a file, and what they leave.

Python reports each change of a file to an audit hook before it happens; there the injury is done. `python -m tests.kills` reads
lines [operation, data folder, number of the change] and kills each operation in a process of its own.
"""

import errno
import hashlib
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import nbformat
import pytest
import torch

from classwise import runs
from classwise.__main__ import record_runs
from classwise.book import notebooks
from classwise.core import netcdf
from classwise.core.paths import data_folder
from classwise.core.spec import Evaluation, Spec
from classwise.defences.averaging import AVERAGINGS, FAWA
from classwise.runs.compute import evaluate, rebuild, resume
from classwise.runs.compute import train as training
from classwise.runs.record import archive, queue

SPEC = Spec(
    dataset="digits", eps="0.2", width=4, epochs=2, attack="pgd-10", attack_options={"steps": 1}, classes=("3", "8"), measure=9
)
OTHER = replace(SPEC, seed=1)
PGD = Evaluation(attack="pgd-10", options={"steps": 1}, batch=30)
# Trainings that carry most from epoch to epoch: settings of the classes, averages of the weights, the best epoch, the last two.
CALIBRATED = replace(SPEC, defence="trades-cfa", options={"threshold": 0.0, "average_from": 0.0}, augment="crop-flip")
AVERAGED = replace(SPEC, defence="trades-ccm", averages=("ema", "fawa"), select="pgd-10", augment="crop-flip", keep_last=2)
# Short epochs, averages with statistics of their own, weights in half precision.
_SHORT = {"epochs": 4, "measure": 4, "epoch_images": 60, "averages": ("fawa", "sham"), "renewed": True, "half": True}
SHORT = replace(CALIBRATED, defence="trades-ccm-ccr", options={}, **_SHORT)
REBUILT = replace(SPEC, defence="standard", rebuilt="features", images_by="pgd-at", train_per_class=6)
QUEUE = """
evaluations.pgd = [{attack = "pgd-10", options = {steps = 1}}]
[[entry]]
why = "a test"
seeds = [0]
defences = ["pgd-at"]
evaluations = ["pgd"]
weights = true
[entry.run]
dataset = "digits"
eps = "0.2"
width = 4
epochs = 2
classes = ["3", "8"]
"""


def train(*specs: Spec, repair: bool = False) -> None:
    """Train runs."""
    for spec in specs:
        training.train(spec, repair=repair)


def attack(repair: bool = False) -> None:
    """Evaluate a trained run."""
    evaluate.evaluate_run(SPEC, PGD.resolve_for(SPEC), repair=repair)


def pack() -> None:
    """Pack runs into an archive, unless there is one."""
    if not archive.contents(data_folder() / "out"):
        archive.pack([(SPEC, []), (OTHER, [])], data_folder() / "out", weights="full")


def pack_alone() -> None:
    """Train and pack runs, and keep the archive alone."""
    train(SPEC, OTHER)
    pack()
    shutil.rmtree(data_folder() / "runs")


def write_sources() -> None:
    """Write a queue, and the notebook of a page."""
    data_folder().mkdir()
    (data_folder() / "queue.toml").write_text(QUEUE)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("6 * 7", id="cell-00")])
    nbformat.write(notebook, data_folder() / "source.ipynb")


def file() -> None:
    """Train and evaluate the run of a queue, and file it with its weights."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue, "default", lambda scale: data_folder() / "queue.toml")
        record_runs(scale="quick", budget="9m", workers=1)


def page() -> None:
    """Execute a notebook."""
    place = data_folder()
    notebooks.execute(place / "source.ipynb", place / "page.ipynb", {}, place.parent / "failed.ipynb")


@dataclass(frozen=True)
class Operation:
    """What it needs and what it does; `repair`: the same, on files of which some may be damaged."""

    prepare: Callable[[], object]
    act: Callable[[], object]
    repair: Callable[[], object] | None = None


OPERATIONS = {
    "train": Operation(write_sources, *[partial(train, CALIBRATED, AVERAGED, SHORT, repair=repair) for repair in (False, True)]),
    "rebuild": Operation(lambda: train(REBUILT.image_source), *[partial(train, REBUILT, repair=one) for one in (False, True)]),
    "evaluate": Operation(lambda: train(SPEC), attack, partial(attack, repair=True)),
    "examples": Operation(lambda: train(SPEC), *[lambda: runs.examples(SPEC, PGD, per_class=1)] * 2),
    "pack": Operation(lambda: train(SPEC, OTHER), pack),
    "import": Operation(pack_alone, lambda: archive.unpack(data_folder() / "out" / "recorded-1.tar")),
    "file": Operation(write_sources, file),
    "page": Operation(write_sources, page),
}


def kill(event: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt(event: str) -> None:
    raise KeyboardInterrupt


def fill(event: str) -> None:
    if event not in ("os.remove", "os.rmdir"):  # which need no space
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


INJURIES = {"killed": kill, "interrupted": interrupt, "disk full": fill}
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
# What is called with the event and the path of each change of a file, before it happens; None: nothing.
watch: Callable[[str, str], None] | None = None


def audit(event: str, given: tuple[object, ...]) -> None:
    """Call `watch` for a change below the data folder, but for locks."""
    if watch is not None and (event in CHANGES or (event == "open" and int(str(given[2])) & (os.O_WRONLY | os.O_RDWR))):
        path = str(given[0])
        if path.startswith(os.environ["CLASSWISE_DATA"]) and not path.endswith(".lock"):
            watch(event, path)


sys.addaudithook(audit)  # for good


@contextmanager
def watched(by: Callable[[str, str], None]) -> Iterator[None]:
    """Call a function for each change of a file."""
    global watch
    watch = by
    try:
        yield
    finally:
        watch = None


@contextmanager
def on(data: Path) -> Iterator[None]:
    """Work on a data folder, and keep each epoch and each batch, not only those of every minute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLASSWISE_DATA", str(data))
        patch.setattr(rebuild, "BATCH", 6)
        patch.setitem(AVERAGINGS, "fawa", FAWA(threshold=0.0))
        patch.setattr(resume, "SAVE_AFTER", 0.0)
        yield


def changes(name: str, data: Path) -> int:
    """Do an operation on a data folder; return how many changes of files it made."""
    seen: list[str] = []
    with on(data), watched(lambda event, path: seen.append(event)):
        OPERATIONS[name].act()
    return len(seen)


def injure(name: str, data: Path, injury: str, step: int) -> bool:
    """Begin an operation and injure it at the change with this number, from 1; return whether it came to that."""
    left = [step]

    def count(event: str, path: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            if event == "open":  # it happens while the file is written
                Path(path).write_bytes(b"half")
            INJURIES[injury](event)

    with on(data), watched(count), suppress(KeyboardInterrupt, OSError, RuntimeError):
        OPERATIONS[name].act()
    return left[0] <= 0


# What a process that is killed while it writes a file leaves for good, as `files.write` says.
WRITING = re.compile(r"\.[0-9a-f]{16}\.part")


def contents(data: Path) -> dict[str, str]:
    """Return a digest of each result below a data folder, without times and dates, by its path."""
    digests = {}
    for path in sorted(path for path in data.rglob("*") if path.is_file()):
        name = str(path.relative_to(data))
        if path.suffix == ".nc":
            dataset = netcdf.read(path).drop_vars("seconds", errors="ignore")
            dataset.attrs.pop("created", None)
            digests[name] = hashlib.sha256(json.dumps(dataset.to_dict(), default=str).encode()).hexdigest()
        elif path.suffix == ".ipynb":
            outputs = [part for cell in json.loads(path.read_text())["cells"] for part in cell.get("outputs", [])]
            # Not the progress of what had to be computed.
            digests[name] = str([part["data"] for part in outputs if part["output_type"] == "execute_result"])
        elif path.suffix in (".safetensors", ".tar") or path.name == "spec.json":
            digests[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return digests


def unfinished(data: Path) -> list[str]:
    """Return what is neither a result nor `WRITING`: parts of files, unpacked archives, runs and damaged files set aside.

    Not the batches of an evaluation whose outcomes are there: a process that is killed before it removes them leaves them.
    """
    marks = (".import-", ".pack-")
    paths = [path for path in sorted(data.rglob("*")) if not WRITING.fullmatch(path.name)]
    paths = [path for path in paths if path.suffix != ".part" or not path.with_suffix(".nc").exists()]
    left = [path for path in paths if {".part", ".replaced", ".damaged"} & set(path.suffixes) or path.name.startswith(marks)]
    return [str(path.relative_to(data)) for path in left]


if __name__ == "__main__":
    torch.set_num_threads(1)
    for line in sys.stdin:
        operation, folder, change = json.loads(line)
        if (child := os.fork()) == 0:
            os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
            injure(operation, Path(folder), "killed", change)
            os._exit(1)
        print(os.waitpid(child, 0)[1], flush=True)
