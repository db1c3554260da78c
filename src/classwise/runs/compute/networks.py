"""Trained networks: of runs, from their weights, and of audits."""

import hashlib
from functools import singledispatch
from pathlib import Path

import safetensors.torch
from torch import nn

from classwise import defences, models
from classwise.core.audit import Audit
from classwise.core.errors import UserError
from classwise.core.results import Damaged
from classwise.core.spec import Evaluation, Spec, Subject
from classwise.images import Images
from classwise.runs import store
from classwise.runs.compute import audited_network
from classwise.runs.compute.device import device
from classwise.runs.compute.validate import head, images_of


@singledispatch
def network_of(subject: Subject, evaluation: Evaluation | None = None) -> nn.Module:
    """Return a subject's trained network in eval mode, on the device; registered for each subject class.

    evaluation : selects the checkpoint and the readout; None for the last checkpoint and the logits that its loss reads.
    """
    raise TypeError(f"network_of has no implementation for {type(subject).__name__}; register one")


@network_of.register
def _(subject: Audit, evaluation: Evaluation | None = None) -> nn.Module:
    return audited_network.network(subject)


@network_of.register
def _(subject: Spec, evaluation: Evaluation | None = None) -> nn.Module:
    spec, evaluation = subject, evaluation or Evaluation()
    model, path = network(spec, images_of(spec, "train")), store.weights(spec, evaluation.checkpoint)
    if path is None:
        what = "the weights" if evaluation.checkpoint == "last" else f"the {evaluation.checkpoint!r} weights"
        raise UserError(f"{what} of {spec.name} are not here, only its results; remove its recorded folder to train it again")
    advice = store.IMPORT_AGAIN if store.has_recorded_network(spec) else "delete its folder and run again"
    load(model, path, Damaged(f"{path} does not hold the weights of {spec.name}; {advice}"))
    objective = defences.build(spec.defence, spec.options).objective
    readout = model if evaluation.readout == "cosines" else objective.scaled_model(model)
    return readout.eval().to(device())


def network(spec: Spec, data: Images) -> models.Classifier:
    """Return a run's network with fresh weights, made for images like `data`."""
    return models.build(spec.model, data, spec.width, spec.training_seed, head(spec), spec.layer)


def load(model: nn.Module, path: Path, error: Exception) -> None:
    """Load weights from a file into a network; raise the error if they are those of another one."""
    content = store.read_verified(path)
    try:
        model.load_state_dict(safetensors.torch.load(content))
    except Exception as cause:  # safetensors raises its own kinds, torch a RuntimeError with all keys
        raise error from cause


def weights_digest(text: str, *networks: nn.Module | None) -> str:
    """Return a digest of a text and of the weights of networks."""
    digest = hashlib.sha256(text.encode())
    for model in networks:
        for value in model.state_dict().values() if model is not None else ():
            digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
