"""The network of an audit: a user's weights, read without unpickling, in one of our models or in a module of theirs."""

import ast
import contextlib
import copy
import hashlib
import importlib
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from classwise import images, models
from classwise.attacks.losses import cross_entropy
from classwise.attacks.pgd import NoGradient, input_gradient
from classwise.core.audit import Audit, parse_normalise
from classwise.core.errors import UserError
from classwise.core.files import folder_digest
from classwise.core.paths import images_folder, is_users
from classwise.images import Images
from classwise.models.modes import eval_mode, frozen, look_like_probabilities
from classwise.runs.compute.device import device
from classwise.runs.store import users_source

# A network so many times as wide as the weights of a file is not the one that was trained.
_WIDER = 2
# The networks that a program handed over, by what stands for the sha256 of their weights.
_GIVEN: dict[str, nn.Module] = {}


def sampled_images(audit: Audit) -> Images:
    """Return the test images of an audit's dataset, on the device; a UserError if they have changed since the audit began."""
    available = _read(audit.dataset, str(device()), f"{images_folder()} {folder_digest(audit.dataset, times=True)}")
    if audit.images and images_digest(sample(audit, available)) != audit.images:
        raise UserError(f"the images of {audit.title} have changed since the audit began; start it again")
    return available


# The evaluations of an audit share network and images: both are read once, and again if files change.
@lru_cache(maxsize=1)
def _read(dataset: str, where: str, state: str) -> Images:
    # Seed 0, not the audit's: that one selects images and must not change the split that the network was trained on.
    return images.load(dataset, "test", 0, where)


def sample(audit: Audit, available: Images) -> Images:
    """Return the images that an audit evaluates."""
    return available if audit.per_class is None else available.per_class(audit.per_class, audit.seed)


