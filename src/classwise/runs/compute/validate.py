"""Checks of runs and evaluations before anything is computed, and the images and classes of each."""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache

import torch

from classwise import attacks, defences, images, models
from classwise.core import datasets
from classwise.core.audit import Audit
from classwise.core.datasets import DATASETS, DatasetSize, split_background
from classwise.core.errors import UserError, check_known, unknown
from classwise.core.files import folder_digest
from classwise.core.identity import radius_value
from classwise.core.spec import READOUTS, Evaluation, Spec, Subject
from classwise.defences import training
from classwise.defences.averaging import AVERAGINGS
from classwise.images import Images
from classwise.models import inference
from classwise.runs import store
from classwise.runs.compute import audited_network, device
from classwise.runs.store import Key


def check(spec: Spec, planned: Collection[str] = ()) -> None:
    """Raise a UserError if a spec names something that does not exist; `planned` are the ids of runs that will be trained."""
    images.reader(spec.dataset)
    tables: dict[str, Collection[str]] = {"model": models.MODELS, "defence": defences.DEFENCES}
    tables |= {"schedule": training.SCHEDULES, "optimiser": training.OPTIMISERS, "decay": training.DECAYS}
    tables |= {"augment": images.AUGMENTATIONS, "precision": inference.PRECISIONS, "select_by": training.checkpoints.CRITERIA}
    tables |= {"layer": models.LAYERS, "batch_norm": defences.BATCH_NORM_MODES}
    _check_names(spec, tables if spec.head is None else {**tables, "head": models.HEADS})
    check_known("average", spec.averages, AVERAGINGS)
    size, side = training_size(spec), models.MODELS[spec.model].least
    if size is not None and (spec.epoch_images or 0) > size.train:
        raise UserError(f"epoch_images={spec.epoch_images} is more than the {size.train} training images of {spec.dataset}")
    # If the images are not here, reading them raises an error that says where to put them.
    shape = (1, side, side) if size is None else (size.channels, size.height, size.width)
    models.check_fit(spec.model, shape, spec.width)
    class_names(spec)
    if spec.warm_start is not None and spec.warm_start not in planned:
        store.warm_start(spec)
    if spec.select is not None:
        attacks.build_for_evaluation(spec.select)
    if spec.extra is not None:
        images.extra_folders(spec.extra, images.load(spec.dataset, "test", spec.seed).classes)
    if spec.image_source is not None:
        _check_source(spec, spec.image_source)
    defence = defences.build(spec.defence, spec.options)
    reach = check_radius(spec, spec.eps, spec.norm, "eps")
    check_radius(spec, spec.measured_eps, spec.norm, "probe_eps")
    if defence.class_specific:
        defence.check(len(class_names(spec)), radius_value(spec.eps), reach)
    attacks.build_for_evaluation(spec.probe)
    device.device()
    inference.compile_backend()
    if inner := spec.attack or defence.attack:
        attack = attacks.build(inner, spec.attack_options)
        if attack.class_specific:
            attack.check(len(class_names(spec)))
        if defence.objective.soft_targets and attack.needs_labels:
            raise UserError(f"defence {spec.defence!r} attacks with probabilities as target, {inner!r} needs labels; use pgd-10")
    elif spec.attack_options and spec.images_by is None:
        raise UserError(f"defence {spec.defence!r} attacks nothing: attack_options={dict(spec.attack_options)} have no use")


def _check_source(spec: Spec, source: Spec) -> None:
    """Raise a UserError if a run cannot be the one whose network makes the training images of another."""
    check_known("images_by", [spec.images_by], defences.DEFENCES)
    check(source)
    trained = store.weights(spec) is not None or Key(spec).path is not None
    if not trained and store.lacks_weights(source) and not (store.run_folder(source) / "history.nc").exists():
        raise UserError(
            f"the training images of {spec.name} are made with the network of {source.name}, whose results are recorded without "
            f"its weights; import an archive that has them (classwise import), or remove "
            f"{store.recorded_folder(source)} to train it"
        )


def _check_names(item: Spec | Evaluation, tables: Mapping[str, Collection[str]]) -> None:
    """Raise a UserError if a field is not a name of its table."""
    for name, table in tables.items():
        check_known(name, [getattr(item, name)], table)


def check_radius(subject: Subject, eps: str, norm: str, name: str) -> float:
    """Return the smallest radius whose ball covers every image; a UserError if `eps` reaches it, as Linf radii never do."""
    radius = radius_value(eps)
    if norm == "linf" or radius < 1:
        return 1.0
    reach = math.sqrt(math.prod(images_of(subject, "test").shape))
    if radius >= reach:
        raise UserError(f"{name}={eps} covers every image of {subject.title}: none are {reach:.3g} apart; write a smaller radius")
    return reach


def check_evaluation(evaluation: Evaluation, subject: Subject) -> None:
    """Raise a UserError if an evaluation names something that does not exist or does not suit its subject."""
    attack = attacks.build_for_evaluation(evaluation.attack, evaluation.options)
    if attack.class_specific:
        attack.check(len(class_names(subject)))
    resolved = evaluation.resolve_for(subject)
    check_radius(subject, str(resolved.eps), str(resolved.norm), "eval_eps")
    _check_names(evaluation, {"split": images.SPLITS, "precision": inference.PRECISIONS, "readout": READOUTS})
    images.transform(evaluation.transform)
    if evaluation.classes:
        check_known("class", evaluation.classes, class_names(subject))
    if evaluation.substitute is not None:
        defences.build(evaluation.substitute)
        subject.substitute(evaluation.substitute)
        if attack.stops_early:
            raise UserError(f"{evaluation.attack!r} skips images that the substitute misclassifies; transfer by pgd-20 or fgsm")
    if isinstance(subject, Spec):
        _check_of_run(evaluation, subject)


