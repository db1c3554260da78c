"""The history of a training, epoch by epoch."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import nn

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

_SETTINGS, _SCALARS = ("radius", "beta", "weight", "robust"), ("loss", "seconds")


class EpochMeasurements:
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
        count = torch.zeros((epochs, len(SPLITS), len(self.attacks), size, size), dtype=torch.int32)
        self.values = {"count": count, "uncertainty": torch.full(count.shape[:-1], torch.nan)}
        self.values |= {name: torch.full((epochs, size), torch.nan) for name in _SETTINGS}
        self.values["averaged"] = torch.zeros(epochs, dtype=torch.bool)
        if spec.averages:
            self.values["taken"] = torch.zeros((epochs, len(spec.averages)), dtype=torch.bool)
        self.values |= {name: torch.full((epochs,), torch.nan, dtype=torch.float64) for name in _SCALARS}

    def _place(self, epoch: int, split: str, attack: str) -> tuple[int, int, int]:
        return epoch - 1, SPLITS.index(split), self.attacks.index(attack)

    def add(self, epoch: Epoch) -> None:
        """Record what an epoch of training measured."""
        counts = [("train", "clean", epoch.clean), ("train", self.inner, epoch.attacked)]
        counts += [("valid", *of) for of in zip(("clean", self.validation_attack), epoch.valid or (), strict=False)]
        for split, attack, count in counts:
            if count is not None:
                self.values["count"][self._place(epoch.number, split, attack)] = count.cpu().int()
        measured: dict[str, Any] = {name: getattr(epoch.settings, name).cpu() for name in _SETTINGS}
        measured |= {name: getattr(epoch, name) for name in ("averaged", *_SCALARS)}
        if self.spec.averages:
            measured["taken"] = torch.tensor([name in epoch.taken for name in self.spec.averages])
        for name, value in measured.items():
            self.values[name][epoch.number - 1] = value

    def due(self, epoch: int) -> bool:
        """Return whether valid and test are measured after this epoch."""
        return epoch in (1, self.spec.epochs) or epoch % self.spec.measure == 0

    def measure(self, epoch: int, model: nn.Module, data: Mapping[str, Images]) -> None:
        """Count the predictions of the model on valid and test, clean and under the probe."""
        ball, network = BALLS[self.spec.norm](radius_value(self.spec.measured_eps)), self.objective.scaled_model(model)
        for split in ("valid", "test"):
            for attack in dict.fromkeys(("clean", self.spec.probe)):
                place = self._place(epoch, split, attack)
                if self.values["count"][place].any():
                    continue  # measured by the training
                # The search may use the precision of the training; predictions are in float32.
                settings = evaluate.EvaluationSettings(seed=epoch, precision=self.spec.precision)
                result = evaluate.evaluate(network, data[split], attacks.build(attack), ball, settings)
                count = evaluate.confusion_counts(result.truth, result.prediction, len(self.classes))
                self.values["count"][place] = count.cpu().int()
                # In nats, NaN for a class without images.
                total = torch.zeros(len(self.classes), device=result.truth.device)
                total.index_add_(0, result.truth, entropy(result.logits))
                self.values["uncertainty"][place] = (total / count.sum(1)).cpu()

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
        return to_xarray.label_dimensions("history 1", self.values, coords, attrs)
