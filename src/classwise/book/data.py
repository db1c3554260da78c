"""All results of the book as files to download: an archive of netCDF, a Parquet file of outcomes, a catalogue, checksums."""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pandas as pd

import classwise
from classwise.book import dictionary
from classwise.core import results
from classwise.core.files import write
from classwise.core.identity import radius_value
from classwise.core.paths import checkout, data_folder
from classwise.core.spec import Evaluation, Spec
from classwise.papers import registry
from classwise.papers.scales import also_read
from classwise.runs import convergence, store
from classwise.runs.recorded import recorded_part
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
# The date of all entries of an archive, the first that the format has: equal contents give equal bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


class Stored(NamedTuple):
    """A stored result of the book: its file and scale, its training unless it is of several, its evaluation where it has one."""

    path: Path
    scale: str
    spec: Spec | None = None
    evaluation: Evaluation | None = None


def stored(scale: str) -> list[Stored]:
    """Return every stored result of the sections of the book, and comparisons of epochs, in the order of their paths."""
    result: dict[Path, Stored] = {}
    for name in (scale, *also_read(scale)):
        for section in registry.SECTIONS:
            request = registry.request(section, name)
            present = {spec for spec, _ in recorded_part(request).pairs}
            # Traces may be stored of evaluations whose outcomes are not.
            for spec, evaluations in (pair for pair in request.pairs if pair[0] in present):
                for item in _of_run(spec, name, evaluations):
                    result.setdefault(item.path, item)
        compared = convergence.path(name)
        if compared.exists():
            result[compared] = Stored(compared, name)
    return sorted(result.values())


def _of_run(spec: Spec, scale: str, evaluations: tuple[Evaluation, ...]) -> Iterator[Stored]:
    keys = [Key(spec), *(Key(spec, kind, one) for one in evaluations for kind in store.UNDER_EVALUATIONS)]
    yield from (Stored(path, scale, spec, key.evaluation) for key in keys if (path := key.path) is not None)


def about(item: Stored) -> dict[str, Any]:
    """Return the columns of the catalogue and of the outcomes that say which run and evaluation a result is of."""
    spec, evaluation = item.spec, item.evaluation
    values: dict[str, Any] = {"scale": item.scale}
    if spec is not None:
        values |= {"run": spec.id, **{name: getattr(spec, name) for name in ("dataset", "model", "defence", "seed")}}
    if evaluation is not None:
        values |= {name: getattr(evaluation, name) for name in ("attack", "norm", "split", "checkpoint", "transform")}
        values |= {"evaluation": evaluation.id, "attack_options": json.dumps(dict(evaluation.options), sort_keys=True)}
        values |= {"eps": radius_value(str(evaluation.eps)), "substitute": evaluation.substitute or ""}
    return {name: values.get(name, np.nan if name == "eps" else "") for name in dictionary.RUN_COLUMNS}


def _rows(path: Path) -> pd.DataFrame:
    """Return a row for each image of an outcome."""
    data = results.load(path, store.OUTCOMES)
    names = data.predicted.values.astype(str)
    queries = data.queries.values if "queries" in data else np.full(data.sizes["image"], -1)
    columns = {
        "image": data.image.values.astype("i4"),
        "label": names[data.truth.values],
        "prediction": names[data.answer.values],
        "correct": ~data.flipped.values,
        "distance": data.distance.values,
        "queries": pd.arrays.IntegerArray(queries.astype("i4"), queries < 0),
    }
    return pd.DataFrame(columns)


def outcomes(items: list[Stored]) -> pd.DataFrame:
    """Return every prediction of the book: one row for each image and evaluation, with the columns of the dictionary."""
    chosen = [item for item in items if item.path.parent.name == store.PLACES[store.OUTCOMES]]
    tables = [_rows(item.path) for item in chosen]
    images = pd.concat(tables or [pd.DataFrame(columns=[*dictionary.IMAGE_COLUMNS])], ignore_index=True)
    runs = _categories(pd.DataFrame([about(item) for item in chosen], columns=[*dictionary.RUN_COLUMNS]))
    repeated = runs.loc[np.repeat(np.arange(len(runs)), [len(table) for table in tables])].reset_index(drop=True)
    return pd.concat([repeated, _categories(images)], axis="columns")


