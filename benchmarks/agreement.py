"""Do our attacks break the images that other packages' attacks break? `python -m benchmarks.agreement --help`.

Both sides attack the same networks, in float32, with the same settings. A verdict is the prediction for the image that an attack
returned, or for the clean image where the returned one lies outside the ball or [0, 1].
"""

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from classwise import images, models
from classwise.attacks import APGD, FAB, PGD, Attack, AutoAttack, Square
from classwise.attacks.balls import Linf
from classwise.defences import DEFENCES
from classwise.defences.training import TrainConfig, begin, train
from classwise.images import Images
from classwise.papers import registry
from classwise.runs.compute import device, networks, validate
from classwise.runs.schedule import pool

from . import peers

# The share of the radius that PGD steps by: 2.5 / steps.
RATE = 2.5


@dataclass(frozen=True)
class Settings:
    """What both sides are given: steps of PGD and of the others, target classes, queries of Square."""

    pgd_steps: int = 20
    steps: int = 100
    targets: int = 9
    queries: int = 1000


@dataclass(frozen=True)
class Network:
    """Networks of one kind with the images that each has not seen, and the radius of the attacks."""

    name: str
    eps: float
    parts: Sequence[tuple[nn.Module, Tensor, Tensor]]

    def first(self, count: int | None) -> "Network":
        """Return the same with at most `count` images of each part."""
        return Network(self.name, self.eps, [(model, x[:count], y[:count]) for model, x, y in self.parts])


@dataclass(frozen=True)
class Pair:
    """An attack of ours and a peer's, under one title; the peer is called as (model, x, y, eps, seed)."""

    title: str
    ours: Attack
    package: str
    theirs: Callable[[nn.Module, Tensor, Tensor, float, int], Tensor]


@dataclass(frozen=True)
class Row:
    """How the two sides of a pair compare on a network; counts of images, seconds in all."""

    network: str
    attack: str
    peer: str
    images: int
    robust_ours: int
    robust_theirs: int
    only_ours: int
    only_theirs: int
    outside_theirs: int
    seconds_ours: float
    seconds_theirs: float

    @property
    def weaker(self) -> float:
        """How many images of 200 the peer breaks more than we do."""
        return 200 * (self.robust_ours - self.robust_theirs) / self.images


def pairs(eps: float, settings: Settings) -> list[Pair]:
    """Return every attack of ours with each peer that has it."""
    steps, targets, queries = settings.steps, settings.targets, settings.queries
    walk = {"steps": settings.pgd_steps, "step": RATE * eps / settings.pgd_steps}
    table: list[tuple[str, Attack, str, dict[str, object]]] = [
        ("PGD, no random start", PGD(**walk, start="none"), "pgd", {**walk, "random_start": False}),
        ("PGD, random start", PGD(**walk), "pgd", {**walk, "random_start": True}),
        ("APGD-CE", APGD(steps=steps), "apgd", {"steps": steps}),
        ("APGD-DLR", APGD(steps=steps, loss="dlr"), "apgd", {"steps": steps, "loss": "dlr"}),
        ("APGD-T", APGD(steps=steps, loss="dlr-targeted", targets=targets), "apgd-t", {"steps": steps, "targets": targets}),
        ("FAB-T", FAB(steps=steps, targets=targets), "fab-t", {"steps": steps, "targets": targets}),
        ("Square", Square(queries=queries), "square", {"queries": queries}),
        ("Square, rescaled", Square(queries=queries, rescale=True), "square-rescaled", {"queries": queries}),
        ("AutoAttack", AutoAttack(steps=steps, queries=queries), "autoattack", {"steps": steps, "queries": queries}),
    ]
    return [
        Pair(title, ours, package, lambda *problem, peer=peer, given=given: peer(*problem[:4], **given, seed=problem[4]))
        for title, ours, kind, given in table
        for package, peer in peers.PEERS[kind].items()
    ]


@torch.no_grad()
def broken(model: nn.Module, x: Tensor, y: Tensor, attacked: Tensor, eps: float) -> Tensor:
    """Return for each image whether the attack broke it: (n,) bool."""
    inside = Linf(eps).contains(attacked, x).view(-1, 1, 1, 1)
    return model(torch.where(inside, attacked, x)).argmax(1) != y


def ours(attack: Attack, network: Network, seed: int = 0) -> tuple[Tensor, float]:
    """Return which images our attack breaks, and the seconds it took."""
    verdicts, seconds = [], 0.0
    for model, x, y in network.parts:
        generator, started = torch.Generator(x.device).manual_seed(seed), time.perf_counter()
        attacked = attack(model, x, y, Linf(network.eps), generator)
        seconds += _until_done(x, started)
        verdicts.append(broken(model, x, y, attacked, network.eps))
    return torch.cat(verdicts), seconds


def theirs(pair: Pair, network: Network, seed: int = 0) -> tuple[Tensor, int, float]:
    """Return which images the peer breaks, how many of its images lie outside the ball, and the seconds it took."""
    verdicts, outside, seconds = [], 0, 0.0
    for model, x, y in network.parts:
        started = time.perf_counter()
        attacked = pair.theirs(model, x, y, network.eps, seed)
        seconds += _until_done(x, started)
        outside += int((~Linf(network.eps).contains(attacked, x)).sum())
        verdicts.append(broken(model, x, y, attacked, network.eps))
    return torch.cat(verdicts), outside, seconds


def _until_done(x: Tensor, started: float) -> float:
    if x.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - started


