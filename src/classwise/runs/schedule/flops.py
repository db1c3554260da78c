"""How much arithmetic a training or a question takes, counted before anything runs; and the bytes that it leaves."""

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from classwise import attacks, defences, models
from classwise.attacks import APGD, CW, FAB, PGD, Attack, NAttack, Square, Strong, TargetedPGD
from classwise.core.datasets import DatasetSize
from classwise.core.spec import Evaluation, Spec
from classwise.defences.free import FreeAT
from classwise.defences.objectives import MART, TRADES
from classwise.images import Images
from classwise.runs.compute import sizes, validate

# Images whose network withstands leave no attack early; of those that are adversarially trained, about this share does.
STANDING = 0.5
# Images at once where a training measures.
_MEASURED = 500


@dataclass(frozen=True)
class Flops:
    """Floating-point operations, and how often a batch passes through the network, forward or backward."""

    operations: float = 0.0
    passes: float = 0.0

    def __add__(self, other: "Flops") -> "Flops":
        return Flops(self.operations + other.operations, self.passes + other.passes)

    def __mul__(self, times: float) -> "Flops":
        return Flops(self.operations * times, self.passes * times)


@dataclass(frozen=True)
class Passes:
    """What an attack asks of the network for one image: rows forward, rows backward, and how many calls in a row."""

    forward: float
    backward: float
    calls: float

    @property
    def rows(self) -> float:
        """Rows in units of a forward pass: a backward pass that stops at the input costs about as much."""
        return self.forward + self.backward


def passes(attack: Attack, classes: int) -> Passes:
    """Return what an attack asks of the network for an image that withstands it to the end."""
    if isinstance(attack, Strong):
        members = [passes(member, classes) for member in attack.members().values()]
        return Passes(*(sum(getattr(one, name) for one in members) for name in ("forward", "backward", "calls")))
    if isinstance(attack, Square):
        return Passes(attack.queries, 0, attack.queries)
    if isinstance(attack, NAttack):
        return Passes(attack.steps * (attack.population + 1 / attack.every), 0, attack.steps)
    if isinstance(attack, FAB):
        turns = attack.steps * min(attack.targets, classes - 1)
        return Passes(2 * turns, turns, 3 * turns)
    if isinstance(attack, CW):
        return Passes(attack.rounds * attack.steps, attack.rounds * attack.steps, 2 * attack.rounds * attack.steps)
    if isinstance(attack, APGD | PGD | TargetedPGD):
        turns = attack.steps * getattr(attack, "restarts", 1)
        if isinstance(attack, APGD) and attack.loss == "dlr-targeted":
            turns *= min(attack.targets, classes - 1)
        if isinstance(attack, TargetedPGD) and attack.target == "all":
            turns *= classes - 1
        return Passes(turns, turns, 2 * turns)
    steps = getattr(attack, "steps", 0 if isinstance(attack, attacks.Clean) else 1)  # FGSM takes one
    return Passes(steps, steps, 2 * steps)


@cache
def _network(model: str, width: int, shape: tuple[int, int, int], classes: int, head: str, layer: str) -> tuple[float, int]:
    """Return the operations of one image's forward pass, and the bytes of the weights."""
    image = Images(torch.zeros(2, *shape, dtype=torch.uint8), torch.arange(2), torch.arange(2), tuple(map(str, range(classes))))
    network = models.build(model, image, width, 0, head, layer).eval()
    operations = 0.0

    def count(layer: nn.Module, _: object, out: Tensor) -> None:
        nonlocal operations
        weight = layer.weight
        assert isinstance(weight, Tensor)
        # Each number that comes out multiplies and adds all weights that lead to it.
        operations += 2 * out.numel() * weight[0].numel()

    # Convolutions and linear layers do nearly all of it; torch's own counter takes ten seconds to import.
    for part in network.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            part.register_forward_hook(count)
    with torch.no_grad():
        network(torch.zeros(1, *shape))
    return operations, sum(value.numel() * value.element_size() for value in network.state_dict().values())


def _of(spec: Spec, size: DatasetSize) -> tuple[float, int]:
    shape = (size.channels, size.height, size.width)
    return _network(spec.model, spec.width, shape, size.classes, validate.head(spec), spec.layer)


def epoch(spec: Spec, size: DatasetSize) -> Flops:
    """Return the work of the steps of one epoch."""
    defence, (forward, _) = defences.build(spec.defence, spec.options), _of(spec, size)
    named = spec.attack or defence.attack
    inner = passes(attacks.build(named, spec.attack_options), size.classes) if named else Passes(0, 0, 0)
    networks = 2 if isinstance(defence.objective, TRADES | MART) else 1
    replays = defence.objective.replays if isinstance(defence.objective, FreeAT) else 1
    # Forward, and backward to the input and to the weights.
    rows, calls = replays * (inner.rows + 3 * networks), replays * (inner.calls + 2 * networks)
    return Flops(size.train * forward * rows, math.ceil(size.train / spec.batch) * calls)


def training(spec: Spec) -> Flops | None:
    """Return the work of a whole training, its measuring among it; None where nobody knows how many images there are."""
    size = sizes.training_size(spec)
    if size is None:
        return None
    defence, (forward, _) = defences.build(spec.defence, spec.options), _of(spec, size)
    each = epoch(spec, size)
    if spec.select is not None or defence.watches:
        watched = passes(attacks.build(spec.select or defence.watch), size.classes)
        each += _measured(size.valid + (size.test if spec.test_selected else 0), forward, watched)
    looked = len({1, spec.epochs, *range(spec.measure, spec.epochs + 1, spec.measure)})
    probe = passes(attacks.build(spec.probe), size.classes)
    return each * spec.epochs + _measured(size.valid + size.test, forward, probe) * looked


def _measured(images: int, forward: float, asked: Passes) -> Flops:
    """Return the work of asking about images clean and attacked."""
    return Flops(images * forward * (1 + asked.rows), math.ceil(images / _MEASURED) * (1 + asked.calls))


def images_of(spec: Spec, evaluation: Evaluation, size: DatasetSize) -> int:
    """Return how many images a question is about."""
    whole: int = getattr(size, evaluation.split)
    return whole if evaluation.per_class is None else min(whole, evaluation.per_class * size.classes)


def evaluation(spec: Spec, evaluation: Evaluation) -> Flops | None:
    """Return the work of a question put to a run; None where nobody knows how many images there are."""
    size = sizes.training_size(spec)
    if size is None:
        return None
    attack, (forward, _) = attacks.build(evaluation.attack, evaluation.options), _of(spec, size)
    asked, images = passes(attack, size.classes), images_of(spec, evaluation, size)
    # What is standing at the beginning must be known, and what is at the end.
    rows = 2 + asked.rows * (STANDING if attack.stops_early else 1.0)
    return Flops(images * forward * rows, math.ceil(images / evaluation.batch) * (2 + asked.calls))


def space(spec: Spec, evaluations: tuple[Evaluation, ...], *, train: bool) -> int:
    """Return the bytes that a training and some questions leave on the disk, 0 where nobody knows how many images there are."""
    size = sizes.training_size(spec)
    if size is None:
        return 0
    _, weights = _of(spec, size)
    # Of each image: logits, the truth, the answer, verdicts and places.
    answers = sum(images_of(spec, one, size) * (4 * min(size.classes, 100) + 30) + 30_000 for one in evaluations)
    return answers + (weights * len(validate.checkpoints(spec)) + 40_000 if train else 0)
