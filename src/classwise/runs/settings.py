"""The settings behind the names of trainings and attacks, and those that papers print."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from classwise.core.spec import Evaluation, Spec
from classwise.papers.registry import SECTIONS, paper_of, request, tables_of
from classwise.papers.scales import SCALES

# The fields of Spec that tables show, in this order.
_FIELDS = (
    *("dataset", "model", "width", "defence", "options", "optimiser", "lr", "momentum", "nesterov", "weight_decay"),
    *("schedule", "milestones", "epochs", "batch", "augment", "precision", "eps"),
)

# The fields of an attack that are shown even at their default.
_ALWAYS_SHOWN = ("steps", "step", "rate", "start")


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={part}" for name, part in value.items()) or "-"
    return ", ".join(map(str, value)) or "-" if isinstance(value, tuple) else str(value)


def _named(part: Any, shown: Mapping[str, Any]) -> str:
    return type(part).__name__ + (f" ({_plain(shown)})" if shown else "")


def attack_settings(name: str, options: dict[str, Any] | None = None) -> str:
    """Return the class of an attack with its steps and the settings that differ from the defaults of the class."""
    from classwise import attacks  # torch

    built = attacks.build(name, options)
    defaults = vars(type(built)())
    shown = {key: value for key, value in vars(built).items() if value != defaults[key] or key in _ALWAYS_SHOWN}
    shown = {key: value for key, value in shown.items() if value is not None and (key != "rate" or not shown.get("step"))}
    return _named(built, shown)


def method_settings(names: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the objective, the calibration and the averaging of each defence; of their settings those that are not 0 or None.

    names: of defences (None: all of them), or of averages that any training can keep (`Spec.averages`), which have an averaging
    only.
    """
    from classwise import defences  # torch
    from classwise.defences.averaging import AVERAGINGS

    kinds, rows = ["objective", "calibration", "averaging"], dict[str, dict[str, str]]()
    for name in defences.DEFENCES if names is None else names:
        average = {"averaging": AVERAGINGS[name]} if name in AVERAGINGS else None
        parts = average or {kind: getattr(defences.build(name), kind) for kind in kinds}
        rows[name] = {kind: _named(one, {key: value for key, value in vars(one).items() if value}) for kind, one in parts.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=kinds).fillna("").rename_axis("defence or average")


def training_settings(spec: Spec) -> dict[str, str]:
    """Return the settings of a training, including those of its inner attack and its milestones."""
    from classwise import defences
    from classwise.defences import training  # torch
    from classwise.defences.training.optimisation import Steps

    values = {name: _plain(getattr(spec, name)) for name in _FIELDS}
    inner = spec.attack or defences.build(spec.defence, spec.options).attack
    values["epochs"] += f" of {spec.epoch_images:,} images" if spec.epoch_images else ""
    values["training attack"] = "none" if inner is None else attack_settings(inner, dict(spec.attack_options))
    schedule = training.SCHEDULES[spec.schedule]
    if isinstance(schedule, Steps) and not spec.milestones:
        values["milestones"] = _plain(tuple(round(share * spec.epochs) + 1 for share in schedule.at))
    return values


def trainings(paper: str, scale: str) -> tuple[pd.DataFrame, str]:
    """Return a row for each distinct training of a paper's sections at a scale, and a line with the settings that all share.

    The columns are the settings that differ; seeds and classes are not distinguished.
    """
    sections, index = [name for name in SECTIONS if paper_of(name) == paper], ["dataset", "defence", "eps"]
    kinds = [training_settings(spec) for name in sections for spec, _ in request(name, scale).pairs]
    table = pd.DataFrame(kinds).drop_duplicates(ignore_index=True)
    differ = [name for name in table if table[name].nunique() > 1 and name not in index]
    shared = ", ".join(f"{name} {table[name].iloc[0]}" for name in table if table[name].nunique() == 1)
    return table.set_index(index)[differ], shared


def evaluations(paper: str, scale: str) -> pd.DataFrame:
    """Return a row for each kind of evaluation of a paper's sections at a scale: the attack, the images and the sections.

    Evaluations that differ in nothing else, such as those of single epochs, share a row.
    """
    used: dict[Evaluation, dict[str, None]] = {}
    for section in (name for name in SECTIONS if paper_of(name) == paper):
        for evaluation in (one for _, some in request(section, scale).pairs for one in some):
            used.setdefault(evaluation, {})[section.rpartition("/")[2]] = None
    rows = [
        (attack_settings(one.attack, dict(one.options)), str(one.per_class or "all"), one.transform, ", ".join(names))
        for one, names in used.items()
    ]
    columns = ["attack", "images of each class", "transform", "sections"]
    return pd.DataFrame(rows, columns=columns).drop_duplicates(ignore_index=True)


def comparison_with_paper(paper: str, dataset: str, runs: Mapping[str, tuple[Spec, Evaluation]]) -> pd.DataFrame:
    """Return a row for each setting of the first setup that a paper prints for a dataset, next to those of runs as evaluated."""
    printed = tables_of(paper).settings()
    of_setup = printed[printed["setup"] == printed["setup"].iloc[0]]
    values_of_paper = of_setup[of_setup["dataset"] == dataset].set_index("field")["value"]
    columns = {"the paper": values_of_paper}
    for title, (spec, evaluation) in runs.items():
        values = training_settings(spec) | {"testing attack": attack_settings(evaluation.attack, dict(evaluation.options))}
        columns[title] = values_of_paper.index.to_series().map(values)
    return pd.DataFrame(columns)


def tables_of_paper(section: str, attack: str) -> dict[str, pd.DataFrame | str]:
    """Return by title what the paper of a section prints beside its PGD training at each scale, and all trainings and attacks.

    attack: whose evaluation, or that with the settings of the paper, stands for its testing attack; else the last one.
    """
    attack_settings(attack)  # which refuses an unknown name
    paper, pairs = paper_of(section), dict[str, tuple[Spec, Evaluation]]()
    for scale in SCALES:
        asked = request(section, scale, defences=["pgd-at"])
        named = [one for one in asked.evaluations if one.attack.partition("@")[0] == attack] or asked.evaluations[-1:]
        pairs["paper (scale)" if scale == "paper" else scale] = (asked.specs[0], named[0])
    compared = comparison_with_paper(paper, "cifar10", pairs)
    if "models" in compared.index:  # a plan that names several
        compared = compared.rename(index={"models": "model"}).groupby(level=0, sort=False).last()
    tables: dict[str, pd.DataFrame | str] = {"The settings that the paper prints, and ours": compared.fillna("–")}
    printed = tables_of(paper).settings()
    rest = printed[(printed["setup"] != printed["setup"].iloc[0]) | (printed["dataset"] != "cifar10")]
    tables["What else it prints"] = rest.set_index(["setup", "dataset", "field"])
    for scale in SCALES:
        differing, shared = trainings(paper, scale)
        caption = f"<caption>All share {shared}.</caption><thead>"
        tables[f"All training runs, scale {scale}"] = differing.to_html(border=0).replace("<thead>", caption, 1)
        tables[f"All attacks, scale {scale}"] = evaluations(paper, scale)
    return {title: table for title, table in tables.items() if len(table)}
