"""What stays the same and what changes in a training, and what an epoch of it measured."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from classwise.attacks import Attack
from classwise.defences import Defence
from classwise.defences.averaging import Averaging, Weights
from classwise.defences.calibrations import ClassSettings, Memory
from classwise.models import inference
from classwise.models.modes import eval_mode


class Diverged(RuntimeError):
    """The loss is no longer a finite number, or a weight is too large for the precision in which it is stored."""


@dataclass(frozen=True)
class TrainConfig:
    """What stays the same in all epochs of a training: these fields, and fields of Spec with their names resolved.

    Parameters
    ----------
    attack, extra, averages
        the inner attack, if any; how many training images, the last ones, are pseudo-labelled; averages that are kept, by name.
    validation_attack, validation_radius
        measures the validation images after the epochs where something needs it; its radius, None for that of the training.
    select_by, overfitting_check
        the criterion of the best epoch, a name of `checkpoints.CRITERIA`, None to keep none; the attack that detects catastrophic
        overfitting on training images, after which the training ends with the weights of the epoch before.
    """

    defence: Defence
    attack: Attack | None
    norm: str = "linf"
    batch_norm: str = "eval"
    schedule: str = "one-cycle"
    lr: float = 0.1
    epochs: int = 24
    batch: int = 128
    milestones: tuple[int, ...] = ()
    augment: str = "none"
    precision: str = "float32"
    validation_attack: Attack | None = None
    select_by: str | None = None
    test_selected: bool = False
    keep_last: int = 1
    overfitting_check: Attack | None = None
    extra: int = 0
    optimiser: str = "sgd"
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 5e-4
    decay: str = "all"
    averages: Mapping[str, Averaging] = field(default_factory=dict)
    epoch_images: int | None = None
    select_from: float = 0.0
    select_averages_every: int = 1
    validation_radius: float | None = None

    @property
    def averagings(self) -> dict[str, Averaging]:
        """All averagings by the names of their checkpoints: that of the defence is "average"."""
        of_defence = {"average": self.defence.averaging} if self.defence.averaging.averages else {}
        return of_defence | dict(self.averages)


# The parts of a state that are saved as they are.
_PLAIN = ("averages", "memory", "kept", "scores", "epoch", "stopped", "order", "pass_sums")


@dataclass
class State:
    """What changes from epoch to epoch: everything that a training needs to resume exactly where it stopped.

    base: the settings before any calibration. radius: of the attack before any class has one of its own. averages: those that
    exist so far, by the names of TrainConfig.averagings. memory: of the calibration, or of the objective where that keeps
    something from batch to batch. kept: the weights of the checkpoints other than the last, by name. scores: by the same names,
    how good they are. stopped: why the training ended before its last epoch, "" where it did not. order: the images of the
    present permutation that no epoch has had yet (TrainConfig.epoch_images). pass_sums: what each epoch of the last full pass
    measured, by name, (epochs, classes, classes).
    """

    model: nn.Module
    optimiser: torch.optim.Optimizer
    generator: torch.Generator
    settings: ClassSettings
    base: ClassSettings
    radius: float
    averages: dict[str, Weights] = field(default_factory=dict)
    memory: Memory = field(default_factory=dict)
    kept: dict[str, Weights] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    epoch: int = 0
    stopped: str = ""
    order: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    pass_sums: dict[str, Tensor] = field(default_factory=dict)

    @cached_property
    def fusions(self) -> inference.Fusions:
        """The layers of the network that its attacks fuse."""
        with eval_mode(self.model):
            return inference.fusions(self.model)

    def state_dict(self) -> dict[str, Any]:
        """Return tensors and plain values that `torch.load(weights_only=True)` can read."""
        return {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "settings": asdict(self.settings),
            **{name: getattr(self, name) for name in _PLAIN},
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.model.load_state_dict(saved["model"])
        self.optimiser.load_state_dict(saved["optimiser"])
        self.generator.set_state(saved["generator"].cpu())
        self.settings = ClassSettings(**saved["settings"])
        for name in _PLAIN:
            setattr(self, name, saved.get(name, getattr(self, name)))  # checkpoints of earlier versions lack the last two

    def checkpoint(self, name: str) -> Weights:
        """Return the weights of a checkpoint; those of "last" where there is no average or best epoch.

        Where "best-ema" does not exist, because no epoch entered the average, "best" replaces it, and where "ema-1" does not,
        because the training stopped early, "ema".
        """
        existing = self.averages | self.kept
        names = (name, name.rpartition("-")[0])
        return next((existing[one] for one in names if one in existing), self.model.state_dict())


@dataclass(frozen=True)
class Epoch:
    """What one epoch of training measured.

    number: counts from 1. settings: those that the epoch was trained with. loss: the mean over its images. seconds: its duration
    without measurements. clean, attacked: counts[label, predicted] of the training images as the objective saw them; None where
    it did not. valid: those of the validation images after the epoch, clean and under the validation attack; None where not
    needed. taken: the names of the averages that the epoch entered.
    """

    number: int
    settings: ClassSettings
    loss: float
    seconds: float
    clean: Tensor | None
    attacked: Tensor | None
    valid: tuple[Tensor, Tensor] | None = None
    taken: tuple[str, ...] = ()

    @property
    def averaged(self) -> bool:
        """Whether the epoch entered the average of the defence."""
        return "average" in self.taken
