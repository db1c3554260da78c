"""Invalid input at the command line: each has an exit code and its words, in one line, and leaves no file behind.

golden/commands holds what is written and what is answered, a case for each branch, in a file for each command; "..." in an answer
stands for anything, in a command for AUDIT. `python -m tests.test_invalid_input` writes the answers that differ again.
"""

import io
import json
import os
import pickle
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest
import safetensors.torch
import torch
from PIL import Image

TESTS = Path(__file__).parent
sys.path += [str(TESTS)] * (str(TESTS) not in sys.path)

import mocks  # noqa: E402

from classwise import images, models  # noqa: E402
from classwise.__main__ import main  # noqa: E402
from classwise.core.errors import UserError  # noqa: E402
from classwise.core.spec import Spec  # noqa: E402
from classwise.runs import store  # noqa: E402

GOLDEN = sorted((TESTS / "golden" / "commands").glob("*.txt"))
SPEC = Spec(dataset="digits", eps="0.2", width=4, epochs=3)
DAMAGED = Spec(dataset="digits", eps="0.2", width=4, epochs=4)
AUDIT = "--weights net.safetensors --model small-cnn --dataset digits --eps 0.2 --attack fgsm --limit 10"
BUILD = "import torch\n\ndef build():\n    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))\n"
QUEUE = '[evaluations]\nclean = [{attack = "clean"}]\n[[entry]]\nwhy = "a test"\n'
ENTRY = 'defences = ["standard"]\nseeds = [0]\nevaluations = ["clean"]\nrun = {dataset = "digits", eps = "0.2"}\n'
MODULES = {
    "nothing": "",
    "fails": "import torch\n\ndef build():\n    raise RuntimeError('no disk')\n",
    "text": "def build():\n    return 'no network'\n",
    "broken": "def build(:\n",
    "other": BUILD.replace("64, 10", "64, 10, bias=False"),
}
QUEUES = {
    "no-toml": "entry = [",
    "empty": "",
    "table": "[evaluation]\n",
    "list": QUEUE + ENTRY.replace('["clean"]', '["claen"]'),
    "no-list": "[evaluations]\n[[entry]]\nwhy = 'a test'\n" + ENTRY,
    "key": QUEUE + ENTRY + "sede = [0]\n",
    "no-seeds": QUEUE + ENTRY.replace("seeds = [0]", "seeds = []"),
    "no-evaluations": QUEUE + ENTRY.replace('evaluations = ["clean"]\n', ""),
    "weights": QUEUE + ENTRY + "weights = 3\n",
    "no-eps": QUEUE + ENTRY.replace(', eps = "0.2"', ""),
    "why": QUEUE.replace('why = "a test"\n', "") + ENTRY,
    "scale": QUEUE + ENTRY + 'scale = "quik"\n',
    "paper": QUEUE + ENTRY + 'scale = "quick"\npaper = "tian"\n',
    "seeds": QUEUE + ENTRY.replace("seeds = [0]", "seeds = 0"),
    "field": QUEUE + ENTRY.replace("{dataset", "{epoch = 3, dataset"),
    "type": QUEUE + ENTRY.replace("{dataset", "{epochs = 'three', dataset"),
    "defence": QUEUE + ENTRY.replace("standard", "standrad"),
    "section": QUEUE + 'section = "tian2021/4-1"\nscale = "quick"\n',
    "evaluation": QUEUE.replace("{attack", "{atack") + ENTRY,
    "epoch-large": QUEUE + ENTRY.replace("{dataset", "{epoch_images = 5000, dataset"),
    "beyond": QUEUE + ENTRY.replace("{dataset", "{epoch_images = 50, measure = 30, dataset"),
}


# What no invalid input may reach.
STARTS = ("runs.schedule.pool.compute", "runs.audit_evaluation._seconds")
STARTS += ("book.notebooks.execute", "runs.record.recorder.record")


class Case(NamedTuple):
    """What is written, the words and the environment variables that it stands for, and the answer."""

    line: str
    words: list[str]
    environment: dict[str, str]
    answer: str


def cases(path: Path) -> Iterator[Case]:
    """Return the cases of a golden file: a line "$ VARIABLE=value classwise command", and one with the answer."""
    lines = path.read_text().splitlines()
    for line, answer in zip(lines[::2], lines[1::2], strict=True):
        variables, words = re.fullmatch(r"\$ (.*?)\bclasswise ?(.*)", line).groups()
        environment = dict(word.split("=", 1) for word in shlex.split(variables))
        yield Case(line, shlex.split(words.replace("audit ...", f"audit {AUDIT}")), environment, answer)


CASES = [case for path in GOLDEN for case in cases(path)]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("invalid"))


