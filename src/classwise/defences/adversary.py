"""The inner attack of a training step."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from classwise.attacks import Attack
from classwise.attacks.balls import Ball
from classwise.attacks.friendly import FriendlyPGD
from classwise.models.inference import Fusions, fused_in_place
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

    def at(self, rows: Tensor) -> "Adversary":
        """Return the adversary of some images of the batch."""
        return replace(self, ball=self.ball.select(rows))

    @contextmanager
    def mode(self, model: nn.Module) -> Iterator[None]:
        """Set the model to the mode of the attack for the duration of the block."""
        training = model.training
        model.train(self.batch_norm == "train")
        try:
            with fused_in_place(self.fusions if self.batch_norm == "eval" else ()):
                yield
        finally:
            model.train(training)

    def craft(self, model: nn.Module, x: Tensor, y: Tensor, truth: Tensor | None = None) -> Tensor:
        """Return the attacked batch; `y` are labels (n,), or probabilities (n, classes) and then `truth` the labels."""
        assert self.attack is not None, "the objective attacks, but the defence names no attack"
        attack = self.attack
        if isinstance(attack, FriendlyPGD):
            attack = attack.at_progress(self.progress)
        with self.mode(model):
            if isinstance(attack, FriendlyPGD) and truth is not None:
                with frozen(model), torch.no_grad():
                    return attack.friendly_search(model, x, y, truth, self.ball, self.generator)
            return attack.craft(model, x, y, self.ball, self.generator)
