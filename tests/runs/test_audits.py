"""Somebody's network, audited: by which name it goes, what is asked, what is kept, what is said."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import mocks
import numpy as np
import pytest
import safetensors.torch
import torch
from browser import choose, holding, launched, opened
from playwright.sync_api import expect
from rich.console import Console
from torch import nn

import classwise
from classwise import images, models, runs
from classwise.book.audits import conclusion
from classwise.charts import audit_report, class_explorer, gallery, style
from classwise.core import results
from classwise.core.audit import Audit
from classwise.core.errors import UserError
from classwise.core.spec import Spec
from classwise.models.modes import penultimate
from classwise.papers import registry
from classwise.runs import audit_evaluation, audits, store
from classwise.runs.compute import audited_network, evaluate, threads, train
from classwise.stats import masking, metrics

MODULE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(64, 24), nn.Linear(24, {classes})

    def forward(self, x):
        return self.last(self.first(x.flatten(1)).relu()){after}

def build():
    return Net()

def ends():
    raise SystemExit("that was all")

def stopped():
    raise KeyboardInterrupt

def deeper():
    return nn.Sequential(Net(), nn.Linear(10, 10))

def halved():
    return Net().half()
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The weights of a small network that knows the digits."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLASSWISE_DATA", str(folder))
        spec = Spec(dataset="digits", eps="0.1", width=4, epochs=4, attack="pgd-10", attack_options={"steps": 2})
        train.train(spec)
        return store.weights(spec)


@pytest.fixture
def network(trained, tmp_path):
    """The same under a name of its own."""
    path = tmp_path / "mine.safetensors"
    path.write_bytes(trained.read_bytes())
    return path


def small_audit(network, **how):
    return runs.audit(str(network), **{"attack": "pgd-10", "eps": "0.1", "limit": 60} | how)


@pytest.fixture
def asked(data, network):
    return small_audit(network)


@pytest.fixture(scope="module")
def carried_out(trained, tmp_path_factory):
    """An audit that was carried out: its data folder, how many results that computed, what it said, and what it read when."""
    folder = tmp_path_factory.mktemp("carried-out")
    path, said, read, inside, features = folder / "mine.safetensors", io.StringIO(), [], [], evaluate.class_features
    path.write_bytes(trained.read_bytes())

    def noted(what, own):
        return lambda *given, **named: (read.append(what), own(*given, **named))[1]

    @contextmanager
    def measured(step):
        inside.append("features on the measured number of threads")
        yield 1
        inside.clear()

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLASSWISE_DATA", str(folder / "data"))
        patch.setattr(audit_evaluation, "LONG", 0.0)
        patch.setattr(images, "load", noted("images", images.load))
        patch.setattr(models, "read", noted("weights", models.read))
        patch.setattr(threads, "fastest_threads", measured)
        patch.setattr(evaluate, "class_features", lambda *given: (read.extend(inside), features(*given))[1])
        audited_network._read.cache_clear()
        audit = small_audit(path)
        number = audits.run_audit(audit, Console(file=said, width=400))
        runs.attack_function(audit, audit.cheap)(label="3", count=1)
        other = small_audit(path, attack="pgd-20")
        runs.outcomes([other], other.evaluations[:1])
        runs.outcomes([audit], audit.curve)
    return SimpleNamespace(data=folder / "data", number=number, said=said.getvalue(), read=read)


@pytest.fixture
def answered(carried_out, data, asked):
    """The same audit of the test's own, with all of its results."""
    shutil.copytree(carried_out.data, data, dirs_exist_ok=True)
    return asked


@pytest.fixture
def by_radius(answered):
    """The counts of that audit at each radius."""
    return class_explorer.radius_counts(*(runs.outcomes([answered], some) for some in (answered.evaluations, answered.curve)))


def changed(path, target, change):
    state = safetensors.torch.load_file(path)
    change(state)
    safetensors.torch.save_file(state, target)
    return target


def right(audit):
    """Return the clean accuracy."""
    return float(metrics.overall(audit_report.network_counts(runs.outcomes([audit], audit.evaluations[:1])).sel(attack="clean")))