def _categories(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose columns of text are categories."""
    return table.astype({name: "category" for name in table if not pd.api.types.is_numeric_dtype(table[name])})


def _attributes(path: Path) -> dict[str, str]:
    with h5py.File(path) as file:
        return {name: str(file.attrs.get(name, "")) for name in ("schema", "version", "commit", "torch", "device", "created")}


def catalogue(items: list[Stored]) -> pd.DataFrame:
    """Return a row for each file of the archive: which run and evaluation it is of, its origin, its size and checksum."""
    rows = []
    for item in items:
        content = item.path.read_bytes()
        size = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        rows.append({"file": _inside(item.path), **about(item), **_attributes(item.path), **size})
    return pd.DataFrame(rows, columns=["file", *dictionary.RUN_COLUMNS, *list(dictionary.FILE_COLUMNS)[1:]])


def _inside(path: Path) -> str:
    """Return the path of a result in the archive, which is that below the data folder."""
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
    items, names, tables = stored(scale), file_names(), {"dictionary.csv": dictionary.table().to_csv(index=False).encode()}
    mark, digest = folder / ".inputs", _digest(items, tables["dictionary.csv"])
    complete = all((folder / name).exists() for name in (*names.values(), CHECKSUMS))
    if complete and mark.exists() and mark.read_text() == digest:
        return False
    mark.unlink(missing_ok=True)  # first: a call that is stopped below leaves files that no longer fit it
    tables["catalogue.csv"] = catalogue(items).to_csv(index=False).encode()
    inside = {_inside(item.path): item.path.read_bytes() for item in items} | tables | _texts()
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
    write(mark, digest.encode())
    return True


def _digest(items: list[Stored], explained: bytes) -> str:
    """Return a digest of all that the files are made from; `explained` is the data dictionary."""
    digest = hashlib.sha256(repr([[(_inside(item.path), item.scale) for item in items], file_names()]).encode())
    code = (Path(__file__).read_bytes(), Path(results.__file__).read_bytes())
    for content in (*(item.path.read_bytes() for item in items), *code, explained, *_texts().values()):
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()


def _texts() -> dict[str, bytes]:
    """Return the texts of the archive by their names: how to cite it, and under which terms it is."""
    places = {"CITATION.cff": checkout() / "CITATION.cff", "LICENSE": checkout() / "LICENSE", "SOURCES.md": _licence()}
    return {name: place.read_bytes() for name, place in places.items()}


def _licence() -> Path:
    return checkout() / "book" / "licence.md"


def _checksums(files: Mapping[str, bytes]) -> bytes:
    """Return the checksums of contents by their names, as sha256sum writes them."""
    return "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items()).encode()


def reading(folder: Path) -> str:
    """Return lines of Python that read the files of a folder with pandas and xarray."""
    names = file_names()
    listed = pd.read_csv(folder / names["catalogue.csv"], usecols=["file", "schema"])
    first = listed.loc[listed.schema == store.OUTCOMES, "file"].iloc[0]
    return "\n".join(
        [
            "import pandas, xarray, zipfile",
            "",
            f'outcomes = pandas.read_parquet("{names["outcomes.parquet"]}")  # with pyarrow',
            f'file = zipfile.Path("{names["results.zip"]}", "{first}")',
            'result = xarray.open_dataset(file.open("rb"), engine="h5netcdf")',
        ]
    )


def page(folder: Path) -> str:
    """Return in Markdown the page that offers the files of a folder, with their dictionary: book/data.md, filled in."""
    listed = pd.read_csv(folder / file_names()["catalogue.csv"], usecols=["run", "schema"])
    evaluations = int((listed.schema == store.OUTCOMES).sum())
    summary = f"All results of this book, version {classwise.__version__}: {listed.run.nunique()} trainings and {evaluations} "
    parts = {
        "summary": summary + "evaluations of them: on digits, and on CIFAR-10 as far as they are recorded.",
        "files": _offered(folder),
        "python": f"```python\n{reading(folder)}\n```",
        "licence": _licence().read_text(encoding="utf-8").strip(),
        "checksums": f"```text\n{(folder / CHECKSUMS).read_text().strip()}\n```",
        "dictionary": _explained(),
    }
    text = (checkout() / "book" / "data.md").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def _offered(folder: Path) -> str:
    """Return a table of links to the files of a folder, with their sizes."""
    offered = {file_names()[name]: meaning for name, meaning in NAMES.items()} | {CHECKSUMS: "the checksums below"}
    rows = [
        f'| <a href="data/{name}" download>{name}</a> | {_size(folder / name)} | {meaning} |' for name, meaning in offered.items()
    ]
    return "\n".join(["| file | size | what is in it |", "|---|---|---|", *rows])


def _explained() -> str:
    """Return a folded table of the fields of each kind of file."""
    parts = []
    for file, group in dictionary.table().groupby("file", sort=False):
        rows = [f"| `{row.field}` | {row.unit} | {_plain(row.meaning)} | {_plain(row.source)} |" for row in group.itertuples()]
        head = ["| field | unit | meaning | source |", "|---|---|---|---|"]
        parts += [f":::{{dropdown}} {str(file)[0].upper()}{str(file)[1:]}", "\n".join([*head, *rows]), ":::"]
    return "\n\n".join(parts)


def _plain(text: object) -> str:
    return str(text).replace("|", "or")


def _size(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB" if size >= 1e3 else f"{size} bytes"
