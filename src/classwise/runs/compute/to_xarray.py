"""From tensors to labelled Datasets."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import xarray as xr
from torch import Tensor

from classwise.attacks.evaluate import Outcomes
from classwise.core.results import MEMBERS, OPTIONAL, SCHEMAS
from classwise.stats.features import block_count, blocks_of


def label_dimensions(
    schema: str, values: Mapping[str, Tensor], coords: Mapping[str, Any], attrs: Mapping[str, str] | None = None
) -> xr.Dataset:
    """Return tensors as a Dataset with the dimensions and types that a schema of `core.results` gives their names."""
    known = SCHEMAS[schema] | OPTIONAL.get(schema, {})
    variables = {name: (known[name].dims, value.cpu().numpy().astype(known[name].kind)) for name, value in values.items()}
    return xr.Dataset(variables, coords, attrs)


def outcomes_dataset(
    outcomes: Outcomes, classes: tuple[str, ...], attrs: dict[str, str], members: Sequence[str] = ()
) -> xr.Dataset:
    """Return outcomes (schema "outcomes 1"); `members` names the attacks of an ensemble."""
    values = {name: getattr(outcomes, name) for name in SCHEMAS["outcomes 1"]}
    if outcomes.queries is not None:
        values["queries"] = outcomes.queries
    if outcomes.member is not None:
        values["member"] = torch.tensor([*(MEMBERS.index(name) for name in members), -1])[outcomes.member.cpu()]
    coords = {"image": outcomes.index.cpu().numpy(), "predicted": list(classes)}
    return label_dimensions("outcomes 1", values, coords, {"schema": "outcomes 1", **attrs})


# Networks with at most so many features have a place for each image.
_SHOWN = 3


def features_dataset(values: Tensor, outcomes: Outcomes, classes: tuple[str, ...], attrs: dict[str, str]) -> xr.Dataset:
    """Return the sums of features (images, features) by class and block; with at most 3 features also those of each image."""
    truth, index, features = outcomes.truth.cpu(), outcomes.index.cpu().numpy(), values.double().cpu()
    count = block_count(truth.numpy())
    cell = torch.from_numpy(blocks_of(truth.numpy(), index, count)) * len(classes) + truth
    sums = {"total": features, "square": (features**2).sum(1), "images": torch.ones(len(truth), dtype=torch.int64)}
    size = count * len(classes)
    added = {name: value.new_zeros(size, *value.shape[1:]).index_add_(0, cell, value) for name, value in sums.items()}
    data = {name: value.view(count, len(classes), *value.shape[1:]) for name, value in added.items()}
    coords: dict[str, Any] = {"block": range(count), "label": list(classes), "feature": range(values.shape[1])}
    if values.shape[1] <= _SHOWN:
        data |= {"place": features, "truth": truth, "prediction": outcomes.prediction}
        coords["image"] = index
    return label_dimensions("features 2", data, coords, attrs)


def examples_dataset(
    clean: Tensor, attacked: Tensor, predictions: tuple[Tensor, Tensor], outcomes: Outcomes, classes: tuple[str, ...]
) -> xr.Dataset:
    """Return images (n, channels, height, width) and their attacked forms; `predictions` are the logits of both."""
    pixels, logits = (torch.stack([before.cpu(), after.cpu()], 1) for before, after in ((clean, attacked), predictions))
    values = {"pixels": pixels, "truth": outcomes.truth, "prediction": logits.argmax(2), "logits": logits}
    coords = {"image": outcomes.index.cpu().numpy(), "form": ["clean", "attacked"], "predicted": list(classes)}
    return label_dimensions("examples 1", values, coords)
