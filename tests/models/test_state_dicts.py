"""Weights from elsewhere: the field's own layouts, written here anew in a few lines, answer alike once they are taken in."""

import pickle
import warnings
from collections import OrderedDict
from dataclasses import replace
from functools import partial

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from torchvision import transforms

from classwise import images, models
from classwise.core.errors import UserError

PIXELS = torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
SOME = images.Images(PIXELS, torch.arange(4), torch.arange(4), tuple("abcdefghij"))
X, _ = SOME.batch(slice(None))
conv3 = partial(nn.Conv2d, kernel_size=3, padding=1, bias=False)


class Basic(nn.Module):
    """A block of ResNet-18 with kuangliu's names."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = conv3(inputs, outputs, stride=stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv3(outputs, outputs), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.shortcut(x))


class Wide(nn.Module):
    """A pre-activated block with TRADES' names, or with Rice's."""

    def __init__(self, inputs, outputs, stride, name="convShortcut"):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), conv3(inputs, outputs, stride=stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(outputs), conv3(outputs, outputs)
        self.name = name
        if stride != 1 or inputs != outputs:
            one = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            setattr(self, name, one if name == "convShortcut" else nn.Sequential(one))

    def forward(self, x):
        active = F.relu(self.bn1(x))
        past = getattr(self, self.name)(active) if hasattr(self, self.name) else x
        return past + self.conv2(F.relu(self.bn2(self.conv1(active))))


def stage(block, inputs, outputs, count, stride):
    return nn.Sequential(*(block(inputs if at == 0 else outputs, outputs, stride if at == 0 else 1) for at in range(count)))


class Kuangliu(nn.Module):
    """ResNet-18 as in kuangliu's, TRADES' and MART's code; pre-activated as in Rice's and CFA's."""

    def __init__(self, width, preact=False):
        super().__init__()
        block = partial(Wide, name="shortcut") if preact else Basic
        self.conv1, self.bn1 = conv3(3, width), nn.Identity() if preact else nn.BatchNorm2d(width)
        for at in range(4):
            inputs, outputs = width * 2 ** max(at - 1, 0), width * 2**at
            setattr(self, f"layer{at + 1}", stage(block, inputs, outputs, 2, 1 if at == 0 else 2))
        self.bn = nn.BatchNorm2d(8 * width) if preact else nn.Identity()
        self.linear, self.preact = nn.Linear(8 * width, 10), preact

    def forward(self, x):
        x = self.conv1(x) if self.preact else F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        x = F.relu(self.bn(x)) if self.preact else x
        return self.linear(F.avg_pool2d(x, 4).flatten(1))


class Trades(nn.Module):
    """WideResNet-28 as in TRADES' code, with or without the group that nothing passes."""

    def __init__(self, width, unused):
        super().__init__()
        self.conv1, self.block1 = conv3(3, 16), self.group(16, width, 1)
        if unused:
            self.sub_block1 = self.group(16, width, 1)
        self.block2, self.block3 = self.group(width, 2 * width, 2), self.group(2 * width, 4 * width, 2)
        self.bn1, self.fc = nn.BatchNorm2d(4 * width), nn.Linear(4 * width, 10)

    def group(self, inputs, outputs, stride):
        return nn.Sequential(OrderedDict(layer=stage(Wide, inputs, outputs, 4, stride)))

    def forward(self, x):
        x = F.relu(self.bn1(self.block3(self.block2(self.block1(self.conv1(x))))))
        return self.fc(F.avg_pool2d(x, 8).flatten(1))


def trades_for_mnist():
    """The CNN of TRADES for MNIST."""
    first = ("conv1", "relu1", "conv2", "relu2", "maxpool1", "conv3", "relu3", "conv4", "relu4", "maxpool2")
    layers = [nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Linear(1024, 200), nn.ReLU(), nn.Dropout(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)]
    last = ("fc1", "relu1", "drop", "fc2", "relu2", "fc3")
    features, classifier = OrderedDict(zip(first, layers[:10], strict=True)), OrderedDict(zip(last, layers[10:], strict=True))
    parts = {"feature_extractor": nn.Sequential(features), "flat": nn.Flatten(), "classifier": nn.Sequential(classifier)}
    return nn.Sequential(OrderedDict(parts))


