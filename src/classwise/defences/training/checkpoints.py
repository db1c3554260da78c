"""Measurements on images that are not trained on, and which epochs' weights are kept."""

import math
from collections.abc import Callable, Collection

import torch
from torch import Tensor, nn

from classwise.attacks import evaluate
from classwise.attacks.balls import BALLS
from classwise.attacks.evaluate import EvaluationSettings, confusion_counts
from classwise.defences.calibrations import per_class_accuracy
from classwise.defences.objectives import Adversary
from classwise.defences.training.state import State, TrainConfig
from classwise.images import Images
from classwise.models.modes import eval_mode, frozen


def attacked_counts(
    state: State, config: TrainConfig, images: Images | None, model: nn.Module | None = None
) -> tuple[Tensor, Tensor]:
    """Return counts[label, predicted] of images, clean and under the validation attack, by the logits of the loss."""
    assert config.validation_attack is not None, "the configuration names no validation attack"
    assert images is not None, "the configuration needs images to measure"
    network, classes = config.defence.objective.scaled_model(model or state.model), len(images.classes)
    ball = BALLS[config.norm](state.radius if config.validation_radius is None else config.validation_radius)
    with torch.no_grad(), eval_mode(network):
        clean = sum(confusion_counts(y, network(x).argmax(1), classes) for x, y in images.batches(500))
    how = EvaluationSettings(seed=state.epoch, precision=config.precision)
    result = evaluate.evaluate(network, images, config.validation_attack, ball, how)
    assert isinstance(clean, Tensor)
    return clean, confusion_counts(result.truth, result.answer, classes)


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
            settings = state.base.at(y)
            ball = BALLS[config.norm](settings.radius)
            adversary = Adversary(config.attack, ball, "eval", generator, state.epoch / config.epochs)
            loss = config.defence.objective(state.model, x, y, settings, adversary).loss
            sums[:-1].index_add_(0, y, loss)
            sizes[:-1].index_add_(0, y, torch.ones_like(loss))
    sums[-1], sizes[-1] = sums[:-1].sum(), sizes[:-1].sum()
    mean: Tensor = sums / sizes.clamp_min(1)
    return mean


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


def names(*, selects: bool, averaging: bool, keep: int, test_selected: bool, averages: Collection[str] = ()) -> list[str]:
    """Return the names of the checkpoints of a training, "last" first.

    averaging: whether the defence averages its weights. averages: the names of those that are kept next to it.
    """
    result = ["last", *(f"last-{back}" for back in range(1, keep))]
    result += ["best"] * selects + ["average"] * averaging + ["test-selected"] * test_selected
    for name in averages:
        result += [name, *(f"{name}-{back}" for back in range(1, keep))] + [f"best-{name}"] * selects
    return result
