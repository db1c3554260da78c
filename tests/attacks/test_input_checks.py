"""What an attack says to images, labels, balls and models that do not fit."""

from dataclasses import fields, replace

import pytest
import torch
from layers import Layer
from torch import nn

from classwise.attacks import ATTACKS, FGSM, PGD, evaluate
from classwise.attacks.balls import L2, Linf
from classwise.core.errors import UserError
from classwise.images import Images

X, Y = torch.rand(12, 3, 4, 4, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 5


def network(*after):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 5), *after).eval()


def attacked(model=None, x=X, y=Y, ball=None, attack=None):
    return (attack or PGD(steps=2))(model or network(), x, y, ball or Linf(0.1), torch.Generator().manual_seed(0))


BYTES = (X * 255).byte()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: attacked(x=X * 255), r"pixels must lie in \[0, 1\], got .* divide by 255"),
        (lambda: attacked(x=X * 2 - 1), "normalise inside the model"),
        (lambda: attacked(x=(X * 255).to(torch.uint8)), r"floating point in \[0, 1\], got torch.uint8; write x.float\(\) / 255"),
        (lambda: attacked(x=X * torch.nan), r"pixels must lie in \[0, 1\], got nan"),
        (lambda: attacked(x=X[:0], y=Y[:0]), "the batch is empty"),
        (lambda: attacked(x=X[0]), r"shape \(n, channels, height, width\), got \(3, 4, 4\)"),
        (lambda: attacked(y=Y + 3), "labels must lie in 0 to 4, the classes of the model; got 3 to 7"),
        (lambda: attacked(y=Y - 1), "got -1 to 3"),
        (lambda: attacked(y=Y.float()), r"labels must be integers \(torch.int64\), got torch.float32"),
        (lambda: attacked(y=Y.int()), "got torch.int32; write y.long()"),
        (lambda: attacked(ball=Linf(torch.tensor(0.1))), r"one number or one per image, got shape \(\) for 12 images"),
        (lambda: attacked(y=Y[:5]), "for each of 12 images"),
        (lambda: attacked(y=torch.rand(12, 7)), "have 7 classes, the model has 5"),
        (lambda: attacked(y=torch.rand(12, 5), attack=ATTACKS["apgd-dlr"]), "needs labels, got target probabilities"),
        (lambda: attacked(network().to("meta")), "the model is on meta, the images are on cpu"),
        (lambda: attacked(network(nn.Softmax(1))), "returns probabilities .* leave the softmax out"),
        (lambda: attacked(network(Layer(lambda logits: logits + torch.inf))), "logits are not finite"),
        (lambda: attacked(network(Layer(lambda logits: logits + torch.nan))), "logits are not finite"),
        (lambda: attacked(nn.Flatten().eval(), y=Y * 0, x=X[:, :1, :1, :1]), "two classes or more"),
        (lambda: attacked(ball=Linf(8.0)), "did you mean 8/255"),
        (lambda: attacked(ball=Linf(torch.linspace(0, 4, 12))), "did you mean 4/255"),
        (lambda: attacked(ball=L2(-1.0)), "a radius is 0 or more, got -1"),
        (lambda: attacked(ball=Linf(torch.tensor([0.1, torch.nan] * 6))), "a radius is 0 or more"),
        (lambda: attacked(ball=Linf(torch.ones(5) / 9)), r"one number or one per image, got shape \(5,\) for 12 images"),
        (lambda: Images(X, Y, torch.arange(12), tuple("abcde")), r"must be torch.uint8 .* write \(255 \* x\)"),
        (lambda: Images(BYTES[0], Y, torch.arange(12), tuple("abcde")), r"got torch.uint8 of shape \(3, 4, 4\)"),
        (lambda: Images(BYTES, Y.int(), torch.arange(12), tuple("abcde")), "labels must be torch.int64"),
        (lambda: Images(BYTES, Y, torch.arange(9), tuple("abcde")), "one for each of 12 images"),
        (lambda: Linf("8/255"), "like 8 / 255; got '8/255'"),
    ],
)
def test_mistakes_are_named_before_anything_is_attacked(call, says):
    with pytest.raises(UserError, match=says):
        call()


def test_the_door_lets_in_what_fits():
    assert attacked(ball=L2(8.0)).shape == X.shape
    assert attacked(y=torch.rand(12, 5).softmax(1)).shape == X.shape
    assert attacked(attack=ATTACKS["apgd-ce"], y=torch.rand(12, 5).softmax(1)).shape == X.shape


def test_a_look_at_a_model_in_train_mode_leaves_its_statistics_alone():
    model = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(48, 5)).train()
    FGSM()(model, X, Y, Linf(0.1), torch.Generator().manual_seed(0))
    assert model[0].num_batches_tracked == 1
    assert all(layer.training for layer in model.modules())
    with pytest.raises(UserError, match="leave the softmax out"):
        attacked(network(nn.Softmax(1)).train())


def treacherous(detached):
    """Return a network with finite logits, most of them far from wrong, whose gradients are not finite, or are missing."""
    inner = network().requires_grad_(False)
    return Layer(lambda x: inner(x.detach()) if detached else inner(x) + (x - x).flatten(1).sum(1, keepdim=True).sqrt())


WITH_GRADIENTS = [name for name in ATTACKS if name not in ("clean", "square", "n-attack", "n-attack@tian2021")]


@pytest.mark.parametrize("name", WITH_GRADIENTS)
@pytest.mark.parametrize("norm", [Linf, L2])
def test_no_attack_takes_broken_or_missing_gradients_for_robustness(name, norm):
    """Least of all where the answer to nan, class 0, is the right one."""
    model, attack = treacherous(detached=False).eval(), ATTACKS[name]
    if norm.name not in attack.norms:
        return
    kept = {field.name for field in fields(attack)}
    attack = replace(attack, **{key: value for key, value in {"steps": 3, "queries": 5, "population": 5}.items() if key in kept})
    for y in (model(X).argmax(1), torch.zeros_like(Y)):
        some = (model(X).argmax(1) == y).nonzero()[:, 0]
        if len(some):
            with pytest.raises(UserError, match="gradients were not finite"):
                attacked(model, X[some], y[some], norm(0.1), attack)
    with pytest.raises(UserError, match=r"no gradient with respect to its pixels.*use a black-box attack like square"):
        attacked(treacherous(detached=True).eval(), X, model(X).argmax(1), norm(0.1), attack)


def test_answers_that_are_none_are_no_verdict():
    """The door sees the first eight images."""
    pixels = torch.zeros(12, 3, 4, 4, dtype=torch.uint8)
    pixels[9:] = 255
    sometimes = Layer(lambda x: torch.where(x.flatten(1)[:, :1] > 0.5, torch.nan, x.flatten(1)[:, :5]))
    data = Images(pixels, Y, torch.arange(12), tuple("abcde"))
    for some, says in ((data, "logits for 3 of 12 images are not finite"), (data.take(Y < 0), "no images to evaluate")):
        with pytest.raises(UserError, match=says):
            evaluate.evaluate(sometimes.eval(), some, ATTACKS["clean"], Linf(0.1))
