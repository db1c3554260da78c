"""Measurements on images that are not trained on, and which epochs' weights are kept."""

import copy
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from classwise.attacks import Attack, evaluate
from classwise.attacks.balls import BALLS, Ball
from classwise.attacks.evaluate import EvaluationSettings, confusion_counts
from classwise.defences.averaging import Weights, copy_weights
from classwise.defences.calibrations import per_class_accuracy
from classwise.defences.objectives import Adversary
from classwise.defences.training.state import Diverged, State, TrainConfig
from classwise.images import Images
from classwise.models import inference
from classwise.models.modes import eval_mode, frozen

# The end of the name of an average whose statistics of batch norm are estimated again.
RENEWED = "-renewed"


def attacked_counts(
    state: State, config: TrainConfig, images: Images | None, model: nn.Module | None = None
) -> tuple[Tensor, Tensor]:
    """Return counts[label, predicted] of images, clean and under the validation attack, by the logits of the loss."""
    assert config.validation_attack is not None, "the configuration names no validation attack"
    assert images is not None, "the configuration needs images to measure"
    network, classes = config.defence.objective.scaled_model(model or state.model), len(images.classes)
    ball = BALLS[config.norm](state.radius if config.validation_radius is None else config.validation_radius)
    if config.validation_attack.stops_early:
        fusions = state.fusions if model in (None, state.model) else inference.fusions(model.eval())
        return _early_counts(network, fusions, images, config.validation_attack, ball, state.epoch)
    with torch.no_grad(), eval_mode(network):
        clean = sum(confusion_counts(y, network(x).argmax(1), classes) for x, y in images.batches(500))
    how = EvaluationSettings(seed=state.epoch, precision=config.precision)
    result = evaluate.evaluate(network, images, config.validation_attack, ball, how)
    assert isinstance(clean, Tensor)
    return clean, confusion_counts(result.truth, result.prediction, classes)


def _early_counts(
    network: nn.Module, fusions: inference.Fusions, images: Images, attack: Attack, ball: Ball, seed: int
) -> tuple[Tensor, Tensor]:
    """Return the same under an attack that leaves misclassified images alone: only the others are attacked, once."""
    classes, device = len(images.classes), images.pixels.device
    clean = attacked = torch.zeros(classes, classes, dtype=torch.int64, device=device)
    generator = torch.Generator(device).manual_seed(seed)
    with torch.no_grad(), eval_mode(network), inference.fuse_in_place(fusions):
        for x, y in images.batches(500):
            prediction = network(x).argmax(1)
            clean = clean + confusion_counts(y, prediction, classes)
            right = (prediction == y).nonzero()[:, 0]
            if len(right):
                moved = attack.craft(network, x[right], y[right], ball.select(right), generator)
                prediction = prediction.index_copy(0, right, network(moved).argmax(1))
            attacked = attacked + confusion_counts(y, prediction, classes)
    return clean, attacked


def class_losses(state: State, config: TrainConfig, images: Images | None) -> Tensor:
    """Return the mean loss of the images of each class, then that of all: (classes + 1,); of a class without images: 0.

    The network is in eval mode and attacked as in training, with the settings before any calibration. The random numbers of the
    training are not used.
    """
    assert images is not None, "the calibration needs the validation images"
    device = images.pixels.device
    sums, sizes = torch.zeros(2, len(images.classes) + 1, device=device)
    generator = torch.Generator(device).manual_seed(state.epoch)
    with eval_mode(state.model), frozen(state.model), torch.no_grad():
        for x, y in images.batches(500):
            settings = state.base.select(y)
            ball = BALLS[config.norm](settings.radius)
            adversary = Adversary(config.attack, ball, "eval", generator, state.epoch / config.epochs)
            loss = config.defence.objective(state.model, x, y, settings, adversary).loss
            sums[:-1].index_add_(0, y, loss)
            sizes[:-1].index_add_(0, y, torch.ones_like(loss))
    sums[-1], sizes[-1] = sums[:-1].sum(), sizes[:-1].sum()
    mean: Tensor = sums / sizes.clamp_min(1)
    return mean


def lot(state: State) -> float:
    """Return the number, 0 to 1, that is drawn for an epoch: by the seed of the training and the epoch alone."""
    return float(np.random.default_rng((state.generator.initial_seed(), state.epoch)).random())


def halve_precision(weights: Weights, model: nn.Module) -> Weights:
    """Return weights with the parameters of the model in half precision, not its statistics; Diverged beyond its range."""
    result = dict(weights)
    for name, _ in model.named_parameters():
        result[name] = weights[name].half()
        if not result[name].isfinite().all():
            raise Diverged(f"{name} holds a weight that half precision cannot: {float(weights[name].abs().max()):g}")
    return result


# Batches from which the statistics of batch norm are estimated again.
_RENEWAL = 50


def renew_statistics(state: State, config: TrainConfig, images: Images, weights: Weights) -> Weights:
    """Return weights whose statistics of batch norm are the means over batches of training images, attacked as in the training.

    The attack is made on the weights with the statistics that they have; only attacked images count, also where a defence trains
    on clean ones, too. The random numbers of the training are not used.
    """
    model, objective = copy.deepcopy(state.model), config.defence.objective
    model.load_state_dict(weights)
    fresh, device = copy.deepcopy(model).train(), images.pixels.device
    network = objective.scaled_model(model).eval()
    for layer in fresh.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.reset_running_stats()
            layer.momentum = None  # the mean over all batches
    generator = torch.Generator(device).manual_seed(state.generator.initial_seed())
    rows = torch.randperm(len(images), generator=generator, device=device)[: _RENEWAL * config.batch]
    for some in torch.split(rows, config.batch):
        x, y = images.batch(some, config.augment, generator)
        ball = BALLS[config.norm](state.settings.radius[y])
        with torch.no_grad():
            if config.attack is not None:
                target = network(x).softmax(1) if objective.soft_targets else y
                x = Adversary(config.attack, ball, "eval", generator, 1.0).craft(network, x, target, y)
            fresh(x)
    return copy_weights(fresh.state_dict())


def overall(counts: Tensor) -> float:
    """Return the accuracy over all images, 0 to 1."""
    return float(counts.diag().sum() / counts.sum())


def worst(counts: Tensor, share: float = 0.0) -> float:
    """Return the accuracy of the worst class that has images, 0 to 1; of a `share` of them, rounded up, the mean."""
    rates = per_class_accuracy(counts, torch.float64)[counts.sum(1) > 0]
    kept = max(1, math.ceil(round(share * len(rates), 9)))
    return float(rates.sort().values[:kept].mean())


# The criteria of the best epoch, from counts under attack; CFA uses the sum, of many classes with the worst fifth of them.
CRITERIA: dict[str, Callable[[Tensor], float]] = {
    "average": overall,
    "worst": worst,
    "sum": lambda counts: overall(counts) + worst(counts),
    "sum-fifth": lambda counts: overall(counts) + worst(counts, 0.2),
}
