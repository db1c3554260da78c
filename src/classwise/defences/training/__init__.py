"""The one training loop: a generator of epochs."""

import copy
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from classwise.attacks import evaluate
from classwise.attacks.balls import BALLS
from classwise.attacks.evaluate import confusion_counts
from classwise.defences import free
from classwise.defences.adversary import Adversary
from classwise.defences.calibrations import ClassSettings, EpochStats
from classwise.defences.free import FreeAT
from classwise.defences.objectives import LossTerms
from classwise.defences.training import checkpoints, validation
from classwise.defences.training.optimisation import DECAYS, OPTIMISERS, SCHEDULES, factor, gates, groups
from classwise.defences.training.state import Epoch, State, TrainConfig
from classwise.images import Images
from classwise.models.inference import seeded, stepping
from classwise.models.modes import eval_mode

__all__ = ["DECAYS", "OPTIMISERS", "SCHEDULES", "Diverged", "Epoch", "State", "TrainConfig", "begin", "train"]


class Diverged(RuntimeError):
    """The loss is no longer a finite number."""


def begin(
    model: nn.Module,
    plan: TrainConfig,
    classes: int,
    radius: float,
    optimiser: str,
    seed: int,
    *,
    sizes: Tensor | None = None,
    **rates: Any,
) -> State:
    """Return the state before the first epoch; `radius` is that of the attack, in pixels, before any calibration.

    `sizes` (classes,) counts the training images of each class, by default alike. `rates`: momentum, nesterov, weight_decay and
    decay, as in Spec.
    """
    device, objective = next(model.parameters()).device, plan.defence.objective
    base = ClassSettings.alike(classes, radius, objective.beta, device, objective.margin)
    base = plan.defence.calibration.start(base, torch.ones(classes, device=device) if sizes is None else sizes)
    grouped = groups(model, rates["weight_decay"], rates.get("decay", "all"))
    return State(
        model=model,
        optimiser=OPTIMISERS[optimiser](grouped, plan.lr, rates["momentum"], rates.get("nesterov", True)),
        generator=torch.Generator(device).manual_seed(seed),
        settings=base,
        base=base,
    )


def train(
    state: State, images: Images, plan: TrainConfig, valid: Images | None = None, test: Images | None = None
) -> Iterator[Epoch]:
    """Train from the state's epoch on, change the state in place, and yield after each epoch.

    The last `plan.extra` of the images are pseudo-labelled. `valid` is measured after every epoch where something needs it: a
    gate, a calibration, the choice of the best epoch; `test` only where the plan selects on it.
    """
    network = stepping(state.model, plan.precision)
    if state.epoch == 0 and plan.defence.calibration.asks(0.0):
        _calibrate(state, plan, EpochStats(0.0), _measured(state, plan, valid))
    while state.epoch < plan.epochs and not state.stopped:
        settings, started = state.settings, time.perf_counter()
        before = checkpoints.copied(state.model.state_dict()) if plan.guard is not None else None
        with seeded(state.generator, state.epoch):
            loss, clean, attacked, answers = _epoch(state, network, images, plan)
        if not math.isfinite(loss):
            raise Diverged(f"the loss became {loss} in epoch {state.epoch + 1}")
        if not _answers(state.model, images, plan.batch):
            raise Diverged(f"the answers of the network became infinite or nan in epoch {state.epoch + 1}")
        state.epoch += 1
        seconds = time.perf_counter() - started
        found = _measured(state, plan, valid) if _asked(state, plan) else None
        if before is not None and _collapsed(state, images, plan):
            state.model.load_state_dict(before)
            found = _measured(state, plan, valid) if _asked(state, plan) else None
        averaged = _average(state, plan, found)
        seen = attacked if attacked is not None else clean
        fared = EpochStats(state.epoch / plan.epochs, seen, answers=answers, losses=_lost(state, plan, valid))
        _calibrate(state, plan, fared, found)
        _keep(state, plan, found, valid, test)
        yield Epoch(state.epoch, settings, loss, seconds, clean, attacked, found, averaged)


