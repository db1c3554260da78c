"""The command line: `classwise` or `python -m classwise`.

Every command checks what it is given before it starts a process or makes a folder. Modules are imported where they are used: what
needs neither torch nor the packages of the book does not wait for them.
"""

import contextlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from classwise.core import paths
from classwise.core.errors import UserError, check_known, check_once

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Class-wise adversarial robustness, recomputed.")
console = Console(stderr=True)

# The base of all that typer raises for invalid input, which it does not export.
INVALID_INPUT: type[Exception] = typer.BadParameter.__mro__[1]

# Far more processes than one for each CPU core are a typing error.
MOST_WORKERS = max(64, 4 * (os.cpu_count() or 1))


def _address(given: str | None) -> str | None:
    """Return the address of a scheduler; a UserError unless it has the form host:port. Whether one answers is known later."""
    form = re.fullmatch(r"(?:[a-z]+://)?(?:\[[0-9a-fA-F:]+\]|[^\s:/\[\]]+):(\d{1,5})", given or "", re.ASCII)
    if given is not None and (form is None or not 0 < int(form[1]) < 65536):
        advice = f"did you mean tcp://{given}:8786?" if re.fullmatch(r"[\w.-]+", given) else "write tcp://host:8786"
        raise UserError(f"--scheduler {given!r} is not an address with a port from 1 to 65535; {advice}")
    return given


def _path(option: str, given: str) -> Path:
    if not given.strip():
        raise UserError(f"{option} is empty; name a file or a folder, or leave it out")
    return Path(given).expanduser()


def _scale(given: str | None) -> str | None:
    from classwise.papers.scales import SCALES

    check_known("scale", [] if given is None else [given], SCALES)
    return given


Scale = Annotated[str, typer.Option(help="Size of the runs: quick, matched, laptop, short or paper.", callback=_scale)]
Workers = Annotated[
    int | None, typer.Option(help="Number of runs at once; by default one for each GPU, or CPU core.", min=1, max=MOST_WORKERS)
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="Address of a dask.distributed scheduler whose workers compute: tcp://host:8786.", callback=_address),
]


@app.command("run")
def run_sections(
    sections: Annotated[list[str] | None, typer.Argument(help="Such as tian2021/4-1-class-bias; by default all.")] = None,
    scale: Scale = "quick",
    workers: Workers = None,
    scheduler: Scheduler = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only estimate time and disk space.")] = False,
) -> None:
    """Compute the runs and evaluations of sections; existing results are kept."""
    from classwise.papers import registry

    requests = {name: registry.request(name, scale) for name in sections or registry.SECTIONS}
    if dry_run and scheduler is not None:
        raise UserError("--dry-run estimates for this machine and for GPUs, not for a scheduler: leave --scheduler out")
    from classwise.runs.schedule import forecast, plan, pool

    wanted = {name: plan.section_keys(registry.SECTIONS[name], request) for name, request in requests.items()}
    if dry_run:
        return forecast.forecast(wanted, Console(width=None if sys.stdout.isatty() else 160), workers=workers)
    computed = pool.ensure_runs(plan.merge(wanted.values()), workers=workers, scheduler=scheduler, repair=True, console=console)
    return console.print(f"{computed} runs computed" if computed else "everything is there")


@app.command("list")
def list_runs(
    filters: Annotated[
        list[str] | None, typer.Option("--filter", help="field=value, such as defence=trades; repeatable.")
    ] = None,
    sort: Annotated[str | None, typer.Option(help="A field to sort by, such as created; -created for the last first.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all fields as JSON.")] = False,
) -> None:
    """List the stored runs with their settings, sections, evaluations, size and commit."""
    from classwise.runs import listing

    problems: list[str] = []
    rows = listing.rows(problems.append)
    chosen = listing.select(rows, filters or [], sort)
    for problem in problems:
        console.print(problem, style="red", highlight=False, soft_wrap=True)
    if as_json:
        return print(json.dumps(chosen, indent=1))
    if not chosen:
        none = f"there are no runs in {paths.data_folder()} yet; `classwise run` computes them"
        return console.print("no run matches all filters" if rows else none, highlight=False, soft_wrap=True)
    if (width := _width()) is None:
        return print(*listing.lines(chosen), sep="\n")
    table, notes = listing.table(chosen, width)
    for note in notes:
        console.print(note, highlight=False, soft_wrap=True)
    return Console(width=width).print(table)


