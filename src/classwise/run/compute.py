"""One run: train it, put questions to it, resume it."""

import math
from collections.abc import Callable, Collection, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from classwise import attacks, defences, folding, images, models, results, training, variants
from classwise.audits import Audit, Subject
from classwise.errors import UserError, unknown
from classwise.images import Images
from classwise.places import contents
from classwise.results import Damaged
from classwise.run import adopted, convert, machine, sizes, store
from classwise.run.record import Recorder
from classwise.spec import READOUTS, Evaluation, Spec

# report(phase, done, total): "train" counts epochs, "attack" counts images.
Report = Callable[[str, int, int], None]


def quietly(phase: str, done: int, total: int) -> None:
    """Report nothing."""


def check(spec: Spec, planned: Collection[str] = ()) -> None:
    """Raise UserError where a spec names something that does not exist; `planned` are the ids of runs that will be there."""
    images.reader(spec.dataset)
    tables: dict[str, Collection[str]] = {"model": models.MODELS, "defence": defences.DEFENCES}
    tables |= {"schedule": training.SCHEDULES, "optimiser": training.OPTIMISERS, "decay": training.DECAYS}
    tables |= {"augment": images.AUGMENTATIONS, "precision": folding.PRECISIONS, "select_by": training.selection.CRITERIA}
    tables |= {"layer": models.LAYERS, "batch_norm": defences.BATCH_NORM_MODES}
    for name, table in tables.items():
        if getattr(spec, name) not in table:
            raise unknown(name, getattr(spec, name), table)
    if spec.head is not None and spec.head not in models.HEADS:
        raise unknown("head", spec.head, models.HEADS)
    _fits(spec)
    named(spec)
    if spec.warm_start is not None and spec.warm_start not in planned and store.by_id(spec.warm_start) is None:
        raise UserError(f"warm_start={spec.warm_start!r} is the id of no finished run in data/runs/; train that one first")
    if spec.select is not None:
        attacks.build(spec.select)
    if spec.extra is not None:
        images.extra_folders(spec.extra, images.load(spec.dataset, "test", spec.seed).classes)
    defence = defences.build(spec.defence, spec.options)
    reach = _reach(spec, spec.eps, spec.norm, "eps")
    if defence.names_classes:
        defence.check(len(named(spec)), convert.number(spec.eps), reach)
    inner = spec.attack or defence.attack
    attacks.build(spec.probe)
    machine.device()
    if inner is not None:
        attack = attacks.build(inner, spec.attack_options)
        if attack.names_classes:
            attack.check(len(named(spec)))
        if getattr(defence.objective, "soft", False) and getattr(attack, "labels_only", False):
            raise UserError(f"defence {spec.defence!r} attacks with probabilities as target, {inner!r} needs labels; use pgd-10")
    elif spec.attack_options:
        raise UserError(f"defence {spec.defence!r} attacks nothing: attack_options={dict(spec.attack_options)} have no use")


def _fits(spec: Spec) -> None:
    """Raise UserError where a model cannot be so wide, or takes no images so small."""
    size, side = sizes.of(spec), models.MODELS[spec.model].least
    # Of images that are not here whoever computes the run will hear where to put them.
    shape = (1, side, side) if size is None else (size.channels, size.height, size.width)
    models.suits(spec.model, shape, spec.width)


def _reach(spec: Subject, eps: str, norm: str, name: str) -> float:
    """Return the radius that covers every image; a UserError says that `eps` does. An Linf radius was checked at the door."""
    radius = convert.number(eps)
    if norm == "linf" or radius < 1:
        return 1.0
    reach = math.sqrt(math.prod(split(spec, "test").shape))
    if radius >= reach:
        of = spec.title if isinstance(spec, Audit) else spec.dataset
        raise UserError(f"{name}={eps} covers every image of {of}: none are {reach:.3g} apart; write a smaller radius")
    return reach


def check_evaluation(evaluation: Evaluation, spec: Subject) -> None:
    """Raise UserError where an evaluation of a run names something that does not exist."""
    attack = attacks.build(evaluation.attack, evaluation.options)
    if attack.names_classes:
        attack.check(len(named(spec)))
    asked = evaluation.of(spec)
    _reach(spec, str(asked.eps), str(asked.norm), "eps" if isinstance(spec, Audit) else "eval_eps")
    if isinstance(spec, Audit):
        return
    tables: dict[str, Collection[str]] = {"split": images.SPLITS, "precision": folding.PRECISIONS, "readout": READOUTS}
    for name, table in tables.items():
        if getattr(evaluation, name) not in table:
            raise unknown(name, getattr(evaluation, name), table)
    transform = images.transform(evaluation.transform)
    size = None if evaluation.transform == "none" or evaluation.transform.startswith("cifar10-c-") else sizes.of(spec)
    if size is not None:  # else whoever computes the run will hear where to put its images
        transform(_drawn(size, named(spec)), 0)  # whether it suits images of this form
    if evaluation.substitute is not None:
        defences.build(evaluation.substitute)
        if attacks.build(evaluation.attack, evaluation.options).stops_early:
            raise UserError(f"{evaluation.attack!r} leaves alone what a substitute gets wrong; transfer by pgd-20 or fgsm")
    if evaluation.checkpoint not in checkpoints(spec):
        reason = "best needs select='pgd-10', last-1 needs keep_last=2, average a defence that averages"
        raise UserError(f"{unknown(f'checkpoint of {spec.name}', evaluation.checkpoint, checkpoints(spec))}; {reason}")
    if evaluation.readout == "cosines" and head(spec) != "cosine":
        raise UserError(f"{spec.name} has no cosines to read: its head is {head(spec)!r}; use readout='logits'")


