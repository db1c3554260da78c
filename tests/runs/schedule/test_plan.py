"""Plans: what is missing, in pieces that wait for one another, what they cost, and who begins when."""

import io
from collections import Counter
from dataclasses import replace

import mocks
import pytest
import torch
from dask.utils import key_split
from layers import Layer
from rich.console import Console
from torch import nn

from classwise import attacks, images, models
from classwise.attacks import ATTACKS
from classwise.attacks.balls import Linf
from classwise.core import results
from classwise.core.errors import UserError
from classwise.core.spec import Evaluation, Spec
from classwise.papers import registry
from classwise.runs import store
from classwise.runs.compute import validate
from classwise.runs.compute.work import Timing
from classwise.runs.schedule import cost, forecast, pool
from classwise.runs.schedule.cost import PLANNED, Costs, pace_file, rate_of
from classwise.runs.schedule.plan import duration, missing, most_workers, plan_tasks, section_keys
from classwise.runs.schedule.progress import RunProgress
from classwise.runs.store import OUTCOMES, Key

PGD = Evaluation(attack="pgd-10", options={"steps": 2})
CLEAN = Evaluation()


@pytest.fixture
def costs(data):
    return Costs("a device", gpu=False)


def plan(asked, costs):
    return plan_tasks(missing(asked), costs)


def made(spec, *evaluations, folder=None):
    """Put files where results would lie: whether one is there, its name says."""
    folder = folder or store.run_folder(spec)
    for path in (folder / key.name for key in store.outcomes_of([(spec, evaluations)])):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return folder


def keys(spec, *evaluations, train=False):
    """Return the names of results of a run: of its training, if that is missing too, and of outcomes."""
    return [*([Key(spec)] if train else []), *(Key(spec, OUTCOMES, one) for one in evaluations)]


# What is missing.


def test_what_is_requested_twice_or_stored_already_is_not_computed(data, small):
    other = replace(small, seed=1)
    left = missing([(small, [CLEAN]), (other, []), (replace(small), [PGD, CLEAN, replace(PGD, eps="0.2")])])
    assert list(left) == keys(small, CLEAN, PGD, train=True) + keys(other, train=True)
    (made(small, PGD) / store.WEIGHTS).write_bytes(b"")
    assert missing([(small, [CLEAN, PGD])]) == {Key(small, OUTCOMES, CLEAN): ()}
    made(small, CLEAN)
    assert missing([(small, [CLEAN, PGD])]) == {}


def test_a_recorded_run_is_trained_again_only_where_something_is_missing(data, small):
    made(small, PGD, folder=store.recorded_folder(small))
    assert missing([(small, [PGD])]) == {}
    assert list(missing([(small, [PGD, CLEAN])])) == keys(small, PGD, CLEAN, train=True)


def test_what_recorded_results_were_built_on_is_not_trained_for_them(data, small):
    source, fine = small.substitute("standard"), replace(small, epochs=1, warm_start=small.id)
    transfer = replace(PGD, substitute="standard")
    requested = [(small, [transfer]), (source, [CLEAN]), (fine, [CLEAN])]
    for spec, own in requested:
        made(spec, *own, folder=store.recorded_folder(spec))
    assert missing(requested) == {}
    # What is trained again gets all evaluations again, the transfer too.
    again = keys(fine, CLEAN, PGD, train=True) + keys(small, transfer, train=True) + keys(source, CLEAN, train=True)
    assert set(missing([*requested, (fine, [PGD])])) == set(again)


def test_runs_that_others_need_come_along_and_first(data, small, costs):
    source, fine = small.substitute("standard"), replace(small, epochs=1, warm_start=small.id)
    transfer = replace(PGD, substitute="standard")
    requested = [(fine, [CLEAN]), (small, [transfer])]
    left = missing(requested)
    assert left == {
        Key(small): (),
        Key(fine): (Key(small),),
        Key(fine, OUTCOMES, CLEAN): (Key(fine),),
        Key(source): (),
        Key(small, OUTCOMES, transfer): (Key(small), Key(source)),
    }
    order = list(left)
    assert all(order.index(before) < order.index(key) for key in left for before in left[key])
    assert [task.key for task in plan_tasks(left, costs)] == order
    urgent = {task.key: task.priority for task in plan_tasks(left, costs)}
    assert urgent[Key(small)] >= urgent[Key(fine)]
    # The results of a source are no use without its weights.
    made(source)
    assert Key(source) in missing(requested)
    (store.run_folder(source) / store.WEIGHTS).write_bytes(b"")
    assert Key(source) not in missing(requested)


