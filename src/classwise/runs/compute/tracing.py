"""Traces: the logits of a model at each step of a gradient attack (Tian 2021, Figure 3b to d)."""

import torch
import xarray as xr
from torch import Tensor, nn

from classwise.attacks import PGD
from classwise.core.errors import UserError
from classwise.core.spec import Evaluation, Spec
from classwise.models.modes import eval_mode
from classwise.runs.compute import to_xarray
from classwise.runs.compute.device import one_thread
from classwise.runs.compute.evaluate import problem
from classwise.runs.compute.networks import network_of
from classwise.runs.compute.validate import check, check_evaluation


class _Recording(nn.Module):
    """A model that keeps its logits whenever the attack needs their gradient."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.logits = model, list[Tensor]()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x)
        if x.requires_grad:
            self.logits.append(logits.detach())
        return logits


def trace_attack(spec: Spec, evaluation: Evaluation) -> xr.Dataset:
    """Return the logits of the images of an evaluation from the start of an attack to its last step (schema "course 1").

    Only for PGD, of any loss, with one start and no early stopping; another attack is a UserError.
    """
    check(spec)
    check_evaluation(evaluation, spec)
    images, attack, ball = problem(spec, evaluation)
    if not isinstance(attack, PGD) or attack.success != "last" or attack.restarts != 1:
        raise UserError(f"{evaluation.attack!r} has no steps that all images share; trace pgd-20 or temperature-pgd-20")
    model = _Recording(network_of(spec, evaluation))
    x, y = images.batch(slice(None))
    generator = torch.Generator(x.device).manual_seed(evaluation.seed)
    with one_thread(), eval_mode(model):
        attacked = attack(model, x, y, ball, generator)
        with torch.no_grad():
            last = model(attacked)
    return to_xarray.trace_dataset([*model.logits, last], y, images.index, images.classes)
