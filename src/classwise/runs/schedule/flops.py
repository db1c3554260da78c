"""Estimates of the arithmetic of a training or an evaluation, made before it runs, and of the bytes that it leaves on disk."""

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from classwise import attacks, defences, models
from classwise.attacks import Passes
from classwise.core.datasets import DatasetSize
from classwise.core.spec import Evaluation, Spec
from classwise.images import Images
from classwise.runs.compute import device, rebuild, threads, validate

# An attack that stops early takes all its steps only on images that withstand it: about this share after adversarial training.
WITHSTANDING = 0.5
# The batch size of the measurements during a training.
_MEASURED_AT_ONCE = 500


@dataclass(frozen=True)
class Flops:
    """Floating-point operations, and passes of a batch through the network, forward or backward."""

    operations: float = 0.0
    passes: float = 0.0

    def __add__(self, other: "Flops") -> "Flops":
        return Flops(self.operations + other.operations, self.passes + other.passes)

    def __mul__(self, times: float) -> "Flops":
        return Flops(self.operations * times, self.passes * times)


@cache
def _network(model: str, width: int, shape: tuple[int, int, int], classes: int, head: str, layer: str) -> tuple[float, int]:
    """Return the operations of the forward pass of one image, and the bytes of the weights."""
    image = Images(torch.zeros(2, *shape, dtype=torch.uint8), torch.arange(2), torch.arange(2), tuple(map(str, range(classes))))
    network = models.build(model, image, width, 0, head, layer).eval()
    operations = 0.0

    def count(layer: nn.Module, _: object, out: Tensor) -> None:
        nonlocal operations
        weight = layer.weight
        assert isinstance(weight, Tensor)
        # Each output multiplies and adds all weights that lead to it.
        operations += 2 * out.numel() * weight[0].numel()

    # Convolutions and linear layers do nearly all of it; the counter in torch takes ten seconds to import.
    for part in network.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            part.register_forward_hook(count)
    with torch.no_grad():
        network(torch.zeros(1, *shape))
    return operations, sum(value.numel() * value.element_size() for value in network.state_dict().values())


def _network_of(spec: Spec, size: DatasetSize) -> tuple[float, int]:
    shape = (size.channels, size.height, size.width)
    return _network(spec.model, spec.width, shape, size.classes, validate.head(spec), spec.layer)


@cache
def speed(model: str, width: int, side: int, images: int) -> tuple[float, float]:
    """Return the operations per second of training steps of a network on one thread, and the seconds of a pass."""
    shape = 3, side, side
    forward, _ = _network(model, width, shape, 10, "linear", "batch")
    pixels = torch.arange(images * math.prod(shape)).remainder(251).to(torch.uint8).view(images, *shape)
    data = Images(pixels, torch.arange(images), torch.arange(images), tuple("0123456789"))
    network, x = models.build(model, data, width), pixels / 255
    with device.one_thread():
        seconds = threads.seconds_of_step(lambda: network(x).sum().backward(), 1)
    return 3 * images * forward / seconds, seconds / 2


def _work(images: int, batch: int, forward: float, passes: Passes) -> Flops:
    """Return the work of passes for images, in batches, through a network whose forward pass takes so many operations."""
    return Flops(images * forward * passes.rows, math.ceil(images / batch) * passes.calls)


def epoch(spec: Spec, *, measured: bool) -> Flops | None:
    """Return the work of an epoch that is measured, or one that is not; None if the number of images is unknown."""
    size = validate.training_size(spec)
    if size is None:
        return None
    defence, (forward, _) = defences.build(spec.defence, spec.options), _network_of(spec, size)
    name, validation = spec.attack or defence.attack, validate.validation_attack(spec)
    passes = defence.objective.training_passes
    # Forward, and backward to the input and to the weights.
    step = Passes(passes, 2 * passes, 2 * passes)
    step += attacks.build(name, spec.attack_options).cost(size.classes) if name else Passes()
    work, once = _work(spec.epoch_images or size.train, spec.batch, forward, step), Passes(forward=1, calls=1)
    if validation is not None:
        selected = len(spec.averages) / spec.select_averages_every if spec.select is not None else 0
        images = round(size.valid * (1 + selected)) + (size.test if spec.test_selected else 0)
        attack = attacks.build(validation)
        share = (1 - spec.select_from) * (WITHSTANDING if attack.stops_early else 1.0)
        work += _work(images, _MEASURED_AT_ONCE, forward, once + attack.cost(size.classes)) * share
    if measured:
        probed = size.test + (0 if validation == spec.probe else size.valid)  # what the training measures is not measured again
        work += _work(probed, _MEASURED_AT_ONCE, forward, once + attacks.build(spec.probe).cost(size.classes))
    return work


def training(spec: Spec) -> Flops | None:
    """Return the work of a training, its measurements and rebuilt images; None if the number of images is unknown."""
    size, usual, measured = validate.training_size(spec), epoch(spec, measured=False), epoch(spec, measured=True)
    if size is None or usual is None or measured is None:
        return None
    count = len({1, spec.epochs, *range(spec.measure, spec.epochs + 1, spec.measure)})
    rebuilt = _work(size.train, rebuild.BATCH, _network_of(spec, size)[0], rebuild.cost(spec))
    return usual * (spec.epochs - count) + measured * count + rebuilt


def image_count(evaluation: Evaluation, size: DatasetSize) -> int:
    """Return the number of images of an evaluation."""
    full: int = getattr(size, evaluation.split)
    full = full * len(evaluation.classes) // size.classes if evaluation.classes else full
    return full if evaluation.per_class is None else min(full, evaluation.per_class * size.classes)


def evaluation(spec: Spec, evaluation: Evaluation) -> Flops | None:
    """Return the work of evaluating a run; None if the number of its images is unknown."""
    size = validate.training_size(spec)
    if size is None:
        return None
    attack, (forward, _) = attacks.build(evaluation.attack, evaluation.options), _network_of(spec, size)
    cost, images = attack.cost(size.classes), image_count(evaluation, size)
    # One prediction before the attack, one after it.
    rows = 2 + cost.rows * (WITHSTANDING if attack.stops_early else 1.0)
    return _work(images, evaluation.batch, forward, Passes(forward=rows, calls=2 + cost.calls))


def bytes_on_disk(spec: Spec, evaluation: Evaluation | None) -> int:
    """Return the bytes on disk of a training or of an evaluation of a run, 0 if the number of images is unknown."""
    size = validate.training_size(spec)
    if size is None:
        return 0
    if evaluation is None:
        return _network_of(spec, size)[1] * len(validate.checkpoints(spec)) + 40_000
    # Of each image: logits, label, prediction, verdicts and coordinates.
    return image_count(evaluation, size) * (4 * min(size.classes, 100) + 30) + 30_000
