"""What the tests share."""

import hypothesis
import pytest
import torch

from classwise.core.spec import Spec

torch.set_num_threads(1)
# How long an example takes says how busy the machine is; which are tried must not be a matter of luck.
SLOW = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=SLOW)
hypothesis.settings.load_profile("steady")


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """What a test draws without a generator of its own is the same in every run, alone or among others."""
    torch.manual_seed(0)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data folder of the test's own."""
    monkeypatch.setenv("CLASSWISE_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def small() -> Spec:
    """A training of about a second."""
    return Spec(dataset="digits", eps="0.2", width=4, epochs=3, attack="pgd-10", attack_options={"steps": 2})


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
