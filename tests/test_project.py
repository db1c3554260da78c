"""pyproject, lock, conda environment, Makefile, README and guide agree, and the examples of README and guide work."""

import ast
import importlib
import inspect
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.resources import files
from types import ModuleType

import pytest
import typer
import yaml
from distributed.cli import dask_scheduler, dask_worker
from papermill.cli import papermill

import classwise
from classwise.__main__ import app
from classwise.book import notebooks
from classwise.core.datasets import DATASETS
from classwise.core.paths import checkout
from classwise.papers import registry
from classwise.runs import store
from classwise.runs.record import queue
from classwise.stats import aggregate, metrics

ROOT = checkout()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = [requirement for extra in PROJECT["optional-dependencies"].values() for requirement in extra]
LOCKED = dict(re.findall(r"^([a-z0-9-]+)==([^ ;\n]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
TARGETS = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "book" / "guide").glob("*.md"))]


def name(requirement):
    return re.match(r"[A-Za-z0-9_.-]+", requirement)[0].lower().replace("_", "-")


@pytest.mark.parametrize("requirement", [*PROJECT["dependencies"], *EXTRAS], ids=name)
def test_the_lock_holds_every_requirement_in_its_range(requirement):
    from packaging.requirements import Requirement

    wanted = Requirement(requirement)
    assert name(requirement) in LOCKED
    assert wanted.specifier.contains(LOCKED[name(requirement)])


def test_the_lock_names_no_host():
    assert not re.search(r"https?://|--(extra-)?index-url", (ROOT / "requirements.lock").read_text())


def test_the_settings_of_jupyterlab_are_those_of_the_installed_version():
    given = json.loads((ROOT / ".jupyter" / "overrides.json").read_text())
    for name, values in given.items():
        schema = json.loads((files("jupyterlab") / "schemas" / f"{name.replace(':', '/')}.json").read_text())
        for setting, value in values.items():
            known = schema["properties"][setting]
            assert value in ([one["const"] for one in known["oneOf"]] if "oneOf" in known else [True, False])


def test_conda_users_get_the_same_environment():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, pip, packages = environment["dependencies"]
    assert python == f"python{PROJECT['requires-python']}"
    assert pip == "pip"
    assert packages == {"pip": ["-r requirements.lock", "-e ."]}


def test_everything_the_package_imports_is_required():
    imported: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            imported |= {module.split(".")[0] for module in names}
    known = {"sklearn": "scikit-learn", "PIL": "pillow", "cv2": "opencv-python-headless", "vl_convert": "vl-convert-python"}
    known |= {"IPython": "ipykernel", "yaml": "pyyaml", "nbformat": "nbconvert"}
    known |= dict.fromkeys(("sphinx", "docutils"), "jupyter-book")
    for module in imported - set(sys.stdlib_module_names) - {"classwise"}:
        assert known.get(module, module).replace("_", "-") in {name(text) for text in [*PROJECT["dependencies"], *EXTRAS]}, module


def test_make_help_lists_every_command():
    makefile = (ROOT / "Makefile").read_text()
    assert set(TARGETS) == set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    shown = subprocess.run(["make", "-C", str(ROOT), "help"], capture_output=True, text=True, check=True).stdout
    for target in TARGETS:
        assert f"make {target} " in shown


def test_the_version_is_the_same_everywhere():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    latest = re.search(r"^## (\S+) \((\S+)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert PROJECT["version"] == classwise.__version__ == cited["version"] == latest[1]
    assert str(cited["date-released"]) == latest[2]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_what_exists(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
    for target in re.findall(r"\{doc\}`([^`]+)`", page.read_text()):
        assert (page.parent / f"{target}.md").exists(), target


def blocks(kind):
    """Return the code blocks of a language in README and guide, each with the page and the line that it begins on."""
    result = []
    for page in PAGES:
        text = page.read_text()
        for match in re.finditer(rf"```{kind}\n(.*?)```", text, re.DOTALL):
            line = text[: match.start()].count("\n") + 1
            result.append(pytest.param(match[1], id=f"{page.stem}:{line}"))
    return result


# What makes the examples quick, and lets them do without a network of the reader's.
SMALLER = {
    '"tian2021/4-1-class-bias", seeds=[0, 1])': '"tian2021/4-1-class-bias", seeds=[0], defences=["pgd-at"], epochs=1, width=4)',
    'class-bias", outcomes)': 'class-bias", outcomes, scale="quick", dataset="digits", strict=False)',
    'defence="mart")': 'defence="mart", epochs=1, width=4)',
    'images.load("digits", "test")  # or': 'images.load("digits", "test").take(torch.arange(20))  # or',
    '{"steps": 20, "queries": 200}': '{"steps": 2, "queries": 5}',
    '"resnet18", dataset="cifar10", eps="8/255")': '"small-cnn", dataset="digits", eps="0.2", attack="fgsm", limit=10)',
}
ELSEWHERE = ("dask_jobqueue", "dask_kubernetes", "from resnet import")  # clusters, code of others


@pytest.fixture
def tables():
    """The tables that examples add entries to, restored afterwards."""
    from classwise.attacks import ATTACKS
    from classwise.defences import DEFENCES
    from classwise.models import MODELS

    changed = (ATTACKS, DEFENCES, MODELS, DATASETS, registry.SECTIONS)
    before = [dict(table) for table in changed]
    yield
    for table, entries in zip(changed, before, strict=True):
        table.clear()
        table.update(entries)


@pytest.fixture
def execute(data, tables, tmp_path, monkeypatch):
    """A function that executes an example, and returns its names."""
    monkeypatch.chdir(tmp_path)
    data.mkdir()
    (data / "recorded").symlink_to(ROOT / "data" / "recorded")
    module = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)  # where dataclasses look their types up

    def execute(text):
        for old, new in SMALLER.items():
            text = text.replace(old, new)
        exec(text, vars(module))
        return vars(module)

    return execute


def test_what_makes_examples_quick_is_up_to_date():
    text = "".join(page.read_text() for page in PAGES)
    assert all(old in text for old in SMALLER)


@pytest.mark.parametrize("text", blocks("python"))
def test_python_examples_work(text, execute, small, ready, tmp_path, capsys):
    if any(module in text for module in ELSEWHERE):
        compile(text, "example", "exec")
        return
    if "model.safetensors" in text:
        ready(small)
        shutil.copy(store.run_folder(small) / "weights.safetensors", tmp_path / "model.safetensors")
    names = execute(text)
    assert names
    printed = capsys.readouterr().out
    assert [numbers for numbers in re.findall(r"^print\(.*# .*: (\[.*\])$", text, re.MULTILINE) if numbers not in printed] == []
    if "fog-3" in text:  # and it shows its effect
        outcomes = names["outcomes"]
        assert set(outcomes["transform"].values) == {"none", "fog-3"}
        assert set(outcomes.split.values) == {"test", "valid"}
        rates = metrics.overall(aggregate.counts(outcomes)).squeeze().sel(split="test")
        assert float(rates.sel(transform="none")) > float(rates.sel(transform="fog-3"))


@pytest.mark.parametrize(
    ("page", "test"), [("Guess", "attacks/test_extending.py"), ("Sharpened", "defences/test_new_defence.py")]
)
def test_the_guide_extends_the_package_as_the_tests_do(page, test):
    source = (ROOT / "tests" / test).read_text()
    (node,) = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == page)
    assert ast.get_source_segment(source, node) in (ROOT / "book" / "guide" / "extending.md").read_text()