def test_tasks_are_named_by_their_work_alone(data, small, costs):
    first = plan([(small, [CLEAN, PGD]), (replace(small, seed=1), [])], costs)
    again = plan([(replace(small, seed=1), []), (small, [PGD, CLEAN])], Costs("another", gpu=True))
    assert {task.name for task in first} == {task.name for task in again}
    assert len({task.name for task in first}) == 4
    # Dask queues tasks that share the first part of their name; of others each worker takes several at once.
    assert {key_split(task.name) for task in first} == {"train", "evaluate"}


# Who begins when.


def test_evaluations_come_first_then_the_longest_training(data, small, costs):
    long, short = replace(small, epochs=50), replace(small, epochs=2)
    order = [task.key for task in sorted(plan([(short, [CLEAN]), (long, [PGD])], costs), key=lambda task: -task.priority)]
    assert [key.kind for key in order] == [OUTCOMES, OUTCOMES, store.HISTORY, store.HISTORY]
    assert order[2:] == [Key(long), Key(short)]


def test_workers_share_all_tasks_evenly_but_the_longest_run(data, small, costs, monkeypatch):
    monkeypatch.setattr(Costs, "seconds", lambda self, spec, one=None: float(spec.epochs) if one is None else 40.0)
    trainings = [(replace(small, epochs=length, seed=seed), []) for seed, length in enumerate((7, 5, 4, 4, 4))]
    evaluated = [(replace(small, epochs=10), [CLEAN, PGD])]
    for requested, seconds in ((trainings, [24, 12, 7]), (evaluated, [90, 50, 50]), (trainings + evaluated, [114, 57, 50])):
        assert [duration(plan(requested, costs), workers) for workers in (1, 2, 5)] == seconds


@pytest.mark.parametrize(("seconds", "workers"), [(1.0, 1), (16.0, 2), (100.0, 3)])
def test_short_evaluations_of_a_run_do_not_occupy_workers_of_their_own(data, small, costs, monkeypatch, seconds, workers):
    monkeypatch.setattr(Costs, "seconds", lambda self, spec, one=None: 500.0 if one is None else seconds)
    requested = [(small, [CLEAN, PGD, replace(PGD, eps="0.1")]), (replace(small, seed=1), [])]
    assert most_workers(plan(requested, costs)) == workers + 1


# What it costs.


# Attacks of each kind of cost.
ASKING = {"pgd-10": {"steps": 30}, "targeted-pgd-20": {"steps": 10}, "apgd-t": {"steps": 10}, "square": {"queries": 100}}
ASKING |= {"n-attack": {"steps": 10, "population": 20}, "strong": {"steps": 10}, "cr": {"steps": 30}}
ASKING |= {"autoattack": {"steps": 10, "queries": 60}}


@pytest.mark.parametrize("name", ASKING)
def test_the_arithmetic_of_an_attack_is_about_what_it_asks_of_a_network(name):
    """The network is one that nothing can fool."""
    rows, linear, attack = Counter(), nn.Linear(64, 10), attacks.build(name, ASKING[name])
    linear.weight.data *= 1e-3

    def answer(x):
        rows.update(forward=len(x))
        if x.requires_grad:
            x.register_hook(lambda gradient: rows.update(backward=len(gradient)))
        return linear(x.flatten(1)) + 20 * torch.eye(10)[0]

    x, y = torch.rand(3, 1, 8, 8), torch.zeros(3, dtype=torch.long)
    attack.search(Layer(answer), x, y, Linf(0.1), torch.Generator().manual_seed(0))
    # With so few steps, what is asked at their beginning and end shows.
    assert rows.total() / 3 == pytest.approx(attack.cost(10), rel=0.25)


def test_every_attack_has_a_cost():
    assert {name for name, attack in ATTACKS.items() if attack.cost(10) == 0} == {"clean"}


