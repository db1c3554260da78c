"""Weights from elsewhere: read without executing anything, and taken in where their names or their order fit."""

import pickle
import re
import warnings
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor

from classwise.core.errors import UserError
from classwise.models.classifier import Classifier
from classwise.models.identify import guess_architecture
from classwise.models.residual import outline

State = Mapping[str, Tensor]

# What wrappers put before every name: parallel training, torch.compile, a normalising shell.
PREFIXES = ("module.", "_orig_mod.", "model.", "net.", "network.", "backbone.")
# What a training script's file calls the part with the weights, dearest first.
_PARTS = ("state_dict", "model_state_dict", "model", "net", "network", "weights", "params")
# Parts that no image passes when a network answers: TRADES' second first group, auxiliary classifiers.
_UNUSED = ("sub_block1.", "AuxLogits.", "aux1.", "aux2.")
_STATISTICS = (("mean", "std"), ("mu", "sigma"))
_HEAD = re.compile(r"^(fc|linear|classifier|logits|fc3|classifier\.6|classifier\.fc3)\.(weight|bias)$")


def read(path: Path | str) -> dict[str, Tensor]:
    """Return the tensors of a file by name: safetensors, or a state dict of torch, also inside a checkpoint's dict.

    Nothing is executed. A UserError says that there is no file, that it is damaged, or holds more than tensors and plain values.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"there is no file of weights {str(path)!r}; name a .safetensors file or a state dict of torch")
    try:
        if path.suffix == ".safetensors" or _is_safetensors(path):
            return safetensors.torch.load_file(path)
        with warnings.catch_warnings():  # what torch thinks of a file is said below
            warnings.simplefilter("ignore")
            found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        advice = "save the state dict: safetensors.torch.save_file(model.state_dict(), path)"
        reason = "it holds more than tensors and could execute code, or is no file of weights at all"
        raise UserError(f"{path} is not read: {reason}; {advice}") from error
    except Exception as error:  # zip, tar, safetensors: each raises its own
        what = f"{path} cannot be read as weights ({type(error).__name__})"
        raise UserError(f"{what}: it is damaged or of another kind; write safetensors or a state dict of torch") from error
    while isinstance(found, Mapping):
        inner = next((found[name] for name in _PARTS if isinstance(found.get(name), Mapping)), None)
        if inner is None:
            tensors = {str(name): value for name, value in found.items() if isinstance(value, Tensor)}
            if tensors:
                return tensors
            break
        found = inner
    raise UserError(f"{path} holds no tensors by name; save model.state_dict(), alone or as 'state_dict' of a checkpoint")


def _is_safetensors(path: Path) -> bool:
    """Return whether a file begins as safetensors do, whatever it is called: a size, and that much JSON."""
    with path.open("rb") as file:
        size, brace = file.read(8), file.read(1)
    return brace == b"{" and 8 + int.from_bytes(size, "little") <= path.stat().st_size


def load_matching(model: Classifier, state: State) -> str:
    """Load weights into a model in place, and return the rule by which they fitted, in words.

    In turn: the same names; the same without PREFIXES; the names of the field's code (kuangliu's, TRADES', MART's, Rice's and
    CFA's, torchvision's); the same kinds and shapes of tensors in the same order. Counters of batches and parts that no image
    passes are left out. Pixel statistics in the file are taken over, else those of the model stay. A UserError names the first
    tensors that differ and the nearest model.
    """
    own = model.state_dict()
    if _shapes(own) == _shapes(state):
        model.load_state_dict(dict(state))
        return "the same names"
    plain, said = _plain(state, model)
    statistics = _taken(plain, model.mean.numel())
    wanted = [name for name in own if _weighs(name) and name not in ("mean", "std")]
    left = {name: value for name, value in plain.items() if _weighs(name) and name not in statistics}
    file = {name: value for name, value in left.items() if not name.startswith(_UNUSED)}
    known = {_canonical(name): name for name in file}
    named = {name: known.get(field, field) for name, field in zip(wanted, _fields(model, wanted), strict=True)}
    pairs = {"the same names": {name: name for name in wanted}, "the names of the field": named}
    if not _alphabetical(file):
        pairs["the same order of kinds and shapes"] = dict(zip(wanted, file, strict=False))
    rule = next((rule for rule, pair in pairs.items() if len(pair) == len(wanted) and _fits(own, file, pair)), None)
    if rule is None:
        closest = max(list(pairs.values())[:2], key=lambda pair: sum(other in file for other in pair.values()))
        raise UserError(f"the weights do not fit the model: {differences(own, file, closest, state)}")
    weights = {name: file[other] for name, other in pairs[rule].items()}
    model.load_state_dict(own | weights | _shaped(statistics, plain, model))
    said += [] if len(file) == len(left) else ["without parts that no image passes"]
    said += ["with the file's own pixel statistics"] if statistics else []
    return ", ".join([rule, *said])


def _shapes(state: State) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in state.items()}


def _weighs(name: str) -> bool:
    return not name.endswith("num_batches_tracked")


def _plain(state: State, model: Classifier) -> tuple[dict[str, Tensor], list[str]]:
    """Return the weights by their names without what wrappers put before them, and what was left out in words."""
    found, gone = dict(state), list[str]()
    own = {name.split(".")[0] for name in model.state_dict()}
    while True:
        statistics = _taken(found, model.mean.numel())
        firsts = {name.split(".")[0] + "." for name in found if name not in statistics and "." in name}
        shared = firsts if len(firsts) == 1 and not firsts & {f"{one}." for one in own} else set()
        prefix = next((one for one in (*PREFIXES, *shared) if one in firsts), None)
        shorter = {name.removeprefix(prefix or ""): value for name, value in found.items()}
        if prefix is None or len(shorter) < len(found):
            return found, [f"without {', '.join(gone)} before them"] if gone else []
        found = shorter
        gone.append(prefix)


def _taken(state: State, channels: int) -> tuple[str, ...]:
    """Return the names of a mean and a standard deviation of the pixels, where a file has both."""
    for pair in _STATISTICS:
        found = tuple(name for last in pair for name in state if name.split(".")[-1].strip("_") == last)
        if len(found) == 2 and all(state[name].numel() == channels for name in found):
            mean, std = (state[name] for name in found)
            if mean.min() >= 0 and mean.max() <= 1 and std.min() > 0:
                return found
    return ()


def _shaped(statistics: tuple[str, ...], state: State, model: Classifier) -> dict[str, Tensor]:
    return {name: state[other].reshape(model.mean.shape) for name, other in zip(("mean", "std"), statistics, strict=False)}


def _canonical(name: str) -> str:
    """Return one spelling for what the field spells in several ways."""
    name = re.sub(r"(?<=\.)(downsample|convShortcut|shortcut)\.(0\.)?", "shortcut.", name)
    name = re.sub(r"(denselayer\d+\.(?:norm|conv))\.(?=[12]\.)", r"\1", name)  # torchvision's files of before 2018
    return _HEAD.sub(r"head.\2", name)


def _fields(model: Classifier, names: list[str]) -> list[str]:
    """Return what the field calls the tensors of a model, in one spelling."""
    parts, found = outline(model.body), []
    for name in names:
        inner = name.removeprefix("body.")
        first, _, rest = inner.partition(".")
        found.append(_canonical(f"{parts.get(first, first)}.{rest}"))
    return found


def _alphabetical(state: State) -> bool:
    """Return whether the order of a file says nothing: safetensors keeps names sorted."""
    return list(state) == sorted(state)


def _fits(own: State, file: State, pair: dict[str, str]) -> bool:
    if set(pair.values()) != set(file) or len(pair) != len(file):
        return False
    return all(own[a].shape == file[b].shape and a.split(".")[-1] == b.split(".")[-1] for a, b in pair.items())


def _first(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def differences(own: State, file: State, pair: Mapping[str, str] | None = None, state: State | None = None) -> str:
    """Say how weights differ from those of a model, in the names of the file, and which of our models come nearest.

    own: the tensors of the model. pair: what the file calls each of them, None for the same. state: the whole file, to judge by.
    """
    pair = {name: name for name in own} if pair is None else pair
    lacking = [other for other in pair.values() if other not in file]
    extra = [name for name in file if name not in pair.values()]
    both = [(name, other) for name, other in pair.items() if other in file and own[name].shape != file[other].shape]
    shapes = [f"{other} is {tuple(file[other].shape)}, not {tuple(own[name].shape)}" for name, other in both]
    table = {"missing": lacking, "unexpected": extra, "other shapes": shapes}
    said = [f"{what}: {_first(names)}" for what, names in table.items() if names]
    near = guess_architecture(file if state is None else state)
    advice = f"; nearest: {near[0]}" if near else ""
    return f"{'; '.join(said)}{advice}"


def unwrapped(own: State, state: State) -> dict[str, Tensor]:
    """Return weights by the names of a model, without one of PREFIXES before all of them where that makes them fit."""
    for prefix in PREFIXES:
        shorter = {name.removeprefix(prefix): value for name, value in state.items()}
        if all(name.startswith(prefix) for name in state) and _shapes(shorter) == _shapes(own):
            return shorter
    return dict(state)
