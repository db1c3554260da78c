"""Runs on the workers of dask.distributed: those of this machine, and those of a scheduler in a process of its own."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import dask
import psutil
import pytest
import safetensors.torch
import torch
from distributed import KilledWorker
from locks import free, until

from classwise.core.errors import UserError
from classwise.core.spec import Evaluation
from classwise.runs import store
from classwise.runs.schedule import cluster, pool
from classwise.runs.schedule.pool import Failed
from classwise.runs.schedule.progress import RunProgress

PGD = Evaluation(attack="pgd-10", options={"steps": 2})
ASKED = (Evaluation(), PGD)


# A worker that loads this dies of the run of seed 7.
DEADLY = """
import os
from classwise.runs.compute import train as compute

# It is loaded twice.
real = compute.real = getattr(compute, "real", compute.train)

def train(spec, *rest, **more):
    if spec.seed == 7:
        os.kill(os.getpid(), 9)
    return real(spec, *rest, **more)

compute.train = train
"""


ASK = """
import os
from classwise.core.spec import Spec
from classwise.runs.schedule import pool

os.environ["CLASSWISE_DATA"] = data
pool.ensure_runs([(Spec.from_json(text), []) for text in asked], workers=2)
"""

# A page of long trainings of short epochs.
ENDLESS = """
import sys
from classwise.__main__ import main
from classwise.papers import scales

if __name__ == "__main__":
    scales.SCALES["quick"].run.update(width=2, epochs=1000)
    sys.argv = ["classwise", "run", "tian2021/4-1-class-bias", "--workers", "2"]
    main()
