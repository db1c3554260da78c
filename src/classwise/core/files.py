"""Results: four kinds of Dataset, in one vocabulary; counts and outcomes are stored, rates are derived.

history: what each epoch of a training saw.

    <xarray.Dataset>
    Dimensions:  (epoch, split, attack, label, predicted)
    Coordinates: epoch int from 1 · split "train" "valid" "test" · attack "clean" or a name · label, predicted: names of classes
    Data variables:
        count    (epoch, split, attack, label, predicted) int32   images of `label` answered as `predicted`; not measured: zeros
        radius   (epoch, label) float32   of the inner attack, in pixels of 0 to 1
        beta     (epoch, label) float32   the trade-off of the objective, 0 where it has none
        weight   (epoch, label) float32   of the class in the loss
        robust   (epoch, label) float32   of the class in the robust term, where the objective has two (not in older files)
        averaged (epoch) bool             whether the average of the weights took the epoch in (likewise)
        loss     (epoch) float64          mean over the training images
        seconds  (epoch) float64          of training, without measuring

outcomes: what a trained model answers for each image of a split under an attack.

    Dimensions:  (image, predicted)
    Coordinates: image int, the place of the image in the dataset's own order · predicted: names of classes
    Data variables:
        truth    (image) int16      position in `predicted`; -1 where a combined Dataset has no such image
        answer   (image) int16      what the model says of the attacked image, likewise; of the image itself where the attacked
                                    one lies outside the ball
        flipped  (image) bool       whether that is wrong
        distance (image) float32    from the image to its attacked form, in the norm of the evaluation
        logits   (image, predicted) float32
        queries  (image) int32      where the attack counts them: how often the model was asked; -1 for no such image
        member   (image) int8       where the attack is an ensemble: which of MEMBERS broke the image; -1 none

examples: a few images with their attacked forms.

    Dimensions:  (image, form, channel, row, column, predicted)
    Coordinates: image, predicted as above · form "clean" "attacked"
    Data variables:
        pixels   (image, form, channel, row, column) float32, 0 to 1
        truth    (image) int16
        answer   (image, form) int16
        logits   (image, form, predicted) float32

features: where a network puts each class, in its penultimate layer, clean.

    Dimensions:  (label, feature)
    Coordinates: label as above · feature int
    Data variables:
        mean     (label, feature) float32   over the images of the class
        variance (label, feature) float32   likewise

course: what a model answers for a few images after each step of an attack.

    Dimensions:  (image, step, predicted)
    Coordinates: image, predicted as above · step int from 0, the start of the attack, to its last
    Data variables:
        truth    (image) int16
        logits   (image, step, predicted) float32

Attributes: schema ("history 1", ...), spec, evaluation (JSON), id, version, commit, torch, device, threads, created; outcomes
also carry checks (JSON): what makes them believable or not, as `outcomes.soundness` tells it; `checks.concerns` reads it.
"""

import hashlib
import os
import secrets
from pathlib import Path

from classwise.core.paths import find_image_folder


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: to a temporary name in the same folder, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{secrets.token_hex(8)}.part")  # not of `tempfile`, whose files only their owner may read
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def folder_digest(dataset: str, *, times: bool = False) -> str:
    """Return what tells the files of a `folder:PATH` from others: a digest of names and sizes, and with `times` of changes.

    "" for other datasets, which are published and do not change, and for a folder that is not here.
    """
    kind, _, path = dataset.partition("?")[0].partition(":")
    if kind != "folder" or not find_image_folder(path).is_dir():
        return ""
    root, digest = find_image_folder(path), hashlib.sha256()
    for place, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for file in sorted(Path(place, name) for name in files if not name.startswith(".")):
            told = file.stat()
            digest.update(f"{file.relative_to(root)} {told.st_size} {told.st_mtime_ns if times else ''}\n".encode())
    return digest.hexdigest()[:16]
