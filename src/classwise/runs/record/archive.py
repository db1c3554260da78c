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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr
from safetensors import SafetensorError, safe_open

import classwise
from classwise.core import results
from classwise.core.errors import UserError
from classwise.core.files import write
from classwise.core.identity import TRAINING_VERSION
from classwise.core.paths import data_folder
from classwise.core.results import Damaged
from classwise.core.spec import Evaluation, Spec
from classwise.runs import store

FORMAT, MANIFEST = "classwise recorded 1", "manifest.json"
# Which weights are packed: none, the last ones, or those of all checkpoints that are evaluated.
Weights = Literal["none", "last", "full"]
# Logits are packed under these attacks, of the last weights, at the radius of the training.
WITH_LOGITS = ("clean", "pgd-20", "temperature-pgd-20")
# The kinds of results by the file, or by the folder of one for each evaluation, in the folder of a run.
_KINDS = {place: kind for kind, place in store.PLACES.items()}
# What an archive may hold.
_PART, _FOLDERS = r"[A-Za-z0-9][A-Za-z0-9@._+-]*", "|".join(store.UNDER_EVALUATIONS.values())
_FILE = rf"spec\.json|history\.nc|rebuilt\.nc|weights(?:-[a-z0-9-]+)?\.safetensors|(?:{_FOLDERS})/{_PART}\.nc"
_MEMBER = re.compile(rf"{_PART}/{_PART}/{_PART}/(?:{_FILE})")
# The size of a file of a run in bytes, at most: a tiny archive may claim terabytes.
_LARGEST = 1 << 30
# The folder of an import at work.
_STAGED = ".import-"


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _archives(folder: Path) -> dict[int, Path]:
    """Return the archives of a folder by their numbers, in order."""
    numbers = {path.stem.removeprefix("recorded-"): path for path in folder.glob("recorded-*.tar")}
    return dict(sorted((int(number), path) for number, path in numbers.items() if number.isdigit()))


def contents(folder: Path, *, full_weights: bool = False) -> list[tuple[str, frozenset[str]]]:
    """Return the runs in the archives of a folder, each with the names of its evaluations; or only those with full weights."""
    runs = [item for path in _archives(folder).values() for item in _runs(path).items()]
    return [(run, frozenset(entry["evaluations"])) for run, entry in runs if not full_weights or store.WEIGHTS in entry["files"]]


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
    line about it, and about the archive.
    """
    members: dict[str, bytes] = {}
    entries: dict[str, Any] = {}
    for spec, evaluations in runs:
        try:
            content = _content(spec, evaluations, weights, repair=repair)
        except Damaged as error:
            say(f"not packed: {error}")
            continue
        names, sums = sorted(one.name for one in evaluations), {name: _sum(value) for name, value in content.items()}
        entries[spec.relative_path] = {"id": spec.id, "evaluations": names, "files": sums}
        members |= {f"{spec.relative_path}/{name}": value for name, value in content.items()}
    if not entries:
        return None
    manifest = {"format": FORMAT, "recipe": TRAINING_VERSION, "schemas": list(store.PLACES), "runs": entries}
    manifest |= {"version": classwise.__version__, "commit": store.commit()}
    head = json.dumps(manifest, indent=1, sort_keys=True).encode()
    part = folder / f".{secrets.token_hex(8)}.part"  # as `files.write` names what a killed call leaves
    try:
        write(part, _tar({MANIFEST: head, **dict(sorted(members.items()))}))
        while True:  # another call may write at the same time
            path = folder / f"recorded-{max(_archives(folder), default=0) + 1}.tar"
            with suppress(FileExistsError):
                os.link(part, path)
                say(f"packed {len(entries)} runs into {path} ({path.stat().st_size / 1e6:.1f} MB)")
                return path
    finally:
        part.unlink(missing_ok=True)


def _content(
    spec: Spec, evaluations: Sequence[Evaluation], weights: Weights, further: Sequence[str] = (), *, repair: bool = True
) -> dict[str, bytes]:
    """Return the files of a run by their names in its folder; Damaged if one is, which `repair` sets aside.

    further: checkpoints of which the weights are among them, too.
    """
    if any(key.read(repair=repair) is None for key in store.outcomes_of([(spec, evaluations)])):
        raise Damaged(f"{spec.name} has a damaged file, which is set aside and computed again by the next call")
    folder = store.results_folder(spec)
    shown = [folder / store.PLACES[kind] for kind in (store.EXAMPLES, store.TRACE, store.FEATURES)]
    paths = [folder / "history.nc", *folder.glob("rebuilt.nc"), *(path for place in shown for path in place.glob("*.nc"))]
    content = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    content |= {f"outcomes/{one.name}.nc": _outcomes(spec, one) for one in evaluations}
    names = dict.fromkeys(("last", *(one.checkpoint for one in evaluations if weights == "full"))) if weights != "none" else ()
    stored = [store.weights(spec, name) for name in dict.fromkeys((*names, *further))]
    content |= {path.name: store.read_verified(path) for path in stored if path is not None}
    return content | {"spec.json": f"{spec.json()}\n".encode()}


def _outcomes(spec: Spec, evaluation: Evaluation) -> bytes:
    """Return a file of outcomes, without the logits that no page or claim reads: they are most of it."""
    path, plain = store.Key(spec, store.OUTCOMES, evaluation).file, spec.evaluation_of().resolve_for(spec)
    same = ("checkpoint", "eps", "norm", "transform", "substitute")
    usual = all(getattr(evaluation, name) == getattr(plain, name) for name in same)
    if usual and evaluation.attack.split("@")[0] in WITH_LOGITS:
        return path.read_bytes()
    data = results.load(path, store.OUTCOMES)
    return results.encode(data.assign(logits=xr.full_like(data.logits, np.nan)), store.OUTCOMES)


def _tar(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an archive, each with its name; a UserError names an archive that cannot be read."""
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isreg() and member.size <= _LARGEST else None
                if file is None:
                    raise UserError(f"{path} holds {member.name!r}, which is no file, or larger than 1 GiB; nothing is written")
                yield member.name, file.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UserError(f"{path} is no archive of `classwise record`, or cut short ({error}); nothing is written") from None