def fill(place):
    """Return a folder, with all in it that a command may name, and a data folder with a run and a damaged one."""
    for name, code in MODULES.items():
        (place / f"{name}.py").write_text(code)
    for folder in ("folder", "queues", "data/runs", "pictures/a", "pictures/b"):
        (place / folder).mkdir(parents=True)
    for name, text in QUEUES.items():
        (place / "queues" / f"{name}.toml").write_text(text)
    (place / "text.pt").write_text("no weights")
    (place / "pickle.pt").write_bytes(pickle.dumps({"a": Path()}))
    digits = images.load("digits", "test", 0)
    weights = models.build("small-cnn", digits, 4).state_dict()
    five = models.build("small-cnn", digits.only(digits.classes[:5]), 4).state_dict()
    safetensors.torch.save_file(weights, place / "net.safetensors")
    safetensors.torch.save_file(five, place / "five.safetensors")
    safetensors.torch.save_file({name: value * torch.nan for name, value in weights.items()}, place / "nan.safetensors")
    safetensors.torch.save_file({name: weights[name] for name in weights if name != "head.bias"}, place / "less.safetensors")
    for number in range(3):
        Image.new("L", (8, 8), 50 * number).save(place / "pictures" / "a" / f"{number}.png")
        (place / "pictures" / "b" / f"{number}.png").write_bytes(b"no picture")
    with pytest.raises(UserError, match="skip-bad"):
        images.load(f"folder:{place / 'pictures'}", "test")  # which caches what it reads
    _archives(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLASSWISE_DATA", str(place / "data"))
        for spec in (SPEC, DAMAGED):
            mocks.store_run(spec)
        damaged = store.run_folder(DAMAGED) / "history.nc"
        damaged.write_bytes(damaged.read_bytes()[:2000])
    return place


def _archives(place):
    runs = {"../../here/x": {"evaluations": [], "files": {}}}
    head = {"format": "classwise recorded 1", "recipe": 1, "schemas": [], "runs": runs}
    contents = {
        "foreign": ("readme.txt", b"hello"),
        "manifest": ("manifest.json", b"{"),
        "format": ("manifest.json", json.dumps(head | {"format": "classwise recorded 9"}).encode()),
        "escapes": ("manifest.json", json.dumps(head).encode()),
    }
    for name, (member, content) in contents.items():
        with tarfile.open(place / f"{name}.tar", "w") as tar:
            about = tarfile.TarInfo(member)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))


def state(place):
    """Return the size and the time of change of each file below a folder, and its folders."""
    paths = [path for path in sorted(place.rglob("*")) if "__pycache__" not in path.parts]
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) if path.is_file() else () for path in paths}


def environment_of(case, place):
    return {"CLASSWISE_DATA": str(place / "data"), "CLASSWISE_IMAGES": str(place), "COLUMNS": "400", **case.environment}


def started(*_, **__):
    raise AssertionError("something was started")


def answered(case, place):
    """Return the exit code, the output and the error of a command in a folder."""
    out, error = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(error):
        patch.chdir(place)
        patch.setattr(sys, "argv", ["classwise", *case.words])
        for where in ("core.paths", "book.build"):
            patch.setattr(f"classwise.{where}.build_folder", lambda: place / "build")
        for name in STARTS:
            patch.setattr(f"classwise.{name}", started)
        for name, value in environment_of(case, place).items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as stopped:
            main()
    return stopped.value.code, out.getvalue(), error.getvalue()


def fits(answer, error):
    return re.fullmatch(re.escape(answer).replace(re.escape("..."), ".*"), error.strip()) is not None


def check(case, place, before, code, out, error):
    assert fits(case.answer, error), error
    assert (code, out) == (2 if error.startswith("classwise: ") else 0, "")
    assert state(place) == before


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.line.removeprefix("$ "))
def test_a_slip_is_answered_in_one_line_and_leaves_nothing_behind(workplace, case):
    before = state(workplace)
    check(case, workplace, before, *answered(case, workplace))


def test_slips_are_answered_likewise_by_processes(workplace):
    chosen = [case for case in CASES if case.line.endswith(("--scheduler here", "audit ... --attack fgsmm"))]
    before, started = state(workplace), []
    for case in chosen:
        environment = os.environ | environment_of(case, workplace)
        command = [sys.executable, "-B", "-m", "classwise", *case.words]
        started.append(subprocess.Popen(command, cwd=workplace, env=environment, stdout=-1, stderr=-1, text=True))
    for case, process in zip(chosen, started, strict=True):
        out, error = process.communicate(timeout=300)
        check(case, workplace, before, process.returncode, out, error)


# What takes seconds to import, and what only pages, pictures and tests of claims need.
SLOW = ["torch", "altair", "papermill", "nbformat", "nbconvert", "IPython", "ipywidgets", "jupyter_book", "matplotlib"]
SLOW += ["sklearn", "statsmodels", "scipy.stats", "networkx", "torchvision", "distributed"]
WITHOUT_SLOW = """
import json, sys
from classwise.__main__ import main
slow = set(json.loads(sys.argv[2]))
for words in json.loads(sys.argv[1]):
    sys.argv = ["classwise", *words]
    try:
        main()
    except SystemExit:
        pass
    if slow & set(sys.modules):
        raise SystemExit(f"{slow & set(sys.modules)} imported by {words}")
"""


def test_commands_list_show_and_check_their_input_before_what_is_slow_is_imported(workplace):
    quick = ("lst", "show", "list", "run", "book")
    cases = [case for case in CASES if case.words[0] in quick or case.words[1:] in ([], ["--scale", "quik"])]
    # What these two answer depends on whether a book is built here.
    invalid = [case.words for case in cases if case.environment == {} and case.words[0] not in ("serve", "zip")]
    words = [["list"], ["show", SPEC.id], *invalid]
    environment = os.environ | environment_of(CASES[0]._replace(environment={}), workplace)
    command = [sys.executable, "-B", "-c", WITHOUT_SLOW, json.dumps(words), json.dumps(SLOW)]
    done = subprocess.run(command, cwd=workplace, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-1000:]
    assert done.stderr.count("classwise: ") == len(invalid)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        place = fill(Path(folder))
        for path in GOLDEN:
            for case in list(cases(path)):
                error = answered(case, place)[2].strip()
                if not fits(case.answer, error):
                    now = re.sub(r"there are.*", "there are...", error.replace(folder, "..."))
                    path.write_text(path.read_text().replace(f"{case.line}\n{case.answer}\n", f"{case.line}\n{now}\n"))
