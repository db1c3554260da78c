import hashlib
import json
import math
from pathlib import Path

import pytest
import torch
from torch import nn
from torchvision.models import get_model_weights

from classwise import images, models
from classwise.attacks.losses import cross_entropy
from classwise.attacks.pgd import input_gradient
from classwise.core.errors import UserError
from classwise.models.inference import fuse_for_search

PIXELS = torch.randint(0, 256, (8, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
SOME = images.Images(PIXELS, torch.arange(8), torch.arange(8), tuple("abcdefghij"))
X, Y = SOME.batch(slice(None))
PLAIN = ("lenet", "mnist-cnn")
NARROW = dict.fromkeys(models.MODELS, 4) | {"small-cnn": 4, "lenet": 6, "mnist-cnn": 8, "vgg16": 8, "vgg19": 8, "googlenet": 8}


def size(*parts):
    return sum(one.numel() for part in parts for one in part.parameters())


def settled(name, **how):
    """A narrow model whose batch norms have seen something and whose head is not zero, in eval mode."""
    model = models.build(name, SOME, NARROW[name], **how).train()
    for layer in model.modules():
        if isinstance(layer, nn.Linear) and not layer.weight.any():
            layer.reset_parameters()
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = 1.0
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        model(X)
    return model.eval()


@pytest.fixture
def train():
    return images.load("digits", "train")


def test_pixels_are_normalised_inside(train):
    model, seen = models.build("small-cnn", train, width=4).eval(), []
    model.body[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(train.batch(slice(None))[0])
    assert [float(seen[0].mean()), float(seen[0].std())] == pytest.approx([0, 1], abs=1e-4)
    assert {"mean", "std"} <= set(model.state_dict())


def test_a_cosine_head_gives_the_cosines_to_its_directions(train):
    model = models.build("small-cnn", train, width=4, head="cosine").eval()
    x, _ = train.batch(slice(0, 7))
    features, weight = model.features(x), model.head.weight
    expected = (features @ weight.T) / features.norm(dim=1, keepdim=True) / weight.norm(dim=1)
    assert torch.allclose(model(x), expected, atol=1e-6)
    weight.data.mul_(3)
    assert torch.allclose(model(x), expected, atol=1e-6)
    (gradient,) = torch.autograd.grad(model(x)[:, 0].sum(), weight)
    assert (gradient * weight).sum(1).abs().max() < 1e-5, "no gradient along a direction"


def test_batch_instance_norm_is_its_formula():
    layer, batch, instance = (one.double() for one in (models.BatchInstanceNorm(3), nn.BatchNorm2d(3), nn.InstanceNorm2d(3)))
    x, gate = torch.randn(5, 3, 4, 4, dtype=torch.float64), torch.tensor([0.0, 0.3, 1.0]).double().view(-1, 1, 1)
    assert torch.allclose(layer(x), batch(x)), "the gate begins at batch norm"
    layer.gate.data.copy_(gate.view(-1))
    layer.weight.data.fill_(2)
    layer.bias.data.fill_(1)
    for training in (True, False):  # an image's own statistics in eval mode too
        layer.train(training)
        batch.train(training)
        assert torch.allclose(layer(x), 2 * (gate * batch(x) + (1 - gate) * instance(x)) + 1)


@pytest.mark.parametrize("head", models.HEADS)
@pytest.mark.parametrize("layer", models.LAYERS)
def test_any_head_and_layer_can_be_searched_on(train, head, layer):
    x, _ = train.batch(slice(0, 32))
    model = models.build("resnet18", train, width=4, head=head, layer=layer).train()
    model(x)
    model.eval().requires_grad_(False)
    spread = float(model(x).std())
    assert torch.allclose(fuse_for_search(model, x)(x), model(x), atol=1e-3 * spread)
    assert torch.allclose(fuse_for_search(model, x, "bfloat16")(x), model(x), atol=0.2 * spread)


# Of ten classes of CIFAR-10 (LeNet and TRADES' CNN: of grey 28x28 digits), as their authors or the usual code count them. Of
# torchvision's last four: as it counts the large form, without the weights of its stem.
PUBLISHED = {
    "lenet": 61_706,
    "mnist-cnn": 312_202,
    "vgg16": 14_728_266,
    "vgg19": 20_040_522,
    "resnet10-s2": 4_903_242,
    "resnet18": 11_173_962,
    "resnet50": 23_520_842,
    "preact-resnet18": 11_172_170,
    "wrn-28-10": 36_479_194,
    "wrn-34-10": 46_160_474,
    "densenet121": 7_978_856 - 3 * 64 * (49 - 9) - 990 * 1025,
    "densenet169": 14_149_480 - 3 * 64 * (49 - 9) - 990 * 1665,
    "googlenet": 6_624_904 - 990 * 1025 - 3 * 64 * 49 - 64 * 64 - 64 * 192 * 9 - 2 * (64 + 64 + 192) + 3 * 192 * 9 + 2 * 192,
    "inception-v3": 23_834_568 - 990 * 2049 - 3 * 32 * 9 - 32 * 32 * 9 - 32 * 64 * 9 - 64 * 80 - 80 * 192 * 9 - 800 + 5_568,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_small_forms_have_the_published_size(name):
    shape = (1, 28, 28) if name in PLAIN else (3, 32, 32)
    with torch.device("meta"):
        assert size(*models.make(name, shape, 10)) == PUBLISHED[name]


TORCHVISION = ("vgg16", "vgg19", "resnet18", "resnet50", "densenet121", "densenet169", "googlenet", "inception-v3")


@pytest.mark.parametrize("name", TORCHVISION)
def test_large_forms_have_the_size_that_torchvision_states(name):
    with torch.device("meta"):
        body, head = models.make(name, (3, 224, 224), 1000)
        published = get_model_weights(name.replace("-", "_"))["IMAGENET1K_V1"].meta["num_params"]
        # torchvision's count of Inception-v3 includes the auxiliary classifier: 768 -> 128 -> 768 (5x5) -> 1000 with batch norms.
        aux = 768 * 128 + 2 * 128 + 128 * 768 * 25 + 2 * 768 + 769 * 1000 if name == "inception-v3" else 0
        assert size(body, head) == published - aux
        assert head(body.eval()(torch.zeros(2, 3, 224, 224))).shape == (2, 1000)


@pytest.mark.parametrize("name", models.MODELS)
def test_any_model_answers_narrow_and_gradients_reach_the_pixels(name):
    model = settled(name)
    x = X.clone().requires_grad_()
    logits, features = model(x), model.features(x)
    assert logits.shape == (8, 10)
    assert features.shape == (8, model.head.in_features)
    assert torch.allclose(model.head(features), logits, atol=1e-5 * float(logits.detach().abs().max()))
    (slope,) = torch.autograd.grad(nn.functional.cross_entropy(logits, Y), x)
    assert slope.isfinite().all()
    assert (slope.abs().sum((1, 2, 3)) > 0).all(), "each image has a gradient"
    assert torch.allclose(model.to(memory_format=torch.channels_last)(X), logits, atol=1e-3 * float(logits.detach().std()))


@pytest.mark.parametrize("name", models.MODELS)
def test_width_is_the_channels_of_the_first_stage_and_the_rest_follows(name):
    design = models.MODELS[name]
    if design.step > 1:
        with pytest.raises(UserError, match=f"{name} cannot be {design.step + 1} channels wide"):
            models.make(name, (3, 32, 32), 10, design.step + 1)
    half = math.ceil(design.width / 2 / design.step) * design.step
    with torch.device("meta"):
        narrow, wide = (models.make(name, (3, 32, 32), 10, width) for width in (half, design.width))
        assert size(*models.make(name, (3, 32, 32), 10)) == size(*wide)
        large = models.make(name, (3, 128, 200), 10, half)
        assert large[1](large[0](torch.zeros(2, 3, 128, 200))).shape == (2, 10)
        # From 128 pixels on a network has its ImageNet form; models without one are the same but for their linear layers.
        forms = [
            [value.shape for value in models.make(name, (3, side, 200), 10, half)[0].parameters() if value.ndim == 4]
            for side in (127, 128)
        ]
        assert (forms[0] == forms[1]) == (name in (*PLAIN, "small-cnn", "resnet10-s2", "vgg16", "vgg19"))
    ratio = narrow[1].in_features / wide[1].in_features
    assert ratio == pytest.approx(half / design.width, rel=0.02)
    assert 0.2 < size(*narrow) / size(*wide) < 0.6


@pytest.mark.parametrize("name", models.MODELS)
def test_any_model_takes_every_head_batch_instance_norm_and_grey_images(name):
    grey = images.Images(PIXELS[:, :1], torch.arange(8), torch.arange(8), ("a", "b", "c"))
    x, _ = grey.batch(slice(None))
    for head in models.HEADS:
        model = models.build(name, grey, NARROW[name], head=head).eval()
        assert model(x).shape == (8, 3)
        assert model.features(x).shape[1] == (2 if head == "plane" else model.head.weight.shape[1])
        assert head != "plane" or model.head.bias is None
        if head == "cosine":
            assert 0 < model(x).abs().max() <= 1 + 1e-5
    if name in PLAIN:
        with pytest.raises(UserError, match=f"{name} has no batch norm that layer='batch-instance' could replace"):
            models.build(name, grey, NARROW[name], layer="batch-instance")
        return
    known = [layer.eps for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    model = models.build(name, grey, NARROW[name], layer="batch-instance")
    layers = [layer for layer in model.modules() if isinstance(layer, models.BatchInstanceNorm)]
    assert [layer.batch.eps for layer in layers] == known != []
    assert sum(isinstance(layer, nn.BatchNorm2d) for layer in model.modules()) == len(known)
    assert model(x).isfinite().all()


# Batch norms that do not follow a convolution, or are not its only readers: those before one, and of densenets' transitions.
LEFT = dict.fromkeys(("vgg16", "resnet18", "resnet50", "googlenet", "inception-v3"), 0)
LEFT |= {"preact-resnet18": 9, "wrn-28-10": 12, "densenet121": 62, "densenet169": 86}


@pytest.mark.parametrize("name", models.MODELS)
def test_any_model_is_folded_and_narrowed_right(name):
    model = settled(name).requires_grad_(False)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    exact, logits = model.double()(X.double()), model.float()(X)
    spread = float(logits.std())
    folded = fuse_for_search(model, X)
    assert (folded is model) == (name in PLAIN)
    if name in LEFT:
        used = [folded.get_submodule(node.target) for node in folded.graph.nodes if node.op == "call_module"]
        assert sum(isinstance(layer, nn.BatchNorm2d) for layer in used) == LEFT[name]
    assert torch.allclose(folded(X), logits, atol=1e-3 * spread)
    folded = fuse_for_search(model.double(), X.double())
    assert torch.allclose(folded(X.double()), exact, atol=1e-8 * spread)
    gradients = [input_gradient(one, X.double(), Y, cross_entropy)[1] for one in (folded, model)]
    assert torch.allclose(*gradients, atol=1e-10, rtol=1e-6)
    narrow = fuse_for_search(model.float(), X, "bfloat16")
    assert type(narrow).__name__ == "BFloat16Copy"
    with torch.autocast("cpu", torch.bfloat16):  # deep, narrow and untrained: as near as torch itself comes
        near = (model(X).float() - logits).abs().mean()
    assert (narrow(X) - logits).abs().mean() < 2 * near < 0.3 * spread
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("name", ["vgg16", "vgg19"])
@pytest.mark.parametrize(("side", "poolings"), [(1, 0), (8, 3), (16, 4), (31, 4), (32, 5), (64, 5)])
def test_vgg_pools_while_pixels_are_left(name, side, poolings):
    body, head = models.make(name, (3, side, side), 10, 8)
    assert sum(isinstance(layer, nn.MaxPool2d) for layer in body.features) == poolings
    assert head(body.eval()(torch.rand(2, 3, side, side))).shape == (2, 10)


@pytest.mark.parametrize(
    ("side", "paddings", "pixels"), [(4, (2, 2), 1), (8, (2, 2), 4), (12, (2, 0), 1), (28, (2, 0), 25), (32, (0, 0), 25)]
)
def test_lenet_pads_what_its_convolutions_need(side, paddings, pixels):
    body, head = models.make("lenet", (1, side, side), 10)
    assert tuple(layer.padding[0] for layer in (body.conv1, body.conv2)) == paddings
    assert body.fc1.in_features == 16 * pixels
    assert head(body(torch.rand(2, 1, side, side))).shape == (2, 10)


@pytest.mark.parametrize("name", models.MODELS)
def test_the_smallest_image_is_the_one_that_is_stated(name):
    least, step = models.MODELS[name].least, NARROW[name]
    body, head = models.make(name, (3, least, least + 1), 10, step)
    assert head(body.eval()(torch.rand(2, 3, least, least + 1))).shape == (2, 10)
    with pytest.raises(UserError, match=f"{name} cannot be 0 channels wide; write one of the multiples of "):
        models.make(name, (3, least, least), 10, 0)
    if least > 1:
        fitting = ", ".join(other for other, design in models.MODELS.items() if design.least < least)
        says = f"{name} needs images of {least}x{least} pixels or more, got {least - 1}x99; these models fit: {fitting}$"
        with pytest.raises(UserError, match=says):
            models.make(name, (3, least - 1, 99), 10, step)
        if name not in PLAIN:
            body, head = models.MODELS[name].make((3, least - 1, least - 1), 10, step)
            with pytest.raises(RuntimeError):
                body.eval()(torch.rand(2, 3, least - 1, least - 1))


# A digest of the names and shapes of the tensors at width 8, and the sums of the first convolution and of the head at seed 3.
BEGINNINGS = json.loads((Path(__file__).parents[1] / "golden" / "beginnings.json").read_text())


@pytest.mark.parametrize("name", models.MODELS)
def test_models_of_stored_runs_keep_names_shapes_and_beginnings(name):
    """Stored weights are loaded by name, and a run's id promises its first weights, which follow from the order of draws."""
    before = torch.random.get_rng_state()
    state, same, other = (models.build(name, SOME, 8, seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(before, torch.random.get_rng_state())
    digest = hashlib.sha1()
    for key in sorted(state):
        digest.update(key.encode() + str(tuple(state[key].shape)).encode())
    sums = [float(next(value for value in state.values() if value.ndim == 4).sum()), float(state["head.weight"].sum())]
    assert [digest.hexdigest()[:12], *sums] == [
        BEGINNINGS[name][0],
        *(pytest.approx(one, abs=1e-4) for one in BEGINNINGS[name][1:]),
    ]
    assert all(torch.equal(value, same[key]) for key, value in state.items())
    drawn = [key for key in state if key not in ("mean", "std") and state[key].ndim > 1 and state[key].any()]
    assert not any(torch.equal(state[key], other[key]) for key in drawn)
