"""Archives of finished runs: packed where they were computed, checked and unpacked to data/recorded/ elsewhere."""

import hashlib
import io
import json
import os
import re
import secrets
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr

import classwise
from classwise.core import files, results
from classwise.core.errors import UserError
from classwise.core.files import write
from classwise.core.identity import TRAINING_VERSION
from classwise.core.paths import data_folder
from classwise.core.results import Damaged
from classwise.core.spec import Evaluation, Spec
from classwise.runs import store
from classwise.runs.store import Key

FORMAT, MANIFEST = "classwise recorded 1", "manifest.json"
# Which weights are packed: none, the last ones, or those of all checkpoints that are evaluated.
Weights = Literal["none", "last", "full"]
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9@._+-]*")
# Files that the book shows: their folders within that of the run, and their schemas.
SHOWN = {store.PLACES[schema]: schema for schema in (store.EXAMPLES, store.TRACE, store.FEATURES)}
_FILE = re.compile(
    r"spec\.json|history\.nc|rebuilt\.nc|(?:outcomes|examples|courses|features-2)/[A-Za-z0-9][A-Za-z0-9@._+-]*\.nc|weights(?:-[a-z0-9-]+)?\.safetensors"
)
_LARGEST = 1 << 30
# Logits are packed under these attacks, of the last weights, at the radius of the training.
WITH_LOGITS = ("clean", "pgd-20", "temperature-pgd-20")
# Of an import at work: the folder of unpacked files, and the suffix of a run that is being replaced.
_STAGED, _REPLACED = ".import-", ".replaced"


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _archives(folder: Path) -> list[Path]:
    numbered = (path for path in folder.glob("recorded-*.tar") if path.stem.removeprefix("recorded-").isdigit())
    return sorted(numbered, key=_number)


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("recorded-"))


def contents(folder: Path, *, full_weights: bool = False) -> list[tuple[str, frozenset[str]]]:
    """Return the runs in the archives of a folder, each with the names of its evaluations; or only those with full weights."""
    manifests = [_manifest(path) for path in _archives(folder)]
    return [
        (run, frozenset(entry["evaluations"]))
        for manifest in manifests
        for run, entry in manifest["runs"].items()
        if store.WEIGHTS in entry["files"] or not full_weights
    ]


def pack(
    runs: Iterable[tuple[Spec, Sequence[Evaluation]]],
    folder: Path,
    *,
    weights: Weights = "none",
    repair: bool = True,
    say: Callable[[str], None] = print,
) -> Path | None:
    """Write finished runs to the next archive of a folder and return it; None if there are none.

    Equal runs make equal bytes. A damaged file is set aside, unless not `repair`, and its run left out; `say` is called with a
    line about it.
    """
    files: dict[str, bytes] = {}
    manifest: dict[str, Any] = {}
    for spec, evaluations in runs:
        problem = _problem(spec, evaluations, repair=repair)
        if problem:
            say(f"not packed: {problem}")
            continue
        content = _content(spec, evaluations, weights)
        sums = {name: _sum(value) for name, value in sorted(content.items())}
        names = sorted(evaluation.name for evaluation in evaluations)
        manifest[spec.relative_path] = {"id": spec.id, "evaluations": names, "files": sums}
        files |= {f"{spec.relative_path}/{name}": value for name, value in content.items()}
    if not manifest:
        return None
    head = {
        "format": FORMAT,
        "recipe": TRAINING_VERSION,
        "schemas": [store.HISTORY, store.OUTCOMES, *SHOWN.values(), store.REBUILT],
        "runs": manifest,
    }
    head |= {"version": classwise.__version__, "commit": store.commit()}
    files = {MANIFEST: json.dumps(head, indent=1, sort_keys=True).encode(), **dict(sorted(files.items()))}
    return _write_next(folder, _tar(files))


def _problem(spec: Spec, evaluations: Sequence[Evaluation], *, repair: bool) -> str:
    """Return why a run cannot be packed, "" if it can; `repair` sets damaged files aside."""
    try:
        keys = [Key(spec), *(Key(spec, store.OUTCOMES, one) for one in evaluations)]
        if any(key.read(repair=repair) is None for key in keys):
            return f"{spec.name} has a damaged file, which is set aside and computed again by the next call"
    except Damaged as error:
        return str(error)
    return ""


