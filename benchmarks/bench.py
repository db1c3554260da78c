"""How fast our attacks and our training are compared with others: `make bench`, or `python -m benchmarks.bench`.

Each comparison runs both sides in turn in one process (ours, theirs, ours, theirs, ...) and takes the median of the ratios. Both
sides end with the float32 verdict of the model itself; "agreement" is the share of images with the same verdict.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import Tensor

from classwise import models
from classwise.attacks import CR, PGD, Attack, AutoAttack, evaluate
from classwise.attacks.balls import Linf
from classwise.attacks.losses import cross_entropy
from classwise.attacks.pgd import input_gradient
from classwise.images import Images
from classwise.models.inference import fuse_for_search
from classwise.models.modes import frozen
from classwise.papers import registry
from classwise.runs import store
from classwise.runs.compute import networks, validate
from classwise.runs.compute.device import device, name_and_threads
from classwise.runs.schedule import pool

from . import epochs, peers, quick, reading
from .clock import Side, contest, cost, in_turn


def ours(model: torch.nn.Module, data: Images, attack: Attack, eps: float, precision: str = "float32") -> Side:
    """Return our side: the evaluation as the project does it, all images in one batch."""
    settings = evaluate.EvaluationSettings(batch=len(data), precision=precision)
    return lambda: evaluate.evaluate(model, data, attack, Linf(eps), settings).misclassified


def theirs(model: torch.nn.Module, data: Images, eps: float, attack: peers.Peer, **settings: Any) -> Side:
    """Return a peer's side: its attack, then the verdict."""
    x, y = data.batch(slice(None))

    def side() -> Tensor:
        attacked = attack(model, x, y, eps, **settings)
        with torch.no_grad():
            inside = Linf(eps).contains(attacked, x).view(-1, 1, 1, 1)
            return model(torch.where(inside, attacked, x)).argmax(1) != y

    return side


def _coloured(count: int, device: torch.device) -> Images:
    pixels = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return Images(pixels, torch.arange(count) % 10, torch.arange(count), tuple("0123456789")).to(device)


def _predicted(model: torch.nn.Module, data: Images) -> Images:
    """Return the images with the model's predictions as labels, so that all are correct before the attack."""
    with torch.no_grad():
        labels = model(data.batch(slice(None))[0]).argmax(1)
    return Images(data.pixels, labels, data.index, data.classes)


def _pgd(model: torch.nn.Module, data: Images, eps: float, step: float) -> dict[str, Side]:
    """Return the PGD-20 of each peer that is installed."""
    walk = {"steps": 20, "step": step, "random_start": True}
    known = {name: peer for name, peer in peers.PEERS["pgd"].items() if name in peers.installed() and name != "ART"}
    return {name: theirs(model, data, eps, peer, **walk) for name, peer in known.items()}


def forced(device: torch.device, rounds: int) -> dict[str, dict[str, Any]]:
    """PGD-20 on a CIFAR ResNet-18, every step for every image: ours with a folded bfloat16 search, and in float32."""
    data = _coloured(25 if device.type == "cpu" else 1000, device)
    model = models.build("resnet18", data, 64)
    for _ in range(2):  # batch norm must have seen something
        model(data.batch(slice(0, 50))[0])
    data, eps = _predicted(model.eval(), data), 4 / 255
    attack = PGD(steps=20, step=eps / 8)
    sides = {"pgd20_forced": ours(model, data, attack, eps, "bfloat16"), "pgd20_forced_float32": ours(model, data, attack, eps)}
    return contest(sides, _pgd(model, data, eps, eps / 8), rounds) | {"ascent_overhead": overhead(model, data, rounds)}


def overhead(model: torch.nn.Module, data: Images, rounds: int) -> dict[str, Any]:
    """The time of a step of PGD over that of the bare forward pass and backward pass to the input, on the same network."""
    x, y = data.batch(slice(None))
    network, generator = fuse_for_search(model, x[:8]), torch.Generator(x.device)
    attack = PGD(steps=10)

    def steps() -> Tensor:
        return attack.craft(network, x, y, Linf(0.03), generator).flatten(1).amax(1) > 0

    def bare() -> Tensor:
        with frozen(network):
            for _ in range(10):
                input_gradient(network, x, y, cross_entropy)
        return y < 0

    entry = cost(in_turn(steps, bare, rounds)[0], "bare forward and backward")
    return entry | {"ours_s": entry["ours_s"] / 10, "peer_s": entry["peer_s"] / 10}


def digits() -> tuple[torch.nn.Module, Images, float]:
    """Return the adversarially trained digits network of the book, the images it has not seen, and the radius."""
    spec = registry.request("tian2021/4-1-class-bias", defences=["pgd-at"], seeds=[0]).specs[0]
    pool.ensure_runs([(spec, ())], workers=1)
    return networks.network_of(spec), validate.images_of(spec, "test"), 0.2


