"""All results of the book as files to download, netCDF in an archive and outcomes as Parquet, and what each field means."""

import csv
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pandas as pd

import classwise
from classwise.core import results
from classwise.core.files import digest, write
from classwise.core.identity import radius_value
from classwise.core.paths import checkout, data_folder
from classwise.core.spec import Evaluation, Spec
from classwise.papers import registry
from classwise.papers.scales import scales_beside
from classwise.runs import store
from classwise.runs.recorded import convergence_file, keep_stored
from classwise.runs.store import Key

# What a file says of itself, below its name with the version of the package.
NAMES = {
    "outcomes.parquet": "every prediction: one row for each image and evaluation",
    "results.zip": "every result as netCDF, with its settings, commit, device and date as attributes; histories, outcomes with "
    "logits, examples, features, and steps of attacks",
    "catalogue.csv": "one row for each result in the archive",
    "dictionary.csv": "the data dictionary below",
}
CHECKSUMS = "SHA256SUMS"
# Lines that read the files with pandas and xarray; the places are those of NAMES.
_READING = """```python
import pandas, xarray, zipfile

outcomes = pandas.read_parquet("{0}")  # with pyarrow
file = zipfile.Path("{1}", "{first}")
result = xarray.open_dataset(file.open("rb"), engine="h5netcdf")
```"""
# The date of all entries of an archive, the first that the format has: equal contents give equal bytes.
_DATE = (1980, 1, 1, 0, 0, 0)
OUTCOMES, CATALOGUE, FIGURES = "outcomes (Parquet)", "catalogue (CSV)", "figures (CSV)"
_FILES = {"run": f"{OUTCOMES}, {CATALOGUE}", "image": OUTCOMES, "file": CATALOGUE, "key": FIGURES, "measure": FIGURES}
# A row without a meaning takes that of the same name in the code. `drawn`: the columns of charts that a column of the files of
# figures is made from, "row if url" only in charts that have a column `url` too.
_ROWS = list(csv.DictReader(Path(__file__).with_name("dictionary.csv").read_text(encoding="utf-8").splitlines()))
# The columns that the Parquet file of outcomes and the catalogue share, and those that either has alone; and of the data behind
# the charts, where keys say which case a row is of, measures what was measured.
RUN_COLUMNS, IMAGE_COLUMNS, FILE_COLUMNS, KEYS, MEASURES = (
    [row["field"] for row in _ROWS if row["role"] == role] for role in _FILES
)


class Stored(NamedTuple):
    """A stored result of the book: its file and scale, its training unless it is of several, its evaluation where it has one."""

    path: Path
    scale: str
    spec: Spec | None = None
    evaluation: Evaluation | None = None


def stored_results(scale: str) -> list[Stored]:
    """Return every stored result of the sections of the book, and comparisons of epochs, in the order of their paths."""
    result: dict[Path, Stored] = {}
    for name in (scale, *scales_beside(scale)):
        keys: dict[Key, None] = {}
        for section in registry.SECTIONS:
            request = registry.request(section, name)
            present = {spec for spec, _ in keep_stored(request).pairs}
            # Traces may be stored of evaluations whose outcomes are not.
            for spec, evaluations in (pair for pair in request.pairs if pair[0] in present):
                of_run = [Key(spec), *(Key(spec, kind, one) for one in evaluations for kind in store.UNDER_EVALUATIONS)]
                keys |= dict.fromkeys(of_run)
        for key in keys:
            if (path := key.path) is not None:
                result.setdefault(path, Stored(path, name, key.spec, key.evaluation))
        compared = convergence_file(name)
        if compared.exists():
            result[compared] = Stored(compared, name)
    return sorted(result.values())


def description_columns(item: Stored) -> dict[str, Any]:
    """Return the columns of the catalogue and of the outcomes that say which run and evaluation a result is of."""
    spec, evaluation = item.spec, item.evaluation
    values: dict[str, Any] = {"scale": item.scale}
    if spec is not None:
        values |= {"run": spec.id, **{name: getattr(spec, name) for name in ("dataset", "model", "defence", "seed")}}
    if evaluation is not None:
        values |= {name: getattr(evaluation, name) for name in ("attack", "norm", "split", "checkpoint", "transform")}
        values |= {"evaluation": evaluation.id, "attack_options": json.dumps(dict(evaluation.options), sort_keys=True)}
        values |= {"eps": radius_value(str(evaluation.eps)), "substitute": evaluation.substitute or ""}
    return {name: values.get(name, np.nan if name == "eps" else "") for name in RUN_COLUMNS}