def test_an_audit_is_identified_by_weights_and_evaluations_not_by_paths(data, network, tmp_path):
    one = small_audit(network)
    assert small_audit(network, eps=0.1, limit=65, out=str(tmp_path), home=str(tmp_path)).id == one.id
    settings = ({"attack": "pgd-20"}, {"eps": "0.2"}, {"limit": 70}, {"limit": None}, {"seed": 1})
    others = [*(small_audit(network, **how) for how in settings), replace(one, images="of another folder")]
    changed(network, network, lambda state: state["head.bias"].add_(1e-6))
    others.append(small_audit(network))
    assert len({one.id, *(other.id for other in others)}) == 1 + len(others)
    assert Audit.from_json(one.json()).id == one.id
    assert str(tmp_path) not in one.json()
    assert (one.network, one.per_class, one.batch) == ("mine", 6, 8)


def test_a_network_of_the_study_is_found_by_its_defence(data, network, monkeypatch, tmp_path):
    path = store.run_folder(registry.training("quick", "trades", 0)) / store.WEIGHTS
    path.parent.mkdir(parents=True)
    path.write_bytes(network.read_bytes())
    monkeypatch.chdir(tmp_path)
    trained = []
    monkeypatch.setattr(audits.ensure, "ensure_results", lambda keys: trained.extend(key.spec.defence for key in keys))
    assert Path(small_audit("trades").weights) == path
    with pytest.raises(UserError, match="no weights of mart for small-cnn on digits are stored"):
        small_audit("mart")
    assert trained == ["trades", "mart"]
    with pytest.raises(UserError, match="no weights of trades for resnet18 on digits are stored"):
        small_audit("trades", model="resnet18")
    Path("trades").write_bytes(network.read_bytes())
    assert Path(small_audit("trades").weights) == tmp_path / "trades"


def test_a_folder_is_called_by_its_own_name():
    titles = {"cifar10": "cifar10", "imagenet?size=128": "imagenet?size=128", "folder:/home/me/signs?whole=1": "folder:signs"}
    titles["folder:/home/me/signs?size=64&whole=1&skip-bad=1"] = "folder:signs?size=64"
    for dataset, title in titles.items():
        assert Audit(network="one", sha256="", dataset=dataset, eps="0.1").title == title


def test_no_radius_of_the_curve_covers_every_image(data, network):
    """Two images of 8 x 8 pixels are at most 8 apart."""
    audit = runs.audit(str(network), attack="pgd-10", eps="5", norm="l2", limit=20)
    assert audit.reach == 8
    assert [one.eps for one in audit.curve] == ["1.25", "2.5", "3.75", "5", "7.5"]
    assert Audit.from_json(audit.json()).id == audit.id
    with pytest.raises(UserError, match="eps=8 covers every image of digits: none are 8 apart"):
        runs.audit(str(network), attack="pgd-10", eps="8", norm="l2")


def test_images_and_network_are_read_once_and_features_computed_on_the_measured_threads(carried_out):
    """Another audit of the same images reads the weights again."""
    assert carried_out.read == ["images", "weights", "features on the measured number of threads", "weights"]


@pytest.mark.parametrize(
    ("eps", "norm", "radii"),
    [
        ("8/255", "linf", ["2/255", "4/255", "6/255", "8/255", "12/255", "16/255"]),
        ("0.2", "linf", ["0.05", "0.1", "0.15", "0.2", "0.3", "0.4"]),
        ("1/255", "linf", ["1/1020", "1/510", "1/340", "1/255", "1/170", "2/255"]),
        ("0.6", "linf", ["0.15", "0.3", "0.45", "0.6", "0.9"]),
        ("0.6", "l2", ["0.15", "0.3", "0.45", "0.6", "0.9", "1.2"]),
    ],
)
def test_the_radii_of_the_curve_are_multiples_written_alike(eps, norm, radii):
    audit = Audit(network="one", sha256="", dataset="digits", eps=eps, norm=norm)
    assert [one.eps for one in audit.curve] == radii
    assert audit.cheap in audit.curve


def test_what_is_kept_is_of_the_schema_says_where_it_comes_from_and_is_asked_once(carried_out, answered, network):
    assert carried_out.number == 10
    folder = store.run_folder(answered)
    files = sorted(folder.glob("outcomes/*.nc"))
    assert len(files) == 10
    for path in files:
        stored = results.load(path, "outcomes 1")
        assert stored.attrs["weights"] == audited_network.digest(network)
        assert all(stored.attrs[name] for name in ("device", "created", "torch", "checks"))
        assert str(network.parent) not in str(stored.attrs)
    assert len(list(folder.glob("features-2/*.nc"))) == len(list(folder.glob("examples/*.nc"))) == 1
    assert audits.run_audit(answered) == 0
    assert audit_evaluation.ensure_keys(store.outcomes_of([(answered, answered.evaluations)])) == 0


