"""What the objective would cost on images that are not trained on."""

import torch
from torch import Tensor

from classwise.attacks.balls import BALLS
from classwise.defences.adversary import Adversary
from classwise.defences.training.state import State, TrainConfig
from classwise.images import Images
from classwise.models.modes import eval_mode, frozen


def measured(state: State, plan: TrainConfig, images: Images) -> Tensor:
    """Return the mean loss of the images of each class, then that of all: (classes + 1,); of a class without images: 0.

    The network is in eval mode and attacked as in training, all classes at the settings before any calibration. The training's
    own random numbers are not touched.
    """
    device = images.pixels.device
    sums, sizes = torch.zeros(2, len(images.classes) + 1, device=device)
    generator = torch.Generator(device).manual_seed(state.epoch)
    with eval_mode(state.model), frozen(state.model), torch.no_grad():
        for x, y in images.batches(500):
            each = state.base.at(y)
            adversary = Adversary(plan.attack, BALLS[plan.norm](each.radius), "eval", generator, state.epoch / plan.epochs)
            loss = plan.defence.objective(state.model, x, y, each, adversary).loss
            sums[:-1].index_add_(0, y, loss)
            sizes[:-1].index_add_(0, y, torch.ones_like(loss))
    sums[-1], sizes[-1] = sums[:-1].sum(), sizes[:-1].sum()
    mean: Tensor = sums / sizes.clamp_min(1)
    return mean
