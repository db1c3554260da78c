"""Somebody's weights as a network that answers: read without unpickling, fitted to one of our models or to a module of theirs."""

import hashlib
import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn

from classwise import images, models
from classwise.attacks.attack import judging
from classwise.audits import Audit, pixels
from classwise.errors import UserError, unknown
from classwise.images import Images
from classwise.run.machine import device


def network(audit: Audit) -> nn.Module:
    """Return the network of an audit in eval mode, on the device; a UserError where it cannot answer a few of the images."""
    given = models.read(Path(audit.weights))
    if digest(Path(audit.weights)) != audit.sha256:
        raise UserError(f"{audit.weights} has changed since the audit began; begin it anew")
    shown = images.load(audit.dataset, "test")
    model = _theirs(audit, given) if ":" in audit.model else _ours(audit, given, shown)
    model = model.eval().to(device())
    _try(model, shown.take(torch.arange(min(8, len(shown)))).to(device()), audit)
    return model


def _ours(audit: Audit, given: Mapping[str, Tensor], shown: Images) -> nn.Module:
    """Return one of our models with the given weights."""
    if audit.model not in models.MODELS:
        raise unknown("model", audit.model, [*models.MODELS, "my_module:function"])
    scaled = images.load(audit.dataset, "train") if audit.normalise == "dataset" else shown
    width = audit.width or models.width(audit.model, given, shown.shape)
    model = models.build(audit.model, scaled, width, audit.seed)
    if audit.normalise != "dataset":
        mean, std = pixels(audit.normalise) or ([0.0] * shown.shape[0], [1.0] * shown.shape[0])
        if len(mean) != shown.shape[0]:
            raise UserError(f"normalise has {len(mean)} channels, the images of {audit.dataset} have {shown.shape[0]}")
        model.mean.copy_(torch.tensor(mean).view(-1, 1, 1))
        model.std.copy_(torch.tensor(std).view(-1, 1, 1))
    _fit(model, given, f"{audit.network} and {audit.model} of width {width}", len(shown.classes))
    return model


def _fit(model: models.Classifier, given: Mapping[str, Tensor], what: str, classes: int) -> None:
    """Load weights into one of our models, by whatever rule they fit; a UserError says what differs."""
    known, _ = models.last_layer(given)
    if known != classes:
        raise UserError(f"{what} do not fit: the weights know {known} classes, the dataset has {classes}")
    try:
        models.adopt(model, given)
    except UserError as error:
        raise UserError(f"{what} do not fit: {str(error).removeprefix('the weights do not fit the model: ')}") from None


def _load(model: nn.Module, given: Mapping[str, Tensor], what: str) -> None:
    own = model.state_dict()
    differs = [f"{name} is missing" for name in own if name not in given]
    differs += [f"{name} is unknown" for name in given if name not in own]
    differs += [
        f"{name} is {tuple(given[name].shape)}, expected {tuple(own[name].shape)}"
        for name in own
        if name in given and given[name].shape != own[name].shape
    ]
    if differs:
        more = f" and {len(differs) - 3} more" if len(differs) > 3 else ""
        advice = "name the model, its width and its dataset as they were trained"
        raise UserError(f"{what} do not fit: {'; '.join(differs[:3])}{more}; {advice}")
    model.load_state_dict(dict(given))


def module_file(model: str, home: str) -> Path:
    """Return the file of the user's module; a UserError says where it was looked for."""
    name = model.partition(":")[0]
    with _importing(home):
        try:
            found = find_spec(name)
        except (ImportError, ValueError):
            found = None
    if found is None or found.origin is None:
        raise UserError(f"--model {model}: there is no module {name} in {home or Path.cwd()}; it is imported from there")
    return Path(found.origin)


@contextmanager
def _importing(home: str) -> Iterator[None]:
    """Let modules be found in a folder until the block ends."""
    place = home or str(Path.cwd())
    sys.path.insert(0, place)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(place)


def _theirs(audit: Audit, given: Mapping[str, Tensor]) -> nn.Module:
    """Return what the function of the user's module builds, with the given weights: the only code of theirs that runs."""
    file, (name, _, function) = module_file(audit.model, audit.home), audit.model.partition(":")
    if audit.code and digest(file) != audit.code:
        raise UserError(f"{file} has changed since the audit began; begin it anew")
    try:
        with _importing(audit.home):
            sys.modules.pop(name, None)  # the file may have changed since, or be another's of the same name
            built = getattr(importlib.import_module(name), function)()
    except Exception as error:  # whatever their code raises
        raise UserError(f"--model {audit.model} cannot be built: {type(error).__name__}: {_first(error)}") from error
    if not isinstance(built, nn.Module):
        raise UserError(f"--model {audit.model} must return a torch.nn.Module, got {type(built).__name__}")
    _load(built, given, f"{audit.network} and what {audit.model} builds")
    return built


def digest(file: Path) -> str:
    """Return the sha256 of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def _try(model: nn.Module, few: Images, audit: Audit) -> None:
    """Raise UserError where a network cannot be asked about the images of an audit."""
    size, classes = " x ".join(map(str, few.shape)), len(few.classes)
    with judging(model), torch.no_grad():
        try:
            logits = model(few.batch(slice(None))[0])
        except Exception as error:  # whatever a forward pass raises
            problem = f"{audit.model} with the weights {audit.network} cannot take images of {size}"
            raise UserError(f"{problem}: {_first(error)}; was it trained on images of another size?") from error
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(few):
        shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise UserError(f"{audit.model} must answer each image with a logit for each class, (n, {classes}), got {shape}")
    if logits.shape[1] != classes:
        raise UserError(f"{audit.model} answers with {logits.shape[1]} classes, {audit.dataset} has {classes}")
    if not logits.isfinite().all():
        raise UserError(f"the logits of {audit.network} are not finite (nan or infinite); check its weights")
