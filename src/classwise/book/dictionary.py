"""The data dictionary of the book: each field of the files that it offers, with its unit, its meaning and where it comes from."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pandas as pd

from classwise.core import results
from classwise.core.spec import Evaluation, Spec


class Field(NamedTuple):
    """A field of a file: the kind of file, the name, the unit ("" for none), the meaning, and the source."""

    file: str
    field: str
    unit: str
    meaning: str
    source: str


OUTCOMES, CATALOGUE, FIGURES = "outcomes (Parquet)", "catalogue (CSV)", "figures (CSV)"
_PIXELS, _PERCENT = results.SCHEMAS["outcomes 1"]["distance"].unit, "%"

# The columns of the Parquet file of outcomes; the first ones are also those of the catalogue. "" takes the meaning from the field
# of the same name of the class that is the source.
RUN_COLUMNS: dict[str, tuple[str, str, str]] = {
    "run": ("", "identifier of the training: ten digits of a hash of its settings; empty for a file of several", "Spec"),
    "evaluation": ("", "identifier of the evaluation, likewise, with its radius and norm resolved", "Evaluation"),
    "dataset": ("", "", "Spec"),
    "scale": ("", "size of the experiment, such as quick (digits) or laptop (CIFAR-10)", "classwise.papers.scales"),
    "model": ("", "", "Spec"),
    "defence": ("", "", "Spec"),
    "seed": ("", "", "Spec"),
    "attack": ("", "name of the attack, clean for none", "Evaluation"),
    "attack_options": ("", "options in which the attack differs from its table, in JSON", "Evaluation"),
    "eps": (_PIXELS, "radius of the attack; of clean, which has none, that of the training", "Evaluation"),
    "norm": ("", "norm of that radius", "Evaluation"),
    "split": ("", "", "Evaluation"),
    "checkpoint": ("", "", "Evaluation"),
    "transform": ("", "", "Evaluation"),
    "substitute": ("", "", "Evaluation"),
}
IMAGE_COLUMNS: dict[str, tuple[str, str, str]] = {
    "image": ("", results.COORDINATES["image"], "outcomes 1"),
    "label": ("", "class of the image", "outcomes 1: truth"),
    "prediction": ("", "class predicted for the attacked image", "outcomes 1: answer"),
    "correct": ("", "whether the prediction is the class of the image", "outcomes 1: not flipped"),
    "distance": (_PIXELS, results.SCHEMAS["outcomes 1"]["distance"].meaning, "outcomes 1"),
    "queries": ("forward passes", "where the attack counts them, else missing", "outcomes 1"),
}
FILE_COLUMNS: dict[str, tuple[str, str, str]] = {
    "file": ("", "path in the archive of results", "archive"),
    "schema": ("", results.ATTRIBUTES["schema"], "attribute"),
    **{name: ("", results.ATTRIBUTES[name], "attribute") for name in ("version", "commit", "torch", "device", "created")},
    "bytes": ("bytes", "size of the file", "archive"),
    "sha256": ("", "checksum of the file", "archive"),
}

# The columns of the data behind the charts. Keys say which case a row is of, measures what was measured.
KEYS: dict[str, tuple[str, str]] = {
    "quantity": ("", "what `value` is, as the chart names it, with its unit"),
    "class": ("", "class of the images"),
    "predicted": ("", "class that the network predicts"),
    "first class": ("", "one class of a pair"),
    "second class": ("", "the other class of a pair"),
    "other class": ("", "the class that `class` is compared with"),
    "pair": ("", "two classes"),
    "class left out": ("", "class without which the network was trained; - for none"),
    "dataset": ("", "dataset of the images, as pages name it"),
    "defence": ("", "name of the training method"),
    "method": ("", "row of the tables of a paper: a defence with its components"),
    "comparison": ("", "two methods whose accuracies are subtracted"),
    "source": ("", "ours or theirs, after which epoch"),
    "group": ("", "hard, easy or other, as selected on other images"),
    "attacked": ("", "class whose images alone are attacked in training"),
    "partner": ("", "the class that is trained with the victim"),
    "targets": ("", "hard or smoothed labels, or with maximum entropy"),
    "lambda": ("", "weight of the robust term of TRADES; empty or 0 where there is none"),
    "norm": ("", "how layers normalise: batch norm or batch-instance norm"),
    "layer": ("", "of the network, from 1"),
    "channel": ("", "of the layer, from 0"),
    "calibration": ("", "uniform or calibrated settings of the classes"),
    "averaging": ("", "average of the weights that is evaluated, or none"),
    "weights": ("", "weights that are evaluated: plain, or an average of them"),
    "run": ("", "a training, by its number or its seed"),
    "network": ("", "name of the network"),
    "attack": ("", "clean, or the name of an attack"),
    "from attack to attack": ("", "the two attacks whose robust accuracies are subtracted"),
    "images are": ("", "clean or attacked; right or wrong where `form` says that"),
    "images of": ("", "which images are counted"),
    "corruption": ("", "how the images are corrupted, clean for not at all"),
    "severity": ("", "of the corruption, 1 to 5; 0 for clean images"),
    "transform": ("", 'how the images are changed before they are evaluated, "none" for not at all'),
    "split": ("", results.COORDINATES["split"]),
    "epoch": ("epochs", results.COORDINATES["epoch"]),
    "epochs": ("epochs", "number of epochs of a standard training; 0 for a network that is compared with several"),
    "seed": ("", results.COORDINATES["seed"]),
    "step": ("steps", results.COORDINATES["step"]),
    "radius": (_PIXELS, "radius of the attack"),
    "training radius": ("", "radius that the network or the Gaussian model is trained against"),
    "weight": ("", "weight of the robust feature of the Gaussian model"),
    "classifier": ("", "without or with intercept"),
    "point": ("", "number of a drawn point"),
    "1/T": ("", "inverse temperature of the attack"),
    "beta": ("", "trade-off of the objective"),
    "offset": ("", "lambda of the rule that gives each class its radius or beta; none without the rule"),
    "setting": ("", "a setting of the class or of the training"),
    "other setting": ("", "the setting that `setting` is compared with; the same one on the diagonal of a matrix"),
    "logits": ("", "mean logits of the classes, less their mean over the classes or as they are"),
    "chosen": ("", "what selects the epoch, and on which images"),
    "predictor": ("", "what a cosine of two classes is of, and in which network"),
    "case": ("", "row of the chart, in words"),
    "panel": ("", "panel of the chart: its title, or its number from above"),
    "image": ("", "position of the image in the dataset, from 0; with its class where that is in front"),
    "form": ("", "form in which the image is shown, such as clean or attacked"),
    "matrix": ("", "which of the matrices of the chart"),
    "measure": ("", "metric, or function that measures the claim"),
    "benchmark": ("", "attack and setting that are timed"),
    "measurement": ("", "title of the benchmark"),
    "other library": ("", "library that ours is compared with"),
    "machine": ("", "processor of the measurement"),
    "measured": ("", "date and time in UTC, ISO 8601"),
    "precision": ("", "precision of the forward passes"),
    "minimum norm": ("", "whether both search the smallest perturbation"),
}
MEASURES: dict[str, tuple[str, str]] = {
    "value": ("as `quantity` says", "the value that is drawn, with four significant digits"),
    "low": (
        "of `value`",
        "lower end of its 95 % interval; without `value`, of the share of `count` in `images`",
    ),
    "high": ("of `value`", "upper end of that interval"),
    "accuracy": (_PERCENT, "accuracy of the network on all images that the row is of"),
    "accuracy, low": (_PERCENT, "lower end of its 95 % interval"),
    "accuracy, high": (_PERCENT, "upper end of its 95 % interval"),
    "equal classes": ("points", "mean gap that as many equally accurate classes have by chance"),
    "equal classes, low": ("points", "lower end of the range of 95 % of such gaps"),
    "equal classes, high": ("points", "upper end of that range"),
    "explained": (_PERCENT, "share of the variance of right and wrong predictions that the class explains"),
    "explained, low": (_PERCENT, "lower end of its 95 % interval"),
    "explained, high": (_PERCENT, "upper end of its 95 % interval"),
    "smallest class": ("images", "number of test images of the smallest class"),
    "largest class": ("images", "number of test images of the largest class"),
    "worst class": (_PERCENT, "accuracy of the class with the lowest one"),
    "worst class, low": (_PERCENT, "lower end of its 95 % interval"),
    "worst class, high": (_PERCENT, "upper end of its 95 % interval"),
    "vice versa": (_PERCENT, "the same for the opposite direction: second class misclassified as first"),
    "both directions": ("% + %", "`value` and `vice versa` added"),
    "difference": ("points", "difference of the two directions"),
    "by trainings, low": ("of `value`", "lower end of its 95 % interval over the trainings of the paper"),
    "by trainings, high": ("of `value`", "upper end of that interval"),
    "points": ("points", "difference of `value` from the first cell, of which `low` and `high` are the ends"),
    "clean": (_PERCENT, "clean accuracy"),
    "robust": (_PERCENT, "robust accuracy"),
    "rate": (_PERCENT, "robust accuracy of the class with the uniform setting"),
    "t": ("", "share of the training images of the class that are robust"),
    "constant": ("", "whether the network predicts one class for nearly all images"),
    "worst": ("", "whether the class is the worst of the epoch"),
    "deviation": ("points", "of `value` from the overall accuracy or the mean"),
    "deviation in words": ("", "whether the class is above or below by more than the interval"),
    "images": ("images", "number of images that the value is a share of"),
    "count": ("images", "number of images of the class with this prediction"),
    "correct": ("", "whether the predicted class is that of the images"),
    "change": ("points", "change of `value` against the row before"),
    "confidence": (_PERCENT, "probability that the network assigns to the class"),
    "robust feature": ("", "of a point of the Gaussian model, -1 or 1"),
    "non-robust features": ("", "of a point of the Gaussian model, their sum"),
    "uniform number": ("", "that decides the robust feature of a drawn point"),
    "normal number": ("", "standard normal, that the non-robust features of a drawn point come from"),
    "lightness": (_PERCENT, "mean lightness of the background of the image"),
    "cosine": ("", "cosine of the angle between the mean features of two classes"),
    "training seconds": ("s", "time of the training"),
    "best trade-off": ("", "whether no other defence is better in both measures"),
    "place": ("", "highest, lowest, or other class of the panel"),
    "caption": ("", "words below the picture"),
    "range from": ("as `unit` says", "lower end of the grey range behind the dot"),
    "range to": ("as `unit` says", "upper end of the grey range behind the dot"),
    "ratio": ("", "time of the other library over ours"),
    "ours, seconds": ("s", "time of our attack"),
    "theirs, seconds": ("s", "time of the other library"),
    "agreement": ("", "share of the images on which both attacks agree"),
    "ours, robust": ("images", "images that withstand our attack"),
    "theirs, robust": ("images", "images that withstand the attack of the other library"),
}


def field_meanings(cls: type) -> dict[str, str]:
    """Return the meaning of each field of a dataclass from its docstring."""
    text = (cls.__doc__ or "").partition("----------\n")[2]
    entries = re.findall(r"^ {4}([a-z][a-z_, ]*)\n((?: {8}.+\n?)+)", text, re.MULTILINE)
    return {name.strip(): " ".join(lines.split()) for names, lines in entries for name in names.split(",")}


def fields() -> list[Field]:
    """Return all fields of the files of the page "Data"."""
    return [*_tabular(), *_netcdf()]


def _tabular() -> Iterator[Field]:
    known = {"Spec": field_meanings(Spec), "Evaluation": field_meanings(Evaluation)}
    tables = {f"{OUTCOMES}, {CATALOGUE}": RUN_COLUMNS, OUTCOMES: IMAGE_COLUMNS, CATALOGUE: FILE_COLUMNS}
    for file, columns in tables.items():
        for name, (unit, meaning, source) in columns.items():
            yield Field(file, name, unit, meaning or known[source][name], source)
    for name, (unit, meaning) in (KEYS | MEASURES).items():
        yield Field(FIGURES, name, unit, meaning, "chart")


def _netcdf() -> Iterator[Field]:
    for schema in results.SCHEMAS:
        optional: Mapping[str, results.Variable] = results.OPTIONAL.get(schema, {})
        for name, variable in {**results.SCHEMAS[schema], **optional}.items():
            dims = ", ".join(variable.dims)
            meaning = f"{variable.meaning}{' (not in all files)' if name in optional else ''}"
            yield Field(f"{schema} (netCDF)", name, variable.unit, f"{meaning}; along {dims}", "core/results.py")
    for name, meaning in results.COORDINATES.items():
        yield Field("coordinates (netCDF)", name, "", meaning, "core/results.py")
    for name, meaning in results.ATTRIBUTES.items():
        yield Field("attributes (netCDF)", name, "", meaning, "core/results.py")


def table() -> pd.DataFrame:
    """Return the dictionary as a table: file, field, unit, meaning, source."""
    return pd.DataFrame(fields(), columns=list(Field._fields))
