"""What the pages of each paper cost at scale quick, by the rates of one idle core in runs/schedule/reference.json.

`python -m tests.papers.test_core_seconds` writes that file from the measurements of a build that began with no runs on an idle
machine. Nothing is timed here: the forecast counts operations, so that a section that requests more is noticed at once.
"""

import json
import re
import sys

from classwise.book import execution
from classwise.papers import registry
from classwise.runs.schedule import REFERENCE
from classwise.runs.schedule.cost import Costs, pace_file, reference_costs, seconds_of_step

KNOWN = json.loads(REFERENCE.read_text())
# The seconds of one core that the pages of a paper, "" for those of none, may take at scale quick by the forecast: trainings,
# evaluations and the execution of notebooks; what several share counts for the first. Two cores need 16 minutes for the book.
CORE_SECONDS: dict[str, float] = {"benz2020": 560, "tian2021": 360, "wei2023": 360, "entropy2022": 370, "": 240}


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


def test_every_paper_stays_within_its_seconds(data):
    runs, unmeasured = forecast(reference_costs())
    assert not unmeasured, "reference.json lacks rates of these runs; write it again"
    total = dict.fromkeys(CORE_SECONDS, 0.0)
    pages = {name: value for name, value in KNOWN["executions"].items() if name != "render"}
    for name, value in [*runs.items(), *pages.items()]:
        total[registry.paper_of(re.sub("^(recorded|computed)/", "", name))] += value
    print({paper or "no paper": round(value) for paper, value in total.items()})
    assert {paper: value for paper, value in total.items() if value > CORE_SECONDS[paper]} == {}


def test_each_execution_has_its_seconds():
    known = {one for name, parts in execution.executions("quick").items() if name in registry.SECTIONS for one in parts}
    assert set(KNOWN["executions"]) >= known


if __name__ == "__main__":
    from classwise.runs.compute import device

    here = device.name_and_threads()[0]
    known = {"device": here, "rates": json.loads(pace_file().read_text())[here], "step": seconds_of_step()}
    known["executions"] = execution.known_seconds()
    REFERENCE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    sys.exit(0)
