"""Stored results for the terminal: all runs, or one of them class by class; as tables, and as plain values for JSON.

Of the runs of a list only the attributes of their histories are read: hundreds take a second.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from fnmatch import fnmatchcase
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import xarray as xr
from rich.console import JustifyMethod
from rich.table import Column, Table

from classwise.core import results
from classwise.core.errors import UserError, check_known, unknown
from classwise.core.identity import radius_value
from classwise.core.paths import data_folder
from classwise.core.spec import Evaluation, Spec
from classwise.papers import registry
from classwise.papers.scales import SCALES
from classwise.runs import store
from classwise.stats import aggregate, bootstrap, intervals, metrics, sanity

# A run in plain values: FIELDS, and the fields of its Spec as "spec".
Row = dict[str, Any]
FIELDS = (
    *("id", "dataset", "model", "defence", "seed", "differs in", "scale", "sections", "evaluations", "kB", "folder", "device"),
    *("commit", "created"),
)
# The columns that a narrow terminal shows.
_FIRST = ("id", "dataset", "defence", "seed", "differs in")
# Written above the table where all runs have the same.
_SHARED = ("dataset", "model", "folder", "device", "commit")
# The longest that a cell may be, the first that lets the table fit; with the last, columns that do not fit are left out.
_LONGEST = (1000, 60, 40, 30, 24, 20, 16, 12)
# The least width of the names of evaluations.
_TITLE = 40
# The measures of all classes, with their units.
_MEASURES = {"overall": "%", "worst": "%", "mcd": "points", "cv": "points²"}


def rows(warn: Callable[[str], None]) -> list[Row]:
    """Return all stored runs, by dataset, model, defence and seed.

    `warn` is called with a line about each run that cannot be read.
    """
    stored = []
    for folder in store.stored_runs():
        path = folder / "history.nc"
        try:
            attrs = results.header(path, store.HISTORY)
            stored.append((_read(Spec, "spec", attrs, path), folder, attrs))
        except UserError as error:
            warn(str(error))
    stored.sort(key=lambda run: (run[0].dataset, run[0].model, run[0].defence, run[0].seed, run[0].id))
    differing, used = _differing([spec for spec, *_ in stored]), _used()
    return [_row(folder, spec, attrs, (differing[spec], *used.get(spec.id, ("", [])))) for spec, folder, attrs in stored]


def _row(folder: Path, spec: Spec, attrs: Mapping[str, str], study: tuple[str, str, list[str]]) -> Row:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    attacks = Counter(path.stem.rpartition("-")[0] for path in (folder / "outcomes").glob("*.nc"))
    counted = [f"{name} ({times})" if times > 1 else name for name, times in sorted(attacks.items())]
    kind = folder.relative_to(data_folder()).parts[0]
    about = (kind, *(attrs.get(name, "") for name in ("device", "commit", "created")))
    values = (spec.id, spec.dataset, spec.model, spec.defence, spec.seed, *study, counted, size // 1000, *about)
    return dict(zip(FIELDS, values, strict=True)) | {"spec": vars(spec)}


_Item = TypeVar("_Item", Spec, Evaluation)


def _read(kind: type[_Item], name: str, attrs: Mapping[str, str], path: Path) -> _Item:
    """Return the Spec or the Evaluation in an attribute of a stored result; a UserError names the file."""
    try:
        return kind.from_json(attrs[name])
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(f"{path} carries no readable {name} ({error}); delete it and run again") from None


def _used() -> dict[str, tuple[str, list[str]]]:
    """Return by id of each run of the study its scale and the short names of the sections that use it."""
    used: dict[str, tuple[str, list[str]]] = {}
    for scale in SCALES:
        for section in registry.SECTIONS:
            for spec in dict.fromkeys(spec for spec, _ in registry.request(section, scale).pairs):
                used.setdefault(spec.id, (scale, []))[1].append(_short_name(section))
    return used


def _short_name(section: str) -> str:
    """Return the first words of the name of a section that no other section begins with: "tian2021/4-1"."""
    starts = list(accumulate(section.split("-"), "{}-{}".format))
    return next(
        one for one in starts if one == section or sum(f"{name}-".startswith(f"{one}-") for name in registry.SECTIONS) == 1
    )


def _differing(specs: Sequence[Spec]) -> dict[Spec, str]:
    """Return the fields, other than the seed, in which each run differs from most runs of its dataset, model and defence."""
    alike: dict[tuple[str, ...], list[Spec]] = defaultdict(list)
    for spec in specs:
        alike[spec.dataset, spec.model, spec.defence].append(spec)
    result: dict[Spec, str] = {}
    for group in alike.values():
        common = {name: Counter(str(getattr(spec, name)) for spec in group).most_common(1)[0][0] for name in vars(group[0])}
        for spec in group:
            changed = {name: value for name, value in vars(spec).items() if name != "seed" and str(value) != common[name]}
            result[spec] = ", ".join(f"{name}={_short(value)}" for name, value in changed.items())
    return result


def _short(value: object) -> str:
    if isinstance(value, tuple | list):
        return "+".join(map(str, value))
    return "; ".join(f"{name} {part}" for name, part in value.items()) if isinstance(value, Mapping) else str(value)


def select(runs: Sequence[Row], filters: Sequence[str] = (), sort: str | None = None) -> list[Row]:
    """Return the runs that match all filters, sorted by a field.

    filters: "field=value" of FIELDS or of Spec; * and ? stand for other characters, and of a field that is named several times
    one value must match. sort: a field, with "-" before it from the highest to the lowest. A UserError names an unknown field,
    and a value that no run has.
    """
    wanted: dict[str, list[str]] = defaultdict(list)
    for text in filters:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise UserError(f"--filter {text!r} is not of the form field=value; write one like defence=trades")
        wanted[name].append(value)
    by, known = (sort or "").removeprefix("-"), list(dict.fromkeys((*FIELDS, *(field.name for field in fields(Spec)))))
    check_known("field of a run", (*wanted, *(() if sort is None else (by,))), known)
    chosen = list(runs)
    for name, values in wanted.items():
        present = {text for row in runs for text in _texts(_value(row, name))}
        for value in values:
            if runs and not any(fnmatchcase(text, value) for text in present):
                raise unknown(f"{name} of a run", value, sorted(filter(None, present)))
        chosen = [row for row in chosen if any(fnmatchcase(part, one) for part in _texts(_value(row, name)) for one in values)]
    if sort is None:
        return chosen
    return sorted(chosen, key=lambda row: _order(by, _value(row, by)), reverse=sort.startswith("-"))


def _value(row: Row, name: str) -> Any:
    return row[name] if name in FIELDS else row["spec"][name]


def _texts(value: Any) -> list[str]:
    """Return a value as text: of a list each member."""
    return [str(part).partition(" (")[0] for part in value] if isinstance(value, list | tuple) else [_short(value)]


def _order(name: str, value: Any) -> tuple[float, str]:
    """Return what a value is sorted by: numbers and radii as numbers, before text."""
    if name == "eps":
        return radius_value(value), ""
    return (float(value), "") if isinstance(value, int | float) else (float("inf"), _short(value))


def lines(runs: Sequence[Row]) -> list[str]:
    """Return the names of all fields, and each run in full, as lines with a tab between two fields."""
    return ["\t".join(names) for names in (FIELDS, *([_cell(row[name]) for name in FIELDS] for row in runs))]


def table(runs: Sequence[Row], width: int) -> tuple[Table, list[str]]:
    """Return the runs as a table of one line each, and lines to print above it: what all runs share, and what is left out.

    width: of the terminal in characters, which the table fits: long cells are cut, then columns at the end are left out.
    """
    cells = {name: [_cell(row[name]) for row in runs] for name in FIELDS}
    cells["created"] = [text[:16].replace("T", " ") for text in cells["created"]]
    shared = [name for name in _SHARED if len(runs) > 1 and len(set(cells[name])) == 1 and cells[name][0]]
    notes = [f"all {len(runs)} runs: {', '.join(f'{name} {cells[name][0]}' for name in shared)}"] if shared else []
    names = [name for name in dict.fromkeys((*_FIRST, *FIELDS)) if name not in shared]
    longest = {name: max(len(name), *map(len, cells[name]), 0) for name in names}
    fitting = (most for most in _LONGEST if sum(min(most, size) + 2 for size in longest.values()) <= width)
    most, end, listed = next(fitting, _LONGEST[-1]), 0, Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    shown = []
    for name, size in longest.items():
        end += min(most, size) + 2
        if end <= width:
            shown.append(name)
            justify: JustifyMethod = "right" if name in ("seed", "kB") else "left"
            listed.add_column(name, width=min(most, size), no_wrap=True, overflow="ellipsis", justify=justify)
    for place in range(len(runs)):
        listed.add_row(*(cells[name][place] for name in shown))
    if left_out := names[len(shown) :]:
        notes.append(f"not shown: {', '.join(left_out)}; a wider terminal has room for them, and --json has everything")
    return listed, notes


def _cell(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def folder_of(run_id: str) -> Path:
    """Return the folder that is called `run_id`, or whose run has an id that begins with it; a UserError if none or several."""
    if not run_id.strip():
        raise UserError("the id is empty; `classwise list` prints the ids of all runs")
    folders: dict[str, Path] = {}
    for folder in store.stored_runs():  # those that were computed here first, as results are read
        folders.setdefault(folder.name.rpartition("-")[2], folder)
    if not folders:
        raise UserError(f"there are no runs yet in {data_folder()}; `classwise run` computes them")
    matching = [number for number, folder in folders.items() if number.startswith(run_id) or folder.name == Path(run_id).name]
    if not matching:
        raise UserError(f"there is no run {run_id!r}; `classwise list` prints the ids of all {len(folders)}")
    if len(matching) > 1:
        some = ", ".join(sorted(matching)[:6]) + " ..." * (len(matching) > 6)
        raise UserError(f"{len(matching)} runs begin with {run_id!r}: {some}; write more of the id")
    return folders[matching[0]]


def run(folder: Path) -> dict[str, Any]:
    """Return a run in plain values: its settings, and of each evaluation the accuracy of each class with its interval."""
    path = folder / "history.nc"
    history = results.header(path, store.HISTORY)
    spec = _read(Spec, "spec", history, path)
    about = {name: history[name] for name in ("device", "commit", "created")}
    evaluations = _evaluations(sorted((folder / "outcomes").glob("*.nc")))
    return {"id": spec.id, "folder": str(folder), **about, "spec": vars(spec), "evaluations": evaluations}


def _evaluations(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return evaluations of one run; the measures of all are computed at once, which is faster."""
    loaded = {path: results.load(path, store.OUTCOMES) for path in paths}
    if not loaded:
        return []
    counts = [aggregate.counts(data) for data in loaded.values()]
    together = xr.concat(counts, "evaluation", join="exact", coords="minimal", compat="override")
    ends = {name: bootstrap.bootstrap(together, metrics.METRICS[name]).sel(bound=["value", "low", "high"]) for name in _MEASURES}
    rows = []
    for number, ((path, data), count) in enumerate(zip(loaded.items(), counts, strict=True)):
        evaluation, bounds = _read(Evaluation, "evaluation", data.attrs, path), intervals.wilson(count)
        classes = {"class": count.label.values.astype(str), "images": metrics.images(count).values.astype(int)}
        classes |= {"accuracy": metrics.accuracy(count).values, **{end: bounds.sel(bound=end).values for end in ("low", "high")}}
        measured = {name: ends[name].isel(evaluation=number).to_series().to_dict() for name in _MEASURES}
        measures = {name: {"unit": unit, **measured[name]} for name, unit in _MEASURES.items()}
        about = {"title": _title(evaluation), "evaluation": vars(evaluation), "classes": pd.DataFrame(classes).to_dict("records")}
        rows.append(about | {"measures": measures, "warnings": sanity.stored_warnings(data)})
    return rows


