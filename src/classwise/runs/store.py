"""Where results lie: folders of runs, their files, locks and provenance."""

import hashlib
import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

import xarray as xr
from filelock import FileLock

import classwise
from classwise.core import results
from classwise.core.audit import Audit, Subject
from classwise.core.errors import UserError
from classwise.core.files import folder_digest
from classwise.core.paths import checkout, data_folder
from classwise.core.results import Damaged
from classwise.core.spec import Evaluation, Spec

HISTORY, OUTCOMES, EXAMPLES, FEATURES, TRACE = "history 1", "outcomes 1", "examples 1", "features 1", "course 1"
WEIGHTS, CHECKPOINT = "weights.safetensors", "checkpoint.pt"


def relative_path(spec: Spec) -> str:
    """Return the path of a run below data/runs/ or data/recorded/, plain letters in three parts: dataset/model/defence-id.

    A dataset or model whose name has other signs in it, like that of a path, is called by its last plain part and eight digits.
    """
    return "/".join(map(_plain, (spec.dataset, spec.model, spec.name)))


def _plain(name: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9@._+-]*", name):
        return name
    words = re.findall(r"[A-Za-z0-9]+", re.sub(r"\?.*", "", name))
    return "-".join([*dict.fromkeys([*words[:1], *words[-1:]]), hashlib.sha256(name.encode()).hexdigest()[:8]])


def run_folder(spec: Subject) -> Path:
    """Return the folder where a run is computed, or an audit."""
    if isinstance(spec, Audit):
        return Path(spec.out or data_folder() / "audits") / spec.name
    return data_folder() / "runs" / relative_path(spec)


def search_folders(spec: Subject) -> list[Path]:
    """Return the folders where a run is looked for, in order: one that was trained here is not mixed with a recorded one."""
    if isinstance(spec, Audit) or (run_folder(spec) / "history.nc").exists():
        return [run_folder(spec)]
    return [run_folder(spec), recorded(spec)]


def recorded(spec: Spec) -> Path:
    """Return the folder where a run is filed that was computed elsewhere."""
    return data_folder() / "recorded" / relative_path(spec)


def files(spec: Spec, evaluations: Iterable[Evaluation]) -> list[Path]:
    """Return where a run's history and its outcomes under some evaluations lie, or would lie; nothing is read."""
    asked = [None, *(one.of(spec) for one in evaluations)]
    return [file(folder, one) for folder in search_folders(spec) for one in asked]


def complete(folder: Path, evaluations: Iterable[Evaluation]) -> bool:
    """Return whether a run's folder has its history and the outcomes of all evaluations; nothing is read."""
    return (folder / "history.nc").exists() and all(outcomes_file(folder, one).exists() for one in evaluations)


