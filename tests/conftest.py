"""What the tests share."""

import os
import shutil
import sys
from pathlib import Path

import hypothesis
import pytest
import torch

from classwise.core.spec import Spec

pytest.register_assert_rewrite("texts")
torch.set_num_threads(1)
# How long an example takes says how busy the machine is; which are tried must not be a matter of luck.
SLOW = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=SLOW)
hypothesis.settings.load_profile("steady")


# What `make quick` leaves out: browsers, kills, clusters, and whatever else takes minutes.
LONG = ("book/", "runs/record/", "runs/schedule/test_cluster", "runs/test_", "test_kills", "test_answers", "test_golden")
LONG_TOO = ("test_invalid_input", "test_project", "test_main", "defences/test_training", "papers/test_", "papers/wei2023/")
LONG_TOO += ("stats/test_masking", "stats/test_features", "attacks/test_agreement")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.relative_to(Path(__file__).parent).as_posix().startswith((*LONG, *LONG_TOO)):
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """What a test draws without a generator of its own is the same in every run, alone or among others."""
    torch.manual_seed(0)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data folder of the test's own."""
    monkeypatch.setenv("CLASSWISE_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture(scope="session")
def small() -> Spec:
    """A training of about a second."""
    return Spec(dataset="digits", eps="0.2", width=4, epochs=3, attack="pgd-10", attack_options={"steps": 2})


@pytest.fixture(scope="session")
def _shelf(tmp_path_factory):
    return tmp_path_factory.mktemp("shelf")


@pytest.fixture
def ready(data, _shelf):
    """A function that puts trained runs into the data folder; each is trained once for all tests."""
    from classwise.runs import store
    from classwise.runs.compute import train

    def put(*specs: Spec) -> None:
        for spec in specs:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("CLASSWISE_DATA", str(_shelf))
                train.train(spec)
                source = store.run_folder(spec)
            shutil.copytree(source, store.run_folder(spec), dirs_exist_ok=True)

    return put


@pytest.fixture
def done(ready, small) -> Spec:
    """The training of `small`, finished in the data folder of the test."""
    ready(small)
    return small


@pytest.fixture
def command(monkeypatch):
    """A function that gives words to the program and returns its exit code."""
    from classwise.__main__ import main

    def run(*words: object) -> int:
        monkeypatch.setattr(sys, "argv", ["classwise", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        return stopped.value.code

    return run


@pytest.fixture(scope="session")
def program() -> str:
    """A browser."""
    from browser import installed

    if (found := installed()) is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no Chromium found; install it, on Debian: apt install chromium")
    return found


@pytest.fixture
def jupyter(monkeypatch) -> None:
    """A Jupyter server runs this kernel for somebody."""
    monkeypatch.setenv("JPY_SESSION_NAME", "a notebook")


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
