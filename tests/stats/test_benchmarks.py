"""What `make bench` writes is read back, and the benchmark itself runs, small."""

import json
from dataclasses import replace
from functools import partial

import pytest
import texts
import torch
from torch import nn

from benchmarks import bench, clock, epochs, peers, quick
from classwise import models
from classwise.attacks import PGD
from classwise.charts import dots
from classwise.images import Images
from classwise.papers import registry
from classwise.stats import benchmarks

ENTRY = {"ratio": 2.0, "ours_s": 1.0, "peer_s": 2.0, "agreement": 1.0}
ENTRY |= {"device": "a machine", "threads": 2, "created": "2026-01-01"}
MEASURED = {
    "pgd20_eval": ENTRY | {"peer": "foolbox"},
    "pgd20_eval/foolbox": ENTRY | {"peer": "foolbox"},
    "pgd20_eval/torchattacks": ENTRY | {"peer": "torchattacks", "ratio": 3.0},
    "ascent_overhead": ENTRY | {"peer": "bare forward and backward", "agreement": None},
}


@pytest.fixture
def machine(tmp_path, data, monkeypatch):
    monkeypatch.setattr(benchmarks, "build_folder", lambda: tmp_path / "build")
    (tmp_path / "build").mkdir()
    (data / "recorded" / "bench").mkdir(parents=True)
    return tmp_path / "build" / "bench.json", data / "recorded" / "bench" / "other.json"


def test_nothing_measured_is_a_table_without_rows(machine):
    assert len(benchmarks.load()) == 0
    assert "ratio" in benchmarks.load()


def test_measurements_of_here_and_elsewhere_stand_side_by_side(machine):
    for path, day in zip(machine, ("2026-01-01", "2026-01-02"), strict=True):
        path.write_text(json.dumps({name: entry | {"created": day} for name, entry in MEASURED.items()}))
    found = benchmarks.load()
    assert found.groupby("machine").size().to_dict() == {"here": 3, "a machine, 2 threads": 3}
    assert sorted(found[found.name == "pgd20_eval"].peer.unique()) == ["foolbox", "torchattacks"]
    drawn = json.dumps(dots.benchmark_ratios(found).to_dict())
    assert "a machine, 2 threads" in drawn


def test_measurements_are_named_in_words(machine):
    machine[0].write_text(json.dumps(MEASURED))
    texts.check("benchmarks", benchmarks.meanings(benchmarks.load()))
    drawn = json.dumps(dots.benchmark_ratios(benchmarks.load()).to_dict())
    assert "PGD-20, digits, foolbox" in drawn


def test_what_was_measured_here_and_recorded_is_shown_once(machine):
    for path in machine:
        path.write_text(json.dumps(MEASURED))
    assert benchmarks.load().machine.unique().tolist() == ["a machine, 2 threads"]


def test_the_benchmark_compares_both_sides_and_names_the_fastest_peer():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 5)).eval()
    data = Images(torch.randint(0, 256, (20, 3, 4, 4), dtype=torch.uint8), torch.arange(20) % 5, torch.arange(20), tuple("abcde"))
    mine = bench.ours(model, data, PGD(steps=3, step=0.01, start="none"), 0.02)

    def peer(model, x, y, eps, **settings):
        return PGD(steps=3, step=0.01, start="none")(model, x, y, bench.Linf(eps), torch.Generator())

    (entry,) = bench.contest({"ours": mine}, {"itself": bench.theirs(model, data, 0.02, peer)}, 3).values()
    assert entry["peer"] == "itself"
    assert entry["agreement"] == 1.0
    assert entry["robust_ours"] == entry["robust_peer"]
    assert entry["ratio"] > 0
    slow, fast = {**entry, "peer_s": 2.0, "peer": "slow"}, {**entry, "peer_s": 1.0, "peer": "fast"}
    assert bench.headlines({"a/slow": slow, "a/fast": fast})["a"]["peer"] == "fast"
    assert bench.table({"a/slow": slow}).row_count == 1


def test_a_peer_that_is_not_installed_is_left_out(monkeypatch):
    monkeypatch.setattr(peers, "installed", dict)
    assert bench.ensemble(torch.device("cpu"), 1) == {}


def test_the_textbook_loop_and_ours_train(monkeypatch):
    """Each changes the network it made; a cost is said the other way round than a ratio."""
    data, made, build = bench._coloured(20, torch.device("cpu")), [], models.build
    monkeypatch.setattr(models, "build", lambda *how: made.append(build(*how)) or made[-1])
    for make in (epochs.textbook, epochs.ours, partial(epochs.ours, defence="at-cfa")):
        epoch = make(data, 8, 10)
        before = made[-1].head.weight.detach().clone()
        epoch()
        assert not torch.equal(before, made[-1].head.weight)
    assert len(made) == 3
    seconds = [(1.0, 4.0), (2.0, 4.0), (1.0, 3.0)]
    assert clock.entry(seconds, "it")["ratio"] == 3.0
    assert clock.cost(seconds, "it")["ratio"] == pytest.approx(1 / 3)
    assert clock.entry(seconds, "it")["agreement"] is None


def test_what_calibrating_costs_is_said_in_epochs(monkeypatch):
    monkeypatch.setattr(epochs, "sizes", lambda device: (8, 20, 10))
    cpu = torch.device("cpu")
    (name, entry), *rest = epochs.calibrating(bench._coloured(20, cpu), cpu, 1).items()
    assert (name, rest) == ("calibration_cost", [])
    assert entry["ratio"] == pytest.approx(entry["ours_s"] / entry["peer_s"])


def test_what_measuring_costs_is_more_than_the_steps():
    (entry,) = epochs.measuring(1).values()
    assert entry["ratio"] > 1
    assert "agreement" in entry


def recorded(data, rows):
    folder = data / "recorded" / "processors"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "one.json").write_text(json.dumps({"device": "a processor", "rows": rows}))
    return folder / "one.json"


def row(seed, instructions, correct, same):
    how = {"defence": "pgd-at", "attack": "pgd-20", "seed": seed, "instructions": instructions}
    return how | {"correct": correct, "same": same, "images": 10}


def test_nothing_is_recorded_at_first(data):
    assert benchmarks.processors().empty


def test_seeds_are_added_up(data):
    recorded(data, [row(0, "all", 6, 10), row(1, "all", 8, 10), row(0, "old", 5, 9), row(1, "old", 8, 8)])
    table = benchmarks.processors()
    assert table["accuracy, %"].tolist() == [70, 65]
    assert table["same prediction, %"].tolist() == [100, 85]
    assert [key[2] for key in table.index] == ["all", "old"]


def test_both_sides_of_quick_run_take_the_same_steps():
    spec = replace(registry.training("quick", "pgd-at", 0), epochs=1)
    data = quick.split(spec)
    ours, theirs = quick.trained(spec, data), quick.plain(spec, data)
    x, _ = data["test"].batch(slice(None))
    with torch.no_grad():
        first, second = ours.eval()(x), theirs.eval()(x)
    assert (first - second).abs().max() < 0.1 * first.std()
    assert (first.argmax(1) == second.argmax(1)).float().mean() > 0.97


def test_quick_run_refuses_a_run_that_the_plain_loop_would_train_otherwise():
    with pytest.raises(ValueError, match="norm"):
        quick.plainly(replace(registry.training("quick", "pgd-at", 0), norm="l2"))