def images_digest(images: Images) -> str:
    """Return a digest of classes, labels and pixels, 16 hexadecimal digits."""
    digest = hashlib.sha256("\n".join(images.classes).encode())
    for part in (images.labels, images.index, images.pixels):
        digest.update(part.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def keep(network: nn.Module, audit: Audit) -> str:
    """Keep a copy of a network for audits, and return a digest of its weights, its code, and what it does on a few images.

    Logits and gradients stand for code that is in no file. A UserError is raised if the network cannot be copied or used.
    """
    try:
        copied = copy.deepcopy(network)
    except Exception as error:  # whatever its tensors and hooks raise
        advice = "build it anew and load its state_dict, or audit a file of weights"
        raise UserError(f"the network cannot be copied ({reason(error, audit.home)}); {advice}") from error
    model = _normalised(copied, audit, few := _few(audit)).eval().to(device())
    _try(model, few, audit)
    with frozen(model):
        shown = input_gradient(model, *few.batch(slice(None)), cross_entropy)
    content = hashlib.sha256("\n".join(sorted(map(users_source, {*map(type, network.modules())}))).encode())
    # What rounding changes is not meant.
    rounded = [(1000 * value / value.abs().amax().clamp_min(1e-30)).round() for value in shown[:2]]
    for name, value in [*model.state_dict().items(), *zip(("logits", "gradient"), rounded, strict=True)]:
        content.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        content.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    _GIVEN[digest := content.hexdigest()] = model
    return digest


def network(audit: Audit) -> nn.Module:
    """Return the network of an audit in eval mode, on the device; a UserError if it fails on the first few images."""
    if audit.sha256 in _GIVEN:
        return _GIVEN[audit.sha256]
    if not audit.weights:
        raise UserError(f"{audit.name} lacks results that an audit has by now; carry it out again, with its weights")
    if not Path(audit.weights).is_file() or digest(Path(audit.weights)) != audit.sha256:
        raise UserError(f"{audit.weights} has changed since the audit began; start it again")
    if audit.code and code_digest(audit.model, audit.home) != audit.code:
        file = module_file(audit.model, audit.home)
        raise UserError(f"{file}, or a module that it imports, has changed since the audit began; start it again")
    return _built(audit, str(device()))


@lru_cache(maxsize=1)
def _built(audit: Audit, where: str) -> nn.Module:
    given, few = models.read(Path(audit.weights)), _few(audit)
    model = _users_model(audit, given, few) if ":" in audit.model else _our_model(audit, given, few.to("cpu"))
    model = model.eval().to(where)
    _try(model, few, audit)
    return model


def _few(audit: Audit) -> Images:
    available = sampled_images(audit)
    return available.take(torch.arange(min(8, len(available))))


def _our_model(audit: Audit, given: Mapping[str, Tensor], few: Images) -> nn.Module:
    """Return one of our models with the given weights, for images of the shape of `few`."""
    scaled = _training(audit) if audit.normalise == "dataset" else few
    (known, _), of_weights = models.last_layer(given), models.width(audit.model, given, few.shape)
    width, advice = audit.width or of_weights, f"leave --width out: the weights have width {of_weights}"
    if width > _WIDER * of_weights:  # before it takes memory
        raise UserError(f"width={width} is too wide for {audit.network}; {advice}")
    if known != len(few.classes):
        counts = f"{known} classes, the dataset has {len(few.classes)}"
        advice = "name images of these classes alone, such as --dataset folder:PATH"
        raise UserError(f"{audit.network} does not fit {audit.title}: the weights have {counts}; {advice}")
    model = models.build(audit.model, scaled, width, audit.seed)
    if audit.normalise != "dataset":
        mean, std = _statistics(audit, few) or (torch.zeros_like(model.mean), torch.ones_like(model.std))
        model.mean.copy_(mean)
        model.std.copy_(std)
    try:
        models.load_matching(model, given)
    except UserError as error:
        if width == of_weights:
            advice = "a function of yours may build the network: --model my_module:function"
        raise UserError(f"{audit.network} and {audit.model} of width {width}: {error}; {advice}") from None
    return model


def _training(audit: Audit) -> Images:
    try:
        return images.load(audit.dataset, "train")
    except UserError as error:
        advice = "write the mean and std of the images it was trained on: --normalise 0.49,0.48,0.45/0.25,0.24,0.26"
        raise UserError(f"normalise=dataset needs the training images of {audit.title}, which are not here; {advice}") from error


def _users_model(audit: Audit, given: Mapping[str, Tensor], few: Images) -> nn.Module:
    name, _, function = audit.model.partition(":")
    try:
        with importing(audit.home):
            built = getattr(import_users_module(name, audit.home), function)()
    except (Exception, SystemExit) as error:  # whatever their code raises; it may not end this program
        raise UserError(
            f"--model {audit.model} cannot be built: {reason(error, audit.home)}; correct it or name another function"
        ) from error
    if not isinstance(built, nn.Module):
        raise UserError(f"--model {audit.model} must return a torch.nn.Module, got {type(built).__name__}")
    try:
        matched = models.load_into(built, given)
    except (RuntimeError, UserError) as error:
        difference = error if isinstance(error, UserError) else reason(error)
        advice = f"name a function that builds the network as {audit.network} was trained"
        raise UserError(f"{audit.network} and what {audit.model} builds do not fit: {difference}; {advice}") from error
    if matched:
        print(f"{audit.network} fits {audit.model}: {matched}", file=sys.stderr)
    return _normalised(built, audit, few)


def _normalised(network: nn.Module, audit: Audit, few: Images) -> nn.Module:
    scaled = _training(audit) if audit.normalise == "dataset" else few
    return _Normalised(network, *statistics) if (statistics := _statistics(audit, scaled)) else network


class _Normalised(nn.Module):
    """A network that takes pixels minus their mean, over their standard deviation."""

    def __init__(self, network: nn.Module, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.network, self.mean, self.std = network, nn.Buffer(mean), nn.Buffer(std)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network((x - self.mean) / self.std)
        return logits


def _statistics(audit: Audit, images: Images) -> list[Tensor]:
    """Return mean and standard deviation (channels, 1, 1) of the pixels that the weights expect; none for pixels in [0, 1]."""
    if audit.normalise == "dataset":
        pixels = images.pixels.float() / 255
        return [value.view(-1, 1, 1) for value in (pixels.mean((0, 2, 3)), pixels.std((0, 2, 3)))]
    return [torch.tensor(value).view(-1, 1, 1) for value in parse_normalise(audit.normalise) or ()]


def _try(model: nn.Module, few: Images, audit: Audit) -> None:
    """Raise a UserError if a network cannot predict the classes of an audit's images, many or one, or has no gradient."""
    (x, y), classes = few.batch(slice(None)), len(few.classes)
    what = f"{audit.model} with the weights {audit.network}"
    for count in dict.fromkeys((len(few), 1)):
        try:
            with eval_mode(model), torch.no_grad():
                logits = model(x[:count])
        except (Exception, SystemExit) as error:  # whatever a forward pass raises
            size = f"{' x '.join(map(str, few.shape))}{', one at a time' if count < len(few) else ''}"
            raise UserError(
                f"{what} cannot take images of {size} ({reason(error, audit.home)}); {_advice(model, error)}"
            ) from error
        if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != count:
            shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            one = "; .squeeze() drops the dimension of a single image: leave it out" if count < len(few) else ""
            expected = f"({1 if one else 'n'}, {classes})"
            raise UserError(f"{audit.model} must return a logit for each image and class, {expected}, got {shape}{one}")
        if logits.shape[1] != classes:
            raise UserError(f"{audit.model} returns {logits.shape[1]} classes, {audit.title} has {classes}")
        if not logits.isfinite().all():
            raise UserError(f"the logits of {audit.network} are not finite (nan or infinite); check its weights")
        if look_like_probabilities(logits):
            raise UserError(f"{audit.model} returns probabilities, attacks need logits; leave the softmax out")
    try:
        with eval_mode(model), frozen(model):
            input_gradient(model, x, y, cross_entropy)
    except (NoGradient, RuntimeError) as error:
        # An attack without gradients is no way out: FGSM and the curve are part of every audit. torch says what else it lost.
        cause = "" if isinstance(error, NoGradient) else f" ({reason(error, audit.home)})"
        where = "look in its forward for torch.no_grad(), .detach(), .numpy() and changes in place"
        raise UserError(
            f"{what} has no gradient with respect to its pixels{cause}, which every audit needs, also with --attack square; "
            f"{where}, and write them in a differentiable form"
        ) from error


def _advice(model: nn.Module, error: BaseException) -> str:
    kinds = {str(value.dtype).removeprefix("torch.") for value in model.parameters() if value.dtype != torch.float32}
    if kinds:
        return f"its weights are {', '.join(sorted(kinds))} and pixels are float32: let the function return model.float()"
    if re.search("not compiled with CUDA|No CUDA GPUs|NVIDIA driver", str(error)):
        return "leave .cuda() out: the audit moves the network to its device"
    if "same device" in str(error):
        return "make its tensors on the device of the pixels: device=x.device"
    return "was it trained on images of another size or number of channels?"


def digest(file: Path) -> str:
    """Return the sha256 of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def code_digest(model: str, home: str) -> str:
    """Return the sha256 of the user's module, or of all below `home` that import statements name, there and further on."""
    file = module_file(model, home)
    files = sorted({file, *_modules_below(model.partition(":")[0], home).values()})
    if len(files) == 1:
        return digest(file)
    return hashlib.sha256("\n".join(f"{one.relative_to(home).as_posix()} {digest(one)}" for one in files).encode()).hexdigest()


def _modules_below(name: str, home: str) -> dict[str, Path]:
    """Return the files below a folder of a module and of all that import statements name, by the names of the modules."""
    found, waiting = dict[str, Path](), [name]
    while waiting:
        known = waiting.pop()
        # A module of a package runs that package first.
        parents = [known[: place.start()] for place in re.finditer(r"\.", known)]
        if known in found or (file := _file_below(known, home)) is None:
            waiting += [one for one in parents if one not in found and _file_below(one, home)]
            continue
        found[known] = file
        with contextlib.suppress(SyntaxError, ValueError):  # said when it is imported
            waiting += [*parents, *_imports(ast.parse(file.read_bytes()), known, file.stem == "__init__")]
    return found


def _imports(tree: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: len(module.split(".")) - node.level + is_package] if node.level else []
            place = ".".join([*above, *filter(None, [node.module])])
            yield place
            yield from (f"{place}.{alias.name}" for alias in node.names)


def module_file(model: str, home: str) -> Path:
    """Return the file of the user's module, below `home` or installed; a UserError says which folder was searched."""
    name, cause, spec = model.partition(":")[0], "", None
    if (file := _file_below(name, home)) is not None:
        return file
    try:
        with importing(home):
            spec = find_spec(name)
    except (Exception, SystemExit) as error:  # of a package that the module is in
        cause = f" ({reason(error)})"
    if spec is None or not spec.has_location or spec.origin is None:
        raise UserError(f"--model {model}: there is no module {name} in {home}; it is imported from there{cause}")
    return Path(spec.origin)


def _file_below(name: str, home: str) -> Path | None:
    place = Path(home, *name.split("."))
    return next((file for file in (place / "__init__.py", place.with_suffix(".py")) if file.is_file()), None)


@contextmanager
def importing(home: str) -> Iterator[None]:
    """Make the modules of a folder importable until the block ends; what is compiled meanwhile is not kept."""
    sys.path.insert(0, home)
    importlib.invalidate_caches()
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = kept
        sys.path.remove(home)


def import_users_module(name: str, home: str) -> ModuleType:
    """Return the user's module; it and what its import statements name below `home` are run anew, from their sources."""
    file = _file_below(name, home)
    spec = None if file is None else spec_from_file_location(name, file)
    if file is None or spec is None:
        return importlib.import_module(name)
    for known in _modules_below(name, home):
        sys.modules.pop(known, None)
    if "." in name:
        importlib.import_module(name.rpartition(".")[0])
    module = sys.modules[name] = module_from_spec(spec)
    exec(compile(file.read_bytes(), str(file), "exec"), module.__dict__)
    return module


def reason(error: BaseException, home: str = "") -> str:
    """Return the kind of an error and its first line, and where code below `home` raised it, if it did."""
    place = f" in {place}" if home and (place := place_of(error, home)) else ""
    return f"{type(error).__name__}{place}: {(str(error).splitlines() or [''])[0]}".removesuffix(": ")


def place_of(error: BaseException, home: str) -> str:
    """Return the last line of a user's code, below `home`, that an error passed: "net.py, line 7"; "" if there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_relative_to(home) and is_users(file):
            return f"{file.relative_to(home)}, line {frame.lineno}"
    return ""
