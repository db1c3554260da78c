"""Objectives: what a batch costs, and what was attacked on the way.

An objective is called as `objective(model, x, y, each, adversary) -> Cost`: x float (n, channels, height, width) in [0, 1],
y labels (n,), each the settings of each image (of its class), and the adversary of this batch. The model is in train mode.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from classwise.core.errors import UserError
from classwise.defences.adversary import Adversary
from classwise.defences.calibrations import ClassSettings


class LossTerms(NamedTuple):
    """The terms of the loss of each image, (n,), and the logits that were seen on clean and on attacked images.

    natural: the first term, the only one where robust is None; robust: the second, its trade-off included. None: not computed.
    """

    natural: Tensor
    clean: Tensor | None
    attacked: Tensor | None
    robust: Tensor | None = None

    @property
    def loss(self) -> Tensor:
        """The loss of each image, (n,)."""
        return self.natural if self.robust is None else self.natural + self.robust

    @property
    def seen(self) -> Tensor:
        """The logits of the attacked images, of the clean ones where none was attacked; without gradient."""
        logits = self.clean if self.attacked is None else self.attacked
        assert logits is not None, "an objective tells the logits that it saw"
        return logits.detach()

    def weighted(self, each: ClassSettings, *, relative: bool = False) -> "LossTerms":
        """Return the cost with its terms weighted by class; `relative` divides the weights of the batch by their mean (FRL)."""

        def weights(given: Tensor) -> Tensor:
            return given / given.mean() if relative else given

        robust = None if self.robust is None else weights(each.robust) * self.robust
        return self._replace(natural=weights(each.weight) * self.natural, robust=robust)


class Scaled(nn.Module):
    """A network whose answers are multiplied by a number: what the loss reads of a cosine head."""

    def __init__(self, network: nn.Module, scale: float) -> None:
        super().__init__()
        self.network, self.scale = network, scale
        self.training = network.training

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.scale * self.network(x)
        return logits

    def features(self, x: Tensor) -> Tensor:
        """Return the network's own penultimate layer."""
        found: Tensor = self.network.features(x)  # type: ignore[operator]
        return found


class Objective(ABC):
    """What every objective is.

    beta, scale, margin: of the objective before any calibration, 0, 1 and 0 where it has none. The loss reads scale x (z - margin
    of the own class) where the model answers z. soft: whether its attack aims at probabilities. attacks: the name of its own
    attack where no inner one runs, "clean" for none.
    """

    beta: float = 0.0
    scale: float = 1.0
    margin: float = 0.0
    soft: ClassVar[bool] = False
    attacks: ClassVar[str] = "clean"

    def __post_init__(self) -> None:
        for name in ("beta", "entropy", "margin", "similarity"):
            value = getattr(self, name, 0.0)
            if not value >= 0:
                raise UserError(f"{name} must be 0 or more, got {value}")
        if not self.scale > 0:
            raise UserError(f"scale must be above 0, got {self.scale}")
        if not 0 <= getattr(self, "smoothing", 0.0) < 1:
            raise UserError(f"smoothing must be 0 or more and below 1, got {getattr(self, 'smoothing', 0.0)}")

    def answering(self, model: nn.Module) -> nn.Module:
        """Return the network whose answers the loss reads, without the margin: what attacks should see."""
        return model if self.scale == 1 else Scaled(model, self.scale)

    def read(self, answer: Tensor, y: Tensor, each: ClassSettings) -> Tensor:
        """Return the logits that the cross-entropy is taken of: scaled, with the margin of the own class."""
        if self.scale == 1 and not self.margins:
            return answer
        return self.scale * (answer - each.margin[:, None] * F.one_hot(y, answer.shape[1]))

    @property
    def margins(self) -> bool:
        """Whether own logits carry a margin."""
        return self.margin > 0

    def check(self, classes: int) -> None:  # noqa: B027 (most suit any run)
        """Raise UserError where an option does not suit a run of so many classes."""

    @abstractmethod
    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, each: ClassSettings, adversary: Adversary) -> LossTerms:
        """Return the cost of a batch."""


def entropy(logits: Tensor) -> Tensor:
    """Return the entropy of the softmax of each row, in nats."""
    logs = logits.log_softmax(1)
    return -(logs.exp() * logs).sum(1)


def divergence(clean: Tensor, attacked: Tensor) -> Tensor:
    """Return KL(p || p') of each image, from logits; gradients flow through both."""
    return F.kl_div(attacked.log_softmax(1), clean.log_softmax(1), reduction="none", log_target=True).sum(1)


def likeness(logits: Tensor, y: Tensor) -> Tensor:
    """Return how alike the classes of a batch are: the mean of max(0, cos) over pairs of their mean logits.

    A design of our own for what Benz 2020 proposes without a formula; classes without images in the batch are left out.
    """
    belongs = F.one_hot(y, logits.shape[1]).to(logits.dtype)
    present = belongs.sum(0) > 0
    means = F.normalize((belongs.T @ logits) / belongs.sum(0).clamp_min(1)[:, None], dim=1)
    pairs = torch.triu(present[:, None] & present[None, :], 1)
    return ((means @ means.T).relu() * pairs).sum() / pairs.sum().clamp_min(1)


@dataclass(frozen=True)
class Standard(Objective):
    """Cross-entropy on the images as they are; label smoothing as in `Adversarial`."""

    smoothing: float = 0.0

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, each: ClassSettings, adversary: Adversary) -> LossTerms:
        """Return CE(f(x), y)."""
        logits = model(x)
        return LossTerms(F.cross_entropy(logits, y, reduction="none", label_smoothing=self.smoothing), logits, None)


