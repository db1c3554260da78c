"""Objectives: the loss of a batch, the inner attack, and the training step that lowers the loss.

An objective is called as `objective(model, x, y, settings, adversary) -> LossTerms`: x float (n, channels, height, width) in
[0, 1], y labels (n,), the settings of each image, which are those of its class, and the adversary of this batch. The model is in
train mode.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from annotated_types import Ge
from torch import Tensor, nn

from classwise.attacks import Attack, FriendlyPGD
from classwise.attacks.balls import Ball
from classwise.core.errors import UserError
from classwise.core.options import BelowOne, Count, NotNegative, Positive, check_bounds
from classwise.defences.calibrations import Calibration, ClassSettings, Memory
from classwise.models.inference import Fusions, fuse_in_place
from classwise.models.modes import frozen

BATCH_NORM_MODES = ("eval", "train")


@dataclass(frozen=True)
class Adversary:
    """An attack on one batch with its ball, and the mode of batch norm during the attack.

    attack: None where the defence has no inner attack. batch_norm: "eval" uses the running statistics (TRADES, MART, HE, FAT,
    FRL), "train" those of the batch, which updates the running ones at every step of the attack (CFA, Rice et al., Wong et al.).
    progress: the completed share of the training, 0 to 1, for attacks with a schedule. fusions: of the network, used in "eval".
    """

    attack: Attack | None
    ball: Ball
    batch_norm: str
    generator: torch.Generator
    progress: float = 0.0
    fusions: Fusions = ()

    def select(self, rows: Tensor) -> "Adversary":
        """Return the adversary of some images of the batch."""
        return replace(self, ball=self.ball.select(rows))

    @contextmanager
    def mode(self, model: nn.Module) -> Iterator[None]:
        """Set the model to the mode of the attack for the duration of the block."""
        training = model.training
        model.train(self.batch_norm == "train")
        try:
            with fuse_in_place(self.fusions if self.batch_norm == "eval" else ()):
                yield
        finally:
            model.train(training)

    def craft(self, model: nn.Module, x: Tensor, y: Tensor, truth: Tensor | None = None) -> Tensor:
        """Return the attacked batch; `y` are labels (n,), or probabilities (n, classes) and then `truth` the labels."""
        assert self.attack is not None, "the objective attacks, but the defence names no attack"
        attack = self.attack
        if isinstance(attack, FriendlyPGD):
            attack = attack.attack_at(self.progress)
        with self.mode(model):
            if isinstance(attack, FriendlyPGD) and truth is not None:
                with frozen(model), torch.no_grad():
                    return attack.friendly_search(model, x, y, truth, self.ball, self.generator)
            return attack.craft(model, x, y, self.ball, self.generator)


class LossTerms(NamedTuple):
    """The terms of the loss of each image, (n,), and the logits of the clean and of the attacked images, (n, classes).

    natural: the first term, the only one where robust is None. clean, attacked: None where the network did not see such images.
    robust: the second term, multiplied by the trade-off.
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
    def last_logits(self) -> Tensor:
        """The logits of the attacked images, of the clean ones where none was attacked; without gradient."""
        logits = self.clean if self.attacked is None else self.attacked
        assert logits is not None, "an objective returns the logits of clean or of attacked images"
        return logits.detach()

    def weigh(self, settings: ClassSettings, *, normalise_weights: bool = False) -> "LossTerms":
        """Return the terms weighted by class; `normalise_weights` divides the weights of the batch by their mean (FRL)."""
        weight, robust = settings.weight, settings.robust
        if normalise_weights:
            weight, robust = weight / weight.mean(), robust / robust.mean()
        return self._replace(natural=weight * self.natural, robust=None if self.robust is None else robust * self.robust)


