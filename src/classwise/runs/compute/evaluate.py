"""Questions put to a trained run: its model, attacked."""

import hashlib
import json
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
import xarray as xr
from torch import Tensor, nn

import classwise
from classwise import attacks
from classwise.attacks import evaluate, sanity
from classwise.attacks.balls import BALLS, Ball
from classwise.attacks.evaluate import Outcomes
from classwise.core import files, results
from classwise.core.audit import Subject
from classwise.core.errors import unknown
from classwise.core.files import folder_digest
from classwise.core.results import Damaged
from classwise.core.spec import Evaluation, Spec
from classwise.images import Images, transform
from classwise.models import features
from classwise.runs import store
from classwise.runs.compute import to_xarray
from classwise.runs.compute.device import device, one_thread, where
from classwise.runs.compute.networks import model_of
from classwise.runs.compute.train import Report, no_report, train
from classwise.runs.compute.validate import check, check_evaluation, split

# What an evaluation has done is kept in a file of this ending, written at most once in so many seconds.
PART, SAVE_AFTER = ".part", 10.0


def evaluate_run(spec: Subject, evaluation: Evaluation, report: Report = no_report, *, mend: bool = False) -> None:
    """Put an evaluation to a trained run, if that was not done yet, and write the outcomes; a substitute is trained first."""
    for done, total in step_by_step(spec, evaluation, mend=mend):
        report("attack", done, total)


def step_by_step(spec: Subject, evaluation: Evaluation, *, mend: bool = False) -> Generator[tuple[int, int], None, None]:
    """Do the same batch by batch, and yield how many images are done, of how many; closed early, it goes on where it was."""
    folder, evaluation = store.run_folder(spec), evaluation.of(spec)
    # Before the lock is taken: it is that of this question alone, so that several are put to a run at once.
    if store.find(spec, evaluation, mend=mend) is not None:
        return
    made_on = _substitute(spec, evaluation)
    if made_on is not None:
        train(made_on, mend=mend)
    with store.lock(folder, evaluation) as lock:
        if store.find(spec, evaluation, mend=mend) is not None:
            return
        seen = folder_digest(spec.dataset)  # before they are read: they may change meanwhile
        asked, attack, ball = problem(spec, evaluation)
        model, file = model_of(spec, evaluation), store.outcomes_file(folder, evaluation)
        source = None if made_on is None else model_of(made_on)
        asks = {"spec": spec.json(), "evaluation": evaluation.json(), "stamp": _stamp(model, source) + seen}
        kept = _kept(file.with_suffix(PART), asks, mend=mend)
        how = {"made_on": source, "seed": evaluation.seed, "precision": evaluation.precision, "batch": evaluation.batch}
        try:
            yield sum(len(part.index) for part in kept), len(asked)
            for _ in _go_on(kept, file.with_suffix(PART), asks, model, (asked, attack, ball), how):
                yield sum(len(part.index) for part in kept), len(asked)
        except BaseException:
            _keep(kept, file.with_suffix(PART), asks)
            raise
        found = Outcomes.joined(kept)
        checks = json.dumps(sanity.sanity_checks(model, asked, attack, found, source))
        attrs = store.provenance(spec, *where(), evaluation, images=seen) | {"checks": checks}
        members = list(getattr(attack, "members", dict)())
        results.save(to_xarray.outcomes_dataset(found, asked.classes, attrs, members), store.OUTCOMES, file)
        file.with_suffix(PART).unlink(missing_ok=True)
        # Whoever waited for it finds the answer; only where no file can be removed that is open, the lock stays.
        with suppress(OSError):
            Path(lock.lock_file).unlink()


def _substitute(spec: Subject, evaluation: Evaluation) -> Spec | None:
    return spec.substitute(evaluation.substitute) if isinstance(spec, Spec) and evaluation.substitute is not None else None


def _stamp(*models: nn.Module | None) -> str:
    """Return what the batches of one evaluation share beside the question: the code and the weights."""
    digest = hashlib.sha256(f"{classwise.__version__} {store.commit()}".encode())
    for model in models:
        for value in model.state_dict().values() if model is not None else ():
            digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _go_on(
    kept: list[Outcomes],
    part: Path,
    asks: dict[str, str],
    model: nn.Module,
    asked: tuple[Images, attacks.Attack, Ball],
    how: dict[str, Any],
) -> Iterator[None]:
    """Attack the batches that are not `kept` yet, add them to it, and write what is there every so many seconds."""
    written, done = time.monotonic(), sum(len(one.index) for one in kept)
    for one in evaluate.batches(model, *asked, **how, begin=done) if done < len(asked[0]) else ():
        kept.append(one)
        if time.monotonic() - written > SAVE_AFTER:
            _keep(kept, part, asks)
            written = time.monotonic()
        yield