def test_operations_are_counted_as_by_hand(small):
    """One 3x3 convolution by hand beside a counted network of the same kind: doubling the width quadruples the middle."""
    size = validate.training_size(small)
    forward, weights = cost._network_of(small, size)
    model = models.build("small-cnn", images.load("digits", "test"), 4)
    assert weights == sum(value.numel() * value.element_size() for value in model.state_dict().values())
    first = next(part for part in model.modules() if isinstance(part, nn.Conv2d))
    assert forward > 2 * 64 * first.weight.numel()
    published = Spec(dataset="cifar10", eps="0.1", model="resnet18", width=64)
    resnet, _ = cost._network_of(published, validate.size_of("cifar10"))
    assert resnet == pytest.approx(1.11e9, rel=0.02)  # 0.56 billion multiplications and additions, as is well known


def test_a_training_costs_its_epochs_its_steps_and_its_measuring(small):
    once = replace(small, epochs=10, measure=100)
    changed = {"once": {}, "often": {"measure": 1}, "twice": {"epochs": 20}, "steps": {"attack_options": {"steps": 4}}}
    changed |= {"trades": {"defence": "trades"}, "fewer": {"classes": ("3", "8")}, "ema": {"averages": ("ema",)}}
    changed |= {"fawa": {"averages": ("fawa",)}, "best-ema": {"averages": ("ema",), "select": "pgd-10"}}
    changed |= {"best": {"select": "pgd-10"}, "shared": {"averages": ("fawa",), "measure": 1}}
    work = {name: cost.training_operations(replace(once, **fields)) for name, fields in changed.items()}
    assert work["once"] < work["fewer"] * 10
    assert work["fewer"] < work["once"] < min(work["often"], work["twice"])
    assert work["twice"] < 2 * work["once"]
    assert work["steps"] > 1.3 * work["once"] < work["trades"]
    assert work["once"] == work["ema"] < work["fawa"] == work["best"] < work["best-ema"]
    assert work["shared"] == pytest.approx(work["often"]), "the probe measures what FAWA needs"


def test_sizes_are_those_of_the_images(monkeypatch):
    for name in ("digits", "digits-neighbours", "digits-cluttered"):
        parts = [images.load(name, split) for split in images.SPLITS]
        known = validate.size_of(name)
        assert [len(part) for part in parts] == [known.train, known.valid, known.test]
        assert parts[0].shape == (known.channels, known.height, known.width)
    assert validate.training_size(Spec(dataset="digits", eps="0.1", classes=("1", "2"))).train == round(1077 / 5)
    monkeypatch.setenv("CLASSWISE_IMAGES", "nowhere")
    assert validate.size_of("folder:nothing") is None


def test_what_was_measured_counts_before_what_is_estimated(data, small, costs, monkeypatch):
    work = cost.training_operations(small)
    assert costs.rate(small) is None
    assert cost.slowness() > 0
    slow = []
    for times in (3.0, 1.0):
        monkeypatch.setattr(cost, "slowness", lambda times=times: times)
        slow.append(costs.seconds(small))
    estimated = slow[1]
    assert slow == [3 * estimated, work / 1e11]
    # A GPU needs a time for each pass of a batch, however small the network.
    of_gpu = [Costs("any", gpu=True).seconds(replace(small, batch=many * small.batch)) for many in (1, 2)]
    assert of_gpu[0] == pytest.approx(2 * of_gpu[1])
    for seconds in (1.0, 5.0, 3.0, 2.0):  # the last three are kept
        costs.record(Key(small), Timing("a device", 0.5, seconds))
    costs.write()
    again, twice = Costs("a device", gpu=False), replace(small, epochs=2 * small.epochs)
    assert again.seconds(replace(small, seed=7)) == pytest.approx(6.0)
    assert again.seconds(twice) == pytest.approx(6.0 * cost.training_operations(twice) / work, rel=1e-3)
    assert [len(rates) for rates in again.rates["a device"][rate_of(small)[0]].values()] == [Costs.KEPT]
    assert again.rate(replace(small, defence="trades")) == again.rate(small, PGD) == again.rate(small)
    again.record(Key(replace(small, defence="standard")), Timing("a device", 0.5, 1e-3))
    again.record(Key(small, OUTCOMES, PGD), Timing("a device", 0.5, 1e-3))
    assert again.rate(replace(small, defence="trades")) == again.rate(small)  # neither another kind nor standard training
    assert Costs("another", gpu=False).seconds(small) == pytest.approx(estimated)
    for other in ((replace(small, width=8),), (small, replace(PGD, precision="bfloat16"))):
        assert again.rate(*other) is None
    for damaged in ("{broken", "[]", "null", '{"a device": 3}'):
        pace_file().write_text(damaged)
        assert Costs("a device", gpu=False).rate(small) is None


