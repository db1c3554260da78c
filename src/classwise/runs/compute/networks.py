"""The weights of trained runs, as networks that answer."""

import safetensors.torch
from torch import nn

from classwise import defences
from classwise.core.audit import Audit, Subject
from classwise.core.errors import UserError
from classwise.core.results import Damaged
from classwise.core.spec import Evaluation
from classwise.runs import store
from classwise.runs.compute import foreign_network
from classwise.runs.compute.device import device
from classwise.runs.compute.train import network
from classwise.runs.compute.validate import split


def model_of(spec: Subject, evaluation: Evaluation | None = None) -> nn.Module:
    """Return a trained run's network in eval mode, on the device; the evaluation says which checkpoint and which readout.

    Without one it is the last network, and its answers are the logits that its loss reads.
    """
    if isinstance(spec, Audit):
        return foreign_network.network(spec)
    asked = evaluation or Evaluation()
    model, path = network(spec, split(spec, "train")), store.weights(spec, asked.checkpoint)
    if path is None:
        what = "the weights" if asked.checkpoint == "last" else f"the {asked.checkpoint!r} weights"
        raise UserError(f"{what} of {spec.name} are not here, only its results; remove its recorded folder to train it anew")
    try:
        model.load_state_dict(safetensors.torch.load_file(path))
    except Exception as error:  # safetensors raises its own kinds, torch a RuntimeError with all keys
        raise Damaged(f"{path} does not hold the weights of {spec.name}; delete its folder and ask again") from error
    objective = defences.build(spec.defence, spec.options).objective
    answering = model if asked.readout == "cosines" else objective.answering(model)
    return answering.eval().to(device())