def _check_of_run(evaluation: Evaluation, spec: Spec) -> None:
    """Raise a UserError if an evaluation does not suit the images of a run, its checkpoints or its head."""
    size = None if evaluation.transform == "none" or evaluation.transform.startswith("cifar10-c-") else training_size(spec)
    if size is not None:
        images.transform(evaluation.transform)(_sample(size, class_names(spec)), 0)
    if evaluation.checkpoint not in checkpoints(spec):
        error = unknown(f"checkpoint of {spec.name}", evaluation.checkpoint, checkpoints(spec))
        raise UserError(f"{error}; {_needed_for(evaluation.checkpoint)}")
    if evaluation.readout == "cosines" and head(spec) != "cosine":
        raise UserError(f"{spec.name} has no cosines to read: its head is {head(spec)!r}; use readout='logits'")


def _needed_for(checkpoint: str) -> str:
    """Return what a run needs for a checkpoint that it lacks."""
    form = re.fullmatch(rf"(best-)?({'|'.join(AVERAGINGS)})(?:-(\d+)|(-renewed))?", checkpoint)
    if form is None:
        return "best needs select='pgd-10', last-1 needs keep_last=2, average a defence that averages, ema averages=('ema',)"
    best, average, back, renewed = form.groups()
    needed = [
        f"averages=({average!r},)",
        *["select='pgd-10'"] * bool(best),
        *["renewed=True"] * bool(renewed),
        *[f"keep_last={int(back or 0) + 1}"] * bool(back),
    ]
    return f"{checkpoint} needs {' and '.join(needed)}"


def _sample(size: DatasetSize, classes: tuple[str, ...]) -> Images:
    pixels = torch.full((1, size.channels, size.height, size.width), 255, dtype=torch.uint8)
    pixels[..., size.height // 4 : size.height // 2, size.width // 4 : size.width // 2] = 0
    return Images(pixels, torch.zeros(1).long(), torch.zeros(1).long(), classes)


def head(spec: Spec) -> str:
    """Return the head of a run's network, a name of models.HEADS: that of the spec, or else of its defence."""
    return spec.head or defences.build(spec.defence).head


def checkpoints(spec: Spec) -> list[str]:
    """Return the names of the checkpoints that a run stores, "last" first."""
    selects, backs = ["best"] * (spec.select is not None), range(1, spec.keep_last)
    result = ["last", *(f"last-{back}" for back in backs), *selects]
    result += ["average"] * defences.build(spec.defence, spec.options).averaging.averages
    result += ["test-selected"] * spec.test_selected
    for name in spec.averages:
        result += [name, *(f"{name}-{back}" for back in backs), *(f"best-{name}" for _ in selects)]
        result += [f"{name}{training.checkpoints.RENEWED}"] * spec.renewed
    return result


def validation_attack(spec: Spec) -> str | None:
    """Return the attack that measures the validation images during a training, None where nothing needs them."""
    defence = defences.build(spec.defence, spec.options)
    needed = defence.needs_validation or any(AVERAGINGS[name].needs_validation for name in spec.averages)
    return spec.select or (defence.validation_attack if needed else None)


def images_of(subject: Subject, split: str, *, extra: bool = False) -> Images:
    """Return one split of a subject's dataset, on the device and restricted to its classes; `extra` adds pseudo-labelled images.

    Training images are as they are, also of a run that trains on rebuilt ones. An audit has test images only.
    """
    if isinstance(subject, Audit):
        return audited_network.sampled_images(subject)
    assert isinstance(subject, Spec)
    result = images.load(subject.dataset, split, subject.seed, device.device())
    if split == "train" and subject.train_per_class is not None:
        result = result.per_class(subject.train_per_class, subject.seed)
    if extra and subject.extra is not None:
        result = result.concat(images.extra(subject.extra, result))
    return result.only(subject.classes) if subject.classes else result


def class_names(subject: Subject) -> tuple[str, ...]:
    """Return the names of a subject's classes, without reading images if those of the dataset are known."""
    known = datasets.known_classes(subject.dataset)
    return datasets.select_classes(known, subject.classes) if known else images_of(subject, "test").classes


def size_of(dataset: str) -> DatasetSize | None:
    """Return the size of a dataset, with or without a background: published, or counted where its images are; else None."""
    name, background = split_background(dataset)
    size = DATASETS[name].size if name in DATASETS else None
    if size is None:
        return _counted(dataset, folder_digest(dataset))
    return replace(size, channels=DATASETS[name].backgrounds[background]) if background else size


@cache
def _counted(dataset: str, digest: str) -> DatasetSize | None:
    """Return the size of a dataset whose images are present, counted once as long as the `digest` of its files is the same."""
    try:
        train, valid, test = (images.load(dataset, split) for split in images.SPLITS)
    except UserError:  # computing the run will say where to put them
        return None
    return DatasetSize(len(train), len(valid), len(test), *test.shape, classes=len(test.classes))


def training_size(spec: Spec) -> DatasetSize | None:
    """Return the size of what a run trains on.

    Of its classes only, of each no more images than it takes, and twice as many where half of each batch is extra.
    """
    full = size_of(spec.dataset)
    if full is None:
        return None
    share = len(spec.classes) / full.classes if spec.classes else 1.0
    train = full.train if spec.train_per_class is None else min(full.train, spec.train_per_class * full.classes)
    train = round(train * share) * (2 if spec.extra is not None else 1)
    valid, test = round(full.valid * share), round(full.test * share)
    return replace(full, train=train, valid=valid, test=test, classes=len(spec.classes) or full.classes)
