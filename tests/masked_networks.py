"""Networks on digits whose robust accuracy attacks get right or wrong for a known reason, as audits of a user's weights.

robust: adversarially trained, nothing hidden. overfitted: trained against a single step until several steps break every image
(catastrophic overfitting). quantised: its pixels are rounded, so that it has no gradient. saturated: the softmax of its logits is
exactly 0 or 1. noisy: it adds noise to its pixels. The last three are otherwise a standard network.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from classwise import attacks, images, runs
from classwise.attacks.balls import BALLS
from classwise.core.audit import Audit
from classwise.runs.compute.device import one_thread

MODULE = """
import torch
from torch import nn


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


class Quantised(Net):
    def forward(self, x):
        return super().forward((x * 4).round() / 4)


class Saturated(Net):
    def forward(self, x):
        return 1000 * super().forward(x)


class Noisy(Net):
    def forward(self, x):
        return super().forward(x + 0.1 * torch.randn_like(x))


robust = overfitted = Net
quantised, saturated, noisy = Quantised, Saturated, Noisy
"""


@dataclass(frozen=True)
class Training:
    """How a network is trained: the attack inside, its radius, epochs, and whether clean images are trained on, too."""

    attack: str
    eps: float
    epochs: int
    clean: bool = False


STANDARD = Training("clean", 0.0, 8)
TRAININGS = {"robust": Training("pgd-5", 0.2, 20), "overfitted": Training("fgsm", 0.3, 20, clean=True)}
# The radius at which each is audited.
RADII = {"robust": "0.2", "overfitted": "0.3", "quantised": "0.2", "saturated": "0.2", "noisy": "0.2"}


@one_thread()
def trained(training: Training, seed: int = 0) -> dict[str, Tensor]:
    """Return the weights of `Net` in MODULE."""
    torch.manual_seed(seed)
    space: dict[str, Callable[[], nn.Module]] = {}
    exec(MODULE, space)
    model, data = space["Net"](), images.load("digits", "train")
    x, y = data.batch(slice(None))
    generator, ball = torch.Generator().manual_seed(seed), BALLS["linf"](training.eps)
    optimiser = torch.optim.Adam(model.parameters(), 0.002)
    attack = attacks.build(training.attack)
    for _ in range(training.epochs):
        for rows in torch.randperm(len(x), generator=generator).split(64):
            attacked = attack.craft(model, x[rows], y[rows], ball, generator)
            loss = cross_entropy(model(attacked), y[rows])
            loss = loss + cross_entropy(model(x[rows]), y[rows]) if training.clean else loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model.state_dict()


def audit(kind: str, folder: Path, attack: str, seed: int = 0, limit: int | None = None) -> Audit:
    """Return the audit of a network of this kind, whose weights and module are written to a folder."""
    weights = folder / f"{kind}-{seed}.safetensors"
    if not weights.exists():
        folder.mkdir(parents=True, exist_ok=True)
        safetensors.torch.save_file(trained(TRAININGS.get(kind, STANDARD), seed), weights)
    (folder / "masked.py").write_text(MODULE)
    options = {"model": f"masked:{kind}", "eps": RADII[kind], "attack": attack, "limit": limit, "home": str(folder)}
    return runs.audit(str(weights), **options)
