"""What is killed, interrupted or finds the disk full ends as what was not; what is truncated is refused by name, or repaired.

With EVERY_CHANGE set, each operation is injured at each change of a file; else at three for each injury.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable

import pytest

from classwise.core.results import Damaged
from tests import kills

# What a training does not read again: the copy of its spec, rebuilt images, and the weights of other epochs.
UNREAD = re.compile(r"spec\.json|rebuilt\.nc|weights-")


@pytest.fixture(scope="module")
def killed():
    """A function that kills an operation at a change of a file."""
    with subprocess.Popen([sys.executable, "-m", "tests.kills"], stdin=-1, stdout=-1, text=True) as process:

        def kill(name, data, step):
            print(json.dumps([name, str(data), step]), file=process.stdin, flush=True)
            return int(process.stdout.readline()) == signal.SIGKILL

        yield kill
        process.stdin.close()


@pytest.fixture
def whole(tmp_path):
    """A function that does an operation; it returns what was there before, what is now, and the number of changes of files."""

    def do(name):
        before, after = tmp_path / "before", tmp_path / "after"
        with kills.on(before):
            kills.OPERATIONS[name].prepare()
        shutil.copytree(before, after)
        number = kills.changes(name, after)
        assert set(kills.contents(after)) > set(kills.contents(before))
        return before, after, number

    return do


def chosen(number: int, place: int) -> Iterable[int]:
    """Return the changes at which an injury is done, others for each of the three."""
    every = range(1, number + 1)
    return every if os.environ.get("EVERY_CHANGE") else sorted({every[(number - 1) * (3 * one + place) // 8] for one in range(3)})


@pytest.mark.parametrize("name", kills.OPERATIONS)
def test_what_was_injured_ends_as_what_was_not(name, whole, killed, tmp_path):
    before, after, number = whole(name)
    expected = kills.contents(after)
    for place, injury in enumerate(kills.INJURIES):
        for step in chosen(number, place):
            data = tmp_path / f"{injury}-{step}"
            shutil.copytree(before, data)
            assert killed(name, data, step) if injury == "killed" else kills.injure(name, data, injury, step)
            with kills.on(data):
                kills.OPERATIONS[name].act()
            assert kills.contents(data) == expected, data.name
            assert kills.unfinished(data) == [], data.name


@pytest.mark.parametrize("name", [name for name, one in kills.OPERATIONS.items() if one.repair])
def test_a_truncated_file_is_refused_by_name_or_repaired(name, whole, tmp_path):
    (before, after, number), partly = whole(name), tmp_path / "partly"
    shutil.copytree(before, partly)
    kills.injure(name, partly, "interrupted", 2 * number // 3)
    expected, operation = kills.contents(after), kills.OPERATIONS[name]
    made = [path for path in set(expected) - set(kills.contents(before)) if not UNREAD.search(path)]
    places = [after / path for path in made] + [path for path in partly.rglob("*") if path.suffix in (".pt", ".part")]
    assert len(places) > 1 or name == "examples"
    for number, file in enumerate(places):
        root = after if after in file.parents else partly
        path = shutil.copytree(root, tmp_path / str(number)) / file.relative_to(root)
        path.write_bytes(path.read_bytes()[:200])
        with kills.on(tmp_path / str(number)):
            if path.suffix in (".nc", ".pt") and operation.repair is not operation.act:
                with pytest.raises(Damaged, match=path.name):
                    operation.act()
            operation.repair()
        assert kills.contents(tmp_path / str(number)) == expected, path