def test_the_answers_are_those_of_the_network_on_so_many_images_of_each_class(answered, network):
    found = runs.outcomes([answered], answered.evaluations)
    count = audit_report.network_counts(found)
    assert set(metrics.images(count.sel(attack="clean")).values) == {6}
    test = images.load("digits", "test")
    model = models.build("small-cnn", test, width=4)
    model.load_state_dict(safetensors.torch.load_file(network))
    places = [test.index.tolist().index(number) for number in found.image.values]
    with torch.no_grad():
        answers = model.eval()(test.batch(torch.tensor(places))[0]).argmax(1)
    assert found.prediction.sel(attack="clean").values.ravel().tolist() == answers.tolist()


def test_other_weights_never_go_on_from_what_is_kept(asked, network):
    steps = evaluate.step_by_step(asked, asked.evaluations[1])
    next(steps), next(steps)
    steps.close()
    changed(network, network, lambda state: state["head.weight"].neg_())
    again = small_audit(network)
    assert store.run_folder(again) != store.run_folder(asked)
    assert right(again) < 20
    with pytest.raises(UserError, match="has changed since the audit began"):
        next(evaluate.step_by_step(asked, asked.evaluations[1]))


def test_threads_are_measured_on_few_images_of_a_large_batch(data, network, monkeypatch):
    sizes = []
    monkeypatch.setattr(audit_evaluation, "input_gradient", lambda model, x, y, loss: sizes.append(len(x)))
    for batch in (8, 200):
        audit_evaluation.gradient_step(small_audit(network, limit=None, batch=batch))()
    assert sizes == [8, 50]


def test_a_long_audit_says_how_long_and_what_is_shorter_but_no_stronger_attack(carried_out):
    assert "minutes to go, estimated from one batch of each attack (8 of 60 images)" in carried_out.said
    assert "; shorter: fewer images by --limit. Ctrl-C stops" in carried_out.said
    assert "pgd-10 at 0.1: " in carried_out.said


def test_the_estimate_is_near_what_follows(data, network, monkeypatch):
    """In passes through the network, which take the time of batches as small as these, in place of seconds."""
    audit, estimates, estimate, passes = small_audit(network, attack="strong"), [], audit_evaluation._seconds, [0]
    audited_network.network(audit).register_forward_hook(lambda *_: passes.append(passes.pop() + 1))
    monkeypatch.setattr(audit_evaluation, "time", SimpleNamespace(perf_counter=lambda: passes[0]))

    def noted(*given):
        estimates.append((estimate(*given)[0], passes[0]))
        return estimates[-1][0], 60

    monkeypatch.setattr(audit_evaluation, "_seconds", noted)
    audit_evaluation.ensure_keys(store.outcomes_of([(audit, [*audit.evaluations, *audit.curve])]), Console(file=io.StringIO()))
    ((number, then),) = estimates
    assert 0.5 < number / (passes[0] - then) < 2


def test_robustness_never_rises_with_the_radius(answered, by_radius):
    found, curve = runs.outcomes([answered], answered.evaluations), runs.outcomes([answered], answered.curve)
    misclassified = np.vstack([found.misclassified.sel(attack="clean").values, curve.misclassified.values[0, 0]])
    left = 100 * (~np.logical_or.accumulate(misclassified)).mean(1)
    assert metrics.overall(by_radius).values == pytest.approx(left)
    assert [str(one) for one in by_radius.eps.values] == ["0", *(one.eps for one in answered.curve)]
    assert (metrics.accuracy(by_radius).diff("radius") <= 0).all()
    assert left[0] > left[-1]


def test_the_class_explorer_draws_each_radius_and_class(by_radius):
    chart = class_explorer.radius_explorer(by_radius, ["8", "1"], "0.1").to_dict()
    bound = {param["name"]: param["bind"]["options"] for param in chart["params"] if "bind" in param}
    assert bound["chosen_class"] == ["8", "1"]
    assert len(bound["chosen_radius"]) == 7
    sums = class_explorer.rows(by_radius).groupby(["radius", "label"])["value"].sum()
    assert sums.to_numpy() == pytest.approx(np.full(70, 100.0))


