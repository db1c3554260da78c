"""Two convolutions and two linear layers: cnn_a pads the convolutions by a pixel, conv_small does not."""

from torch import nn


def cnn_a() -> nn.Sequential:
    return _network(padding=1, features=2048)


def conv_small() -> nn.Sequential:
    return _network(padding=0, features=1152)


def _network(padding: int, features: int) -> nn.Sequential:
    first, second = nn.Conv2d(3, 16, 4, 2, padding), nn.Conv2d(16, 32, 4, 2, padding)
    linear = nn.Linear(features, 100), nn.ReLU(), nn.Linear(100, 10)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), *linear)
