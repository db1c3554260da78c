"""Classifiers, built by name: normalisation of the pixels, a body and a head."""

import torch
from torch import Tensor, nn

from classwise.core.errors import UserError, check_known
from classwise.images import Images
from classwise.models import architectures
from classwise.models.architectures import Design, Shape
from classwise.models.layers import HEADS, LAYERS, replace_batch_norm


class Classifier(nn.Module):
    """A body that maps images to features, and a head that maps features to logits.

    `mean` and `std` (channels,) normalise the pixels; they are saved with the weights.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, body: nn.Module, head: nn.Module, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.body, self.head = body, head
        self.register_buffer("mean", mean.view(-1, 1, 1))
        self.register_buffer("std", std.view(-1, 1, 1))

    def features(self, x: Tensor) -> Tensor:
        """Return the penultimate layer: (n, channels, height, width) in [0, 1] -> (n, features)."""
        features: Tensor = self.body((x - self.mean) / self.std)
        return features

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits: (n, channels, height, width) in [0, 1] -> (n, classes)."""
        logits: Tensor = self.head(self.features(x))
        return logits


# Images of at least LARGE pixels get the ImageNet form of a model.
MODELS: dict[str, Design] = {
    "small-cnn": Design(architectures.small_cnn, 16),  # not published elsewhere
    "lenet": Design(architectures.lenet, 6, least=4),
    "mnist-cnn": Design(architectures.mnist_cnn, 32, least=16),
    "vgg16": Design(architectures.vgg16, 64),
    "vgg19": Design(architectures.vgg19, 64),
    "resnet10-s2": Design(architectures.resnet10_s2, 64),  # not published elsewhere
    "resnet18": Design(architectures.resnet18, 64),
    "resnet50": Design(architectures.resnet50, 64),
    "preact-resnet18": Design(architectures.preact_resnet18, 64),
    "densenet121": Design(architectures.densenet121, 64, step=2, least=8),
    "densenet169": Design(architectures.densenet169, 64, step=2, least=8),
    "googlenet": Design(architectures.googlenet, 64, step=8, least=2),
    "inception-v3": Design(architectures.inception_v3, 32, step=2, least=7),
    "wrn-28-10": Design(architectures.wrn_28_10, 160),
    "wrn-34-10": Design(architectures.wrn_34_10, 160),
}


def make(name: str, shape: Shape, classes: int, width: int | None = None) -> tuple[nn.Module, nn.Linear]:
    """Return the body and the linear head of a model for images of a shape, initialised from the global random state.

    width: the channels of its first stage, None for the published number; all others scale in proportion. A UserError names an
    unknown model, a width that is not a multiple of its step, and images that are too small.
    """
    return check_fit(name, shape, width).make(shape, classes, MODELS[name].width if width is None else width)


def check_fit(name: str, shape: Shape, width: int | None = None) -> Design:
    """Return the design of a model after checking its width and the shape of its images; UserErrors as of `make`."""
    check_known("model", [name], MODELS)
    design, side = MODELS[name], min(shape[1:])
    width = design.width if width is None else width
    if width < 1 or width % design.step:
        steps = f"multiples of {design.step}, {design.width} as published"
        raise UserError(f"{name} cannot be {width} channels wide; write one of the {steps}")
    if side < design.least:
        fit = ", ".join(other for other, known in MODELS.items() if side >= known.least)
        least = f"{design.least}x{design.least}"
        raise UserError(f"{name} needs images of {least} pixels or more, got {shape[1]}x{shape[2]}; these models fit: {fit}")
    return design


def build(
    name: str, images: Images, width: int | None = None, seed: int = 0, head: str = "linear", layer: str = "batch"
) -> Classifier:
    """Return a freshly initialised model for the shape, the classes and the pixel statistics of `images`.

    width: channels of its first stage, None as published (`MODELS[name].width`); head: a name of HEADS; layer: a name of LAYERS,
    the normalisation. `seed` decides the initial weights; the global random state does not change. A UserError is raised for
    images that are too small, an impossible width, and where there is no batch norm to replace.
    """
    for what, given, table in (("model", name, MODELS), ("head", head, HEADS), ("layer", layer, LAYERS)):
        check_known(what, [given], table)
    pixels = images.pixels.float() / 255
    mean, std = pixels.mean((0, 2, 3)), pixels.std((0, 2, 3))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        body, last = HEADS[head](*make(name, images.shape, len(images.classes), width))
    if layer == "batch-instance" and not replace_batch_norm(body):
        raise UserError(f"{name} has no batch norm that layer={layer!r} could replace; use layer='batch' or another model")
    return Classifier(body, last, mean, std).to(images.pixels.device)
