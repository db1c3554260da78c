"""From tensors to labelled Datasets."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from torch import Tensor

from classwise.attacks.evaluate import Outcomes
from classwise.core.results import MEMBERS, check


def plain(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return weights on the CPU, contiguous, as safetensors wants them."""
    return {name: value.detach().cpu().contiguous() for name, value in weights.items()}


def outcomes_dataset(
    outcomes: Outcomes, classes: tuple[str, ...], attrs: dict[str, str], members: Sequence[str] = ()
) -> xr.Dataset:
    """Return outcomes (schema "outcomes 1"); `members` names the attacks of an ensemble."""
    values = {
        "truth": (("image",), outcomes.truth.cpu().numpy().astype(np.int16)),
        "answer": (("image",), outcomes.answer.cpu().numpy().astype(np.int16)),
        "flipped": (("image",), outcomes.flipped.cpu().numpy()),
        "distance": (("image",), outcomes.distance.cpu().numpy()),
        "logits": (("image", "predicted"), outcomes.logits.cpu().numpy()),
    }
    if outcomes.queries is not None:
        values["queries"] = (("image",), outcomes.queries.cpu().numpy().astype(np.int32))
    if outcomes.member is not None:
        numbers = np.array([*(MEMBERS.index(name) for name in members), -1], dtype=np.int8)
        values["member"] = (("image",), numbers[outcomes.member.cpu().numpy()])
    coords = {"image": outcomes.index.cpu().numpy(), "predicted": list(classes)}
    return check(xr.Dataset(values, coords, {"schema": "outcomes 1", **attrs}), "outcomes 1")


def trace_dataset(logits: Sequence[Tensor], truth: Tensor, index: Tensor, classes: tuple[str, ...]) -> xr.Dataset:
    """Return the logits (images, classes) after each step of an attack, the first at its start."""
    values = {
        "truth": (("image",), truth.cpu().numpy().astype(np.int16)),
        "logits": (("image", "step", "predicted"), np.stack([step.cpu().numpy() for step in logits], 1).astype(np.float32)),
    }
    return xr.Dataset(values, {"image": index.cpu().numpy(), "step": np.arange(len(logits)), "predicted": list(classes)})


def examples_dataset(
    clean: Tensor, attacked: Tensor, predictions: tuple[Tensor, Tensor], outcomes: Outcomes, classes: tuple[str, ...]
) -> xr.Dataset:
    """Return images (n, channels, height, width) and their attacked forms; `predictions` are the logits of both."""
    pixels = np.stack([clean.cpu().numpy(), attacked.cpu().numpy()], 1).astype(np.float32)
    logits = np.stack([values.cpu().numpy() for values in predictions], 1).astype(np.float32)
    values = {
        "pixels": (("image", "form", "channel", "row", "column"), pixels),
        "truth": (("image",), outcomes.truth.cpu().numpy().astype(np.int16)),
        "answer": (("image", "form"), logits.argmax(2).astype(np.int16)),
        "logits": (("image", "form", "predicted"), logits),
    }
    coords = {"image": outcomes.index.cpu().numpy(), "form": ["clean", "attacked"], "predicted": list(classes)}
    return xr.Dataset(values, coords)
