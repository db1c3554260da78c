"""What runs and questions are really made with: the settings behind their names, and those that papers print."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from classwise.core.errors import UserError
from classwise.core.paths import data_folder
from classwise.core.spec import Evaluation, Spec
from classwise.papers.registry import SECTIONS, request

# Fields of Spec that every training has; what is printed of them, in this order.
_FIELDS = (
    *("dataset", "model", "width", "defence", "options", "optimiser", "lr", "momentum", "nesterov", "weight_decay"),
    *("schedule", "milestones", "epochs", "batch", "augment", "precision", "eps"),
)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={part}" for name, part in value.items()) or "-"
    return ", ".join(map(str, value)) or "-" if isinstance(value, tuple) else str(value)


def attack_settings(name: str, options: dict[str, Any] | None = None) -> str:
    """Return an attack with its steps and the settings in which it differs from others of its kind, as its dataclass has them."""
    from classwise import attacks  # torch

    built = attacks.build(name, options)
    usual = vars(type(built)())
    own = {key: part for key, part in vars(built).items() if part != usual[key] or key in ("steps", "step", "rate", "start")}
    own = {key: part for key, part in own.items() if part is not None and not (key == "rate" and own.get("step"))}
    return type(built).__name__ + (f" ({_plain(own)})" if own else "")


def training_settings(spec: Spec) -> dict[str, str]:
    """Return what a run is trained with, the settings of its inner attack and of its milestones spelt out."""
    from classwise import defences
    from classwise.defences import training  # torch
    from classwise.defences.training.optimisation import Steps

    values = {name: _plain(getattr(spec, name)) for name in _FIELDS}
    inner = spec.attack or defences.build(spec.defence, spec.options).attack
    values["training attack"] = "none" if inner is None else attack_settings(inner, dict(spec.attack_options))
    course = training.SCHEDULES[spec.schedule]
    if isinstance(course, Steps) and not spec.milestones:
        values["milestones"] = _plain(tuple(round(share * spec.epochs) + 1 for share in course.at))
    return values


def _all(paper: str, scale: str) -> pd.DataFrame:
    """Return the settings of all kinds of trainings of a paper's sections at a scale, a row each; seeds and classes apart."""
    sections = [name for name in SECTIONS if name.rpartition("/")[0] == paper]
    kinds = [training_settings(spec) for name in sections for spec, _ in request(name, scale).asked]
    return pd.DataFrame(kinds).drop_duplicates(ignore_index=True)


def trainings(paper: str, scale: str) -> pd.DataFrame:
    """Return a row for each kind of training that the sections of a paper ask for at a scale: where they differ."""
    table = _all(paper, scale)
    index = ["dataset", "defence", "eps"]
    differ = [name for name in table if table[name].nunique() > 1 and name not in index]
    return table.set_index(index)[differ]


def shared_settings(paper: str, scale: str) -> str:
    """Return in a line the settings that all these trainings share."""
    table = _all(paper, scale)
    return ", ".join(f"{name} {table[name].iloc[0]}" for name in table if table[name].nunique() == 1)


def evaluations(paper: str, scale: str) -> pd.DataFrame:
    """Return the questions that the sections of a paper ask at a scale: which attack with which settings, on how many images."""
    rows: dict[Evaluation, list[str]] = {}
    for section in SECTIONS:
        if section.rpartition("/")[0] == paper:
            for _, evaluations in request(section, scale).asked:
                for one in evaluations:
                    names = rows.setdefault(one, [])
                    names += [section.rpartition("/")[2]] if section.rpartition("/")[2] not in names else []
    return pd.DataFrame(
        {
            "attack": [attack_settings(one.attack, dict(one.options)) for one in rows],
            "images of each class": ["all" if one.per_class is None else str(one.per_class) for one in rows],
            "images are": ["as they are" if one.transform == "none" else one.transform for one in rows],
            "sections": [", ".join(names) for names in rows.values()],
        }
    )


def published(paper: str) -> pd.DataFrame:
    """Return the settings that a paper prints: setup, dataset, field, value."""
    path = data_folder() / "published" / "settings" / f"{paper}.csv"
    if not path.exists():
        raise UserError(f"there is no {path}: the settings of {paper!r} were not typed in")
    return pd.read_csv(path, dtype=str)


def compared_with_paper(paper: str, dataset: str, runs: Mapping[str, tuple[Spec, Evaluation]]) -> pd.DataFrame:
    """Return what a paper prints of its trainings on a dataset beside runs and what tests them, a setting a row."""
    printed = published(paper)
    own = printed[(printed["dataset"] == dataset) & (printed["setup"] == "A.1")].set_index("field")["value"]
    columns = {"the paper": own}
    for title, (spec, evaluation) in runs.items():
        values = training_settings(spec) | {"testing attack": attack_settings(evaluation.attack, dict(evaluation.options))}
        columns[title] = own.index.to_series().map(values)
    return pd.DataFrame(columns)
