"""The command line: `classwise` or `python -m classwise`.

Every command checks what it is given before it starts a process or makes a folder, and before it imports torch unless the check
needs it: that of a queue resolves trainings, and that of an audit reads the weights.
"""

import json
import os
import sys
import time
import webbrowser
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from classwise.core import arguments, paths
from classwise.core.errors import UserError, unknown

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Class-wise adversarial robustness, recomputed.")
console = Console(stderr=True)

# The base of all that typer raises for invalid input, which it does not export.
INVALID_INPUT: type[Exception] = typer.BadParameter.__mro__[1]

Scale = Annotated[str, typer.Option(help="Size of the runs: quick, laptop, short or paper.")]
Workers = Annotated[
    int | None, typer.Option(help="Number of runs at once; by default one for each GPU, or CPU core.", callback=arguments.workers)
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="Address of a dask.distributed scheduler whose workers compute: tcp://host:8786.", callback=arguments.scheduler
    ),
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

    _check_data_folder(new=not dry_run)
    named = [(section, registry.request(section, scale).pairs) for section in sections or registry.SECTIONS]
    if dry_run and scheduler is not None:
        raise UserError("--dry-run estimates for this machine and for GPUs, not for a scheduler: leave --scheduler out")
    if dry_run:
        from classwise.runs.schedule import forecast

        return forecast.forecast(named, Console(width=None if sys.stdout.isatty() else 160), workers=workers)
    from classwise.runs.schedule import pool

    pairs = [pair for _, of_section in named for pair in of_section]
    computed = pool.ensure_runs(pairs, workers=workers, scheduler=scheduler, repair=True, console=console)
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
    width = _width()
    table, notes = listing.table(chosen, width)
    for note in notes:
        console.print(note, highlight=False, soft_wrap=True)
    return Console(width=width or 10_000).print(table)