def _content(spec: Spec, evaluations: Sequence[Evaluation], weights: Weights) -> dict[str, bytes]:
    """Return the files of a run to pack, by their names in its folder."""
    folder = store.results_folder(spec)
    content = {"spec.json": f"{spec.json()}\n".encode(), "history.nc": (folder / "history.nc").read_bytes()}
    rebuilt = folder / Key(spec, store.REBUILT).name
    content |= {rebuilt.name: rebuilt.read_bytes()} if rebuilt.exists() else {}
    content |= {f"outcomes/{one.name}.nc": _outcomes(spec, one) for one in evaluations}
    for kind in SHOWN:
        content |= {f"{kind}/{file.name}": file.read_bytes() for file in sorted((folder / kind).glob("*.nc"))}
    if weights != "none":
        names = dict.fromkeys(("last", *(one.checkpoint for one in evaluations if weights == "full")))
        paths = [store.weights(spec, name) for name in names]
        content |= {path.name: store.verified(path) for path in paths if path is not None}
    return content


def _outcomes(spec: Spec, evaluation: Evaluation) -> bytes:
    """Return a file of outcomes, without the logits that no page or claim reads: they are most of it."""
    path, plain = Key(spec, store.OUTCOMES, evaluation).file, spec.evaluation_of().resolved_for(spec)
    same = ("checkpoint", "eps", "norm", "transform", "substitute")
    usual = all(getattr(evaluation, name) == getattr(plain, name) for name in same)
    if usual and evaluation.attack.split("@")[0] in WITH_LOGITS:
        return path.read_bytes()
    data = results.load(path, store.OUTCOMES)
    return results.encoded(data.assign(logits=xr.full_like(data.logits, np.nan)), store.OUTCOMES)


