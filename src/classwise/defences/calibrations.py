"""Calibrations: the radius, trade-off and weights that each class is trained with, updated before each epoch.

The word is that of CFA (Wei et al. 2023, class-wise calibrated fair adversarial training): training settings are adapted to each
class. It has nothing to do with the calibration of predicted probabilities.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor

from classwise.attacks.losses import cross_entropy, margin_loss
from classwise.core.options import BelowOne, NotNegative, OneOf, Share, check_bounds

# What a calibration remembers from epoch to epoch: tensors by name, kept in the checkpoint.
Memory = dict[str, Tensor]


@dataclass(frozen=True)
class ClassSettings:
    """The settings of each class for one epoch, (classes,) each; `at(y)` gives those of each image, (n,) each.

    radius: of the attack, in units of the pixels, which lie in [0, 1]. beta: the trade-off. weight: of the first term of the
    loss, the natural one where there are two. robust: the weight of the robust term. margin: subtracted from the logit of the
    label before the logits are scaled.
    """

    radius: Tensor
    beta: Tensor
    weight: Tensor
    robust: Tensor
    margin: Tensor

    @classmethod
    def uniform(cls, classes: int, radius: float, beta: float, device: torch.device, margin: float = 0.0) -> "ClassSettings":
        """Return the same settings for all classes, with weights 1."""
        ones = torch.ones(classes, device=device)
        return cls(radius * ones, beta * ones, ones, ones.clone(), margin * ones)

    def select(self, y: Tensor) -> "ClassSettings":
        """Return the settings of each image of a batch with labels `y`."""
        return ClassSettings(**{field.name: getattr(self, field.name)[y] for field in fields(self)})


# The settings of the next epoch and the memory.
NextSettings = tuple[ClassSettings, Memory]


@dataclass(frozen=True)
class EpochStats:
    """What the last epoch measured class by class; None: not measured. Counts are counts[label, predicted].

    progress: the completed share of the training, 0 to 1. train: counts of the training images as they were trained on, attacked
    where the defence attacks. clean, attacked: counts of the validation images after the epoch. predictions: the mean softmax of
    the training images as they were trained on, predictions[label, predicted]. losses: the mean objective on the validation
    images, by class and then over all, (classes + 1,).
    """

    progress: float
    train: Tensor | None = None
    clean: Tensor | None = None
    attacked: Tensor | None = None
    predictions: Tensor | None = None
    losses: Tensor | None = None


class Calibration:
    """The base class of all calibrations: by default it changes nothing.

    needs_validation: whether it needs the counts of the validation images. needs_losses: whether it needs their losses.
    needs_predictions: whether it needs the mean softmax of the training images. normalise_weights: whether the weights of a batch
    are divided by their mean. class_specific: whether its options name classes, which a dataset may lack.
    """

    needs_validation: ClassVar[bool] = False
    needs_losses: ClassVar[bool] = False
    needs_predictions: ClassVar[bool] = False
    normalise_weights: ClassVar[bool] = False
    class_specific: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_bounds(self)

    def active_at(self, progress: float) -> bool:
        """Return whether it needs the counts of the validation images after a share `progress` of the training."""
        return self.needs_validation

    def start(self, base: ClassSettings, sizes: Tensor) -> ClassSettings:
        """Return the settings before the first epoch; `sizes` (classes,) counts the training images."""
        return base

    def __call__(self, base: ClassSettings, current: ClassSettings, memory: Memory, stats: EpochStats) -> NextSettings:
        """Return the settings of the next epoch and the memory; `base` are the settings before any calibration."""
        return current, memory

    def batch_settings(self, settings: ClassSettings, logits: Tensor, y: Tensor) -> ClassSettings:
        """Return the settings that weight a batch, given the logits (n, classes) of its images as they were trained on."""
        return settings

    def penalty(self, memory: Memory, logits: Tensor | None, y: Tensor) -> Tensor | float:
        """Return what is added to the loss of each image, (n,), given the logits of the attacked images with their gradient."""
        return 0.0


@dataclass(frozen=True)
class Uniform(Calibration):
    """The same settings for all classes in all epochs."""


def per_class_accuracy(counts: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the accuracy of each class, 0 to 1, from counts[label, predicted]: (classes,); of a class without images: 0."""
    return counts.diag().to(dtype) / counts.sum(1).clamp_min(1).to(dtype)


