"""Stored results: a Key names one. Folders of runs and audits, their weights and provenance."""

import hashlib
import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import xarray as xr
from filelock import FileLock

import classwise
from classwise.core import results
from classwise.core.errors import UserError
from classwise.core.files import digest, folder_digest, write
from classwise.core.identity import Identified
from classwise.core.paths import checkout, data_folder, is_users
from classwise.core.results import Damaged
from classwise.core.spec import Evaluation, Spec, Subject

HISTORY, OUTCOMES, EXAMPLES, FEATURES, TRACE = "history 1", "outcomes 1", "examples 1", "features 2", "course 1"
REBUILT = "rebuilt 1"
# The folder of the results of each kind within that of a run; of those of the training itself the file.
UNDER_EVALUATIONS = {OUTCOMES: "outcomes", EXAMPLES: "examples", TRACE: "courses", FEATURES: "features-2"}
PLACES = {HISTORY: "history.nc", **UNDER_EVALUATIONS, REBUILT: "rebuilt.nc"}
# Kinds of a few images of each class, and their number.
FEW, EXAMPLES_PER_CLASS = (EXAMPLES, TRACE), 4
WEIGHTS, CHECKPOINT = "weights.safetensors", "checkpoint.pt"
# Of a recorded run the sha256 of each imported file by its name; why one that was trained is not used.
CHECKSUMS, REFUSED = "checksums.json", "refused.json"
# What to do about a damaged file of a recorded run.
IMPORT_AGAIN = "import its archive again: classwise import"


@dataclass(frozen=True)
class Key:
    """The name of a stored result.

    kind: its schema. evaluation: None for what belongs to a training itself, `HISTORY` and `REBUILT`; else it is resolved for the
    subject, and of kinds in `FEW` restricted to `few` images of each class.
    """

    subject: Subject
    kind: str = HISTORY
    evaluation: Evaluation | None = None
    few: int = EXAMPLES_PER_CLASS

    def __post_init__(self) -> None:
        if self.evaluation is not None:
            resolved = self.evaluation.resolve_for(self.subject)
            object.__setattr__(self, "evaluation", replace(resolved, per_class=self.few) if self.kind in FEW else resolved)

    @property
    def spec(self) -> Spec:
        """The run; only audits have none."""
        assert isinstance(self.subject, Spec)
        return self.subject

    @property
    def identity(self) -> dict[str, Identified]:
        """What files of it contain as JSON, by the name of the attribute."""
        return {"spec": self.subject} | ({} if self.evaluation is None else {"evaluation": self.evaluation})

    @property
    def name(self) -> str:
        """Path within the folder of the subject."""
        return PLACES[self.kind] if self.evaluation is None else f"{PLACES[self.kind]}/{self.evaluation.name}.nc"

    @property
    def file(self) -> Path:
        """The file that it is, or would be, computed into."""
        return results_folder(self.subject) / self.name

    @property
    def path(self) -> Path | None:
        """The file in which it is stored; None if it is not. Nothing is read."""
        return next(iter(self._files()), None)

    def _files(self) -> list[Path]:
        return [path for folder in search_folders(self.subject) if (path := folder / self.name).exists()]

    def read(self, *, repair: bool = False, tell: Callable[[str], None] = lambda line: None) -> xr.Dataset | None:
        """Return the result; None if it is not stored.

        A damaged file raises Damaged; `repair` renames one that was computed here (to .damaged), calls `tell` with a sentence
        about it, and reads on.
        """
        for path in self._files():
            here = path == run_folder(self.subject) / self.name
            try:
                return self.load(path).assign_attrs(recorded="" if here else "recorded")
            except Damaged:
                if not repair or not here:
                    raise
                tell(f"{path} was damaged: recomputed")
                set_aside(path)
        return None

    def load(self, path: Path) -> xr.Dataset:
        """Return the result from a file; Damaged if it is of another subject or evaluation.

        A UserError is raised if a folder of images or `own_code` has changed since the result was computed.
        """
        state = path.stat()
        data = _loaded(self, path, (state.st_mtime_ns, state.st_size)).copy(deep=True)
        digest = folder_digest(self.subject.dataset) if data.attrs.get("images") else ""
        if digest and digest != data.attrs["images"]:
            folder = path.parent if self.evaluation is None else path.parent.parent
            raise UserError(
                f"the images in {self.subject.dataset} have changed since {self.subject.name} was computed on them "
                f"({data.attrs['created']}); delete {folder} to compute it again, or rename the folder of the new images"
            )
        code = own_code(self.subject, self.evaluation)
        if code and code != data.attrs.get("code", code):
            what = f"your code that {self.subject.name} uses has changed since it was computed ({data.attrs['created']})"
            raise UserError(f"{what}; delete {path.parent} to compute it again, or give what is new another name")
        return data

    def lock(self) -> FileLock:
        """Return the lock of what computes the result: that of the run for its training, else its own."""
        if self.evaluation is None:
            return lock(results_folder(self.subject))
        self.file.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(self.file.with_suffix(".lock"), is_singleton=True)


