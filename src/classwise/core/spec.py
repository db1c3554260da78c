"""A Spec decides a training, an Evaluation decides a question put to it: plain values, checked at the door, with an id.

Names of datasets, models, attacks and defences are checked by `run`, which knows the tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import Protocol

from classwise.core.errors import UserError, unknown
from classwise.core.identity import NORMS, Identified, Scalar, at_least, check_types, radius

READOUTS = ("logits", "cosines")
# The checkpoints whose evaluations the mean over the last five epochs is taken of; a run keeps them with keep_last=5.
LAST5 = ("last", "last-1", "last-2", "last-3", "last-4")


class Attacked(Protocol):
    """What has a radius of its own."""

    @property
    def eps(self) -> str: ...
    @property
    def norm(self) -> str: ...


@dataclass(frozen=True, kw_only=True, eq=True, unsafe_hash=False)
class Spec(Identified):
    """A training.

    dataset, model, defence, attack, probe: names of the tables in images, models, defences and attacks.
    classes: the classes that are trained on, () for all. options: of the defence. eps: the radius of the inner attack and of
    the probe, in pixels of 0 to 1, with its norm. attack: the inner attack, None for the defence's own; batch_norm: its mode,
    "eval" or "train". probe: the attack that measures valid and test, after every `measure` epochs, the first and the last.
    lr, momentum, weight_decay, schedule, epochs, batch: of the optimiser. seed: of the split, the weights and the training.
    milestones: for schedule="step", the epochs, counted from 1, from which on the rate is a tenth; () for a half and 3/4.
    nesterov: whether the momentum of "sgd" is Nesterov's. decay: "all", or "weights" to leave biases and norms undecayed.
    augment: how training images vary. precision: "bfloat16" lets the network run in it while it trains; verdicts never do.
    select: the attack that measures valid after every epoch, None for the defence's own (often none); with it the "best" epoch
    is kept, by robust accuracy: select_by="average", "worst" (class) or their "sum". test_selected: keep in the same way, as
    "test-selected", the epoch that looks best on the test images: only to compare with papers that did so. keep_last: of how many
    last epochs the weights are kept, "last", "last-1", ... head: "linear" or "cosine", None for the defence's own. layer: "batch"
    norm or "batch-instance". warm_start: the id of a finished run of the same network, whose weights the training begins with.
    extra: a folder of pseudo-labelled images (`images.extra`) that fill half of each batch (RST); train counts include them.
    redraw: how often the weights and the order of the batches are drawn anew for the same split: what two such runs differ in is
    the luck of training alone.
    """

    dataset: str
    eps: str
    seed: int = 0
    defence: str = "pgd-at"
    options: Mapping[str, Scalar] = field(default_factory=dict)
    model: str = "small-cnn"
    width: int = 16
    classes: tuple[str, ...] = ()
    norm: str = "linf"
    attack: str | None = None
    attack_options: Mapping[str, Scalar] = field(default_factory=dict)
    batch_norm: str = "eval"
    probe: str = "pgd-10"
    measure: int = 1
    optimiser: str = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    schedule: str = "one-cycle"
    epochs: int = 24
    batch: int = 128
    milestones: tuple[int, ...] = ()
    nesterov: bool = True
    decay: str = "all"
    augment: str = "none"
    precision: str = "float32"
    select: str | None = None
    select_by: str = "sum"
    test_selected: bool = False
    keep_last: int = 1
    head: str | None = None
    layer: str = "batch"
    warm_start: str | None = None
    extra: str | None = None
    redraw: int = 0

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise unknown("norm", self.norm, NORMS)
        object.__setattr__(self, "eps", radius(self.eps, self.norm))
        check_types(self, "a run")
        if not self.momentum < 1:
            raise UserError(f"a run: momentum must be below 1, got {self.momentum}")
        least = {"width": 1, "measure": 1, "lr": 0, "momentum": 0, "weight_decay": 0, "epochs": 1, "batch": 2, "seed": 0}
        at_least(self, "a run", **least, keep_last=1, redraw=0)
        if any(low >= high for low, high in pairwise((0, *self.milestones))):
            raise UserError(f"a run: milestones are epochs counted from 1, in rising order, got {self.milestones}")
        if self.milestones and self.schedule != "step":
            raise UserError(f"a run: milestones belong to schedule='step', got {self.schedule!r}")
        if self.test_selected and self.select is None:
            raise UserError("a run: test_selected needs the attack that selects; set select='pgd-10'")
        if self.keep_last > self.epochs:
            raise UserError(f"a run: keep_last={self.keep_last} is more than its {self.epochs} epochs")

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return f"{self.defence}-{self.id}"

    @property
    def luck(self) -> int:
        """The seed of the weights and of the training: that of the split, unless they are drawn anew."""
        return self.seed + 100_003 * self.redraw

    def substitute(self, defence: str) -> "Spec":
        """Return the same training with another defence as it comes, whose network transfer attacks are made on."""
        return replace(self, defence=defence, options={}, attack=None, attack_options={})

    __hash__ = Identified.__hash__


@dataclass(frozen=True, kw_only=True, eq=True, unsafe_hash=False)
class Evaluation(Identified):
    """A question put to a trained run.

    attack, options: the attack and what is changed in it. eps, norm: its radius; None for that of the run. split: "train",
    "valid" or "test". per_class: how many images of each class, None for all. seed: of the attack and of the choice of images.
    checkpoint: which weights: "last"; "best" (chosen on valid); "average" (EMA, FAWA); "last-1", "last-2", ... epochs before the
    last; "test-selected". The papers' mean over the last five epochs is the mean over the checkpoints LAST5 of what is asked of
    each. readout: "logits" are what the loss reads, "cosines" those of a cosine head without their scale (HE, as published).
    substitute: a defence; the images are attacked on the network that it trains, all else being as in the run, and then shown to
    the run's own (a transfer attack; Tian 2021, section 4.3). precision: "bfloat16" lets the network run in it while a
    sign-gradient attack searches; the verdict is always float32. batch: how many images are attacked at a time, which decides the
    randomness of each and how finely a long attack can be cut short and resumed. transform: how the images are changed before
    they are attacked, a name of `images.TRANSFORMS` like "fog-3"; what is random in it follows `seed`.
    """

    attack: str = "clean"
    options: Mapping[str, Scalar] = field(default_factory=dict)
    eps: str | None = None
    norm: str | None = None
    split: str = "test"
    per_class: int | None = None
    checkpoint: str = "last"
    seed: int = 0
    substitute: str | None = None
    precision: str = "float32"
    readout: str = "logits"
    batch: int = 500
    transform: str = "none"

    def __post_init__(self) -> None:
        if self.norm is not None and self.norm not in NORMS:
            raise unknown("norm", self.norm, NORMS)
        if self.eps is not None:
            # Without a norm of its own, the range is checked when the norm of the run is known.
            object.__setattr__(self, "eps", radius(self.eps, self.norm or "l2", "eval_eps"))
        check_types(self, "an evaluation")
        at_least(self, "an evaluation", per_class=1, seed=0, batch=1)

    def of(self, spec: Attacked) -> "Evaluation":
        """Return the evaluation with the run's own radius and norm where it states none."""
        norm = self.norm or spec.norm
        return replace(self, eps=spec.eps if self.eps is None else radius(self.eps, norm, "eval_eps"), norm=norm)

    def grid(self, **options: Sequence[Scalar]) -> "tuple[Evaluation, ...]":
        """Return an evaluation for each combination of the given values of the attack's options."""
        mixes = (dict(zip(options, values, strict=True)) for values in product(*options.values()))
        return tuple(replace(self, options={**self.options, **mix}) for mix in mixes)

    @property
    def name(self) -> str:
        """The name of the file that keeps its outcomes, without the ending."""
        return f"{self.attack}-{self.id}"

    __hash__ = Identified.__hash__