def class_means(values: Tensor, y: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return the mean of the values of each class in a batch, 0 without any, and how many there are: (classes,) each."""
    sizes = values.new_zeros(classes).index_add(0, y, torch.ones_like(values))
    return values.new_zeros(classes).index_add(0, y, values) / sizes.clamp_min(1), sizes


@dataclass(frozen=True)
class CFA(Calibration):
    """Class-wise calibrated fair adversarial training (Wei et al. 2023, equations 6 and 7).

    The radius of class k is (lambda1 + t_k) x radius (CCM), its trade-off (lambda2 + t_k) x beta (CCR), where t_k is the accuracy
    of the class on the attacked training images of the last epoch, each attacked within the radius of its class.

    lambda1, lambda2: the offsets, 0 or more; None leaves the radius or the trade-off as it is. calibrate_from: the share of the
    training at which it begins. 0 is "after the first epoch" as in the paper, .05 epoch 10 of 200 as in its code.
    """

    lambda1: Annotated[float | None, Ge(0)] = 0.5
    lambda2: Annotated[float | None, Ge(0)] = None
    calibrate_from: Share = 0.0

    def __call__(self, base: ClassSettings, current: ClassSettings, memory: Memory, stats: EpochStats) -> NextSettings:
        if stats.train is None or stats.progress < self.calibrate_from:
            return current, memory
        accuracy, changed = per_class_accuracy(stats.train), {}
        if self.lambda1 is not None:
            changed["radius"] = (self.lambda1 + accuracy) * base.radius
        if self.lambda2 is not None:
            changed["beta"] = (self.lambda2 + accuracy) * base.beta
        return replace(current, **changed), memory


@dataclass(frozen=True)
class FRL(Calibration):
    """Fair robust learning: classes with high validation errors get a larger weight (Xu et al. 2021; defaults of its code).

    form: "rw" weights the natural and the robust term, "rmrw" also enlarges the radius. tau: by how much the natural and the
    boundary error (natural minus robust accuracy) of a class may exceed the mean. rate: of the weights; the code halves it every
    40 epochs, and trains for 40. margin_rate: of the radius. limit: the upper bound of the sum of the multipliers of a term.
    warm_up: the share of the training without weights. It replaces the pretrained robust model that the authors start from and
    have not published; use 0 with a warm start.
    """

    needs_validation: ClassVar[bool] = True
    normalise_weights: ClassVar[bool] = True
    form: Annotated[str, OneOf(("rw", "rmrw"))] = "rw"
    tau: NotNegative = 0.1
    rate: NotNegative = 0.05
    margin_rate: NotNegative = 0.1
    limit: NotNegative = 0.5
    warm_up: Share = 0.0

    def active_at(self, progress: float) -> bool:
        return progress >= self.warm_up

    def __call__(self, base: ClassSettings, current: ClassSettings, memory: Memory, stats: EpochStats) -> NextSettings:
        if not self.active_at(stats.progress):
            return current, memory
        assert stats.clean is not None, "FRL needs the validation images"
        assert stats.attacked is not None, "FRL needs the attacked validation images"
        clean, attacked = per_class_accuracy(stats.clean), per_class_accuracy(stats.attacked)
        natural, boundary = self._excess(1 - clean), self._excess(clean - attacked)
        old = {name: memory.get(name, torch.zeros_like(base.radius)) for name in ("natural", "boundary", "margin")}
        memory = {
            "natural": self._limited(old["natural"] + self.rate * natural),
            "boundary": self._limited(old["boundary"] + 2 * self.rate * boundary),
            "margin": old["margin"] + self.margin_rate * boundary if self.form == "rmrw" else old["margin"],
        }
        wider = (2 * memory["margin"]).exp().clamp(0.98, 3.0) if self.form == "rmrw" else torch.ones_like(base.radius)
        weight, robust = self._weights(memory["natural"]), self._weights(memory["boundary"])
        return replace(current, radius=base.radius * wider, weight=weight, robust=robust), memory

    def _excess(self, error: Tensor) -> Tensor:
        """Return by how much the error of each class exceeds the mean over the classes plus tau."""
        return error - error.mean() - self.tau

    def _limited(self, multiplier: Tensor) -> Tensor:
        multiplier = multiplier.clamp_min(0)
        return multiplier * (self.limit / multiplier.sum().clamp_min(1e-12)).clamp_max(1)

    @staticmethod
    def _weights(multiplier: Tensor) -> Tensor:
        """Return 1 + C (multiplier - its mean): C times the published weights, which sum to 1."""
        return 1 + len(multiplier) * (multiplier - multiplier.mean())


@dataclass(frozen=True)
class DAFA(Calibration):
    """Distance-aware fair adversarial training: easy classes give weight and radius to similar, harder ones (Lee et al. 2024).

    S_ij is the mean probability of class j over the attacked training images of class i in the last epoch of the warm-up.
    W_i is 1 + strength x the sum over j != i of S_ij S_jj where S_ii < S_jj and of -S_ji S_ii elsewhere, at least 0. It
    multiplies the natural term, the radius and with the radius the step size, never the robust term.

    strength: lambda, 0 or more; 1 in the paper, 1.5 on CIFAR-100. warm_up: the share of the training after which W is computed,
    once: epoch 70 of 110.
    """

    needs_predictions: ClassVar[bool] = True
    strength: NotNegative = 1.0
    warm_up: Share = 0.636

    def __call__(self, base: ClassSettings, current: ClassSettings, memory: Memory, stats: EpochStats) -> NextSettings:
        if "weight" in memory or stats.predictions is None or stats.progress < self.warm_up:
            return current, memory
        weight = self.weights(stats.predictions).to(base.weight.dtype)
        return replace(current, weight=weight, radius=base.radius * weight), {"weight": weight}

    def weights(self, similarity: Tensor) -> Tensor:
        """Return W (classes,) from S (classes, classes)."""
        confidence = similarity.diag()
        harder = confidence[:, None] < confidence[None, :]
        moved = torch.where(harder, similarity * confidence[None, :], -similarity.T * confidence[:, None])
        return (1 + self.strength * (moved.sum(1) - moved.diag())).clamp_min(0)


@dataclass(frozen=True)
class WAT(Calibration):
    """Worst-class adversarial training: classes are weighted by their cumulative validation loss (Li and Liu 2023).

    Over C slots for the classes and one for all images, w = C softmax(rate x the losses summed over the epochs so far). The loss
    of an image is multiplied by the w of its class plus the last w, which weights the plain TRADES loss. A rate of 0 is thus the
    plain defence times 2 C / (C + 1), which also holds for the first epoch.

    rate: of the weights, 0 or more.
    """

    needs_losses: ClassVar[bool] = True
    rate: NotNegative = 0.1

    def start(self, base: ClassSettings, sizes: Tensor) -> ClassSettings:
        return self._weighted(base, base.radius.new_zeros(len(sizes) + 1))

    def __call__(self, base: ClassSettings, current: ClassSettings, memory: Memory, stats: EpochStats) -> NextSettings:
        if stats.losses is None:
            return current, memory
        piled = memory.get("piled", torch.zeros_like(stats.losses)) + stats.losses
        return self._weighted(current, piled), {"piled": piled}

    def _weighted(self, settings: ClassSettings, piled: Tensor) -> ClassSettings:
        slots = (len(piled) - 1) * (self.rate * piled).softmax(0)
        weight = slots[:-1] + slots[-1]
        return replace(settings, weight=weight, robust=weight)


@dataclass(frozen=True)
class FAAL(Calibration):
    """Fairness-aware adversarial learning: each batch is weighted for the worst distribution of its classes (Zhang et al. 2024).

    The idea is theirs, this form ours. m_k is the mean margin of the attacked images of class k in the batch, the logit of the
    label minus the highest other one. The weights of the P classes present maximise -sum w_k m_k over the distributions whose KL
    divergence from the uniform one is at most `distance`; the loss of an image is multiplied by P w. The authors use a convex
    solver; the solution is w ~ exp(-b m), so that a search over the number b suffices. It is meant for two epochs of fine-tuning
    a robust run: warm_start=its id, epochs=2, lr=.01, schedule="step", milestones=(2,). The weights change from batch to batch
    and are not in the history.

    distance: the radius of the KL ball, 0 or more.
    """

    distance: NotNegative = 0.5

    def batch_settings(self, settings: ClassSettings, logits: Tensor, y: Tensor) -> ClassSettings:
        if self.distance == 0:
            return settings
        mean, sizes = class_means(margin_loss(logits, y), y, logits.shape[1])
        weight = (sizes > 0).sum() * worst_mixture(mean, sizes > 0, self.distance)[y]
        return replace(settings, weight=settings.weight * weight, robust=settings.robust * weight)


# The range of log(b x spread of the costs), and the points and rounds of the search within it.
_RANGE, _POINTS, _ROUNDS = (-7.0, 14.0), 33, 4


def worst_mixture(costs: Tensor, present: Tensor, distance: float) -> Tensor:
    """Return the weights w (classes,) of highest mean cost among those with KL(w || uniform over `present`) <= distance.

    w ~ exp(b x costs), whose divergence rises with b. The relative error of b is about 1e-5, and the search does not synchronise
    with the device. Where the most expensive class alone lies within the distance, it takes nearly all the weight.
    """
    below = torch.where(present, costs - costs.masked_fill(~present, -math.inf).max(), 0.0)
    spread = (-below).max().clamp_min(torch.finfo(costs.dtype).tiny)
    relative = torch.where(present, below / spread, -math.inf)
    uniform = present.sum().to(costs.dtype).log()
    steps = torch.linspace(0, 1, _POINTS, dtype=costs.dtype, device=costs.device)
    low, high = (torch.full_like(costs[:1], end) for end in _RANGE)
    for _ in range(_ROUNDS):
        points = low + (high - low) * steps
        mixed = (points.exp()[:, None] * relative).softmax(1)
        divergence = uniform + torch.xlogy(mixed, mixed).sum(1)
        last = ((divergence <= distance).sum() - 1).clamp(0, _POINTS - 2).view(1)
        low, high = points.gather(0, last), points.gather(0, last + 1)
    return (low.exp() * relative).softmax(0)


@dataclass(frozen=True)
class CODAT(Calibration):
    """Class optimal distribution adversarial training: each batch is weighted for its worst mixture of classes (Zhi et al. 2025).

    Over the weights w of the P classes present within the chi-square ball P sum (w_c - 1/P)^2 <= rho, the highest sum w_c l_c of
    the mean cross-entropies l_c of their attacked images is mean(l) + sqrt(rho) sd(l), at w_c = (1 + sqrt(rho) (l_c - mean) / sd)
    / P. The loss of an image is multiplied by n w_c / n_c, so that the mean over the n images of the batch, n_c of them of its
    class, is that sum. The idea and the ball are theirs; the formulas are derived here, since their abstract prints none. A
    negative w_c, which needs a rho above 1 / (P - 1), is set to 0 and the others are divided by their sum (ours).
    The weights are not in the history.

    rho: the squared radius of the ball, 0 or more; 0 weights the classes of a batch alike, whatever their sizes.
    """

    rho: NotNegative = 0.2

    def batch_settings(self, settings: ClassSettings, logits: Tensor, y: Tensor) -> ClassSettings:
        loss, sizes = class_means(cross_entropy(logits, y), y, logits.shape[1])
        present = (sizes > 0).to(loss)
        above = present * (loss - loss.sum() / present.sum())
        deviation = (above.square().sum() / present.sum()).sqrt().clamp_min(torch.finfo(loss.dtype).tiny)
        weight = present * (1 + math.sqrt(self.rho) * above / deviation).clamp_min(0)
        weight = len(y) * (weight / weight.sum() / sizes.clamp_min(1))[y]
        return replace(settings, weight=settings.weight * weight, robust=settings.robust * weight)


@dataclass(frozen=True)
class CSR(Calibration):
    """Confusional spectral regularisation: two epochs of fine-tuning a robust run by TRADES (Jin et al. 2025).

    G = u v^T is the outer product of the first singular vectors of the counts C[predicted, label] of attacked images that were
    misclassified, moved to [.01, 2.01]. With w = G[prediction of x', y], the loss is (1 - spectral) CE(x, y) + beta KL(p || p')
    + spectral KL(w e_y || p'), as in their code. They count training images before each epoch, after lowering the logit of the
    label by a tenth. Ours counts the validation images, which are attacked at the same points of a training and have mistakes as
    they are. Both vectors of a matrix of counts are 0 or more (Perron), whatever their sign as computed.

    spectral: the share of the third term, 0 or more and below 1.
    """

    needs_validation: ClassVar[bool] = True
    spectral: BelowOne = 0.3

    def start(self, base: ClassSettings, sizes: Tensor) -> ClassSettings:
        return replace(base, weight=(1 - self.spectral) * base.weight)

    def __call__(self, base: ClassSettings, current: ClassSettings, memory: Memory, stats: EpochStats) -> NextSettings:
        assert stats.attacked is not None, "CSR needs the attacked validation images"
        left, _, right = torch.linalg.svd(stats.attacked.float().fill_diagonal_(0))
        pattern = (left[:, :1] * right[:1]).abs()
        low, high = pattern.aminmax()
        return current, {"confusion": 0.01 + 2 * (pattern - low) / (high - low).clamp_min(1e-9)}

    def penalty(self, memory: Memory, logits: Tensor | None, y: Tensor) -> Tensor:
        assert logits is not None, "CSR needs an objective that attacks"
        weight = memory["confusion"][y, logits.argmax(1)]
        return self.spectral * weight * (weight.log() + cross_entropy(logits, y))