@lru_cache(maxsize=256)  # a page reads its results, and its claims read them again
def _loaded(key: Key, path: Path, state: tuple[int, int]) -> xr.Dataset:  # a changed file is read again
    data = results.load(path, key.kind)
    for name, item in key.identity.items():
        try:
            stored = type(item).from_json(data.attrs.get(name, "")).canonical()
        except (ValueError, TypeError) as error:
            raise Damaged(f"{path} has no readable {name}; delete it and run again") from error
        if stored != item.canonical():
            text = f"{json.dumps(stored)} instead of {json.dumps(item.canonical())}"
            raise Damaged(f"{path} holds another {name} than its name says: {text}; delete it and run again")
    return data


def run_folder(subject: Subject) -> Path:
    """Return the folder in which the results of a run or an audit are computed."""
    return data_folder() / subject.folder


def recorded_folder(subject: Subject) -> Path:
    """Return the folder of results of a run or an audit that were computed elsewhere."""
    return data_folder() / subject.recorded_folder


def has_recorded_network(subject: Subject) -> bool:
    """Return whether a run was not trained here, but recorded with its weights: it is evaluated from data/recorded/."""
    here, recorded = run_folder(subject), recorded_folder(subject)
    return not (here / "history.nc").exists() and (recorded / "history.nc").exists() and (recorded / WEIGHTS).exists()


def results_folder(subject: Subject) -> Path:
    """Return the folder in which new results of a network are filed: data/recorded/ if it was recorded with its weights."""
    return recorded_folder(subject) if has_recorded_network(subject) else run_folder(subject)


def search_folders(subject: Subject) -> list[Path]:
    """Return the folders to search, in order: results of a run that was trained here are never mixed with recorded ones."""
    computed = run_folder(subject)
    return [computed] if (computed / "history.nc").exists() else [computed, recorded_folder(subject)]


def outcomes_of(pairs: Iterable[tuple[Subject, Iterable[Evaluation]]]) -> list[Key]:
    """Return the names of the histories of runs, which audits do not have, and of outcomes."""
    rows = [
        ([Key(subject)] * isinstance(subject, Spec), [Key(subject, OUTCOMES, one) for one in some]) for subject, some in pairs
    ]
    return [key for history, outcomes in rows for key in (*history, *outcomes)]


def complete(folder: Path, keys: Iterable[Key]) -> bool:
    """Return whether a folder has all results; nothing is read."""
    return all((folder / key.name).exists() for key in keys)