def _runs(path: Path) -> dict[str, Any]:
    """Return the runs in the manifest of an archive, after checking its form and all names; a UserError names the archive."""
    name, content = next(_members(path), ("", b""))
    if name != MANIFEST:
        raise UserError(f"{path} is no archive of `classwise record`: it does not begin with {MANIFEST}")
    try:
        manifest = json.loads(content)
        form, runs = (manifest["format"], manifest["recipe"]), dict[str, Any](manifest["runs"])
        names = {f"{run}/{name}" for run, entry in runs.items() for name in ("spec.json", *entry["files"].keys())}
        evaluations = {f"{run}/outcomes/{name}.nc" for run, entry in runs.items() for name in entry["evaluations"]}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} has a damaged {MANIFEST} ({type(error).__name__}: {error})") from None
    if form != (FORMAT, TRAINING_VERSION):
        known = f"this version reads {FORMAT!r}, training version {TRAINING_VERSION}: record it again"
        raise UserError(f"{path} is of the format {form[0]!r}, training version {form[1]}; {known}")
    wrong = {name for name in names if not _MEMBER.fullmatch(name)}
    if wrong := wrong | ({name for name in names if "/outcomes/" in name} ^ evaluations):
        expected = "expected dataset/model/defence-id and a file of a run, outcomes of each evaluation"
        raise UserError(f"{path} names {min(wrong)!r}: {expected}; nothing is written")
    return runs


def unpack(path: Path) -> tuple[list[str], list[str]]:
    """Check an archive and move its runs to data/recorded/; return those that are new or have new results, and the others.

    Everything is checked before anything is moved. A UserError names the archive and what is wrong with it, also if another
    training of one of its runs is recorded.
    """
    runs = {run: entry["files"] for run, entry in _runs(path).items()}
    new = _import(path, runs, (member for member in _members(path) if member[0] != MANIFEST))
    return new, [run for run in runs if run not in new]


def file_run(spec: Spec, evaluations: Sequence[Evaluation], weights: Weights = "none", further: Sequence[str] = ()) -> bool:
    """File a finished run in data/recorded/, as an archive of it would be; return whether there is anything new in it.

    further: checkpoints of which the weights are filed, too. A UserError says why it is not filed; a damaged file is set aside.
    """
    content, run = _content(spec, evaluations, weights, further), spec.relative_path
    members = ((f"{run}/{name}", value) for name, value in content.items())
    return bool(_import(store.run_folder(spec), {run: {name: _sum(value) for name, value in content.items()}}, members))


