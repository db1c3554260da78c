"""The command line: `classwise` or `python -m classwise`."""

import sys
import time
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from classwise.core.errors import UserError

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Class-wise adversarial robustness, recomputed.")
console = Console(stderr=True)

Scale = Annotated[str, typer.Option(help="Size of the runs: quick, short or paper.")]
Workers = Annotated[int | None, typer.Option(help="Number of runs at once; by default one for each GPU, or CPU core.", min=1)]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a dask.distributed scheduler whose workers compute: tcp://host:8786.")
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
def list_runs() -> None:
    """List all stored runs with their settings, sections, evaluations, size and commit."""
    from classwise.runs import listing

    table = listing.runs(lambda problem: console.print(problem, style="red", highlight=False))
    Console(width=None if sys.stdout.isatty() else 240).print(table)


@app.command("show")
def show_run(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="An id that `classwise list` prints, or its first characters.")],
) -> None:
    """Show one run: its settings, and the accuracy of each class under each evaluation."""
    from classwise.core import results
    from classwise.core.spec import Spec
    from classwise.runs import listing, store

    folder = listing.folder_of(run_id)
    spec = Spec.from_json(results.load(folder / "history.nc", store.HISTORY).attrs["spec"])
    out = Console(width=None if sys.stdout.isatty() else 160)
    out.print(f"{folder}\n{spec}", highlight=False, soft_wrap=True)
    for table, warnings in listing.evaluation_tables(folder):
        out.print(table)
        for warning in warnings:
            out.print(warning, style="yellow", highlight=False)


@app.command("render")
def render_notebook(
    notebook: Annotated[str, typer.Argument(help="A notebook, such as tian2021/4-1-class-bias.")],
    parameters: Annotated[list[str] | None, typer.Option("-p", "--parameters", help="name=value; may be repeated.")] = None,
) -> None:
    """Execute one notebook with other parameters into build/notebooks/; the page of the book does not change."""
    from classwise.book import build, notebooks
    from classwise.core.paths import build_folder
    from classwise.papers import registry

    source = notebooks.find(notebook)
    given = notebooks.parse(" ".join(parameters or []))
    notebooks.check(source, given)
    name = str(source.relative_to(notebooks.folder()).with_suffix(""))
    if name in registry.SECTIONS:
        build.ensure_runs(registry.request(name, **given).pairs, str(given.get("scale", "quick")), console)
    target = build_folder() / "notebooks" / f"{name}.ipynb"
    console.print(f"executing {name}")
    build.execute(name, target, given, build_folder() / "failed" / f"{name}.ipynb")
    notebooks.standalone(target, target.with_suffix(".html"), build.scripts(), build.style())
    print(target, target.with_suffix(".html"), sep="\n")


@app.command("audit")
def audit_network(
    weights: Annotated[Path, typer.Option(help="Weights of a trained network: .safetensors, or a state dict in .pt.")],
    model: Annotated[str, typer.Option(help="A model of this package, such as resnet18, or your my_module:function.")],
    dataset: Annotated[str, typer.Option(help="The dataset whose test images are evaluated: cifar10, folder:PATH ...")],
    eps: Annotated[str, typer.Option(help="Radius of the attack, for pixels from 0 to 1: 8/255.")],
    attack: Annotated[str, typer.Option(help="The attack: strong, autoattack, pgd-20 ...")] = "strong",
    norm: Annotated[str, typer.Option(help="Norm of the radius: linf or l2.")] = "linf",
    classes: Annotated[str, typer.Option(help="Critical classes, separated by commas: stop_sign,pedestrian.")] = "",
    limit: Annotated[int | None, typer.Option(help="Number of images, the same of each class.", min=1)] = None,
    width: Annotated[int | None, typer.Option(help="Width of the model; by default that of the weights.", min=1)] = None,
    normalise: Annotated[str, typer.Option(help="Input of the weights: none, dataset, or mean/std of each channel.")] = "none",
    out: Annotated[Path | None, typer.Option(help="Folder of results and report; by default data/audits.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample and the attacks.", min=0)] = 0,
    batch: Annotated[int | None, typer.Option(help="Number of images at once; more on a GPU.", min=1)] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip files that cannot be read as images.")] = False,
) -> None:
    """Audit a trained network class by class: a standalone HTML report, and its results in the same folder."""
    from classwise import runs
    from classwise.book import build, notebooks
    from classwise.core import datasets
    from classwise.core.audit import critical as check_critical
    from classwise.runs import store

    critical = [name.strip() for name in classes.split(",") if name.strip()]
    # If the classes are known without the images, a wrong name is reported at once.
    check_critical(critical, datasets.known_classes(dataset) or critical)
    given = {"model": model, "dataset": dataset, "eps": eps, "attack": attack, "norm": norm, "limit": limit}
    given |= {"width": width, "normalise": normalise, "seed": seed, "batch": batch, "skip_bad": skip_bad}
    given |= {"home": str(Path.cwd()), "out": str(out.resolve()) if out else None}
    audit = runs.audit(str(weights.resolve()), **given)  # type: ignore[arg-type]
    from classwise import images  # torch
    from classwise.runs import audits
    from classwise.runs.compute import validate

    check_critical(critical, validate.class_names(audit))
    audits.carry_out(audit, console)
    folder = store.run_folder(audit)
    page, target = folder / "report.html", folder / "report.ipynb"
    console.print("writing the report")
    given["dataset"] = images.absolute(dataset)  # the report is made in another folder
    parameters = {"weights": str(weights.resolve()), "classes": critical or None, **given}
    notebooks.execute(notebooks.find("audit"), target, parameters, folder / "failed.ipynb")
    notebooks.standalone(target, page, build.scripts(), build.style(), f"{audit.network}: an audit", code=False)
    print(page)


