"""Folders of runs and audits: their files, locks and provenance."""

import hashlib
import json
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path

import xarray as xr
from filelock import FileLock

import classwise
from classwise.core import results
from classwise.core.errors import UserError
from classwise.core.files import folder_digest, write
from classwise.core.paths import checkout, data_folder
from classwise.core.results import Damaged
from classwise.core.spec import Evaluation, Spec, Subject

HISTORY, OUTCOMES, EXAMPLES, FEATURES, TRACE = "history 1", "outcomes 1", "examples 1", "features 2", "course 1"
REBUILT = "rebuilt 1"
# Of results that belong to the training itself, the file in the folder of a run.
OF_TRAINING = {HISTORY: "history.nc", REBUILT: "rebuilt.nc"}
# The folder, within that of a run, of the results of one schema under an evaluation.
FOLDERS = {OUTCOMES: "outcomes", EXAMPLES: "examples", FEATURES: "features-2", TRACE: "courses"}
WEIGHTS, CHECKPOINT = "weights.safetensors", "checkpoint.pt"
# The sha256 of each imported file of a recorded run, by its name within the folder of the run.
CHECKSUMS = "checksums.json"

# Why a run that was trained is not used.
REFUSED = "refused.json"

# What to do about a damaged file of a recorded run.
IMPORT_AGAIN = "import its archive again: classwise import"

# Whether the history of a run, or its outcomes under an evaluation, are in a folder.
Present = Callable[[Path, Spec, Evaluation | None], bool]


def run_folder(subject: Subject) -> Path:
    """Return the folder in which the results of a run or an audit are computed."""
    return data_folder() / subject.folder


def recorded(spec: Spec) -> Path:
    """Return the folder of results of a run that were computed elsewhere."""
    return data_folder() / spec.recorded_folder


def has_recorded_network(subject: Subject) -> bool:
    """Return whether a run was not trained here, but recorded with its weights: it is evaluated from data/recorded/."""
    if subject.recorded_folder is None or (run_folder(subject) / "history.nc").exists():
        return False
    folder = data_folder() / subject.recorded_folder
    return (folder / "history.nc").exists() and (folder / WEIGHTS).exists()


def results_folder(subject: Subject) -> Path:
    """Return the folder in which new results of a network are filed: data/recorded/ if it was recorded with its weights."""
    if has_recorded_network(subject):
        return data_folder() / str(subject.recorded_folder)
    return run_folder(subject)


def search_folders(subject: Subject) -> list[Path]:
    """Return the folders to search, in order: results of a run that was trained here are never mixed with recorded ones."""
    computed, recorded = run_folder(subject), subject.recorded_folder
    return [computed] if recorded is None or (computed / "history.nc").exists() else [computed, data_folder() / recorded]


def file(folder: Path, evaluation: Evaluation | None = None, schema: str = OUTCOMES) -> Path:
    """Return the path of the history of a run, or of its rebuilt images; or of its results of one schema under an evaluation."""
    if evaluation is None:
        return folder / OF_TRAINING.get(schema, OF_TRAINING[HISTORY])
    return folder / FOLDERS[schema] / f"{evaluation.name}.nc"


def files(subject: Subject, evaluations: Iterable[Evaluation]) -> list[Path]:
    """Return the paths of a run's history and of its outcomes under evaluations, whether they exist or not."""
    kinds = [None, *(evaluation.resolved_for(subject) for evaluation in evaluations)]
    return [file(folder, kind) for folder in search_folders(subject) for kind in kinds]


def exists(folder: Path, spec: Spec, evaluation: Evaluation | None = None) -> bool:
    """Return whether the history of a run, or its outcomes under an evaluation, exist; nothing is read."""
    return file(folder, evaluation).exists()


def complete(folder: Path, evaluations: Iterable[Evaluation]) -> bool:
    """Return whether the folder of a run has its history and the outcomes of all evaluations; nothing is read."""
    return all(file(folder, kind).exists() for kind in (None, *evaluations))


