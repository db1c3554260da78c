"""Evaluations: a trained network under an attack, resumable batch by batch."""

import json
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
import xarray as xr
from torch import Tensor, nn

import classwise
from classwise import attacks
from classwise.attacks import PGD, evaluate, sanity
from classwise.attacks.balls import BALLS, Ball
from classwise.attacks.evaluate import EvaluationSettings, Outcomes
from classwise.core import results
from classwise.core.errors import UserError
from classwise.core.files import folder_digest
from classwise.core.identity import radius_value
from classwise.core.spec import Evaluation, Spec, Subject
from classwise.images import Images, transform
from classwise.models.modes import eval_mode, penultimate
from classwise.runs import store
from classwise.runs.compute import to_xarray
from classwise.runs.compute.device import name_and_threads, one_thread
from classwise.runs.compute.networks import network_of, weights_digest
from classwise.runs.compute.resume import Resumable
from classwise.runs.compute.train import Report, no_report, train
from classwise.runs.compute.validate import check_evaluation, checkpoints, images_of
from classwise.runs.store import OUTCOMES, Key

# The suffix of the file that keeps finished batches, and the names in it.
PART, _FIELDS = ".part", [field.name for field in fields(Outcomes)]


def evaluate_run(subject: Subject, evaluation: Evaluation, report: Report = no_report, *, repair: bool = False) -> None:
    """Evaluate a trained network and store the outcomes, unless they exist; a substitute is trained first."""
    for done, total in step_by_step(subject, evaluation, repair=repair):
        report("attack", done, total)


def step_by_step(subject: Subject, evaluation: Evaluation, *, repair: bool = False) -> Generator[tuple[int, int], None, None]:
    """Evaluate batch by batch and yield the number of images done and in all; after an interruption the next call resumes."""
    key = Key(subject, OUTCOMES, evaluation)
    evaluation = evaluation.resolve_for(subject)
    if key.read(repair=repair) is not None:
        return
    if (twin := _twin(subject, evaluation, repair=repair)) is not None:
        results.save(twin.assign_attrs(evaluation=evaluation.json()), OUTCOMES, key.file)
        return
    if evaluation.substitute is not None:
        train(subject.substitute(evaluation.substitute), repair=repair)
    with key.lock() as lock:
        if key.read(repair=repair) is not None:
            return
        digest = folder_digest(subject.dataset)  # before the images are read: they may change meanwhile
        images, attack, ball = attack_inputs(subject, evaluation)
        model, source = _networks(subject, evaluation)
        code = store.own_code(subject, evaluation)
        stamp = weights_digest(f"{classwise.__version__} {store.commit()} {_FIELDS} {code}", model, source) + digest
        kept, parts = Resumable(key, key.file.with_suffix(PART), time.monotonic()), list[Outcomes]()

        def take(state: dict[str, Any]) -> None:
            if state["stamp"] == stamp:
                parts.extend(Outcomes(**row) for row in state["rows"])

        def state() -> dict[str, Any]:
            return {"stamp": stamp, "rows": [{name: x for name, x in vars(part).items() if x is not None} for part in parts]}

        kept.restore(take, repair=repair)
        settings = EvaluationSettings(evaluation.seed, evaluation.batch, evaluation.precision, source)
        done = sum(len(part.index) for part in parts)
        try:
            yield done, len(images)
            for part in evaluate.batches(model, images, attack, ball, settings, done) if done < len(images) else ():
                parts.append(part)
                done += len(part.index)
                kept.keep(state)
                yield done, len(images)
        except BaseException:
            if parts:
                kept.keep(state, now=True)
            raise
        outcomes = Outcomes.concatenate(parts)
        checks = json.dumps(sanity.sanity_checks(model, images, attack, outcomes, source, ball))
        attrs = store.provenance(subject, *name_and_threads(), evaluation, images=digest) | {"checks": checks}
        results.save(to_xarray.outcomes_dataset(outcomes, images.classes, attrs, [*attack.members()]), OUTCOMES, key.file)
        kept.path.unlink(missing_ok=True)
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
    content = store.read_verified(weights) if others else b""
    for name, path in others.items():
        if path is not None and path.read_bytes() == content:
            stored = Key(subject, OUTCOMES, replace(evaluation, checkpoint=name)).read(repair=repair)
            if stored is not None:
                del stored.attrs["recorded"]
                return stored
    return None


