import pytest
import torch
from torch import nn

from classwise import attacks, images, models, outcomes
from classwise.attacks import Attack
from classwise.balls import L2, Linf
from classwise.errors import UserError


class Escape(Attack):
    """An attack that leaves the ball for every other image."""

    def search(self, model, x, y, ball, generator):
        far = x.clone()
        far[::2] += 2 * ball.radius
        return far


class Nothing(Attack):
    """An attack whose gradients are not numbers."""

    def search(self, model, x, y, ball, generator):
        return torch.full_like(x, torch.nan)


def test_an_attack_that_leaves_the_ball_has_failed_and_helps_nobody():
    test = images.load("digits", "test")
    wrong = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    found = outcomes.evaluate(wrong, test, Escape(), Linf(0.1), batch=50)
    inside = torch.arange(len(test)) % 2 == 1
    with torch.no_grad():
        clean = wrong(test.batch(slice(None))[0]).argmax(1)
    assert torch.equal(found.answer, clean)
    assert torch.equal(found.flipped, clean != found.truth)
    assert torch.allclose(found.distance[~inside], torch.tensor(0.2), atol=1e-6)


def test_rows_are_in_the_order_of_the_images_and_the_mode_is_restored():
    test = images.load("digits", "test")
    model = models.build("small-cnn", test, 4).train()
    done = []
    found = outcomes.evaluate(model, test, attacks.ATTACKS["clean"], Linf(0.1), batch=100, report=done.append)
    assert model.training
    assert done == [100, 200, 300, 360]
    assert torch.equal(found.index, test.index)
    assert torch.equal(found.truth, test.labels)
    with torch.no_grad():
        logits = model.eval()(test.batch(slice(None))[0])
    assert torch.allclose(found.logits, logits, atol=1e-5)
    assert torch.equal(found.answer, found.logits.argmax(1))


def test_the_seed_decides_an_attack():
    test = images.load("digits", "test").take(torch.arange(50))
    model = models.build("small-cnn", test, 4)
    one, same, other = (
        outcomes.evaluate(model, test, attacks.ATTACKS["pgd-10"], Linf(0.1), seed=seed).logits for seed in (0, 0, 1)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_an_attack_that_makes_no_images_is_an_error_not_robustness():
    test = images.load("digits", "test").take(torch.arange(20))
    model = models.build("small-cnn", test, 4)
    with pytest.raises(UserError, match="not finite"):
        outcomes.evaluate(model, test, Nothing(), L2(0.5))


def test_a_transfer_attack_is_made_on_one_model_and_judged_by_another():
    test = images.load("digits", "test").take(torch.arange(60))
    one, other = (models.build("small-cnn", test, 4, seed) for seed in (0, 1))
    attack = attacks.ATTACKS["fgsm"]
    found = outcomes.evaluate(one, test, attack, Linf(0.2), made_on=other)
    x, y = test.batch(slice(None))
    moved = attack(other.eval(), x, y, Linf(0.2), torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(found.logits, one.eval()(moved), atol=1e-5)
    assert not torch.allclose(found.logits, outcomes.evaluate(one, test, attack, Linf(0.2)).logits)


def test_tally_counts_pairs():
    count = outcomes.tally(torch.tensor([0, 0, 1, 2]), torch.tensor([0, 1, 1, 0]), 3)
    assert count.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
