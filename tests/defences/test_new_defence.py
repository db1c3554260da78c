"""A defence from outside the package trains and has a cost estimate."""

import math
from dataclasses import dataclass, replace

import torch.nn.functional as F

from classwise import attacks, defences, images, models
from classwise.core.spec import Spec
from classwise.defences import DEFENCES, Defence
from classwise.defences.objectives import LossTerms, Objective
from classwise.defences.training import TrainConfig, begin, train
from classwise.runs.compute import validate
from classwise.runs.schedule import cost


@dataclass(frozen=True)
class Sharpened(Objective):
    """A defence that the package does not know: twice the cross-entropy on attacked images, in two passes."""

    factor: float = 2.0

    @property
    def training_passes(self):
        return 2

    def __call__(self, model, x, y, settings, adversary):
        clean, attacked = model(x), model(adversary.craft(model, x, y))
        return LossTerms(self.factor * F.cross_entropy(attacked, y, reduction="none"), clean, attacked)


def test_a_defence_is_added_by_its_objective_and_one_line(monkeypatch):
    monkeypatch.setitem(DEFENCES, "sharpened", Defence(Sharpened(), "pgd-10"))
    defence, data = defences.build("sharpened", {"factor": 3.0}), images.load("digits", "train")
    config = TrainConfig(defence, attacks.build(defence.attack, {"steps": 2}), epochs=1)
    state = begin(models.build("small-cnn", data, 4), config, 10, 0.1, 0)
    (epoch,) = train(state, data, config)
    assert math.isfinite(epoch.loss)
    assert int(epoch.clean.sum()) == int(epoch.attacked.sum()) == len(data)
    spec = Spec(dataset="digits", model="small-cnn", width=4, eps="0.1", epochs=1, defence="sharpened", seed=0)
    validate.check(spec)
    work, of_trades, of_at = (cost.training_operations(replace(spec, defence=name)) for name in ("sharpened", "trades", "pgd-at"))
    assert work == of_trades > of_at
