"""The history of a training, epoch by epoch."""

from collections.abc import Mapping

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

from classwise import attacks, defences
from classwise.attacks import evaluate
from classwise.attacks.balls import BALLS
from classwise.core.identity import radius_value
from classwise.core.results import SPLITS
from classwise.core.spec import Spec
from classwise.defences.objectives import entropy
from classwise.defences.training import Epoch
from classwise.images import Images
from classwise.runs.compute import to_xarray, validate

_SETTINGS = ("radius", "beta", "weight", "robust")


class Recorder:
    """The history of one training, recorded epoch by epoch.

    Training images are counted as the objective saw them, at no extra cost. Valid and test are measured, clean and under the
    probe, after the first epoch, the last, and every `spec.measure` epochs; valid also under the validation attack after the
    epochs in which training measured it. All counts are of the trained network, by the logits of its loss, and so is the entropy
    of its predictions where it measures them itself.
    """

    def __init__(self, spec: Spec, classes: tuple[str, ...]) -> None:
        defence = defences.build(spec.defence, spec.options)
        named = spec.attack or defence.attack or defence.objective.built_in_attack
        self.objective = defence.objective
        self.validation_attack = validate.validation_attack(spec) or spec.probe
        # An attack with other options is another attack; the probe has none.
        self.inner = " ".join([named, *(f"{name}={value}" for name, value in sorted(spec.attack_options.items()))])
        self.spec, self.classes = spec, classes
        self.attacks = list(dict.fromkeys(["clean", spec.probe, self.validation_attack, self.inner]))
        size, epochs = len(classes), spec.epochs
        self.count = torch.zeros((epochs, len(SPLITS), len(self.attacks), size, size), dtype=torch.int32)
        self.uncertainty = torch.full(self.count.shape[:-1], torch.nan)
        self.settings = {name: torch.full((epochs, size), torch.nan) for name in _SETTINGS}
        self.scalars = {name: torch.full((epochs,), torch.nan, dtype=torch.float64) for name in ("loss", "seconds")}
        self.averaged = torch.zeros(epochs, dtype=torch.bool)
        self.taken = torch.zeros((epochs, len(spec.averages)), dtype=torch.bool)

    def _put(self, epoch: int, split: str, attack: str, count: Tensor) -> None:
        self.count[epoch - 1, SPLITS.index(split), self.attacks.index(attack)] = count.cpu().int()

    def add(self, epoch: Epoch) -> None:
        """Record what an epoch of training measured."""
        for attack, count in (("clean", epoch.clean), (self.inner, epoch.attacked)):
            if count is not None:
                self._put(epoch.number, "train", attack, count)
        for name, table in self.settings.items():
            table[epoch.number - 1] = getattr(epoch.settings, name).cpu()
        for name, column in self.scalars.items():
            column[epoch.number - 1] = getattr(epoch, name)
        self.averaged[epoch.number - 1] = epoch.averaged
        self.taken[epoch.number - 1] = torch.tensor([name in epoch.taken for name in self.spec.averages], dtype=torch.bool)
        for attack, count in zip(("clean", self.validation_attack), epoch.valid or (), strict=False):
            self._put(epoch.number, "valid", attack, count)

    def due(self, epoch: int) -> bool:
        """Return whether valid and test are measured after this epoch."""
        return epoch in (1, self.spec.epochs) or epoch % self.spec.measure == 0

    def measure(self, epoch: int, model: nn.Module, data: Mapping[str, Images]) -> None:
        """Count the predictions of the model on valid and test, clean and under the probe."""
        ball, network = BALLS[self.spec.norm](radius_value(self.spec.measured_eps)), self.objective.scaled_model(model)
        for split in ("valid", "test"):
            for attack in dict.fromkeys(("clean", self.spec.probe)):
                if self.count[epoch - 1, SPLITS.index(split), self.attacks.index(attack)].any():
                    continue  # measured by the training
                # The search may use the precision of the training; predictions are in float32.
                settings = evaluate.EvaluationSettings(seed=epoch, precision=self.spec.precision)
                result = evaluate.evaluate(network, data[split], attacks.build(attack), ball, settings)
                self._put(epoch, split, attack, evaluate.confusion_counts(result.truth, result.answer, len(self.classes)))
                place = epoch - 1, SPLITS.index(split), self.attacks.index(attack)
                self.uncertainty[place] = _class_entropy(result, len(self.classes))

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything recorded so far, as tensors by name."""
        taken = {"taken": self.taken} if self.spec.averages else {}
        return {
            "count": self.count,
            "uncertainty": self.uncertainty,
            **self.settings,
            "averaged": self.averaged,
            **taken,
            **self.scalars,
        }

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self.count, self.averaged = saved["count"].cpu(), saved["averaged"].cpu()
        self.uncertainty = saved["uncertainty"].cpu()
        self.taken = saved["taken"].cpu() if self.spec.averages else self.taken
        for table in (self.settings, self.scalars):
            for name in table:
                table[name] = saved[name].cpu()

    def dataset(self, attrs: Mapping[str, str]) -> xr.Dataset:
        """Return the history as a dataset of the schema in `core.results`."""
        coords = {
            "epoch": np.arange(1, self.spec.epochs + 1),
            "split": list(SPLITS),
            "attack": self.attacks,
            "label": list(self.classes),
            "predicted": list(self.classes),
        }
        if self.spec.averages:
            coords["average"] = list(self.spec.averages)
        return to_xarray.labelled("history 1", self.state_dict(), coords, attrs)


def _class_entropy(result: evaluate.Outcomes, classes: int) -> Tensor:
    """Return the mean entropy of the predictions for the images of each class, in nats: (classes,), NaN without images."""
    total = torch.zeros(classes, device=result.truth.device).index_add_(0, result.truth, entropy(result.logits))
    return (total / result.truth.bincount(minlength=classes)).cpu()
