"""A process that is killed at a random moment leaves nothing that changes the results of the next one."""

import pytest

from tests import kills


@pytest.mark.parametrize("name", kills.OPERATIONS)
def test_what_was_killed_gives_the_results_of_an_unbroken_process(name, tmp_path):
    report = kills.survive(name, 1, tmp_path)
    assert report.kills == 1
    assert report.results > 0
    assert not report.different
    assert not report.unfinished