@app.command("show")
def show_run(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="An id that `classwise list` prints, or its first characters.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show one run: its settings, and the accuracy of each class under each evaluation."""
    from classwise.runs import listing

    run = listing.run(listing.folder_of(run_id))
    if as_json:
        return print(json.dumps(run, indent=1))
    out = Console(width=_width() or 160)
    out.print(run["folder"], highlight=False, soft_wrap=True)
    out.print(listing.spec_table(run["spec"]), highlight=False)
    for evaluation in run["evaluations"]:
        out.print(listing.evaluation_table(evaluation))
        for sentence, figure in evaluation["warnings"].items():
            line = f"sanity warning for {evaluation['title']}: {sentence} ({figure})"
            out.print(line, style="yellow", highlight=False, soft_wrap=True)
    return None


def _width() -> int | None:
    """Return the width of the terminal, or COLUMNS; None where the output is no terminal."""
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdigit() and int(given) else os.get_terminal_size().columns if sys.stdout.isatty() else None


@app.command("render")
def render_notebook(
    notebook: Annotated[str, typer.Argument(help="A notebook, such as tian2021/4-1-class-bias.")],
    parameters: Annotated[list[str] | None, typer.Option("-p", "--parameters", help="name=value; may be repeated.")] = None,
) -> None:
    """Execute one notebook with other parameters into build/notebooks/; the page of the book does not change."""
    from classwise.book import build, notebooks
    from classwise.core import names
    from classwise.papers import registry

    _check_data_folder(new=True)
    source = notebooks.find(notebook)
    if any(not text.strip() for text in parameters or []):
        raise UserError("--parameters is empty; write name=value, like eps=0.1 or seeds=[0,1]")
    given = notebooks.parse(" ".join(parameters or []))
    notebooks.check(source, given)
    name = str(source.relative_to(notebooks.folder()).with_suffix(""))
    if name in registry.SECTIONS:
        pairs = registry.request(name, **given).pairs
        for spec, evaluations in pairs:
            names.check_spec(spec, evaluations)
        build.ensure_runs(pairs, str(given.get("scale", "quick")), console)
    else:
        _check_parameters(name, given)
    target = paths.build_folder() / "notebooks" / f"{name}{notebooks.suffix(source, given)}.ipynb"
    console.print(f"executing {name}")
    build.execute(name, target, given, paths.build_folder() / "failed" / f"{name}.ipynb")
    notebooks.standalone(target, target.with_suffix(".html"), build.scripts(), build.style())
    print(target, target.with_suffix(".html"), sep="\n")


def _check_parameters(name: str, given: Mapping[str, Any]) -> None:
    """Raise a UserError if a parameter of a notebook that is no section has an unknown value."""
    from classwise.core import names
    from classwise.core.errors import check_once
    from classwise.papers import registry
    from classwise.papers.scales import SCALES

    check_once("others", given.get("others") or [])
    tables: dict[str, Collection[str]] = {
        "scale": SCALES,
        "others": SCALES,
        "paper": registry.PAPERS,
        "section": registry.SECTIONS,
    }
    for parameter, table in tables.items():
        value = given.get(parameter)
        for one in value if isinstance(value, list) else [] if value is None else [value]:
            if one not in table:
                raise unknown("scale" if parameter == "others" else parameter, one, table)
    if name == "audit":
        names.check_audit({field: value for field, value in given.items() if value is not None})


@app.command("audit")
def audit_network(
    weights: Annotated[str, typer.Option(help="A .safetensors file, a state dict in .pt, or the defence of a stored run.")],
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
) -> None:
    """Audit a trained network class by class: a standalone HTML report, and its results in the same folder."""
    from classwise.core import datasets, names
    from classwise.core.audit import critical as check_critical

    arguments.path("--weights", weights)
    place = None if out is None else arguments.path("--out", out).resolve()
    critical = arguments.names("--classes", classes)
    given = {"model": model, "dataset": dataset, "eps": eps, "attack": attack, "norm": norm, "limit": limit}
    given |= {"width": width, "normalise": normalise, "seed": seed, "batch": batch, "skip_bad": skip_bad}
    given |= {"home": str(Path.cwd()), "out": str(place) if place else None}
    names.check_audit({field: value for field, value in given.items() if value is not None})
    # If the classes are known without the images, a wrong name is reported at once.
    check_critical(critical, datasets.known_classes(dataset) or critical)
    _check_data_folder(new=True) if place is None else paths.check_folder(place, "--out")
    from classwise import runs
    from classwise.book import build, notebooks
    from classwise.runs import store

    audit = runs.audit(weights, **given)  # type: ignore[arg-type]
    from classwise import images  # torch
    from classwise.runs import audits
    from classwise.runs.compute import validate

    check_critical(critical, validate.class_names(audit))
    audits.carry_out(audit, console)
    folder = store.run_folder(audit)
    page, target = folder / "report.html", folder / "report.ipynb"
    console.print("writing the report")
    given["dataset"] = images.absolute(dataset)  # the report is made in another folder
    parameters = {"weights": audit.weights, "classes": critical or None, **given}
    notebooks.execute(notebooks.find("audit"), target, parameters, folder / "failed.ipynb")
    notebooks.standalone(target, page, build.scripts(), build.style(), f"{audit.network}: an audit", code=False)
    print(page)


@app.command("record")
def record_runs(
    out: Annotated[str | None, typer.Option(help="Folder of the archives; with --scale, data/recorded/ is the default.")] = None,
    scale: Annotated[str | None, typer.Option(help="Use the queue of this scale: data/recorded/<scale>.toml.")] = None,
    budget: Annotated[str, typer.Option(help="Time limit, in hours (h), minutes (m), seconds (s): 1h30m, 9m, 30s.")] = "9m",
    queue: Annotated[str | None, typer.Option(help="The queue; by default data/recorded/queue.toml.")] = None,
    full_weights: Annotated[bool, typer.Option("--full-weights", help="Also pack the weights as they are, in float32.")] = False,
    workers: Annotated[
        int, typer.Option(help="Number of processes, each with one thread and other runs.", callback=arguments.workers)
    ] = 1,
    idle: Annotated[bool, typer.Option("--idle", help="Compute at the lowest priority, on what other processes leave.")] = False,
    pack_only: Annotated[bool, typer.Option("--pack-only", help="Compute nothing; pack what is finished.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how long each entry of the queue takes here.")] = False,
) -> None:
    """Compute the runs of a queue within a time limit and pack what is finished; the next call continues."""
    began = time.monotonic()
    from classwise.runs.record.budget import Budget, parse_seconds
    from classwise.runs.record.queue import check, default, read

    if out is None and scale is None:
        raise UserError("say with --out where the archives go, or with --scale which scale is filed in data/recorded/")
    if queue is not None and scale is not None:
        raise UserError("--scale and --queue both name a queue; give one of them")
    given, folder = Budget(parse_seconds(budget), began), None if out is None else arguments.path("--out", out)
    path = default(scale) if queue is None else arguments.path("--queue", queue)
    items = read(path)
    _check_data_folder(new=True)
    if folder is not None:
        paths.check_folder(folder, "--out")
    from classwise.runs.record import recorder
    from classwise.runs.record import workers as processes

    if dry_run:
        return recorder.forecast(items, console)
    check(recorder.with_images(items, lambda line: None), path)
    if idle:
        processes.lowest_priority()
    failed = recorder.record(
        items,
        folder,
        given,
        weights="full" if full_weights else "none",
        pack_only=pack_only,
        processes=workers,
        say=lambda line: print(line, flush=True),
    )
    if failed:
        raise RuntimeError(f"{len(failed)} computations failed; the rest of the queue was processed")
    return None


@app.command("import")
def import_archives(archives: Annotated[list[str], typer.Argument(help="Archives of `classwise record`.")]) -> None:
    """Check archives of recorded runs and unpack them to data/recorded/; existing runs are kept."""
    files = [arguments.path("the name of an archive", archive) for archive in archives]
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


@app.command("converged")
def record_convergence(scale: Scale = "quick", workers: Workers = None) -> None:
    """Train each network of a scale once more, with twice the epochs, and record both; this takes three times its trainings."""
    from classwise.papers.scales import SCALES

    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    _check_data_folder(new=True)
    from classwise.runs import convergence
    from classwise.stats.convergence import LARGEST_GAIN, unconverged

    print(convergence.record(scale, console, workers))
    late = unconverged(convergence.converged(scale))
    rule = f"more than {LARGEST_GAIN:g} points of robust accuracy by twice the epochs"
    print(f"these gain {rule}: {', '.join(late)}" if late else f"no network gains {rule}")


@app.command("book")
def build_book(scale: Scale = "quick", workers: Workers = None, scheduler: Scheduler = None) -> None:
    """Compute missing results, execute the notebooks that changed, and render the book to build/html/."""
    from classwise.book import build
    from classwise.papers.scales import SCALES

    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    _check_data_folder(new=True)
    page = build.build(scale, console, workers, scheduler)
    print(f"the book is at {page}\nopen that file, or serve it: make serve")


@app.command("zip")
def zip_book() -> None:
    """Pack the built book as one file that opens without a server or Python after unpacking."""
    from classwise.book import build

    print(build.pack_book(console))


@app.command("serve")
def serve_book(port: Annotated[int, typer.Option(min=1, max=65535)] = 8000) -> None:
    """Serve the built book on this machine."""
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    folder = paths.build_folder() / "html"
    if not (folder / "index.html").exists():
        raise UserError(f"there is no book in {folder} yet; `make book` builds it")
    try:
        book = ThreadingHTTPServer(("localhost", port), partial(SimpleHTTPRequestHandler, directory=str(folder)))
    except OSError as error:
        other = port + 1 if port < 65535 else 8000
        raise UserError(f"port {port} cannot be used ({error.strerror}); choose another: make serve PORT={other}") from None
    address = f"http://localhost:{port}"
    console.print(f"the book is at {address}; Ctrl-C stops the server")
    webbrowser.open(address)
    with book:
        book.serve_forever()


def _check_data_folder(*, new: bool) -> None:
    """Raise a UserError if the data folder is a file; if it is `new`, also if it cannot be made."""
    paths.check_data_folder(writing=new and not paths.data_folder().exists())


def main() -> None:
    """Run the command line: a wrong input prints one sentence and exits with 2, a failed run or notebook exits with 1."""
    try:
        paths.check_data_folder()
        # Without words it prints its help.
        sys.exit(app(standalone_mode=len(sys.argv) < 2) or 0)
    except INVALID_INPUT as error:
        _print(f"{_sentence(error)}; `{_command(error)} --help` lists what there is")
        sys.exit(2)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        _print(f"{reason}; what is finished is kept")
        sys.exit(1)
    except (UserError, RuntimeError) as error:
        _print(str(error))
        sys.exit(2 if isinstance(error, UserError) else 1)
    except (KeyboardInterrupt, SystemExit) as stopped:
        # typer turns Ctrl-C into an exit of its own.
        if isinstance(stopped, SystemExit) and stopped.code != 130:
            raise
        _print("stopped; what is finished is kept, and the rest resumes from there")
        sys.exit(130)


def _print(problem: str) -> None:
    console.print(f"classwise: {problem}", style="red", highlight=False, markup=False, soft_wrap=True)


def _sentence(error: Exception) -> str:
    """Return what typer says about invalid input, as part of a sentence."""
    text = " ".join(error.format_message().split()).rstrip(".")  # type: ignore[attr-defined]
    return text[:1].lower() + text[1:]


def _command(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return f"classwise {context.info_name}" if context is not None and context.parent is not None else "classwise"


if __name__ == "__main__":
    main()