def _import(source: Path, runs: Mapping[str, dict[str, str]], members: Iterable[tuple[str, bytes]]) -> list[str]:
    """Move the files of runs, with their checksums, to data/recorded/ and return the runs with new ones; errors name `source`."""
    root = data_folder() / "recorded"
    sums = {f"{run}/{name}": total for run, files in runs.items() for name, total in files.items()}
    root.mkdir(parents=True, exist_ok=True)
    with store.lock(root):
        for left in root.glob(f"{_STAGED}*"):  # by an import that was killed
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(prefix=_STAGED, dir=root) as staged:
            for name, content in members:
                if _sum(content) != sums.pop(name, ""):
                    raise UserError(f"{source} holds another {name!r} than its {MANIFEST} says; nothing is written")
                Path(staged, name).parent.mkdir(parents=True, exist_ok=True)
                Path(staged, name).write_bytes(content)
            if sums:
                raise UserError(f"{source} is cut short: {min(sums)} is missing; nothing is written")
            lacking = {run: _lacking(source, run, files, Path(staged, run)) for run, files in runs.items()}
            for run, names in lacking.items():
                if names:
                    _move(Path(staged, run), root / run, names, runs[run])
    return [run for run, names in lacking.items() if names]


def _lacking(source: Path, run: str, sums: Mapping[str, str], staged: Path) -> list[str]:
    """Return the files of an unpacked run that its recorded folder lacks or has damaged.

    A UserError is raised unless all files are what their names say, and of the training that is recorded, if any is.
    """
    folder = data_folder() / "recorded" / run
    name, known, lacking = "spec.json", _known(folder), []
    try:
        spec = Spec.from_json((staged / name).read_text())
        if spec.relative_path != run:
            raise Damaged(f"its spec is that of {spec.relative_path}")
        for name in dict.fromkeys(("history.nc", *sums)):
            _check(spec, name, staged / name)
            present = _sum((folder / name).read_bytes()) if (folder / name).exists() else ""
            if present not in ("", sums[name]) and known.get(name) != sums[name]:
                raise Damaged(f"{folder} holds another one; remove that folder to import this run")
            if present != sums[name] or known.get(name) != sums[name]:
                lacking.append(name)
    except (ValueError, TypeError, KeyError, OSError, SafetensorError) as error:
        reason = str(error).replace(f"{staged}/", "").split("; delete it")[0]
        raise UserError(f"{source} is refused: {run}/{name}: {reason}; nothing is written") from None
    return lacking


def _check(spec: Spec, name: str, path: Path) -> None:
    """Raise an error if a file of a run cannot be read or is not what its name says."""
    if name.endswith(".safetensors"):
        safe_open(path, framework="numpy")
    elif name.endswith(".nc"):
        kind = _KINDS[name.split("/")[0]]
        one = Evaluation.from_json(results.header(path, kind)["evaluation"]) if "/" in name else None
        key = store.Key(spec, kind, one, (one and one.per_class) or store.EXAMPLES_PER_CLASS)
        if key.name != name:
            raise Damaged(f"it holds {Path(key.name).stem}")
        key.load(path)


def _move(staged: Path, folder: Path, names: Sequence[str], sums: dict[str, str]) -> None:
    """Move files of a run into place, or all of a new run at once; what is interrupted is completed by the next import."""
    _write(staged, _known(folder) | sums)
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not folder.exists():
        os.replace(staged, folder)
        return
    for name in (*names, store.CHECKSUMS):
        (folder / name).parent.mkdir(exist_ok=True)
        os.replace(staged / name, folder / name)
    (folder / store.REFUSED).unlink(missing_ok=True)


def _known(folder: Path) -> dict[str, str]:
    """Return the checksums of a recorded run by file; {} if there are none, or the file is damaged."""
    with suppress(OSError, ValueError, TypeError):
        return dict(json.loads((folder / store.CHECKSUMS).read_text()))
    return {}


def _write(folder: Path, sums: dict[str, str]) -> None:
    write(folder / store.CHECKSUMS, f"{json.dumps(dict(sorted(sums.items())), indent=1)}\n".encode())


def add_checksums(spec: Spec) -> None:
    """Add the checksums of results that were computed in the folder of a recorded run."""
    folder = store.recorded_folder(spec)
    with store.lock(data_folder() / "recorded"):
        known = _known(folder)
        paths = {f"{place}/{path.name}": path for place in _FOLDERS.split("|") for path in (folder / place).glob("*.nc")}
        added = {name: _sum(path.read_bytes()) for name, path in paths.items() if name not in known}
        if added and known:
            _write(folder, known | added)


def drop_weights(spec: Spec, keys: Iterable[store.Key]) -> None:
    """Remove weights of a recorded run that none of its missing results takes; the last ones stay."""
    folder = store.recorded_folder(spec)
    if not (others := set(folder.glob("weights-*.safetensors"))):
        return
    with store.lock(data_folder() / "recorded"):
        missing = [key.evaluation for key in keys if not (folder / key.name).exists()]
        unneeded = others - {store.weights_file(folder, one.checkpoint) for one in missing if one}
        dropped = {path.name for path in unneeded}
        _write(folder, {name: total for name, total in _known(folder).items() if name not in dropped})
        for path in unneeded:
            path.unlink()
