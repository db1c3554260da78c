"""Train a run, or resume its training."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import safetensors.torch

from classwise import attacks, defences, images
from classwise.core import files, results
from classwise.core.errors import UserError
from classwise.core.files import folder_digest
from classwise.core.identity import radius_value
from classwise.core.spec import Spec
from classwise.defences import training
from classwise.defences.averaging import Weights, averaging_of
from classwise.images import Images
from classwise.models import inference
from classwise.runs import store
from classwise.runs.compute import device, rebuild
from classwise.runs.compute.history import EpochMeasurements
from classwise.runs.compute.networks import load, network
from classwise.runs.compute.resume import Resumable
from classwise.runs.compute.validate import checkpoints, images_of, validation_attack
from classwise.runs.store import Key

# report(phase, done, total): "train" counts epochs, "attack" counts images; "rebuild" is the begin of a training that first makes
# its images.
Report = Callable[[str, int, int], None]


def no_report(phase: str, done: int, total: int) -> None:
    """Report nothing."""


def _config(spec: Spec, extra: int, classes: int) -> training.TrainConfig:
    defence = defences.build(spec.defence, spec.options)
    name = spec.attack or defence.attack
    measuring = validation_attack(spec)
    alike = {field.name: getattr(spec, field.name) for field in fields(training.TrainConfig) if hasattr(spec, field.name)}
    resolved = {
        "defence": defence,
        "attack": attacks.build(name, spec.attack_options) if name else None,
        "validation_attack": attacks.build(measuring) if measuring else None,
        "extra": extra,
        "overfitting_check": attacks.build(defence.overfitting_check) if defence.overfitting_check else None,
        "select_by": spec.select_by if spec.select else None,
        "averages": {name: averaging_of(name, classes) for name in spec.averages},
        "validation_radius": radius_value(spec.measured_eps),
    }
    return training.TrainConfig(**(alike | resolved))


def train(spec: Spec, report: Report = no_report, *, repair: bool = False) -> None:
    """Train a run whose history or weights are missing, resuming from its checkpoint if there is one, and write both.

    A run that is recorded with its weights is not trained. The one that makes its training images is trained first.
    If another process trains the same run, this one waits for it. Diverged is raised where the loss is no longer finite. `repair`
    sets damaged files of data/runs/ aside; without it they raise Damaged.
    """
    if store.has_recorded_network(spec):
        return
    folder = store.run_folder(spec)
    if spec.image_source is not None and not _is_trained(spec, repair=repair):
        train(spec.image_source, repair=repair)
    with Key(spec).lock():
        if _is_trained(spec, repair=repair):
            return
        digest = folder_digest(spec.dataset)  # before the images are read: they may change during the training
        data = {name: images_of(spec, name, extra=name == "train") for name in images.SPLITS}
        if spec.rebuilt != "none":
            if not (folder / store.CHECKPOINT).exists():
                report("rebuild", 0, spec.epochs)
            attrs = store.provenance(spec, *device.name_and_threads(), images=digest)
            data["train"] = rebuild.training_images(spec, data["train"], folder, attrs)
        state, recorder = _train(spec, data, digest + store.own_code(spec), report, repair=repair)
        for name in checkpoints(spec):
            finished = _finished(spec, state, name, data["train"])
            weights = {key: value.detach().cpu().contiguous() for key, value in finished.items()}
            files.write(store.weights_file(folder, name), safetensors.torch.save(weights))
        files.write(folder / "spec.json", spec.json().encode())
        attrs = store.provenance(spec, *device.name_and_threads(), images=digest)
        attrs |= {"stopped": state.stopped} if state.stopped else {}
        results.save(recorder.dataset(attrs), store.HISTORY, folder / Key(spec).name)
        for temporary in (store.CHECKPOINT, rebuild.PART):
            (folder / temporary).unlink(missing_ok=True)


def _finished(spec: Spec, state: training.State, name: str, images: Images) -> Weights:
    """Return the weights of a checkpoint as they are stored: rounded where the run says so, or with renewed statistics."""
    average, renewed, _ = name.partition(training.checkpoints.RENEWED)
    weights = state.checkpoint(average)
    weights = training.checkpoints.halve_precision(weights, state.model) if spec.half else weights
    if not renewed or average not in state.averages:
        return weights
    with inference.seed_random_state(state.generator, state.epoch), device.one_thread():
        fresh = training.checkpoints.renew_statistics(state, _config(spec, 0, len(images.classes)), images, weights)
    return training.checkpoints.halve_precision(fresh, state.model) if spec.half else fresh


def _train(
    spec: Spec, data: Mapping[str, Images], digest: str, report: Report, *, repair: bool
) -> tuple[training.State, EpochMeasurements]:
    """Train from the beginning or the checkpoint to the end; digest: of the images and of code of the user's own."""
    config, state, recorder = _begin(spec, data)
    checkpoint = Resumable(Key(spec), store.run_folder(spec) / store.CHECKPOINT)

    def take(saved: dict[str, Any]) -> None:
        if saved.get("images", "") != digest:
            raise ValueError(f"the images in {spec.dataset} have changed, or code of yours")
        state.load_state_dict(saved["state"])
        recorder.values = {name: saved["recorded"][name].cpu() for name in recorder.values}

    if checkpoint.path.exists() and not checkpoint.restore(take, repair=repair):
        config, state, recorder = _begin(spec, data)  # without anything already restored from it
    kept = state.epoch
    report("train", kept, spec.epochs)
    try:
        for epoch in training.train(state, data["train"], config, data["valid"], data["test"]):
            recorder.add(epoch)
            if recorder.due(epoch.number) or state.stopped:
                recorder.measure(epoch.number, state.model, data)
            saved = checkpoint.keep(lambda: {"images": digest, "state": state.state_dict(), "recorded": dict(recorder.values)})
            kept = epoch.number if saved else kept
            report("train", epoch.number, spec.epochs)
    except training.Diverged as error:
        good = f"the last good state is {checkpoint.path} (epoch {kept})" if kept else "no epoch was finished"
        raise training.Diverged(f"{spec.name}: {error}; {good}; a smaller lr may help") from error
    return state, recorder


def _is_trained(spec: Spec, *, repair: bool) -> bool:
    """Return whether the history and the weights of a run are present; with `repair` what cannot be read is set aside."""
    path = store.weights(spec) if Key(spec).read(repair=repair) is not None else None
    if path is None or not repair:
        return path is not None
    try:
        safetensors.torch.load_file(path)
    except Exception:  # safetensors raises its own kinds
        store.set_aside(path)
        return False
    return True


def _begin(spec: Spec, data: Mapping[str, Images]) -> tuple[training.TrainConfig, training.State, EpochMeasurements]:
    classes = data["train"].classes
    config = _config(spec, int((data["train"].index < 0).sum()), len(classes))
    model = network(spec, data["train"])
    if spec.warm_start is not None:
        path = store.warm_start(spec)
        load(model, path, UserError(f"warm_start={spec.warm_start!r} is a run of another network than {spec.name}: {path}"))
    sizes = data["train"].labels.bincount(minlength=len(classes))
    state = training.begin(model, config, len(classes), radius_value(spec.eps), spec.training_seed, sizes=sizes)
    return config, state, EpochMeasurements(spec, classes)
