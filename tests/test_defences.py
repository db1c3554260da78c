"""Each objective against its formula, restated in float64, and the parts that a defence is made of."""

import pytest
import torch
import torch.nn.functional as F

from classwise import defences, images, models
from classwise.attacks import PGD
from classwise.balls import Linf
from classwise.defences import DEFENCES
from classwise.defences.adversary import Adversary
from classwise.defences.calibrations import ClassWise, Uniform
from classwise.defences.objectives import Adversarial, Standard, Trades
from classwise.errors import UserError


@pytest.fixture
def batch():
    return images.load("digits", "train").batch(slice(0, 64))


@pytest.fixture
def model():
    return models.build("small-cnn", images.load("digits", "train"), 4).train()


def adversary(mode="eval", seed=0):
    return Adversary(PGD(steps=3), Linf(0.1), mode, torch.Generator().manual_seed(seed))


def gradients(model, loss):
    return torch.cat([one.flatten() for one in torch.autograd.grad(loss, list(model.parameters()))])


def restated(name, model, x, y, attacked, beta):
    """The published formulas, image by image, from probabilities."""
    p, q = model(x).softmax(1), model(attacked).softmax(1)
    own = torch.arange(len(y)), y
    if name == "standard":
        return -p[own].log()
    if name == "pgd-at":
        return -q[own].log()
    return -p[own].log() + beta * (p * (p / q).log()).sum(1)


@pytest.mark.parametrize("name", DEFENCES)
def test_an_objective_and_its_gradient_are_the_formula(name, model, batch):
    x, y = batch
    model = model.double().eval()  # batch norm must not depend on who is in the batch
    x, beta = x.double(), torch.full((64,), 6.0, dtype=torch.float64)
    seen = []

    class Watching(Adversary):
        def craft(self, *problem):
            seen.append(super().craft(*problem))
            return seen[-1]

    watching = Watching(PGD(steps=3), Linf(0.1), "eval", torch.Generator().manual_seed(0))
    cost = DEFENCES[name].objective(model, x, y, beta, watching)
    expected = restated(name, model, x, y, seen[0] if seen else x, beta)
    assert torch.allclose(cost.loss, expected, atol=1e-10)
    assert torch.allclose(gradients(model, cost.loss.mean()), gradients(model, expected.mean()), atol=1e-9)


def test_trades_attacks_the_divergence_from_the_clean_answer(model, batch):
    x, y = batch
    model.eval()
    cost = Trades()(model, x, y, torch.ones(64), adversary())
    with torch.no_grad():
        at_noise = F.kl_div(
            model(x + 0.1 * torch.randn_like(x).sign()).log_softmax(1), model(x).softmax(1), reduction="batchmean"
        )
        at_attack = F.kl_div(cost.attacked.log_softmax(1), cost.clean.softmax(1), reduction="batchmean")
    assert at_attack > at_noise


def test_trades_with_beta_zero_is_standard_training(model, batch):
    x, y = batch
    model.eval()
    trades = Trades()(model, x, y, torch.zeros(64), adversary()).loss
    standard = Standard()(model, x, y, torch.zeros(64), adversary()).loss
    assert torch.allclose(trades, standard, atol=1e-6)
    assert torch.allclose(gradients(model, trades.mean()), gradients(model, standard.mean()), atol=1e-6)


@pytest.mark.parametrize(("mode", "moves"), [("eval", 1), ("train", 4)])
def test_the_mode_of_the_attack_decides_how_often_the_running_statistics_move(model, batch, mode, moves):
    x, y = batch
    Adversarial()(model, x, y, torch.zeros(64), adversary(mode))
    assert int(model.body[1].num_batches_tracked) == moves
    assert model.training


def test_trades_ends_on_the_clean_statistics(model, batch):
    x, y = batch
    order = []
    model.body[0].register_forward_hook(lambda module, inputs, _: order.append(inputs[0]) if model.training else None)
    Trades()(model, x, y, torch.ones(64), adversary())
    assert len(order) == 2
    assert torch.equal(order[-1], (x - model.mean) / model.std)


def test_a_uniform_calibration_keeps_all_classes_alike():
    start = ClassWise.alike(3, 0.1, 6.0, torch.device("cpu"))
    assert start.radius.tolist() == pytest.approx([0.1] * 3)
    assert start.weight.tolist() == [1.0] * 3
    assert Uniform()(start, torch.eye(3)) is start


def test_options_reach_the_part_that_has_them():
    assert defences.build("trades", {"beta": 2}).beta == 2
    assert defences.build("trades").beta == 6
    assert defences.build("pgd-at").beta == 0


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: defences.build("trade"), "did you mean 'trades'"),
        (lambda: defences.build("trades", {"betta": 1}), "did you mean 'beta'"),
        (lambda: defences.build("trades", {"beta": "six"}), "beta must be float, got 'six'"),
        (lambda: defences.build("trades", {"beta": -1}), "beta must be 0 or more"),
        (lambda: defences.build("standard", {"beta": 1}), "takes no options"),
    ],
)
def test_slips_are_named(call, says):
    with pytest.raises(UserError, match=says):
        call()