@app.command("record")
def record_runs(
    out: Annotated[Path | None, typer.Option(help="Folder of the archives; with --scale, data/recorded/ is the default.")] = None,
    scale: Annotated[str | None, typer.Option(help="Use the queue of this scale: data/recorded/<scale>.toml.")] = None,
    budget: Annotated[str, typer.Option(help="Time limit, in hours (h), minutes (m), seconds (s): 1h30m, 9m, 30s.")] = "9m",
    queue: Annotated[Path | None, typer.Option(help="The queue; by default data/recorded/queue.toml.")] = None,
    weights: Annotated[bool, typer.Option("--weights", help="Also pack the last weights, in float16.")] = False,
    full_weights: Annotated[bool, typer.Option("--full-weights", help="Also pack the weights as they are, in float32.")] = False,
    workers: Annotated[int, typer.Option(help="Number of processes, each with one thread and other runs.", min=1)] = 1,
    idle: Annotated[bool, typer.Option("--idle", help="Compute at the lowest priority, on what other processes leave.")] = False,
    pack_only: Annotated[bool, typer.Option("--pack-only", help="Compute nothing; pack what is finished.")] = False,
) -> None:
    """Compute the runs of a queue within a time limit and pack what is finished; the next call continues."""
    began = time.monotonic()
    from classwise.runs.record.budget import Budget, parse_seconds
    from classwise.runs.record.queue import check, default, read

    if out is None and scale is None:
        raise UserError("say with --out where the archives go, or with --scale which scale is filed in data/recorded/")
    if queue is not None and scale is not None:
        raise UserError("--scale and --queue both name a queue; give one of them")
    if weights and full_weights:
        raise UserError("--weights packs them in float16, --full-weights in float32; give one of them")
    given, path = Budget(parse_seconds(budget), began), queue or default(scale)
    items = read(path)
    from classwise.runs.record import recorder
    from classwise.runs.record import workers as processes

    check(items, path)
    if idle:
        processes.lowest_priority()
    failed = recorder.record(
        items,
        out,
        given,
        weights="full" if full_weights else "half" if weights else "none",
        pack_only=pack_only,
        processes=workers,
        say=lambda line: print(line, flush=True),
    )
    if failed:
        raise RuntimeError(f"{len(failed)} computations failed; the rest of the queue was processed")


@app.command("import")
def import_archives(archives: Annotated[list[Path], typer.Argument(help="Archives of `classwise record`.")]) -> None:
    """Check archives of recorded runs and unpack them to data/recorded/; existing runs are kept."""
    from classwise.runs.record import archive

    for path in archives:
        new, same = archive.unpack(path)
        for run in new:
            print(f"imported {run}")
        result = f"{len(new)} runs imported, {len(same)} there already" if new else f"nothing new, all {len(same)} runs are there"
        print(f"{path}: {result}")


@app.command("converged")
def record_convergence(scale: Scale = "quick", workers: Workers = None) -> None:
    """Train each network of a scale once more, with twice the epochs, and record both; this takes three times its trainings."""
    from classwise.runs import convergence
    from classwise.stats.convergence import LARGEST_GAIN, unconverged

    print(convergence.record(scale, console, workers))
    late = unconverged(convergence.load(scale))
    rule = f"more than {LARGEST_GAIN:g} points of robust accuracy by twice the epochs"
    print(f"these gain {rule}: {', '.join(late)}" if late else f"no network gains {rule}")


@app.command("book")
def build_book(scale: Scale = "quick", workers: Workers = None, scheduler: Scheduler = None) -> None:
    """Compute missing results, execute the notebooks that changed, and render the book to build/html/."""
    from classwise.book import build

    page = build.build(scale, console, workers, scheduler)
    print(f"the book is at {page}\nopen that file, or serve it: make serve")


@app.command("zip")
def zip_book() -> None:
    """Pack the built book as one file that opens without a server or Python after unpacking."""
    from classwise.book import package

    print(package.pack_book())


@app.command("serve")
def serve_book(port: Annotated[int, typer.Option(min=1, max=65535)] = 8000) -> None:
    """Serve the built book on this machine."""
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    from classwise.core.paths import build_folder

    folder = build_folder() / "html"
    if not (folder / "index.html").exists():
        raise UserError(f"there is no book in {folder} yet; `make book` builds it")
    try:
        server = ThreadingHTTPServer(("localhost", port), partial(SimpleHTTPRequestHandler, directory=str(folder)))
    except OSError as error:
        raise UserError(f"port {port} cannot be used ({error.strerror}); choose another: make serve PORT={port + 1}") from None
    address = f"http://localhost:{port}"
    console.print(f"the book is at {address}; Ctrl-C stops the server")
    webbrowser.open(address)
    with server:
        server.serve_forever()


def main() -> None:
    """Run the command line: a wrong input prints one sentence and exits with 2, a failed run or notebook exits with 1."""
    try:
        app()
    except (UserError, RuntimeError, OSError) as error:
        kept = "; what is finished is kept" if isinstance(error, OSError) else ""
        console.print(f"classwise: {error}{kept}", style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(2 if isinstance(error, UserError) else 1)
    except (KeyboardInterrupt, SystemExit) as stopped:
        # typer turns Ctrl-C into an exit of its own.
        if isinstance(stopped, SystemExit) and stopped.code != 130:
            raise
        console.print("classwise: stopped; what is finished is kept, and the rest resumes from there", style="red")
        sys.exit(130)


if __name__ == "__main__":
    main()
