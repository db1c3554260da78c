"""Residual networks: ResNet-10, 18 and 50, PreActResNet-18, WideResNet-28-10 and 34-10."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from classwise.models.architecture import Shape, large
from classwise.models.layers import conv


class PreActivation(nn.Module):
    """A residual block with pre-activation (He et al. 2016b), as used by Rice et al., CFA and TRADES' WideResNet."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        same = stride == 1 and inputs == outputs
        self.shortcut = None if same else nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = self.bn1(x).relu()
        skip = x if self.shortcut is None else self.shortcut(active)
        out: Tensor = self.conv2(self.bn2(self.conv1(active)).relu()) + skip
        return out


Block = Callable[[int, int, int], nn.Module]
_NAMES = ("layer1", "layer2", "layer3", "layer4")


def _block(kind: str, inputs: int, outputs: int, stride: int) -> nn.Module:
    """Return a block of torchvision, whose shortcut is a 1x1 convolution with batch norm where it changes the shape."""
    from torchvision.models import resnet

    cls, same = getattr(resnet, kind), stride == 1 and inputs == outputs
    shortcut = [] if same else [nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)]
    block: nn.Module = cls(inputs, outputs // cls.expansion, stride, nn.Sequential(*shortcut) if shortcut else None)
    return block


_basic, _bottleneck = partial(_block, "BasicBlock"), partial(_block, "Bottleneck")


def _stages(block: Block, stem: int, first: int, repeats: tuple[int, ...], names: tuple[str, ...]) -> dict[str, nn.Sequential]:
    """Return stages of blocks, the first from `stem` to `first` channels; each later one has twice as many, half the size."""
    stages, inputs = {}, stem
    for stage, (repeat, name) in enumerate(zip(repeats, names, strict=True)):
        outputs, rest = first * 2**stage, range(repeat - 1)
        stages[name] = nn.Sequential(block(inputs, outputs, 2 if stage else 1), *(block(outputs, outputs, 1) for _ in rest))
        inputs = outputs
    return stages


def _flat(block: Block, width: int, repeat: int) -> list[nn.Module]:
    """Return the blocks of four stages, `repeat` in each."""
    return [part for stage in _stages(block, width, width, 4 * (repeat,), _NAMES).values() for part in stage]


def _pooled() -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten()]