def test_the_live_explorer_attacks_images_of_the_chosen_class_at_the_chosen_radius(answered, by_radius, jupyter):
    style.setup()
    calls, attack = [], runs.attack_function(answered, answered.cheap)
    attacker = lambda *_: lambda **chosen: calls.append(chosen) or attack(**chosen)  # noqa: E731
    now = gallery.attack_live(attacker, [answered], answered.cheap, count=2)
    live = class_explorer.radius_explorer(by_radius, ["8", "1"], "0.1", show=now)
    boxes = {box.description: box for box in live.children[0].children}
    boxes["class"].value, boxes["radius"].value = "1", "0.2"
    assert calls[-1] == {"label": "1", "count": 2, "eps": "0.2"}
    text = str(now.draw(chosen_class="1", chosen_radius="0.05").to_dict())
    assert text.count("data:image/png") == 6
    assert "largest change\\n0.050" in text


def test_features_are_what_the_last_layer_reads(network, data):
    test = images.load("digits", "test").take(torch.arange(200))
    model = models.build("small-cnn", test, width=4).eval()
    plain = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 10))
    bare = nn.Sequential(nn.Flatten(), nn.Linear(64, 30), nn.Unflatten(1, (10, 3)), nn.AvgPool1d(3), nn.Flatten())
    x, _ = test.batch(slice(None))
    with torch.no_grad():
        expected = [(model.features(x), "penultimate"), (plain[:3](x), "penultimate"), (bare(x), "logits")]
    for network, (features, layer) in zip((model, plain, bare), expected, strict=True):
        found, where = penultimate(network, (pixels for pixels, _ in test.batches(64)), 10)
        assert where == layer
        torch.testing.assert_close(found, features)


def test_normalisation_is_that_of_the_file_then_that_of_the_user(data, network, tmp_path):
    own = safetensors.torch.load_file(network)["mean"].ravel()
    assert torch.equal(audited_network.network(runs.audit(str(network))).mean.ravel(), own)
    bare = changed(network, tmp_path / "bare.safetensors", lambda state: [state.pop(name) for name in ("mean", "std")])
    for normalise, mean, std in (("none", 0.0, 1.0), ("0.25/0.5", 0.25, 0.5), ("dataset", float(own), None)):
        model = audited_network.network(runs.audit(str(bare), normalise=normalise))
        assert float(model.mean) == pytest.approx(mean)
        assert std is None or float(model.std) == std


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """Writes a module of the user's in the working directory, and weights for it; returns an audit of both."""
    monkeypatch.chdir(tmp_path)

    def audit(function="build", classes=10, after=""):
        Path("my_module.py").write_text(MODULE.format(classes=classes, after=after))
        os.utime("my_module.py", (1e9, 1e9))
        torch.manual_seed(0)
        state = {"first.weight": torch.randn(24, 64), "first.bias": torch.zeros(24)}
        state |= {"last.weight": torch.randn(classes, 24), "last.bias": torch.zeros(classes)}
        safetensors.torch.save_file(state, "theirs.safetensors")
        return small_audit("theirs.safetensors", model=f"my_module:{function}", limit=20)

    return audit


def test_a_module_of_the_users_is_known_by_its_code_and_run_from_its_source(data, theirs):
    """Not from compiled bytecode, which passes for that of a text as long and as old."""
    once, x = theirs(after=" * 1"), torch.full((1, 1, 8, 8), 0.5)
    assert right(once) < 60
    assert runs.features(once).sizes["feature"] == 24
    assert runs.features(once).attrs["layer"] == "penultimate"
    answer = audited_network.network(once)(x)
    thrice = theirs(after=" * 3")
    assert thrice.id != once.id
    assert torch.allclose(audited_network.network(thrice)(x), 3 * answer)
    with pytest.raises(UserError, match="has changed since the audit began"):
        audited_network.network(once)


