"""Networks that take pixels in [0, 1] and normalise inside; `features()` gives what the last layer reads."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from classwise.errors import unknown
from classwise.images import Images


class Classifier(nn.Module):
    """A body that turns images into features, and a head that turns features into logits.

    `mean` and `std` (channels,) normalise the pixels; they travel with the weights.
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


class CosineHead(nn.Module):
    """The cosines between the features and a direction for each class, without a scale (HE, Pang et al. 2020; LDAM).

    The directions are normalised as the forward pass reads them, so that gradients have no part along them; HE's own code
    rescales the weights in place instead. Weight decay shortens the vectors and changes no answer.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = nn.Parameter(linear.weight.detach().clone())

    def forward(self, features: Tensor) -> Tensor:
        # Features may come from a body that runs in bfloat16.
        return F.linear(F.normalize(features.to(self.weight.dtype), dim=1), F.normalize(self.weight, dim=1))


class BatchInstanceNorm(nn.Module):
    """Batch norm and instance norm, mixed by a gate for each channel (Nam and Kim 2018; Entropy 2022, A.3).

    weight x (gate x BN(x) + (1 - gate) x IN(x)) + bias: instance norm uses the image's own statistics, in eval mode too; the gate
    begins at 1, batch norm alone, and whoever trains it clips it to 0 to 1 after each step.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.batch = nn.BatchNorm2d(channels, affine=False)
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.gate = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        var, mean = torch.var_mean(x, dim=(2, 3), correction=0, keepdim=True)
        instance = (x - mean) * (var + self.batch.eps).rsqrt()
        gate, weight, bias = (one.view(-1, 1, 1) for one in (self.gate, self.weight, self.bias))
        found: Tensor = weight * (gate * self.batch(x) + (1 - gate) * instance) + bias
        return found


def _with_instances(body: nn.Module) -> None:
    """Replace every batch norm of a fresh body."""
    for name, layer in list(body.named_modules()):
        if isinstance(layer, nn.BatchNorm2d):
            home, _, last = name.rpartition(".")
            setattr(body.get_submodule(home), last, BatchInstanceNorm(layer.num_features))


def _conv(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    return [conv, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]


def small_cnn(shape: tuple[int, int, int], classes: int, width: int) -> tuple[nn.Module, nn.Linear]:
    """Return 3x3 convolutions of `width`, 2 `width` (halving the image) and 2 `width` channels with batch norm, and a head."""
    channels, high, wide = shape
    body = nn.Sequential(*_conv(channels, width), *_conv(width, 2 * width, 2), *_conv(2 * width, 2 * width), nn.Flatten())
    return body, nn.Linear(2 * width * math.ceil(high / 2) * math.ceil(wide / 2), classes)


class _PreActivation(nn.Module):
    """A residual block that normalises before it convolves (He et al. 2016b), as Rice et al. and CFA use it."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        same = stride == 1 and inputs == outputs
        self.shortcut = None if same else nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = self.bn1(x).relu()
        past = x if self.shortcut is None else self.shortcut(active)
        out: Tensor = self.conv2(self.bn2(self.conv1(active)).relu()) + past
        return out


def _basic(inputs: int, outputs: int, stride: int) -> nn.Module:
    from torchvision.models.resnet import BasicBlock

    shortcut = None
    if stride > 1 or inputs != outputs:
        shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs))
    block: nn.Module = BasicBlock(inputs, outputs, stride, shortcut)
    return block


def _stages(block: Callable[[int, int, int], nn.Module], width: int) -> list[nn.Module]:
    """Return the four stages of two blocks of an 18-layer network: `width` to 8 `width` channels, halved three times."""
    blocks, inputs = [], width
    for stage in range(4):
        outputs = width * 2**stage
        blocks += [block(inputs, outputs, 1 if stage == 0 else 2), block(outputs, outputs, 1)]
        inputs = outputs
    return blocks


def _pooled() -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten()]


def resnet18(shape: tuple[int, int, int], classes: int, width: int) -> tuple[nn.Module, nn.Linear]:
    """Return ResNet-18 for small images, with a 3x3 stem and no pooling; `width` 64 as published (He et al. 2016a)."""
    body = nn.Sequential(*_conv(shape[0], width), *_stages(_basic, width), *_pooled())
    return body, nn.Linear(8 * width, classes)


def preact_resnet18(shape: tuple[int, int, int], classes: int, width: int) -> tuple[nn.Module, nn.Linear]:
    """Return PreActResNet-18 for small images, with batch norm and ReLU before pooling (Rice et al. 2020, CFA)."""
    stem = nn.Conv2d(shape[0], width, 3, padding=1, bias=False)
    end = [nn.BatchNorm2d(8 * width), nn.ReLU(inplace=True)]
    return nn.Sequential(stem, *_stages(_PreActivation, width), *end, *_pooled()), nn.Linear(8 * width, classes)


MODELS: dict[str, Callable[[tuple[int, int, int], int, int], tuple[nn.Module, nn.Linear]]] = {
    "small-cnn": small_cnn,
    "resnet18": resnet18,
    "preact-resnet18": preact_resnet18,
}


def _plane(body: nn.Module, head: nn.Linear) -> tuple[nn.Module, nn.Module]:
    return nn.Sequential(body, nn.Linear(head.in_features, 2)), nn.Linear(2, head.out_features, bias=False)


# What follows the body, made from the model's own linear head.
HEADS: dict[str, Callable[[nn.Module, nn.Linear], tuple[nn.Module, nn.Module]]] = {
    "linear": lambda body, head: (body, head),
    "cosine": lambda body, head: (body, CosineHead(head)),
    "plane": _plane,  # features of two numbers, to be drawn, and a head without bias (Entropy 2022, 2.1)
}
LAYERS = ("batch", "batch-instance")


def build(name: str, images: Images, width: int, seed: int = 0, head: str = "linear", layer: str = "batch") -> Classifier:
    """Return a freshly initialised model for the shape, the classes and the pixel statistics of `images`.

    head: a name of HEADS; layer: of LAYERS, what normalises. `seed` decides the initial weights; the global random state is left
    as it was.
    """
    for what, given, table in (("model", name, MODELS), ("head", head, HEADS), ("layer", layer, LAYERS)):
        if given not in table:
            raise unknown(what, given, table)
    pixels = images.pixels.float() / 255
    mean, std = pixels.mean((0, 2, 3)), pixels.std((0, 2, 3))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        body, last = HEADS[head](*MODELS[name](images.shape, len(images.classes), width))
    if layer == "batch-instance":
        _with_instances(body)
    return Classifier(body, last, mean, std).to(images.pixels.device)
