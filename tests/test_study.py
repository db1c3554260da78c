import pytest

from classwise import study
from classwise.errors import UserError
from classwise.run import compute


@pytest.mark.parametrize("section", study.SECTIONS)
@pytest.mark.parametrize("scale", study.SCALES)
def test_every_section_asks_for_runs_that_exist(section, scale):
    request = study.request(section, scale)
    assert request.specs
    for spec, evaluations in request.asked:
        compute.check(spec)
        for evaluation in evaluations:
            compute.check_evaluation(evaluation, spec)
    assert len(set(request.specs)) == len(request.specs)


def test_changes_reach_every_run():
    request = study.request("tian2021/4-1-class-bias", seeds=[7], defences=["trades"], eps="0.1", eval_eps=0.3, epochs=2)
    assert [(one.defence, one.seed, one.eps, one.epochs) for one in request.specs] == [("trades", 7, "0.1", 2)]
    assert {one.eps for one in request.evaluations} == {"0.3"}


def test_sections_share_their_runs():
    ids = [{spec.id for spec in study.request(section).specs} for section in study.SECTIONS]
    assert ids[0] == ids[1] >= ids[2]
    assert len(ids[0] & ids[3]) == 4


def test_a_section_may_repeat_its_runs_less_often():
    assert {spec.seed for spec in study.request("defences").specs} == {0, 1}
    assert {spec.seed for spec in study.request("defences", seeds=[3]).specs} == {3}


def test_some_questions_are_put_to_one_defence_only():
    request = study.request("defences", eval_eps=0.1)
    for spec, evaluations in request.asked:
        assert ("average" in {one.checkpoint for one in evaluations}) == (spec.defence == "trades-cfa")
        assert {one.eps for one in evaluations} == {"0.1"}


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: study.request("tian2021/4-1-clas-bias"), "did you mean 'tian2021/4-1-class-bias'"),
        (lambda: study.request("tian2021/4-1-class-bias", "quik"), "did you mean 'quick'"),
        (lambda: study.request("tian2021/4-1-class-bias", seeds=[]), "at least one member"),
        (lambda: study.request("tian2021/4-1-class-bias", defences="trades"), "must be a list"),
        (lambda: study.request("tian2021/4-1-class-bias", epoch=3), "did you mean 'epochs'"),
    ],
)
def test_slips_are_named(call, says):
    with pytest.raises(UserError, match=says):
        call()