@dataclass(frozen=True)
class TrainingStep:
    """What an objective needs to train on one batch besides its images.

    settings: of each image. calibration: weights the terms. memory: kept from batch to batch and in the checkpoint. batch: the
    size of a full batch.
    """

    settings: ClassSettings
    adversary: Adversary
    calibration: Calibration
    optimiser: torch.optim.Optimizer
    memory: Memory
    batch: int

    def update(self, terms: LossTerms, y: Tensor) -> LossTerms:
        """Weight the terms by class, take one step of the optimiser on their mean and return them."""
        settings = self.calibration.batch_settings(self.settings, terms.last_logits, y)
        terms = terms.weigh(settings, normalise_weights=self.calibration.normalise_weights)
        terms = terms._replace(natural=terms.natural + self.calibration.penalty(self.memory, terms.attacked, y))
        self.optimiser.zero_grad(set_to_none=True)
        terms.loss.mean().backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return terms


class Scaled(nn.Module):
    """A network whose logits are multiplied by a number, as the loss of a cosine head does."""

    def __init__(self, network: nn.Module, scale: float) -> None:
        super().__init__()
        self.network, self.scale = network, scale
        self.training = network.training

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.scale * self.network(x)
        return logits

    def features(self, x: Tensor) -> Tensor:
        """Return the network's penultimate layer."""
        features: Tensor = self.network.features(x)  # type: ignore[operator]
        return features


class Objective(ABC):
    """The base class of all objectives; a subclass needs only `__call__`.

    beta, scale, margin: before any calibration; 0, 1 and 0 where it has none. From the logits z of the model the loss takes scale
    x (z - margin of the label). soft_targets: whether its attack diverges from probabilities, not from labels. built_in_attack:
    the name of its own attack where no inner one runs, "clean" for none. class_specific: whether its options name classes, which
    a dataset may lack.
    """

    beta: float = 0.0
    scale: float = 1.0
    margin: float = 0.0
    soft_targets: ClassVar[bool] = False
    built_in_attack: ClassVar[str] = "clean"
    class_specific: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_bounds(self)

    @property
    def training_passes(self) -> int:
        """How many forward and backward passes a step takes besides the inner attack, for cost estimates."""
        return 1

    def scaled_model(self, model: nn.Module) -> nn.Module:
        """Return the network with scaled logits but without the margin, which is what attacks see."""
        return model if self.scale == 1 else Scaled(model, self.scale)

    def training_logits(self, logits: Tensor, y: Tensor, settings: ClassSettings) -> Tensor:
        """Return the logits for the cross-entropy: scaled, the margin subtracted from that of the label."""
        if self.scale == 1 and not self.margin > 0:
            return logits
        return self.scale * (logits - settings.margin[:, None] * F.one_hot(y, logits.shape[1]))

    def check(self, classes: int) -> None:  # noqa: B027 (most suit any run)
        """Raise UserError where an option does not suit a run of so many classes."""

    @abstractmethod
    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, settings: ClassSettings, adversary: Adversary) -> LossTerms:
        """Return the terms of the loss of a batch."""

    def step(self, model: nn.Module, x: Tensor, y: Tensor, step: TrainingStep) -> LossTerms:
        """Train on a batch and return its weighted terms: by default one step of the optimiser."""
        return step.update(self(model, x, y, step.settings, step.adversary), y)


def entropy(logits: Tensor) -> Tensor:
    """Return the entropy of the softmax of each row, in nats."""
    logs = logits.log_softmax(1)
    return -(logs.exp() * logs).sum(1)


def class_similarity(logits: Tensor, y: Tensor) -> Tensor:
    """Return the similarity of the classes of a batch: the mean of max(0, cos) over pairs of their mean logits.

    Benz et al. 2020 propose it without a formula; this one is ours. Classes without images in the batch are left out.
    """
    belongs = F.one_hot(y, logits.shape[1]).to(logits.dtype)
    present = belongs.sum(0) > 0
    means = F.normalize((belongs.T @ logits) / belongs.sum(0).clamp_min(1)[:, None], dim=1)
    pairs = torch.triu(present[:, None] & present[None, :], 1)
    return ((means @ means.T).relu() * pairs).sum() / pairs.sum().clamp_min(1)


