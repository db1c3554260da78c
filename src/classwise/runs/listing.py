"""Stored results as tables for the terminal: all runs, or one of them class by class."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import xarray as xr
from rich.table import Table

from classwise.core import results
from classwise.core.errors import UserError
from classwise.core.paths import data_folder
from classwise.core.spec import Evaluation, Spec
from classwise.papers import registry
from classwise.papers.scales import SCALES
from classwise.runs import store
from classwise.stats import aggregate, bootstrap, intervals, metrics, sanity

_COLUMNS = ("id", "run", "seed", "differs in", "scale", "sections", "evaluations", "kB", "folder", "device", "commit", "created")


def runs(warn: Callable[[str], None]) -> Table:
    """Return a row for each run: its settings, the sections that use it, its evaluations and its provenance.

    `warn` is called with a line about each damaged run.
    """
    table = Table(*_COLUMNS, box=None)
    stored = sorted(_stored(warn), key=lambda row: (*row[0].parts[-3:-1], row[1].defence, row[1].seed))
    differing, used = _differing([spec for _, spec, _ in stored]), _used()
    for folder, spec, data in stored:
        kind, *_, run = folder.relative_to(data_folder()).parts
        attacks = Counter(path.stem.rpartition("-")[0] for path in folder.glob("outcomes/*.nc"))
        counted = ", ".join(f"{name} ({times})" if times > 1 else name for name, times in sorted(attacks.items()))
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) // 1000
        scale, sections = used.get(spec.id, ("", []))
        title = "/".join((*folder.parts[-3:-1], run.rpartition("-")[0]))
        about = [str(data.attrs[name]) for name in ("device", "commit", "created")]
        table.add_row(
            spec.id, title, str(spec.seed), differing[spec], scale, ", ".join(sections), counted, str(size), kind, *about
        )
    return table


def _stored(warn: Callable[[str], None]) -> Iterator[tuple[Path, Spec, xr.Dataset]]:
    for folder in store.stored():
        path = folder / "history.nc"
        try:
            data = results.load(path, store.HISTORY)
        except UserError as error:
            warn(str(error))
            continue
        try:
            yield folder, Spec.from_json(data.attrs["spec"]), data
        except (ValueError, TypeError) as error:
            warn(f"{path} carries no readable spec ({error}); delete it and run again")


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
    words = section.split("-")
    starts = ("-".join(words[:count]) for count in range(1, len(words)))
    return next((start for start in starts if _sections(start) == 1), section)


def _sections(start: str) -> int:
    """Return how many sections have a name that begins with these words."""
    return sum(f"{name}-".startswith(f"{start}-") for name in registry.SECTIONS)


def _differing(specs: Sequence[Spec]) -> dict[Spec, str]:
    """Return the fields, other than the seed, in which each run differs from most runs of its dataset, model and defence."""
    alike: dict[tuple[str, ...], list[Spec]] = defaultdict(list)
    for spec in specs:
        alike[spec.dataset, spec.model, spec.defence].append(spec)
    result: dict[Spec, str] = {}
    for group in alike.values():
        common = {name: Counter(str(getattr(spec, name)) for spec in group).most_common(1)[0][0] for name in vars(group[0])}
        for spec in group:
            fields = {name: value for name, value in vars(spec).items() if name != "seed" and str(value) != common[name]}
            result[spec] = ", ".join(f"{name}={_short(value)}" for name, value in fields.items())
    return result


def _title(evaluation: Evaluation) -> str:
    """Return an evaluation in words: the attack with its options, and all fields that are not at their default."""
    defaults = vars(Evaluation(attack=evaluation.attack, eps=evaluation.eps, norm=evaluation.norm))
    fields = {name: value for name, value in vars(evaluation).items() if name != "options" and value != defaults[name]}
    settings = [f"{name}={value}" for name, value in {**evaluation.options, **fields}.items()]
    return " ".join([evaluation.attack, *([f"at eps {evaluation.eps}"] if evaluation.attack != "clean" else []), *settings])


def _short(value: object) -> str:
    if isinstance(value, tuple):
        return "+".join(map(str, value))
    return "; ".join(f"{name} {part}" for name, part in value.items()) if isinstance(value, dict) else str(value)


def folder_of(run_id: str) -> Path:
    """Return the folder of the run whose id is `run_id` or begins with it; a UserError if there are none or several."""
    folders = {folder.name.rpartition("-")[2]: folder for folder in store.stored()}
    if not folders:
        raise UserError("there are no runs yet; `classwise run` computes them")
    matching = [number for number in folders if number.startswith(run_id)]
    if len(matching) == 1:
        return folders[matching[0]]
    if matching:
        raise UserError(f"several runs begin with {run_id!r}: {', '.join(sorted(matching))}; write more of the id")
    raise UserError(f"there is no run {run_id!r}; `classwise list` prints the ids of all {len(folders)}")


def evaluation_tables(folder: Path) -> Iterator[tuple[Table, list[str]]]:
    """Yield for each evaluation of a run its table, class by class, and its sanity warnings."""
    for path in sorted((folder / "outcomes").glob("*.nc")):
        data = results.load(path, store.OUTCOMES)
        count = aggregate.counts(data)
        rates, bounds = metrics.accuracy(count), intervals.wilson(count)
        title = _title(Evaluation.from_json(data.attrs["evaluation"]))
        table = Table("class", "images", "accuracy, %", "95 % interval", title=title, title_justify="left", box=None)
        for label in count.label.values:
            low, high = (float(bounds.sel(label=label, bound=bound)) for bound in ("low", "high"))
            total = int(metrics.images(count).sel(label=label))
            table.add_row(str(label), str(total), f"{float(rates.sel(label=label)):.1f}", f"{low:.1f} to {high:.1f}")
        for name in ("overall", "worst", "mcd", "cv"):
            low, value, high = bootstrap.bootstrap(count, metrics.METRICS[name]).values
            table.add_row(name, "", f"{value:.1f}", f"{low:.1f} to {high:.1f}")
        warnings = sanity.stored_warnings(data).items()
        yield table, [f"sanity warning for {title}: {sentence} ({figure})" for sentence, figure in warnings]