def _title(evaluation: Evaluation) -> str:
    defaults = vars(Evaluation(attack=evaluation.attack, eps=evaluation.eps, norm=evaluation.norm))
    changed = {name: value for name, value in vars(evaluation).items() if name != "options" and value != defaults[name]}
    settings = [f"{name}={_short(value)}" for name, value in {**evaluation.options, **changed}.items()]
    return " ".join([evaluation.attack, *([f"at eps {evaluation.eps}"] if evaluation.attack != "clean" else []), *settings])


def spec_table(spec: Mapping[str, Any]) -> Table:
    """Return the fields of a Spec as a table: those that differ from their default first, then the others, dimmed."""
    defaults = vars(Spec(dataset="none", eps="0")) | {"eps": "none"}  # these two have no default
    listed = Table("field", "value", "default", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in sorted(spec, key=lambda name: spec[name] == defaults[name]):
        changed = spec[name] != defaults[name]
        listed.add_row(name, _text(spec[name]), _text(defaults[name]) if changed else "", style="bold" if changed else "dim")
    return listed


def _text(value: object) -> str:
    return "-" if value in (None, (), {}) else _short(value)


def evaluation_tables(evaluations: Sequence[Mapping[str, Any]], width: int) -> list[Table]:
    """Return evaluations of `run` as one table of accuracies, where there are more than three and it fits, or a table each."""
    names = list(dict.fromkeys(row["class"] for one in evaluations for row in one["classes"]))
    if len(evaluations) <= 3 or width < _TITLE + sum(max(len(name), 4) + 2 for name in ("all", *names)):
        return [evaluation_table(one) for one in evaluations]
    columns = [Column(name, no_wrap=True) for name in ("all", *names)]
    listed = Table("accuracy, % (intervals: --json)", *columns, box=None)
    # Clean images are the same at each radius.
    several = {one["title"]: one for one in evaluations}
    for title in sorted(several, key=lambda title: (not title.startswith("clean"), title)):
        one = several[title]
        rates = {row["class"]: f"{row['accuracy']:.0f}" for row in one["classes"] if row["images"]}
        listed.add_row(title, f"{one['measures']['overall']['value']:.1f}", *(rates.get(name, "") for name in names))
    return [listed]


def evaluation_table(evaluation: Mapping[str, Any]) -> Table:
    """Return an evaluation of `run` as a table: classes, then the measures of all classes."""
    title = evaluation["title"]
    listed = Table("class", "images", "accuracy", "unit", "95 % interval", title=title, title_justify="left", box=None)
    for row in (row for row in evaluation["classes"] if row["images"]):
        listed.add_row(row["class"], str(row["images"]), f"{row['accuracy']:.1f}", "%", f"{row['low']:.1f} to {row['high']:.1f}")
    for name, row in evaluation["measures"].items():
        listed.add_row(name, "", f"{row['value']:.1f}", row["unit"], f"{row['low']:.1f} to {row['high']:.1f}")
    return listed
