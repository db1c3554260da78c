"""Small Datasets of every schema with random content, and runs recorded with such."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from PIL import Image

from classwise.core import results
from classwise.core.datasets import class_names
from classwise.core.results import REQUIRED_ATTRIBUTES, SCHEMAS, SPLITS, check
from classwise.core.spec import Evaluation, Spec
from classwise.runs import store


def dataset(
    schema: str = "history 1",
    classes: Sequence[str] = tuple("0123456789"),
    accuracies: Mapping[str, float] | None = None,
    per_class: int = 40,
    epochs: int = 4,
    seed: int = 0,
) -> xr.Dataset:
    """Return a small Dataset of a schema with random content.

    Each class has `per_class` images in every split. `accuracies`: the probability of a correct prediction by attack name, by
    default .95 clean and .5 under "pgd-10"; outcomes and examples take the last. A course has as many steps as `epochs`.
    """
    rng, size = np.random.default_rng(seed), len(classes)
    chances = dict(accuracies or {"clean": 0.95, "pgd-10": 0.5})
    attrs = dict.fromkeys(REQUIRED_ATTRIBUTES, "") | {"schema": schema, "created": "2000-01-01T00:00:00+00:00"}
    truth = np.repeat(np.arange(size), per_class)

    def predictions(chance: float) -> np.ndarray:
        wrong = (truth + rng.integers(1, size, len(truth))) % size
        return np.where(rng.random(len(truth)) < chance, truth, wrong)

    coords: dict[str, object] = {"predicted": list(classes)}
    values: dict[str, np.ndarray] = {}
    if schema == "history 1":
        coords |= {"epoch": np.arange(1, epochs + 1), "split": list(SPLITS), "attack": list(chances), "label": list(classes)}
        values["count"] = np.zeros((epochs, len(SPLITS), len(chances), size, size))
        for place in np.ndindex(epochs, len(SPLITS), len(chances)):
            np.add.at(values["count"][place], (truth, predictions(list(chances.values())[place[2]])), 1)
    elif schema == "outcomes 1":
        coords["image"] = np.arange(len(truth))
        values |= {"truth": truth, "prediction": predictions(list(chances.values())[-1])}
        values["misclassified"] = values["truth"] != values["prediction"]
    elif schema == "features 2":
        coords = {"block": np.arange(5), "label": list(classes), "feature": np.arange(8)}
        values["images"] = np.full((5, size), per_class // 5)
    elif schema == "course 1":
        coords |= {"image": np.arange(len(truth)), "step": np.arange(epochs + 1)}
        values["truth"] = truth
    elif schema == "convergence 1":
        coords |= {"training": ["pgd-at", "trades"], "epochs": ["once", "twice"], "seed": [0, 1], "image": np.arange(len(truth))}
        drawn = [[[predictions(list(chances.values())[-1]) for _ in range(2)] for _ in range(2)] for _ in range(2)]
        values |= {"truth": np.broadcast_to(truth, np.shape(drawn)), "prediction": np.array(drawn)}
        values["number"] = np.array([[epochs, 2 * epochs]] * 2)
    elif schema == "rebuilt 1":
        shown = np.flatnonzero(np.arange(len(truth)) % per_class < 4)
        coords |= {"image": np.arange(len(truth)), "shown": shown, "form": ["target", "start", "rebuilt"]}
        values |= {"truth": truth, "original": truth, "prediction": predictions(list(chances.values())[-1])}
    else:
        coords |= {"image": np.arange(len(truth)), "form": ["clean", "attacked"]}
        values |= {"truth": truth, "prediction": np.stack([truth, predictions(list(chances.values())[-1])], 1)}
    sizes = {dim: len(coord) for dim, coord in coords.items()} | {"channel": 1, "row": 8, "column": 8}  # type: ignore[arg-type]
    data = {}
    for name, (dims, kind, *_) in SCHEMAS[schema].items():
        value = values.get(name, rng.random([sizes[dim] for dim in dims]))
        data[name] = (dims, value.astype(kind))
    return check(xr.Dataset(data, coords, attrs), schema)


def store_run(spec: Spec, *evaluations: Evaluation, **attrs: str) -> Path:
    """Write results with random content as those of a run of this machine; return its folder."""
    folder = store.run_folder(spec)
    history = dataset().assign_attrs(store.provenance(spec, "a device", 1), **attrs)
    results.save(history, store.HISTORY, folder / store.Key(spec).name)
    for one in (one.resolve_for(spec) for one in evaluations):
        found = dataset("outcomes 1").assign_attrs(store.provenance(spec, "a device", 1, one), checks="{}")
        results.save(found, store.OUTCOMES, folder / store.Key(spec, store.OUTCOMES, one).name)
    return folder


def interrupt_after_an_epoch(step: str, done: int, total: int) -> None:
    """Interrupt a training, whose progress this is told, after its first epoch."""
    if (step, done) == ("train", 1):
        raise KeyboardInterrupt


def answers(dims: Iterable[str], truth: npt.ArrayLike, prediction: npt.ArrayLike) -> dict[str, Any]:
    """Return the variables of outcomes along dimensions; where the truth is -1 nothing was asked."""
    whole, given = (some.astype("i2") for some in np.broadcast_arrays(truth, prediction))
    found = {"truth": whole, "prediction": given, "misclassified": (whole != given) & (whole >= 0)}
    return {name: (tuple(dims), values) for name, values in found.items()}


def folds(rates: xr.DataArray, images: int = 20, seeds: int = 2, seed: int = 0) -> xr.Dataset:
    """Return outcomes along the dimensions of `rates` (..., label), each seed with `images` of each class of its own.

    rates: the chances of a correct prediction; the others are those of the next class.
    """
    rng, size = np.random.default_rng(seed), rates.sizes["label"]
    truth = np.tile(np.repeat(np.arange(size), images), seeds)
    here = np.repeat(np.arange(seeds), size * images) == np.arange(seeds)[:, None]
    right = rng.random((*rates.shape[:-1], len(truth))) < rates.values[..., truth]
    answer = np.where(here, np.where(right, truth, (truth + 1) % size)[..., None, :], -1)
    whole = np.where(here, truth, -1) + np.zeros_like(answer)
    dims = (*rates.dims[:-1], "seed", "image")
    coords = {name: rates[name].values for name in rates.dims[:-1]} | {"seed": np.arange(seeds), "image": np.arange(len(truth))}
    attrs = {"scale": "quick", "dataset": "digits"}
    return xr.Dataset(answers(dims, whole, answer), coords | {"predicted": rates.label.values}, attrs)


def feature_sums(values: np.ndarray, truth: np.ndarray, block: np.ndarray, classes: Sequence[str]) -> xr.Dataset:
    """Return the sums over the images of each block and class of features (image, feature), as evaluations store them."""
    shape = (block.max() + 1, len(classes))
    total, square, images = np.zeros((*shape, values.shape[1])), np.zeros(shape), np.zeros(shape, dtype=int)
    np.add.at(total, (block, truth), values)
    np.add.at(square, (block, truth), (values**2).sum(1))
    np.add.at(images, (block, truth), 1)
    dims = ("block", "label")
    coords = {"block": range(shape[0]), "label": list(classes), "feature": range(values.shape[1])}
    return xr.Dataset({"total": ((*dims, "feature"), total), "square": (dims, square), "images": (dims, images)}, coords)


def pictures(folder: Path, classes: Iterable[object], number: int = 1) -> None:
    """Write random images of 8 x 8 pixels, so many of each class, in folders below that folder."""
    rng = np.random.default_rng(0)
    for name, place in product(map(str, classes), range(number)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(folder / name / f"{place}.png")


def record(spec: Spec, *evaluations: Evaluation, accuracy: float = 0.5, per_class: int = 40) -> None:
    """Write results with random content as those of a recorded run."""
    folder, names = store.recorded_folder(spec), class_names(spec.dataset)
    attrs = {"spec": spec.json(), "id": spec.id, "device": "a CPU", "commit": "abc"}
    history = dataset(classes=names, per_class=per_class).assign_attrs(attrs)
    history["uncertainty"] = xr.zeros_like(history["count"].sum("predicted"), dtype="float32")
    history["averaged"] = ("epoch", np.ones(history.sizes["epoch"], dtype=bool))
    if spec.averages:
        every = np.ones((history.sizes["epoch"], len(spec.averages)), dtype=bool)
        history = history.assign_coords(average=list(spec.averages)).assign(taken=(("epoch", "average"), every))
    results.save(history, store.HISTORY, folder / store.Key(spec).name)
    if spec.rebuilt != "none":
        images = dataset(store.REBUILT, names, per_class=per_class).assign_attrs(attrs)
        results.save(images, store.REBUILT, folder / store.Key(spec, store.REBUILT).name)
    for evaluation in evaluations:
        resolved = evaluation.resolve_for(spec)
        chances = {resolved.attack: accuracy if resolved.attack != "clean" else 0.9}
        data = dataset("outcomes 1", names, chances, per_class, seed=spec.seed + len(spec.defence))
        kept = [name in (spec.classes or names) for name in names]
        data = data.isel(image=np.array(kept)[data.truth]).assign_attrs(attrs, evaluation=resolved.json(), checks="")
        results.save(data, store.OUTCOMES, folder / store.Key(spec, store.OUTCOMES, resolved).name)
