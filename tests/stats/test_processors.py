import json

import pytest

from classwise.core.errors import UserError
from classwise.stats import benchmarks


def recorded(data, rows):
    folder = data / "recorded" / "processors"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "one.json").write_text(json.dumps({"device": "a processor", "rows": rows}))
    return folder / "one.json"


def row(seed, instructions, correct, same):
    return {
        "defence": "pgd-at", "seed": seed, "instructions": instructions, "attack": "pgd-20",
        "correct": correct, "same": same, "images": 10,
    }  # fmt: skip


def test_nothing_is_recorded_at_first(data):
    assert benchmarks.processors().empty


def test_seeds_are_added_up(data):
    recorded(data, [row(0, "all", 6, 10), row(1, "all", 8, 10), row(0, "old", 5, 9), row(1, "old", 8, 8)])
    table = benchmarks.processors()
    assert table["accuracy, %"].tolist() == [70, 65]
    assert table["same prediction, %"].tolist() == [100, 85]
    assert [key[2] for key in table.index] == ["all", "old"]


def test_a_foreign_file_is_named(data):
    recorded(data, []).write_text("[]")
    with pytest.raises(UserError, match=r"one\.json is not a file of benchmarks\.processors"):
        benchmarks.processors()
