"""Each training of a scale next to the same one of twice the epochs."""

import io

import pytest
import xarray as xr
from rich.console import Console

from benchmarks import convergence
from classwise.core import results
from classwise.core.errors import UserError
from classwise.core.paths import checkout
from classwise.papers import registry, scales
from classwise.papers.scales import Scale
from classwise.papers.sections import Section
from classwise.runs import store
from classwise.runs.recorded import CONVERGENCE, doubled_epochs
from classwise.runs.schedule import pool
from classwise.stats.convergence import comparison, unconverged_trainings


@pytest.fixture
def tiny(monkeypatch):
    """A scale whose runs take a second, and two sections that train at it."""
    size = Scale(
        run={"dataset": "digits", "model": "small-cnn", "width": 2, "eps": "0.2", "epochs": 1, "measure": 5, "batch": 500},
        seeds=(0, 1),
        inner_attack={"steps": 1},
    )
    other = [{"dataset": "digits-apart"}, {"eps": "0.1"}, {"redraw": 1}]
    sections = {"defences": Section(title="", defences=("pgd-at", "at-ema", "standard"))}
    sections |= {"other": Section(title="", defences=("pgd-at",), variants=lambda *_: other)}
    monkeypatch.setitem(scales.SCALES, "tiny", size)
    monkeypatch.setitem(scales.OTHER_DATASETS, "tiny", {})
    monkeypatch.setattr(registry, "SECTIONS", sections)


def test_every_defence_that_is_compared_is_one_of_the_trainings():
    names = {name for names in convergence.trainings("quick") for name in names.split(", ")[0].split(" / ")}
    assert names >= {spec.defence for spec, _ in registry.request("defences").pairs} - set(scales.FINE_TUNED)


@pytest.mark.parametrize("scale", [name for name, size in scales.SCALES.items() if not size.recorded_only])
def test_every_scale_that_is_computed_can_be_compared(scale):
    assert all(float(spec.eps) < 0.5 for spec in convergence.trainings(scale).values() if "/" not in spec.eps)


def test_trainings_that_give_the_same_weights_are_one(tiny):
    named = convergence.trainings("tiny")
    assert list(named) == ["pgd-at / at-ema", "standard", "pgd-at, digits-apart"]
    assert {spec.seed for spec in named.values()} == {0}
    assert {spec.redraw for spec in named.values()} == {0}


def test_different_trainings_of_one_name_are_refused(tiny, monkeypatch):
    section = Section(title="", defences=("pgd-at",), variants=lambda *_: [{"momentum": 0.8}, {"momentum": 0.85}])
    monkeypatch.setattr(registry, "SECTIONS", {"steps": section})
    with pytest.raises(ValueError, match=r"different trainings of scale 'tiny' have the same name: pgd-at .no paper.$"):
        convergence.trainings("tiny")


def test_twice_as_long_doubles_epochs_and_milestones_and_changes_nothing_else():
    spec = registry.training("paper", "pgd-he", 0, "tian2021", averages=("ema",), keep_last=1)
    longer = convergence.twice_as_long(spec)
    assert (longer.epochs, longer.milestones, longer.averages) == (154, (150,), ())
    same = set(vars(spec)) - {"epochs", "milestones", "averages", "measure"}
    assert {name for name in same if getattr(spec, name) != getattr(longer, name)} == set()


def test_the_comparison_is_recorded_and_read_again(tiny, data, monkeypatch):
    with pytest.raises(UserError, match=r"no comparison .* is recorded: `make converged SCALE=tiny` computes it"):
        doubled_epochs("tiny")
    for scale, says in (("laptp", "unknown scale 'laptp'"), ("laptop", "scale 'laptop' is only read")):
        with pytest.raises(UserError, match=says):
            convergence.record(scale, Console())
    quiet = Console(file=io.StringIO())
    path = convergence.record("tiny", quiet, workers=1)
    assert path == data / "recorded" / "convergence" / "tiny.nc"
    compared = results.load(path, CONVERGENCE)
    assert compared.number.values.tolist() == [[1, 2]] * 3
    specs = convergence.recorded_trainings(compared)
    assert specs == convergence.trainings("tiny")
    for name, spec in specs.items():
        for epochs, changed in (("once", spec), ("twice", convergence.twice_as_long(spec))):
            stored = store.Key(changed, store.OUTCOMES, convergence.ATTACK).read()
            part = compared.sel(training=name, epochs=epochs, seed=0)
            part = part.where(part.truth >= 0, drop=True)
            assert part.prediction.values.tolist() == stored.prediction.sel(image=part.image).values.tolist()
    before = sorted((data / "runs").glob("*/*/*/history.nc"))
    assert len(before) == 3 * 2 * 2
    convergence.record("tiny", quiet, workers=1)
    assert sorted((data / "runs").glob("*/*/*/history.nc")) == before
    # What is recorded of a training is not computed again, whatever section asks for it.
    trained, compute = [], pool.ensure_runs
    changed = {"averages": ("ema",), "measure": 1}
    again = Section(title="", defences=("pgd-at", "trades"), run=changed, max_seeds=2)
    monkeypatch.setattr(registry, "SECTIONS", {"defences": registry.SECTIONS["other"], "other": again})
    monkeypatch.setattr(pool, "ensure_runs", lambda pairs, **how: (trained.extend(pairs), compute(pairs, **how))[1])
    convergence.record("tiny", quiet, workers=1)
    assert {spec.defence for spec, _ in trained} == {"trades"}
    after = results.load(path, CONVERGENCE)
    assert after.training.values.tolist() == ["pgd-at, digits-apart", "pgd-at", "trades"]
    same = compared.sel(training="pgd-at / at-ema", drop=True)
    for name in ("truth", "prediction"):
        xr.testing.assert_equal(after[name].sel(training="pgd-at", image=same.image, drop=True), same[name])


def test_trainings_by_a_schedule_of_their_section_are_left_out(tiny, monkeypatch):
    section = Section(title="", defences=("pgd-at",), run={"schedule": "step"})
    monkeypatch.setattr(registry, "SECTIONS", {"defences": Section(title="", defences=("pgd-at",)), "course": section})
    assert {spec.schedule for spec in convergence.trainings("tiny").values()} == {"one-cycle"}


def test_all_networks_of_quick_have_converged():
    path = checkout() / "data" / "recorded" / "convergence" / "quick.nc"
    compared = results.load(path, CONVERGENCE)
    recorded, now = convergence.recorded_trainings(compared), convergence.trainings("quick")
    alike = [{name: convergence.alike(spec) for name, spec in some.items()} for some in (recorded, now)]
    assert alike[0] == alike[1]
    assert compared.seed.values.tolist() == list(scales.SCALES["quick"].seeds)
    changes = comparison(compared)
    assert unconverged_trainings(changes) == []
    # MART becomes unstable in longer trainings.
    gain = changes["gain"].sel(bound="high")
    assert gain.training.values[gain.values < 0].tolist() == ["mart"]