def _write_next(folder: Path, packed: bytes) -> Path:
    """Write an archive under the next free number; another call may write at the same time."""
    part = folder / f".{secrets.token_hex(8)}.part"  # as `files.write` names what a killed call leaves
    try:
        write(part, packed)
        while True:
            path = folder / f"recorded-{max(map(_number, _archives(folder)), default=0) + 1}.tar"
            with suppress(FileExistsError):
                os.link(part, path)
                return path
    finally:
        part.unlink(missing_ok=True)


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of an archive, after checking its form; a UserError names the archive."""
    try:
        with tarfile.open(path, "r:") as tar:
            member = tar.next()
            if member is None or member.name != MANIFEST or not member.isreg() or member.size > _LARGEST:
                raise UserError(f"{path} is no archive of `classwise record`: it does not begin with {MANIFEST}")
            file = tar.extractfile(member)
            assert file is not None
            manifest = json.loads(file.read())
        if manifest["format"] != FORMAT:
            raise UserError(f"{path} is of the format {manifest['format']!r}; this version reads {FORMAT!r}")
        if manifest["recipe"] != TRAINING_VERSION:
            raise UserError(
                f"{path} was computed by training version {manifest['recipe']}, this is version {TRAINING_VERSION}: "
                "its results are of other trainings; record them again"
            )
        for entry in manifest["runs"].values():
            if not isinstance(entry["evaluations"], list) or not isinstance(entry["files"], dict):
                raise TypeError("a run without its evaluations and files")
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"there is no archive {path}") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder; name an archive of `classwise record` in it") from None
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UserError(f"{path} is no archive of `classwise record`, or cut short ({error})") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} has a damaged {MANIFEST} ({type(error).__name__}: {error})") from None
    return dict(manifest)


def _files(path: Path, manifest: Mapping[str, Any]) -> dict[str, dict[str, bytes]]:
    """Return the files of each run in an archive, after checking all names and checksums."""
    wanted: dict[str, str] = {}
    for run, entry in manifest["runs"].items():
        parts = run.split("/")
        if len(parts) != 3 or not all(_PART.fullmatch(part) for part in parts):
            raise UserError(f"{path} names a run {run!r}: expected dataset/model/defence-id, nothing is written")
        for name, total in entry["files"].items():
            if not _FILE.fullmatch(name):
                raise UserError(f"{path} names a file {name!r} in {run}: no run has such a file, nothing is written")
            wanted[f"{run}/{name}"] = total
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                if member.name == MANIFEST and not contents:
                    continue
                if member.name not in wanted or member.name in contents or not member.isreg() or member.size > _LARGEST:
                    raise UserError(f"{path} holds {member.name!r}, which its {MANIFEST} does not name; nothing is written")
                file = tar.extractfile(member)
                assert file is not None
                contents[member.name] = file.read()
                if _sum(contents[member.name]) != wanted[member.name]:
                    raise UserError(f"{path} is damaged: the checksum of {member.name} is not the one in its {MANIFEST}")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UserError(f"{path} is cut short or damaged ({error})") from None
    lost = sorted(set(wanted) - set(contents))
    if lost:
        raise UserError(f"{path} is cut short: {lost[0]} is missing")
    runs = manifest["runs"].items()
    return {run: {name: contents[f"{run}/{name}"] for name in entry["files"]} for run, entry in runs}


def _check_run(path: Path, run: str, entry: Mapping[str, Any], folder: Path) -> None:
    """Raise a UserError unless the unpacked files of a run are results of the run and the evaluations that their names say."""
    try:
        text = (folder / "spec.json").read_text()
        spec = Spec.from_json(text)
        if spec.relative_path != run or json.loads(text).get("recipe") != TRAINING_VERSION:
            raise Damaged(f"its spec is that of {spec.relative_path}, training version {json.loads(text).get('recipe')}")
        Key(spec).load(folder / "history.nc")
        if (folder / "rebuilt.nc").exists():
            Key(spec, store.REBUILT).load(folder / "rebuilt.nc")
        names = sorted(file.stem for file in (folder / "outcomes").glob("*.nc"))
        if names != sorted(entry["evaluations"]):
            raise Damaged(f"it holds {', '.join(names)} instead of {', '.join(entry['evaluations'])}")
        for name in names:
            data = results.load(folder / "outcomes" / f"{name}.nc", store.OUTCOMES)
            evaluation = Evaluation.from_json(data.attrs["evaluation"])
            if evaluation.name != name or evaluation.resolved_for(spec) != evaluation:
                raise Damaged(f"{name}.nc holds {evaluation.name}")
            Key(spec, store.OUTCOMES, evaluation).load(folder / "outcomes" / f"{name}.nc")
        for file in sorted(folder.glob("*.safetensors")):
            _check_weights(file)
        for kind, schema in SHOWN.items():
            for file in sorted((folder / kind).glob("*.nc")):
                evaluation = Evaluation.from_json(results.load(file, schema).attrs["evaluation"])
                Key(spec, schema, evaluation).load(folder / kind / f"{evaluation.name}.nc")
    except (ValueError, TypeError, KeyError, OSError) as error:
        reason = str(error).replace(f"{folder}/", "").split("; delete it")[0]
        raise UserError(f"{path} is refused: {run}: {reason}; nothing is written") from None


def _check_weights(path: Path) -> None:
    """Raise Damaged unless a file can be read as weights."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            names = list(file.keys())
    except (SafetensorError, OSError) as error:
        raise Damaged(f"{path} cannot be read as weights ({error})") from error
    if not names:
        raise Damaged(f"{path} holds no weights")


def unpack(path: Path) -> tuple[list[str], list[str]]:
    """Check an archive and move its runs to data/recorded/; return those that are new or have new results, and the others.

    Everything is checked before anything is moved, and each run is moved as one. A recorded run of another training is replaced
    only by one with at least the same evaluations. A UserError names the archive and what is wrong with it.
    """
    manifest = _manifest(path)
    files, root = _files(path, manifest), data_folder() / "recorded"
    with tempfile.TemporaryDirectory(prefix="classwise-") as place:
        for run, content in files.items():
            _write_run(Path(place) / run, content)
            _check_run(path, run, manifest["runs"][run], Path(place) / run)
    root.mkdir(parents=True, exist_ok=True)
    with store.lock(root):  # another call may import as well
        _recover(root)
        new = [run for run, content in files.items() if not _is_recorded(path, root / run, content)]
        with tempfile.TemporaryDirectory(prefix=_STAGED, dir=root) as staged:
            for run in new:
                _write_run(Path(staged) / run, files[run])
                _move(Path(staged) / run, root / run, manifest["runs"][run]["files"])
    return new, [run for run in files if run not in new]


