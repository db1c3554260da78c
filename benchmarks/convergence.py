"""Train each network of a scale once more, with twice the epochs, and record both: `python -m benchmarks.convergence`.

Writes data/recorded/convergence/<scale>.nc (schema "convergence 1"), which the page *performance* shows, and prints which
trainings gain by twice the epochs. This takes three times the trainings of the scale; results that exist are used.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import typer
import xarray as xr
from rich.console import Console

from classwise import defences
from classwise.core import results
from classwise.core.errors import UserError, unknown
from classwise.core.identity import radius_value
from classwise.core.results import MISSING
from classwise.core.spec import Evaluation, Spec
from classwise.defences.averaging import NoAveraging
from classwise.papers import registry
from classwise.papers.scales import SCALES
from classwise.runs import describe, store
from classwise.runs.recorded import CONVERGENCE, convergence_file, doubled_epochs
from classwise.runs.schedule import pool
from classwise.stats.combine import combine_rows
from classwise.stats.convergence import LARGEST_GAIN, unconverged_trainings

ATTACK = Evaluation(attack="pgd-20")
# A method, and the settings of its training.
Key = tuple[object, Spec]
# A radius from which every image can be made grey.
_USELESS = 0.5


def trainings(scale: str) -> dict[str, Spec]:
    """Return by name the trainings of a scale on all classes, each with the first seed.

    Defences that differ only in the average that they return are one training, named after all of them; trainings of one name by
    the recipes of several papers are named by these, too. Networks that are trained on some of the classes, or with another
    initialisation, are trained as those on all classes. Those of another radius are left out: at the published one of section 6.2
    of Tian 2021, half of the range of pixels, every image can be made grey, so that no network can be robust. So are those of
    another schedule or number of epochs, which show the course of a training and not its end, or are compared with the others in
    their pattern alone, and those that fine-tune a run for as many epochs as their paper.
    """
    usual, seed = SCALES[scale].run, SCALES[scale].seeds[0]
    names: dict[Key, list[str]] = {}
    papers: dict[Key, list[str]] = {}
    specs: dict[Key, Spec] = {}
    for section in registry.SECTIONS:
        for spec, _ in registry.request(section, scale).pairs:
            usual_radius = spec.eps == str(usual.get("eps", spec.eps)) and radius_value(spec.eps) < _USELESS
            if not spec.classes and spec.redraw == 0 and not spec.warm_start and usual_radius and _as_usual(spec, scale, section):
                first = replace(spec, seed=seed)
                key = _key(first)
                specs.setdefault(key, first)
                names.setdefault(key, []).append(_name(spec, scale, section))
                papers.setdefault(key, []).append(registry.paper_of(section) or "no paper")
    short = {key: " / ".join(dict.fromkeys(some)) for key, some in names.items()}
    number = Counter(short.values())
    by = {key: f" ({' / '.join(dict.fromkeys(some))})" * (number[short[key]] > 1) for key, some in papers.items()}
    named = [(short[key] + by[key], spec) for key, spec in specs.items()]
    repeated = [name for name, number in Counter(name for name, _ in named).items() if number > 1]
    if repeated:
        raise ValueError(f"different trainings of scale {scale!r} have the same name: {'; '.join(repeated)}")
    return dict(named)


def _as_usual(spec: Spec, scale: str, section: str) -> bool:
    """Return whether a run of a section has the schedule and, on the same images, the radius and epochs of its scale."""
    usual = registry.training(scale, spec.defence, spec.seed, registry.paper_of(section))
    same = all(getattr(spec, name) == getattr(usual, name) for name in ("eps", "epochs", "milestones"))
    return spec.schedule == usual.schedule and (same or spec.dataset != usual.dataset)


def _name(spec: Spec, scale: str, section: str) -> str:
    usual = registry.training(scale, spec.defence, spec.seed, registry.paper_of(section))
    attack = {name: value for name, value in spec.attack_options.items() if usual.attack_options.get(name) != value}
    settings = [f"{name}={value}" for some in (spec.options, attack) for name, value in sorted(some.items())]
    if spec.dataset != usual.dataset:
        return ", ".join([spec.defence, *settings, spec.dataset])
    fields = ("model", "optimiser", "head", "layer", "lr", "weight_decay", "rebuilt", "images_by")
    settings += [f"{name}={getattr(spec, name)}" for name in fields if getattr(spec, name) != getattr(usual, name)]
    return ", ".join([spec.defence, *settings])


def alike(spec: Spec) -> Spec:
    """Return the Spec without what does not influence the weights after the last epoch."""
    return replace(spec, averages=(), measure=1, keep_last=1, probe_eps=None)


def _key(spec: Spec) -> Key:
    """Return what is the same for all trainings that end with the same weights."""
    method = replace(defences.build(spec.defence, spec.options), averaging=NoAveraging(), validation_attack="")
    return method, replace(alike(spec), defence="", options={})


def twice_as_long(spec: Spec) -> Spec:
    """Return the training with twice as many epochs, measured at its end only and without averages of its weights."""
    epochs = 2 * spec.epochs
    return replace(spec, epochs=epochs, milestones=tuple(2 * epoch for epoch in spec.milestones), measure=epochs, averages=())


def record(scale: str, console: Console, workers: int | None = None) -> Path:
    """Train all of `trainings`, and once more with twice the epochs, evaluate both under `ATTACK`, and record that.

    The attribute `trainings` of the file is the Spec of each name. What the file has of a training stays.
    """
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    if SCALES[scale].recorded_only:
        raise UserError(f"scale {scale!r} is only read here, so that its networks cannot be trained for twice the epochs")
    named, known = trainings(scale), dict[Key, xr.Dataset]()
    if convergence_file(scale).exists():
        data = results.load(convergence_file(scale), CONVERGENCE)
        known = {_key(spec): data.sel(training=[name]) for name, spec in recorded_trainings(data).items()}
    lacking = {name: spec for name, spec in named.items() if _key(spec) not in known}
    parts = [known[_key(spec)].assign_coords(training=[name]) for name, spec in named.items() if name not in lacking]
    parts += [_compared(lacking, scale, console, workers)] if lacking else []
    data = xr.concat(parts, "training", join="outer", fill_value=MISSING, combine_attrs="override").sel(training=list(named))
    first = next(iter(named.values()))
    attrs = {"spec": first.json(), "id": first.id, "dataset": first.dataset}
    attrs["trainings"] = json.dumps({name: json.loads(spec.json()) for name, spec in named.items()})
    results.save(data.assign_attrs(attrs), CONVERGENCE, convergence_file(scale))
    return convergence_file(scale)


def _compared(named: Mapping[str, Spec], scale: str, console: Console, workers: int | None) -> xr.Dataset:
    """Train what is missing of some trainings and of those of twice the epochs, and return their outcomes."""
    specs = {
        (name, epochs, seed): replace(changed, seed=seed)
        for name, spec in named.items()
        for epochs, changed in (("once", spec), ("twice", twice_as_long(spec)))
        for seed in SCALES[scale].seeds
    }
    pool.ensure_runs([(spec, (ATTACK,)) for spec in specs.values()], workers=workers, repair=True, console=console)
    results_of = {key: store.Key(spec, store.OUTCOMES, ATTACK).read() for key, spec in specs.items()}
    dims = ("training", "epochs", "seed")
    rows = [(dict(zip(dims, key, strict=True)), data) for key, data in results_of.items() if data is not None]
    attrs = describe.provenance_attributes([(key | {"attack": ATTACK.attack}, data) for key, data in rows])
    attrs |= {"scale": scale, "evaluation": ATTACK.json()}
    data = combine_rows([(key, data.drop_vars(set(data.data_vars) - {"truth", "prediction"})) for key, data in rows])
    numbers = [[specs[name, epochs, SCALES[scale].seeds[0]].epochs for epochs in data.epochs.values] for name in named]
    return data.assign(number=(("training", "epochs"), np.array(numbers, dtype="i4"))).assign_attrs(attrs)


def recorded_trainings(data: xr.Dataset) -> dict[str, Spec]:
    """Return the Spec of each training of a recorded comparison, with the first seed."""
    return {name: Spec.from_json(json.dumps(values)) for name, values in json.loads(data.attrs["trainings"]).items()}


def main(scale: str = "quick", workers: int | None = None) -> None:
    """Record the comparison of a scale, and print which trainings gain."""
    try:
        print(record(scale, Console(stderr=True), workers))
    except UserError as error:
        raise SystemExit(f"convergence: {error}") from None
    late = unconverged_trainings(doubled_epochs(scale))
    rule = f"more than {LARGEST_GAIN:g} points of robust accuracy by twice the epochs"
    print(f"these gain {rule}: {', '.join(late)}" if late else f"no network gains {rule}")


if __name__ == "__main__":
    typer.run(main)