def test_what_is_stored_of_few_images_is_no_rate_nor_a_training_that_hardly_began(data, small, costs):
    for kind in (store.FEATURES, store.TRACE, store.EXAMPLES):
        costs.record(Key(small, kind, PGD), Timing("a device", 1.0, 5.0))
    costs.record(Key(small), Timing("a device", 0.01, 5.0))
    assert costs.rates == {}
    costs.record(Key(small, OUTCOMES, PGD), Timing("a device", 1.0, 5.0))
    assert costs.rates.keys() == {"a device"}


def test_what_a_run_took_is_kept_for_the_next_plan(data, small):
    pool.ensure_runs([(small, [PGD])], workers=1)
    known = pool.costs_here()
    (kinds,) = known.rates[known.device].values()
    assert set(kinds) == {rate_of(small, one)[1] for one in (None, PGD)}
    assert all(rate > 0 for rates in kinds.values() for rate in rates)
    assert Costs("another", gpu=False).rate(small, PGD) is None


# What is said.


def told(*sections, scale="quick"):
    out = io.StringIO()
    wanted = {name: section_keys(registry.SECTIONS[name], registry.request(name, scale)) for name in sections}
    forecast.forecast(wanted, Console(file=out, width=200))
    return out.getvalue()


def counted(said, section):
    """Return the numbers of a section in what is said: its runs, and those to train and to evaluate."""
    (numbers,) = (line.split()[1:4] for line in said.splitlines() if line.split()[:1] == [section])
    return [int(number) for number in numbers]


def test_the_whole_study_is_planned_without_images_and_without_computing(data, tmp_path, monkeypatch):
    monkeypatch.setenv("CLASSWISE_IMAGES", str(tmp_path / "none"))
    for name in ("classwise.runs.compute.train.train", "torchvision.datasets.CIFAR10", "torchvision.datasets.MNIST"):
        monkeypatch.setattr(name, lambda *_, **__: pytest.fail("it reads or trains"))
    for scale in ("short", "paper"):
        said = told(*registry.SECTIONS, scale=scale)
        for gpus in (1, 8, 64):
            assert f"on {gpus} {PLANNED}: " in said
        assert "from the number of operations" in said
    assert not data.exists()


def test_the_plan_counts_what_is_there(data):
    section = "tian2021/4-2-class-relations"
    asked = registry.request(section).pairs
    number = len(asked)
    with_examples = counted(told(section, "tian2021/4-1-class-bias"), "tian2021/4-1-class-bias")
    assert with_examples == [number, number, 2 * number + len({spec.defence for spec, _ in asked})]
    assert counted(told(section, "tian2021/4-1-class-bias"), section) == [number, number, 2 * number]
    spec, evaluations = asked[0]
    (mocks.store_run(spec, *evaluations[:1]) / store.WEIGHTS).write_bytes(b"")
    spec, evaluations = asked[1]
    mocks.store_run(spec, *evaluations)
    assert counted(told(section), section) == [number, number - 1, 2 * number - 3]
    for spec, evaluations in asked:
        mocks.store_run(spec, *evaluations)
    said = told(section)
    assert said.endswith("everything is there\n")
    assert counted(said, section) == [number, 0, 0]
    history = store.run_folder(asked[1][0]) / "history.nc"
    history.write_bytes(history.read_bytes()[:500])
    said = told(section)
    assert said.count(f"{history} is damaged and will be recomputed") == 1
    assert "everything is there" not in said
    assert counted(said, section) == [number, 1, 0]
    assert history.exists()