"""


def dask_command(*words, **environment):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *words], env={**os.environ, "OMP_NUM_THREADS": "1", **environment}, **quiet
    )


@pytest.fixture(scope="module")
def farm(tmp_path_factory):
    """A scheduler and two workers, a process each, and the folder that they share."""
    folder = tmp_path_factory.mktemp("farm")
    file = folder / "scheduler.json"
    data = {"CLASSWISE_DATA": str(folder / "data")}
    common = ("--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file))
    processes = [dask_command("scheduler", "--port", "0", *common)]
    try:
        until(lambda: file.exists() and file.read_text().endswith("}"))  # the scheduler writes it piece by piece
        processes += [dask_command("worker", "--nthreads", "1", "--no-nanny", "--name", name, *common, **data) for name in "ab"]
        address = json.loads(file.read_text())["address"]
        with cluster.Client(address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=300)
        yield SimpleNamespace(address=address, data=folder / "data", workers=processes[1:])
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.fixture
def shared(ready, farm, monkeypatch):
    monkeypatch.setenv("CLASSWISE_DATA", str(farm.data))
    return farm


@pytest.fixture
def seen(monkeypatch):
    """What progress is reported, each with its result and count."""
    told, real = [], RunProgress.show

    def show(self, key, done, total):
        told.append((id(self), key, done))
        real(self, key, done, total)

    monkeypatch.setattr(RunProgress, "show", show)
    return told


def found(spec, asked=ASKED):
    """Return all that is stored of a run but for when, where and how fast it was computed."""
    kept = [key.read() for key in store.outcomes_of([(spec, asked)])]
    assert all(data is not None for data in kept)
    return [data.drop_vars("seconds", errors="ignore").drop_attrs() for data in kept]


def weights(spec):
    return safetensors.torch.load_file(store.run_folder(spec) / store.WEIGHTS)


def same(specs, ready, monkeypatch, folder, asked=ASKED):
    """Compare what is there with what one process computes elsewhere."""
    ours = [(found(spec, asked), weights(spec)) for spec in specs]
    monkeypatch.setenv("CLASSWISE_DATA", str(folder))
    ready(*specs)
    pool.ensure_runs([(spec, asked) for spec in specs], workers=1)
    for spec, (results, kept) in zip(specs, ours, strict=True):
        assert all(one.identical(other) for one, other in zip(results, found(spec, asked), strict=True))
        assert all(torch.equal(value, kept[name]) for name, value in weights(spec).items())


# Elsewhere: a scheduler, two workers, one folder.


def test_two_clients_that_ask_at_once_share_every_run(shared, small, ready, seen, tmp_path, monkeypatch):
    specs = [replace(small, seed=seed) for seed in (0, 1)]
    transfer = replace(PGD, substitute="standard")
    asked = [(spec, (*ASKED, transfer)) for spec in specs]
    touched = []
    clients = [threading.Thread(target=lambda: touched.append(pool.ensure_runs(asked, scheduler=shared.address))) for _ in "ab"]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert touched == [4, 4]  # two runs, and what their transfer attacks are made on
    for spec in specs:
        for one in (spec, spec.substitute("standard")):
            for progress in {who for who, *_ in seen}:
                assert seen.count((progress, store.Key(one), 0)) <= 1
    assert pool.ensure_runs(asked, scheduler=shared.address) == 0
    same(specs, ready, monkeypatch, tmp_path / "serial", (*ASKED, transfer))


def test_a_failing_run_is_named_and_the_others_finish(shared, small):
    broken = replace(small, lr=1e30, defence="standard", attack=None, attack_options={})
    fine, other = replace(small, epochs=1, lr=0.01, warm_start=broken.id), replace(small, epochs=1, lr=0.05)
    with pytest.raises(Failed) as told:
        pool.ensure_runs([(broken, [PGD]), (fine, []), (other, [PGD])], scheduler=shared.address)
    lines = str(told.value).splitlines()
    assert lines[0] == "2 of 3 runs failed:"
    assert "became nan in epoch 1" in lines[1]
    assert "standard on digits, seed 0, which it needs, failed" in lines[2]
    assert len(found(other, [PGD])) == 2


def test_who_sees_another_folder_or_runs_other_code_is_refused(shared, small, tmp_path, monkeypatch):
    missing = [(replace(small, seed=9), [])]
    with monkeypatch.context() as patch:
        patch.setenv("CLASSWISE_DATA", str(tmp_path / "another"))
        says = r"the worker tcp://.* sees another data folder \(.*data\): start it with CLASSWISE_DATA set to the folder"
        with pytest.raises(UserError, match=says):
            pool.ensure_runs(missing, scheduler=shared.address)
    monkeypatch.setattr(cluster, "handshake", lambda: ("other", "word"))
    with pytest.raises(UserError, match=r"the worker tcp://.* runs other code: bring it to the same commit as this process"):
        pool.ensure_runs(missing, scheduler=shared.address)


def test_a_worker_that_is_killed_has_its_run_resumed_by_another(shared, small, ready, seen, tmp_path, monkeypatch):
    spec, reached = replace(small, epochs=12, width=6), []

    def kill():
        with cluster.Client(shared.address, set_as_default=False) as client:
            until((store.run_folder(spec) / store.CHECKPOINT).exists)
            (busy,) = (worker for worker, tasks in client.processing().items() if tasks)
            killed = shared.workers["ab".index(client.scheduler_info(n_workers=-1)["workers"][busy]["name"])]
        killed.kill()
        reached.extend([killed.wait(), len(seen)])

    killer = threading.Thread(target=kill)
    killer.start()
    assert pool.ensure_runs([(spec, [PGD])], scheduler=shared.address) == 1
    killer.join()
    assert reached[0] == -signal.SIGKILL
    begun = [done for _, key, done in seen if key == store.Key(spec)]
    after = [done for _, key, done in seen[reached[1] :] if key == store.Key(spec)]
    assert (begun.count(0), after[0] > 0) == (1, True)
    same([spec], ready, monkeypatch, tmp_path / "serial", [PGD])


# What can be wrong with a scheduler.


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense", "udp://127.0.0.1:1"])
def test_a_scheduler_that_does_not_answer_is_said_in_one_sentence(data, small, monkeypatch, address):
    monkeypatch.setattr(cluster, "PATIENCE", 2.0)
    with pytest.raises(UserError, match=f"no scheduler answers at {address}") as told:
        pool.ensure_runs([(small, [])], scheduler=address)
    assert "\n" not in str(told.value)
    assert "start one with `dask scheduler`" in str(told.value)


@pytest.mark.parametrize(
    ("threads", "said", "says"),
    [
        (4, "", "tcp://host:1 has 4 threads; start it with --nthreads 1"),
        (1, ModuleNotFoundError("No module named 'classwise'"), r"cannot import this classwise .No module named .*; install the"),
    ],
)
def test_workers_of_several_threads_and_without_this_package_are_refused(threads, said, says):
    info = {"workers": {"tcp://host:1": {"nthreads": threads}}}
    client = SimpleNamespace(scheduler_info=lambda n_workers: info, run=lambda *_, **__: {"tcp://host:1": said})
    with pytest.raises(UserError, match=says):
        cluster._check_workers(client, ("", ""))


def test_the_word_in_the_data_folder_is_written_once(data):
    first = cluster.handshake()
    assert cluster.handshake() == first
    assert cluster.mismatch(first) == ""
    assert "another data folder" in cluster.mismatch((first[0], "other"))


# Here.


def test_nothing_listens_beyond_this_machine_each_worker_has_a_gpu_and_the_environment_is_left_alone(monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "3")
    monkeypatch.setattr(cluster, "gpus", lambda: ["5", "7"])
    before, others = dict(os.environ), psutil.Process().children(recursive=True)
    with cluster.local(2) as (client, _):
        threads, cards = (client.run(os.getenv, name).values() for name in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"))
        assert (list(threads), sorted(cards)) == (["1", "1"], ["5", "7"])
        listening = []
        for process in {psutil.Process(), *psutil.Process().children(recursive=True)} - set(others):
            with suppress(psutil.Error):
                listening += [one.laddr.ip for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN]
    assert set(listening) == {"127.0.0.1"}
    assert dict(os.environ) == before


def test_several_workers_give_the_bits_of_one(data, small, ready, tmp_path, monkeypatch):
    specs = [replace(small, seed=seed) for seed in (0, 1)]
    assert pool.ensure_runs([(spec, [PGD]) for spec in specs], workers=2) == 2
    same(specs, ready, monkeypatch, tmp_path / "serial", [PGD])


def test_workers_end_with_the_process_that_asked_for_them(data, small):
    specs = [replace(small, epochs=2000, seed=seed) for seed in (0, 1)]
    asked = [spec.json() for spec in specs]
    # Forked where the libraries are loaded, with the environment of then.
    process = multiprocessing.get_context("forkserver").Process(target=exec, args=(ASK, {"data": str(data), "asked": asked}))
    process.start()
    checkpoints = [store.run_folder(spec) / store.CHECKPOINT for spec in specs]
    try:
        until(lambda: all(path.exists() for path in checkpoints))
    finally:
        process.kill()
        process.join()
    # Whoever holds the lock of a run lives: it is free again once its worker has gone.
    until(lambda: all(free(store.lock(path.parent)) for path in checkpoints))


def test_a_script_without_a_guard_is_told_so(data, small, tmp_path):
    script = tmp_path / "bare.py"
    script.write_text(
        "import sys; from classwise.runs.schedule import pool; from classwise.core.spec import Spec\n"
        "pool.ensure_runs([(Spec.from_json(text), []) for text in sys.argv[1:]], workers=2)"
    )
    words = [sys.executable, str(script), *(replace(small, seed=seed).json() for seed in (0, 1))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'put the calls under `if __name__ == "__main__":`' in done.stderr


def test_each_gpu_has_a_worker_of_its_own(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CLASSWISE_DEVICE", raising=False)
    assert cluster.gpus() == ["0", "1", "2"]
    assert pool.workers_here() == 3
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,GPU-abc")
    assert cluster.gpus() == ["5", "GPU-abc"]
    monkeypatch.setenv("CLASSWISE_DEVICE", "cuda:1")
    assert cluster.gpus() == []
    assert pool.workers_here() == 1
    monkeypatch.setenv("CLASSWISE_DEVICE", "cpu")
    assert cluster.gpus() == []


def test_a_run_that_kills_its_worker_again_and_again_is_named(data, small, tmp_path):
    script = tmp_path / "deadly.py"
    script.write_text(DEADLY)
    specs = [replace(small, seed=seed, epochs=1) for seed in (7, 1)]
    says = r"(?s)1 of 2 runs failed:.*seed 7: its worker was killed repeatedly.*smaller batch"
    harsh = {"distributed.worker.preload": [str(script)], "distributed.scheduler.allowed-failures": 1}
    with dask.config.set(harsh), pytest.raises(Failed, match=says):
        pool.ensure_runs([(spec, []) for spec in specs], workers=2)
    assert store.Key(specs[1]).read() is not None


@pytest.mark.parametrize("elsewhere", [False, True])
def test_of_an_error_that_nobody_foresaw_the_traceback_is_kept(shared, small, elsewhere):
    specs = [replace(small, seed=seed + elsewhere, epochs=1) for seed in (70, 80)]
    folder = store.run_folder(specs[0])
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("")
    says = r"(?s)1 of 2 runs failed:.*seed 7.: FileExistsError: .*\ntracebacks: .*failures.txt"
    where = {"scheduler": shared.address} if elsewhere else {"workers": 1}
    with pytest.raises(Failed, match=says):
        pool.ensure_runs([(spec, []) for spec in specs], **where)
    told = (shared.data / "runs" / "failures.txt").read_text()
    assert "in train" in told
    assert store.Key(specs[1]).read() is not None


def test_what_nobody_can_tell_is_said_to_be_so():
    def future(status, failure=None, traceback=None):
        return SimpleNamespace(status=status, exception=lambda: failure, traceback=lambda: traceback)

    assert "killed repeatedly" in str(cluster._result(future("error", KilledWorker("key", None, 3))))
    assert "the scheduler went away" in str(cluster._result(future("cancelled")))
    with pytest.raises(ZeroDivisionError) as raised:
        1 / 0  # noqa: B018
    told = cluster._result(future("error", ValueError("a reason"), raised.tb))
    assert (str(told), told.__traceback__) == ("a reason", raised.tb)
    assert isinstance(cluster._result(future("error", KeyboardInterrupt())), RuntimeError)


def test_ctrl_c_leaves_all_to_be_resumed_and_no_worker_behind(data, tmp_path):
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    process = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        until(lambda: len(list(data.glob("runs/*/*/*/checkpoint.pt"))) == 2)
        workers = psutil.Process(process.pid).children(recursive=True)
    finally:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    said = " ".join(process.communicate(timeout=300)[1].split())
    assert process.returncode == 130, said
    assert "stopped; what is finished is kept, and the rest resumes from there" in said
    assert "Traceback" not in said
    psutil.wait_procs(workers, timeout=300)
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in workers)
    left = list(data.glob("runs/*/*/*/checkpoint.pt"))
    assert left
    assert all(free(store.lock(path.parent)) for path in left)
