"""pyproject, lock, conda environment, Makefile and README say the same."""

import ast
import re
import subprocess
import sys
import tomllib

import pytest
import yaml

from classwise.core.paths import checkout
from classwise.runs.record import queue
from classwise.stats import aggregate, metrics

ROOT = checkout()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = [one for extra in PROJECT["optional-dependencies"].values() for one in extra]
LOCKED = dict(re.findall(r"^([a-z0-9-]+)==([^ ;\n]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))


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
            imported |= {one.split(".")[0] for one in names}
    known = {
        "sklearn": "scikit-learn",
        "PIL": "pillow",
        "cv2": "opencv-python-headless",
        "vl_convert": "vl-convert-python",
        "IPython": "ipykernel",
        "nbformat": "nbconvert",
    }
    for module in imported - set(sys.stdlib_module_names) - {"classwise"}:
        assert known.get(module, module).replace("_", "-") in {name(one) for one in [*PROJECT["dependencies"], *EXTRAS]}, module


def test_make_help_lists_every_command():
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()
    shown = subprocess.run(["make", "-C", str(ROOT), "help"], capture_output=True, text=True, check=True).stdout
    for target in phony:
        assert f"make {target} " in shown


def test_the_readme_shows_a_small_picture_and_the_two_commands():
    text = (ROOT / "README.md").read_text()
    first_screen = "\n".join(text.splitlines()[:40])
    picture = re.search(r"!\[[^\]]+\]\(([^)]+\.png)\)", first_screen)[1]
    assert (ROOT / picture).stat().st_size < 300_000
    assert "make book" in first_screen
    assert "make test" in first_screen


def test_the_readme_links_to_what_exists():
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / target).exists(), target


def block(kind, holding):
    """Return the block of code of the README that holds some words."""
    (found,) = (
        text for text in re.findall(rf"```{kind}\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL) if holding in text
    )
    return found


def test_the_queue_that_the_readme_shows_is_one(tmp_path):
    (tmp_path / "queue.toml").write_text(block("toml", "[[entry]]"))
    items = queue.read(tmp_path / "queue.toml")
    assert [(item.spec.defence, item.spec.epochs, item.spec.dataset) for item in items] == [
        ("pgd-at", 60, "cifar10"),
        ("trades", 60, "cifar10"),
    ]
    assert {one.options.get("inverse") for one in items[0].evaluations if one.attack == "temperature-pgd-20"} >= {2, 50}
    queue.check(items[:1], tmp_path / "queue.toml")


def test_the_question_about_fog_that_the_readme_shows_is_answered(data):
    names = {}
    exec(block("python", "fog-3"), names)
    found = names["outcomes"]
    assert set(found["transform"].values) == {"none", "fog-3"}
    assert set(found.split.values) == {"test", "valid"}
    rates = metrics.overall(aggregate.counts(found)).squeeze()
    clear, foggy = (float(rates.sel(transform=name, split="test")) for name in ("none", "fog-3"))
    assert clear > foggy
