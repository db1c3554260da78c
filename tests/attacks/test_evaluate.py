from dataclasses import replace
from functools import cache

import pytest
import torch
from layers import Layer
from torch import nn

from classwise import attacks, images, models
from classwise.attacks import Attack, evaluate, sanity
from classwise.attacks.balls import L2, Linf
from classwise.attacks.evaluate import EvaluationSettings
from classwise.core.errors import UserError
from classwise.models import modes
from classwise.stats.sanity import sanity_warnings


class Escape(Attack):
    """An attack that leaves the ball for every other image."""

    def search(self, model, x, y, ball, generator):
        far = x.clone()
        far[::2] += 2 * ball.radius
        return far


class Nothing(Escape):
    """An attack whose gradients are not numbers."""

    def search(self, model, x, y, ball, generator):
        return torch.full_like(x, torch.nan)


@cache
def _digits():
    return images.load("digits", "test")


def digits(count=60, seed=0):
    test = _digits().take(torch.arange(count))
    return test, models.build("small-cnn", test, 4, seed).eval()


@torch.no_grad()
def logits_of(model, test):
    return model.eval()(test.batch(slice(None))[0])


def found_by(model, test, attack, ball=Linf(0.1), **settings):  # noqa: B008 (frozen)
    chosen = attacks.ATTACKS[attack] if isinstance(attack, str) else attack
    return evaluate.evaluate(model, test, chosen, ball, EvaluationSettings(**settings))


def test_an_attack_that_leaves_the_ball_has_failed_and_helps_nobody():
    test, _ = digits()
    wrong = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    found = found_by(wrong, test, Escape(), batch=50)
    assert torch.equal(found.prediction, logits_of(wrong, test).argmax(1))
    assert torch.equal(found.misclassified, found.prediction != found.truth)
    assert torch.allclose(found.distance[::2], torch.tensor(0.2), atol=1e-6)
    assert sanity.sanity_checks(wrong, test, Escape(), found)["outside"] == 30
    with pytest.raises(UserError, match="not finite"):
        found_by(wrong, test, Nothing(), L2(0.5))


def test_rows_are_in_the_order_of_the_images_and_the_mode_is_restored():
    test, model = digits(360)
    model.train().body[1].eval()
    found = found_by(model, test, "clean", batch=100)
    assert (model.training, model.body[0].training, model.body[1].training) == (True, True, False)
    assert torch.equal(found.index, test.index)
    assert torch.equal(found.truth, test.labels)
    assert torch.allclose(found.logits, logits_of(model, test), atol=1e-5)
    assert torch.equal(found.prediction, found.logits.argmax(1))
    count = evaluate.confusion_counts(found.truth, found.prediction, 10)
    pairs = list(zip(found.truth.tolist(), found.prediction.tolist(), strict=True))
    assert [[pairs.count((label, other)) for other in range(10)] for label in range(10)] == count.tolist()