NO_GRADIENT = "theirs has no gradient with respect to its pixels"


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"classes": 7}, "my_module:build returns 7 classes, digits has 10"),
        ({"after": ".softmax(1)"}, "leave the softmax out"),
        ({"after": "[:, 0]"}, r"a logit for each image and class, \(n, 10\), got \(8,\)"),
        ({"after": " * torch.inf"}, "not finite"),
        ({"after": ".squeeze()"}, r"\(1, 10\), got \(10,\); .squeeze\(\) drops the dimension of a single image: leave it out"),
        ({"after": ".view(-1, 3, 64)"}, r"cannot take images of 1 x 8 x 8 \(RuntimeError in my_module.py, line 11: shape"),
        ({"function": "halved"}, "its weights are float16 and pixels are float32: let the function return model.float"),
        ({"after": ".detach()"}, f"{NO_GRADIENT}, which every audit needs, also with --attack square; look in"),
        (
            {"after": " + torch.tensor(x.numpy()).sum()"},
            rf"{NO_GRADIENT} \(RuntimeError in my_module.py, line 11: Can't call numpy",
        ),
        ({"function": "ends"}, "cannot be built: SystemExit in my_module.py, line 17: that was all; correct it or name another"),
        ({"function": "deeper"}, "missing: 0.first.weight, 0.first.bias, .* and 3 more; unexpected: first.bias, .* 1 more"),
    ],
)
def test_a_module_that_does_not_fit_is_named(data, theirs, written, says):
    audit = theirs(**written)
    with pytest.raises(UserError, match=says):
        audit_evaluation.ensure_keys(store.outcomes_of([(audit, audit.evaluations)]))
    with pytest.raises(UserError, match=says):
        runs.features(audit)
    assert not (data / "audits").exists()


def test_a_module_may_be_interrupted_and_weights_come_unwrapped(data, theirs):
    audit = theirs("stopped")
    with pytest.raises(KeyboardInterrupt):
        audit_evaluation.ensure_keys(store.outcomes_of([(audit, audit.evaluations)]))
    state = safetensors.torch.load_file("theirs.safetensors")
    torch.save({f"module.{name}": value for name, value in state.items()}, "wrapped.pt")
    found = audited_network.network(small_audit("wrapped.pt", model="my_module:build"))
    assert torch.equal(found.last.weight, state["last.weight"])


def test_all_modules_of_a_user_belong_to_the_identity_of_an_audit(data, theirs):
    """What the module imports from its folder, and what that imports from a folder there, but no file that nobody imports."""
    alone = theirs().id
    Path("parts").mkdir()
    Path("other.py").write_text("unused = 1")
    assert theirs().id == alone
    Path("factor.py").write_text("from parts.deep import value")
    found, answers, x = {}, [], torch.full((1, 1, 8, 8), 0.5)
    for value in (1, 1, 3):
        Path("parts/deep.py").write_text(f"value = {value}")
        audit = theirs(after=" * __import__('factor').value\n\n    import factor")
        found[audit.id] = audit
        answers.append(audited_network.network(audit)(x))
    once, _ = found.values()
    assert torch.allclose(answers[2], 3 * answers[0])
    with pytest.raises(UserError, match=r"my_module\.py, or a module that it imports, has changed since the audit began"):
        audited_network.network(once)


def test_a_network_that_fails_in_an_attack_is_named_with_its_line(data, theirs):
    audit = theirs(after=" + (1 / (len(x) != 4) if x.requires_grad else 0)")
    says = r"my_module:build failed in the audit \(ZeroDivisionError in my_module.py, line 11: division"
    with pytest.raises(UserError, match=says):
        audit_evaluation.ensure_keys(store.outcomes_of([(audit, audit.evaluations)]))


def test_a_users_network_may_leave_the_normalisation_to_the_audit(data, theirs):
    plain = theirs()
    given = small_audit("theirs.safetensors", model="my_module:build", limit=20, normalise="0.25/0.5")
    x = torch.rand(3, 1, 8, 8)
    expected = audited_network.network(plain)((x - 0.25) / 0.5)
    assert torch.equal(audited_network.network(given)(x), expected)
    assert given.id != plain.id


