"""A Spec defines a training, an Evaluation how a trained network is evaluated: plain values, checked on input, with an id.

Names of datasets, models, attacks and defences are checked by `runs`, which knows their tables.
"""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise, product
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from classwise.core.errors import UserError, check_known, check_once
from classwise.core.identity import NORMS, Identified, Scalar, exact_radius, radius_text
from classwise.core.options import BelowOne, Count, NotNegative, OneOf, Seed, Share, check_fields

READOUTS = ("logits", "cosines")
# What training images can be rebuilt to (Spec.rebuilt).
REBUILT = ("none", "features", "next", "random")
# The checkpoints of the last five epochs, over whose evaluations papers average; a run keeps them with keep_last=5.
LAST5 = ("last", "last-1", "last-2", "last-3", "last-4")


class Subject(Identified, ABC):
    """Base of what evaluations are computed for: a training (Spec), or weights of another origin (Audit).

    A subclass is a frozen dataclass with at least these fields. `runs.compute.validate.images_of` returns its images, and
    `runs.compute.networks.network_of` its network.
    """

    dataset: str
    eps: str
    norm: str
    # Fields that are always dimensions of a combined Dataset; the first one names the owner of the other settings.
    dimensions: ClassVar[tuple[str, ...]]
    # Fields that are dimensions only if they vary for the same owner; None for all but `dimensions`.
    owned_fields: ClassVar[frozenset[str] | None] = None

    @property
    def name(self) -> str:
        """Name of the folder of its results."""
        return f"{getattr(self, self.dimensions[0])}-{self.id}"

    @property
    def title(self) -> str:
        """The dataset as sentences name it."""
        return self.dataset

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes that it is restricted to; () for all."""
        return ()

    @property
    @abstractmethod
    def folder(self) -> str:
        """Folder of its results, below the data folder or absolute."""

    @property
    @abstractmethod
    def recorded_folder(self) -> str:
        """Folder of results that were computed elsewhere, below the data folder."""

    @property
    def weights_digest(self) -> str:
        """The sha256 of weights that were not trained here; "" otherwise."""
        return ""

    def evaluation_of(self, **changed: Any) -> "Evaluation":
        """Return an evaluation with its default settings, with some fields changed."""
        return Evaluation(**changed)

    def substitute(self, defence: str) -> "Spec":
        """Return the training whose network transfer attacks are made on; a UserError if it is unknown."""
        raise UserError(f"{self.name} was not trained here: transfer attacks from {defence!r} need the settings of its training")


@dataclass(frozen=True, kw_only=True, eq=True, unsafe_hash=False)
class Spec(Subject):
    """A training.

    Parameters
    ----------
    dataset
        name of the images, one of `core.datasets.DATASETS` or "folder:PATH".
    model
        name of the architecture, one of `models.MODELS`, or "module:function".
    defence
        name of the training method, one of `defences.DEFENCES`.
    eps
        radius of the inner attack, for pixels from 0 to 1: 0.2 or "8/255"; also of the measurements, but for probe_eps.
    norm
        norm in which that radius is measured, "linf" or "l2".
    seed
        of the split, the initial weights and the training.
    options
        of the defence.
    width
        channels of the first stage of the network.
    classes
        the classes to train on; () for all.
    attack
        the inner attack, with attack_options; None for the defence's default.
    batch_norm
        mode of the network during the inner attack, "eval" or "train".
    probe
        the attack that measures valid and test after every `measure` epochs, the first and the last.
    optimiser
        the rule that updates the weights, such as "sgd".
    lr
        the learning rate; the highest one of the schedule.
    momentum
        share of the last update that the next one keeps (sgd).
    weight_decay
        factor of the L2 penalty on the weights.
    schedule
        how the learning rate changes over the epochs, such as "one-cycle", "step" or "constant".
    epochs
        number of passes over the training images.
    batch
        number of training images in an update.
    milestones
        for schedule="step", the epochs, counted from 1, from which the rate is divided by ten; () for 1/2 and 3/4.
    nesterov
        whether the momentum of "sgd" is Nesterov's.
    decay
        "all", or "weights" to exempt biases and norms from weight decay.
    augment
        how training images are augmented.
    precision
        "bfloat16" for the forward passes of the training; predictions are always evaluated in float32.
    select
        the attack that measures valid after every epoch to keep the "best" one; None for the defence's default (often none).
    select_by
        robust accuracy to select by, "average", "worst" (class), their "sum" or "sum-fifth", with the worst fifth of the classes.
    test_selected
        also keep, as "test-selected", the best epoch on the test images; only to compare with papers that did so.
    keep_last
        for how many final epochs to keep the weights: "last", "last-1", ...
    averages
        names of `defences.averaging.AVERAGINGS`: averages of the weights that are kept as checkpoints, "ema" and "fawa", and do
        not influence the training. With keep_last also "ema-1", ..., with select also "best-ema" (selected by its own
        measurements of valid). "fawa" measures valid after every epoch from a quarter of the training on, by `select` or the
        attack of the defence; that costs nothing more where the probe is the same attack and measure=1. Of more than a hundred
        classes its gate takes the worst fifth.
    head
        "linear" or "cosine"; None for the defence's default.
    layer
        normalisation, "batch" or "batch-instance".
    warm_start
        id of a finished run of the same network whose weights initialise this one.
    extra
        a folder of pseudo-labelled images that fill half of each batch (RST); training counts include them.
    redraw
        number of the initialisation and batch order for the same split; runs that differ in it alone show seed noise.
    probe_eps
        radius at which valid and test are attacked during the training, by the probe, by `select` and for the gate of "fawa" and
        the calibrations that read these measurements; None, also where it is given as the same radius, for `eps`. Runs of several
        radii are compared epoch by epoch at one.
    train_per_class
        number of training images of each class, drawn by the seed; None for all.
    rebuilt
        what the training images are replaced by, made with the network that `images_by` trains (Ilyas et al. 2019): "none";
        "features", images that start from another training image and get the penultimate features of the image, with its label
        (the robust and the non-robust dataset); "random" and "next", images perturbed within `eps` towards a class that becomes
        their label, drawn at random or the one after that of the image (D_rand and D_det). Valid and test images stay.
    epoch_images
        number of training images of an epoch, the next ones of one random permutation of all, which another follows; None for all
        images once. Calibrations take the accuracy on training images over the epochs of the last full pass.
    select_from, select_averages_every
        the share of the training before which no epoch is selected; after how many epochs the best ones of `averages` are.
    renewed
        also keep each average with the statistics of batch norm estimated again, on attacked training images: "ema-renewed".
    half
        weights are rounded to half precision once, before anything is evaluated; statistics of batch norm are not.
    images_by
        a defence; the network that it trains makes the rebuilt images. All else is as in this run, the seed too, so that it has
        seen none of the test images, and `attack` and `attack_options`, where the defence of this run attacks nothing.
    """

    dataset: str
    eps: str
    seed: Seed = 0
    defence: str = "pgd-at"
    options: Mapping[str, Scalar] = field(default_factory=dict)
    model: str = "small-cnn"
    width: Count = 16
    classes: tuple[str, ...] = ()
    norm: str = "linf"
    attack: str | None = None
    attack_options: Mapping[str, Scalar] = field(default_factory=dict)
    batch_norm: str = "eval"
    probe: str = "pgd-10"
    measure: Count = 1
    optimiser: str = "sgd"
    lr: NotNegative = 0.1
    momentum: BelowOne = 0.9
    weight_decay: NotNegative = 5e-4
    schedule: str = "one-cycle"
    epochs: Count = 24
    batch: Annotated[int, Ge(2)] = 128
    milestones: tuple[int, ...] = ()
    nesterov: bool = True
    decay: str = "all"
    augment: str = "none"
    precision: str = "float32"
    select: str | None = None
    select_by: str = "sum"
    test_selected: bool = False
    keep_last: Count = 1
    head: str | None = None
    layer: str = "batch"
    warm_start: str | None = None
    extra: str | None = None
    redraw: Seed = 0
    averages: tuple[str, ...] = ()
    probe_eps: str | None = None
    train_per_class: Annotated[int | None, Ge(1)] = None
    rebuilt: Annotated[str, OneOf(REBUILT)] = "none"
    images_by: str | None = None
    epoch_images: Annotated[int | None, Ge(1)] = None
    select_from: Share = 0.0
    select_averages_every: Count = 1
    renewed: bool = False
    half: bool = False

    dimensions: ClassVar[tuple[str, ...]] = ("defence", "seed")
    owned_fields: ClassVar[frozenset[str]] = frozenset(
        {"attack", "averages", "batch_norm", "epoch_images", "epochs", "lr", "measure", "milestones", "renewed", "schedule"}
        | {"weight_decay"}
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", radius_text(self.eps, self.norm))
        if self.probe_eps is not None:
            written = radius_text(self.probe_eps, self.norm, "probe_eps")
            object.__setattr__(self, "probe_eps", None if exact_radius(written) == exact_radius(self.eps) else written)
        check_fields(self, "a run")
        if any(low >= high for low, high in pairwise((0, *self.milestones))):
            raise UserError(f"a run: milestones are epochs counted from 1, in rising order, got {self.milestones}")
        if self.milestones and self.schedule != "step":
            raise UserError(f"a run: milestones belong to schedule='step', got {self.schedule!r}")
        if self.test_selected and self.select is None:
            raise UserError("a run: test_selected needs the attack that selects; set select='pgd-10'")
        check_once("averages", self.averages)
        object.__setattr__(self, "averages", tuple(sorted(self.averages)))
        object.__setattr__(self, "renewed", self.renewed and bool(self.averages))
        if self.keep_last > self.epochs:
            raise UserError(f"a run: keep_last={self.keep_last} is more than its {self.epochs} epochs")
        if self.epoch_images is not None and self.measure > self.epochs:
            raise UserError(f"a run: measure={self.measure} is beyond the end of its {self.epochs} epochs")
        if self.averages and self.select_averages_every > self.epochs:
            what = f"select_averages_every={self.select_averages_every}"
            raise UserError(f"a run: {what} is beyond the end of its {self.epochs} epochs")
        if self.rebuilt == "none" and self.images_by is not None:
            raise UserError(f"a run: images_by={self.images_by!r} rebuilds nothing: add rebuilt='features', or leave it out")
        if self.rebuilt != "none" and self.images_by is None:
            needed = "the defence whose network makes the images, such as images_by='pgd-at'"
            raise UserError(f"a run: rebuilt={self.rebuilt!r} needs images_by, {needed}")
        if self.rebuilt != "none" and self.extra is not None:
            raise UserError(f"a run: extra images are not rebuilt: leave extra or rebuilt={self.rebuilt!r} out")

    @property
    def relative_path(self) -> str:
        """Path of the run in data/runs/ or data/recorded/: dataset/model/defence-id, each of plain characters.

        A dataset or model with other characters in its name, such as a path, is shortened to its first and last plain words and
        eight digits of a hash.
        """
        return "/".join(map(_plain, (self.dataset, self.model, self.name)))

    @property
    def folder(self) -> str:
        return f"runs/{self.relative_path}"

    @property
    def recorded_folder(self) -> str:
        return f"recorded/{self.relative_path}"

    @property
    def measured_eps(self) -> str:
        """The radius at which valid and test are attacked during the training."""
        return self.eps if self.probe_eps is None else self.probe_eps

    @property
    def training_seed(self) -> int:
        """Seed of the initialisation and the batch order: that of the split, unless `redraw` gives another."""
        return self.seed + 100_003 * self.redraw

    @property
    def image_source(self) -> "Spec | None":
        """The training whose network makes the rebuilt training images; None where they are not rebuilt."""
        if self.images_by is None:
            return None
        return replace(self, defence=self.images_by, options={}, rebuilt="none", images_by=None, train_per_class=None)

    def substitute(self, defence: str) -> "Spec":
        """Return the same training with another defence at its defaults, the source network of transfer attacks.

        Its averages are left out: only its last weights are used.
        """
        return replace(self, defence=defence, options={}, attack=None, attack_options={}, averages=())

    __hash__ = Identified.__hash__


def _plain(name: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9@._+-]*", name):
        return name
    words = re.findall(r"[A-Za-z0-9]+", re.sub(r"\?.*", "", name))
    return "-".join([*dict.fromkeys([*words[:1], *words[-1:]]), hashlib.sha256(name.encode()).hexdigest()[:8]])


@dataclass(frozen=True, kw_only=True, eq=True, unsafe_hash=False)
class Evaluation(Identified):
    """An evaluation of a trained network.

    Parameters
    ----------
    attack, options
        the attack, and the options in which it differs from its table.
    eps
        radius of the attack; None for that of the run.
    norm
        norm of that radius; None for that of the run.
    split
        "train", "valid" or "test".
    per_class
        number of images of each class; None for all.
    checkpoint
        "last"; "best" (selected on valid); "average" (of a defence that averages); "last-1", "last-2", ... epochs before the
        last; "test-selected"; of a run with averages also "ema", "ema-1", "best-ema", ... The papers' mean over the last five
        epochs is the mean over LAST5.
    seed
        of the attack and of the choice of images.
    substitute
        a defence; the attack is made on the network that it trains, all else as in the run, and transferred to the
        network of the run (Tian 2021, section 4.3).
    precision
        "bfloat16" for the search of sign-gradient attacks; predictions are always evaluated in float32.
    readout
        "logits", as the loss reads them, or "cosines", those of a cosine head without their scale (HE, as published).
    batch
        number of images attacked at a time, which determines their random draws and how finely an attack can be resumed.
    transform
        a name of `images.TRANSFORMS` such as "fog-3", applied before the attack; its random draws follow `seed`.
    classes
        the classes whose images are evaluated, by the network of all; () for all.
    """

    attack: str = "clean"
    options: Mapping[str, Scalar] = field(default_factory=dict)
    eps: str | None = None
    norm: str | None = None
    split: str = "test"
    per_class: Annotated[int | None, Ge(1)] = None
    checkpoint: str = "last"
    seed: Seed = 0
    substitute: str | None = None
    precision: str = "float32"
    readout: str = "logits"
    batch: Count = 500
    transform: str = "none"
    classes: tuple[str, ...] = ()

    dimensions: ClassVar[tuple[str, ...]] = ("attack",)
    owned_fields: ClassVar[frozenset[str]] = frozenset({"batch", "classes", "per_class"})

    def __post_init__(self) -> None:
        check_known("norm", [] if self.norm is None else [self.norm], NORMS)
        if self.eps is not None:
            # Without a norm, the range is checked once the norm of the run is known.
            object.__setattr__(self, "eps", radius_text(self.eps, self.norm or "l2", "eval_eps"))
        check_fields(self, "an evaluation")

    def resolve_for(self, subject: Subject) -> "Evaluation":
        """Return the evaluation with the radius and norm of the subject where it has none."""
        return _resolved(self, subject.eps if self.eps is None else self.eps, self.norm or subject.norm)

    def grid(self, **options: Sequence[Scalar]) -> "tuple[Evaluation, ...]":
        """Return an evaluation for each combination of the given values of the attack's options."""
        combinations = (dict(zip(options, values, strict=True)) for values in product(*options.values()))
        return tuple(replace(self, options={**self.options, **combination}) for combination in combinations)

    @property
    def name(self) -> str:
        """Name of the file of its outcomes, without the suffix."""
        return f"{self.attack}-{self.id}"

    __hash__ = Identified.__hash__


@cache  # the runs of a study share a few evaluations
def _resolved(evaluation: Evaluation, eps: str, norm: str) -> Evaluation:
    return replace(evaluation, eps=eps if evaluation.eps is None else radius_text(eps, norm, "eval_eps"), norm=norm)
