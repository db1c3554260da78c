"""One run: train it, put questions to it, resume it."""

from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from classwise import attacks, defences, images, models
from classwise.core import files, results
from classwise.core.errors import UserError
from classwise.core.files import folder_digest
from classwise.core.results import Damaged
from classwise.core.spec import Spec
from classwise.defences import training
from classwise.images import Images
from classwise.runs import store
from classwise.runs.compute import device, to_xarray
from classwise.runs.compute.history import Recorder
from classwise.runs.compute.validate import checkpoints, head, split

# report(phase, done, total): "train" counts epochs, "attack" counts images.
Report = Callable[[str, int, int], None]


def no_report(phase: str, done: int, total: int) -> None:
    """Report nothing."""


def _plan(spec: Spec, extra: int) -> training.TrainConfig:
    defence = defences.build(spec.defence, spec.options)
    name = spec.attack or defence.attack
    watch = spec.select or (defence.watch if defence.watches else None)
    plain = ["norm", "batch_norm", "schedule", "milestones", "lr", "epochs", "batch"]
    plain += ["augment", "precision", "test_selected", "keep_last"]
    return training.TrainConfig(
        defence=defence,
        attack=attacks.build(name, spec.attack_options) if name else None,
        watch=attacks.build(watch) if watch else None,
        extra=extra,
        guard=attacks.build(defence.guard) if defence.guard else None,
        select_by=spec.select_by if spec.select else None,
        **{name: getattr(spec, name) for name in plain},
    )


def train(spec: Spec, report: Report = no_report, *, mend: bool = False) -> None:
    """Train a run whose history or weights are not there yet, going on from its checkpoint; write both.

    Another process that trains the same run is waited for. Diverged is raised where the loss is no longer finite. `mend` sets
    damaged files of data/runs/ aside; without it they are refused.
    """
    folder = store.run_folder(spec)
    with store.lock(folder):
        if store.find(spec, mend=mend) is not None and _weighed(spec, mend=mend):
            return
        # Of the images before they are read: they may change while it trains.
        told = {"spec": spec.json(), "images": folder_digest(spec.dataset)}
        data = {name: split(spec, name, extra=name == "train") for name in images.SPLITS}
        plan, state, recorder = _start(folder / store.CHECKPOINT, spec, data, told, mend=mend)
        kept = state.epoch
        report("train", kept, spec.epochs)
        try:
            for epoch in training.train(state, data["train"], plan, data["valid"], data["test"]):
                recorder.add(epoch)
                if recorder.due(epoch.number) or state.stopped:
                    recorder.measure(epoch.number, state.model, data)
                _checkpoint(folder / store.CHECKPOINT, told, state, recorder)
                kept = epoch.number
                report("train", kept, spec.epochs)
        except training.Diverged as error:
            good = f"the last good state is {folder / store.CHECKPOINT} (epoch {kept})" if kept else "no epoch was finished"
            raise training.Diverged(f"{spec.name}: {error}; {good}; a smaller lr may help") from None
        for name in checkpoints(spec):
            content = safetensors.torch.save(to_xarray.plain(state.checkpoint(name)))
            files.write(store.weights_file(folder, name), content)
        files.write(folder / "spec.json", spec.json().encode())
        attrs = store.provenance(spec, *device.where(), images=told["images"])
        attrs |= {"stopped": state.stopped} if state.stopped else {}
        results.save(recorder.dataset(attrs), store.HISTORY, folder / "history.nc")
        (folder / store.CHECKPOINT).unlink(missing_ok=True)


def _weighed(spec: Spec, *, mend: bool) -> bool:
    """Return whether the weights of a run are there; under `mend` a file that cannot be read is set aside."""
    path = store.weights(spec)
    if path is None or not mend:
        return path is not None
    try:
        safetensors.torch.load_file(path)
    except Exception:  # safetensors raises its own kinds
        path.replace(path.with_suffix(".damaged"))
        return False
    return True


def _start(
    checkpoint: Path, spec: Spec, data: Mapping[str, Images], told: Mapping[str, str], *, mend: bool
) -> tuple[training.TrainConfig, training.State, Recorder]:
    """Return what a training begins with, or goes on with where it has a checkpoint.

    Damaged is raised for a checkpoint that cannot be read or is of another run; under `mend` it is set aside, and everything
    begins anew, whatever had been taken over from it.
    """
    plan, state, recorder = _begin(spec, data)
    if not checkpoint.exists():
        return plan, state, recorder
    try:
        saved: dict[str, Any] = torch.load(checkpoint, map_location=device.device(), weights_only=True)
        if Spec.from_json(saved["spec"]).canonical() != spec.canonical():
            raise ValueError("it belongs to another run")
        if saved.get("images", "") != told["images"]:
            raise ValueError(f"{spec.dataset} holds other images now")
        state.load_state_dict(saved["state"])
        recorder.load_state_dict(saved["recorded"])
    except Exception as error:  # torch.load raises a dozen kinds for a file that is cut short or foreign
        if not mend:
            reason = str(error) if isinstance(error, ValueError) else "it is truncated or foreign"
            advice = f"delete it to train {spec.name} from the start"
            raise Damaged(f"{checkpoint} cannot be resumed from: {reason}; {advice}") from error
        checkpoint.replace(checkpoint.with_suffix(".damaged"))
        return _begin(spec, data)
    return plan, state, recorder


def _begin(spec: Spec, data: Mapping[str, Images]) -> tuple[training.TrainConfig, training.State, Recorder]:
    plan, classes = _plan(spec, int((data["train"].index < 0).sum())), data["train"].classes
    model = network(spec, data["train"])
    if spec.warm_start is not None:
        _warm(model, spec)
    rates = {name: getattr(spec, name) for name in ("momentum", "nesterov", "weight_decay", "decay")}
    sizes = data["train"].labels.bincount(minlength=len(classes))
    fixed = (len(classes), to_xarray.number(spec.eps), spec.optimiser, spec.luck)
    return plan, training.begin(model, plan, *fixed, sizes=sizes, **rates), Recorder(spec, classes)


def network(spec: Spec, data: Images) -> models.Classifier:
    """Return a run's network with fresh weights, made for images like `data`."""
    return models.build(spec.model, data, spec.width, spec.luck, head(spec), spec.layer)


def _warm(model: models.Classifier, spec: Spec) -> None:
    """Let a network begin with the weights of another run."""
    path = store.by_id(str(spec.warm_start))
    if path is None:
        raise UserError(f"warm_start={spec.warm_start!r} is the id of no finished run in data/runs/; train that one first")
    try:
        model.load_state_dict(safetensors.torch.load_file(path))
    except Exception as error:  # safetensors raises its own kinds, torch a RuntimeError with all keys
        raise UserError(f"warm_start={spec.warm_start!r} is a run of another network than {spec.name}: {path}") from error


def _checkpoint(path: Path, told: Mapping[str, str], state: training.State, recorder: Recorder) -> None:
    buffer = BytesIO()
    torch.save({**told, "state": state.state_dict(), "recorded": recorder.state_dict()}, buffer)
    files.write(path, buffer.getvalue())
