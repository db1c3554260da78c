"""Results: seven kinds of Dataset with common names; counts and outcomes are stored, rates are derived.

Names of classes are coordinates; results.csv says what each kind and each field means. `checks` of outcomes holds the
results of `attacks.sanity.sanity_checks`, which `stats.sanity.stored_warnings` reads.
"""

import csv
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


_ROWS = list(csv.DictReader(Path(__file__).with_suffix(".csv").read_text(encoding="utf-8").splitlines()))
# The variables of each kind, and those that a Dataset of it may lack.
SCHEMAS: dict[str, dict[str, Variable]] = {}
OPTIONAL: dict[str, dict[str, Variable]] = {}
# The names in files of variables that this package calls otherwise.
STORED_NAMES = {row["read_as"]: row["name"] for row in _ROWS if row["read_as"]}
for _row in (row for row in _ROWS if row["kind"]):
    _known = (OPTIONAL if _row["optional"] else SCHEMAS).setdefault(_row["schema"], {})
    _known[_row["read_as"] or _row["name"]] = Variable(tuple(_row["dims"].split()), _row["kind"], _row["meaning"], _row["unit"])
# The meanings of the coordinates, of all dimensions but `channel`, `row` and `column`, and of the attributes.
COORDINATES = {row["name"]: row["meaning"] for row in _ROWS if row["schema"] == "coordinate"}
ATTRIBUTES = {row["name"]: row["meaning"] for row in _ROWS if row["schema"] == "attribute"}
# Stored by their numbers: a new name goes to the end.
MEMBERS = ("apgd-ce", "apgd-t", "fab-t", "square", "relaxation")
BLACK_BOX_MEMBERS = ("square",)
# The fill values of a combined Dataset where a run has no entry; NaN for other variables.
MISSING = {"count": 0, "images": 0, "truth": -1, "prediction": -1, "queries": -1, "member": -1, "block_of": -1}
MISSING |= dict.fromkeys(("misclassified", "averaged", "taken"), False)
REQUIRED_ATTRIBUTES = ("schema", "spec", "id", "version", "commit", "torch", "device", "threads", "created")
_NO_COORDINATE = ("channel", "row", "column")


class Damaged(UserError):
    """A file that is not the result that it should be."""


def check(data: xr.Dataset, schema: str, where: str = "the Dataset") -> xr.Dataset:
    """Return the Dataset if it has the variables, dimensions, types and attributes of a schema, else raise Damaged."""
    _check_attributes(data.attrs, schema, where)
    for name, (dims, kind, *_) in _variables(schema).items():
        if name not in data:
            if name in SCHEMAS[schema]:
                raise Damaged(f"{where} lacks the variable {name!r} of schema {schema!r}")
            continue
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
    known = _variables(schema)
    return frozenset(known).union(*(variable.dims for variable in known.values()))


def _variables(schema: str) -> dict[str, Variable]:
    return SCHEMAS[schema] | OPTIONAL.get(schema, {})


def save(data: xr.Dataset, schema: str, path: Path) -> None:
    """Check a Dataset against a schema and write it atomically (`encode`)."""
    write(path, encode(data, schema))


def encode(data: xr.Dataset, schema: str) -> bytes:
    """Return a Dataset as compressed netCDF 4, after checking it against a schema.

    Of outcomes of more than 2,000 images, logits are rounded to the 11 significant bits of float16; their type stays.
    """
    data = check(data.assign_attrs(schema=schema), schema)
    arrays = [name for name in _variables(schema) if name in data and data[name].ndim > 0]
    encoding: dict[str, dict[str, Any]] = {name: {**_COMPRESSED} for name in arrays}
    if schema == "outcomes 1" and data.sizes["image"] > _LARGE:
        data = data.assign(logits=data.logits.copy(data=_rounded(data.logits.values)))
        chunk = (min(data.sizes["image"], 10_000), data.sizes["predicted"])
        encoding["logits"] |= {"shuffle": True, "chunksizes": chunk}
        encoding["image"] = {**_COMPRESSED, "shuffle": True, "dtype": "int32"}
    encoding = {STORED_NAMES.get(name, name): how for name, how in encoding.items()}
    data = data.rename({name: stored for name, stored in STORED_NAMES.items() if name in data})
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
        data = data.rename({stored: name for name, stored in STORED_NAMES.items() if stored in data})
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