@pytest.mark.parametrize(
    ("equal", "warnings", "limit", "says"),
    [
        (["a"], {}, None, ["the worst class, a, withstands the attacks on 20 % of its images (95 %: 6 to 51)"]),
        (
            ["a", "b"],
            {},
            30,
            ["2 classes are equally weak: each withstands the attacks on 20 % of its images (95 %: 6 to 51), less than 30 %"],
        ),
        (
            ["a"],
            {"hidden gradients": "all vanish"},
            10,
            ["warning: hidden gradients: all vanish", "the worst class, a, withstands the"],
        ),
    ],
)
def test_the_terminal_says_warnings_and_which_classes_are_equally_weak(equal, warnings, limit, says):
    content = {"worst_class": {"name": "a", "equal": equal, "accuracy": 20.0}, "warnings": warnings}
    content |= {
        "classes": {"a": {"accuracy": {masking.WORST: {"low": 5.7, "high": 51.0}}}},
        "fail_below": limit and {"limit": limit, "passed": False},
    }
    lines = conclusion(content)
    assert len(lines) == len(says)
    assert all(line.startswith(begins) for line, begins in zip(lines, says, strict=True))


def test_the_command_leaves_a_report_that_opens_anywhere(data, network, program, command, capsys, tmp_path):
    out = tmp_path / "out"
    words = {"--weights": network, "--model": "small-cnn", "--dataset": "digits", "--eps": "0.1", "--attack": "pgd-10"}
    other = changed(network, tmp_path / "other.safetensors", lambda state: state["head.weight"].mul_(0.5))
    words |= {"--limit": 50, "--classes": "8,3", "--out": out, "--against": other, "--fail-below": "1"}
    assert command("audit", *(word for pair in words.items() for word in pair)) == 3
    said = capsys.readouterr()
    page, heard = Path(said.out.strip()), " ".join(said.err.split())
    assert re.search(r"mine less other, image by image: [-\d.]+ points of all images \(95 %: [-\d.]+ to [-\d.]+\)", heard)
    assert re.search(r"class, \d, withstands the attacks on [\d.]+ % of its images \(95 %: \d+ to \d+\), less than 100 %", heard)
    assert page.parent.parent == out
    numbers, own = (json.loads(path.read_text()) for path in (page.with_suffix(".json"), page.parent / "report.json"))
    assert page.stem == f"against-{numbers['against']['id']}"
    assert own == {name: value for name, value in numbers.items() if name != "against"}
    assert own["fail_below"] == {"limit": 100, "passed": False}
    assert len(list(page.parent.glob("outcomes/*.nc"))) == 10
    text = page.read_text()
    assert text.index("Critical: 8") < text.index("Critical: 3") < text.index("Weakest classes")
    assert "<title>mine against other: an audit</title>" in text
    assert 'src="http' not in text
    assert "runs.audit(weights" not in text
    assert text.index("mine less other") < text.index("only mine") < text.index("All classes as a table")
    assert numbers["audit"]["sha256"] == audited_network.digest(network)
    assert numbers["against"]["sha256"] == audited_network.digest(other)
    assert numbers["against"]["all_images"]["first"] == pytest.approx(numbers["robust"]["overall"]["value"], abs=1e-3)
    assert sorted(numbers["evaluations"]) == sorted(path.stem for path in page.parent.glob("outcomes/*.nc"))
    shown = runs.audit(str(page.parent))
    rates = metrics.accuracy(audit_report.network_counts(runs.audit_outcomes(shown)).sel(attack=masking.WORST))
    assert [one["accuracy"]["worst case"]["value"] for one in numbers["classes"].values()] == pytest.approx(rates.values)
    assert numbers["robust"]["worst"]["value"] == pytest.approx(float(rates.min()))
    assert numbers["worst_class"]["name"] == str(rates.label[int(rates.argmin("label"))].item())
    with launched(program) as browser:
        for scheme, width in (("light", 1280), ("dark", 1280), ("light", 375)):
            with opened(browser, page, scheme, width) as shown:
                look(shown, scheme, width)


# Nothing guards its top level, as in a notebook.
SCRIPT = """
import json
from dataclasses import replace
import torch
from torch import nn
import classwise
from classwise import images

class Net(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.last, self.slope = nn.Linear(64, 10), slope

    def forward(self, x):
        return self.slope * self.last(x.flatten(1))

def build(seed, slope=1.0):
    torch.manual_seed(seed)
    return Net(slope).train()

test = images.load("digits", "test")
test = replace(test, classes=tuple(f"$x^{name}$" for name in test.classes))
network = build(0)
page, numbers = classwise.audit(network, test, "0.1", limit=20, attack="fgsm", against=build(1))
other, _ = classwise.audit(build(0, slope=2.0), test, "0.1", limit=20, attack="fgsm")
print(json.dumps({"page": str(page), "numbers": numbers, "other": str(other), "training": network.training}))
"""


