"""What the pages of each paper cost at scale quick, by the rates of one idle core in golden/core-seconds.json.

`python -m tests.papers.test_core_seconds` writes that file from the measurements of a build that began with no runs on an idle
machine. Nothing is timed here: the forecast counts operations, so that a section that requests more is noticed at once.
"""

import json
import sys
from pathlib import Path

import pytest

from classwise.book import build
from classwise.papers import registry
from classwise.runs.schedule.cost import Costs, pace_file

FILE = Path(__file__).parents[1] / "golden" / "core-seconds.json"
REFERENCE = json.loads(FILE.read_text()) if FILE.exists() else {}
# The seconds of one core that the pages of a paper, "" for those of none, may take at scale quick by the forecast: trainings,
# evaluations and the execution of notebooks; what several share counts for the first. Two cores need 19 minutes for the book.
CORE_SECONDS: dict[str, float] = {"benz2020": 780, "tian2021": 430, "wei2023": 365, "entropy2022": 420, "": 305}


def forecast(costs: Costs) -> tuple[dict[str, float], set[str]]:
    """Return by section the seconds of its runs and evaluations, each counted once, and the ids without a measured rate."""
    counted = set()
    result = dict.fromkeys(registry.SECTIONS, 0.0)
    for section in result:
        for spec, evaluations in registry.request(section).pairs:
            for item in {(spec, None), *((spec, evaluation) for evaluation in evaluations)} - counted:
                counted.add(item)
                result[section] += costs.seconds(*item)
    return result, {spec.id for spec, evaluation in counted if costs.rate(spec, evaluation) is None}


@pytest.fixture
def known(tmp_path):
    path = tmp_path / "pace.json"
    path.write_text(json.dumps({REFERENCE["device"]: REFERENCE["rates"]}))
    return Costs(REFERENCE["device"], gpu=False, file=path)


def test_every_paper_stays_within_its_seconds(known, data):
    runs, unmeasured = forecast(known)
    assert not unmeasured, "golden/core-seconds.json lacks rates of these runs; write it again"
    total = dict.fromkeys(CORE_SECONDS, 0.0)
    for name, value in [*runs.items(), *REFERENCE["notebooks"].items()]:
        total[registry.paper_of(name)] += value
    print({paper or "no paper": round(value) for paper, value in total.items()})
    assert {paper: value for paper, value in total.items() if value > CORE_SECONDS[paper]} == {}


def test_each_executed_page_has_its_seconds():
    assert set(REFERENCE["notebooks"]) >= set(registry.SECTIONS)


if __name__ == "__main__":
    from classwise.runs.compute import device

    here = device.name_and_threads()[0]
    rates = json.loads(pace_file().read_text())[here]
    notebooks = {name: value for name, value in build.known_seconds().items() if name != "render"}
    FILE.write_text(json.dumps({"device": here, "rates": rates, "notebooks": notebooks}, indent=1, sort_keys=True) + "\n")
    sys.exit(0)