def lock(folder: Path, evaluation: Evaluation | None = None) -> FileLock:
    """Return the lock of a run, or of one question put to it: held by one process at a time, free again when its holder dies."""
    path = folder / ".lock" if evaluation is None else outcomes_file(folder, evaluation).with_suffix(".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path)


def file(folder: Path, evaluation: Evaluation | None = None) -> Path:
    """Return where the history of a run lies, or its outcomes under an evaluation."""
    return folder / "history.nc" if evaluation is None else outcomes_file(folder, evaluation)


def outcomes_file(folder: Path, evaluation: Evaluation) -> Path:
    return folder / "outcomes" / f"{evaluation.name}.nc"


def examples_file(folder: Path, evaluation: Evaluation) -> Path:
    return folder / "examples" / f"{evaluation.name}.nc"


def features_file(folder: Path, evaluation: Evaluation) -> Path:
    return folder / "features" / f"{evaluation.name}.nc"


def trace_file(folder: Path, evaluation: Evaluation) -> Path:
    return folder / "courses" / f"{evaluation.name}.nc"


def read(path: Path, schema: str, spec: Subject, evaluation: Evaluation | None = None) -> xr.Dataset:
    """Return a stored result; Damaged where it answers another question than the one asked.

    A UserError says that a folder of one's own holds other images now than those that it was computed on.
    """
    data = results.load(path, schema)
    _answering(data.attrs, path, schema, spec, evaluation)
    return data


def _answering(attrs: Mapping[str, str], path: Path, schema: str, spec: Subject, evaluation: Evaluation | None) -> None:
    """Raise Damaged, or a UserError, where a stored result with these attributes is not what was asked for."""
    stored: list[tuple[str, Subject | Evaluation]] = [("spec", spec)]
    if evaluation is not None:
        stored.append(("evaluation", evaluation))
    for name, asked in stored:
        try:
            found = type(asked).from_json(attrs.get(name, ""))
        except (ValueError, TypeError) as error:
            raise Damaged(f"{path} carries no readable {name}; delete it and ask again") from error
        if found.canonical() != asked.canonical():
            raise Damaged(
                f"{path} holds another {name} than its name says: {json.dumps(found.canonical())} instead of "
                f"{json.dumps(asked.canonical())}; delete it and ask again"
            )
    now = folder_digest(spec.dataset) if attrs.get("images") else ""
    if now and now != attrs["images"]:
        folder = path.parent if schema == HISTORY else path.parent.parent
        raise UserError(
            f"{spec.dataset} holds other images now than when {spec.name} was computed on it ({attrs['created']}); "
            f"delete {folder} to compute it anew, or call the new folder by another name"
        )


def find(spec: Subject, evaluation: Evaluation | None = None, *, mend: bool = False) -> xr.Dataset | None:
    """Return the stored history of a run, or its outcomes under an evaluation; None where there are none yet.

    `mend` sets a damaged file of data/runs/ aside (as .damaged) and returns None; without it Damaged is raised.
    """
    for folder in search_folders(spec):
        path = file(folder, evaluation)
        if not path.exists():
            continue
        try:
            data = read(path, HISTORY if evaluation is None else OUTCOMES, spec, evaluation)
            return data.assign_attrs(recorded="" if folder == run_folder(spec) else "recorded")
        except Damaged:
            if not mend or folder != run_folder(spec):
                raise
            path.replace(path.with_suffix(".damaged"))
    return None


def is_intact(folder: Path, spec: Spec, evaluation: Evaluation | None = None) -> bool:
    """Return whether a folder of a run has its history, or its outcomes under an evaluation; a damaged file is set aside.

    It is read whole, but not decoded. Damaged is raised for one that was recorded elsewhere, which cannot be computed anew here.
    """
    path = file(folder, evaluation)
    if not path.exists():
        return False
    schema = HISTORY if evaluation is None else OUTCOMES
    try:
        _answering(results.attributes(path, schema), path, schema, spec, evaluation)
    except Damaged:
        if folder != run_folder(spec):
            raise
        path.replace(path.with_suffix(".damaged"))
        return False
    return True


def weights_file(folder: Path, checkpoint: str = "last") -> Path:
    """Return where the weights of a checkpoint lie: "last" in weights.safetensors, "best" in weights-best.safetensors, ..."""
    return folder / (WEIGHTS if checkpoint == "last" else f"weights-{checkpoint}.safetensors")


def weights(spec: Spec, checkpoint: str = "last") -> Path | None:
    """Return the weights of a trained run; None where they are not here, as for recorded results."""
    files = [weights_file(folder, checkpoint) for folder in search_folders(spec)]
    return next((file for file in files if file.exists()), None)


def lacks_weights(spec: Spec) -> bool:
    """Return whether a run has results but no weights, as those that were recorded elsewhere."""
    return weights(spec) is None and any((folder / "history.nc").exists() for folder in search_folders(spec))


def by_id(number: str) -> Path | None:
    """Return the last weights of the finished run with an id, whatever its dataset and model; None where there is none."""
    found = (path for kind in ("runs", "recorded") for path in (data_folder() / kind).glob(f"*/*/*-{number}/{WEIGHTS}"))
    return next((path for path in found if (path.parent / "history.nc").exists()), None)


@cache
def commit() -> str:
    """Return the commit of the checkout, with "+" where files differ from it; "" outside git."""
    git = ["git", "-C", str(checkout())]
    try:
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
        dirty = subprocess.run([*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head.stdout.strip() + ("+" if dirty.stdout.strip() else "")


def provenance(
    spec: Subject, device: str, threads: int, evaluation: Evaluation | None = None, *, images: str | None = None
) -> dict[str, str]:
    """Return the attributes that every result carries; `images`, the contents of its dataset when they were read, or as now."""
    attrs = {
        "spec": spec.json(),
        "id": spec.id,
        "version": classwise.__version__,
        "commit": commit(),
        "torch": version("torch"),
        "device": device,
        "threads": str(threads),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if isinstance(spec, Audit):
        attrs["weights"] = spec.sha256
    elif seen := folder_digest(spec.dataset) if images is None else images:
        attrs["images"] = seen
    return attrs | ({"evaluation": evaluation.json()} if evaluation is not None else {})


def stored() -> Iterator[Path]:
    """Yield the folders of all finished runs, computed here and recorded."""
    for kind in ("runs", "recorded"):
        for history in sorted((data_folder() / kind).glob("*/*/*/history.nc")):
            yield history.parent