def test_a_program_audits_the_network_that_it_holds(data, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, cwd=tmp_path, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = done.stdout.splitlines()
    said = json.loads(line)
    page, numbers = Path(said["page"]), said["numbers"]
    text = page.read_text()
    assert "the images of your program correctly" in text
    assert "Each of 20 images" in text
    assert "webpack_modules" not in text, "MathJax would draw names like formulas"
    assert "$x^3$" in numbers["classes"]
    assert numbers["audit"]["model"] == "given:Net"
    assert json.loads(page.with_suffix(".json").read_text()) == numbers
    assert page.name == f"against-{numbers['against']['id']}.html"
    assert said["training"], "the network itself is left as it is"
    assert Path(said["other"]).parent != page.parent, "the same weights in other code are another network"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda given: given.update(dataset=replace(given["dataset"], classes=("a", "b"))),
            "labels of 2 classes are 0 to 1, each at least once; got 0 to 9, 10 different ones",
        ),
        (
            lambda given: given.update(weights=nn.Linear(3, 3)),
            "given:Linear with the weights Linear cannot take images of 1 x 8 x 8",
        ),
        (lambda given: given.update(normalise="dataset"), "normalise=dataset needs the training images of your program"),
        (lambda given: given.update(dataset=given["dataset"].select_classes("3", "5")), "at least once; got 3 to 5, 2 different"),
        (lambda given: given.update(dataset=(1, 2)), "images are a tuple; give the name of a dataset, or classwise.images"),
        (
            lambda given: given["weights"].register_buffer("kept", given["weights"][1].weight * 2),
            "the network cannot be copied",
        ),
        (lambda given: given.update(weights={"a": 1}), "weights are a dict; give a torch.nn.Module, or the name of a file"),
    ],
)
def test_what_a_program_hands_over_is_checked_before_anything_is_attacked(data, change, says):
    flat = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    given = {"weights": flat, "dataset": images.load("digits", "test"), "eps": "0.1"}
    change(given)
    with pytest.raises(UserError, match=says):
        runs.audit(**given)


def test_other_gradients_or_other_weights_are_another_network(data):
    """What was carried out with gradients that vanish is not shown for a network that was repaired."""

    class Masked(nn.Module):
        def __init__(self, seen):
            super().__init__()
            self.last, self.seen = nn.Linear(64, 10), seen

        def forward(self, x):
            hidden = x.flatten(1).detach()
            return self.last(hidden + self.seen * (x.flatten(1) - hidden))

    test, digests = images.load("digits", "test"), []
    for reach, scale in ((32, 1), (64, 1), (32, 1), (32, 1e-6)):
        torch.manual_seed(0)
        network = Masked((torch.arange(64) < reach).float())
        network.last.weight.data.mul_(scale)
        digests.append(runs.audit(network, dataset=test, eps="0.1", limit=20).sha256)
    assert digests[0] == digests[2]
    assert len({*digests}) == 3


def test_what_is_said_of_two_networks_of_one_class_tells_them_apart(data):
    test, given = images.load("digits", "test"), {"eps": "0.1", "limit": 20}
    first, second = (nn.Sequential(nn.Flatten(), nn.Linear(64, 10)) for _ in range(2))
    audit = runs.audit(first, dataset=test, **given)
    assert (audit.network, audits.audit_against(audit, second, dataset=test, **given).network) == ("Sequential", "Sequential-2")
    with pytest.raises(UserError, match="holds the same weights"):
        audits.audit_against(audit, first, dataset=test, **given)
    with pytest.raises(UserError, match="unknown option of an audit 'fail_below'"):
        classwise.audit(first, test, "0.1", fail_below=0.2)


def test_a_network_of_a_program_may_leave_the_normalisation_to_the_audit(data):
    flat, test = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), images.load("digits", "test")
    audit = runs.audit(flat, dataset=test, eps="0.1", normalise="0.3/0.5", limit=20)
    x, _ = test.batch(slice(0, 5))
    assert torch.allclose(audited_network.network(audit)(x), flat((x - 0.3) / 0.5))