def _keep(kept: list[Outcomes], part: Path, asks: dict[str, str]) -> None:
    """Write the batches that are done, if any."""
    if kept:
        rows = [{name: value for name, value in vars(each).items() if value is not None} for each in kept]
        buffer = BytesIO()
        torch.save({**asks, "rows": rows}, buffer)
        files.write(part, buffer.getvalue())


def _kept(part: Path, asks: dict[str, str], *, mend: bool) -> list[Outcomes]:
    """Return the batches that an evaluation which was cut short had done; none where code or weights have changed since."""
    if not part.exists():
        return []
    try:
        saved = torch.load(part, map_location=device(), weights_only=True)
        if any(saved[name] != asks[name] for name in ("spec", "evaluation")):
            raise ValueError("it belongs to another question")
        return [Outcomes(**row) for row in saved["rows"]] if saved["stamp"] == asks["stamp"] else []
    except Exception as error:  # torch.load raises a dozen kinds for a file that is cut short or foreign
        if not mend:
            reason = str(error) if isinstance(error, ValueError) else "it is truncated or foreign"
            raise Damaged(f"{part} cannot be resumed from: {reason}; delete it to attack from the start") from error
        part.replace(part.with_suffix(".damaged"))
        return []


def problem(spec: Subject, evaluation: Evaluation) -> tuple[Images, attacks.Attack, Ball]:
    """Return the images, the attack and the ball of an evaluation."""
    evaluation = evaluation.of(spec)
    asked = split(spec, evaluation.split)
    if evaluation.per_class is not None:
        asked = asked.per_class(evaluation.per_class, evaluation.seed)
    asked = transform(evaluation.transform)(asked, evaluation.seed)
    assert evaluation.eps is not None
    assert evaluation.norm is not None
    ball = BALLS[evaluation.norm](to_xarray.number(evaluation.eps))
    return asked, attacks.build(evaluation.attack, evaluation.options), ball


def attacker(spec: Subject, evaluation: Evaluation) -> Callable[..., xr.Dataset]:
    """Return what `classwise.runs.attacker` does, for a run whose weights are here."""
    if isinstance(spec, Spec):
        check(spec)
    check_evaluation(evaluation, spec)
    model, made_on = model_of(spec, evaluation), _substitute(spec, evaluation)
    source = None if made_on is None else model_of(made_on)

    def attack(label: str | None = None, count: int | None = None, eps: str | float | None = None) -> xr.Dataset:
        asked = evaluation.of(spec) if eps is None else replace(evaluation.of(spec), eps=str(eps))
        chosen, method, ball = problem(spec, asked)
        if label is not None:
            if label not in chosen.classes:
                raise unknown("class", label, chosen.classes)
            chosen = chosen.take(chosen.labels == chosen.classes.index(label))
        chosen, seen = chosen.take(torch.arange(len(chosen))[:count]), list[Tensor]()
        with one_thread(), torch.no_grad():
            how: dict[str, Any] = {"made_on": source, "seed": asked.seed, "batch": asked.batch}
            found = evaluate.evaluate(model, chosen, method, ball, see=seen.append, **how)
            clean, _ = chosen.batch(slice(None))
            logits = torch.cat([model(part).float() for part, _ in chosen.batches(asked.batch)])
        return to_xarray.examples_dataset(clean, torch.cat(seen), (logits, found.logits), found, chosen.classes)

    return attack


def class_features(spec: Subject, evaluation: Evaluation) -> xr.Dataset:
    """Return where the network puts the images of each class that an evaluation asks about (schema "features 1")."""
    asked, _, _ = problem(spec, evaluation)
    found, layer = features.penultimate(model_of(spec, evaluation), asked, evaluation.batch)
    mean, variance = features.by_class(found, asked.labels, len(asked.classes))
    attrs = store.provenance(spec, *where(), evaluation) | {"layer": layer}
    values = {"mean": mean, "variance": variance}
    data = {name: (("label", "feature"), value.cpu().numpy()) for name, value in values.items()}
    coords = {"label": list(asked.classes), "feature": list(range(found.shape[1]))}
    return xr.Dataset(data, coords, attrs | {"schema": store.FEATURES})