def _drawn(size: sizes.Size, classes: tuple[str, ...]) -> Images:
    """Return one image of a size: a dark square on light ground."""
    pixels = torch.full((1, size.channels, size.height, size.width), 255, dtype=torch.uint8)
    pixels[..., size.height // 4 : size.height // 2, size.width // 4 : size.width // 2] = 0
    return Images(pixels, torch.zeros(1).long(), torch.zeros(1).long(), classes)


def head(spec: Spec) -> str:
    """Return the head of a run's network, a name of models.HEADS: its own or that of its defence."""
    return spec.head or defences.build(spec.defence).head


def checkpoints(spec: Spec) -> list[str]:
    """Return the names of the weights that a run leaves, "last" first."""
    averages = defences.build(spec.defence, spec.options).averaging.averages
    chosen = {"selects": spec.select is not None, "test_selected": spec.test_selected}
    return training.selection.names(averages=averages, keep=spec.keep_last, **chosen)


def split(spec: Subject, name: str, *, extra: bool = False) -> Images:
    """Return one split of a spec's dataset on the device, cut down to its classes; `extra` adds its pseudo-labelled images.

    An audit asks about test images only.
    """
    if isinstance(spec, Audit):
        return adopted.shown(spec)
    whole = images.load(spec.dataset, name, spec.seed, machine.device())
    if extra and spec.extra is not None:
        whole = whole.and_also(images.extra(spec.extra, whole))
    return whole.only(spec.classes) if spec.classes else whole


def named(spec: Subject) -> tuple[str, ...]:
    """Return the names of a run's classes: without its images, where `variants` knows those of the dataset."""
    whole = variants.CLASSES.get(variants.undressed(spec.dataset))
    if whole is None or isinstance(spec, Audit):
        return split(spec, "test").classes
    return variants.kept(whole, spec.classes)


def _plan(spec: Spec, extra: int) -> training.Plan:
    defence = defences.build(spec.defence, spec.options)
    name = spec.attack or defence.attack
    watch = spec.select or (defence.watch if defence.watches else None)
    plain = ["norm", "batch_norm", "schedule", "milestones", "lr", "epochs", "batch"]
    plain += ["augment", "precision", "test_selected", "keep_last"]
    return training.Plan(
        defence=defence,
        attack=attacks.build(name, spec.attack_options) if name else None,
        watch=attacks.build(watch) if watch else None,
        extra=extra,
        guard=attacks.build(defence.guard) if defence.guard else None,
        select_by=spec.select_by if spec.select else None,
        **{name: getattr(spec, name) for name in plain},
    )


def train(spec: Spec, report: Report = quietly, *, mend: bool = False) -> None:
    """Train a run whose history or weights are not there yet, going on from its checkpoint; write both.

    Another process that trains the same run is waited for. Diverged is raised where the loss is no longer finite. `mend` sets
    damaged files of data/runs/ aside; without it they are refused.
    """
    folder = store.place(spec)
    with store.lock(folder):
        if store.find(spec, mend=mend) is not None and _weighed(spec, mend=mend):
            return
        # Of the images before they are read: they may change while it trains.
        told = {"spec": spec.json(), "images": contents(spec.dataset)}
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
            content = safetensors.torch.save(convert.plain(state.checkpoint(name)))
            results.write(store.weights_file(folder, name), content)
        results.write(folder / "spec.json", spec.json().encode())
        attrs = store.provenance(spec, *machine.where(), images=told["images"])
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
) -> tuple[training.Plan, training.State, Recorder]:
    """Return what a training begins with, or goes on with where it has a checkpoint.

    Damaged is raised for a checkpoint that cannot be read or is of another run; under `mend` it is set aside, and everything
    begins anew, whatever had been taken over from it.
    """
    plan, state, recorder = _begin(spec, data)
    if not checkpoint.exists():
        return plan, state, recorder
    try:
        saved: dict[str, Any] = torch.load(checkpoint, map_location=machine.device(), weights_only=True)
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


def _begin(spec: Spec, data: Mapping[str, Images]) -> tuple[training.Plan, training.State, Recorder]:
    plan, classes = _plan(spec, int((data["train"].index < 0).sum())), data["train"].classes
    model = network(spec, data["train"])
    if spec.warm_start is not None:
        _warm(model, spec)
    rates = {name: getattr(spec, name) for name in ("momentum", "nesterov", "weight_decay", "decay")}
    sizes = data["train"].labels.bincount(minlength=len(classes))
    fixed = (len(classes), convert.number(spec.eps), spec.optimiser, spec.luck)
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
    results.write(path, buffer.getvalue())
