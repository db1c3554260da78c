"""Architectures: the body and the linear head of each model, for small images and for those of ImageNet.

VGG, DenseNet, GoogLeNet and Inception-v3 are torchvision's modules, narrowed on request and with a stem for small images, with
torchvision's initialisation unless stated otherwise, without auxiliary classifiers and with `transform_input` off, because the
classifier normalises.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from classwise.models.layers import conv

Shape = tuple[int, int, int]
Made = tuple[nn.Module, nn.Linear]

# From this height and width on a network has the stem of its ImageNet form, which downsamples by four; below, the stem commonly
# used for CIFAR-10. STL-10 (96 pixels) is trained with all the settings of CIFAR-10 (Tian 2021, A.1); fast adversarial training
# on ImageNet begins with 128 pixels (Wong et al. 2020).
LARGE = 128


@dataclass(frozen=True)
class Design:
    """How a model is made: `make(shape, classes, width)` returns its body and its linear head, freshly initialised.

    width: the published number of channels of the first stage; all others scale in proportion, so that half the width has about a
    quarter of the parameters. step: widths must be multiples of it, so that all numbers of channels are integers. least: the
    smallest height and width of an image in pixels.
    """

    make: Callable[[Shape, int, int], Made]
    width: int
    step: int = 1
    least: int = 1


def large(shape: Shape) -> bool:
    """Return whether networks for images of a shape have their ImageNet form."""
    return min(shape[1:]) >= LARGE


def small_cnn(shape: Shape, classes: int, width: int) -> Made:
    """Return 3x3 convolutions of `width`, 2 `width` (halving the image) and 2 `width` channels with batch norm, and a head."""
    channels, high, wide = shape
    body = nn.Sequential(*conv(channels, width), *conv(width, 2 * width, 2), *conv(2 * width, 2 * width), nn.Flatten())
    return body, nn.Linear(2 * width * math.ceil(high / 2) * math.ceil(wide / 2), classes)


def lenet(shape: Shape, classes: int, width: int) -> Made:
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
    pixels = math.prod(((side - losses[0]) // 2 - losses[1]) // 2 for side in (high, wide))
    body |= {"flat": nn.Flatten(), "fc1": nn.Linear(second * pixels, first_layer), "relu3": nn.ReLU(inplace=True)}
    body |= {"fc2": nn.Linear(first_layer, last_layer), "relu4": nn.ReLU(inplace=True)}
    return nn.Sequential(body), nn.Linear(last_layer, classes)


def mnist_cnn(shape: Shape, classes: int, width: int) -> Made:
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
    pixels = math.prod(((side - 4) // 2 - 4) // 2 for side in (high, wide))
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
    return [part for stage in _stages(block, width, width, 4 * (repeat,), _NAMES).values() for part in stage]


def _pooled() -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten()]


def _first(shape: Shape, width: int) -> nn.Conv2d:
    kernel, stride = (7, 2) if large(shape) else (3, 1)
    return nn.Conv2d(shape[0], width, kernel, stride=stride, padding=kernel // 2, bias=False)


def _pool(shape: Shape) -> list[nn.Module]:
    """Return the pooling at the end of the stem, which only large images have."""
    return [nn.MaxPool2d(3, stride=2, padding=1)] if large(shape) else []


def _stem(shape: Shape, width: int) -> list[nn.Module]:
    return [_first(shape, width), nn.BatchNorm2d(width), nn.ReLU(inplace=True), *_pool(shape)]


def _bare_stem(shape: Shape, width: int) -> list[nn.Module]:
    if large(shape):
        conv(shape[0], width)  # drawn and left out: the random numbers of a seed come in this order
    return [_first(shape, width), *_pool(shape)]


def _he_initialised(body: nn.Module) -> nn.Module:
    """Return the body with convolutions initialised by their fan-out (He et al. 2015), as in torchvision and WideResNet."""
    for layer in body.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return body


def resnet18(shape: Shape, classes: int, width: int) -> Made:
    """Return ResNet-18 (He et al. 2016a), for small images with a 3x3 stem and no pooling; `width` 64 as published.

    The small form has torch's default initialisation, as is common for CIFAR-10, the large one torchvision's.
    """
    body = nn.Sequential(*_stem(shape, width), *_flat(_basic, width, 2), *_pooled())
    return _he_initialised(body) if large(shape) else body, nn.Linear(8 * width, classes)


def resnet10_s2(shape: Shape, classes: int, width: int) -> Made:
    """Return ResNet-10, one block of ResNet-18 a stage, with a 3x3 stem of stride 2: a quarter of the pixels, for CPU cores."""
    blocks = _flat(_basic, width, 1)  # drawn before the stem
    return nn.Sequential(*conv(shape[0], width, 2), *blocks, *_pooled()), nn.Linear(8 * width, classes)


def resnet50(shape: Shape, classes: int, width: int) -> Made:
    """Return ResNet-50, strided in its 3x3 convolutions as in torchvision; stems, initialisation and `width` as `resnet18`."""
    body = OrderedDict(zip(("conv1", "bn1", "relu", "maxpool"), _stem(shape, width), strict=False))
    body |= _stages(_bottleneck, width, 4 * width, (3, 4, 6, 3), _NAMES)
    body |= zip(("avgpool", "flat"), _pooled(), strict=True)
    network = nn.Sequential(body)
    return _he_initialised(network) if large(shape) else network, nn.Linear(32 * width, classes)


def preact_resnet18(shape: Shape, classes: int, width: int) -> Made:
    """Return PreActResNet-18, with batch norm and ReLU before pooling (Rice et al. 2020, CFA); `width` 64 as published.

    For large images the stem is a 7x7 convolution and a pooling, as in He et al. (2016b).
    """
    stem = _bare_stem(shape, width)
    end = [nn.BatchNorm2d(8 * width), nn.ReLU(inplace=True), *_pooled()]
    return nn.Sequential(*stem, *_flat(PreActivation, width, 2), *end), nn.Linear(8 * width, classes)


def _wide(depth: int, shape: Shape, classes: int, width: int) -> Made:
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


wrn_28_10, wrn_34_10 = partial(_wide, 28), partial(_wide, 34)


def common_names(body: nn.Module) -> dict[str, str]:
    """Return the usual names of the parts of a flat residual network with four equal stages; {} for any other body."""
    parts = list(body.named_children())
    blocks = [name for name, part in parts if isinstance(part, PreActivation) or type(part).__name__ == "BasicBlock"]
    if not blocks or len(blocks) % 4:
        return {}
    depth = len(blocks) // 4
    names = {name: f"layer{place // depth + 1}.{place % depth}" for place, name in enumerate(blocks)}
    names |= {name: "conv1" for name, part in parts if isinstance(part, nn.Conv2d)}
    norms = [name for name, part in parts if isinstance(part, nn.BatchNorm2d)]
    return names | {name: "bn1" if int(name) < int(blocks[0]) else "bn" for name in norms}


def _convolution_like(conv: nn.Conv2d, channels: int, **other: Any) -> nn.Conv2d:
    settings = {name: getattr(conv, name) for name in ("kernel_size", "stride", "padding")} | other
    return nn.Conv2d(channels, conv.out_channels, bias=conv.bias is not None, **settings)


def _vgg(letter: str, shape: Shape, classes: int, width: int) -> Made:
    """Return VGG (Simonyan and Zisserman 2015); `width` 64 as published.

    Small images: with batch norm, a single linear layer and torch's initialisation, as is common for CIFAR-10. Large images: as
    published and in torchvision, without batch norm, with two hidden layers of 64 `width` and dropout. Poolings of a single pixel
    are left out: images of less than 32 pixels have fewer than five.
    """
    from torchvision.models.vgg import cfgs, make_layers

    counts = [count if isinstance(count, str) else count * width // 64 for count in cfgs[letter]]
    poolings = [place for place, count in enumerate(counts) if count == "M"]
    single = poolings[min(shape[1:]).bit_length() - 1 :]
    features = make_layers([count for place, count in enumerate(counts) if place not in single], batch_norm=not large(shape))
    if shape[0] != 3:
        features[0] = _convolution_like(features[0], shape[0])
    pool = nn.AdaptiveAvgPool2d(7 if large(shape) else 1)
    body = OrderedDict[str, nn.Module](features=features, avgpool=pool, flat=nn.Flatten())
    if not large(shape):
        return nn.Sequential(body), nn.Linear(8 * width, classes)
    hidden = 64 * width
    layers = [nn.Linear(8 * width * 7 * 7, hidden), nn.ReLU(inplace=True), nn.Dropout()]
    body["classifier"] = nn.Sequential(*layers, nn.Linear(hidden, hidden), nn.ReLU(inplace=True), nn.Dropout())
    network, head = nn.Sequential(body), nn.Linear(hidden, classes)
    for layer in (*_he_initialised(network).modules(), head):
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, 0, 0.01)
        if isinstance(layer, nn.Conv2d | nn.Linear) and layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return network, head


vgg16, vgg19 = partial(_vgg, "D"), partial(_vgg, "E")


def _dense(repeats: tuple[int, ...], shape: Shape, classes: int, width: int) -> Made:
    """Return DenseNet-BC (Huang et al. 2017); `width` 64 as published, twice the growth rate.

    Small images: a 3x3 convolution and no pooling before the dense blocks.
    """
    from torchvision.models.densenet import DenseNet

    net = DenseNet(width // 2, repeats, width, num_classes=classes)
    first = net.features.conv0
    if not large(shape):
        net.features.conv0 = _convolution_like(first, shape[0], kernel_size=3, stride=1, padding=1)
        net.features.pool0 = nn.Identity()
    elif shape[0] != 3:
        net.features.conv0 = _convolution_like(first, shape[0])
    nn.init.kaiming_normal_(net.features.conv0.weight)
    head, net.classifier = net.classifier, nn.Identity()
    return net, head


densenet121, densenet169 = partial(_dense, (6, 12, 24, 16)), partial(_dense, (6, 12, 32, 32))


def _narrowing(channels: int, width: int, published: int) -> Any:
    """Return torchvision's convolution with batch norm and ReLU, with numbers of channels scaled by `width` / `published`."""
    from torchvision.models.inception import BasicConv2d

    def conv(inputs: int, outputs: int, **how: Any) -> nn.Module:
        inputs = channels if inputs == 3 else inputs * width // published
        made: nn.Module = BasicConv2d(inputs, outputs * width // published, **how)
        return made

    return conv


def _with_head(net: nn.Module, inputs: int, classes: int, std: float) -> Made:
    """Return a network without its last layer, and a new last layer with the same initialisation."""
    net.fc = nn.Identity()
    head = nn.Linear(inputs, classes)
    nn.init.trunc_normal_(head.weight, std=std, a=-2, b=2)
    return net, head


def googlenet(shape: Shape, classes: int, width: int) -> Made:
    """Return GoogLeNet (Szegedy et al. 2015) with batch norm, as torchvision has it; `width` 64 as published.

    Small images: a 3x3 convolution of 3 `width` channels before the inception modules, as is common for CIFAR-10.
    Dropout of 0.2 acts on the features in train mode; without auxiliary classifiers the output has the same form in both
    modes. The branch published as 5x5 is 3x3, as in torchvision and its weights.
    """
    from torchvision.models.googlenet import GoogLeNet, Inception, InceptionAux

    conv = _narrowing(shape[0], width, 64)
    blocks = [conv, partial(Inception, conv_block=conv), InceptionAux]
    net = GoogLeNet(1, aux_logits=False, init_weights=True, blocks=blocks)
    if not large(shape):
        net.conv1 = conv(3, 192, kernel_size=3, padding=1)
        nn.init.trunc_normal_(net.conv1.conv.weight, std=0.01, a=-2, b=2)
        net.maxpool1 = net.conv2 = net.conv3 = net.maxpool2 = nn.Identity()
    return _with_head(net, 16 * width, classes, 0.01)


def inception_v3(shape: Shape, classes: int, width: int) -> Made:
    """Return Inception-v3 (Szegedy et al. 2016), as torchvision has it; `width` 32 as published.

    Small images: a 3x3 convolution of 6 `width` channels before the inception modules, as is common for CIFAR-10.
    Dropout of 0.5 acts on the features in train mode; there is no auxiliary classifier.
    """
    from torchvision.models import inception as parts

    conv = _narrowing(shape[0], width, 32)
    mixed = [getattr(parts, f"Inception{letter}") for letter in "ABCDE"]
    blocks = [conv, *(partial(block, conv_block=conv) for block in mixed), parts.InceptionAux]
    net = parts.Inception3(1, aux_logits=False, init_weights=True, inception_blocks=blocks)
    if not large(shape):
        net.Conv2d_1a_3x3 = conv(3, 192, kernel_size=3, padding=1)
        nn.init.trunc_normal_(net.Conv2d_1a_3x3.conv.weight, std=0.1, a=-2, b=2)
        for name in ("Conv2d_2a_3x3", "Conv2d_2b_3x3", "maxpool1", "Conv2d_3b_1x1", "Conv2d_4a_3x3", "maxpool2"):
            setattr(net, name, nn.Identity())
    return _with_head(net, 64 * width, classes, 0.1)