@dataclass(frozen=True)
class Standard(Objective):
    """Cross-entropy on clean images.

    smoothing: of the labels, as in `Adversarial`.
    """

    smoothing: BelowOne = 0.0

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, settings: ClassSettings, adversary: Adversary) -> LossTerms:
        """Return CE(f(x), y)."""
        logits = model(x)
        return LossTerms(F.cross_entropy(logits, y, reduction="none", label_smoothing=self.smoothing), logits, None)


@dataclass(frozen=True)
class Adversarial(Objective):
    """Cross-entropy on attacked images (Madry et al. 2018; Tian et al. 2021, equation 1).

    smoothing: the share of the target spread over all classes; the attack uses the labels. entropy: the weight of the entropy of
    the attacked prediction, which is maximised (ME-AT; Entropy 2022, section 3). scale, margin: for a cosine head (PGD-HE, Pang
    et al. 2020: scale 10, margin .2); the attack sees scale x cosine without the margin. similarity: the weight of
    `class_similarity` of the attacked logits.
    """

    smoothing: BelowOne = 0.0
    entropy: NotNegative = 0.0
    scale: Positive = 1.0
    margin: NotNegative = 0.0
    similarity: NotNegative = 0.0

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, settings: ClassSettings, adversary: Adversary) -> LossTerms:
        """Return CE(f(x'), y) - entropy x H(f(x')), where x' is attacked with the labels."""
        logits = model(adversary.craft(self.scaled_model(model), x, y))
        shifted = self.training_logits(logits, y, settings)
        loss = F.cross_entropy(shifted, y, reduction="none", label_smoothing=self.smoothing)
        if self.entropy > 0:
            loss = loss - self.entropy * entropy(self.scale * logits)
        if self.similarity > 0:
            loss = loss + self.similarity * class_similarity(logits, y)
        return LossTerms(loss, None, logits)


@dataclass(frozen=True)
class TRADES(Objective):
    """Cross-entropy plus `beta` times the divergence that an attack can cause (Zhang et al. 2019; Tian et al. 2021, equation 2).

    The official code passes clean, attacked and again clean images through the network; here the attacked ones go first and the
    clean ones once. Loss and gradient are the same, and the running statistics of batch norm end on clean images in both.

    beta: the trade-off, 0 or more. entropy: the weight of the entropy of the clean prediction, which is maximised (ME-TRADES;
    Entropy 2022, section 3, where beta is called lambda and this weight beta). normalised: divide by 1 + beta as the code of CFA
    (Wei et al. 2023, equation 8); with beta 6 that is a seventh of the learning rate. scale, margin: for a cosine head
    (TRADES-HE: scale 15, margin .2). detached: no gradient through the clean side of the divergence. smoothing: of the labels of
    the cross-entropy, as in `Adversarial`; the divergence and the attack have no labels.
    """

    soft_targets: ClassVar[bool] = True
    training_passes = 2
    beta: NotNegative = 6.0
    entropy: NotNegative = 0.0
    normalised: bool = False
    scale: Positive = 1.0
    margin: NotNegative = 0.0
    detached: bool = False
    smoothing: BelowOne = 0.0

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, settings: ClassSettings, adversary: Adversary) -> LossTerms:
        """Return CE(f(x), y) - entropy x H(f(x)) + beta KL(f(x) || f(x')), where x' maximises the divergence."""
        network = self.scaled_model(model)
        with torch.no_grad(), adversary.mode(model):
            target = network(x).softmax(1)
        # Cross-entropy against a fixed p(x) is the divergence plus a constant: the gradient is the same.
        attacked = model(adversary.craft(network, x, target, truth=y))
        clean = model(x)
        shifted = self.training_logits(clean, y, settings)
        natural = F.cross_entropy(shifted, y, reduction="none", label_smoothing=self.smoothing)
        if self.entropy > 0:
            natural = natural - self.entropy * entropy(self.scale * clean)
        p, q = ((self.scale * logits).log_softmax(1) for logits in (clean.detach() if self.detached else clean, attacked))
        robust = settings.beta * F.kl_div(q, p, reduction="none", log_target=True).sum(1)
        if self.normalised:
            natural, robust = natural / (1 + settings.beta), robust / (1 + settings.beta)
        return LossTerms(natural, clean, attacked, robust)


