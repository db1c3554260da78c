"""The training loop: a generator of epochs."""

import copy
import math
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from classwise.attacks import evaluate
from classwise.attacks.balls import BALLS
from classwise.attacks.evaluate import EvaluationSettings, confusion_counts
from classwise.defences.averaging import Averaging, copy_weights
from classwise.defences.calibrations import Calibration, ClassSettings, EpochStats
from classwise.defences.objectives import Adversary, LossTerms, TrainingStep
from classwise.defences.training import checkpoints
from classwise.defences.training.optimisation import DECAYS, OPTIMISERS, SCHEDULES, factor, gates, groups
from classwise.defences.training.state import Diverged, Epoch, State, TrainConfig
from classwise.images import Images
from classwise.models.inference import seed_random_state, training_network

__all__ = ["DECAYS", "OPTIMISERS", "SCHEDULES", "Diverged", "Epoch", "State", "TrainConfig", "begin", "train"]


def begin(model: nn.Module, config: TrainConfig, classes: int, radius: float, seed: int, *, sizes: Tensor | None = None) -> State:
    """Return the state before the first epoch.

    radius: of the attack before any calibration, in units of the pixels, which lie in [0, 1]. sizes: how many training images
    each class has, (classes,); by default the same number.
    """
    device, objective = next(model.parameters()).device, config.defence.objective
    base = ClassSettings.uniform(classes, radius, objective.beta, device, objective.margin)
    base = config.defence.calibration.start(base, torch.ones(classes, device=device) if sizes is None else sizes)
    grouped = groups(model, config.weight_decay, config.decay)
    return State(
        model=model,
        optimiser=OPTIMISERS[config.optimiser](grouped, config.lr, config.momentum, config.nesterov),
        generator=torch.Generator(device).manual_seed(seed),
        settings=base,
        base=base,
        radius=radius,
    )


def train(
    state: State, images: Images, config: TrainConfig, valid: Images | None = None, test: Images | None = None
) -> Iterator[Epoch]:
    """Train from the state's epoch on, update the state in place and yield after each epoch.

    The last `config.extra` images are pseudo-labelled. `valid` is measured after every epoch where the averaging, the calibration
    or the selection of the best epoch needs it; `test` only where the configuration selects on it. Diverged is raised where the
    loss or the logits are no longer finite.
    """
    network = training_network(state.model, config.precision)
    measuring: list[Calibration | Averaging] = [config.defence.calibration, *config.averagings.values()]
    if state.epoch == 0 and config.defence.calibration.active_at(0.0):
        _calibrate(state, config, EpochStats(0.0, None, *checkpoints.attacked_counts(state, config, valid)))
    while state.epoch < config.epochs and not state.stopped:
        settings, started = state.settings, time.perf_counter()
        before = copy_weights(state.model.state_dict()) if config.overfitting_check is not None else None
        with seed_random_state(state.generator, state.epoch):
            loss, clean, attacked, predictions = _epoch(state, network, images, config)
        if not math.isfinite(loss):
            raise Diverged(f"the loss became {loss} in epoch {state.epoch + 1}")
        with torch.no_grad():  # after the last step
            logits = state.model.eval()(images.batch(slice(0, config.batch))[0])
        if not logits.isfinite().all():
            raise Diverged(f"the logits of the network became infinite or nan in epoch {state.epoch + 1}")
        state.epoch += 1
        seconds = time.perf_counter() - started
        if before is not None and _overfits(state, images, config):
            state.model.load_state_dict(before)
        counts = None
        progress = state.epoch / config.epochs
        if _selects(config, progress) or any(part.active_at(progress) for part in measuring):
            counts = checkpoints.attacked_counts(state, config, valid)
        taken = _average(state, config, counts)
        losses = checkpoints.class_losses(state, config, valid) if config.defence.calibration.needs_losses else None
        seen, (on_clean, on_attacked) = attacked if attacked is not None else clean, counts or (None, None)
        seen, predictions = _over_last_pass(state, config, len(images), seen, predictions)
        _calibrate(state, config, EpochStats(progress, seen, on_clean, on_attacked, predictions, losses))
        _keep(state, config, counts, valid, test)
        yield Epoch(state.epoch, settings, loss, seconds, clean, attacked, counts, taken)


def _selects(config: TrainConfig, progress: float) -> bool:
    return config.select_by is not None and progress >= config.select_from


