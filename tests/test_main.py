"""The command line, as its user meets it."""

import json
import shutil
import socket
from dataclasses import replace

import mocks

from classwise import runs
from classwise.papers import registry
from classwise.runs import store
from classwise.runs.record import archive


def test_the_list_says_who_asked_for_a_run_and_what_tells_it_from_others_of_its_name(data, command, capsys):
    asked = registry.training("quick", "pgd-at", 0)
    specs = [asked, replace(asked, seed=1), replace(asked, classes=("1", "2")), replace(asked, eps="0.15")]
    for spec in specs:
        mocks.store_run(spec)
    assert command("list") == 0
    listed = (line.split() for line in capsys.readouterr().out.splitlines())
    lines = {words[0]: " ".join(words) for words in listed}
    plain, seeded, fewer, nearer = (lines[spec.id] for spec in specs)
    assert "pgd-at 0 quick benz2020/1" in plain
    assert "pgd-at 1 quick" in seeded
    assert "pgd-at 0 classes=1+2 " in fewer
    assert "pgd-at 0 eps=0.15 " in nearer
    assert "quick" not in nearer


def test_the_folder_of_a_run_stands_for_its_weights(done):
    how = {"model": "small-cnn", "dataset": "digits", "eps": "0.2", "attack": "pgd-10"}
    folder = store.run_folder(done)
    assert runs.audit(str(folder), **how) == runs.audit(str(folder / store.WEIGHTS), **how)


def test_a_port_that_is_taken_is_named_with_another(tmp_path, monkeypatch, command, capsys):
    (tmp_path / "html").mkdir()
    (tmp_path / "html" / "index.html").write_text("")
    monkeypatch.setattr("classwise.book.build.build_folder", lambda: tmp_path)
    with socket.create_server(("localhost", 0)) as taken:
        port = taken.getsockname()[1]
        assert command("serve", "--port", str(port)) == 2
    assert f"port {port} cannot be used" in capsys.readouterr().err


def test_list_names_a_damaged_run_and_goes_on(done, command, capsys):
    (store.run_folder(done) / "history.nc").write_bytes(b"")
    assert command("list") == 0
    assert "truncated" in capsys.readouterr().err


def test_a_run_that_fails_is_exit_code_1(data, monkeypatch, command, capsys):
    def fail(*_, **__):
        raise RuntimeError("1 of 1 runs failed")

    monkeypatch.setattr("classwise.runs.schedule.pool.ensure_runs", fail)
    assert command("run") == 1
    assert "1 of 1 runs failed" in capsys.readouterr().err


def test_what_is_packed_is_imported_once(done, data, tmp_path, command, capsys):
    path = archive.pack([(done, [])], tmp_path)
    shutil.rmtree(data / "runs")
    assert command("import", str(path)) == 0
    assert "1 runs imported, 0 there already" in capsys.readouterr().out
    assert command("import", str(path)) == 0
    assert "nothing new, all 1 runs are there" in capsys.readouterr().out
    assert command("list", "--json") == 0
    assert [row["folder"] for row in json.loads(capsys.readouterr().out)] == ["recorded"]
