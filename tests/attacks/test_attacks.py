"""Laws of every attack in the table, and what each is by definition."""

from dataclasses import fields, replace

import pytest
import torch
from layers import Layer, seeded
from torch import nn

from classwise import attacks, images, models
from classwise.attacks import ATTACKS, FGSM, PGD, FriendlyPGD, TargetedPGD, TemperaturePGD
from classwise.attacks.balls import L2, Linf
from classwise.attacks.losses import LOSSES, margin_loss
from classwise.attacks.pgd import STARTS, input_gradient
from classwise.core.errors import UserError
from classwise.defences import DEFENCES
from classwise.defences.training import TrainConfig, begin, train

BALLS = [Linf(0.15), Linf(torch.linspace(0, 0.3, 60)), L2(0.8)]


def brisk(name):
    """The named attack with few steps and queries: the laws hold for any number."""
    attack = ATTACKS[name]
    known = {field.name for field in fields(attack)}
    return replace(attack, **{key: value for key, value in {"steps": 5, "queries": 30, "population": 20}.items() if key in known})


# Sixty images that the network never saw.
X, Y = images.load("digits", "test").batch(slice(0, 60))


@pytest.fixture(scope="module")
def model():
    """A network that gets most digits right and withstands some attacks."""
    data = images.load("digits", "train")
    model = models.build("small-cnn", data, width=4)
    plan = TrainConfig(DEFENCES["pgd-at"], PGD(steps=2), "linf", "eval", "one-cycle", 0.1, 6, 64)
    for _ in train(begin(model, plan, 10, 0.15, 0), data, plan):
        pass
    return model.eval()


def right(model, x, y):
    with torch.no_grad():
        return model(x).argmax(1) == y


@pytest.mark.parametrize("ball", BALLS, ids=["linf", "radius per image", "l2"])
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_stays_in_the_ball_repeats_and_leaves_the_model_as_it_was(model, name, ball, untouched):
    """The contract of every attack; for a radius of zero it returns the images themselves."""
    attack = brisk(name)
    if ball.name not in attack.norms:
        with pytest.raises(UserError, match="is defined for linf balls, got l2"):
            attack(model, X, Y, ball, seeded())
        return
    with untouched(model):
        attacked = attack(model, X, Y, ball, seeded())
    assert torch.equal(attacked, attack(model, X, Y, ball, seeded()))
    assert not attacked.requires_grad
    assert 0 <= attacked.min() <= attacked.max() <= 1
    assert right(model, attacked, Y).sum() <= right(model, X, Y).sum()
    if attack.stops_early and not isinstance(attack, FriendlyPGD):  # that one takes its last steps
        wrong, known = (Y + 1) % 10, right(model, X, Y)
        local = ball.select(known)
        assert torch.equal(attack(model, X[known], wrong[known], local, seeded()), X[known]), "a clean mistake is left alone"
    if attack.minimum_norm:
        assert name in ("fab-t", "cw", "cw@tian2021")  # they look for the closest image, whatever the radius
    elif attack.leaves_ball:
        assert name == "n-fgsm"
        assert not ball.contains(attacked, X).all()
        with pytest.raises(UserError, match="'n-fgsm' leaves the ball, so that it may only train"):
            attacks.build_for_evaluation(name)
    else:
        assert ball.contains(attacked, X).all()
        assert torch.equal(attack(model, X, Y, replace(ball, radius=0.0), seeded()), X)


@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_passes_an_empty_batch(model, name):
    """One would stop a network that flattens images by `.view(len(x), -1)`."""
    some = nn.Sequential(Layer(lambda x: x.view(len(x), -1).view(x.shape)), model)
    known = X[right(model, X, Y)][:6], Y[right(model, X, Y)][:6]
    for labels, radius in ((known[1], 0.001), (known[1], 0.9), ((known[1] + 1) % 10, 0.1)):
        if "linf" in brisk(name).norms:
            brisk(name)(some, known[0], labels, Linf(radius), seeded())


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("loss", ["ce", "margin"])
def test_pgd_breaks_images_from_every_start_with_every_loss(model, start, loss):
    attacked = PGD(steps=10, start=start, loss=loss)(model, X, Y, Linf(0.15), seeded())
    assert right(model, attacked, Y).sum() < right(model, X, Y).sum() - 10


def test_fgsm_is_one_full_step(model):
    gradient = input_gradient(model, X, Y, LOSSES["ce"])[1]
    expected = (X + 0.15 * gradient.sign()).clamp(0, 1)
    assert torch.allclose(FGSM()(model, X, Y, Linf(0.15), seeded()), expected, atol=1e-6)
    one = PGD(steps=1, step=0.15, start="none")
    assert torch.equal(FGSM()(model, X, Y, Linf(0.15), seeded()), one(model, X, Y, Linf(0.15), seeded()))


