"""torchvision's VGG, DenseNet, GoogLeNet and Inception-v3, narrowed on request and with a stem for small images.

Each is torchvision's module with torchvision's initialisation unless stated otherwise, without auxiliary classifiers and with
`transform_input` off, because the classifier normalises.
"""

from collections import OrderedDict
from functools import partial
from typing import Any

from torch import nn

from classwise.models.architecture import Shape, large

Made = tuple[nn.Module, nn.Linear]


def _convolution_like(conv: nn.Conv2d, channels: int, **other: Any) -> nn.Conv2d:
    """Return a freshly initialised convolution like `conv`, for another number of input channels."""
    names = ("kernel_size", "stride", "padding")
    settings = {name: getattr(conv, name) for name in names} | other
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
    if not large(shape):
        body = OrderedDict[str, nn.Module](features=features, avgpool=nn.AdaptiveAvgPool2d(1), flat=nn.Flatten())
        return nn.Sequential(body), nn.Linear(8 * width, classes)
    hidden = 64 * width
    layers = [nn.Linear(8 * width * 7 * 7, hidden), nn.ReLU(inplace=True), nn.Dropout()]
    layers += [nn.Linear(hidden, hidden), nn.ReLU(inplace=True), nn.Dropout()]
    body = OrderedDict[str, nn.Module](features=features, avgpool=nn.AdaptiveAvgPool2d(7), flat=nn.Flatten())
    body["classifier"] = nn.Sequential(*layers)
    network, head = nn.Sequential(body), nn.Linear(hidden, classes)
    for layer in (*network.modules(), head):
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, 0, 0.01)
        if isinstance(layer, nn.Conv2d | nn.Linear) and layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return network, head


vgg16 = partial(_vgg, "D")
vgg19 = partial(_vgg, "E")


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


densenet121 = partial(_dense, (6, 12, 24, 16))
densenet169 = partial(_dense, (6, 12, 32, 32))


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
