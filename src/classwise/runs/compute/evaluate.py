"""Evaluations: a trained network under an attack, resumable batch by batch."""

import hashlib
import json
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path

import torch
import xarray as xr
from torch import Tensor, nn

import classwise
from classwise import attacks
from classwise.attacks import evaluate, sanity
from classwise.attacks.balls import BALLS, Ball
from classwise.attacks.evaluate import EvaluationSettings, Outcomes
from classwise.core import files, results
from classwise.core.errors import unknown
from classwise.core.files import folder_digest
from classwise.core.identity import radius_value
from classwise.core.results import Damaged
from classwise.core.spec import Evaluation, Spec, Subject
from classwise.images import Images, transform
from classwise.models.modes import penultimate
from classwise.runs import store
from classwise.runs.compute import to_xarray
from classwise.runs.compute.device import device, one_thread, where
from classwise.runs.compute.networks import network_of
from classwise.runs.compute.train import Report, no_report, train
from classwise.runs.compute.validate import check_evaluation, checkpoints, images_of

# Finished batches are kept in a file with this suffix, written at most once in this many seconds.
PART, SAVE_AFTER = ".part", 10.0


def evaluate_run(subject: Subject, evaluation: Evaluation, report: Report = no_report, *, repair: bool = False) -> None:
    """Evaluate a trained network and store the outcomes, unless they exist; a substitute is trained first."""
    for done, total in step_by_step(subject, evaluation, repair=repair):
        report("attack", done, total)


def step_by_step(subject: Subject, evaluation: Evaluation, *, repair: bool = False) -> Generator[tuple[int, int], None, None]:
    """Evaluate batch by batch and yield the number of images done and in all; after an interruption the next call resumes."""
    folder, evaluation = store.results_folder(subject), evaluation.resolved_for(subject)
    if store.find(subject, evaluation, repair=repair) is not None:
        return
    if (twin := _twin(subject, evaluation, repair=repair)) is not None:
        results.save(twin.assign_attrs(evaluation=evaluation.json()), store.OUTCOMES, store.file(folder, evaluation))
        return
    substitute = _substitute(subject, evaluation)
    if substitute is not None:
        train(substitute, repair=repair)
    # A lock for each evaluation: several of one run are computed at once.
    with store.lock(folder, evaluation) as lock:
        if store.find(subject, evaluation, repair=repair) is not None:
            return
        digest = folder_digest(subject.dataset)  # before the images are read: they may change meanwhile
        images, attack, ball = problem(subject, evaluation)
        model, file = network_of(subject, evaluation), store.file(folder, evaluation)
        source = None if substitute is None else network_of(substitute)
        metadata = {"spec": subject.json(), "evaluation": evaluation.json(), "stamp": _stamp(model, source) + digest}
        progress = Progress.resumed(file.with_suffix(PART), metadata, repair=repair)
        settings = EvaluationSettings(evaluation.seed, evaluation.batch, evaluation.precision, source)
        try:
            yield progress.done, len(images)
            if progress.done < len(images):
                for outcomes in evaluate.batches(model, images, attack, ball, settings, progress.done):
                    progress.add(outcomes)
                    yield progress.done, len(images)
        except BaseException:
            progress.save()
            raise
        outcomes = Outcomes.joined(progress.parts)
        checks = json.dumps(sanity.sanity_checks(model, images, attack, outcomes, source))
        attrs = store.provenance(subject, *where(), evaluation, images=digest) | {"checks": checks}
        members = list(attack.members())
        results.save(to_xarray.outcomes_dataset(outcomes, images.classes, attrs, members), store.OUTCOMES, file)
        progress.path.unlink(missing_ok=True)
        # The lock is no longer needed: the outcomes exist. Where open files cannot be removed, it stays.
        with suppress(OSError):
            Path(lock.lock_file).unlink()


def _twin(subject: Subject, evaluation: Evaluation, *, repair: bool) -> xr.Dataset | None:
    """Return the outcomes of another checkpoint with the same weights; None if there are none.

    The last epoch is often the best, too, and an average that no epoch entered has the last weights.
    """
    if not isinstance(subject, Spec) or (weights := store.weights(subject, evaluation.checkpoint)) is None:
        return None
    others = {name: store.weights(subject, name) for name in checkpoints(subject) if name != evaluation.checkpoint}
    content = store.verified(weights) if others else b""
    for name, path in others.items():
        if path is not None and path.read_bytes() == content:
            stored = store.find(subject, replace(evaluation, checkpoint=name), repair=repair)
            if stored is not None:
                del stored.attrs["recorded"]
                return stored
    return None


def _substitute(subject: Subject, evaluation: Evaluation) -> Spec | None:
    return None if evaluation.substitute is None else subject.substitute(evaluation.substitute)


def _stamp(*models: nn.Module | None) -> str:
    """Return a digest of the code and the weights, which all batches of an evaluation must share."""
    digest = hashlib.sha256(f"{classwise.__version__} {store.commit()}".encode())
    for model in models:
        for value in model.state_dict().values() if model is not None else ():
            digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