def test_n_fgsm_is_a_full_step_from_noise_of_two_radii_clipped_to_the_pixels_alone(model):
    noise = 0.3 * (2 * torch.rand(X.shape, generator=seeded()) - 1)
    noisy = (X + noise).clamp(0, 1)
    expected = (noisy + 0.15 * input_gradient(model, noisy, Y, LOSSES["ce"])[1].sign()).clamp(0, 1)
    found = ATTACKS["n-fgsm"](model, X, Y, Linf(0.15), seeded())
    assert torch.allclose(found, expected, atol=1e-6)
    assert (found - X).abs().max() > 0.4


def test_the_step_is_absolute_or_follows_the_radius(model):
    x = X.clamp(0.4, 0.6)
    ball = Linf(torch.linspace(0.01, 0.3, 60))
    fixed = PGD(steps=1, step=0.005, start="none")(model, x, Y, ball, seeded())
    relative = PGD(steps=4, rate=1.0, start="none")
    assert torch.allclose(ball.distance(fixed, x), torch.tensor(0.005), atol=1e-6)
    once = relative._next(x, torch.ones_like(x), x, ball)
    assert torch.allclose(ball.distance(once, x), ball.radius / 4, atol=1e-6)


def test_any_keeps_the_first_broken_iterate(model):
    last = PGD(steps=10, start="none")(model, X, Y, Linf(0.12), seeded())
    any_ = PGD(steps=10, start="none", success="any")(model, X, Y, Linf(0.12), seeded())
    assert not (~right(model, last, Y) & right(model, any_, Y)).any()


def test_restarts_under_last_keep_what_is_broken(model):
    once = PGD(steps=3)(model, X, Y, Linf(0.12), seeded())
    often = PGD(steps=3, restarts=5)(model, X, Y, Linf(0.12), seeded())
    broken = ~right(model, once, Y)
    assert broken.any()
    assert torch.equal(once[broken], often[broken])
    assert (~right(model, often, Y)).sum() >= broken.sum()


def test_a_soft_target_of_certainty_is_a_label(model):
    hard = PGD(steps=5)(model, X, Y, Linf(0.15), seeded())
    soft = PGD(steps=5)(model, X, torch.nn.functional.one_hot(Y, 10).float(), Linf(0.15), seeded())
    assert torch.allclose(hard, soft, atol=1e-6)


def test_temperature_one_is_pgd_and_a_small_one_is_the_margin(model):
    with torch.no_grad():
        logits = model(X)
    for inverse, loss in ((1.0, "ce"), (1e4, "margin")):
        warm = input_gradient(model, X, Y, TemperaturePGD(inverse=inverse).loss_fn)[1]
        plain = input_gradient(model, X, Y, LOSSES[loss])[1]
        assert torch.equal(warm.sign()[plain.abs() > 1e-6], plain.sign()[plain.abs() > 1e-6])
    assert torch.allclose(TemperaturePGD(inverse=1e4).loss_fn(logits, Y) / 1e4, margin_loss(logits, Y), atol=1e-3)


def test_the_published_form_vanishes_in_float32_where_the_stable_one_climbs(model):
    """Methods: beyond a margin of about 103 T the float32 gradient is exactly zero and the attack stands still."""
    sure = right(model, X, Y) & (margin_loss(model(X), Y) < -1)
    x, y = X[sure], Y[sure]
    published, stable = (TemperaturePGD(inverse=200.0, form=form, start="none") for form in ("published", "stable"))
    assert torch.equal(published(model, x, y, Linf(0.15), seeded()), x)
    assert (~right(model, stable(model, x, y, Linf(0.15), seeded()), y)).sum() > 5
    in_double = input_gradient(model.double(), x.double(), y, published.loss_fn)[1]
    model.float()
    assert (in_double != 0).any()


def test_a_targeted_attack_pushes_into_its_target(model):
    ball = Linf(0.25)
    aimed = TargetedPGD(target=8)(model, X, Y, ball, seeded())
    away = PGD(steps=20)(model, X, Y, ball, seeded())
    others = Y != 8
    into = lambda moved: (model(moved).argmax(1)[others] == 8).sum()  # noqa: E731
    assert into(aimed) > into(away)
    assert (model(aimed).argmax(1)[Y == 8] != 8).any()


def test_all_targets_break_what_any_target_breaks(model):
    every = ~right(model, TargetedPGD(start="none")(model, X, Y, Linf(0.15), seeded()), Y)
    for target in (1, 8):
        one = ~right(model, TargetedPGD(target=target, start="none")(model, X, Y, Linf(0.15), seeded()), Y)
        assert not (one & ~every & (target != Y)).any()
    assert every.sum() > one.sum()


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("temperature-pgd-20", {"loss": "margin"}, "has its own loss"),
        ("targeted-pgd-20", {"target": -2}, "target is a class number"),
        ("targeted-pgd-20", {"target": "cat"}, "target is a class number"),
        ("friendly-10", {"rises": "a/b"}, "shares of the training"),
        ("friendly-10", {"restarts": 2}, "one start"),
    ],
)
def test_options_that_do_not_fit_are_named(name, options, says):
    """Bounds and names of a few are those of `test_options`."""
    with pytest.raises(UserError, match=says):
        attacks.build(name, options)
