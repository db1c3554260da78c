"""Kill -9 at random moments, again and again: `python -m tests.kills` reports whether the results are those of an unbroken run.

Each operation runs in a process that prints a line when it begins, is killed at a random moment, and is started again on what it
left. In the end its files are compared with those of a process that was not killed, all but times and dates.
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
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

BEGUN = "begun"
# What a process that is killed while it writes a file leaves for good, as `files.write` says.
WRITING = re.compile(r"\.[0-9a-f]{16}\.part")
# A notebook whose only cell trains and evaluates a run in workers of its kernel.
NOTEBOOK = """import classwise
from classwise import runs
from classwise.core.spec import Evaluation, Spec
spec = Spec.from_json({spec!r})
runs.outcomes([spec], [Evaluation(attack="fgsm")]).truth.size"""


def _spec(**given):
    from classwise.core.spec import Spec

    settings = {"dataset": "digits", "eps": "0.2", "width": 4, "attack": "pgd-10", "attack_options": {"steps": 2}}
    return Spec(**{**settings, "epochs": 24, **given})


def _evaluation():
    from classwise.core.spec import Evaluation

    return Evaluation(attack="square", options={"queries": 400}, batch=20)


def _packed():
    """Return the runs that are packed and imported."""
    return [_spec(epochs=1, seed=seed) for seed in range(6)]


# What each operation needs, and what it does; both run in processes of their own with CLASSWISE_DATA set.


def nothing() -> None:
    """Prepare nothing."""


def train() -> None:
    """Train a run; each epoch is kept."""
    from classwise.runs.compute import device
    from classwise.runs.compute import train as training

    training.SAVE_AFTER = 0.0
    with device.one_thread():
        training.train(_spec(defence="trades"))


def train_briefly() -> None:
    """Train the run whose evaluation is killed."""
    from classwise.runs.compute import train as training

    training.train(_spec(epochs=2))


def evaluate() -> None:
    """Evaluate a trained run; each batch is kept, not only those of every minute."""
    from classwise import runs
    from classwise.runs.compute import evaluate

    evaluate.SAVE_AFTER = 0.0
    runs.outcomes([_spec(epochs=2)], [_evaluation()])


def train_many() -> None:
    """Train the runs that are packed."""
    from classwise.runs.schedule import pool

    pool.ensure_runs([(spec, []) for spec in _packed()], workers=1)


def pack() -> None:
    """Pack runs into an archive, unless there is one."""
    from classwise.core.paths import data_folder
    from classwise.runs.record import archive

    if not archive.contents(data_folder() / "out"):
        archive.pack([(spec, []) for spec in _packed()], data_folder() / "out", weights="full")


def pack_many() -> None:
    """Train and pack runs, and keep the archive alone."""
    from classwise.core.paths import data_folder

    train_many()
    pack()
    shutil.rmtree(data_folder() / "runs")


def import_archive() -> None:
    """Import an archive."""
    from classwise.core.paths import data_folder
    from classwise.runs.record import archive

    archive.unpack(data_folder() / "out" / "recorded-1.tar")


def write_notebook() -> None:
    """Write the notebook of a page."""
    import nbformat

    from classwise.core.paths import data_folder

    source = NOTEBOOK.format(spec=_spec(epochs=8).json())
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, id="cell-00")])
    data_folder().mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, data_folder() / "source.ipynb")


def execute_page() -> None:
    """Execute the notebook of a page, which computes what it shows."""
    from classwise.book import notebooks
    from classwise.core.paths import data_folder

    place = data_folder()
    notebooks.execute(place / "source.ipynb", place / "page.ipynb", {}, place / "failed.ipynb")


@dataclass(frozen=True)
class Operation:
    """What is killed: what it needs, what it does, and in how many parts its time is cut for the moments of the kills."""

    prepare: Callable[[], None]
    act: Callable[[], None]
    parts: int = 1


OPERATIONS = {
    "training": Operation(nothing, train, parts=6),
    "evaluation": Operation(train_briefly, evaluate, parts=3),
    "packing": Operation(train_many, pack),
    "importing": Operation(pack_many, import_archive),
    "page": Operation(write_notebook, execute_page, parts=2),
}


def start(name: str, data: Path, what: str = "act") -> subprocess.Popen[str]:
    """Start an operation, or what it needs, on a data folder; return its process when it begins."""
    environment = os.environ | {"CLASSWISE_DATA": str(data)}
    command = [sys.executable, "-m", "tests.kills", "--child", what, name]
    with errors(data).open("w") as file:
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=file, text=True, start_new_session=True
        )
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == BEGUN:
            break
    return process


def errors(data: Path) -> Path:
    """Return the file of what the last process on a data folder wrote to its standard error."""
    return data.with_suffix(".errors")


def finish(process: subprocess.Popen[str], data: Path) -> None:
    """Wait for a process on a data folder; RuntimeError if it fails."""
    process.communicate()
    if process.returncode:
        raise RuntimeError(f"{process.args} ended with {process.returncode}: {errors(data).read_text()[-1000:]}")


def contents(data: Path) -> dict[str, str]:
    """Return a digest of each result below a data folder, without times and dates, by its path."""
    from classwise.core import netcdf

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
    """Return what is neither a result nor `WRITING`: parts of files, unpacked archives, runs that are set aside."""
    marks = (".import-", ".pack-")
    paths = (path.relative_to(data) for path in sorted(data.rglob("*")) if not WRITING.fullmatch(path.name))
    return [str(path) for path in paths if {".part", ".replaced"} & set(path.suffixes) or path.name.startswith(marks)]


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
    """Kill an operation at random moments, restart it each time, and compare what it leaves with that of an unbroken process.

    The moments follow from `seed` and the name of the operation.
    """
    operation, report, chance = OPERATIONS[name], Report(), random.Random(f"{seed} {name}")
    prepared, unbroken = place / "prepared", place / "unbroken"
    prepared.mkdir(parents=True)
    finish(start(name, prepared, "prepare"), prepared)
    shutil.copytree(prepared, unbroken)
    process = start(name, unbroken)
    began = time.perf_counter()
    finish(process, unbroken)
    longest, expected = (time.perf_counter() - began) / operation.parts, contents(unbroken)
    report.results = len(set(expected) - set(contents(prepared)))
    while report.kills < kills:
        data = place / f"killed-{report.compared}"
        shutil.copytree(prepared, data)
        while True:
            process = start(name, data)
            if report.kills < kills:
                try:
                    process.wait(chance.uniform(0.0, longest))
                    report.ended += 1
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)  # with the processes that it started
                    process.communicate()
                    report.kills += 1
                    continue
            finish(process, data)
            break
        report.compared += 1
        report.unfinished += unfinished(data)
        report.different += sorted({name for name, _ in set(contents(data).items()) ^ set(expected.items())})
    return report


def main() -> None:
    """Kill each operation and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=40, help="kills of each operation")
    parser.add_argument("--seed", default="0", help="of the moments")
    parser.add_argument("--child", choices=("prepare", "act"), help=argparse.SUPPRESS)
    parser.add_argument("operations", nargs="*", metavar="operation", help=f"of {', '.join(OPERATIONS)}; by default all")
    given = parser.parse_args()
    if given.child:
        operation = OPERATIONS[given.operations[0]]
        import classwise.runs.compute.train  # noqa: F401  # what takes seconds is imported before the line is printed

        print(BEGUN, flush=True)
        (operation.act if given.child == "act" else operation.prepare)()
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
