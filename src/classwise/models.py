"""Networks that take pixels in [0, 1] and normalise inside; `features()` gives what the last layer reads."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from classwise.errors import unknown
from classwise.images import Images


class Classifier(nn.Module):
    """A body that turns images into features, and a linear head that turns features into logits.

    `mean` and `std` (channels,) normalise the pixels; they travel with the weights.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, body: nn.Module, head: nn.Linear, mean: Tensor, std: Tensor) -> None:
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


def _conv(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    return [conv, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]


def small_cnn(shape: tuple[int, int, int], classes: int, width: int) -> tuple[nn.Module, nn.Linear]:
    """Return 3x3 convolutions of `width`, 2 `width` (halving the image) and 2 `width` channels with batch norm, and a head."""
    channels, high, wide = shape
    body = nn.Sequential(*_conv(channels, width), *_conv(width, 2 * width, 2), *_conv(2 * width, 2 * width), nn.Flatten())
    return body, nn.Linear(2 * width * math.ceil(high / 2) * math.ceil(wide / 2), classes)


MODELS: dict[str, Callable[[tuple[int, int, int], int, int], tuple[nn.Module, nn.Linear]]] = {"small-cnn": small_cnn}


def build(name: str, images: Images, width: int, seed: int = 0) -> Classifier:
    """Return a freshly initialised model for the shape, the classes and the pixel statistics of `images`.

    `seed` decides the initial weights; the global random state is left as it was.
    """
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    pixels = images.pixels.float() / 255
    mean, std = pixels.mean((0, 2, 3)), pixels.std((0, 2, 3))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        body, head = MODELS[name](images.shape, len(images.classes), width)
    return Classifier(body, head, mean, std).to(images.pixels.device)