def _asked(state: State, plan: TrainConfig) -> bool:
    """Return whether anything needs to know how the validation images fare after this epoch."""
    done, defence = state.epoch / plan.epochs, plan.defence
    return plan.select_by is not None or defence.calibration.asks(done) or defence.averaging.asks(done)


# So much accuracy lost from one epoch to the next is catastrophic overfitting (Wong et al. 2020).
_COLLAPSE = 0.2


def _collapsed(state: State, images: Images, plan: TrainConfig) -> bool:
    """Return whether the first training images withstand the guard far worse than an epoch ago; the training then stops."""
    assert plan.guard is not None
    some = images.take(torch.arange(min(plan.batch, len(images)), device=images.pixels.device))
    ball = BALLS[plan.norm](float(state.base.radius[0]))
    withstood = float((~evaluate.evaluate(state.model, some, plan.guard, ball, seed=state.epoch).flipped).float().mean())
    last = state.scores.get("guard", 0.0)
    state.scores["guard"] = withstood
    if withstood >= last - _COLLAPSE:
        return False
    state.stopped = (
        f"catastrophic overfitting in epoch {state.epoch}: {last:.0%} withstood the guard before, then {withstood:.0%}"
    )
    return True


def _calibrate(state: State, plan: TrainConfig, fared: EpochStats, found: tuple[Tensor, Tensor] | None) -> None:
    """Decide the settings of the next epoch."""
    if found is not None:
        fared = replace(fared, clean=found[0], attacked=found[1])
    state.settings, state.memory = plan.defence.calibration(state.base, state.settings, state.memory, fared)


def _lost(state: State, plan: TrainConfig, valid: Images | None) -> Tensor | None:
    """Return the losses on the validation images where the calibration compares them."""
    if not plan.defence.calibration.compares_losses:
        return None
    assert valid is not None, "the calibration needs the validation images"
    return validation.measured(state, plan, valid)


def _average(state: State, plan: TrainConfig, found: tuple[Tensor, Tensor] | None) -> bool:
    """Let the averaging look at the epoch; return whether it took it in."""
    averaging, before = plan.defence.averaging, state.average
    worst = checkpoints.worst(found[1]) if averaging.watches and found is not None else None
    if not averaging.averages:
        return False
    if averaging.each_step:
        return True
    counted = averaging.counts(state.epoch / plan.epochs, worst)
    if counted:
        state.average = averaging.after_epoch(before, state.model.state_dict())
    return counted


def _keep(
    state: State, plan: TrainConfig, found: tuple[Tensor, Tensor] | None, valid: Images | None, test: Images | None
) -> None:
    """Keep the weights of the epoch where they are among the last or the best.

    Best are those that the defence would hand over: the average, once there is one.
    """
    name = checkpoints.among_last(state.epoch, plan.epochs, plan.keep_last)
    if name is not None:
        state.kept[name] = checkpoints.copied(state.model.state_dict())
    if plan.select_by is None:
        return
    judged = state.model
    if state.average is not None:
        judged = copy.deepcopy(state.model)
        judged.load_state_dict(state.average)
        found = _measured(state, plan, valid, judged)
    counts = {"best": found}
    if plan.test_selected:
        counts["test-selected"] = _measured(state, plan, test, judged)
    for name, count in counts.items():
        assert count is not None
        score = checkpoints.CRITERIA[plan.select_by](count[1])
        if checkpoints.better(score, state.scores.get(name)):
            state.scores[name] = score
            state.kept[name] = checkpoints.copied(judged.state_dict())


def _measured(state: State, plan: TrainConfig, images: Images | None, model: nn.Module | None = None) -> tuple[Tensor, Tensor]:
    """Return counts[label, predicted] of images, clean and under the attack that watches: by the loss's own logits."""
    assert plan.watch is not None, "the plan names no attack that watches"
    assert images is not None, "the plan needs images to measure"
    network, classes = plan.defence.objective.answering(model or state.model), len(images.classes)
    ball = BALLS[plan.norm](float(state.base.radius[0]))
    with torch.no_grad(), eval_mode(network):
        clean = sum(confusion_counts(y, network(x).argmax(1), classes) for x, y in images.batches(500))
    found = evaluate.evaluate(network, images, plan.watch, ball, seed=state.epoch, precision=plan.precision)
    assert isinstance(clean, Tensor)
    return clean, confusion_counts(found.truth, found.answer, classes)


