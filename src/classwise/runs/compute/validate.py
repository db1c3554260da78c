"""One run: train it, put questions to it, resume it."""

import math
from collections.abc import Collection

import torch

from classwise import attacks, defences, images, models
from classwise.core import datasets
from classwise.core.audit import Audit, Subject
from classwise.core.errors import UserError, unknown
from classwise.core.spec import READOUTS, Evaluation, Spec
from classwise.defences import training
from classwise.images import Images
from classwise.models import inference
from classwise.runs import store
from classwise.runs.compute import device, foreign_network, sizes, to_xarray


def check(spec: Spec, planned: Collection[str] = ()) -> None:
    """Raise UserError where a spec names something that does not exist; `planned` are the ids of runs that will be there."""
    images.reader(spec.dataset)
    tables: dict[str, Collection[str]] = {"model": models.MODELS, "defence": defences.DEFENCES}
    tables |= {"schedule": training.SCHEDULES, "optimiser": training.OPTIMISERS, "decay": training.DECAYS}
    tables |= {"augment": images.AUGMENTATIONS, "precision": inference.PRECISIONS, "select_by": training.checkpoints.CRITERIA}
    tables |= {"layer": models.LAYERS, "batch_norm": defences.BATCH_NORM_MODES}
    for name, table in tables.items():
        if getattr(spec, name) not in table:
            raise unknown(name, getattr(spec, name), table)
    if spec.head is not None and spec.head not in models.HEADS:
        raise unknown("head", spec.head, models.HEADS)
    _fits(spec)
    class_names(spec)
    if spec.warm_start is not None and spec.warm_start not in planned and store.by_id(spec.warm_start) is None:
        raise UserError(f"warm_start={spec.warm_start!r} is the id of no finished run in data/runs/; train that one first")
    if spec.select is not None:
        attacks.build(spec.select)
    if spec.extra is not None:
        images.extra_folders(spec.extra, images.load(spec.dataset, "test", spec.seed).classes)
    defence = defences.build(spec.defence, spec.options)
    reach = _reach(spec, spec.eps, spec.norm, "eps")
    if defence.names_classes:
        defence.check(len(class_names(spec)), to_xarray.number(spec.eps), reach)
    inner = spec.attack or defence.attack
    attacks.build(spec.probe)
    device.device()
    if inner is not None:
        attack = attacks.build(inner, spec.attack_options)
        if attack.names_classes:
            attack.check(len(class_names(spec)))
        if getattr(defence.objective, "soft", False) and getattr(attack, "labels_only", False):
            raise UserError(f"defence {spec.defence!r} attacks with probabilities as target, {inner!r} needs labels; use pgd-10")
    elif spec.attack_options:
        raise UserError(f"defence {spec.defence!r} attacks nothing: attack_options={dict(spec.attack_options)} have no use")


def _fits(spec: Spec) -> None:
    """Raise UserError where a model cannot be so wide, or takes no images so small."""
    size, side = sizes.training_size(spec), models.MODELS[spec.model].least
    # Of images that are not here whoever computes the run will hear where to put them.
    shape = (1, side, side) if size is None else (size.channels, size.height, size.width)
    models.check_fit(spec.model, shape, spec.width)


def _reach(spec: Subject, eps: str, norm: str, name: str) -> float:
    """Return the radius that covers every image; a UserError says that `eps` does. An Linf radius was checked at the door."""
    radius = to_xarray.number(eps)
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
        attack.check(len(class_names(spec)))
    asked = evaluation.of(spec)
    _reach(spec, str(asked.eps), str(asked.norm), "eps" if isinstance(spec, Audit) else "eval_eps")
    if isinstance(spec, Audit):
        return
    tables: dict[str, Collection[str]] = {"split": images.SPLITS, "precision": inference.PRECISIONS, "readout": READOUTS}
    for name, table in tables.items():
        if getattr(evaluation, name) not in table:
            raise unknown(name, getattr(evaluation, name), table)
    transform = images.transform(evaluation.transform)
    size = None if evaluation.transform == "none" or evaluation.transform.startswith("cifar10-c-") else sizes.training_size(spec)
    if size is not None:  # else whoever computes the run will hear where to put its images
        transform(_drawn(size, class_names(spec)), 0)  # whether it suits images of this form
    if evaluation.substitute is not None:
        defences.build(evaluation.substitute)
        if attacks.build(evaluation.attack, evaluation.options).stops_early:
            raise UserError(f"{evaluation.attack!r} leaves alone what a substitute gets wrong; transfer by pgd-20 or fgsm")
    if evaluation.checkpoint not in checkpoints(spec):
        reason = "best needs select='pgd-10', last-1 needs keep_last=2, average a defence that averages"
        raise UserError(f"{unknown(f'checkpoint of {spec.name}', evaluation.checkpoint, checkpoints(spec))}; {reason}")
    if evaluation.readout == "cosines" and head(spec) != "cosine":
        raise UserError(f"{spec.name} has no cosines to read: its head is {head(spec)!r}; use readout='logits'")


def _drawn(size: datasets.DatasetSize, classes: tuple[str, ...]) -> Images:
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
    return training.checkpoints.names(averages=averages, keep=spec.keep_last, **chosen)


def split(spec: Subject, name: str, *, extra: bool = False) -> Images:
    """Return one split of a spec's dataset on the device, cut down to its classes; `extra` adds its pseudo-labelled images.

    An audit asks about test images only.
    """
    if isinstance(spec, Audit):
        return foreign_network.sampled_images(spec)
    whole = images.load(spec.dataset, name, spec.seed, device.device())
    if extra and spec.extra is not None:
        whole = whole.and_also(images.extra(spec.extra, whole))
    return whole.only(spec.classes) if spec.classes else whole


def class_names(spec: Subject) -> tuple[str, ...]:
    """Return the names of a run's classes: without its images, where `variants` knows those of the dataset."""
    whole = datasets.CLASS_NAMES.get(datasets.base_dataset(spec.dataset))
    if whole is None or isinstance(spec, Audit):
        return split(spec, "test").classes
    return datasets.select_classes(whole, spec.classes)
