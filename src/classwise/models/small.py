"""Small networks: one of three convolutions, LeNet, and the CNN of TRADES for MNIST."""

import math
from collections import OrderedDict

from torch import nn

from classwise.models.architecture import Shape
from classwise.models.layers import conv


def small_cnn(shape: Shape, classes: int, width: int) -> tuple[nn.Module, nn.Linear]:
    """Return 3x3 convolutions of `width`, 2 `width` (halving the image) and 2 `width` channels with batch norm, and a head."""
    channels, high, wide = shape
    body = nn.Sequential(*conv(channels, width), *conv(width, 2 * width, 2), *conv(2 * width, 2 * width), nn.Flatten())
    return body, nn.Linear(2 * width * math.ceil(high / 2) * math.ceil(wide / 2), classes)


def _remaining(side: int, *losses: int) -> int:
    """Return the length of a side after convolutions that each lose some pixels and are followed by a pooling that halves."""
    for loss in losses:
        side = (side - loss) // 2
    return side


def lenet(shape: Shape, classes: int, width: int) -> tuple[nn.Module, nn.Linear]:
    """Return LeNet-5 (LeCun et al. 1998) with ReLU and max-pooling; `width` 6 as published.

    Two convolutions of 5x5, `width` and 8/3 `width` channels, and layers of 20 and 14 `width`. Images of less than 32 pixels are
    padded by two on each side, as LeCun's digits from 28 to 32; of less than 12, before the second convolution, too. There is no
    batch norm.
    """
    channels, high, wide = shape
    second, first_layer, last_layer = max(1, round(8 * width / 3)), 20 * width, 14 * width
    paddings = [2 if min(high, wide) < least else 0 for least in (32, 12)]
    losses = [4 - 2 * padding for padding in paddings]
    body = OrderedDict[str, nn.Module](conv1=nn.Conv2d(channels, width, 5, padding=paddings[0]))
    body |= {"relu1": nn.ReLU(inplace=True), "pool1": nn.MaxPool2d(2)}
    body |= {"conv2": nn.Conv2d(width, second, 5, padding=paddings[1]), "relu2": nn.ReLU(inplace=True), "pool2": nn.MaxPool2d(2)}
    pixels = _remaining(high, *losses) * _remaining(wide, *losses)
    body |= {"flat": nn.Flatten(), "fc1": nn.Linear(second * pixels, first_layer), "relu3": nn.ReLU(inplace=True)}
    body |= {"fc2": nn.Linear(first_layer, last_layer), "relu4": nn.ReLU(inplace=True)}
    return nn.Sequential(body), nn.Linear(last_layer, classes)


def mnist_cnn(shape: Shape, classes: int, width: int) -> tuple[nn.Module, nn.Linear]:
    """Return the CNN of four 3x3 convolutions of TRADES for MNIST (Zhang et al. 2019); `width` 32 as published.

    Two convolutions of `width` and two of 2 `width` channels, unpadded, then two layers of 25/4 `width` with dropout of 0.5
    between them. As in TRADES' code the head is initialised to zero, so that all initial logits are equal. No batch norm.
    """
    channels, high, wide = shape
    hidden = max(1, round(25 * width / 4))
    features = OrderedDict[str, nn.Module](conv1=nn.Conv2d(channels, width, 3), relu1=nn.ReLU(inplace=True))
    features |= {"conv2": nn.Conv2d(width, width, 3), "relu2": nn.ReLU(inplace=True), "pool1": nn.MaxPool2d(2)}
    features |= {"conv3": nn.Conv2d(width, 2 * width, 3), "relu3": nn.ReLU(inplace=True)}
    features |= {"conv4": nn.Conv2d(2 * width, 2 * width, 3), "relu4": nn.ReLU(inplace=True), "pool2": nn.MaxPool2d(2)}
    features["flat"] = nn.Flatten()
    pixels = _remaining(high, 4, 4) * _remaining(wide, 4, 4)
    classifier = OrderedDict[str, nn.Module](fc1=nn.Linear(2 * width * pixels, hidden), relu1=nn.ReLU(inplace=True))
    classifier |= {"drop": nn.Dropout(0.5), "fc2": nn.Linear(hidden, hidden), "relu2": nn.ReLU(inplace=True)}
    for layer in features.values():
        if isinstance(layer, nn.Conv2d) and layer.bias is not None:
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
    parts = OrderedDict[str, nn.Module](feature_extractor=nn.Sequential(features), classifier=nn.Sequential(classifier))
    head = nn.Linear(hidden, classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return nn.Sequential(parts), head