@app.command("show")
def show_run(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="An id that `classwise list` prints, its beginning, or a folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show one run: the accuracy of each class under each evaluation, and its settings."""
    from classwise.runs import listing

    run = listing.run(listing.folder_of(run_id))
    if as_json:
        return print(json.dumps(run, indent=1))
    out = Console(width=_width() or 160)
    out.print(*listing.evaluation_tables(run["evaluations"], out.width), sep="\n", highlight=False)
    for evaluation in run["evaluations"]:
        for sentence, figure in evaluation["warnings"].items():
            line = f"sanity warning for {evaluation['title']}: {sentence} ({figure})"
            out.print(line, style="yellow", highlight=False, soft_wrap=True)
    out.print(run["folder"], highlight=False, soft_wrap=True)
    return out.print(listing.spec_table(run["spec"]), highlight=False)


def _width() -> int | None:
    """Return the width of the terminal, or COLUMNS; None where the output is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


@app.command("render")
def render_notebook(
    notebook: Annotated[str, typer.Argument(help="A notebook, such as tian2021/4-1-class-bias.")],
    parameters: Annotated[list[str] | None, typer.Option("-p", "--parameters", help="name=value; may be repeated.")] = None,
) -> None:
    """Execute one notebook with other parameters into build/notebooks/; the page of the book does not change."""
    from classwise.book import build, execution, notebooks, scale_switch
    from classwise.papers import registry
    from classwise.papers.scales import SCALES

    source = notebooks.find(notebook)
    if any(not text.strip() for text in parameters or []):
        raise UserError("--parameters is empty; write name=value, like eps=0.1 or seeds=[0,1]")
    given = notebooks.parse(" ".join(parameters or []))
    notebooks.check(source, given)
    name = str(source.relative_to(notebooks.folder()).with_suffix(""))
    request = registry.request(name, **given) if name in registry.SECTIONS else None
    _check_parameters(name, given)
    _check_data_folder()
    from classwise.runs.schedule import plan  # torch

    scale = str(given.get("scale", "quick"))
    wanted = plan.section_keys(registry.SECTIONS[name], request) if request else {}
    left = {} if SCALES[scale].recorded_only else plan.missing(wanted)
    build.announce(left, [f"{execution.COMPUTED}/{name}"], console, renders=False)
    if wanted:
        build.ensure_runs(wanted, scale, console)
    target = paths.build_folder() / "notebooks" / f"{name}{notebooks.suffix(source, given)}.ipynb"
    execution.execute(name, target, given, paths.build_folder() / "failed" / f"{name}.ipynb")
    scale_switch.put_beside(name, target, execution.Page(name, scale, {}, coming=False).target, given)
    notebooks.standalone(target, page := target.with_suffix(".html"), build.scripts(), build.style())
    print(f"open this page in a browser: {page}")


# By the parameter of a notebook: what it names, and the table of these, of which some need torch.
_NAMED = {"scale": ("scale", "papers.scales:SCALES"), "others": ("scale", "papers.scales:SCALES")}
_NAMED |= {"attack": ("attack", "attacks:ATTACKS"), "defences": ("defence", "defences:DEFENCES")}


def _check_parameters(name: str, given: Mapping[str, Any]) -> None:
    from classwise import runs
    from classwise.core import datasets
    from classwise.papers import registry

    if name == "audit":
        with contextlib.chdir(paths.checkout()):  # where its notebook is executed
            runs.audit(**given)
        return
    check_once("others", given.get("others") or [])
    for parameter, (kind, table) in _NAMED.items():
        if value := given.get(parameter):
            check_known(kind, [value] if isinstance(value, str) else value, resolve_name(f"classwise.{table}"))
    compares = name in registry.SECTIONS and len(registry.SECTIONS[name].defences) > 1
    if (chosen := given.get("defences")) and "pgd-at" not in chosen and compares:
        raise UserError(f"defences={chosen!r} lacks pgd-at, with which {name} compares the others; add it")
    for dataset in [*(given.get("datasets") or []), *filter(None, [given.get("dataset")])]:
        datasets.check(dataset)


@app.command("audit")
def audit_network(
    weights: Annotated[str, typer.Option(help="A .safetensors file, a state dict in .pt, or a defence, such as trades.")],
    model: Annotated[str, typer.Option(help="A model of this package, such as resnet18, or your my_module:function.")],
    dataset: Annotated[str, typer.Option(help="The dataset whose test images are evaluated: cifar10, folder:PATH ...")],
    eps: Annotated[str, typer.Option(help="Radius of the attack, for pixels from 0 to 1: 8/255.")],
    attack: Annotated[str, typer.Option(help="The attack: strong, autoattack, pgd-20 ...")] = "strong",
    norm: Annotated[str, typer.Option(help="Norm of the radius: linf or l2.")] = "linf",
    classes: Annotated[str | None, typer.Option(help="Critical classes, separated by commas: stop_sign,pedestrian.")] = None,
    limit: Annotated[int | None, typer.Option(help="Number of images, the same of each class.", min=1)] = None,
    width: Annotated[int | None, typer.Option(help="Width of the model; by default that of the weights.", min=1)] = None,
    normalise: Annotated[str, typer.Option(help="Input of the weights: none, dataset, or mean/std of each channel.")] = "none",
    out: Annotated[str | None, typer.Option(help="Folder of results and report; by default data/audits.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample and the attacks.", min=0)] = 0,
    batch: Annotated[int | None, typer.Option(help="Number of images at once; more on a GPU.", min=1)] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip files that cannot be read as images.")] = False,
    against: Annotated[str | None, typer.Option(help="Other weights, compared image by image.")] = None,
    fail_below: Annotated[float | None, typer.Option(help="Exit with 3 if the worst class is below this share: 0.2.")] = None,
) -> int:
    """Audit a trained network class by class: a report in HTML and JSON, and its results in the same folder."""
    for option, name in {"--weights": weights, "--against": against}.items():
        if name is not None and (_path(option, name) / "report.json").exists():
            raise UserError(f"{option} {name} is the folder of an audit; name the weights of a network")
    if fail_below is not None and not 0 <= fail_below <= 1:
        share = f"; did you mean {fail_below / 100:g}?" if 1 < fail_below <= 100 else ", such as 0.2"
        raise UserError(f"--fail-below is {fail_below:g}, and must be a share of the images from 0 to 1{share}")
    place = None if out is None else _path("--out", out).resolve()
    critical = None if classes is None else [name.strip() for name in classes.split(",") if name.strip()]
    if critical == []:
        raise UserError("--classes is empty; name some, such as cat,dog, or leave it out")
    _check_data_folder() if place is None else paths.check_folder(place, "--out")
    from classwise import images, runs  # torch
    from classwise.runs import audits

    given: dict[str, Any] = {"model": model, "eps": eps, "attack": attack, "norm": norm, "limit": limit, "width": width}
    given |= {"normalise": normalise, "seed": seed, "batch": batch, "skip_bad": skip_bad, "classes": critical}
    given |= {"home": str(Path.cwd()), "out": str(place) if place else None}
    audit = runs.audit(weights, dataset=dataset, **given)
    other = None if against is None else audits.audit_against(audit, against, dataset=dataset, **given)
    audits.run_audit(audit, console)
    if other:
        console.print(f"the other network: {other.weights}", markup=False, soft_wrap=True)
        audits.run_audit(other, console)
    from classwise.book.audits import conclusion, write_report  # altair

    console.print("writing the report")
    given |= {"weights": audit.weights, "dataset": images.absolute(dataset), "against": other and other.weights}
    page, numbers = write_report(audit, other, given, fail_below)
    print(page)
    print(*conclusion(numbers), sep="\n", file=sys.stderr)
    return 0 if numbers.get("fail_below", {"passed": True})["passed"] else 3


@app.command("record")
def record_runs(
    out: Annotated[str | None, typer.Option(help="Folder of the archives; with --scale, data/recorded/ is the default.")] = None,
    scale: Annotated[
        str | None, typer.Option(help="Use the queue of this scale: data/recorded/<scale>.toml.", callback=_scale)
    ] = None,
    budget: Annotated[str, typer.Option(help="Time limit, in hours (h), minutes (m), seconds (s): 1h30m, 9m, 30s.")] = "9m",
    queue: Annotated[str | None, typer.Option(help="The queue; by default data/recorded/queue.toml.")] = None,
    full_weights: Annotated[bool, typer.Option("--full-weights", help="Also pack the weights as they are, in float32.")] = False,
    workers: Annotated[int, typer.Option(help="Processes of one thread, each with its GPU.", min=1, max=MOST_WORKERS)] = 1,
    idle: Annotated[bool, typer.Option("--idle", help="Compute at the lowest priority, on what other processes leave.")] = False,
    pack_only: Annotated[bool, typer.Option("--pack-only", help="Compute nothing; pack what is finished.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how long each entry of the queue takes here.")] = False,
) -> None:
    """Compute the runs of a queue within a time limit and pack what is finished; the next call continues."""
    began = time.monotonic()
    from classwise.runs.compute.budget import Budget, parse_seconds
    from classwise.runs.record.queue import check, default, read

    if out is None and scale is None:
        raise UserError("say with --out where the archives go, or with --scale which scale is filed in data/recorded/")
    if queue is not None and scale is not None:
        raise UserError("--scale and --queue both name a queue; give one of them")
    given, folder = Budget(parse_seconds(budget), began), None if out is None else _path("--out", out)
    path = default(scale) if queue is None else _path("--queue", queue)
    items = read(path)
    _check_data_folder()
    if folder is not None:
        paths.check_folder(folder, "--out")
    from classwise.runs.compute import processes
    from classwise.runs.record import recorder

    if dry_run:
        return recorder.forecast(items, console)
    check(recorder.drop_without_images(items, lambda line: None), path)
    if idle:
        processes.lowest_priority()
    how: dict[str, Any] = {"weights": "full" if full_weights else "none", "pack_only": pack_only, "processes": workers}
    if failed := recorder.record(items, folder, given, **how, say=lambda line: print(line, flush=True)):
        raise RuntimeError(f"{len(failed)} computations failed; the rest of the queue was processed")
    return None


@app.command("import")
def import_archives(archives: Annotated[list[str], typer.Argument(help="Archives of `classwise record`.")]) -> None:
    """Check archives of recorded runs and unpack them to data/recorded/; existing runs are kept."""
    files = [_path("the name of an archive", archive) for archive in archives]
    for path in files:
        paths.check_file(path, "archive", "name one that `classwise record` wrote, such as recorded-1.tar")
    paths.check_data_folder(writing=True)
    from classwise.runs.record import archive

    for path in files:
        new, same = archive.unpack(path)
        for run in new:
            print(f"imported {run}")
        result = f"{len(new)} runs imported, {len(same)} there already" if new else f"nothing new, all {len(same)} runs are there"
        print(f"{path}: {result}")


@app.command("book")
def build_book(scale: Scale = "quick", workers: Workers = None, scheduler: Scheduler = None) -> None:
    """Compute missing results, execute the notebooks that changed, and render the book to build/html/."""
    from classwise.book import build

    _check_data_folder()
    page = build.build(scale, console, workers, scheduler)
    print(f"the book is at {page}\nopen that file, or serve it: make serve")


@app.command("zip")
def zip_book() -> None:
    """Pack the built book as one file that opens without a server or Python after unpacking."""
    from classwise.book import build

    print(build.pack(console))


@app.command("serve")
def serve_book(port: Annotated[int, typer.Option(min=1, max=65535)] = 8000) -> None:
    """Serve the built book on this machine."""
    from classwise.book import build

    build.serve(port, console)


@app.command("fetch")
def fetch_data(what: Annotated[str, typer.Argument(help="human-labels: votes of people on CIFAR-10.")]) -> None:
    """Download what may not be part of this project, and check it."""
    check_known("download", [what], ("human-labels",))
    from classwise.images import human_labels  # torch

    print(human_labels.fetch())


def _check_data_folder() -> None:
    paths.check_data_folder(writing=not paths.data_folder().exists())


def main() -> None:
    """Run the command line: a wrong input prints one sentence and exits with 2, a failed run or notebook exits with 1."""
    try:
        paths.check_data_folder()
        # Without words it prints its help.
        sys.exit(app(standalone_mode=len(sys.argv) < 2) or 0)
    except INVALID_INPUT as error:
        text = " ".join(error.format_message().split()).rstrip(".")  # type: ignore[attr-defined]
        context = getattr(error, "ctx", None)
        command = f"classwise {context.info_name}" if context is not None and context.parent is not None else "classwise"
        _stop(f"{text[:1].lower()}{text[1:]}; `{command} --help` lists what there is", 2)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        _stop(f"{reason}; what is finished is kept", 1)
    except (UserError, RuntimeError) as error:
        _stop(str(error), 2 if isinstance(error, UserError) else 1)
    except (KeyboardInterrupt, SystemExit) as stopped:
        # typer turns Ctrl-C into an exit of its own.
        if isinstance(stopped, SystemExit) and stopped.code != 130:
            raise
        _stop("stopped; what is finished is kept, and the rest resumes from there", 130)


def _stop(problem: str, code: int) -> NoReturn:
    console.print(f"classwise: {problem}", style="red", highlight=False, markup=False, soft_wrap=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
