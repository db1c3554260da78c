"""One run: train it, put questions to it, resume it."""

import os
import platform
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import xarray as xr
from torch import Tensor, nn

from classwise import attacks, defences, images, models, outcomes, results, training
from classwise.balls import BALLS, Ball
from classwise.errors import UserError, unknown
from classwise.images import Images
from classwise.results import Damaged
from classwise.run import convert, store
from classwise.run.record import Recorder
from classwise.spec import Evaluation, Spec

# report(phase, done, total): "train" counts epochs, "attack" counts images.
Report = Callable[[str, int, int], None]


def quietly(phase: str, done: int, total: int) -> None:
    """Report nothing."""


def device() -> torch.device:
    """Return where to compute: CLASSWISE_DEVICE, else the first CUDA GPU, else the CPU."""
    return torch.device(os.environ.get("CLASSWISE_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu"))


def where() -> tuple[str, int]:
    """Return the name of the device and the CPU threads that results are made with, as their attributes keep them."""
    here = device()
    return (torch.cuda.get_device_name(here) if here.type == "cuda" else _processor()), torch.get_num_threads()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one CPU thread until the block ends: the same bits whatever else the machine does."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def check(spec: Spec) -> None:
    """Raise UserError where a spec names something that does not exist."""
    tables: dict[str, Collection[str]] = {"dataset": images.DATASETS, "model": models.MODELS, "defence": defences.DEFENCES}
    tables |= {"schedule": training.SCHEDULES, "optimiser": training.OPTIMISERS}
    for name, table in tables.items():
        if getattr(spec, name) not in table:
            raise unknown(name, getattr(spec, name), table)
    if spec.classes:
        images.load(spec.dataset, "test", spec.seed).only(spec.classes)
    if spec.batch_norm not in defences.BATCH_NORM_MODES:
        raise unknown("batch_norm", spec.batch_norm, defences.BATCH_NORM_MODES)
    inner = spec.attack or defences.build(spec.defence, spec.options).attack
    attacks.build(spec.probe)
    if inner is not None:
        attacks.build(inner, spec.attack_options)
    elif spec.attack_options:
        raise UserError(f"defence {spec.defence!r} attacks nothing: attack_options={dict(spec.attack_options)} have no use")


def check_evaluation(evaluation: Evaluation) -> None:
    """Raise UserError where an evaluation names something that does not exist."""
    attacks.build(evaluation.attack, evaluation.options)
    if evaluation.split not in images.SPLITS:
        raise unknown("split", evaluation.split, images.SPLITS)
    if evaluation.checkpoint != "last":
        raise unknown("checkpoint", evaluation.checkpoint, ["last"])


def split(spec: Spec, name: str) -> Images:
    """Return one split of a spec's dataset on the device, cut down to its classes."""
    whole = images.load(spec.dataset, name, spec.seed, device())
    return whole.only(spec.classes) if spec.classes else whole


def _plan(spec: Spec) -> training.Plan:
    defence = defences.build(spec.defence, spec.options)
    name = spec.attack or defence.attack
    attack = attacks.build(name, spec.attack_options) if name else None
    plain = {name: getattr(spec, name) for name in ("norm", "batch_norm", "schedule", "lr", "epochs", "batch")}
    return training.Plan(defence=defence, attack=attack, **plain)


def train(spec: Spec, report: Report = quietly, *, mend: bool = False) -> None:
    """Train a run whose history or weights are not there yet, going on from its checkpoint; write both.

    Another process that trains the same run is waited for. Diverged is raised where the loss is no longer finite.
    """
    folder = store.place(spec)
    with store.lock(folder):
        if store.find(spec, mend=mend) is not None and store.weights(spec) is not None:
            return
        data = {name: split(spec, name) for name in images.SPLITS}
        model = models.build(spec.model, data["train"], spec.width, spec.seed)
        plan, classes = _plan(spec), data["train"].classes
        rates = {"momentum": spec.momentum, "weight_decay": spec.weight_decay}
        state = training.begin(model, plan, len(classes), convert.number(spec.eps), spec.optimiser, spec.seed, **rates)
        recorder = Recorder(spec, classes)
        _resume(folder / store.CHECKPOINT, spec, state, recorder, mend=mend)
        kept = state.epoch
        report("train", kept, spec.epochs)
        try:
            for epoch in training.train(state, data["train"], plan):
                recorder.add(epoch)
                if recorder.due(epoch.number):
                    recorder.measure(epoch.number, model, data)
                _checkpoint(folder / store.CHECKPOINT, spec, state, recorder)
                kept = epoch.number
                report("train", kept, spec.epochs)
        except training.Diverged as error:
            good = f"the last good state is {folder / store.CHECKPOINT} (epoch {kept})" if kept else "no epoch was finished"
            raise training.Diverged(f"{spec.name}: {error}; {good}; a smaller lr may help") from None
        results.write(folder / store.WEIGHTS, safetensors.torch.save(convert.plain(model.state_dict())))
        results.write(folder / "spec.json", spec.json().encode())
        attrs = store.provenance(spec, *where())
        results.save(recorder.dataset(attrs), store.HISTORY, folder / "history.nc")
        (folder / store.CHECKPOINT).unlink(missing_ok=True)


