"""Attacks of other packages behind one call, `attack(model, x, y, eps, **settings) -> x_adv`, in the Linf ball.

Each runs the model in eval mode from a seed and leaves the model and the global random states as they were. A package is imported
only when one of its attacks is called.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

# Of each package, what it is installed as and what it is imported as.
PACKAGES = {
    "torchattacks": ("torchattacks", "torchattacks"),
    "foolbox": ("foolbox", "foolbox"),
    "ART": ("adversarial-robustness-toolbox", "art.attacks.evasion"),
}


def _imported(module: str) -> Any:
    """Return a module; its deprecation warnings are ignored."""
    with warnings.catch_warnings():
        for outdated in (DeprecationWarning, PendingDeprecationWarning, FutureWarning, SyntaxWarning):
            warnings.simplefilter("ignore", outdated)
        return import_module(module)


def installed() -> dict[str, str]:
    """Return the versions of the packages that can be imported."""
    versions = {}
    for package, (distribution, module) in PACKAGES.items():
        try:
            _imported(module)
            versions[package] = version(distribution)
        except (ImportError, PackageNotFoundError):
            continue
    return versions


@contextmanager
def _restored(model: nn.Module, x: Tensor, seed: int) -> Iterator[None]:
    """Run a block with the model in eval mode, gradients for images only and all randomness from a seed; then restore all."""
    training = [(layer, layer.training) for layer in model.modules()]
    trainable = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    state = np.random.get_state()
    try:
        model.eval().requires_grad_(False)
        with torch.random.fork_rng(devices=[x.device] if x.is_cuda else []), torch.enable_grad():
            torch.manual_seed(seed)
            np.random.seed(seed)
            yield
    finally:
        np.random.set_state(state)
        for layer, mode in training:
            layer.training = mode
        for parameter, required in trainable:
            parameter.requires_grad_(required)


def _classes(model: nn.Module, x: Tensor) -> int:
    with torch.no_grad():
        return int(model(x[:1]).shape[1])


def _torchattacks(name: str, model: nn.Module, x: Tensor, y: Tensor, start: int, **settings: Any) -> Tensor:
    package = _imported("torchattacks")
    with _restored(model, x, start):
        attacked: Tensor = getattr(package, name)(model, **settings)(x, y)
    return attacked.detach()


def torchattacks_pgd(
    model: nn.Module, x: Tensor, y: Tensor, eps: float, *, steps: int, step: float, random_start: bool, seed: int = 0
) -> Tensor:
    """Return what PGD of torchattacks finds by steps of the length `step`."""
    return _torchattacks("PGD", model, x, y, seed, eps=eps, alpha=step, steps=steps, random_start=random_start)


def torchattacks_apgd(
    model: nn.Module, x: Tensor, y: Tensor, eps: float, *, steps: int, loss: str = "ce", seed: int = 0
) -> Tensor:
    """Return what APGD of torchattacks finds from one random start; `loss` is "ce" or "dlr"."""
    return _torchattacks("APGD", model, x, y, seed, eps=eps, steps=steps, loss=loss, n_restarts=1, seed=seed)


def torchattacks_apgd_t(model: nn.Module, x: Tensor, y: Tensor, eps: float, *, steps: int, targets: int, seed: int = 0) -> Tensor:
    """Return what targeted APGD of torchattacks finds, which aims at so many classes."""
    return _torchattacks("APGDT", model, x, y, seed, eps=eps, steps=steps, n_classes=targets + 1, seed=seed)


def torchattacks_fab_t(model: nn.Module, x: Tensor, y: Tensor, eps: float, *, steps: int, targets: int, seed: int = 0) -> Tensor:
    """Return what targeted FAB of torchattacks finds, which aims at so many classes."""
    settings = {"eps": eps, "steps": steps, "multi_targeted": True, "n_classes": targets + 1}
    return _torchattacks("FAB", model, x, y, seed, **settings, seed=seed)


def torchattacks_square(
    model: nn.Module, x: Tensor, y: Tensor, eps: float, *, queries: int, rescale: bool = False, seed: int = 0
) -> Tensor:
    """Return what Square of torchattacks finds after the start and `queries` - 1 tries."""
    return _torchattacks("Square", model, x, y, seed, eps=eps, n_queries=queries - 1, resc_schedule=rescale, seed=seed)


def torchattacks_autoattack(
    model: nn.Module, x: Tensor, y: Tensor, eps: float, *, steps: int, queries: int, seed: int = 0
) -> Tensor:
    """Return what the four members of AutoAttack of torchattacks find (its own ensemble gives the ascents ten steps)."""
    package = _imported("torchattacks")
    with _restored(model, x, seed):
        classes = _classes(model, x)
        members = [
            package.APGD(model, eps=eps, steps=steps, loss="ce", seed=seed),
            package.APGDT(model, eps=eps, steps=steps, n_classes=classes, seed=seed),
            package.FAB(model, eps=eps, steps=steps, multi_targeted=True, n_classes=classes, seed=seed),
            package.Square(model, eps=eps, n_queries=queries - 1, resc_schedule=False, seed=seed),
        ]
        attacked: Tensor = package.MultiAttack(members)(x, y)
    return attacked.detach()


def foolbox_pgd(
    model: nn.Module, x: Tensor, y: Tensor, eps: float, *, steps: int, step: float, random_start: bool, seed: int = 0
) -> Tensor:
    """Return what LinfPGD of foolbox finds by steps of the length `step`."""
    package = _imported("foolbox")
    attack = package.attacks.LinfPGD(abs_stepsize=step, steps=steps, random_start=random_start)
    with _restored(model, x, seed):
        _, attacked, _ = attack(package.PyTorchModel(model, bounds=(0, 1), device=x.device), x, y, epsilons=eps)
    return attacked.detach()


def _art(name: str, model: nn.Module, x: Tensor, y: Tensor, eps: float, seed: int, **settings: Any) -> Tensor:
    attacks, classifiers = _imported("art.attacks.evasion"), _imported("art.estimators.classification")
    with _restored(model, x, seed):
        classifier = classifiers.PyTorchClassifier(
            model=model,
            loss=nn.CrossEntropyLoss(),
            input_shape=tuple(x.shape[1:]),
            nb_classes=_classes(model, x),
            clip_values=(0.0, 1.0),
            device_type="gpu" if x.is_cuda else "cpu",
        )
        attack = getattr(attacks, name)(classifier, norm=np.inf, eps=eps, batch_size=500, verbose=False, **settings)
        attacked = attack.generate(x.detach().cpu().numpy(), y.cpu().numpy())
    return torch.from_numpy(attacked).to(x)


def art_pgd(
    model: nn.Module, x: Tensor, y: Tensor, eps: float, *, steps: int, step: float, random_start: bool, seed: int = 0
) -> Tensor:
    """Return what PGD of ART finds by steps of the length `step`."""
    settings = {"eps_step": step, "max_iter": steps, "num_random_init": int(random_start)}
    return _art("ProjectedGradientDescentPyTorch", model, x, y, eps, seed, **settings)


def art_apgd(model: nn.Module, x: Tensor, y: Tensor, eps: float, *, steps: int, loss: str = "ce", seed: int = 0) -> Tensor:
    """Return what Auto-PGD of ART finds from one random start; `loss` is "ce" or "dlr"."""
    kind = {"ce": "cross_entropy", "dlr": "difference_logits_ratio"}[loss]
    settings = {"eps_step": 2 * eps, "max_iter": steps, "nb_random_init": 1, "loss_type": kind}
    return _art("AutoProjectedGradientDescent", model, x, y, eps, seed, **settings)


def art_square(model: nn.Module, x: Tensor, y: Tensor, eps: float, *, queries: int, seed: int = 0) -> Tensor:
    """Return what Square of ART finds after the start and `queries` - 1 tries; it always stretches its schedule to them."""
    return _art("SquareAttack", model, x, y, eps, seed, max_iter=queries - 1)


Peer = Callable[..., Tensor]

# By attack, then by package.
PEERS: dict[str, dict[str, Peer]] = {
    "pgd": {"torchattacks": torchattacks_pgd, "foolbox": foolbox_pgd, "ART": art_pgd},
    "apgd": {"torchattacks": torchattacks_apgd, "ART": art_apgd},
    "apgd-t": {"torchattacks": torchattacks_apgd_t},
    "fab-t": {"torchattacks": torchattacks_fab_t},
    "square": {"torchattacks": torchattacks_square},
    "square-rescaled": {"ART": art_square},
    "autoattack": {"torchattacks": torchattacks_autoattack},
}
