"""What the tests of the papers share."""

import pytest

from classwise.charts import style


@pytest.fixture(autouse=True, scope="session")
def _setup() -> None:
    style.setup()