def lock(folder: Path, evaluation: Evaluation | None = None) -> FileLock:
    """Return the lock of a run or of one evaluation, held by one process at a time and free again when that process ends."""
    path = folder / ".lock" if evaluation is None else file(folder, evaluation).with_suffix(".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path)


def read(path: Path, schema: str, subject: Subject, evaluation: Evaluation | None = None) -> xr.Dataset:
    """Return a stored result; Damaged if it is of another subject or evaluation than its path says.

    A UserError is raised if a folder of images has changed since the result was computed.
    """
    state = path.stat() if path.exists() else None
    data = _loaded(path, schema, (state.st_mtime_ns, state.st_size) if state else None).copy(deep=True)
    _check_attributes(data.attrs, path, schema, subject, evaluation)
    return data


@lru_cache(maxsize=256)  # a page reads its results, and its claims read them again
def _loaded(path: Path, schema: str, state: tuple[int, int] | None) -> xr.Dataset:  # a changed file is read again
    return results.load(path, schema)


def _check_attributes(attrs: Mapping[str, str], path: Path, schema: str, subject: Subject, evaluation: Evaluation | None) -> None:
    """Raise Damaged or a UserError if a stored result with these attributes is not the one that was requested."""
    expected: list[tuple[str, Subject | Evaluation]] = [("spec", subject)]
    if evaluation is not None:
        expected.append(("evaluation", evaluation))
    for name, item in expected:
        try:
            stored = type(item).from_json(attrs.get(name, ""))
        except (ValueError, TypeError) as error:
            raise Damaged(f"{path} has no readable {name}; delete it and run again") from error
        if stored.canonical() != item.canonical():
            raise Damaged(
                f"{path} holds another {name} than its name says: {json.dumps(stored.canonical())} instead of "
                f"{json.dumps(item.canonical())}; delete it and run again"
            )
    digest = folder_digest(subject.dataset) if attrs.get("images") else ""
    if digest and digest != attrs["images"]:
        folder = path.parent if schema == HISTORY else path.parent.parent
        raise UserError(
            f"the images in {subject.dataset} have changed since {subject.name} was computed on them ({attrs['created']}); "
            f"delete {folder} to compute it again, or rename the folder of the new images"
        )


def find(
    subject: Subject, evaluation: Evaluation | None = None, schema: str = OUTCOMES, *, repair: bool = False
) -> xr.Dataset | None:
    """Return the stored history of a run, its rebuilt images, or its results of a schema under an evaluation; else None.

    A damaged file raises Damaged; `repair` renames one that was computed here (to .damaged) and returns None.
    """
    schema = HISTORY if evaluation is None and schema not in OF_TRAINING else schema
    for folder in search_folders(subject):
        path = file(folder, evaluation, schema)
        if not path.exists():
            continue
        try:
            data = read(path, schema, subject, evaluation)
            return data.assign_attrs(recorded="" if folder == run_folder(subject) else "recorded")
        except Damaged:
            if not repair or folder != run_folder(subject):
                raise
            set_aside(path)
    return None


def set_aside(path: Path) -> None:
    """Rename a damaged file to the suffix .damaged."""
    path.replace(path.with_suffix(".damaged"))


def intact(tell: Callable[[str], None], *, repair: bool) -> Present:
    """Return a test whether results are present and undamaged, which reads each file once.

    `tell` is called with a sentence about each damaged file; `repair` also renames it, so that it is computed again. One that was
    recorded elsewhere cannot be computed again: it raises Damaged if `repair`, else it counts as present. Files are read in full.
    """

    @cache
    def present(folder: Path, spec: Spec, evaluation: Evaluation | None) -> bool:
        path, schema = file(folder, evaluation), HISTORY if evaluation is None else OUTCOMES
        if not path.exists():
            return False
        try:
            _check_attributes(results.load(path, schema).attrs, path, schema, spec, evaluation)
        except Damaged:
            if folder != run_folder(spec):
                if repair:
                    raise
                tell(f"{path} is damaged and was recorded elsewhere; {IMPORT_AGAIN}")
                return True
            tell(f"{path} was damaged: recomputed" if repair else f"{path} is damaged and will be recomputed")
            if repair:
                set_aside(path)
            return False
        return True

    return present


def weights_file(folder: Path, checkpoint: str = "last") -> Path:
    """Return the path of the weights of a checkpoint: weights.safetensors for "last", else weights-<checkpoint>.safetensors."""
    return folder / (WEIGHTS if checkpoint == "last" else f"weights-{checkpoint}.safetensors")


def weights(spec: Spec, checkpoint: str = "last") -> Path | None:
    """Return the weights of a trained run; None if there are none, as for most recorded results."""
    folders = [results_folder(spec)] if has_recorded_network(spec) else search_folders(spec)
    paths = [weights_file(folder, checkpoint) for folder in folders]
    return next((path for path in paths if path.exists()), None)


def verified(path: Path) -> bytes:
    """Return the content of a file of weights; Damaged if it is recorded and its checksum is not the one that was imported."""
    content, folder = path.read_bytes(), path.parent
    try:
        expected = dict(json.loads((folder / CHECKSUMS).read_text())).get(path.name)
    except FileNotFoundError:
        if (data_folder() / "recorded") not in path.parents:
            return content
        raise Damaged(f"{folder / CHECKSUMS} of the recorded run {folder.name} is missing; {IMPORT_AGAIN}") from None
    except (OSError, ValueError, TypeError):
        raise Damaged(f"{folder / CHECKSUMS} of the recorded run {folder.name} cannot be read; {IMPORT_AGAIN}") from None
    if expected is not None and hashlib.sha256(content).hexdigest() != expected:
        raise Damaged(f"{path} of the recorded run {folder.name} is damaged: its checksum is another; {IMPORT_AGAIN}")
    return content


def lacks_weights(spec: Spec) -> bool:
    """Return whether a run has results but no weights, as most recorded runs do."""
    return weights(spec) is None and any((folder / "history.nc").exists() for folder in search_folders(spec))


def refusal(spec: Spec) -> str:
    """Return why a run was refused after its training, "" if it was not."""
    path = recorded(spec) / REFUSED
    return str(json.loads(path.read_text())["reason"]) if path.exists() else ""


def refuse(spec: Spec, reason: str, device: str, threads: int) -> None:
    """Store why a run is refused, in data/recorded/."""
    content = {"reason": reason, **provenance(spec, device, threads)}
    write(recorded(spec) / REFUSED, f"{json.dumps(content, indent=1)}\n".encode())


def by_id(number: str) -> Path | None:
    """Return the last weights of the finished run with an id, of any dataset and model; None if there is none."""
    paths = (path for kind in ("runs", "recorded") for path in (data_folder() / kind).glob(f"*/*/*-{number}/{WEIGHTS}"))
    return next((path for path in paths if (path.parent / "history.nc").exists()), None)


@cache
def commit() -> str:
    """Return the commit of the checkout, with "+" if files differ from it; "" outside git."""
    git = ["git", "-C", str(checkout())]
    try:
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
        dirty = subprocess.run([*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head.stdout.strip() + ("+" if dirty.stdout.strip() else "")


def provenance(
    subject: Subject, device: str, threads: int, evaluation: Evaluation | None = None, *, images: str | None = None
) -> dict[str, str]:
    """Return the attributes that every result carries; `images` is the digest of a folder of images, None for its present one."""
    attrs = {
        "spec": subject.json(),
        "id": subject.id,
        "version": classwise.__version__,
        "commit": commit(),
        "torch": version("torch"),
        "device": device,
        "threads": str(threads),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if subject.weights_digest:
        attrs["weights"] = subject.weights_digest
    elif digest := folder_digest(subject.dataset) if images is None else images:
        attrs["images"] = digest
    return attrs | ({"evaluation": evaluation.json()} if evaluation is not None else {})


def stored() -> Iterator[Path]:
    """Yield the folders of all finished runs, computed here and recorded."""
    for kind in ("runs", "recorded"):
        for history in sorted((data_folder() / kind).glob("*/*/*/history.nc")):
            yield history.parent
