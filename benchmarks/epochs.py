"""How long an epoch of adversarial training takes, against a textbook loop and between defences."""

import os
import tempfile
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

from classwise import attacks, defences, models
from classwise.attacks.evaluate import confusion_counts
from classwise.defences import training
from classwise.defences.calibrations import ClassSettings, EpochStats
from classwise.images import Images
from classwise.papers import registry
from classwise.runs import store
from classwise.runs.compute import device, train

from .clock import cost, entry, in_turn, timed

Epoch = Callable[[], None]
EPS = 8 / 255
RECIPE: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}


def sizes(device: torch.device) -> tuple[int, int, int]:
    """Return the width of the network, the images of an epoch and of a batch: on a CPU an epoch of a few seconds."""
    return (16, 128, 64) if device.type == "cpu" else (64, 10_000, 128)


def update(model: nn.Module, optimiser: torch.optim.Optimizer, x: Tensor, y: Tensor) -> tuple[float, int]:
    """Update the weights on attacked images as a plain loop does; return the summed loss and the correct predictions."""
    optimiser.zero_grad()
    logits = model(x)
    loss = F.cross_entropy(logits, y)
    loss.backward()
    optimiser.step()
    return loss.item() * len(y), int((logits.argmax(1) == y).sum())


def ours(
    data: Images,
    width: int,
    batch: int,
    defence: str = "pgd-at",
    precision: str = "float32",
    model: str = "resnet18",
    **inner: int,
) -> Epoch:
    """Return our side: an epoch of a defence, its calibration, its averaging and the images it validates on among it."""
    chosen = defences.build(defence, {"average_from": 0.0} if defence.endswith("cfa") else None)
    plan = training.TrainConfig(
        chosen,
        attacks.build(chosen.attack, inner) if chosen.attack else None,
        schedule="constant",
        lr=RECIPE["lr"],
        epochs=10**6,
        batch=batch,
        augment="crop-flip",
        precision=precision,
        validation_attack=attacks.build(chosen.validation_attack) if chosen.needs_validation else None,
        momentum=RECIPE["momentum"],
        weight_decay=RECIPE["weight_decay"],
    )
    network = models.build(model, data, width).to(data.pixels.device)
    state = training.begin(network, plan, 10, EPS, 0)
    valid = data.take(torch.arange(max(10, len(data) // 50), device=data.labels.device))  # as many as CFA validates on
    epochs = training.train(state, data, plan, valid)

    def epoch() -> None:
        next(epochs)

    return epoch


class Pictures(Dataset[tuple[Tensor, int]]):
    """One image at a time, transformed one at a time."""

    def __init__(self, data: Images) -> None:
        self.pictures = [v2.functional.to_pil_image(image) for image in data.pixels.cpu()]
        self.labels = data.labels.tolist()
        self.transform = v2.Compose(
            [v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip(), v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)]
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return self.transform(self.pictures[number]), self.labels[number]


def textbook(data: Images, width: int, batch: int) -> Epoch:
    """Return the loop as tutorials write it: float32, a loader, and an attack whose backward pass reaches the parameters."""
    device = data.pixels.device
    loader = DataLoader(
        Pictures(data), batch, shuffle=True, num_workers=0 if device.type == "cpu" else 4, persistent_workers=False
    )
    model = models.build("resnet18", data, width).to(device).train()
    optimiser = torch.optim.SGD(model.parameters(), **RECIPE)

    def attacked(x: Tensor, y: Tensor, steps: int = 10) -> Tensor:
        model.eval()
        moved = (x + torch.empty_like(x).uniform_(-EPS, EPS)).clamp(0, 1)
        for _ in range(steps):
            moved = moved.detach().requires_grad_()
            F.cross_entropy(model(moved), y).backward()
            assert moved.grad is not None
            step = moved.detach() + 2.5 * EPS / steps * moved.grad.sign()
            moved = torch.min(torch.max(step, x - EPS), x + EPS).clamp(0, 1)
        model.train()
        return moved.detach()

    def epoch() -> None:
        total, right = 0.0, 0
        for images, labels in loader:
            x, y = images.to(device), labels.to(device)
            loss, correct = update(model, optimiser, attacked(x, y), y)
            total, right = total + loss, right + correct
        assert total > 0
        assert right >= 0

    return epoch


def plain(data: Images, width: int, batch: int, model: str, steps: int) -> Epoch:
    """Return the same arithmetic as a plain loop: frozen weights in the attack, channels last, one update of all weights."""
    device, layout = data.pixels.device, torch.channels_last
    network = models.build(model, data, width).to(device, memory_format=layout)
    optimiser, generator = torch.optim.SGD(network.parameters(), nesterov=True, foreach=True, **RECIPE), torch.Generator(device)

    def epoch() -> None:
        for rows in torch.randperm(len(data), device=device).split(batch):
            x, y = data.batch(rows, "crop-flip", generator)
            x = x.contiguous(memory_format=layout)
            low, high = (x - EPS).clamp_(0, 1), (x + EPS).clamp_(0, 1)
            moved = (x + torch.empty_like(x).uniform_(-EPS, EPS)).clamp_(0, 1)
            network.eval().requires_grad_(False)
            for _ in range(steps):
                (slope,) = torch.autograd.grad(F.cross_entropy(network(moved.requires_grad_()), y, reduction="sum"), moved)
                moved = torch.min(torch.max(moved.detach() + 2.5 * EPS / steps * slope.sign_(), low), high)
            update(network.train().requires_grad_(True), optimiser, moved, y)

    return epoch


def against_a_plain_loop(data: Images, rounds: int) -> dict[str, dict[str, Any]]:
    """How many times as long as in a plain loop the steps of an epoch of PGD-AT take as scale laptop trains it."""
    spec = registry.training("laptop", "pgd-at", 0)
    shared = {"model": spec.model, "steps": int(spec.attack_options["steps"])}
    sides = ours(data, spec.width, spec.batch, **shared), plain(data, spec.width, spec.batch, **shared)
    return {"laptop_cost": cost(in_turn(*sides, rounds)[0], "plain loop")}


def against_a_textbook(data: Images, device: torch.device, rounds: int) -> dict[str, dict[str, Any]]:
    """One PGD-10 adversarial epoch of a ResNet-18: ours in bfloat16 and in float32, and the textbook loop."""
    width, _, batch = sizes(device)
    measured = {}
    for precision, suffix in (("bfloat16", ""), ("float32", "_float32")):
        sides = ours(data, width, batch, precision=precision), textbook(data, width, batch)
        measured[f"train_epoch{suffix}"] = entry(in_turn(*sides, rounds)[0], "textbook loop") | {
            "images": len(data),
            "width": width,
        }
    return measured


def costs(data: Images, device: torch.device, rounds: int) -> dict[str, dict[str, Any]]:
    """How many times as long as an epoch of PGD-AT one of TRADES and of CFA takes, on the same network."""
    width, _, batch = sizes(device)
    measured = {}
    for name, defence in (("trades_cost", "trades"), ("cfa_cost", "at-cfa")):
        sides = ours(data, width, batch, defence), ours(data, width, batch)
        measured[name] = cost(in_turn(*sides, rounds)[0], "pgd-at")
    return measured


def calibrating(data: Images, device: torch.device, rounds: int) -> dict[str, dict[str, Any]]:
    """What share of an epoch of PGD-AT counting its predictions and CFA's equations take, without CFA's validation attack."""
    width, _, batch = sizes(device)
    cfa, classes = defences.build("at-cfa").calibration, len(data.classes)
    alike = ClassSettings.uniform(classes, EPS, 0.0, device)
    full, parts = data.labels.to(device), list(data.labels.to(device).split(batch))

    def calibrated() -> None:
        counts = sum(confusion_counts(part, part.flip(0), classes) for part in parts)
        validated = confusion_counts(full[: max(10, len(data) // 50)], full[: max(10, len(data) // 50)], classes)
        cfa(alike, alike, {}, EpochStats(0.5, train=counts, clean=validated, attacked=validated))

    return {"calibration_cost": cost(in_turn(calibrated, ours(data, width, batch), rounds)[0], "pgd-at")}


def measuring(rounds: int) -> dict[str, dict[str, Any]]:
    """How many times as long as its training steps a run of the book takes: with its measuring, and with what it writes."""
    spec = registry.request("tian2021/4-1-class-bias", defences=["pgd-at"], seeds=[0], epochs=8).specs[0]
    seconds = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, CLASSWISE_DATA=folder), device.one_thread():
            total = timed(lambda: train.train(spec))[1]
            history = store.Key(spec).read()
            assert history is not None
            seconds.append((total, float(history.seconds.sum())))
    return {"measuring_cost": cost(seconds, "its steps alone")}
