"""A new attack is a dataclass and its line in ATTACKS; the names that are stored or printed elsewhere follow the table."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from classwise import attacks
from classwise.attacks import ATTACKS, PGD, Attack, AttackResult, AutoAttack
from classwise.attacks.balls import Linf
from classwise.core import results
from classwise.core.spec import Evaluation
from classwise.papers import registry
from classwise.runs import store
from classwise.runs.compute import evaluate, train
from classwise.runs.schedule import cost, plan
from classwise.stats import sanity


@dataclass(frozen=True)
class Guess(Attack):
    """Random corners of the ball; the first misclassified one is kept."""

    black_box: ClassVar[bool] = True
    queries: int = 20

    def search(self, model, x, y, ball, generator):
        result, counted = x.clone(), torch.zeros_like(y)
        for _ in range(self.queries):
            left = model(result).argmax(1) == y
            corners = ball.project(ball.sample(x, generator, surface=True), x)
            result[left], counted[left] = corners[left], counted[left] + 1
        return AttackResult(result, counted)


def test_a_new_attack_is_one_line_in_the_table(data, small, monkeypatch):
    monkeypatch.setitem(ATTACKS, "guess", Guess())
    guess = Evaluation(attack="guess", options={"queries": 10}, per_class=5).resolve_for(small)
    gradients = Evaluation(attack="pgd-10", options={"steps": 1}, per_class=5).resolve_for(small)
    train.train(small)
    for evaluation in (guess, gradients):
        evaluate.evaluate_run(small, evaluation)
    black, white = (store.Key(small, store.OUTCOMES, evaluation).read() for evaluation in (guess, gradients))
    assert black.sizes["image"] == 50
    assert Guess(queries=10).cost(10) == 10
    assert cost.operations(small, guess) > 0
    assert 0 < black.queries.max() <= 10
    broken, unbroken = (data.assign(misclassified=("image", np.full(50, kind))) for data, kind in ((black, True), (white, False)))
    assert sanity.black_box_ahead([("guess", broken), ("pgd-10", unbroken)]) == ["guess"]
    assert plan.traced_evaluations([guess, gradients]) == (gradients,)


@pytest.mark.parametrize("black_box", [True, False])
def test_a_black_box_attack_and_no_other_counts_queries(black_box):
    class Contradiction(Guess):
        def search(self, *problem):
            result = super().search(*problem)
            return result.images if self.black_box else result

    Contradiction.black_box = black_box
    x, y = torch.rand(4, 1, 2, 2), torch.zeros(4, dtype=torch.int64)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
    with pytest.raises(TypeError, match="counts queries if, and only if, it is a black-box attack"):
        Contradiction()(model, x, y, Linf(0.1), torch.Generator())


def test_members_of_ensembles_keep_the_numbers_under_which_they_are_stored():
    members = AutoAttack().members()
    assert (*members, "relaxation") == results.MEMBERS
    assert tuple(name for name, member in members.items() if member.black_box) == results.BLACK_BOX_MEMBERS
    known = {name for attack in ATTACKS.values() for name in attack.members()}
    assert known <= set(results.MEMBERS)


def test_the_attacks_of_published_tables_exist():
    tables = [paper.tables for paper in registry.PAPERS.values() if paper.tables is not None]
    loaded = [table.load(number) for table in tables for number in table.readers]
    names = {str(name) for data in loaded if "attack" in data.coords for name in data.attack.values.ravel()}
    assert {"pgd-20", "n-attack", "autoattack"} <= names - {"transfer"} <= set(ATTACKS)


def test_pgd_with_one_start_and_what_takes_its_steps_can_be_traced_and_black_boxes_have_no_loss():
    for name, attack in ATTACKS.items():
        if type(attack) is PGD:
            assert attack.traceable == ((attack.restarts, attack.loss, attack.success) == (1, "ce", "last")), name
        elif attack.traceable:
            assert all(getattr(type(attack), part) is getattr(PGD, part) for part in ("search", "_last", "_next")), name
        assert attack.loss_fn is None or not attack.black_box, name
    assert [attacks.build("temperature-pgd-20", {"form": form}).traceable for form in ("stable", "published")] == [True, False]