def test_a_transfer_attack_is_made_on_one_model_and_judged_by_another():
    (test, one), (_, other) = digits(), digits(seed=1)
    found = found_by(one, test, "fgsm", Linf(0.2), source_model=other)
    x, y = test.batch(slice(None))
    moved = attacks.ATTACKS["fgsm"](other, x, y, Linf(0.2), torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(found.logits, one(moved), atol=1e-5)
    assert not torch.allclose(found.logits, found_by(one, test, "fgsm", Linf(0.2)).logits)
    with pytest.raises(UserError, match="transfers nothing"):
        found_by(one, test, "apgd-ce", source_model=other)


def test_going_on_gives_what_an_unbroken_run_gives():
    test, model = digits()
    attack, settings = attacks.build("square", {"queries": 30}), EvaluationSettings(batch=20, seed=3)
    whole = evaluate.evaluate(model, test, attack, Linf(0.1), settings)
    first = next(evaluate.batches(model, test, attack, Linf(0.1), settings))
    rest = evaluate.batches(model, test, attack, Linf(0.1), settings, begin=20)
    joined = evaluate.Outcomes.concatenate([first, *rest])
    assert not torch.equal(whole.logits, evaluate.evaluate(model, test, attack, Linf(0.1), replace(settings, seed=4)).logits)
    for name, column in vars(whole).items():
        assert column is None or torch.equal(column, getattr(joined, name)), name
    assert whole.queries is not None
    assert whole.member is None


def twin(model):
    """Return the network of a search that answers otherwise than its model on dark images."""
    return Layer(lambda x: torch.where((x.mean((1, 2, 3)) < 0.3)[:, None], model(x).roll(1, 1), model(x)))


def test_the_verdict_is_the_models_and_what_the_search_got_wrong_is_searched_again(monkeypatch):
    test, model = digits()
    test = replace(test, labels=found_by(model, test, "clean").prediction)
    x, y = test.batch(slice(None))
    dark = x.mean((1, 2, 3)) < 0.3
    assert 0 < dark.sum() < len(x)
    monkeypatch.setattr(evaluate, "fuse_for_search", lambda source, x, precision: twin(source))
    attack = attacks.PGD(steps=20, success="any", start="none")
    found = found_by(model, test, attack)
    alone = attack(model, x, y, Linf(0.1), torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = model(alone).argmax(1) != y
    assert torch.equal(found.misclassified[dark], expected[dark])
    assert expected[dark].any()
    # Under "last" the final iterate is final: the search is not repeated.
    last = evaluate.evaluate(model, test, attacks.PGD(steps=1, start="none", step=1e-6), Linf(0.1))
    assert not last.misclassified.any()


def test_precision_is_for_sign_steps_in_linf_only(monkeypatch):
    test, model = digits(20)
    asked = []
    monkeypatch.setattr(evaluate, "fuse_for_search", lambda source, x, precision: asked.append(precision) or source)
    for name, ball in (("clean", Linf(0.1)), ("pgd-10", Linf(0.1)), ("temperature-pgd-20", Linf(0.1)), ("pgd-10", L2(0.5))):
        found_by(model, test, name, ball, precision="bfloat16")
    assert asked == ["bfloat16", "float32", "float32"]


class Doubtful(nn.Module):
    """What should not be believed: saturated, noisy, batch-dependent or stubborn, as asked."""

    def __init__(self, model, kind):
        super().__init__()
        self.model, self.kind, self.norm = model, kind, nn.BatchNorm2d(1)

    def train(self, mode=True):
        super().train(mode)
        self.norm.train(self.kind == "training")
        return self

    def forward(self, x):
        logits = self.model(self.norm(x) if self.kind == "training" else x)
        if self.kind == "randomised":
            return logits + torch.randn_like(logits)
        if self.kind == "batch_dependent":
            return logits + x.sum((2, 3)).mean(0)
        return logits * (1e6 if self.kind == "zero_gradients" else 1)


@pytest.mark.parametrize("kind", ["none", "zero_gradients", "randomised", "batch_dependent", "training"])
def test_what_should_not_be_believed_is_told(kind):
    test, model = digits()
    model = Doubtful(model, kind)
    found = evaluate.evaluate(model, test, attacks.ATTACKS["pgd-10"], Linf(0.1))
    told = sanity.sanity_checks(model, test, attacks.ATTACKS["pgd-10"], found)
    assert (told["zero_gradients"] > 0.5) == (kind == "zero_gradients")
    assert (told["randomised"] > 0.1) == (kind == "randomised")
    assert (told["batch_dependent"] > 0.01 * told["spread"]) == (kind in ("batch_dependent", "randomised", "training"))
    assert told["training"] == (["norm"] if kind == "training" else [])
    assert told["farthest"] == pytest.approx(0.1, abs=1e-6)
    assert 0 <= told["darkest"] < told["brightest"] <= 1
    assert (told["outside"], told["probabilities"], told["asked"]) == (0, False, 60)
    if kind != "randomised":
        assert told["right"] == (~found_by(model, test, "clean").misclassified).sum()


def test_what_members_broke_is_counted_and_of_a_transfer_the_judge_is_doubted():
    test, model = digits()
    attack = attacks.AutoAttack(steps=5, queries=20)
    found, clean = found_by(model, test, attack), found_by(model, test, "clean").misclassified
    told = sanity.sanity_checks(model, test, attack, found)
    assert list(told["broken_by"]) == ["apgd-ce", "apgd-t", "fab-t", "square"]
    assert sum(told["broken_by"].values()) == (found.misclassified & ~clean).sum()
    judge = Doubtful(model, "randomised")
    found = found_by(judge, test, "pgd-10", source_model=model)
    assert sanity.sanity_checks(judge, test, attacks.ATTACKS["pgd-10"], found, model)["randomised"] > 0.1


def test_where_gradients_vanish_or_do_not_exist_it_is_told():
    """The published temperature form stands still on large logits, the stable one does not; Square needs no gradient."""
    test, model = digits()
    loud, square = nn.Sequential(model, Layer(lambda logits: 100 * logits)).eval(), attacks.build("square", {"queries": 20})
    for form, still in (("published", True), ("stable", False)):
        attack = attacks.TemperaturePGD(steps=2, inverse=50.0, form=form, start="none")
        told = sanity.sanity_checks(loud, test, attack, found_by(loud, test, attack, Linf(0.01)))
        assert [told[name] > 0.1 for name in ("zero_gradients", "unmoved")] == [still, still]
    stepwise = nn.Sequential(Layer(lambda x: (x.detach() * 8).round() / 8), model).eval()
    told = sanity.sanity_checks(stepwise, test, square, found_by(stepwise, test, square, Linf(0.2)))
    assert told["zero_gradients"] == 1.0


def flat_up_to(threshold):
    """Return a network that says class 0 unless the mean pixel exceeds a threshold."""
    bias, weight = torch.tensor([0.5] + [0.0] * 9), torch.linspace(-1, 1, 10)
    return Layer(lambda x: bias + torch.relu(x.flatten(1).mean(1, keepdim=True) - threshold) * 50 * weight)


@pytest.mark.parametrize("name", ["pgd-10", "strong", "fgsm"])
def test_gradients_that_vanish_in_a_flat_ball_are_not_called_hidden(name):
    """Images whose mean pixel stays below the threshold in the whole ball are robust; those nearer to it are not."""
    test, radius = images.load("digits", "test"), 0.01
    x, y = test.batch(slice(None))
    means, zeros = x.mean((1, 2, 3)), y == 0
    threshold, attack = float(means[zeros].median()), attacks.ATTACKS[name]
    model = flat_up_to(threshold).eval()
    told = [
        sanity.sanity_checks(model, few, attack, found_by(model, few, attack, Linf(radius)), None, ball)
        for few in (test.take(torch.where(zeros & (means < threshold - 2 * radius))[0]), test.take(torch.where(zeros)[0]))
        for ball in (Linf(radius), None)
    ]
    flat, without, mixed, _ = told
    assert (flat["right"], flat["zero_gradients"], flat["unmoved"], flat["flat"]) == (flat["asked"], 0.0, 0.0, 1.0)
    assert (without["zero_gradients"], without["flat"]) == (1.0, 0.0)
    assert sanity_warnings(flat, flat["asked"]).keys() == {
        "gradients vanish, and the logits are the same at 16 corners of the ball"
    }
    near = (means[zeros] < threshold) & (means[zeros] > threshold - 0.9 * radius)
    assert mixed["zero_gradients"] == pytest.approx(float(near.sum()) / mixed["right"], abs=2 / mixed["right"])
    assert near.any()


def test_an_attack_that_finds_nothing_has_no_distance():
    test, model = digits()
    attack = attacks.FAB(steps=1, targets=1, overshoot=0.0, bias=0.0)
    found = found_by(model, test, attack)
    clean = found_by(model, test, "clean").misclassified
    assert found.distance[~clean].isinf().all()
    assert (found.distance[clean] == 0).all()
    told = sanity.sanity_checks(model, test, attack, found)
    assert (told["farthest"], told["unmoved"]) == (0.0, 0.0)


def test_float32_is_whole_while_a_network_is_judged():
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = True
    try:
        with modes.eval_mode(torch.nn.Linear(2, 2)):
            assert not torch.backends.cudnn.allow_tf32
            assert not torch.backends.cuda.matmul.allow_tf32
        assert torch.backends.cudnn.allow_tf32
    finally:
        torch.backends.cudnn.allow_tf32 = before