def outcomes(items: list[Stored]) -> pd.DataFrame:
    """Return every prediction of the book: one row for each image and evaluation, with the columns of the dictionary."""
    chosen = [item for item in items if item.path.parent.name == store.PLACES[store.OUTCOMES]]
    tables = []
    for item in chosen:
        data = results.load(item.path, store.OUTCOMES)
        names = data.predicted.values.astype(str)
        queries = data.queries.values if "queries" in data else np.full(data.sizes["image"], -1)
        columns = {
            "image": data.image.values.astype("i4"),
            "label": names[data.truth.values],
            "prediction": names[data.prediction.values],
            "correct": ~data.misclassified.values,
            "distance": data.distance.values,
            "queries": pd.arrays.IntegerArray(queries.astype("i4"), queries < 0),
        }
        tables.append(pd.DataFrame(columns))
    images = pd.concat(tables or [pd.DataFrame(columns=IMAGE_COLUMNS)], ignore_index=True)
    runs = _categories(pd.DataFrame([description_columns(item) for item in chosen], columns=RUN_COLUMNS))
    repeated = runs.loc[np.repeat(np.arange(len(runs)), [len(table) for table in tables])].reset_index(drop=True)
    return pd.concat([repeated, _categories(images)], axis="columns")


def _categories(table: pd.DataFrame) -> pd.DataFrame:
    return table.astype({name: "category" for name in table if not pd.api.types.is_numeric_dtype(table[name])})


