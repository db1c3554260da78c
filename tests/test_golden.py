"""Ids, stored files and archives of earlier versions stay valid: what was computed once is never lost to a rename.

`python -m tests.test_golden` writes golden/ids.json anew: the ids that scales and sections ask for now are added, those that are
there already must come out the same. Do that when a scale or a section changes what it asks for, and say why in the commit.
"""

import json
from pathlib import Path

import pytest

from classwise import runs
from classwise.core.spec import Evaluation, Spec
from classwise.papers import registry, scales
from classwise.runs import store
from classwise.runs.record import archive
from classwise.runs.schedule import plan
from classwise.stats import aggregate, metrics

GOLDEN = Path(__file__).with_name("golden")
IDS = json.loads((GOLDEN / "ids.json").read_text())
ATTRIBUTES = {"checks", "commit", "created", "device", "evaluation", "id", "recorded", "schema", "spec", "threads", "torch"}
ATTRIBUTES |= {"version"}
ARCHIVE = GOLDEN / "recorded-ca80f6b.tar"


def requested() -> dict[str, list[list[str]]]:
    """Return by "scale section" the ids of the runs and of the evaluations that it asks for."""
    result = {}
    for scale in scales.SCALES:
        for section in registry.SECTIONS:
            pairs = registry.request(section, scale).pairs
            specs = {spec.id for spec, _ in pairs}
            result[f"{scale} {section}"] = [sorted(specs), sorted({one.id for _, some in pairs for one in some})]
    return result


@pytest.mark.parametrize(("kind", "cls"), [("specs", Spec), ("evaluations", Evaluation)])
def test_canonical_json_keeps_its_id(kind, cls):
    assert len(IDS[kind]) > 200
    for known, canonical in IDS[kind].items():
        fields = {name: tuple(value) if isinstance(value, list) else value for name, value in canonical.items()}
        assert cls(**fields).id == known, canonical


def test_scales_ask_for_the_same_runs_and_evaluations():
    assert requested() == IDS["requested"]


def trained(defence: str) -> Spec:
    """Return a run of the archive."""
    return Spec(dataset="digits", model="small-cnn", width=4, eps="0.2", epochs=2, defence=defence)


def test_an_archive_of_an_earlier_version_imports_and_nothing_is_computed_again(data):
    new, same = archive.unpack(ARCHIVE)
    assert (len(new), same) == (2, [])
    assert [folder.name for folder in store.stored()] == [f"pgd-at-{trained('pgd-at').id}", f"standard-{trained('standard').id}"]
    specs, evaluations = [trained("standard"), trained("pgd-at")], (Evaluation(), Evaluation(attack="pgd-20"))
    assert plan.missing([(spec, evaluations) for spec in specs]) == []
    outcomes = runs.outcomes(specs, evaluations)
    assert set(outcomes.data_vars) == {"truth", "answer", "flipped", "logits", "distance"}
    correct = metrics.correct(aggregate.counts(outcomes)).sum("label").squeeze("seed")
    assert correct.transpose("defence", "attack").values.tolist() == [[335, 1], [276, 72]]
    assert set(store.find(specs[0], evaluations[0].resolved_for(specs[0])).attrs) == ATTRIBUTES
    assert set(runs.history(specs).dims) == {"defence", "seed", "epoch", "split", "attack", "label", "predicted"}


if __name__ == "__main__":
    for spec, evaluations in (
        pair for scale in scales.SCALES for name in registry.SECTIONS for pair in registry.request(name, scale).pairs
    ):
        IDS["specs"].setdefault(spec.id, spec.canonical())
        for evaluation in (one for given in evaluations for one in (given, given.resolved_for(spec))):
            IDS["evaluations"].setdefault(evaluation.id, evaluation.canonical())
    written = {kind: dict(sorted(IDS[kind].items())) for kind in ("specs", "evaluations")} | {"requested": requested()}
    (GOLDEN / "ids.json").write_text(json.dumps(written, indent=1, sort_keys=True) + "\n")
