"""Ids, stored files and archives of earlier versions stay valid: what was computed once is never lost to a rename.

`python -m tests.test_golden` writes golden/ids.json again: the ids that scales and sections request now are added; it refuses if
a known spec or evaluation would get another id. Do that when a scale or a section changes what it requests, and say why in the
commit. golden/verdicts.json holds the verdicts of commit ca80f6b on the runs of its archive; it changes only with a statistic.
"""

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from claim_answers import trained_thrice
from typer.testing import CliRunner

from classwise import defences, runs
from classwise.__main__ import app
from classwise.core.spec import Evaluation, Spec
from classwise.papers import registry, scales
from classwise.papers.claims import VERDICTS, Verdict
from classwise.papers.sections import Request
from classwise.runs import store
from classwise.runs.record import archive
from classwise.runs.schedule import plan
from classwise.stats import aggregate, metrics

GOLDEN = Path(__file__).with_name("golden")
IDS = json.loads((GOLDEN / "ids.json").read_text())
JUDGED = json.loads((GOLDEN / "verdicts.json").read_text())
KINDS = {"specs": Spec, "evaluations": Evaluation}
# Fields of a verdict that are no result, or that say why there is none.
UNWRITTEN = ("claim", "scale", "dataset", "reason", "unreachable")
ATTRIBUTES = {"checks", "commit", "created", "device", "evaluation", "id", "recorded", "schema", "spec", "threads", "torch"}
ATTRIBUTES |= {"version"}
ARCHIVE = GOLDEN / "recorded-ca80f6b.tar"


def parts(name: str, request: Request) -> Iterator[tuple[str, Request]]:
    """Return a request and those of its parts, by "section | part | part"."""
    yield name, request
    for part, inner in request.parts.items():
        yield from parts(f"{name} | {part}", inner)


def requested() -> dict[str, list[list[str]]]:
    """Return by "scale section | part" the ids of the runs and of the evaluations that it requests."""
    result = {}
    for scale in scales.SCALES:
        for section in registry.SECTIONS:
            for name, part in parts(f"{scale} {section}", registry.request(section, scale)):
                evaluations = {one.id for spec in part.specs for one in part.evaluations_of(spec)}
                result[name] = [sorted({spec.id for spec in part.specs}), sorted(evaluations)]
    return result


def recipes() -> dict[str, dict[str, str]]:
    """Return by paper and defence the id of the training at scale paper."""
    names = defences.DEFENCES
    return {paper: {name: registry.training("paper", name, 0, paper).id for name in names} for paper in registry.PAPERS}


def changed_ids(ids: dict[str, Any]) -> list[str]:
    """Return a line about each canonical JSON that gives another id than its own."""
    result = []
    for kind, cls in KINDS.items():
        for known, canonical in ids[kind].items():
            fields = {name: tuple(value) if isinstance(value, list) else value for name, value in canonical.items()}
            now = cls(**fields).id
            if now != known:
                result.append(f"{kind}: {known} becomes {now}: {json.dumps(canonical)}")
    return result


def regenerated(ids: dict[str, Any]) -> dict[str, Any]:
    """Return the content of ids.json with what is requested now; SystemExit if a known id would change."""
    changed = changed_ids(ids)
    if changed:
        sys.exit("\n".join(["ids.json is not written: stored results would be lost", *changed]))
    specs, evaluations = dict(ids["specs"]), dict(ids["evaluations"])
    requests = [registry.request(name, scale) for scale in scales.SCALES for name in registry.SECTIONS]
    for spec, given in (pair for request in requests for pair in request.pairs):
        specs.setdefault(spec.id, spec.canonical())
        for evaluation in (one for each in given for one in (each, each.resolve_for(spec))):
            evaluations.setdefault(evaluation.id, evaluation.canonical())
    return {"specs": specs, "evaluations": evaluations, "requested": requested(), "recipes": recipes()}


def test_canonical_json_keeps_its_id():
    assert all(len(IDS[kind]) > 200 for kind in KINDS)
    assert changed_ids(IDS) == []