def test_a_damaged_recorded_file_is_named(data):
    section = "tian2021/4-1-class-bias"
    pairs = registry.request(section).pairs
    for spec, evaluations in pairs:
        mocks.store_run(spec, *evaluations)
    recorded = store.recorded_folder(pairs[0][0])
    recorded.parent.mkdir(parents=True)
    store.run_folder(pairs[0][0]).rename(recorded)
    (recorded / "history.nc").write_bytes(b"damaged")
    output = told(section)
    assert f"{recorded / 'history.nc'} is damaged and was recorded elsewhere; import its archive again" in output
    assert output.endswith("everything else is there\n")
    with pytest.raises(results.Damaged, match=r"history\.nc"):
        pool.ensure_runs(pairs, repair=True, console=Console(file=io.StringIO()))


def test_the_command_only_says_it(data, command, capsys):
    assert command("run", "tian2021/4-1-class-bias", "--dry-run", "--workers", 2) == 0
    assert "on 2 workers of this machine: " in capsys.readouterr().out
    assert not data.exists()


def test_a_slip_is_found_once_among_many(data, small):
    asked = [(replace(small, seed=seed), [CLEAN]) for seed in range(50)]
    pool.check(asked)
    with pytest.raises(UserError, match="unknown attack 'pgd10'"):
        pool.check([*asked, (replace(small, seed=60), [replace(PGD, attack="pgd10")])])
    with pytest.raises(UserError, match="unknown checkpoint"):
        pool.check([(replace(small, keep_last=2), [Evaluation(checkpoint="last-1")]), (small, [Evaluation(checkpoint="last-1")])])
    pool.check([(replace(small, warm_start=small.id, epochs=1), []), (small, [])])


# The progress.


def test_progress_ends_a_run_with_its_last_task_or_its_first_failure(data, small, costs):
    other, out = replace(small, seed=1), io.StringIO()
    found = {task.key: task for task in plan([(small, [CLEAN]), (other, [CLEAN])], costs)}
    (first, outcomes), (second, _) = keys(small, CLEAN, train=True), keys(other, CLEAN, train=True)
    seconds = dict(zip(found, (3.9, 0.4, 1.9, 5.1), strict=True))  # Their sum depends on the order.
    progress = RunProgress([replace(task, seconds=seconds[key]) for key, task in found.items()], Console(file=out))
    with progress:
        progress.show(first, 1, 3)
        assert progress.bars.tasks[progress.overall].completed == pytest.approx(seconds[first] / 3)
        progress.finish(first, None)
        assert "[1/2]" not in out.getvalue()
        progress.show(Key(replace(small, seed=2)), 1, 3)  # a run of another process
        progress.finish(outcomes, None)
        progress.show(first, 2, 3)
        progress.finish(second, RuntimeError("no"))
        progress.show(second, 2, 3)
    assert progress.bar_of == {}
    assert progress.bars.finished
    lines = out.getvalue().splitlines()
    assert lines[0] == "2 runs to compute"
    assert lines[1].startswith("[1/2] pgd-at on digits, seed 0: ")
    assert lines[2] == "[2/2] pgd-at on digits, seed 1: failed"


def test_a_file_that_was_read_and_has_not_changed_is_not_read_again(data, small, monkeypatch):
    mocks.record(small, PGD)
    key, told, read = Key(small, OUTCOMES, PGD), [], []
    load = results.load
    monkeypatch.setattr(results, "load", lambda path, kind: read.append(path) or load(path, kind))

    def intact():
        store._loaded.cache_clear()
        read.clear()
        with store.remembered_files() as known:
            return store.is_intact(key, told.append, repair=False, known=known)

    assert (intact(), len(read)) == (True, 1)
    assert (intact(), len(read)) == (True, 0)
    key.path.touch()
    assert (intact(), len(read)) == (True, 1)
    key.path.write_bytes(b"damaged")
    for _ in range(2):  # what is damaged is never remembered
        assert (intact(), len(read)) == (True, 1)  # recorded elsewhere
    assert "is damaged and was recorded elsewhere" in told[-1]
    (data / "runs" / "intact.json").write_text("[")
    assert intact()