def catalogue(items: list[Stored]) -> pd.DataFrame:
    """Return a row for each file of the archive: which run and evaluation it is of, its origin, its size and checksum."""
    rows = []
    for item in items:
        content = item.path.read_bytes()
        with h5py.File(io.BytesIO(content)) as file:
            origin = {name: str(file.attrs.get(name, "")) for name in FILE_COLUMNS}
        size = {"file": _inside(item.path), "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        rows.append(origin | description_columns(item) | size)
    return pd.DataFrame(rows, columns=["file", *RUN_COLUMNS, *FILE_COLUMNS[1:]])


def _inside(path: Path) -> str:
    return path.relative_to(data_folder()).as_posix()


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return a zip file of contents by their names; equal contents give equal bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as file:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            file.writestr(entry, files[name])
    return content.getvalue()


def file_names() -> dict[str, str]:
    """Return the names of the files with the version of the package by their short names."""
    return {name: f"classwise-{name.replace('.', f'-{classwise.__version__}.', 1)}" for name in NAMES}


def write_files(scale: str, folder: Path) -> bool:
    """Write all results of the book of a scale to a folder, with their checksums; return whether anything had changed."""
    items, names, explained = stored_results(scale), file_names(), dictionary().to_csv(index=False).encode()
    code, texts = [Path(__file__), Path(results.__file__)], _texts()
    described = [(_inside(item.path), item.scale) for item in items], names
    made_from = digest([repr(described), *(item.path for item in items), *code, explained, *texts.values()])
    mark = folder / ".inputs"
    complete = all((folder / name).exists() for name in (*names.values(), CHECKSUMS))
    if complete and mark.exists() and mark.read_text() == made_from:
        return False
    mark.unlink(missing_ok=True)  # first: a call that is stopped below leaves files that no longer fit it
    tables = {"dictionary.csv": explained, "catalogue.csv": catalogue(items).to_csv(index=False).encode()}
    inside = {_inside(item.path): item.path.read_bytes() for item in items} | tables | texts
    contents = {
        **tables,
        "results.zip": archive({**inside, CHECKSUMS: _checksums(inside)}),
        "outcomes.parquet": outcomes(items).to_parquet(engine="pyarrow", compression="zstd", index=False),
    }
    for old in folder.glob("classwise-*"):
        old.unlink()
    for name, content in contents.items():
        write(folder / names[name], content)
    write(folder / CHECKSUMS, _checksums({names[name]: contents[name] for name in names}))
    write(mark, made_from.encode())
    return True


def _texts() -> dict[str, bytes]:
    places = {"CITATION.cff": "CITATION.cff", "LICENSE": "LICENSE", "SOURCES.md": "book/licence.md"}
    return {name: (checkout() / place).read_bytes() for name, place in places.items()}


def _checksums(files: Mapping[str, bytes]) -> bytes:
    return "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items()).encode()


def page(folder: Path) -> str:
    """Return in Markdown the page that offers the files of a folder, with their dictionary: book/data.md, filled in."""
    names = file_names()
    listed = pd.read_csv(folder / names["catalogue.csv"], usecols=["file", "run", "schema"])
    evaluations = int((listed.schema == store.OUTCOMES).sum())
    summary = f"All results of this book, version {classwise.__version__}: {listed.run.nunique()} runs and {evaluations} "
    parts = {
        "summary": summary + "evaluations, on digits and, as far as they are recorded, on CIFAR-10.",
        "files": _offered(folder),
        "python": _READING.format(*names.values(), first=listed.file[listed.schema == store.OUTCOMES].iloc[0]),
        "licence": _texts()["SOURCES.md"].decode().strip(),
        "checksums": f"```text\n{(folder / CHECKSUMS).read_text().strip()}\n```",
        "dictionary": _explained(),
    }
    text = (checkout() / "book" / "data.md").read_text(encoding="utf-8")
    return re.sub(r"<!-- (\w+) -->", lambda place: parts[place[1]], text)


def _offered(folder: Path) -> str:
    lines = ["| file | size | what is in it |", "|---|---|---|"]
    for name, meaning in zip((*file_names().values(), CHECKSUMS), (*NAMES.values(), "the checksums below"), strict=True):
        size = (folder / name).stat().st_size
        words = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB" if size >= 1e3 else f"{size} bytes"
        lines.append(f'| <a href="data/{name}" download>{name}</a> | {words} | {meaning} |')
    return "\n".join(lines)


def _explained() -> str:
    parts = []
    for file, group in dictionary().replace(r"\|", "or", regex=True).groupby("file", sort=False):
        rows = [f"| `{row.field}` | {row.unit} | {row.meaning} | {row.source} |" for row in group.itertuples()]
        head = ["| field | unit | meaning | source |", "|---|---|---|---|"]
        parts += [f":::{{dropdown}} {str(file)[0].upper()}{str(file)[1:]}", "\n".join([*head, *rows]), ":::"]
    return "\n\n".join(parts)


def column_names(columns: Collection[object]) -> dict[str, str]:
    """Return by the name of a column of a chart that of the files of figures, "" if it is left out, where they differ.

    columns: all columns of the chart.
    """
    names = [(*one.partition(" if "), row["field"]) for row in _ROWS if row["drawn"] for one in row["drawn"].split("; ")]
    always = {old: new for old, _, other, new in names if not other}
    return always | {old: new for old, _, other, new in names if other in columns}


def field_meanings(cls: type) -> dict[str, str]:
    """Return the meaning of each field of a dataclass from its docstring."""
    text = (cls.__doc__ or "").partition("----------\n")[2]
    entries = re.findall(r"^ {4}([a-z][a-z_, ]*)\n((?: {8}.+\n?)+)", text, re.MULTILINE)
    return {name.strip(): " ".join(lines.split()) for names, lines in entries for name in names.split(",")}


def dictionary() -> pd.DataFrame:
    """Return the data dictionary, with the columns file, field, unit, meaning and source."""
    known = {"Spec": field_meanings(Spec), "Evaluation": field_meanings(Evaluation)}
    others = results.COORDINATES | results.ATTRIBUTES
    others |= {name: variable.meaning for name, variable in results.SCHEMAS["outcomes 1"].items()}
    rows = []
    for row in (row for row in _ROWS if row["field"]):
        meaning = row["meaning"] or known.get(row["source"], others)[row["field"]]
        rows.append((_FILES[row["role"]], row["field"], row["unit"], meaning, row["source"] or "chart"))
    for schema, variables in results.SCHEMAS.items():
        optional = results.OPTIONAL.get(schema, {})
        for name, variable in {**variables, **optional}.items():
            meaning = f"{variable.meaning}{' (not in all files)' if name in optional else ''}; along {', '.join(variable.dims)}"
            stored = results.STORED_NAMES.get(name, name)
            meaning += "" if stored == name else f"; classwise reads it as `{name}`"
            rows.append((f"{schema} (netCDF)", stored, variable.unit, meaning, "core/results.py"))
    for kind, meanings in (("coordinates", results.COORDINATES), ("attributes", results.ATTRIBUTES)):
        rows += [(f"{kind} (netCDF)", name, "", meaning, "core/results.py") for name, meaning in meanings.items()]
    return pd.DataFrame(rows, columns=["file", "field", "unit", "meaning", "source"])