def digits(count: int | None = None) -> Network:
    """Return the adversarially trained networks of the book's first section, each with the fold it has not seen."""
    specs = registry.request("tian2021/4-1-class-bias", defences=["pgd-at"]).specs
    pool.ensure_runs([(spec, ()) for spec in specs], workers=1)
    parts = [(networks.network_of(spec), *validate.images_of(spec, "test").batch(slice(count))) for spec in specs]
    return Network("digits", 0.2, parts)


def coloured(count: int, *, train_on: int = 512, epochs: int = 6, device: torch.device | str = "cpu") -> Network:
    """Return a narrow ResNet-18 for 3x32x32 images, trained a little, with images it has not seen.

    The images are CIFAR-10's if CLASSWISE_IMAGES is set, else patches of colour.
    """
    if os.environ.get("CLASSWISE_IMAGES"):
        seen, unseen = (images.load("cifar10", split, 0, device) for split in ("train", "test"))
        name, seen, unseen = "CIFAR-10", seen.take(torch.arange(train_on)), unseen.take(torch.arange(count))
    else:
        full = _patches(train_on + count).to(device)
        seen, unseen = full.take(torch.arange(train_on)), full.take(torch.arange(train_on, train_on + count))
        name = "patches"
    model = models.build("resnet18", seen, width=8)
    plan = TrainConfig(DEFENCES["pgd-at"], PGD(steps=3), "linf", "eval", "one-cycle", 0.1, epochs, 64)
    for _ in train(begin(model, plan, 10, 8 / 255, 0), seen, plan):
        pass
    return Network(f"{name}, resnet18", 8 / 255, [(model.eval(), *unseen.batch(slice(None)))])


def _patches(count: int) -> Images:
    """Return images of ten classes: each class has 4x4 patches of faint colour, each image adds random ones."""
    generator = torch.Generator().manual_seed(0)
    classes = torch.rand(10, 3, 4, 4, generator=generator)
    labels = torch.randint(10, (count,), generator=generator)
    mixed = 0.5 * classes[labels] + 0.5 * torch.rand(count, 3, 4, 4, generator=generator)
    smooth = nn.functional.interpolate(mixed, size=32, mode="bilinear")
    pixels = (255 * (smooth + 0.05 * torch.randn(smooth.shape, generator=generator)).clamp(0, 1)).round().to(torch.uint8)
    return Images(pixels, labels, torch.arange(count), tuple("0123456789"))


def compare(network: Network, chosen: Sequence[Pair], report: Callable[[Row], None] = lambda row: None) -> list[Row]:
    """Return a row for each pair; an attack of ours that is in several pairs runs once."""
    known: dict[Attack, tuple[Tensor, float]] = {}
    rows = []
    for pair in chosen:
        if pair.ours not in known:
            known[pair.ours] = ours(pair.ours, network)
        mine, seconds = known[pair.ours]
        other, outside, their_seconds = theirs(pair, network)
        counts = (len(mine), ~mine, ~other, mine & ~other, other & ~mine)
        total, *rest = (int(count.sum()) if isinstance(count, Tensor) else count for count in counts)
        rows.append(Row(network.name, pair.title, pair.package, total, *rest, outside, seconds, their_seconds))
        report(rows[-1])
    return rows


def _table(rows: Sequence[Row]) -> Table:
    table = Table(title="our attacks and their peers'")
    for name in ("network", "attack", "peer", "images", "robust: ours", "theirs", "only ours broke", "only theirs broke"):
        table.add_column(name, justify="left" if name in ("network", "attack", "peer") else "right")
    for name in ("ours weaker by, of 200", "seconds: ours", "theirs"):
        table.add_column(name, justify="right")
    for row in rows:
        shares = (f"{100 * robust / row.images:.2f} %" for robust in (row.robust_ours, row.robust_theirs))
        counts = (str(row.only_ours), str(row.only_theirs), f"{row.weaker:+.2f}")
        seconds = (f"{row.seconds_ours:.1f}", f"{row.seconds_theirs:.1f}")
        table.add_row(row.network, row.attack, row.peer, str(row.images), *shares, *counts, *seconds)
    return table


def main(
    images: Annotated[int | None, typer.Option(help="of each fold, the first so many; by default all")] = None,
    coloured_images: Annotated[int, typer.Option(help="for the network on 3x32x32 images; 0 leaves it out")] = 100,
    queries: Annotated[int, typer.Option(help="of Square")] = 1000,
    only: Annotated[str, typer.Option(help="attacks whose title holds this")] = "",
    threads: Annotated[int, typer.Option(help="CPU threads")] = 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="where to write the rows")] = None,
) -> None:
    """Compare our attacks with those of torchattacks, foolbox and ART."""
    torch.set_num_threads(threads)
    console, rows, versions = Console(width=180), list[Row](), peers.installed()
    networks = [digits(images)] + ([coloured(coloured_images, device=device.device())] if coloured_images else [])
    console.print(" · ".join(f"{package} {number}" for package, number in versions.items()) or "no peer is installed")

    def report(row: Row) -> None:
        rows.append(row)
        console.print(f"{row.network}, {row.attack}, {row.peer}: {row.seconds_ours:.0f} s and {row.seconds_theirs:.0f} s")
        if json_file is not None:
            kept = [asdict(row) | {"weaker_of_200": row.weaker} for row in rows]
            json_file.write_text(json.dumps({"packages": versions, "queries": queries, "rows": kept}, indent=1) + "\n")

    for network in networks:
        known = pairs(network.eps, Settings(queries=queries))
        compare(network, [pair for pair in known if pair.package in versions and only.lower() in pair.title.lower()], report)
    console.print(_table(rows))


if __name__ == "__main__":
    typer.run(main)
