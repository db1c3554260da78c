"""Foreign weights: read without executing code, measured, and loaded where their names or their order match a model."""

import itertools
import pickle
import re
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from classwise.core.errors import UserError
from classwise.models.architectures import Shape, common_names
from classwise.models.classifier import MODELS, Classifier, make

State = Mapping[str, Tensor]

# Prefixes that wrappers add to every name: parallel training, torch.compile, normalisation.
PREFIXES = ("module.", "_orig_mod.", "model.", "net.", "network.", "backbone.")
# Keys of the weights in checkpoints of training scripts, in order of preference.
_PARTS = ("state_dict", "model_state_dict", "model", "net", "network", "weights", "params")
# Parts that the forward pass does not use in eval mode: an extra group of blocks in TRADES' code, auxiliary classifiers.
_UNUSED = ("sub_block1.", "AuxLogits.", "aux1.", "aux2.")
_PIXEL_STATISTICS = (("mean", "std"), ("mu", "sigma"))
# What training libraries keep beside a network.
_BESIDE = {"normalizer", "attacker"}
_HEAD = re.compile(r"^(fc|linear|classifier|logits|fc3|classifier\.6|classifier\.fc3)\.(weight|bias)$")


def read(path: Path | str) -> dict[str, Tensor]:
    """Return the tensors of a file by name: safetensors, or a state dict of torch, also inside a checkpoint's dict.

    No code is executed. A UserError is raised for a missing or damaged file, and for one with more than tensors and plain values.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"there is no file of weights {str(path)!r}; name a .safetensors file or a state dict of torch")
    try:
        if path.suffix == ".safetensors" or _is_safetensors(path):
            return safetensors.torch.load_file(path)
        with warnings.catch_warnings():  # the errors below say what is wrong
            warnings.simplefilter("ignore")
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        advice = "save the state dict: safetensors.torch.save_file(model.state_dict(), path)"
        reason = "it holds more than tensors and could execute code, or is not a file of weights"
        raise UserError(f"{path} is not read: {reason}; {advice}") from error
    except Exception as error:  # zip, tar, safetensors: each raises its own
        if zipfile.is_zipfile(path) and any("/code/" in name for name in zipfile.ZipFile(path).namelist()):
            save = "torch.save(torch.jit.load(path).state_dict(), 'weights.pt')"
            raise UserError(f"{path} is a TorchScript program, which is not executed; save its weights: {save}") from error
        what = f"{path} cannot be read as weights ({type(error).__name__})"
        raise UserError(f"{what}: it is damaged or of another kind; write safetensors or a state dict of torch") from error
    while (inner := _inner(path, content)) is not None:
        content = inner
    tensors = {str(name): value for name, value in content.items() if isinstance(value, Tensor)} if _is_dict(content) else {}
    if not tensors:
        raise UserError(f"{path} holds no tensors by name; save model.state_dict(), alone or as 'state_dict' of a checkpoint")
    return tensors


def _is_dict(content: object) -> bool:
    return isinstance(content, Mapping)


def _inner(path: Path, content: Any) -> Any:
    """Return the dict of weights in a checkpoint: by a name of _PARTS, else the only one that holds tensors; None without one."""
    if isinstance(content, list | tuple):
        if len(content) == 1:
            return content[0]
        raise UserError(f"{path} holds a list of {len(content)} networks; save the state dict of one of them alone")
    if not _is_dict(content):
        return None
    named = [
        value
        for name in _PARTS
        if _is_dict(value := content.get(name)) or (isinstance(value, list) and any(map(_is_dict, value)))
    ]
    if named or any(isinstance(value, Tensor) for value in content.values()):
        return named[0] if named else None
    dicts = [value for value in content.values() if _is_dict(value) and any(isinstance(one, Tensor) for one in value.values())]
    return dicts[0] if len(dicts) == 1 else None


def _is_safetensors(path: Path) -> bool:
    """Return whether a file of any name begins like safetensors: with the size of its header, and JSON."""
    with path.open("rb") as file:
        size, brace = file.read(8), file.read(1)
    return brace == b"{" and 8 + int.from_bytes(size, "little") <= path.stat().st_size


def load_matching(model: Classifier, state: State) -> str:
    """Load weights into a model in place, and return the rule by which they matched, in words.

    The rules, in order: the same names; the same without PREFIXES; the names of common code (kuangliu's, TRADES', MART's, Rice's
    and CFA's, torchvision's); the same kinds and shapes of tensors in the same order. Counters of batches and unused parts are
    left out. Pixel statistics in the file replace those of the model. A UserError names the first tensors that differ.
    """
    expected = model.state_dict()
    if _shapes(expected) == _shapes(state):
        model.load_state_dict(dict(state))
        return "the same names"
    plain, notes = _plain(state, model)
    statistics = _statistics(plain, model.mean.numel())
    wanted = [name for name in expected if _is_weight(name) and name not in ("mean", "std")]
    left = {name: value for name, value in plain.items() if _is_weight(name) and name not in statistics}
    file = {name: value for name, value in left.items() if not name.startswith(_UNUSED)}
    known, parts = {_canonical(name): name for name in file}, common_names(model.body)
    split = {name: name.removeprefix("body.").partition(".") for name in wanted}
    fields = {name: _canonical(f"{parts.get(first, first)}.{rest}") for name, (first, _, rest) in split.items()}
    named = {name: known.get(field, field) for name, field in fields.items()}
    pairs = {"the same names": {name: name for name in wanted}, "the names of the field": named}
    if list(file) != sorted(file):  # names in alphabetical order, as in safetensors, say nothing about the model's order
        pairs["the same order of kinds and shapes"] = dict(zip(wanted, file, strict=False))
    rule = next((rule for rule, pair in pairs.items() if len(pair) == len(wanted) and _fits(expected, file, pair)), None)
    if rule is None:
        closest = max(list(pairs.values())[:2], key=lambda pair: sum(other in file for other in pair.values()))
        raise UserError(f"the weights do not fit the model: {differences(expected, file, closest)}")
    weights = {name: file[other] for name, other in pairs[rule].items()}
    pixels = {name: plain[other].reshape(model.mean.shape) for name, other in zip(("mean", "std"), statistics, strict=False)}
    model.load_state_dict(expected | weights | pixels)
    notes += [] if len(file) == len(left) else ["without unused parts"]
    notes += ["with the file's pixel statistics"] if statistics else []
    return ", ".join([rule, *notes])


def _shapes(state: State) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in state.items()}


def _is_weight(name: str) -> bool:
    return not name.endswith("num_batches_tracked")


def _plain(state: State, model: Classifier) -> tuple[dict[str, Tensor], list[str]]:
    """Return the weights by their names without the prefixes of wrappers, and the removed prefixes in words."""
    result, removed = dict(state), list[str]()
    parts = {name.split(".")[0] for name in model.state_dict()}
    while True:
        statistics = _statistics(result, model.mean.numel())
        firsts = {name.split(".")[0] + "." for name in result if name not in statistics and "." in name}
        shared = firsts if len(firsts) == 1 and not firsts & {f"{part}." for part in parts} else set()
        prefix = next((prefix for prefix in (*PREFIXES, *shared) if prefix in firsts), None)
        shorter = {name.removeprefix(prefix or ""): value for name, value in result.items()}
        if prefix is None or len(shorter) < len(result):
            return result, [f"without {', '.join(removed)} before them"] if removed else []
        result = shorter
        removed.append(prefix)


def _statistics(state: State, channels: int | None) -> tuple[str, ...]:
    """Return the names of a mean and a standard deviation of the pixels, of so many channels or any, where a file has both."""
    for pair in _PIXEL_STATISTICS:
        names = tuple(name for last in pair for name in state if name.split(".")[-1].strip("_").removeprefix("new_") == last)
        if len(names) == 2 and all(state[name].numel() == (channels or state[names[0]].numel()) for name in names):
            mean, std = (state[name] for name in names)
            if mean.min() >= 0 and mean.max() <= 1 and std.min() > 0:
                return names
    return ()


def _canonical(name: str) -> str:
    name = re.sub(r"(?<=\.)(downsample|convShortcut|shortcut)\.(0\.)?", "shortcut.", name)
    name = re.sub(r"(denselayer\d+\.(?:norm|conv))\.(?=[12]\.)", r"\1", name)  # torchvision's files before 2018
    return _HEAD.sub(r"head.\2", name)


def _fits(expected: State, file: State, pair: dict[str, str]) -> bool:
    """Return whether `pair` maps each tensor of a model to one of a file with the same shape and kind, and none is left."""
    return sorted(pair.values()) == sorted(file) and all(
        expected[a].shape == file[b].shape and a.split(".")[-1] == b.split(".")[-1] for a, b in pair.items()
    )


def differences(expected: State, file: State, pair: Mapping[str, str] | None = None) -> str:
    """Return how weights differ from those of a model, in the names of the file; "" where they do not.

    expected: the tensors of the model. pair: the name of each in the file, None for the same.
    """
    pair = {name: name for name in expected} if pair is None else pair
    both = [(name, other) for name, other in pair.items() if other in file and expected[name].shape != file[other].shape]
    table = {
        "missing": [other for other in pair.values() if other not in file],
        "unexpected": [name for name in file if name not in pair.values()],
        "other shapes": [f"{other} is {tuple(file[other].shape)}, not {tuple(expected[name].shape)}" for name, other in both],
    }
    more = {what: f" and {len(names) - 3} more" if len(names) > 3 else "" for what, names in table.items()}
    return "; ".join(f"{what}: {', '.join(names[:3])}{more[what]}" for what, names in table.items() if names)


def load_into(network: nn.Module, state: State) -> str:
    """Load weights into a user's network in place, and return in words how their names differ; "" where they do not.

    All names of either side may have a prefix. Counters of batches and pixel statistics that the file lacks remain those of the
    network. Normalisers and attackers that a training library keeps beside the network are left out. A UserError names the first
    tensors that differ.
    """
    expected = network.state_dict()
    if _shapes(expected) == _shapes(state):
        network.load_state_dict(dict(state))
        return ""
    wanted = {name: value for name, value in expected.items() if _is_weight(name)}
    beside = _BESIDE - {part for name in expected for part in name.split(".")}
    file = {name: value for name, value in state.items() if _is_weight(name) and not beside & set(name.split("."))}
    if differences(wanted, file, _by_prefix(wanted, file)):
        wanted, file = ({name: some[name] for name in some if not _is_statistic(name)} for some in (wanted, file))
    pair = _by_prefix(wanted, file)
    if differences(wanted, file, pair):
        closest = max({name: name for name in wanted}, pair, key=lambda some: sum(name in file for name in some.values()))
        raise UserError(differences(wanted, file, closest))
    network.load_state_dict(expected | {name: file[other] for name, other in pair.items()})
    own, left = (
        [one for one in filter(_is_weight, some) if one not in used] for some, used in ((expected, wanted), (state, file))
    )
    theirs, ours = _prefix(file), _prefix(wanted)
    words = [f"names in the file have the prefix {theirs}"] * bool(theirs and theirs != ours)
    words += [f"names in the file lack the prefix {ours}"] * bool(ours and theirs != ours)
    words += [f"the network keeps its {', '.join(own)}"] * bool(own) + [f"left out: {', '.join(left)}"] * bool(left)
    if not own and (pixels := _statistics({name: state[name] for name in left}, None)):
        values = "/".join(",".join(f"{value:.4g}" for value in state[name].flatten().tolist()) for name in pixels)
        words.append(f"if the network does not normalise its pixels itself, add --normalise {values}")
    return "; ".join(words)


def _by_prefix(wanted: State, file: State) -> dict[str, str]:
    """Return for each name that is wanted what it is called in a file, if only prefixes differ that all names have."""
    theirs, ours = _prefix(file), _prefix(wanted)
    return {name: theirs + name.removeprefix(ours) for name in wanted}


def _is_statistic(name: str) -> bool:
    return any(name.split(".")[-1].strip("_") in pair for pair in _PIXEL_STATISTICS)


def _prefix(names: Iterable[str]) -> str:
    """Return the parts with which all names begin, up to a dot: "module.model."."""
    columns = zip(*(name.split(".")[:-1] for name in names), strict=False)
    return "".join(f"{first}." for first, *_ in itertools.takewhile(lambda column: len(set(column)) == 1, columns))


def width(name: str, state: State, shape: Shape) -> int:
    """Return the width of a model of MODELS that a state dict holds, for images (channels, height, width).

    It follows from the features of the last layer, which are proportional to it; for small models, from the first convolution.
    """
    published, (classes, features) = MODELS[name].width, last_layer(state)
    if name in ("small-cnn", "lenet", "mnist-cnn"):  # their last layers depend on the size of the images
        return next((len(value) for value in state.values() if value.ndim == 4), published)
    with torch.device("meta"), torch.random.fork_rng(devices=[]):  # without memory, for square images
        _, head = make(name, (shape[0], max(shape[1:]), max(shape[1:])), classes, published)
    return max(round(features * published / head.in_features), 1)


def last_layer(state: State) -> tuple[int, int]:
    """Return the classes and features of the last layer: of a matrix with the name of one, else of the last in the file."""
    matrices = {name: value.shape for name, value in state.items() if value.ndim == 2}
    if not matrices:
        return 10, 1
    named = [name for name in matrices if re.search(r"(^|\.)(head|linear|fc3?|logits|classifier(\.6|\.fc3)?)\.weight$", name)]
    classes, features = matrices[(named or list(matrices))[-1]]
    return classes, features