def test_a_changed_id_is_never_written():
    known, canonical = next(iter(IDS["specs"].items()))
    with pytest.raises(SystemExit, match=f"0000 becomes {known}"):
        regenerated({"specs": {"0000": canonical}, "evaluations": {}})


def test_scales_ask_for_the_same_runs_and_evaluations():
    assert requested() == IDS["requested"]


def test_papers_train_by_the_same_recipes():
    assert recipes() == IDS["recipes"]


def trained(defence: str) -> Spec:
    """Return a run of the archive."""
    return Spec(dataset="digits", model="small-cnn", width=4, eps="0.2", epochs=2, defence=defence)


def test_an_archive_of_an_earlier_version_imports_and_nothing_is_computed_again(data):
    new, same = archive.unpack(ARCHIVE)
    assert (len(new), same) == (2, [])
    assert [folder.name for folder in store.stored_runs()] == [
        f"pgd-at-{trained('pgd-at').id}",
        f"standard-{trained('standard').id}",
    ]
    specs, evaluations = [trained("standard"), trained("pgd-at")], (Evaluation(), Evaluation(attack="pgd-20"))
    assert plan.missing([(spec, evaluations) for spec in specs]) == {}
    outcomes = runs.outcomes(specs, evaluations)
    assert set(outcomes.data_vars) == {"truth", "prediction", "misclassified", "logits", "distance"}
    correct = metrics.correct(aggregate.counts(outcomes)).sum("label").squeeze("seed")
    assert correct.transpose("defence", "attack").values.tolist() == [[335, 1], [276, 72]]
    assert set(store.Key(specs[0], store.OUTCOMES, evaluations[0].resolve_for(specs[0])).read().attrs) == ATTRIBUTES
    assert set(runs.history(specs).dims) == {"defence", "seed", "epoch", "split", "attack", "label", "predicted"}


def plain(verdict: Verdict) -> dict[str, Any]:
    """Return the result of a verdict as JSON holds it, NaN as None."""
    fields = {name: value for name, value in vars(verdict).items() if name not in UNWRITTEN}
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in fields.items()}


def judged(name: str) -> dict[str, dict[str, Any]]:
    """Return the verdicts of a section on the archive, by claim; "SECTION exchanged" takes each network for the other."""
    section, _, exchanged = name.partition(" ")
    outcomes = runs.outcomes([trained("standard"), trained("pgd-at")], (Evaluation(), Evaluation(attack="pgd-20")))
    if exchanged:
        outcomes = outcomes.assign_coords(defence=outcomes.defence.values[::-1])
    verdicts = registry.judge(section, trained_thrice(outcomes), scale="quick", strict=False)
    return {verdict.claim.name: plain(verdict) for verdict in verdicts}


@pytest.mark.parametrize("name", JUDGED)
def test_verdicts_of_an_earlier_version_stay_equal_to_the_last_digit(data, name):
    archive.unpack(ARCHIVE)
    assert judged(name) == JUDGED[name]


def test_the_verdicts_are_of_every_kind():
    assert {one["verdict"] for section in JUDGED.values() for one in section.values()} == set(VERDICTS)


def test_the_command_shows_a_run_of_an_earlier_version(data):
    archive.unpack(ARCHIVE)
    result = CliRunner().invoke(app, ["show", trained("pgd-at").id[:4]])
    assert result.exit_code == 0, result.output
    assert trained("pgd-at").id in result.output
    lines = [line.split() for line in result.output.splitlines()]
    assert ["dataset", "digits", "none"] in lines
    assert [line[0] for line in lines if line and line[0] in ("clean", "pgd-20")] == ["clean", "pgd-20"]
    assert [[line[1], line[3]] for line in lines if line[:1] == ["overall"]] == [["76.7", "72.0"], ["20.0", "16.2"]]


if __name__ == "__main__":
    written = json.dumps(regenerated(IDS), indent=1, sort_keys=True) + "\n"
    (GOLDEN / "ids.json").write_text(written)