def _over_last_pass(
    state: State, config: TrainConfig, images: int, seen: Tensor | None, predictions: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Return the counts and the mean softmax of the training images over the epochs of the last full pass, or of all so far.

    The epoch is added to those that the state keeps; where each epoch is a pass, it is returned as it is.
    """
    if config.epoch_images is None or seen is None:
        return seen, predictions
    sums = {"counts": seen} | ({} if predictions is None else {"softmax": predictions * seen.sum(1, keepdim=True)})
    for name, value in sums.items():
        before = state.pass_sums.get(name, value[None][:0])
        state.pass_sums[name] = torch.cat([before, value[None]])[-math.ceil(images / config.epoch_images) :]
    counts = state.pass_sums["counts"].sum(0)
    softmax = state.pass_sums["softmax"].sum(0) / counts.sum(1, keepdim=True).clamp_min(1) if predictions is not None else None
    return counts, softmax


# Losing so much accuracy from one epoch to the next is catastrophic overfitting (Wong et al. 2020).
_COLLAPSE = 0.2


def _overfits(state: State, images: Images, config: TrainConfig) -> bool:
    """Return whether the robust accuracy on the first training images collapsed in this epoch, which stops the training."""
    assert config.overfitting_check is not None
    first = images.take(torch.arange(min(config.batch, len(images)), device=images.pixels.device))
    ball = BALLS[config.norm](state.radius)
    result = evaluate.evaluate(state.model, first, config.overfitting_check, ball, EvaluationSettings(seed=state.epoch))
    accuracy = float((~result.misclassified).float().mean())
    last = state.scores.get("guard", 0.0)
    state.scores["guard"] = accuracy
    if accuracy >= last - _COLLAPSE:
        return False
    fall = f"robust accuracy on training images fell from {last:.0%} to {accuracy:.0%}"
    state.stopped = f"catastrophic overfitting in epoch {state.epoch}: {fall}"
    return True


def _calibrate(state: State, config: TrainConfig, stats: EpochStats) -> None:
    state.settings, state.memory = config.defence.calibration(state.base, state.settings, state.memory, stats)


def _average(state: State, config: TrainConfig, counts: tuple[Tensor, Tensor] | None) -> tuple[str, ...]:
    """Update the averages by the epoch; return the names of those that it entered."""
    progress, taken = state.epoch / config.epochs, []
    for name, averaging in config.averagings.items():
        if not averaging.each_step:  # else each step of the epoch entered it
            measured = counts if averaging.needs_validation else None
            worst = None if measured is None else checkpoints.worst(measured[1], averaging.worst_share)
            if not averaging.accepts(progress, worst, checkpoints.lot(state)):
                continue
            if name == "average" and name not in state.averages:
                # The best epochs until now are of the weights that are averaged.
                state.scores = {kept: score for kept, score in state.scores.items() if kept not in ("best", "test-selected")}
            state.averages[name] = averaging.update_after_epoch(state.averages.get(name), state.model.state_dict())
        taken.append(name)
    return tuple(taken)


def _keep(
    state: State, config: TrainConfig, counts: tuple[Tensor, Tensor] | None, valid: Images | None, test: Images | None
) -> None:
    """Keep the weights of the epoch where they are among the last or the best, and likewise the averages next to them.

    The best are chosen among the weights that the defence returns. Those of epochs before there is an average are not compared
    with it: the first average replaces the best of them. An average next to the training is selected from its first epoch on;
    until then the weights of an epoch replace it among the last.
    """
    before_end = config.epochs - state.epoch
    for name in ("last", *config.averages) if 0 < before_end < config.keep_last else ():
        state.kept[f"{name}-{before_end}"] = copy_weights(state.averages.get(name, state.model.state_dict()))
    if not _selects(config, state.epoch / config.epochs):
        return
    candidate = state.model
    if "average" in state.averages:
        candidate = _averaged(state, "average")
        counts = checkpoints.attacked_counts(state, config, valid, candidate)
    assert counts is not None
    _select(state, config, "best", candidate, counts)
    if config.test_selected:
        _select(state, config, "test-selected", candidate, checkpoints.attacked_counts(state, config, test, candidate))
    for name in config.averages if state.epoch % config.select_averages_every == 0 else ():
        if name in state.averages:
            candidate = _averaged(state, name)
            _select(state, config, f"best-{name}", candidate, checkpoints.attacked_counts(state, config, valid, candidate))


def _averaged(state: State, name: str) -> nn.Module:
    model = copy.deepcopy(state.model)
    model.load_state_dict(state.averages[name])
    return model


def _select(state: State, config: TrainConfig, name: str, candidate: nn.Module, counts: tuple[Tensor, Tensor]) -> None:
    score = checkpoints.CRITERIA[str(config.select_by)](counts[1])
    if score >= state.scores.get(name, -math.inf):  # among equals the later one has trained longer
        state.scores[name] = score
        state.kept[name] = copy_weights(candidate.state_dict())


def _epoch(
    state: State, network: nn.Module, images: Images, config: TrainConfig
) -> tuple[float, Tensor | None, Tensor | None, Tensor | None]:
    """Pass once through the images in a new random order.

    Return the mean loss, the counts on clean and on attacked images, and where the calibration needs it the mean softmax of each
    class.
    """
    classes, device, defence = len(images.classes), images.pixels.device, config.defence
    network.train()
    total, bounded = torch.zeros((), device=device), gates(state.model)
    counts: dict[str, Tensor] = {}
    predictions = torch.zeros(classes, classes, device=device) if defence.calibration.needs_predictions else None
    order = _order(state, len(images), config)
    by_step = {name: averaging for name, averaging in config.averagings.items() if averaging.each_step}
    for number, rows in enumerate(order):
        progress = (state.epoch + (number + 0.5) / len(order)) / config.epochs
        rate = config.lr * factor(config.schedule, config.milestones, config.epochs, progress)
        for group in state.optimiser.param_groups:
            group["lr"] = rate * group["scale"]
        x, y = images.batch(rows, config.augment, state.generator)
        terms = _step(state, network, x, y, config, progress)
        for gate in bounded:
            gate.data.clamp_(0, 1)
        for name, averaging in by_step.items():
            step, weights = state.epoch * len(order) + number, state.model.state_dict()
            state.averages[name] = averaging.update_after_step(state.averages.get(name), weights, step)
        total += terms.loss.detach().sum()
        for name, logits in (("clean", terms.clean), ("attacked", terms.attacked)):
            if logits is not None:
                counts[name] = counts.get(name, 0) + confusion_counts(y, logits.detach().argmax(1), classes)
        if predictions is not None:
            predictions.index_add_(0, y, (defence.objective.scale * terms.last_logits).softmax(1))
    if predictions is not None:
        predictions /= (counts["attacked"] if "attacked" in counts else counts["clean"]).sum(1, keepdim=True).clamp_min(1)
    return float(total) / sum(len(rows) for rows in order), counts.get("clean"), counts.get("attacked"), predictions


def _order(state: State, images: int, config: TrainConfig) -> tuple[Tensor, ...]:
    """Return the rows of the images of each batch of an epoch.

    An epoch of `config.epoch_images` takes the next ones of a permutation of all, which a new one follows. Where the last
    `config.extra` images are pseudo-labelled, half of each batch is drawn from them and half from the others, with replacement,
    until as many labelled images are drawn as an epoch has (Carmon et al. 2019).
    """
    draw: dict[str, Any] = {"generator": state.generator, "device": state.settings.radius.device}
    if not config.extra:
        if config.epoch_images is None:
            return torch.split(torch.randperm(images, **draw), config.batch)
        while len(state.order) < config.epoch_images:
            state.order = torch.cat([state.order.to(draw["device"]), torch.randperm(images, **draw)])
        rows, state.order = state.order[: config.epoch_images], state.order[config.epoch_images :].clone()
        return torch.split(rows, config.batch)
    labelled, half = images - config.extra, config.batch // 2
    batches = math.ceil((config.epoch_images or labelled) / half)
    rows = torch.randint(labelled, (batches, half), **draw)
    extra = torch.randint(labelled, images, (batches, config.batch - half), **draw)
    return torch.cat([rows, extra], 1).unbind()


def _step(state: State, network: nn.Module, x: Tensor, y: Tensor, config: TrainConfig, progress: float) -> LossTerms:
    settings, defence = state.settings.select(y), config.defence
    ball = BALLS[config.norm](settings.radius)
    adversary = Adversary(config.attack, ball, config.batch_norm, state.generator, progress, state.fusions)
    step = TrainingStep(settings, adversary, defence.calibration, state.optimiser, state.memory, config.batch)
    return defence.objective.step(network, x, y, step)