@torch.no_grad()
def _answers(model: nn.Module, images: Images, batch: int) -> bool:
    """Return whether the network, as it is after the last step, gives finite logits."""
    x, _ = images.batch(slice(0, batch))
    return bool(model.eval()(x).isfinite().all())


def _epoch(
    state: State, network: nn.Module, images: Images, plan: TrainConfig
) -> tuple[float, Tensor | None, Tensor | None, Tensor | None]:
    """Go once through the images in a fresh order.

    Return the mean loss, the counts on clean and on attacked images, and where the calibration reads them the mean softmax of
    each class.
    """
    classes, device, averaging = len(images.classes), images.pixels.device, plan.defence.averaging
    network.train()
    total, held = torch.zeros((), device=device), gates(state.model)
    counts: dict[str, Tensor] = {}
    answers = torch.zeros(classes, classes, device=device) if plan.defence.calibration.reads_answers else None
    order = _order(state, len(images), plan)
    batches, seen = len(order), sum(len(which) for which in order)
    for number, which in enumerate(order):
        progress = (state.epoch + (number + 0.5) / batches) / plan.epochs
        rate = plan.lr * factor(plan.schedule, plan.milestones, plan.epochs, progress)
        for group in state.optimiser.param_groups:
            group["lr"] = rate * group["scale"]
        x, y = images.batch(which, plan.augment, state.generator)
        cost = _step(state, network, x, y, plan, progress)
        for gate in held:
            gate.data.clamp_(0, 1)
        if averaging.each_step:
            state.average = averaging.after_step(state.average, state.model.state_dict(), state.epoch * batches + number)
        total += cost.loss.detach().sum()
        for name, logits in (("clean", cost.clean), ("attacked", cost.attacked)):
            if logits is not None:
                counts[name] = counts.get(name, 0) + confusion_counts(y, logits.detach().argmax(1), classes)
        if answers is not None:
            answers.index_add_(0, y, (plan.defence.objective.scale * cost.seen).softmax(1))
    if answers is not None:
        answers /= (counts["attacked"] if "attacked" in counts else counts["clean"]).sum(1, keepdim=True).clamp_min(1)
    return float(total) / seen, counts.get("clean"), counts.get("attacked"), answers


def _order(state: State, images: int, plan: TrainConfig) -> tuple[Tensor, ...]:
    """Return which images each batch of an epoch takes.

    Where the last `plan.extra` images are pseudo-labelled, half of each batch is drawn from them and half from the others, with
    replacement, until as many labelled ones were drawn as there are (Carmon et al. 2019).
    """
    draw: dict[str, Any] = {"generator": state.generator, "device": state.settings.radius.device}
    if not plan.extra:
        return torch.split(torch.randperm(images, **draw), plan.batch)
    labelled, half = images - plan.extra, plan.batch // 2
    batches = math.ceil(labelled / half)
    own = torch.randint(labelled, (batches, half), **draw)
    others = torch.randint(labelled, images, (batches, plan.batch - half), **draw)
    return torch.cat([own, others], 1).unbind()


def _step(state: State, network: nn.Module, x: Tensor, y: Tensor, plan: TrainConfig, progress: float) -> LossTerms:
    """Take one step down the loss of a batch; return its cost, weighted."""
    if isinstance(plan.defence.objective, FreeAT):
        return free.step(state, network, x, y, plan, plan.defence.objective)
    each = state.settings.at(y)
    adversary = Adversary(plan.attack, BALLS[plan.norm](each.radius), plan.batch_norm, state.generator, progress)
    calibration, cost = plan.defence.calibration, plan.defence.objective(network, x, y, each, adversary)
    cost = cost.weighted(calibration.within(each, cost.seen, y), relative=calibration.relative)
    state.optimiser.zero_grad(set_to_none=True)
    cost.loss.mean().backward()  # type: ignore[no-untyped-call]
    state.optimiser.step()
    return cost
