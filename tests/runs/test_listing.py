"""The list of runs: what is chosen, in which order, and how it fits a terminal."""

import csv
import json
import re
import shutil
from dataclasses import replace

import mocks
import pytest
from rich.console import Console

from classwise.core import results
from classwise.core.errors import UserError
from classwise.core.spec import Evaluation, Spec
from classwise.runs import listing, store

SPECS = [
    Spec(dataset="digits", eps="0.2", width=8),
    Spec(dataset="digits", eps="8/255", width=8, defence="trades", seed=1),
    Spec(dataset="digits", eps="0.1", width=8, defence="trades", seed=2, options={"beta": 3}),
    Spec(dataset="digits-apart", eps="0.15", width=8, defence="trades-cfa", seed=10),
]


@pytest.fixture
def rows(data):
    for place, spec in enumerate(SPECS):
        evaluations = [Evaluation(attack="pgd-20")] * (place == 0)
        mocks.store_run(spec, *evaluations, created=f"2026-01-0{place + 1}T00:00:00+00:00")
    problems = []
    rows = listing.rows(problems.append)
    assert problems == []
    return rows


def ids(rows):
    return [row["id"] for row in rows]


FILTERED = [([], [0, 1, 2, 3]), (["defence=trades"], [1, 2]), (["defence=trades*"], [1, 2, 3]), (["eps=8/255"], [1])]
FILTERED += [(["defence=trades", "seed=2"], [2]), (["seed=1", "seed=2"], [1, 2]), (["evaluations=pgd-20"], [0])]
FILTERED += [(["options=beta 3"], [2]), (["defence=trades", "dataset=digits-apart"], [])]


@pytest.mark.parametrize(("filters", "chosen"), FILTERED)
def test_filters_of_one_field_are_alternatives_and_of_several_all_hold(rows, filters, chosen):
    assert ids(listing.select(rows, filters)) == [SPECS[place].id for place in chosen]


@pytest.mark.parametrize(
    ("sort", "order"), [("seed", [0, 1, 2, 3]), ("-seed", [3, 2, 1, 0]), ("-created", [3, 2, 1, 0]), ("eps", [1, 2, 3, 0])]
)
def test_runs_are_sorted_by_a_field_numbers_as_numbers(rows, sort, order):
    assert ids(listing.select(rows, [], sort)) == [SPECS[place].id for place in order]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 130, 200])
def test_the_table_fits_the_terminal_one_line_for_each_run(rows, width):
    table, notes = listing.table(rows, width)
    console = Console(width=1000)
    with console.capture() as capture:
        console.print(table)
    lines = capture.get().splitlines()
    assert len(lines) == 1 + len(rows)
    assert max(len(line.rstrip()) for line in lines) <= width
    assert all(spec.id in text for spec, text in zip(sorted(SPECS, key=lambda spec: spec.dataset), lines[1:], strict=True))
    assert any("not shown" in note for note in notes) == (width < 120)


def test_what_all_runs_share_is_said_once(rows):
    table, notes = listing.table(rows, 200)
    assert notes[0].startswith("all 4 runs: model small-cnn, folder runs, device a device")
    assert "device" not in [column.header for column in table.columns]