@dataclass
class Progress:
    """The finished batches of an evaluation and the file that keeps them; metadata: spec, evaluation and stamp."""

    path: Path
    metadata: dict[str, str]
    parts: list[Outcomes] = field(default_factory=list)
    saved: float = field(default_factory=time.monotonic)

    @classmethod
    def resumed(cls, path: Path, metadata: dict[str, str], *, repair: bool) -> "Progress":
        """Return the progress that a file keeps; none if there is no file, or code or weights have changed since.

        A file that cannot be read is Damaged; `repair` renames it.
        """
        if not path.exists():
            return cls(path, metadata)
        try:
            saved = torch.load(path, map_location=device(), weights_only=True)
            if any(saved[name] != metadata[name] for name in ("spec", "evaluation")):
                raise ValueError("it belongs to another evaluation")
            parts = [Outcomes(**row) for row in saved["rows"]] if saved["stamp"] == metadata["stamp"] else []
        except Exception as error:  # torch.load raises a dozen kinds for a truncated or foreign file
            if not repair:
                reason = str(error) if isinstance(error, ValueError) else "it is truncated or foreign"
                raise Damaged(f"{path} cannot be resumed from: {reason}; delete it to attack from the start") from error
            store.set_aside(path)
            parts = []
        return cls(path, metadata, parts)

    @property
    def done(self) -> int:
        """Number of images that are done."""
        return sum(len(part.index) for part in self.parts)

    def add(self, outcomes: Outcomes) -> None:
        """Add a batch; the file is written every SAVE_AFTER seconds."""
        self.parts.append(outcomes)
        if time.monotonic() - self.saved > SAVE_AFTER:
            self.save()
            self.saved = time.monotonic()

    def save(self) -> None:
        """Write the finished batches, if there are any."""
        if self.parts:
            rows = [{name: value for name, value in vars(part).items() if value is not None} for part in self.parts]
            buffer = BytesIO()
            torch.save({**self.metadata, "rows": rows}, buffer)
            files.write(self.path, buffer.getvalue())


def problem(subject: Subject, evaluation: Evaluation) -> tuple[Images, attacks.Attack, Ball]:
    """Return the images, the attack and the ball of an evaluation."""
    evaluation = evaluation.resolved_for(subject)
    images = images_of(subject, evaluation.split)
    if evaluation.per_class is not None:
        images = images.per_class(evaluation.per_class, evaluation.seed)
    images = transform(evaluation.transform)(images, evaluation.seed)
    assert evaluation.eps is not None
    assert evaluation.norm is not None
    ball = BALLS[evaluation.norm](radius_value(evaluation.eps))
    return images, attacks.build(evaluation.attack, evaluation.options), ball


def attacker(subject: Subject, evaluation: Evaluation) -> Callable[..., xr.Dataset]:
    """Return the function of `runs.attacker` for a network whose weights are here."""
    check_evaluation(evaluation, subject)
    model, substitute = network_of(subject, evaluation), _substitute(subject, evaluation)
    source = None if substitute is None else network_of(substitute)

    def attack(label: str | None = None, count: int | None = None, eps: str | float | None = None) -> xr.Dataset:
        resolved = evaluation.resolved_for(subject)
        if eps is not None:
            resolved = replace(resolved, eps=str(eps))
        images, method, ball = problem(subject, resolved)
        if label is not None:
            if label not in images.classes:
                raise unknown("class", label, images.classes)
            images = images.take(images.labels == images.classes.index(label))
        images, attacked = images.take(torch.arange(len(images))[:count]), list[Tensor]()
        with one_thread(), torch.no_grad():
            settings = EvaluationSettings(resolved.seed, resolved.batch, source_model=source, on_images=attacked.append)
            outcomes = evaluate.evaluate(model, images, method, ball, settings)
            clean, _ = images.batch(slice(None))
            logits = torch.cat([model(part).float() for part, _ in images.batches(resolved.batch)])
        return to_xarray.examples_dataset(clean, torch.cat(attacked), (logits, outcomes.logits), outcomes, images.classes)

    return attack


def class_features(subject: Subject, evaluation: Evaluation) -> xr.Dataset:
    """Return sums of the penultimate features of each class, on the attacked images of an evaluation ("features 2")."""
    images, attack, ball = problem(subject, evaluation)
    model, substitute = network_of(subject, evaluation), _substitute(subject, evaluation)
    source, attacked = None if substitute is None else network_of(substitute), list[Tensor]()
    settings = EvaluationSettings(evaluation.seed, evaluation.batch, evaluation.precision, source, on_images=attacked.append)
    with torch.no_grad():
        outcomes = evaluate.evaluate(model, images, attack, ball, settings)
        seen = [*zip(attacked, torch.split(outcomes.inside, evaluation.batch), images.batches(evaluation.batch), strict=True)]
        shown = [torch.where(inside.view(-1, 1, 1, 1), x, clean) for x, inside, (clean, _) in seen]
        values, layer = penultimate(model, shown, len(images.classes))
    attrs = store.provenance(subject, *where(), evaluation) | {"layer": layer, "schema": store.FEATURES}
    return to_xarray.features_dataset(values, outcomes, images.classes, attrs)
