"""Kill -9 at random moments, again and again: `python -m tests.kills` reports whether the results are those of an unbroken run.

Each operation runs in a process that prints a line when it begins, is killed at a random moment, and is started again on what it
left. In the end its files are compared with those of one that was not killed, all but times and dates.
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import nbformat
import pytest

from classwise import runs
from classwise.book import notebooks
from classwise.core import netcdf
from classwise.core.paths import data_folder
from classwise.core.spec import Evaluation, Spec
from classwise.runs.compute import resume
from classwise.runs.record import archive
from classwise.runs.schedule import pool

# A process prints this line when all is imported.
BEGUN = "begun"
# What a process that is killed while it writes a file leaves for good, as `files.write` says.
WRITING = re.compile(r"\.[0-9a-f]{16}\.part")
# A notebook whose only cell trains and evaluates a run in workers of its kernel.
NOTEBOOK = """import classwise
from classwise import runs
from classwise.core.spec import Evaluation, Spec
spec = Spec.from_json({spec!r})
runs.outcomes([spec], [Evaluation(attack="fgsm")]).truth.size"""


SPEC = Spec(dataset="digits", eps="0.2", width=4, epochs=12, attack="pgd-10", attack_options={"steps": 2})
TRAINED, EVALUATED = replace(SPEC, defence="trades"), replace(SPEC, epochs=2)
PACKED = [replace(SPEC, epochs=1, seed=seed) for seed in range(6)]
SEARCH = Evaluation(attack="square", options={"queries": 200}, batch=20)


def train(*specs: Spec) -> None:
    """Train runs."""
    pool.ensure_runs([(spec, []) for spec in specs], workers=1)


def pack() -> None:
    """Pack runs into an archive, unless there is one."""
    if not archive.contents(data_folder() / "out"):
        archive.pack([(spec, []) for spec in PACKED], data_folder() / "out", weights="full")


def pack_alone() -> None:
    """Train and pack runs, and keep the archive alone."""
    train(*PACKED)
    pack()
    shutil.rmtree(data_folder() / "runs")


def write_notebook() -> None:
    """Write the notebook of a page."""
    source = NOTEBOOK.format(spec=replace(SPEC, epochs=8).json())
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, id="cell-00")])
    nbformat.write(notebook, data_folder() / "source.ipynb")


def execute_page() -> None:
    """Execute the notebook of a page, which computes what it shows."""
    place = data_folder()
    notebooks.execute(place / "source.ipynb", place / "page.ipynb", {}, place / "failed.ipynb")


@dataclass(frozen=True)
class Operation:
    """What is killed: what it needs, what it does, and in how many parts its time is cut for the moments of the kills."""

    prepare: Callable[[], object]
    act: Callable[[], object]
    parts: int = 1


OPERATIONS = {
    "training": Operation(train, lambda: train(TRAINED), parts=3),
    "evaluation": Operation(lambda: train(EVALUATED), lambda: runs.outcomes([EVALUATED], [SEARCH]), parts=2),
    "packing": Operation(lambda: train(*PACKED), pack),
    "importing": Operation(pack_alone, lambda: archive.unpack(data_folder() / "out" / "recorded-1.tar")),
    "page": Operation(write_notebook, execute_page, parts=2),
}


@contextmanager
def on(data: Path) -> Iterator[None]:
    """Work on a data folder, and keep each epoch and each batch, not only those of every minute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLASSWISE_DATA", str(data))
        patch.setattr(resume, "SAVE_AFTER", 0.0)
        yield


def start(name: str, data: Path) -> subprocess.Popen[str]:
    """Start an operation on a data folder; return its process when it begins."""
    command = [sys.executable, "-m", "tests.kills", "--child", str(data), name]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == BEGUN:
            break
    return process


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
    """Return what is neither a result nor `WRITING`: parts of files, unpacked archives."""
    marks = (".import-", ".pack-")
    paths = (path.relative_to(data) for path in sorted(data.rglob("*")) if not WRITING.fullmatch(path.name))
    return [str(path) for path in paths if ".part" in path.suffixes or path.name.startswith(marks)]


@dataclass
class Report:
    """How an operation fared: kills, processes that ended before their kill, comparisons, what they compared and what was wrong.

    results: the number of files of the unbroken process. different: the files that differed. unfinished: what was left in the
    end.
    """

    kills: int = 0
    ended: int = 0
    compared: int = 0
    results: int = 0
    different: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)


def survive(name: str, kills: int, place: Path, seed: str = "0") -> Report:
    """Kill an operation at random moments, restart it each time, and compare what it leaves with that of an unbroken one.

    What is not killed runs in this process. The moments follow from `seed` and the name of the operation.
    """
    operation, report, chance = OPERATIONS[name], Report(), random.Random(f"{seed} {name}")
    prepared, unbroken = place / "prepared", place / "unbroken"
    prepared.mkdir(parents=True)
    with on(prepared):
        operation.prepare()
    shutil.copytree(prepared, unbroken)
    began = time.perf_counter()
    with on(unbroken):
        operation.act()
    longest, expected = (time.perf_counter() - began) / operation.parts, contents(unbroken)
    report.results = len(set(expected) - set(contents(prepared)))
    while report.kills < kills:
        data, ended = place / f"killed-{report.compared}", False
        shutil.copytree(prepared, data)
        while report.kills < kills and not ended:
            process = start(name, data)
            try:
                ended = process.wait(chance.uniform(0.0, longest)) == 0
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # with the processes that it started
                report.kills += 1
            process.communicate()
            if process.returncode not in (0, -signal.SIGKILL):
                raise RuntimeError(f"{process.args} ended with {process.returncode}")
        report.ended += ended
        with on(data):
            operation.act()
        report.compared += 1
        report.unfinished += unfinished(data)
        report.different += sorted({name for name, _ in set(contents(data).items()) ^ set(expected.items())})
    return report


def main() -> None:
    """Kill each operation and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=40, help="kills of each operation")
    parser.add_argument("--seed", default="0", help="of the moments")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("operations", nargs="*", metavar="operation", help=f"of {', '.join(OPERATIONS)}; by default all")
    given = parser.parse_args()
    if given.child:
        with on(given.child):
            print(BEGUN, flush=True)
            OPERATIONS[given.operations[0]].act()
        return
    for name in given.operations or OPERATIONS:
        with tempfile.TemporaryDirectory() as place:
            report = survive(name, given.kills, Path(place), given.seed)
        counts = f"{report.kills} kills, {report.ended} processes ended before theirs"
        print(f"{name}: {counts}; compared {report.compared} times: {report.different or 'no difference'}", flush=True)
        if report.unfinished:
            print(f"{name}: left {report.unfinished}", flush=True)


if __name__ == "__main__":
    main()
