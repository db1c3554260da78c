"""Results: eight kinds of Dataset with common names; counts and outcomes are stored, rates are derived.

Names of classes are coordinates; SCHEMAS, COORDINATES and ATTRIBUTES say what each field means. `checks` of outcomes holds the
results of `attacks.sanity.sanity_checks`, which `stats.sanity.stored_warnings` reads.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import xarray as xr

from classwise.core import netcdf
from classwise.core.errors import UserError
from classwise.core.files import write

SPLITS = ("train", "valid", "test")


class Variable(NamedTuple):
    """A variable of a schema: its dimensions, its type, and for the data dictionary of the book its meaning and its unit."""

    dims: tuple[str, ...]
    kind: str
    meaning: str
    unit: str = ""


_IMAGE, _PIXELS = ("image",), "pixels from 0 to 1"
_CELLS, _FORMS = ("epoch", "split", "attack", "label", "predicted"), ("form", "channel", "row", "column")
_TRUTH = "class of the image, as a position in `predicted`; -1 where a combined Dataset has no such image"
_LOGITS = "output of the network for each class; of recorded outcomes NaN where no page reads it"
_RUNS = ("training", "epochs", "seed", "image")
# The variables of each kind.
SCHEMAS: dict[str, dict[str, Variable]] = {
    # The measurements after each epoch of a training.
    "history 1": {
        "count": Variable(
            _CELLS, "i4", "images of class `label` that are predicted as `predicted`; zeros where not measured", "images"
        ),
        "radius": Variable(("epoch", "label"), "f4", "radius of the inner attack on the class", _PIXELS),
        "beta": Variable(("epoch", "label"), "f4", "trade-off of the objective for the class, 0 where it has none"),
        "weight": Variable(("epoch", "label"), "f4", "weight of the class in the loss"),
        "loss": Variable(("epoch",), "f8", "mean loss over the training images"),
        "seconds": Variable(("epoch",), "f8", "time of the training, without measuring", "s"),
    },
    # The prediction of a trained model for each image of a split under an attack.
    "outcomes 1": {
        "truth": Variable(_IMAGE, "i2", _TRUTH),
        "answer": Variable(
            _IMAGE,
            "i2",
            "class predicted for the attacked image, as a position in `predicted`; for the image itself where the attacked "
            "image lies outside the ball",
        ),
        "flipped": Variable(_IMAGE, "b1", "whether the prediction is wrong"),
        "distance": Variable(_IMAGE, "f4", "from the image to its attacked form, in the norm of the evaluation", _PIXELS),
        "logits": Variable(("image", "predicted"), "f4", _LOGITS),
    },
    # A few images with their attacked forms.
    "examples 1": {
        "pixels": Variable(("image", *_FORMS), "f4", "the image, clean and attacked", _PIXELS),
        "truth": Variable(_IMAGE, "i2", _TRUTH),
        "answer": Variable(("image", "form"), "i2", "predicted class, as a position in `predicted`"),
        "logits": Variable(("image", "form", "predicted"), "f4", _LOGITS),
    },
    # The penultimate layer of a network on the images of an evaluation, attacked where it attacks. Each class is divided into
    # blocks of images, which are resampled.
    "features 2": {
        "total": Variable(("block", "label", "feature"), "f4", "sum of the feature over the images of the block"),
        "square": Variable(("block", "label"), "f4", "sum of the squares of all features over the images of the block"),
        "images": Variable(("block", "label"), "i4", "number of images of the class in the block", "images"),
    },
    # The predictions of a model for a few images after each step of an attack.
    "course 1": {
        "truth": Variable(_IMAGE, "i2", _TRUTH),
        "logits": Variable(("image", "step", "predicted"), "f4", _LOGITS),
    },
    # The training images of a run whose training images are rebuilt, and a few of them in pixels.
    "rebuilt 1": {
        "truth": Variable(_IMAGE, "i2", "label of the rebuilt image, as a position in `predicted`"),
        "original": Variable(_IMAGE, "i2", "class of the image that the rebuilt one starts from, as a position in `predicted`"),
        "answer": Variable(_IMAGE, "i2", "class that the network that made the image predicts for it"),
        "to_target": Variable(_IMAGE, "f4", "distance of its penultimate features to those of its target", "of features"),
        "to_start": Variable(_IMAGE, "f4", "distance of its penultimate features to those of its start", "of features"),
        "apart": Variable(_IMAGE, "f4", "distance of the penultimate features of start and target", "of features"),
        "pixels": Variable(("shown", *_FORMS), "f4", "the target, the start, the rebuilt image", _PIXELS),
    },
    # The predictions under attack of networks trained once, and once more with twice the epochs.
    "convergence 1": {
        "truth": Variable(_RUNS, "i2", _TRUTH),
        "answer": Variable(_RUNS, "i2", "predicted class of the attacked image, as a position in `predicted`"),
        "number": Variable(("training", "epochs"), "i4", "of epochs", "epochs"),
    },
}
# Variables that a Dataset of a schema may lack.
OPTIONAL: dict[str, dict[str, Variable]] = {
    "history 1": {
        "uncertainty": Variable(
            _CELLS[:4], "f4", "mean entropy of the predictions for the images of the class; NaN where not measured", "nats"
        ),
        "robust": Variable(("epoch", "label"), "f4", "weight of the class in the robust term, where the objective has two"),
        "averaged": Variable(("epoch",), "b1", "whether the average of the weights includes the epoch"),
        "taken": Variable(("epoch", "average"), "b1", "the same for each average of `Spec.averages`"),
    },
    # Of networks with at most three features.
    "features 2": {
        "place": Variable(("image", "feature"), "f4", "the features of the image"),
        "truth": Variable(_IMAGE, "i2", "class of the image, as a position in `label`"),
        "answer": Variable(_IMAGE, "i2", "predicted class, as a position in `label`"),
    },
    "outcomes 1": {
        "queries": Variable(
            _IMAGE, "i4", "where the attack counts them: forward passes of the model; -1 for no such image", "forward passes"
        ),
        "member": Variable(
            _IMAGE, "i1", "where the attack is an ensemble: the number of the member that broke the image; -1 for none"
        ),
    },
}
# The coordinates of the dimensions; `channel`, `row` and `column` have none.
COORDINATES = {
    "epoch": "epoch of the training, from 1",
    "split": "part of the dataset: train, valid or test",
    "attack": "clean, or the name of an attack",
    "label": "class of an image",
    "predicted": "class that the network predicts",
    "image": "position of the image in the dataset, from 0",
    "form": "clean or attacked; of rebuilt images target, start or rebuilt",
    "shown": "position in the dataset of an image that is shown",
    "feature": "position in the penultimate layer, from 0",
    "block": "number of a block of images of each class, from 0",
    "step": "step of an attack; 0 is its start",
    "average": "a name of `Spec.averages`",
    "training": "name of a training",
    "epochs": "once or twice",
    "seed": "of the training",
}
ATTRIBUTES = {
    "schema": "kind of the Dataset and its version, such as `outcomes 1`",
    "spec": "all settings of the training, in JSON",
    "evaluation": "all settings of the evaluation, in JSON",
    "id": "of the training: ten digits of a hash of its settings",
    "version": "of classwise",
    "commit": "of the code; with + if files differed from it",
    "torch": "version of torch",
    "device": "processor that computed the result",
    "threads": "of torch on a CPU",
    "created": "date and time in UTC, ISO 8601",
    "checks": "results of the sanity checks of the attack, in JSON",
}
# Stored by their numbers: a new name goes to the end.
MEMBERS = ("apgd-ce", "apgd-t", "fab-t", "square", "relaxation")
BLACK_BOX_MEMBERS = ("square",)
# The fill values of a combined Dataset where a run has no entry; NaN for other variables.
MISSING = {"count": 0, "images": 0, "truth": -1, "answer": -1, "queries": -1, "member": -1, "block_of": -1}
MISSING |= dict.fromkeys(("flipped", "averaged", "taken"), False)
REQUIRED_ATTRIBUTES = ("schema", "spec", "id", "version", "commit", "torch", "device", "threads", "created")
_NO_COORDINATE = ("channel", "row", "column")


class Damaged(UserError):
    """A file that is not the result that it should be."""


def check(data: xr.Dataset, schema: str, where: str = "the Dataset") -> xr.Dataset:
    """Return the Dataset if it has the variables, dimensions, types and attributes of a schema, else raise Damaged."""
    _check_attributes(data.attrs, schema, where)
    for name in SCHEMAS[schema]:
        if name not in data:
            raise Damaged(f"{where} lacks the variable {name!r} of schema {schema!r}")
    for name, (dims, kind, *_) in _variables(data, schema).items():
        variable = data.variables[name]
        if variable.dims != dims or variable.dtype != np.dtype(kind):
            actual = f"{variable.dims} {variable.dtype}"
            raise Damaged(f"{where}: {name} is {actual}, expected {dims} {np.dtype(kind)}")
    for dim in data.dims:
        if dim not in data.coords and dim not in _NO_COORDINATE:
            raise Damaged(f"{where}: the dimension {dim!r} has no coordinate")
    return data


def _check_attributes(attrs: Mapping[str, Any], schema: str, where: str) -> None:
    if attrs.get("schema") != schema:
        raise Damaged(f"{where} is of schema {attrs.get('schema')!r}, expected {schema!r}")
    for attr in REQUIRED_ATTRIBUTES:
        if attr not in attrs:
            raise Damaged(f"{where} lacks the attribute {attr!r}")


def schema_names(schema: str) -> frozenset[str]:
    """Return the names of the variables of a schema and of their dimensions."""
    known = SCHEMAS[schema] | OPTIONAL.get(schema, {})
    return frozenset(known) | {dim for variable in known.values() for dim in variable.dims}


def _variables(data: xr.Dataset, schema: str) -> dict[str, Variable]:
    """Return the variables of a schema that a Dataset has."""
    known = SCHEMAS[schema] | OPTIONAL.get(schema, {})
    return {name: known[name] for name in known if name in data}


def save(data: xr.Dataset, schema: str, path: Path) -> None:
    """Check a Dataset against a schema and write it atomically (`encoded`)."""
    write(path, encoded(data, schema))


def encoded(data: xr.Dataset, schema: str) -> bytes:
    """Return a Dataset as compressed netCDF 4, after checking it against a schema.

    Of outcomes of more than 2,000 images, logits are rounded to the 11 significant bits of float16; their type stays.
    """
    data = check(data.assign_attrs(schema=schema), schema)
    encoding: dict[str, dict[str, Any]] = {name: {**_COMPRESSED} for name in _variables(data, schema) if data[name].ndim > 0}
    if schema == "outcomes 1" and data.sizes["image"] > _LARGE:
        data = data.assign(logits=data.logits.copy(data=_rounded(data.logits.values)))
        chunk = (min(data.sizes["image"], 10_000), data.sizes["predicted"])
        encoding["logits"] |= {"shuffle": True, "chunksizes": chunk}
        encoding["image"] = {**_COMPRESSED, "shuffle": True, "dtype": "int32"}
    return bytes(data.to_netcdf(engine="h5netcdf", encoding=encoding))


_COMPRESSED = {"zlib": True, "complevel": 4}
# The outcomes of more images than this are stored compactly.
_LARGE = 2000


def _rounded(values: np.ndarray) -> np.ndarray:
    """Return float32 numbers to the nearest of 11 significant bits, ties to even; what would become infinite is kept."""
    bits = values.view(np.uint32)
    rounded = ((bits + (0x0FFF + ((bits >> 13) & 1))) & 0xFFFFE000).view(np.float32)
    return np.where(np.isfinite(rounded) & np.isfinite(values), rounded, values)


def load(path: Path, schema: str) -> xr.Dataset:
    """Return a stored Dataset, loaded into memory; Damaged if it cannot be read, with the file and what to do."""
    with _readable(path):
        data = netcdf.read(path)
        if "image" in data.coords and data.image.dtype != np.int64:
            data = data.assign_coords(image=data.image.astype("i8"))  # stored compactly
        return check(data, schema, str(path))


def header(path: Path, schema: str) -> dict[str, str]:
    """Return the attributes of a stored Dataset of a schema, reading nothing else: ten times as fast as `load`.

    Damaged if the file is cut short, is no netCDF file or lacks an attribute; other damage is not noticed.
    """
    with _readable(path), h5py.File(path) as stored:
        attrs = {name: str(value) for name, value in stored.attrs.items()}
        _check_attributes(attrs, schema, str(path))
    return attrs


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say what to do about whatever makes a file unreadable; h5py raises a dozen kinds for one that is truncated or foreign."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:
        problem = str(error) if isinstance(error, Damaged) else ""
        problem = problem or f"{path} is truncated or not a netCDF file ({type(error).__name__})"
        raise Damaged(f"{problem}; delete it and run again, or run `make book`, which recomputes it") from error