def _checkpoint(path: Path, spec: Spec, state: training.State, recorder: Recorder) -> None:
    buffer = BytesIO()
    torch.save({"spec": spec.json(), "state": state.state_dict(), "recorded": recorder.state_dict()}, buffer)
    results.write(path, buffer.getvalue())


def _resume(path: Path, spec: Spec, state: training.State, recorder: Recorder, *, mend: bool) -> None:
    """Take over a checkpoint; Damaged where it cannot be read or is of another run (under `mend` it is set aside)."""
    if not path.exists():
        return
    try:
        saved: dict[str, Any] = torch.load(path, map_location=device(), weights_only=True)
        if Spec.from_json(saved["spec"]).canonical() != spec.canonical():
            raise ValueError("it belongs to another run")
        state.load_state_dict(saved["state"])
        recorder.load_state_dict(saved["recorded"])
    except Exception as error:  # torch.load raises a dozen kinds for a file that is cut short or foreign
        if not mend:
            reason = str(error) if isinstance(error, ValueError) else "it is truncated or foreign"
            raise Damaged(f"{path} cannot be resumed from: {reason}; delete it to train {spec.name} from the start") from error
        path.replace(path.with_suffix(".damaged"))


def model_of(spec: Spec) -> models.Classifier:
    """Return a trained run's model in eval mode, on the device."""
    model = models.build(spec.model, split(spec, "train"), spec.width)
    path = store.weights(spec)
    if path is None:
        raise UserError(f"the weights of {spec.name} are not here, only its results; remove its recorded folder to train it anew")
    try:
        model.load_state_dict(safetensors.torch.load_file(path))
    except Exception as error:  # safetensors raises its own kinds, torch a RuntimeError with all keys
        raise Damaged(f"{path} does not hold the weights of {spec.name}; delete its folder and ask again") from error
    return model.eval().to(device())


def evaluate(spec: Spec, evaluation: Evaluation, report: Report = quietly, *, mend: bool = False) -> None:
    """Put an evaluation to a trained run, if that was not done yet, and write the outcomes."""
    folder, evaluation = store.place(spec), evaluation.of(spec)
    with store.lock(folder):
        if store.find(spec, evaluation, mend=mend) is not None:
            return
        asked, ball, attack = problem(spec, evaluation)
        found = outcomes.evaluate(
            model_of(spec),
            asked,
            attack,
            ball,
            seed=evaluation.seed,
            report=lambda done: report("attack", done, len(asked)),
        )
        attrs = store.provenance(spec, *where(), evaluation)
        data = convert.outcomes_dataset(found, asked.classes, attrs)
        results.save(data, store.OUTCOMES, store.outcomes_file(folder, evaluation))


def problem(spec: Spec, evaluation: Evaluation) -> tuple[Images, Ball, attacks.Attack]:
    """Return the images, the ball and the attack of an evaluation."""
    evaluation = evaluation.of(spec)
    asked = split(spec, evaluation.split)
    if evaluation.per_class is not None:
        asked = asked.per_class(evaluation.per_class, evaluation.seed)
    assert evaluation.eps is not None
    assert evaluation.norm is not None
    ball = BALLS[evaluation.norm](convert.number(evaluation.eps))
    return asked, ball, attacks.build(evaluation.attack, evaluation.options)


def attacker(spec: Spec, evaluation: Evaluation) -> Callable[..., xr.Dataset]:
    """Return what `classwise.run.attacker` does, for a run whose weights are here."""
    check(spec)
    check_evaluation(evaluation)
    model = model_of(spec)

    def attack(label: str | None = None, count: int | None = None, eps: str | float | None = None) -> xr.Dataset:
        asked = evaluation.of(spec) if eps is None else replace(evaluation.of(spec), eps=str(eps))
        chosen, ball, method = problem(spec, asked)
        if label is not None:
            if label not in chosen.classes:
                raise unknown("class", label, chosen.classes)
            chosen = chosen.take(chosen.labels == chosen.classes.index(label))
        chosen = chosen.take(torch.arange(len(chosen))[:count])
        seen: list[Tensor] = []

        def watched(net: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
            seen.append(method(net, x, y, ball, generator))
            return seen[-1]

        with one_thread(), torch.no_grad():
            found = outcomes.evaluate(model, chosen, watched, ball, seed=asked.seed)
            clean, _ = chosen.batch(slice(None))
            logits = model(clean).float()
        return convert.examples_dataset(clean, torch.cat(seen), (logits, found.logits), found, chosen.classes)

    return attack