def stirred(net, seed=0):
    """A network in eval mode, all of whose weights and statistics are random: no two tensors can be mistaken."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in net.state_dict().items():
        if value.is_floating_point():
            scale = value.std() if value.ndim > 1 else torch.tensor(0.2)
            drawn = torch.randn(value.shape, generator=generator) * scale.clamp_min(0.01)
            value.copy_(drawn.abs() + 0.5 if name.endswith(("running_var", "weight")) and value.ndim == 1 else drawn)
    return net.eval()


def alike(model, net, x):
    with torch.no_grad():
        theirs = net((x - model.mean) / model.std)
        assert theirs.std() > 0
        return torch.allclose(model.eval()(x), theirs, rtol=1e-4, atol=1e-4 * float(theirs.std()))


NAMED = "the names of the field"
FIELD = {
    "kuangliu": ("resnet18", 8, lambda: Kuangliu(8), NAMED),
    "rice": ("preact-resnet18", 8, lambda: Kuangliu(8, preact=True), NAMED),
    "trades": ("wrn-28-10", 8, lambda: Trades(8, unused=False), NAMED),
    "trades, unused": ("wrn-28-10", 8, lambda: Trades(8, unused=True), f"{NAMED}, without unused parts"),
}


@pytest.mark.parametrize("case", FIELD)
@pytest.mark.parametrize("sort", [False, True], ids=["as saved", "sorted"])
def test_layouts_of_the_field_are_taken_in(case, sort):
    name, width, make, rule = FIELD[case]
    net, model = stirred(make()), models.build(name, SOME, width)
    state = net.state_dict()
    state = dict(sorted(state.items())) if sort else state
    mean = model.mean.clone()
    assert not alike(model, net, X)
    assert models.load_matching(model, state) == rule
    assert alike(model, net, X)
    assert torch.equal(model.mean, mean), "the model's own pixel statistics stay"


@pytest.mark.parametrize("name", ["resnet50", "densenet121", "googlenet"])
def test_torchvisions_names_are_taken_in(name):
    data = images.Images(torch.randint(0, 256, (2, 3, 128, 128)).byte(), torch.arange(2), torch.arange(2), tuple("abcde"))
    quiet = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    net = stirred(getattr(torchvision.models, name)(num_classes=5, **quiet))
    model, (x, _) = models.build(name, data), data.batch(slice(None))
    state = {f"module.{key}": value for key, value in net.state_dict().items()}
    assert models.load_matching(model, state) == f"{NAMED}, without module. before them"
    assert alike(model, net, x)


def test_the_cnn_of_trades_is_taken_in():
    grey = images.Images(PIXELS[:, :1, :28, :28], torch.arange(4), torch.arange(4), tuple("abcdefghij"))
    net, model = stirred(trades_for_mnist()), models.build("mnist-cnn", grey)
    assert models.load_matching(model, net.state_dict()) == NAMED
    assert alike(model, net, grey.batch(slice(None))[0])


@pytest.mark.parametrize("prefix", ["module.", "model.", "net.", "_orig_mod.", "backbone.", "_orig_mod.module.", "my_net."])
def test_what_wrappers_put_before_names_is_taken_off(prefix):
    theirs, model = models.build("resnet18", SOME, 4, seed=1).eval(), models.build("resnet18", SOME, 4).eval()
    stirred(theirs.body)
    state = {prefix + key: value for key, value in theirs.state_dict().items() if key not in ("mean", "std")}
    said = models.load_matching(model, state)
    assert said == f"the same names, without {', '.join(f'{one}.' for one in prefix.strip('.').split('.'))} before them"
    assert torch.equal(model.features(X), theirs.features(X))
    theirs.mean.fill_(0.25)
    assert models.load_matching(model, theirs.state_dict()) == "the same names"
    assert torch.equal(model(X), theirs(X)), "our own weights keep their pixel statistics"


def test_statistics_of_a_normalising_shell_are_taken_over():
    shell = transforms.Normalize(mean=(0.4914, 0.4822, 0.4465), std=(0.2471, 0.2435, 0.2616))
    mu, sigma = (torch.tensor(value).view(1, 3, 1, 1) for value in (shell.mean, shell.std))
    net, model = stirred(Kuangliu(4)), models.build("resnet18", SOME, 4).eval()
    state = {"0.mu": mu, "0.sigma": sigma} | {f"1.{key}": value for key, value in net.state_dict().items()}
    said = models.load_matching(model, state)
    assert said == f"{NAMED}, without 1. before them, with the file's pixel statistics"
    with torch.no_grad():
        assert torch.allclose(model(X), net(shell(X)), rtol=1e-4, atol=1e-4)


def test_other_names_in_the_same_order_are_taken_in_but_not_out_of_order():
    net, model = stirred(Kuangliu(4)), models.build("resnet18", SOME, 4)
    named = list(net.state_dict().items())
    other = {f"part{place}_x.{key.split('.')[-1]}": value for place, (key, value) in enumerate(named)}
    assert models.load_matching(model, other) == "the same order of kinds and shapes"
    assert alike(model, net, X)
    # Sorted names, as safetensors has them, tell of no order.
    ordered = {f"{place:03}.{key.split('.')[-1]}": value for place, (key, value) in enumerate(named)}
    for state in (ordered, dict(list(other.items())[:-1])):
        with pytest.raises(UserError, match="the weights do not fit"):
            models.load_matching(models.build("resnet18", SOME, 4), state)


REFUSED = [
    ("preact-resnet18", 10, "missing: .*; unexpected: bn1.weight, bn1.bias, bn1.running_mean and [^\n]*$"),
    ("resnet18", 100, r"other shapes: linear.weight is \(10, 64\), not \(100, 64\), linear.bias is"),
    ("small-cnn", 10, "missing: "),
]


@pytest.mark.parametrize(("name", "classes", "says"), REFUSED)
def test_weights_of_another_model_are_refused_in_one_sentence_that_names_what_differs(name, classes, says):
    model = models.build(name, replace(SOME, classes=tuple(f"c{at}" for at in range(classes))), 8)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(UserError, match=f"the weights do not fit the model: .*{says}"):
        models.load_matching(model, {} if name == "small-cnn" else Kuangliu(8).state_dict())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


class Trap:
    def __reduce__(self):
        return (print, ("executed",))


def test_files_are_read_and_nothing_in_them_is_executed(tmp_path, capsys):
    state = models.build("small-cnn", SOME, 2).state_dict()
    safetensors.torch.save_file(state, tmp_path / "a.safetensors")
    safetensors.torch.save_file(state, tmp_path / "named.pt")
    torch.save(state, tmp_path / "b.pt")
    torch.save({"epoch": 3, "state_dict": state, "optimizer": {"lr": 0.1}}, tmp_path / "c.pth")
    for path in sorted(tmp_path.iterdir()):
        found = models.read(path)
        assert set(found) == set(state)
        assert all(torch.equal(found[key], state[key]) for key in state)
    (tmp_path / "trap.pt").write_bytes(pickle.dumps({"state_dict": Trap()}))
    torch.save({"a": Trap()}, tmp_path / "zip.pt")
    torch.save({"epoch": 3}, tmp_path / "empty.pt")
    for name in ("bad.pt", "bad.safetensors"):
        (tmp_path / name).write_bytes(b"\x00" * 100)
    refused = "is not read: it holds more than tensors and could execute code, or is not a file of weights; save"
    damaged = "is not read|cannot be read as weights"
    said = {"trap.pt": refused, "zip.pt": refused, "bad.pt": damaged, "bad.safetensors": damaged}
    said |= {"empty.pt": "holds no tensors by name"}
    for name in said:
        with pytest.raises(UserError, match=f"{name} ({said[name]})"):
            models.read(tmp_path / name)
    with pytest.raises(UserError, match=r"there is no file of weights '.*none.pt'; name a"):
        models.read(tmp_path / "none.pt")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", models.MODELS)
def test_the_width_is_read_off_the_weights(name):
    design = models.MODELS[name]
    narrow = max(design.step, design.width // 4 // design.step * design.step)
    with torch.device("meta"):
        body, head = models.make(name, (3, 32, 32), 7, narrow)
    state = {f"body.{key}": value for key, value in body.state_dict().items()}
    state |= {f"head.{key}": value for key, value in head.state_dict().items()}
    for weights in (state, dict(sorted(state.items()))):  # as safetensors has them
        assert models.last_layer(weights) == (7, head.in_features)
        assert models.width(name, weights, (3, 32, 32)) == narrow


class Normalise(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.std = nn.Buffer(torch.full((3, 1, 1), 0.4)), nn.Buffer(torch.full((3, 1, 1), 0.3))

    def forward(self, x):
        return (x - self.mean) / self.std


def bare():
    torch.manual_seed(1)
    return nn.Sequential(conv3(3, 4), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4096, 10)).eval()


def named(state, prefix):
    return {f"{prefix}{name}": value for name, value in state.items()}


LIBRARY = {"module.normalizer.new_mean": torch.zeros(3), "module.attacker.model.0.weight": torch.ones(4, 3, 3, 3)}


@pytest.mark.parametrize("prefix", ["", "module.", "model.", "net.", "1.", "module.model.", "_orig_mod.", "anything.at.all."])
@pytest.mark.parametrize("wrapped", [False, True])
def test_weights_fit_a_users_network_where_only_prefixes_differ(prefix, wrapped):
    taught = bare()
    network = nn.Sequential(Normalise(), bare()) if wrapped else bare()
    for value in network.state_dict().values():
        value.zero_() if value.dtype == torch.int64 else value.fill_(0.1)
    state = {name: value for name, value in taught.state_dict().items() if not name.endswith("num_batches_tracked")}
    said = models.load_into(network, named(state, prefix) | (LIBRARY if prefix == "module.model." else {}))
    assert torch.equal(network(X), taught((X - 0.1) / 0.1 if wrapped else X))
    words = {"the network keeps its 0.mean, 0.std": wrapped, "left out: module.normalizer.new_mean": prefix == "module.model."}
    own = "1." if wrapped else ""
    words |= {f"names in the file have the prefix {prefix}": prefix not in ("", own)}
    words |= {f"names in the file lack the prefix {own}": bool(own) and prefix != own}
    assert [word in said for word in words] == list(words.values())


def test_pixel_statistics_of_a_file_are_taken_where_the_network_has_them():
    taught, network = (nn.Sequential(Normalise(), bare()) for _ in range(2))
    taught[0].mean.fill_(0.25)
    assert models.load_into(network, named(taught.state_dict(), "module.")) == "names in the file have the prefix module."
    assert torch.equal(network(X), taught(X))


def test_pixel_statistics_that_a_network_has_no_place_for_become_an_option():
    said = models.load_into(bare(), nn.Sequential(Normalise(), bare()).state_dict())
    assert said.endswith("add --normalise 0.4,0.4,0.4/0.3,0.3,0.3")


def test_a_part_of_the_network_is_not_left_out_for_its_name():
    def build():
        return nn.Sequential(OrderedDict(normalizer=Normalise(), body=bare()))

    taught, network = build(), build()
    taught.normalizer.mean.fill_(0.25)
    models.load_into(network, named(taught.state_dict(), "module."))
    assert torch.equal(network(X), taught(X))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda state: state.pop("4.bias"), "missing: module.4.bias"),
        (lambda state: state.update(extra=torch.ones(2)), "unexpected: module.extra"),
        (lambda state: state.update({"4.bias": torch.ones(3)}), r"other shapes: module.4.bias is \(3,\), not \(10,\)"),
    ],
)
def test_weights_that_differ_in_more_than_prefixes_are_refused_in_the_names_of_the_file(change, says):
    state = dict(bare().state_dict())
    change(state)
    with pytest.raises(UserError, match=f"^{says}$"):
        models.load_into(bare(), named(state, "module."))


def test_checkpoints_of_training_scripts_are_opened(tmp_path):
    state, path = bare().state_dict(), tmp_path / "some.pt"
    for content in (
        {"state_dict": [state], "acc": torch.tensor(0.5)},
        {"epoch": 1, "model_state": state},
        [state],
        {"net": {"state_dict": state}},
    ):
        torch.save(content, path)
        assert list(models.read(path)) == list(state)
    torch.save({"state_dict": [state, state, state]}, path)
    with pytest.raises(UserError, match="holds a list of 3 networks; save the state dict of one of them alone"):
        models.read(path)
    with warnings.catch_warnings():  # deprecated, but still met
        warnings.simplefilter("ignore")
        torch.jit.script(nn.Sequential(nn.Linear(2, 2))).save(path)
    with pytest.raises(UserError, match="is a TorchScript program, which is not executed; save its weights"):
        models.read(path)