def lock(folder: Path) -> FileLock:
    """Return the lock of a folder, held by one process at a time, once or more, and free again when that process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / ".lock", is_singleton=True)


def set_aside(path: Path) -> None:
    """Rename a damaged file to the suffix .damaged."""
    path.replace(path.with_suffix(".damaged"))


# Of what a file must be to be read.
_FORMAT = digest([Path(results.__file__)])


@contextmanager
def remembered_files() -> Iterator[dict[str, list[Any]]]:
    """Yield the states of files that were found undamaged, by path; what is added is kept in data/runs/intact.json."""
    file, known = data_folder() / "runs" / "intact.json", dict[str, list[Any]]()
    with suppress(OSError, ValueError, TypeError):
        known = dict(json.loads(file.read_text(encoding="utf-8")))
    before = dict(known)
    yield known
    if known != before:
        with suppress(OSError):  # a folder that can only be read: they are read again the next time
            write(file, json.dumps(known).encode())


def is_intact(key: Key, tell: Callable[[str], None], *, repair: bool, known: dict[str, list[Any]] | None = None) -> bool:
    """Return whether a result is stored and undamaged; its files are read in full, unless they are known and have not changed.

    known: as of `remembered_files`, which are added to. `tell` is called with a sentence about a damaged file; `repair` also
    renames it, so that it is computed again. One that was recorded elsewhere cannot be computed again: it raises Damaged if
    `repair`, else it counts as stored.
    """
    path = key.path
    # Of a folder of images also these may have changed.
    seen = {} if known is None or path is None or folder_digest(key.subject.dataset) else known
    state = [] if path is None else [(stat := path.stat()).st_size, stat.st_mtime_ns, _FORMAT]
    if seen.get(str(path)) == state:
        return True
    try:
        intact = key.read(repair=repair, tell=tell) is not None
        seen |= {str(path): state} if intact and key.path == path else {}
        return intact
    except Damaged:
        if repair:
            raise
    here = key.path == run_folder(key.subject) / key.name
    tell(f"{key.path} is damaged and " + ("will be recomputed" if here else f"was recorded elsewhere; {IMPORT_AGAIN}"))
    return not here


def weights_file(folder: Path, checkpoint: str = "last") -> Path:
    """Return the path of the weights of a checkpoint: weights.safetensors for "last", else weights-<checkpoint>.safetensors."""
    return folder / (WEIGHTS if checkpoint == "last" else f"weights-{checkpoint}.safetensors")


def weights(spec: Spec, checkpoint: str = "last") -> Path | None:
    """Return the weights of a trained run; None if there are none, as for most recorded results."""
    folders = [results_folder(spec)] if has_recorded_network(spec) else search_folders(spec)
    paths = [weights_file(folder, checkpoint) for folder in folders]
    return next((path for path in paths if path.exists()), None)


def read_verified(path: Path) -> bytes:
    """Return the content of a file of weights; Damaged if it is recorded and its checksum is not the one that was imported."""
    content, sums, run = path.read_bytes(), path.parent / CHECKSUMS, path.parent.name
    if not sums.exists() and (data_folder() / "recorded") not in path.parents:
        return content
    try:
        expected = dict(json.loads(sums.read_text())).get(path.name)
    except (OSError, ValueError, TypeError):
        raise Damaged(f"{sums} of the recorded run {run} is missing or cannot be read; {IMPORT_AGAIN}") from None
    if expected is not None and hashlib.sha256(content).hexdigest() != expected:
        raise Damaged(f"{path} of the recorded run {run} is damaged: its checksum is another; {IMPORT_AGAIN}")
    return content


def lacks_weights(spec: Spec) -> bool:
    """Return whether a run has results but no weights, as most recorded runs do."""
    return weights(spec) is None and Key(spec).path is not None


def refusal(spec: Spec) -> str:
    """Return why a run was refused after its training, "" if it was not."""
    path = recorded_folder(spec) / REFUSED
    return str(json.loads(path.read_text())["reason"]) if path.exists() else ""


def refuse(spec: Spec, reason: str, device: str, threads: int) -> None:
    """Store why a run is refused, in data/recorded/."""
    content = {"reason": reason, **provenance(spec, device, threads)}
    write(recorded_folder(spec) / REFUSED, f"{json.dumps(content, indent=1)}\n".encode())


def warm_start(spec: Spec) -> Path:
    """Return the last weights of the finished run, of any dataset and model, that another one starts from.

    A UserError is raised if there is none.
    """
    paths = (path for kind in ("runs", "recorded") for path in (data_folder() / kind).glob(f"*/*/*-{spec.warm_start}/{WEIGHTS}"))
    path = next((path for path in paths if (path.parent / "history.nc").exists()), None)
    if path is None:
        advice = "train it first (csr: that of trades)"
        raise UserError(f"warm_start={spec.warm_start!r} is the id of no finished run in data/runs/; {advice}")
    return path


@cache
def commit() -> str:
    """Return the commit of the checkout, with "+" if files differ from it; "" outside git."""
    command = ["git", "-C", str(checkout()), "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


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
    if code := own_code(subject, evaluation):
        attrs["code"] = code
    if subject.weights_digest:
        attrs["weights"] = subject.weights_digest
    elif digest := folder_digest(subject.dataset) if images is None else images:
        attrs["images"] = digest
    return attrs | ({"evaluation": evaluation.json()} if evaluation is not None else {})


# The tables that a user's script may extend, and the field that names an entry.
_TABLES = {"classwise.defences": ("DEFENCES", "defence"), "classwise.models": ("MODELS", "model")}
_TABLES |= {"classwise.core.datasets": ("DATASETS", "dataset"), "classwise.attacks": ("ATTACKS", "attack")}


def own_code(subject: Subject, evaluation: Evaluation | None = None) -> str:
    """Return a digest of the code of the defence, model, dataset and attacks that a user's script or module registers.

    It is "" if all are of the package. The attacks are those of the training and of the evaluation. What this code calls is not
    seen, nor what a notebook defines.
    """
    sources = set()
    for module, (table, field) in _TABLES.items():
        entries = vars(sys.modules.get(module, object)).get(table, {})
        for name in {getattr(one, field, None) for one in (subject, evaluation)} & set(entries):
            parts = (entries[name], *vars(entries[name]).values())
            codes: list[Any] = [part if inspect.isroutine(part) else type(part) for part in parts]
            sources |= set(map(users_source, codes))
    return digest(sorted(sources - {""})) if sources - {""} else ""


@cache  # of what runs, whatever becomes of its file
def users_source(code: Any) -> str:
    """Return the source of a function or a class; "" for what is not a user's, or is in no file."""
    with suppress(OSError, TypeError):
        return inspect.getsource(code) if is_users(Path(inspect.getfile(code))) else ""
    return ""


def stored_runs() -> Iterator[Path]:
    """Yield the folders of all finished runs, computed here and recorded."""
    for kind in ("runs", "recorded"):
        for history in sorted((data_folder() / kind).glob("*/*/*/history.nc")):
            yield history.parent