def robust(device: torch.device, rounds: int) -> dict[str, dict[str, Any]]:
    """PGD-20 robust accuracy of the adversarially trained digits network, searched in float32 and in bfloat16."""
    model, data, eps = digits()
    attack = PGD(steps=20, success="any")
    sides = {"pgd20_eval": ours(model, data, attack, eps), "pgd20_eval_bfloat16": ours(model, data, attack, eps, "bfloat16")}
    return contest(sides, _pgd(model, data, eps, 2.5 * eps / 20), 5 * rounds)


def ensemble(device: torch.device, rounds: int) -> dict[str, dict[str, Any]]:
    """AutoAttack on 200 images of the same network: 100 steps an ascent, 5,000 queries."""
    if "torchattacks" not in peers.installed():
        return {}
    model, data, eps = digits()
    some, budget = data.take(torch.arange(200, device=data.labels.device)), {"steps": 100, "queries": 5000}
    other = theirs(model, some, eps, peers.PEERS["autoattack"]["torchattacks"], **budget)
    sides = {"autoattack_eval": ours(model, some, AutoAttack(**budget), eps)}
    return contest(sides, {"torchattacks": other}, rounds, warm=False)


def verdicts(device: torch.device, rounds: int) -> dict[str, dict[str, Any]]:
    """Constraint relaxation with Square against our own AutoAttack, on the unseen images of the same network."""
    model, data, eps = digits()
    sides = {"strong_eval": ours(model, data, CR(), eps)}
    return contest(sides, {"our AutoAttack": ours(model, data, AutoAttack(), eps)}, rounds, warm=False)


def learning(device: torch.device, rounds: int) -> dict[str, dict[str, Any]]:
    """Epochs of adversarial training on CIFAR-shaped images: against a textbook loop, between defences, and with measurements."""
    data = _coloured(epochs.sizes(device)[1], device)
    compared = epochs.against_a_textbook(data, device, rounds) | epochs.costs(data, device, rounds)
    compared |= epochs.against_a_plain_loop(_coloured(1280, device), rounds)
    return compared | epochs.calibrating(data, device, rounds) | epochs.measuring(rounds)


def training(device: torch.device, rounds: int) -> dict[str, dict[str, Any]]:
    """One training of PGD-AT at scale quick: ours, and a plain loop that takes the same steps."""
    return quick.quick_run(rounds)


def loading(device: torch.device, rounds: int) -> dict[str, dict[str, Any]]:
    """600 stored outcomes of digits networks: as pages read them, and opened one by one with xarray."""
    return reading.load_results(rounds)


def headlines(measured: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the measurements with one under each plain name: that against the fastest peer."""
    heads: dict[str, dict[str, Any]] = {}
    for name, entry in measured.items():
        head = name.split("/")[0]
        if head not in heads or entry["peer_s"] < heads[head]["peer_s"]:
            heads[head] = entry
    return heads | measured


def table(measured: dict[str, dict[str, Any]]) -> Table:
    """Return the measurements as a table for the terminal."""
    shown = Table(title="seconds of a peer over ours; ascent_overhead and every _cost: of ours over the other")
    for name in ("", "peer", "ratio", "ours, s", "theirs, s", "same verdicts", "robust: ours", "theirs"):
        shown.add_column(name, justify="left" if name in ("", "peer") else "right")
    for name, entry in measured.items():
        if "/" in name or entry["agreement"] is None:
            shares = [f"{entry[key]:.1f} %" if key in entry else "" for key in ("robust_ours", "robust_peer")]
            same = "" if entry["agreement"] is None else f"{100 * entry['agreement']:.1f} %"
            times = [f"{entry[key]:.3g}" for key in ("ours_s", "peer_s")]
            shown.add_row(name, entry["peer"], f"{entry['ratio']:.2f}", *times, same, *shares)
    return shown


def main(
    out: Annotated[Path, typer.Option(help="where to write the measurements")] = Path("build/bench.json"),
    rounds: Annotated[int, typer.Option(help="how often both sides run")] = 3,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="pgd20_forced, pgd20_eval, autoattack_eval, strong_eval, train_epoch, quick_run, load_results; all by default"
        ),
    ] = None,
) -> None:
    """Measure, print a table and write it."""
    console, versions = Console(width=150), peers.installed()
    missing: Sequence[str] = [name for name in peers.PACKAGES if name not in versions and name != "ART"]
    console.print(f"peers: {versions or 'none'}" + (f"; not installed: {', '.join(missing)}" if missing else ""), highlight=False)
    measured: dict[str, dict[str, Any]] = {}
    for name, part in {
        "pgd20_forced": forced,
        "pgd20_eval": robust,
        "autoattack_eval": ensemble,
        "strong_eval": verdicts,
        "train_epoch": learning,
        "quick_run": training,
        "load_results": loading,
    }.items():
        if only is None or name in only:
            measured |= part(device(), rounds)
    about = dict(zip(("device", "threads"), name_and_threads(), strict=True))
    about |= {"torch": torch.__version__, "commit": store.commit(), "created": datetime.now(UTC).isoformat(timespec="seconds")}
    kept = {name: entry | about for name, entry in headlines(measured).items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(kept, indent=1) + "\n")
    console.print(table(measured))
    console.print(f"written to {out}")


if __name__ == "__main__":
    typer.run(main)