def _networks(subject: Subject, evaluation: Evaluation) -> tuple[nn.Module, nn.Module | None]:
    other = None if evaluation.substitute is None else network_of(subject.substitute(evaluation.substitute))
    return network_of(subject, evaluation), other


def attack_inputs(subject: Subject, evaluation: Evaluation) -> tuple[Images, attacks.Attack, Ball]:
    """Return the images, the attack and the ball of an evaluation."""
    evaluation = evaluation.resolve_for(subject)
    images = images_of(subject, evaluation.split)
    if evaluation.classes:
        images = images.select_classes(*evaluation.classes)
    if evaluation.per_class is not None:
        images = images.per_class(evaluation.per_class, evaluation.seed)
    images = transform(evaluation.transform)(images, evaluation.seed)
    ball = BALLS[str(evaluation.norm)](radius_value(str(evaluation.eps)))
    return images, attacks.build(evaluation.attack, evaluation.options), ball


def attack_function(subject: Subject, evaluation: Evaluation) -> Callable[..., xr.Dataset]:
    """Return the function of `runs.attack_function` for a network whose weights are here."""
    check_evaluation(evaluation, subject)
    model, source = _networks(subject, evaluation)

    def attack(label: str | None = None, count: int | None = None, eps: str | float | None = None) -> xr.Dataset:
        resolved = evaluation.resolve_for(subject)
        if eps is not None:
            resolved = replace(resolved, eps=str(eps))
        images, method, ball = attack_inputs(subject, resolved)
        images = images if label is None else images.select_classes(label)
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
    images, attack, ball = attack_inputs(subject, evaluation)
    (model, source), attacked = _networks(subject, evaluation), list[Tensor]()
    settings = EvaluationSettings(evaluation.seed, evaluation.batch, evaluation.precision, source, on_images=attacked.append)
    with torch.no_grad():
        outcomes = evaluate.evaluate(model, images, attack, ball, settings)
        seen = [*zip(attacked, torch.split(outcomes.inside, evaluation.batch), images.batches(evaluation.batch), strict=True)]
        shown = [torch.where(inside.view(-1, 1, 1, 1), x, clean) for x, inside, (clean, _) in seen]
        values, layer = penultimate(model, shown, len(images.classes))
    return to_xarray.features_dataset(values, outcomes, images.classes, {"layer": layer, "schema": store.FEATURES})


class _Recording(nn.Module):
    """A model that keeps its logits whenever the attack needs their gradient."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.logits = model, list[Tensor]()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x)
        if x.requires_grad:
            self.logits.append(logits.detach())
        return logits


def trace_attack(subject: Subject, evaluation: Evaluation) -> xr.Dataset:
    """Return the logits of the images of an evaluation from the start of an attack to its last step (schema "course 1").

    Only for PGD, of any loss, with one start and no early stopping; another attack is a UserError.
    """
    check_evaluation(evaluation, subject)
    images, attack, ball = attack_inputs(subject, evaluation)
    if not isinstance(attack, PGD) or attack.success != "last" or attack.restarts != 1:
        raise UserError(f"{evaluation.attack!r} has no steps that all images share; trace pgd-20 or temperature-pgd-20")
    model = _Recording(network_of(subject, evaluation))
    x, y = images.batch(slice(None))
    generator = torch.Generator(x.device).manual_seed(evaluation.seed)
    with one_thread(), eval_mode(model):
        attacked = attack(model, x, y, ball, generator)
        with torch.no_grad():
            logits = torch.stack([step.cpu() for step in (*model.logits, model(attacked))], 1)
    coords = {"image": images.index.cpu().numpy(), "step": range(logits.shape[1]), "predicted": list(images.classes)}
    return to_xarray.label_dimensions(store.TRACE, {"truth": y, "logits": logits}, coords)
