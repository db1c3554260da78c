"""How long one training of the book's smallest scale takes, against a plain loop that takes the same steps."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from classwise import attacks, defences, images
from classwise.attacks import PGD
from classwise.core.identity import radius_value
from classwise.core.spec import Spec
from classwise.defences import training
from classwise.defences.training import optimisation
from classwise.images import Images
from classwise.models import Classifier
from classwise.papers import registry
from classwise.runs.compute import device, networks, train, validate

from .clock import entry, in_turn
from .epochs import update


def trained(spec: Spec, data: Mapping[str, Images]) -> Classifier:
    """Return the network of a run, trained by the project, without measurements between the epochs and without files."""
    config, state, _ = train._begin(spec, data)
    for _ in training.train(state, data["train"], config, data["valid"], data["test"]):
        pass
    assert isinstance(state.model, Classifier)
    return state.model


def attacked(model: Classifier, x: Tensor, y: Tensor, eps: float, inner: PGD, generator: torch.Generator) -> Tensor:
    """Return images after PGD in the Linf ball from a random start, as a plain loop writes it."""
    size = inner.step if inner.step is not None else inner.rate * eps / inner.steps
    noise = 2 * torch.rand(x.shape, generator=generator, device=x.device) - 1
    moved = torch.clamp(torch.min(torch.max(x + eps * noise, x - eps), x + eps), 0, 1)
    for _ in range(inner.steps):
        moved = moved.detach().requires_grad_()
        loss = F.cross_entropy(model(moved), y, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, [moved])
        step = moved.detach() + size * gradient.sign()
        moved = torch.clamp(torch.min(torch.max(step, x - eps), x + eps), 0, 1)
    return moved.detach()


def plain(spec: Spec, data: Mapping[str, Images]) -> Classifier:
    """Return the network of the same run, trained by a plain loop: the same batches, starts and steps, and autograd alone."""
    inner, pixels = plainly(spec), data["train"]
    model, eps = networks.network(spec, pixels), radius_value(spec.eps)
    optimiser = torch.optim.SGD(
        model.parameters(), spec.lr, momentum=spec.momentum, nesterov=spec.nesterov, weight_decay=spec.weight_decay
    )
    generator = torch.Generator(pixels.pixels.device).manual_seed(spec.training_seed)
    for epoch in range(spec.epochs):
        total, right = 0.0, 0
        rows = torch.randperm(len(pixels), generator=generator, device=pixels.pixels.device).split(spec.batch)
        for number, some in enumerate(rows):
            progress = (epoch + (number + 0.5) / len(rows)) / spec.epochs
            for group in optimiser.param_groups:
                group["lr"] = spec.lr * optimisation.factor(spec.schedule, spec.milestones, spec.epochs, progress)
            x, y = pixels.batch(some, spec.augment, generator)
            model.train(spec.batch_norm == "train")
            moved = attacked(model, x, y, eps, inner, generator)
            model.train()
            loss, correct = update(model, optimiser, moved, y)
            total, right = total + loss, right + correct
        assert total > 0
        assert right >= 0
    return model.eval()


def plainly(spec: Spec) -> PGD:
    """Return the inner attack of a run; ValueError if the plain loop does not train as the run does."""
    inner = attacks.build(spec.attack or str(defences.build(spec.defence).attack), spec.attack_options)
    same: dict[str, Any] = {"norm": "linf", "precision": "float32", "optimiser": "sgd", "decay": "all", "select": None}
    same |= {"defence": "pgd-at", "options": {}, "layer": "batch", "warm_start": None, "extra": None}
    differs = [name for name, value in same.items() if getattr(spec, name) != value]
    if differs or not isinstance(inner, PGD) or inner != PGD(steps=inner.steps, step=inner.step, rate=inner.rate):
        raise ValueError(f"the plain loop does not train as {spec.name}: {', '.join(differs) or inner}")
    return inner


def split(spec: Spec) -> dict[str, Images]:
    """Return the images of a run by split."""
    return {name: validate.images_of(spec, name, extra=name == "train") for name in images.SPLITS}


def quick_run(rounds: int) -> dict[str, dict[str, Any]]:
    """How many times as long as our training the plain loop takes, on one thread, as the book's runs do."""
    spec = registry.training("quick", "pgd-at", 0)
    data, first = split(spec), replace(spec, epochs=1)
    with device.one_thread():
        trained(first, data), plain(first, data)  # the first calls pay for what is set up once

        def ours() -> None:
            trained(spec, data)

        def theirs() -> None:
            plain(spec, data)

        return {"quick_run": entry(in_turn(ours, theirs, rounds, warm=False)[0], "plain loop")}
