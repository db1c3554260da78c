"""Several users of one data folder, a clock that jumps: nothing is lost and nothing is computed twice."""

import os
import random
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime

import pytest

from classwise import runs
from classwise.core.spec import Evaluation
from classwise.runs import store
from classwise.runs.compute import evaluate, train
from classwise.runs.record import archive
from classwise.runs.schedule import plan
from tests.kills import contents

PGD = Evaluation(attack="pgd-10", options={"steps": 2})


def at_once(action):
    """Do the same twice at the same time, as two users of one data folder, and return both results."""
    with ThreadPoolExecutor() as both:
        return [done.result() for done in [both.submit(action) for _ in range(2)]]


def test_two_users_of_one_folder_train_and_evaluate_once(data, small):
    asked = replace(PGD, batch=60).resolve_for(small)
    lines = []

    def use():
        train.train(small, lambda *step: lines.append(step))
        evaluate.evaluate_run(small, asked, lambda *step: lines.append(step))

    at_once(use)
    assert [line for line in lines if line[0] == "train"] == [("train", epoch, 3) for epoch in range(4)]
    attacked = [line for line in lines if line[0] == "attack"]
    assert len(attacked) == len(set(attacked)) == 7
    assert plan.missing([(small, [asked])]) == {}


def test_two_imports_of_one_archive_import_each_run_once(data, small, ready, tmp_path):
    specs = [replace(small, seed=seed) for seed in (0, 1)]
    ready(*specs)
    path = archive.pack([(spec, []) for spec in specs], tmp_path / "out", weights="full")
    shutil.rmtree(data / "runs")
    assert sorted(len(new) for new, _ in at_once(lambda: archive.unpack(path))) == [0, 2]
    assert all(store.has_recorded_network(spec) for spec in specs)


def test_what_a_killed_import_left_is_removed_and_completed(data, small, done, tmp_path):
    path = archive.pack([(small, [])], tmp_path / "out", weights="full")
    archive.unpack(path)
    before, folder = contents(data / "recorded"), store.recorded_folder(small)
    (data / "recorded" / ".import-killed" / "digits").mkdir(parents=True)
    assert archive.unpack(path) == ([], [small.relative_path])
    for name in ("history.nc", store.WEIGHTS, store.CHECKSUMS):  # each was about to be moved
        (folder / name).unlink()
        assert archive.unpack(path) == ([small.relative_path], [])
        assert contents(data / "recorded") == before
    assert not list((data / "recorded").glob(".import-*"))


@pytest.fixture
def pair(small):
    """A training of a fifth of a second."""
    return replace(small, epochs=2, classes=("3", "8"))


def use(spec, folder):
    """Train, evaluate, pack and import a run."""
    runs.outcomes([spec], [PGD])
    if not archive.contents(folder / "out"):
        archive.pack([(spec, [PGD.resolve_for(spec)])], folder / "out", weights="full")
    archive.unpack(folder / "out" / "recorded-1.tar")


class Jumping(datetime):
    """A clock that shows another year each time."""

    @classmethod
    def now(cls, tz=None):
        return datetime(random.randint(1971, 2037), 1, 1, tzinfo=tz)


def test_a_clock_that_jumps_changes_no_result(data, pair, tmp_path, monkeypatch):
    use(pair, tmp_path)
    expected = contents(data)
    shutil.rmtree(data)
    shutil.rmtree(tmp_path / "out")
    monkeypatch.setattr(store, "datetime", Jumping)
    monkeypatch.setattr(time, "time", lambda: random.uniform(0.0, 2e9))
    use(pair, tmp_path)
    for path in data.rglob("*"):
        os.utime(path, (moment := random.uniform(0.0, 2e9), moment))
    assert contents(data) == expected
    assert plan.missing([(pair, [PGD])]) == {}