@pytest.mark.parametrize("text", blocks("toml"))
def test_queues_of_the_guide_can_be_read(text, tmp_path):
    (tmp_path / "queue.toml").write_text(text)
    items = queue.read(tmp_path / "queue.toml")
    queue.check(items[:1], tmp_path / "queue.toml")
    if "mine" in text:
        found = [(item.spec.defence, item.spec.epochs, item.spec.dataset) for item in items]
        assert found == [("pgd-at", 60, "cifar10"), ("trades", 60, "cifar10")]
        tempered = (evaluation for evaluation in items[0].evaluations if evaluation.attack == "temperature-pgd-20")
        assert {evaluation.options.get("inverse") for evaluation in tempered} >= {2, 50}


def check_make(words):
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    for target in (word for word in words if "=" not in word):
        assert target in TARGETS, target
    if "NB" in settings:
        notebooks.check(notebooks.find(settings["NB"]), notebooks.parse(settings.get("P", "")))


def check_command(words):
    """Parse a line of a shell as the program does that it names; nothing is run."""
    words = words[next(number for number, word in enumerate(words) if not re.match(r"[A-Z_]+=", word)) :]
    program, arguments = words[0].rpartition("/")[2], [word for word in words[1:] if word != "&"]
    if program == "make":
        check_make(arguments)
    elif program == "papermill":
        assert (ROOT / arguments[0]).exists()
        papermill.make_context(program, arguments)
    elif program == "dask":
        {"scheduler": dask_scheduler.main, "worker": dask_worker.main}[arguments[0]].make_context(program, arguments[1:])
    elif program == "export":
        assert all("=" in word for word in arguments)
    else:
        assert program == "classwise" or words[:3] == ["python", "-m", "classwise"]
        group = typer.main.get_command(app)
        context = group.make_context("classwise", ["list"])
        _, command, rest = group.resolve_command(context, arguments[2 * (program == "python") :])
        command.make_context(command.name, rest)


def lines_of(text):
    return [words for words in (shlex.split(line, comments=True) for line in text.replace("\\\n", " ").splitlines()) if words]


@pytest.mark.parametrize("text", blocks("bash"))
def test_shell_examples_are_commands_with_options_that_exist(text):
    for words in lines_of(text):
        check_command(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_within_sentences_exist(page):
    for text in re.findall(r"(?<!`)`((?:classwise|make) [a-z][^`]*)`", page.read_text()):
        check_command(shlex.split(text))


def test_a_command_that_does_not_exist_is_noticed():
    with pytest.raises(Exception, match="No such option"):
        check_command(["classwise", "run", "--scael", "quick"])
    with pytest.raises(Exception, match="No such command"):
        check_command(["classwise", "runs"])
    with pytest.raises(AssertionError):
        check_command(["make", "books"])


def public(module):
    """Return the functions and classes of a module that its page shows, by name."""
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    names = getattr(module, "__all__", None) or [name for name in own if name[0] != "_"]
    values = [(name, getattr(module, name)) for name in names]
    return [(name, value) for name, value in values if inspect.isfunction(value) or inspect.isclass(value)]


def test_each_section_of_the_api_begins_with_a_table_of_its_entries():
    text = (ROOT / "book" / "guide" / "api.md").read_text()
    table = r"\.\. autosummary::\n   :nosignatures:\n\n((?:   \w+\n)+)"
    tables = re.findall(rf"currentmodule:: (\S+)\n\n{table}\n\.\. automodule:: (\S+)", text)
    assert [module for *_, module in tables] == re.findall(r"automodule:: (\S+)", text)
    for current, names, module in tables:
        assert current == module
        assert names.split() == [name for name, _ in public(importlib.import_module(module))], module