def _write_run(folder: Path, content: Mapping[str, bytes]) -> None:
    for name, value in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(value)


def _recover(root: Path) -> None:
    """Undo what an import that was killed left behind: a run set aside but not replaced returns, unpacked files go.

    The caller holds the lock of `root`, so no other import is at work.
    """
    for aside in root.glob(f"*/*/*{_REPLACED}"):
        folder = aside.with_name(aside.name.removesuffix(_REPLACED))
        if folder.exists():
            shutil.rmtree(aside)
        else:
            os.replace(aside, folder)
    for staged in root.glob(f"{_STAGED}*"):
        shutil.rmtree(staged)


def _sums(folder: Path) -> dict[str, str]:
    """Return the checksums of a recorded run by file; {} if there are none, or the file is damaged."""
    try:
        return {str(name): str(value) for name, value in json.loads((folder / store.CHECKSUMS).read_text()).items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _write_sums(folder: Path, sums: Mapping[str, str]) -> None:
    write(folder / store.CHECKSUMS, f"{json.dumps(dict(sorted(sums.items())), indent=1)}\n".encode())


def add_checksums(spec: Spec) -> None:
    """Add the checksums of results that were computed in the folder of a recorded run."""
    folder = store.recorded(spec)
    with store.lock(data_folder() / "recorded"):
        _add_missing_sums(folder)


def _add_missing_sums(folder: Path) -> None:
    known = _sums(folder)
    paths = [path for kind in ("outcomes", *SHOWN) for path in (folder / kind).glob("*.nc")]
    added = {name: path for path in paths if (name := f"{path.parent.name}/{path.name}") not in known}
    if added and known:
        _write_sums(folder, known | {name: _sum(path.read_bytes()) for name, path in added.items()})


def _is_recorded(path: Path, folder: Path, content: Mapping[str, bytes]) -> bool:
    """Return whether a recorded run has all these files already; a UserError if other evaluations would be lost.

    A file there that differs from its own checksum is damaged and counts as missing.
    """
    sums = _sums(folder)
    present = {name: (folder / name).read_bytes() for name in content if (folder / name).exists()}
    other = sorted(name for name, value in present.items() if value != content[name])
    damaged = {name for name in other if name in sums and _sum(present[name]) != sums[name] == _sum(content[name])}
    other = [name for name in other if name not in damaged]
    if not other:
        known = all(sums.get(name) == _sum(value) for name, value in content.items())
        return len(present) == len(content) and not damaged and known
    kept = {f"outcomes/{file.name}" for file in (folder / "outcomes").glob("*.nc")}
    kept |= {store.WEIGHTS} if (folder / store.WEIGHTS).exists() else set()
    if "history.nc" in other and kept <= set(content):
        return False
    raise UserError(
        f"{path} holds another {other[0]} of {folder.name} than {folder}, and not all that is recorded there; "
        "remove that folder to import this one; nothing is written"
    )


def _move(staged: Path, folder: Path, sums: Mapping[str, str]) -> None:
    """Move a run into place with its checksums: its folder if it is new or of another training, else file by file."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    history, known = folder / "history.nc", _sums(folder)
    same = history.exists() and sums["history.nc"] in (_sum(history.read_bytes()), known.get("history.nc"))
    _write_sums(staged, {**(known if same else {}), **sums})
    if same:
        # The checksums last: what is interrupted is imported by the next call.
        for file in sorted(staged.rglob("*"), key=lambda file: (file.name == store.CHECKSUMS, file)):
            if file.is_file():
                files.write(folder / file.relative_to(staged), file.read_bytes())
        return
    if not folder.exists():
        os.replace(staged, folder)
        return
    aside = folder.with_name(f"{folder.name}{_REPLACED}")
    os.replace(folder, aside)
    try:
        os.replace(staged, folder)
    except OSError:
        os.replace(aside, folder)
        raise
    shutil.rmtree(aside)
