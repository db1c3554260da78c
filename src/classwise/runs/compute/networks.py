"""Trained networks: of runs, from their weights, and of audits."""

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

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


def network_of(subject: Subject, evaluation: Evaluation | None = None) -> nn.Module:
    """Return a subject's trained network in eval mode, on the device.

    evaluation: selects the checkpoint and the readout; None for the last checkpoint and the logits that its loss reads.
    """
    if isinstance(subject, Audit):
        return audited_network.network(subject)
    assert isinstance(subject, Spec)
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
            digest.update(value.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def describe_layers(spec: Spec) -> dict[str, Any]:
    """Return a trained small CNN as `runs.layers` describes it."""
    model = network_of(spec).cpu()
    state, layers, values = model.state_dict(), list[dict[str, int]](), list[Tensor]()
    convolutions = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    norms = [name.removesuffix("running_var") for name in state if name.endswith("running_var")]
    for convolution, norm in zip(convolutions, norms, strict=True):
        scale = state[f"{norm}weight"] / (state[f"{norm}running_var"] + nn.BatchNorm2d(1).eps).sqrt()
        kernel = convolution.weight.detach() * scale[:, None, None, None]
        values += [kernel.permute(2, 3, 1, 0), state[f"{norm}bias"] - state[f"{norm}running_mean"] * scale]
        sizes = {"inputs": convolution.in_channels, "outputs": convolution.out_channels}
        layers.append(sizes | {"stride": convolution.stride[0]})
    head, channels = state["head.weight"], layers[-1]["outputs"]
    side = math.isqrt(head.shape[1] // channels)
    values += [head.view(-1, channels, side, side).permute(2, 3, 1, 0), state["head.bias"]]
    described = {"side": images_of(spec, "test").shape[1], "mean": state["mean"].item(), "std": state["std"].item()}
    arrays = np.concatenate([value.reshape(-1).numpy() for value in values])
    return described | {"classes": len(head), "layers": layers, "values": arrays}
