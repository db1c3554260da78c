"""Results: six kinds of Dataset with common names; counts and outcomes are stored, rates are derived.

Coordinates: epoch int from 1 · split "train" "valid" "test" · attack "clean" or a name · label, predicted: names of classes ·
image int, the position of the image in the dataset · form "clean" "attacked" · feature int · step int from 0, the start of an
attack, to its last · average: a name of `Spec.averages` · training: the name of one · epochs "once" "twice" · seed int. The other
dimensions have none.

Attributes: schema ("history 1", ...), spec, evaluation (JSON), id, version, commit, torch, device, threads, created; outcomes
also have checks (JSON): the results of `attacks.sanity.sanity_checks`, which `stats.sanity.stored_warnings` reads.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr

from classwise.core import netcdf
from classwise.core.errors import UserError
from classwise.core.files import write

SPLITS = ("train", "valid", "test")
# The variables of each kind: dimensions and type.
SCHEMAS: dict[str, dict[str, tuple[tuple[str, ...], str]]] = {
    # The measurements after each epoch of a training.
    "history 1": {
        # Images of `label` predicted as `predicted`; zeros where not measured.
        "count": (("epoch", "split", "attack", "label", "predicted"), "i4"),
        "radius": (("epoch", "label"), "f4"),  # of the inner attack, in pixels of 0 to 1
        "beta": (("epoch", "label"), "f4"),  # the trade-off of the objective, 0 where it has none
        "weight": (("epoch", "label"), "f4"),  # of the class in the loss
        "loss": (("epoch",), "f8"),  # mean over the training images
        "seconds": (("epoch",), "f8"),  # of training, without measuring
    },
    # The prediction of a trained model for each image of a split under an attack.
    "outcomes 1": {
        "truth": (("image",), "i2"),  # position in `predicted`; -1 where a combined Dataset has no such image
        # Class predicted for the attacked image, likewise; for the image itself where the attacked image lies outside the ball.
        "answer": (("image",), "i2"),
        "flipped": (("image",), "b1"),  # whether the prediction is wrong
        "distance": (("image",), "f4"),  # from the image to its attacked form, in the norm of the evaluation
        "logits": (("image", "predicted"), "f4"),
    },
    # A few images with their attacked forms.
    "examples 1": {
        "pixels": (("image", "form", "channel", "row", "column"), "f4"),  # 0 to 1
        "truth": (("image",), "i2"),
        "answer": (("image", "form"), "i2"),
        "logits": (("image", "form", "predicted"), "f4"),
    },
    # The penultimate layer of a network on the clean images of each class.
    "features 1": {"mean": (("label", "feature"), "f4"), "variance": (("label", "feature"), "f4")},
    # The predictions of a model for a few images after each step of an attack.
    "course 1": {
        "truth": (("image",), "i2"),
        "logits": (("image", "step", "predicted"), "f4"),
    },
    # The predictions under attack of networks trained once, and once more with twice the epochs.
    "convergence 1": {
        "truth": (("training", "epochs", "seed", "image"), "i2"),
        "answer": (("training", "epochs", "seed", "image"), "i2"),
        "number": (("training", "epochs"), "i4"),  # of epochs
    },
}
# Variables that a Dataset of a schema may lack.
OPTIONAL: dict[str, dict[str, tuple[tuple[str, ...], str]]] = {
    "history 1": {
        "robust": (("epoch", "label"), "f4"),  # weight of the class in the robust term, where the objective has two
        "averaged": (("epoch",), "b1"),  # whether the average of the weights includes the epoch
        "taken": (("epoch", "average"), "b1"),  # likewise of each of Spec.averages
    },
    "outcomes 1": {
        "queries": (("image",), "i4"),  # where the attack counts them: forward passes of the model; -1 for no such image
        "member": (("image",), "i1"),  # where the attack is an ensemble: which of MEMBERS broke the image; -1 none
    },
}
# Stored by their numbers: a new name goes to the end.
MEMBERS = ("apgd-ce", "apgd-t", "fab-t", "square", "relaxation")
BLACK_BOX_MEMBERS = ("square",)
# The fill values of a combined Dataset where a run has no entry; NaN for other variables.
MISSING = {"count": 0, "truth": -1, "answer": -1, "queries": -1, "member": -1}
MISSING |= dict.fromkeys(("flipped", "averaged", "taken"), False)
REQUIRED_ATTRIBUTES = ("schema", "spec", "id", "version", "commit", "torch", "device", "threads", "created")
_NO_COORDINATE = ("channel", "row", "column")


class Damaged(UserError):
    """A file that is not the result that it should be."""


def check(data: xr.Dataset, schema: str, where: str = "the Dataset") -> xr.Dataset:
    """Return the Dataset if it has the variables, dimensions, types and attributes of a schema, else raise Damaged."""
    if data.attrs.get("schema") != schema:
        raise Damaged(f"{where} is of schema {data.attrs.get('schema')!r}, expected {schema!r}")
    for name in SCHEMAS[schema]:
        if name not in data:
            raise Damaged(f"{where} lacks the variable {name!r} of schema {schema!r}")
    for name, (dims, kind) in _variables(data, schema).items():
        variable = data.variables[name]
        if variable.dims != dims or variable.dtype != np.dtype(kind):
            actual = f"{variable.dims} {variable.dtype}"
            raise Damaged(f"{where}: {name} is {actual}, expected {dims} {np.dtype(kind)}")
    for dim in data.dims:
        if dim not in data.coords and dim not in _NO_COORDINATE:
            raise Damaged(f"{where}: the dimension {dim!r} has no coordinate")
    for attr in REQUIRED_ATTRIBUTES:
        if attr not in data.attrs:
            raise Damaged(f"{where} lacks the attribute {attr!r}")
    return data


def _variables(data: xr.Dataset, schema: str) -> dict[str, tuple[tuple[str, ...], str]]:
    """Return the variables of a schema that a Dataset has."""
    known = SCHEMAS[schema] | OPTIONAL.get(schema, {})
    return {name: known[name] for name in known if name in data}


def save(data: xr.Dataset, schema: str, path: Path) -> None:
    """Check a Dataset against a schema and write it atomically as compressed netCDF 4.

    Of outcomes of more than 2,000 images, logits are rounded to the 11 significant bits of float16; their type stays.
    """
    data = check(data.assign_attrs(schema=schema), schema)
    encoding: dict[str, dict[str, Any]] = {name: {**_COMPRESSED} for name in _variables(data, schema) if data[name].ndim > 0}
    if schema == "outcomes 1" and data.sizes["image"] > _LARGE:
        data = data.assign(logits=data.logits.copy(data=_rounded(data.logits.values)))
        chunk = (min(data.sizes["image"], 10_000), data.sizes["predicted"])
        encoding["logits"] |= {"shuffle": True, "chunksizes": chunk}
        encoding["image"] = {**_COMPRESSED, "shuffle": True, "dtype": "int32"}
    write(path, bytes(data.to_netcdf(engine="h5netcdf", encoding=encoding)))


_COMPRESSED = {"zlib": True, "complevel": 4}
# The outcomes of more images than this are stored compactly.
_LARGE = 2000


def _rounded(values: np.ndarray) -> np.ndarray:
    """Return float32 numbers to the nearest of 11 significant bits, ties to even; what would become infinite is kept."""
    bits = values.view(np.uint32)
    rounded = ((bits + (0x0FFF + ((bits >> 13) & 1))) & 0xFFFFE000).view(np.float32)
    return np.where(np.isfinite(rounded) & np.isfinite(values), rounded, values)


_ADVICE = "delete it and run again, or run `make book`, which recomputes it"


def load(path: Path, schema: str) -> xr.Dataset:
    """Return a stored Dataset, loaded into memory; Damaged if it cannot be read, with the file and what to do."""
    with _readable(path):
        data = netcdf.read(path)
    if "image" in data.coords and data.image.dtype != np.int64:
        data = data.assign_coords(image=data.image.astype("i8"))  # stored compactly
    try:
        return check(data, schema, str(path))
    except Damaged as error:
        raise Damaged(f"{error}; {_ADVICE}") from None


def attributes(path: Path, schema: str) -> dict[str, str]:
    """Return the attributes of a stored Dataset of a schema, reading all of it but decoding nothing: ten times as fast as `load`.

    Damaged if it cannot be read or lacks a variable, a dimension or an attribute, with the file and what to do.
    """
    with _readable(path), h5py.File(path) as stored:
        ranks = {name: variable[()].ndim for name, variable in stored.items()}
        attrs = {name: str(value) for name, value in stored.attrs.items()}
    known = SCHEMAS[schema] | {name: form for name, form in OPTIONAL.get(schema, {}).items() if name in ranks}
    _check_header(path, schema, attrs, [name for name, (dims, _) in known.items() if ranks.get(name) != len(dims)])
    return attrs


def header(path: Path, schema: str) -> dict[str, str]:
    """Return the attributes of a stored Dataset of a schema, reading nothing else: ten times as fast as `attributes`.

    Damaged if the file is cut short, is no netCDF file or lacks an attribute; other damage is not noticed.
    """
    with _readable(path), h5py.File(path) as stored:
        attrs = {name: str(value) for name, value in stored.attrs.items()}
    _check_header(path, schema, attrs)
    return attrs


def _check_header(path: Path, schema: str, attrs: Mapping[str, str], lost: Sequence[str] = ()) -> None:
    """Raise Damaged if attributes lack a required one or are of another schema; `lost`: what else the file lacks."""
    lost = [*lost, *(name for name in REQUIRED_ATTRIBUTES if name not in attrs)]
    if lost or attrs["schema"] != schema:
        problem = f"lacks {', '.join(lost)}" if lost else f"is of schema {attrs['schema']!r}, expected {schema!r}"
        raise Damaged(f"{path} {problem}; {_ADVICE}")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:  # h5py and xarray raise a dozen kinds for a file that is truncated or foreign
        raise Damaged(f"{path} is truncated or not a netCDF file ({type(error).__name__}); {_ADVICE}") from error
