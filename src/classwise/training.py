"""The one training loop: a generator of epochs."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from classwise.attacks import Attack
from classwise.balls import BALLS
from classwise.defences import Defence
from classwise.defences.adversary import Adversary
from classwise.defences.averaging import Weights
from classwise.defences.calibrations import ClassWise
from classwise.images import Images
from classwise.outcomes import tally


def _one_cycle(progress: float) -> float:
    """Up in the first 30 %, down to zero in a straight line."""
    return progress / 0.3 if progress < 0.3 else (1 - progress) / 0.7


def _step(progress: float) -> float:
    """A tenth from half of the training on, a hundredth from three quarters on (Rice et al. 2020; CFA)."""
    return 1.0 if progress < 0.5 else 0.1 if progress < 0.75 else 0.01


# The factor of the learning rate at each point of the training, 0 to 1.
SCHEDULES: dict[str, Callable[[float], float]] = {
    "one-cycle": _one_cycle,
    "step": _step,
    "cosine": lambda progress: 0.5 * (1 + math.cos(math.pi * progress)),
    "constant": lambda progress: 1.0,
}

OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda parameters, lr, momentum, weight_decay: torch.optim.SGD(
        parameters, lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=momentum > 0
    ),
    "adamw": lambda parameters, lr, momentum, weight_decay: torch.optim.AdamW(
        parameters, lr=lr, betas=(momentum, 0.999), weight_decay=weight_decay
    ),
}


class Diverged(RuntimeError):
    """The loss is no longer a finite number."""


@dataclass(frozen=True)
class Plan:
    """What stays the same in all epochs of a training. `norm` names one of BALLS, `schedule` one of SCHEDULES."""

    defence: Defence
    attack: Attack | None
    norm: str
    batch_norm: str
    schedule: str
    lr: float
    epochs: int
    batch: int


@dataclass
class State:
    """What changes from epoch to epoch: all that a training needs to go on exactly where it stopped."""

    model: nn.Module
    optimiser: torch.optim.Optimizer
    generator: torch.Generator
    settings: ClassWise
    average: Weights | None = None
    epoch: int = 0

    def state_dict(self) -> dict[str, Any]:
        """Return tensors and plain values that `torch.load(weights_only=True)` reads back."""
        return {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "settings": asdict(self.settings),
            "average": self.average,
            "epoch": self.epoch,
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Take over a saved state."""
        self.model.load_state_dict(saved["model"])
        self.optimiser.load_state_dict(saved["optimiser"])
        self.generator.set_state(saved["generator"].cpu())
        self.settings = ClassWise(**saved["settings"])
        self.average, self.epoch = saved["average"], saved["epoch"]


@dataclass(frozen=True)
class Epoch:
    """What one epoch of training saw.

    number counts from 1; settings are those it was trained with; loss is the mean over its images; seconds its duration.
    clean, attacked: counts[label, predicted] of the training images as the objective saw them (None: it did not).
    """

    number: int
    settings: ClassWise
    loss: float
    seconds: float
    clean: Tensor | None
    attacked: Tensor | None


def begin(model: nn.Module, plan: Plan, classes: int, radius: float, optimiser: str, seed: int, **rates: float) -> State:
    """Return the state before the first epoch; `rates` are the optimiser's momentum and weight_decay."""
    device = next(model.parameters()).device
    return State(
        model=model,
        optimiser=OPTIMISERS[optimiser](model.parameters(), lr=plan.lr, **rates),
        generator=torch.Generator(device).manual_seed(seed),
        settings=ClassWise.alike(classes, radius, plan.defence.beta, device),
    )


def train(state: State, images: Images, plan: Plan) -> Iterator[Epoch]:
    """Train from the state's epoch on, change the state in place, and yield after each epoch; it measures nothing itself."""
    while state.epoch < plan.epochs:
        settings, started = state.settings, time.perf_counter()
        loss, clean, attacked = _epoch(state, images, plan)
        if not math.isfinite(loss):
            raise Diverged(f"the loss became {loss} in epoch {state.epoch + 1}")
        if not _answers(state.model, images, plan.batch):
            raise Diverged(f"the answers of the network became infinite or nan in epoch {state.epoch + 1}")
        seen = attacked if attacked is not None else clean
        if seen is not None:
            state.settings = plan.defence.calibration(settings, seen)
        state.average = plan.defence.averaging(state.average, state.model.state_dict())
        state.epoch += 1
        yield Epoch(state.epoch, settings, loss, time.perf_counter() - started, clean, attacked)


@torch.no_grad()
def _answers(model: nn.Module, images: Images, batch: int) -> bool:
    """Return whether the network, as it is after the last step, gives finite logits."""
    x, _ = images.batch(slice(0, batch))
    return bool(model.eval()(x).isfinite().all())


def _epoch(state: State, images: Images, plan: Plan) -> tuple[float, Tensor | None, Tensor | None]:
    """Go once through the images in a fresh order; return the mean loss and the counts on clean and attacked images."""
    model, settings, classes = state.model.train(), state.settings, len(images.classes)
    device = images.pixels.device
    total = torch.zeros((), device=device)
    counts: dict[str, Tensor] = {}
    order = torch.randperm(len(images), generator=state.generator, device=device)
    batches = math.ceil(len(order) / plan.batch)
    for number, which in enumerate(torch.split(order, plan.batch)):
        factor = SCHEDULES[plan.schedule]((state.epoch + (number + 0.5) / batches) / plan.epochs)
        for group in state.optimiser.param_groups:
            group["lr"] = plan.lr * factor
        x, y = images.batch(which)
        ball = BALLS[plan.norm](settings.radius[y])
        adversary = Adversary(plan.attack, ball, plan.batch_norm, state.generator)
        cost = plan.defence.objective(model, x, y, settings.beta[y], adversary)
        loss = (settings.weight[y] * cost.loss).mean()
        state.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        state.optimiser.step()
        total += loss.detach() * len(y)
        for name, logits in (("clean", cost.clean), ("attacked", cost.attacked)):
            if logits is not None:
                counts[name] = counts.get(name, 0) + tally(y, logits.detach().argmax(1), classes)
    return float(total) / len(images), counts.get("clean"), counts.get("attacked")