@pytest.mark.parametrize("columns", ["", "60"])
def test_what_is_piped_has_each_run_in_full_on_a_line_with_tabs(rows, columns, command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert command("list") == 0
    piped = capsys.readouterr()
    head, *lines = csv.reader(piped.out.splitlines(), delimiter="\t")
    assert (tuple(head), piped.err) == (listing.FIELDS, "")
    assert [dict(zip(head, line, strict=True))["id"] for line in lines] == ids(rows)
    assert lines[0][head.index("created")] == "2026-01-01T00:00:00+00:00"
    assert "\u2026" not in piped.out


def test_a_terminal_shows_a_table_as_wide_as_it_is_or_as_columns_says(rows, command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert command("list") == 0
    table = re.sub(r"\x1b\[\d+m", "", capsys.readouterr().out)
    assert "\t" not in table
    assert max(map(len, table.splitlines())) <= 60


def test_a_run_is_shown_class_by_class_and_then_by_its_settings(rows, command, capsys):
    assert command("show", SPECS[0].id) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.strip() == "pgd-20 at eps 0.2"
    assert lines.index(str(store.run_folder(SPECS[0]))) > lines.index(next(line for line in lines if line.split()[:1] == ["cv"]))
    assert lines[-1].split()[0] not in ("dataset", "eps", "width")  # which are not at their default


def test_a_run_with_many_evaluations_is_shown_in_one_table_where_that_fits(rows, command, capsys, monkeypatch):
    (one,) = listing.run(store.run_folder(SPECS[0]))["evaluations"]
    titles = {"some classes": one["classes"][:2], "pgd-20": one["classes"], "clean b": one["classes"], "clean a": one["classes"]}
    shown = [{**one, "title": title, "classes": classes} for title, classes in [*titles.items(), *titles.items()]]
    run = {**listing.run(store.run_folder(SPECS[0])), "evaluations": shown}
    monkeypatch.setattr(listing, "run", lambda folder: run)
    assert command("show", str(store.run_folder(SPECS[0]))) == 0
    head, *lines = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head[-11:] == ["all", *map(str, range(10))]
    assert [line[: -11 if len(line) > 10 else 2] for line in lines[:4]] == [
        ["clean", "a"],
        ["clean", "b"],
        ["pgd-20"],
        ["some", "classes"],
    ]
    assert lines[2][2:4] == lines[3][3:5] == [f"{row['accuracy']:.0f}" for row in one["classes"][:2]]
    assert len(listing.evaluation_tables(shown, 80)) == len(shown)


def test_list_and_show_print_json(rows, command, capsys):
    for words in (["list", "--json", "--filter", "seed=2"], ["show", SPECS[0].id, "--json"]):
        assert command(*words) == 0
    first, second = capsys.readouterr().out.split("\n]\n", 1)
    (listed,), shown = json.loads(f"{first}\n]"), json.loads(second)
    assert (listed["id"], listed["spec"]["options"]) == (SPECS[2].id, {"beta": 3})
    assert shown["spec"]["eps"] == "0.2"
    (evaluation,) = shown["evaluations"]
    assert evaluation["title"] == "pgd-20 at eps 0.2"
    first = evaluation["classes"][0]
    assert first["low"] <= first["accuracy"] <= first["high"]
    assert set(evaluation["measures"]) == {"overall", "worst", "mcd", "cv"}


def test_the_settings_of_a_run_begin_with_those_that_are_not_the_default():
    table = listing.spec_table(vars(replace(SPECS[2], classes=("1", "2"))))
    fields, values, default = (list(column.cells) for column in table.columns)
    assert fields[:8] == ["dataset", "eps", "seed", "defence", "options", "width", "classes", "model"]
    assert values[4:7] == ["beta 3", "8", "1+2"]
    assert default[2:8] == ["0", "pgd-at", "-", "16", "-", ""]
    assert len(fields) == len(vars(SPECS[0]))


def test_a_run_that_is_recorded_as_well_is_shown_as_it_was_computed_here(rows):
    recorded = store.recorded_folder(SPECS[1])
    shutil.copytree(store.run_folder(SPECS[1]), recorded)
    assert listing.folder_of(SPECS[1].id) == store.run_folder(SPECS[1])
    shutil.rmtree(store.run_folder(SPECS[1]))
    assert listing.folder_of(SPECS[1].id) == recorded


@pytest.mark.parametrize("spec", ['{"dataset": "digits", "epoch": 3}', "{", "[]"])
def test_a_run_without_a_readable_spec_or_evaluation_is_named_in_one_sentence(rows, spec):
    folder, problems = store.run_folder(SPECS[0]), []
    (path,) = (folder / "outcomes").glob("*.nc")
    results.save(results.load(path, store.OUTCOMES).assign_attrs(evaluation=spec), store.OUTCOMES, path)
    with pytest.raises(UserError, match=f"{path.name} carries no readable evaluation"):
        listing.run(folder)
    results.save(mocks.dataset().assign_attrs(spec=spec), store.HISTORY, folder / "history.nc")
    assert len(listing.rows(problems.append)) == len(SPECS) - 1
    with pytest.raises(UserError, match="carries no readable spec") as told:
        listing.run(folder)
    assert problems == [str(told.value)]


def test_measures_have_their_own_units(rows):
    (evaluation,) = listing.run(store.run_folder(SPECS[0]))["evaluations"]
    table = listing.evaluation_table(evaluation)
    cells = {column.header: list(column.cells) for column in table.columns}
    units = dict.fromkeys([*"0123456789", "overall", "worst"], "%") | {"mcd": "points", "cv": "points²"}
    assert dict(zip(cells["class"], cells["unit"], strict=True)) == units