@dataclass(frozen=True)
class MART(Objective):
    """Boosted cross-entropy on attacked images plus a divergence weighted by the error probability of the clean image.

    Wang et al. 2020 (Tian et al. 2021, section 4.3), with the small constants of its code. Clean images go first, so that the
    statistics of batch norm end on attacked ones, as in the code.

    beta: the trade-off, 0 or more; 5 for the ResNet-18 of the paper, 6 for its WideResNet.
    """

    training_passes = 2
    beta: NotNegative = 5.0

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, settings: ClassSettings, adversary: Adversary) -> LossTerms:
        """Return BCE(f(x'), y) + beta KL(f(x) || f(x')) (1 - f(x)_y), where x' is attacked with the labels."""
        moved = adversary.craft(model, x, y)
        clean, attacked = model(x), model(moved)
        p, q, label = clean.softmax(1), attacked.softmax(1), y[:, None]
        rival = q.scatter(1, label, -1.0).argmax(1, keepdim=True)
        boosted = F.cross_entropy(attacked, y, reduction="none") - (1.0001 - q.gather(1, rival)[:, 0] + 1e-12).log()
        divergence = (p * (clean.log_softmax(1) - (q + 1e-12).log())).sum(1)
        robust = settings.beta * divergence * (1.0000001 - p.gather(1, label)[:, 0])
        return LossTerms(boosted, clean, attacked, robust)


@dataclass(frozen=True)
class SingleClassAT(Objective):
    """Cross-entropy on batches in which only the images of one class are attacked (Entropy 2022, section 2.1).

    All images pass through the network at once and are counted as attacked.

    label: the number of the class.
    """

    class_specific: ClassVar[bool] = True
    label: Annotated[int, Ge(0), "the number of a class, 0 or more"] = 3

    def check(self, classes: int) -> None:
        """Raise UserError where the class does not exist."""
        if self.label >= classes:
            raise UserError(f"label names class {self.label}, which does not exist: the classes are 0 to {classes - 1}")

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, settings: ClassSettings, adversary: Adversary) -> LossTerms:
        """Return CE(f(x'), y), where x' is x except for the attacked images of the class."""
        rows = (y == self.label).nonzero()[:, 0]
        if len(rows):
            x = x.index_copy(0, rows, adversary.select(rows).craft(model, x[rows], y[rows]))
        logits = model(x)
        return LossTerms(F.cross_entropy(logits, y, reduction="none"), None, logits)


@dataclass(frozen=True)
class FreeAT(Objective):
    """Free adversarial training: each batch is trained on several times, and each backward pass also updates the perturbation.

    (Shafahi et al. 2019.) The perturbation takes steps as long as the radius and is kept from batch to batch; there is no inner
    attack. An epoch of a Spec is one pass over the images including the replays.

    replays: how often each batch is trained on, 1 or more.
    """

    built_in_attack: ClassVar[str] = "free"
    replays: Count = 8

    @property
    def training_passes(self) -> int:
        return self.replays

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, settings: ClassSettings, adversary: Adversary) -> LossTerms:
        """Return CE(f(x), y) of images that already carry their perturbation."""
        logits = model(x)
        return LossTerms(F.cross_entropy(logits, y, reduction="none"), None, logits)

    def step(self, model: nn.Module, x: Tensor, y: Tensor, step: TrainingStep) -> LossTerms:
        """Train on a batch `replays` times; return the terms of the last.

        The perturbation lies in the memory as "delta" and is zero before the first batch; a shorter batch uses its beginning.
        """
        ball = step.adversary.ball
        delta = step.memory.setdefault("delta", torch.zeros((step.batch, *x.shape[1:]), device=x.device))[: len(x)]
        for _ in range(self.replays):
            moved = ball.project(x + delta, x).requires_grad_()
            terms = step.update(self(model, moved, y, step.settings, step.adversary), y)
            assert moved.grad is not None
            delta.copy_(ball.project(ball.step(moved.detach(), moved.grad, step.settings.radius), x) - x)
        return terms