def test_a_run_of_another_seed_is_not_audited_on_images_that_it_was_trained_on(data, trained, tmp_path):
    folder = shutil.copytree(trained.parent, tmp_path / "run")
    assert small_audit(folder).sha256 == small_audit(trained).sha256
    spec = Spec.from_json((folder / "spec.json").read_text())
    (folder / "spec.json").write_text(replace(spec, seed=1).json())
    with pytest.raises(UserError, match=r"digits is split by the seed: .* \(seed 1\) was trained on images of the audit"):
        small_audit(folder)


def test_a_stored_audit_is_shown_without_its_network_and_another_folder_is_named(answered, tmp_path, command, monkeypatch):
    folder = tmp_path / answered.name
    shutil.copytree(store.run_folder(answered), folder)
    (folder / "report.json").write_text(json.dumps({"audit": json.loads(answered.json())}))
    monkeypatch.setattr(images, "load", lambda *given: pytest.fail("images are read"))
    shown = runs.audit(str(folder))
    assert runs.audit_outcomes(shown).identical(runs.audit_outcomes(answered))
    words = ["--weights", folder, "--model", "small-cnn", "--dataset", "digits", "--eps", "0.1"]
    assert command("audit", *words) == 2
    folder.rename(tmp_path / "another")
    with pytest.raises(UserError, match=r"is the folder of another audit than its report\.json"):
        runs.audit(str(tmp_path / "another"))
    (tmp_path / "another" / "report.json").write_text("{")
    with pytest.raises(UserError, match="is no report of an audit"):
        runs.audit(str(tmp_path / "another"))


def look(page, scheme, width):
    """Check that a report is drawn, can be read, fits, and follows its controls."""
    expect(page.locator(".vega-embed > svg")).to_have_count(6)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground, ink = (
        page.evaluate(f"getComputedStyle(document.body).{name}.match(/[\\d.]+/g).slice(0, 3).map(Number)")
        for name in ("backgroundColor", "color")
    )
    assert (sum(ground) < 200 and sum(ink) > 500) if scheme == "dark" else (sum(ground) > 700 and sum(ink) < 300)
    explorer, gallery = holding(page, "chosen_class"), holding(page, "gallery_class")
    assert explorer.locator("[name=chosen_class]").input_value() == "8"
    choose(explorer, chosen_class="5", chosen_radius="0")
    expect(explorer.locator(".mark-rect.role-mark path[aria-label*='predicted class: 5;']")).to_have_count(1)
    expect(explorer.locator(".mark-symbol.role-mark path[aria-label*='class: 5;']")).to_have_count(7)
    choose(gallery, gallery_class="5")
    expect(gallery.locator("image[aria-label*='class: 5;']")).to_have_count(12)


def test_a_folder_is_audited_from_any_folder(data, network, tmp_path, command, monkeypatch):
    mocks.pictures(tmp_path / "signs", range(10))
    (tmp_path / "signs" / "0" / "bad.png").write_bytes(b"no image")
    monkeypatch.chdir(tmp_path)
    given = {"--weights": network, "--model": "small-cnn", "--dataset": "folder:signs", "--eps": "0.1", "--attack": "pgd-10"}
    words = [word for pair in given.items() for word in pair]
    assert command("audit", *words) == 2
    assert command("audit", *words, "--skip-bad") == 0
    (page,) = data.glob("audits/*/report.html")
    text = page.read_text()
    assert "the images of folder:signs correctly" in text
    assert "Each of 10 images" in text
    assert "whole=1" not in text
    audit = runs.audit(str(network), dataset="folder:signs", eps="0.1", attack="pgd-10", skip_bad=True)
    shutil.copy(tmp_path / "signs" / "1" / "0.png", tmp_path / "signs" / "0" / "0.png")
    with pytest.raises(UserError, match="the images of folder:signs have changed since the audit began; start it again"):
        audit_evaluation.ensure_keys(store.outcomes_of([(audit, [audit.evaluation_of(attack="pgd-20")])]))
    fresh = runs.audit(str(network), dataset="folder:signs", eps="0.1", attack="pgd-10", skip_bad=True)
    assert fresh.id != audit.id
    with pytest.raises(UserError, match="normalise=dataset needs the training images of folder:signs, which are not here; write"):
        audited_network.network(runs.audit(str(network), dataset="folder:signs", eps="0.1", skip_bad=True, normalise="dataset"))