@dataclass(frozen=True)
class Adversarial(Objective):
    """Cross-entropy on attacked images (Madry et al. 2018; Tian 2021, equation 1).

    smoothing: the share of the target that is spread over all classes; the attack aims at hard labels. entropy: the weight of the
    entropy of the attacked answer, which is maximised (ME-AT; Entropy 2022, section 3). scale, margin: for a cosine head (PGD-HE,
    Pang et al. 2020: scale 10, margin .2); the attack reads scale x cosine without the margin. similarity: the weight of
    `likeness` of the attacked logits.
    """

    smoothing: float = 0.0
    entropy: float = 0.0
    scale: float = 1.0
    margin: float = 0.0
    similarity: float = 0.0

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, each: ClassSettings, adversary: Adversary) -> LossTerms:
        """Return CE(f(x'), y) - entropy x H(f(x')), where x' is attacked with the labels."""
        answer = model(adversary.craft(self.answering(model), x, y))
        loss = F.cross_entropy(self.read(answer, y, each), y, reduction="none", label_smoothing=self.smoothing)
        if self.entropy > 0:
            loss = loss - self.entropy * entropy(self.scale * answer)
        if self.similarity > 0:
            loss = loss + self.similarity * likeness(answer, y)
        return LossTerms(loss, None, answer)


@dataclass(frozen=True)
class TRADES(Objective):
    """Cross-entropy plus `beta` times the divergence that an attack can cause (Zhang et al. 2019; Tian 2021, equation 2).

    The official code forwards clean, attacked and once more clean images; here the attacked ones go first and the clean ones
    once: the loss and its gradient are the same, the running statistics of batch norm end on clean images as there.

    normalised: divide by 1 + beta, as the code of CFA does (Wei 2023, equation 8); with beta 6 that is a seventh of the rate.
    entropy: the weight of the entropy of the clean answer, which is maximised (ME-TRADES; Entropy 2022, section 3; there beta is
    called lambda and this beta). scale, margin: for a cosine head (TRADES-HE: scale 15, margin .2). detached: no gradient through
    the clean side of the divergence.
    """

    soft: ClassVar[bool] = True
    beta: float = 6.0
    entropy: float = 0.0
    normalised: bool = False
    scale: float = 1.0
    margin: float = 0.0
    detached: bool = False

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, each: ClassSettings, adversary: Adversary) -> LossTerms:
        """Return CE(f(x), y) - entropy x H(f(x)) + beta KL(f(x) || f(x')), where x' maximises the divergence."""
        network = self.answering(model)
        with torch.no_grad(), adversary.mode(model):
            target = network(x).softmax(1)
        # Cross-entropy against fixed p(x) is the divergence plus a constant: the same ascent.
        attacked = model(adversary.craft(network, x, target, truth=y))
        clean = model(x)
        natural = F.cross_entropy(self.read(clean, y, each), y, reduction="none")
        if self.entropy > 0:
            natural = natural - self.entropy * entropy(self.scale * clean)
        ours = self.scale * clean
        robust = each.beta * divergence(ours.detach() if self.detached else ours, self.scale * attacked)
        if self.normalised:
            natural, robust = natural / (1 + each.beta), robust / (1 + each.beta)
        return LossTerms(natural, clean, attacked, robust)


@dataclass(frozen=True)
class MART(Objective):
    """Boosted cross-entropy on attacked images plus a divergence that counts more where the clean answer is unsure.

    Wang et al. 2020 (Tian 2021, section 4.1), with the small numbers of its code; beta is 5 for its ResNet-18, 6 for its
    WideResNet. Clean images are forwarded first, so that the statistics of batch norm end on attacked ones, as there.
    """

    beta: float = 5.0

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, each: ClassSettings, adversary: Adversary) -> LossTerms:
        """Return BCE(f(x'), y) + beta KL(f(x) || f(x')) (1 - f(x)_y), where x' is attacked with the labels."""
        moved = adversary.craft(model, x, y)
        clean, attacked = model(x), model(moved)
        p, q, own = clean.softmax(1), attacked.softmax(1), y[:, None]
        rival = q.scatter(1, own, -1.0).argmax(1, keepdim=True)
        boosted = F.cross_entropy(attacked, y, reduction="none") - (1.0001 - q.gather(1, rival)[:, 0] + 1e-12).log()
        apart = (p * (clean.log_softmax(1) - (q + 1e-12).log())).sum(1)
        return LossTerms(boosted, clean, attacked, each.beta * apart * (1.0000001 - p.gather(1, own)[:, 0]))


@dataclass(frozen=True)
class SingleClassAT(Objective):
    """Cross-entropy on a batch whose images of one class are attacked and all others clean (Entropy 2022, 2.1).

    label: the number of the class. All pass through the network at once; they are counted as attacked.
    """

    label: int = 3

    def __post_init__(self) -> None:
        if self.label < 0:
            raise UserError(f"label is the number of a class, 0 or more, got {self.label}")

    def check(self, classes: int) -> None:
        """Raise UserError where the class does not exist."""
        if self.label >= classes:
            raise UserError(f"label names class {self.label}, which does not exist: there are 0 to {classes - 1}")

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, each: ClassSettings, adversary: Adversary) -> LossTerms:
        """Return CE(f(x'), y), where x' is x but for the images of the class."""
        rows = (y == self.label).nonzero()[:, 0]
        if len(rows):
            x = x.index_copy(0, rows, adversary.at(rows).craft(model, x[rows], y[rows]))
        logits = model(x)
        return LossTerms(F.cross_entropy(logits, y, reduction="none"), None, logits)