def _first(shape: Shape, width: int) -> nn.Conv2d:
    """Return the first convolution: 3x3, for large images 7x7 with stride 2."""
    kernel, stride = (7, 2) if large(shape) else (3, 1)
    return nn.Conv2d(shape[0], width, kernel, stride=stride, padding=kernel // 2, bias=False)


def _pool(shape: Shape) -> list[nn.Module]:
    """Return the pooling at the end of the stem, which only large images have."""
    return [nn.MaxPool2d(3, stride=2, padding=1)] if large(shape) else []


def _stem(shape: Shape, width: int) -> list[nn.Module]:
    return [_first(shape, width), nn.BatchNorm2d(width), nn.ReLU(inplace=True), *_pool(shape)]


def _bare_stem(shape: Shape, width: int) -> list[nn.Module]:
    """Return the stem of a network with pre-activation."""
    if large(shape):
        conv(shape[0], width)  # drawn and left out: the random numbers of a seed come in this order
    return [_first(shape, width), *_pool(shape)]


def _he_initialised(body: nn.Module) -> nn.Module:
    """Return the body with convolutions initialised by their fan-out (He et al. 2015), as in torchvision and WideResNet."""
    for layer in body.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return body


def resnet18(shape: Shape, classes: int, width: int) -> tuple[nn.Module, nn.Linear]:
    """Return ResNet-18 (He et al. 2016a), for small images with a 3x3 stem and no pooling; `width` 64 as published.

    The small form has torch's default initialisation, as is common for CIFAR-10, the large one torchvision's.
    """
    body = nn.Sequential(*_stem(shape, width), *_flat(_basic, width, 2), *_pooled())
    return _he_initialised(body) if large(shape) else body, nn.Linear(8 * width, classes)


def resnet10_s2(shape: Shape, classes: int, width: int) -> tuple[nn.Module, nn.Linear]:
    """Return ResNet-10, one block of ResNet-18 a stage, with a 3x3 stem of stride 2: a quarter of the pixels, for CPU cores."""
    blocks = _flat(_basic, width, 1)
    return nn.Sequential(*conv(shape[0], width, 2), *blocks, *_pooled()), nn.Linear(8 * width, classes)


def resnet50(shape: Shape, classes: int, width: int) -> tuple[nn.Module, nn.Linear]:
    """Return ResNet-50, strided in its 3x3 convolutions as in torchvision; stems, initialisation and `width` as `resnet18`."""
    body = OrderedDict(zip(("conv1", "bn1", "relu", "maxpool"), _stem(shape, width), strict=False))
    body |= _stages(_bottleneck, width, 4 * width, (3, 4, 6, 3), _NAMES)
    body |= zip(("avgpool", "flat"), _pooled(), strict=True)
    network = nn.Sequential(body)
    return _he_initialised(network) if large(shape) else network, nn.Linear(32 * width, classes)


def preact_resnet18(shape: Shape, classes: int, width: int) -> tuple[nn.Module, nn.Linear]:
    """Return PreActResNet-18, with batch norm and ReLU before pooling (Rice et al. 2020, CFA); `width` 64 as published.

    For large images the stem is a 7x7 convolution and a pooling, as in He et al. (2016b).
    """
    stem = _bare_stem(shape, width)
    end = [nn.BatchNorm2d(8 * width), nn.ReLU(inplace=True), *_pooled()]
    return nn.Sequential(*stem, *_flat(PreActivation, width, 2), *end), nn.Linear(8 * width, classes)


def _wide(depth: int, shape: Shape, classes: int, width: int) -> tuple[nn.Module, nn.Linear]:
    """Return a WideResNet (Zagoruyko and Komodakis 2016) without dropout; `width` 160, ten times 16, as published.

    The stem has 16 channels at any width. The code of TRADES and HE has another group of blocks (`sub_block1`) that the forward
    pass does not use; it is left out. There is no ImageNet form: for large images the stem is a strided 7x7 convolution and a
    pooling.
    """
    body = OrderedDict[str, nn.Module](zip(("conv1", "maxpool"), _bare_stem(shape, 16), strict=False))
    stages = _stages(PreActivation, 16, width, 3 * ((depth - 4) // 6,), ("block1", "block2", "block3"))
    body |= {name: nn.Sequential(OrderedDict(layer=stage)) for name, stage in stages.items()}
    body |= {"bn1": nn.BatchNorm2d(4 * width), "relu": nn.ReLU(inplace=True)}
    body |= {"avgpool": nn.AdaptiveAvgPool2d(1), "flat": nn.Flatten()}
    head = nn.Linear(4 * width, classes)
    nn.init.zeros_(head.bias)
    return _he_initialised(nn.Sequential(body)), head


wrn_28_10 = partial(_wide, 28)
wrn_34_10 = partial(_wide, 34)


def common_names(body: nn.Module) -> dict[str, str]:
    """Return the usual names of the parts of a flat residual network with four equal stages; {} for any other body."""
    parts = list(body.named_children())
    blocks = [name for name, part in parts if isinstance(part, PreActivation) or type(part).__name__ == "BasicBlock"]
    if not blocks or len(blocks) % 4:
        return {}
    depth = len(blocks) // 4
    names = {name: f"layer{place // depth + 1}.{place % depth}" for place, name in enumerate(blocks)}
    for name, part in parts:
        if isinstance(part, nn.Conv2d):
            names[name] = "conv1"
        elif isinstance(part, nn.BatchNorm2d):
            names[name] = "bn1" if int(name) < int(blocks[0]) else "bn"
    return names
