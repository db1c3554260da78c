"""Invalid input at the command line: each has an exit code and its words, in one line, and leaves no file behind."""

import io
import json
import os
import pickle
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

import mocks
import pytest
import safetensors.torch
import torch
from PIL import Image

from classwise import images, models
from classwise.__main__ import main
from classwise.core import results
from classwise.core.errors import UserError
from classwise.core.spec import Spec
from classwise.runs import store

SECTION = "tian2021/4-1-class-bias"
SPEC = Spec(dataset="digits", eps="0.2", width=4, epochs=3)
DAMAGED = Spec(dataset="digits", eps="0.2", width=4, epochs=4)
AUDIT = "audit --weights net.safetensors --model small-cnn --dataset digits --eps 0.2 --attack fgsm --limit 10"
BUILD = "import torch\n\ndef build():\n    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))\n"
QUEUE = '[evaluations]\nclean = [{attack = "clean"}]\n[[entry]]\nwhy = "a test"\n'
ENTRY = 'defences = ["standard"]\nseeds = [0]\nevaluations = ["clean"]\nrun = {dataset = "digits", eps = "0.2"}\n'
MODULES = {
    "nothing": "",
    "fails": "import torch\n\ndef build():\n    raise RuntimeError('no disk')\n",
    "text": "def build():\n    return 'no network'\n",
    "broken": "def build(:\n",
    "other": BUILD.replace("64, 10", "64, 10, bias=False"),
}
QUEUES = {
    "no-toml": "entry = [",
    "empty": "",
    "table": "[evaluation]\n",
    "list": QUEUE + ENTRY.replace('["clean"]', '["claen"]'),
    "no-list": "[evaluations]\n[[entry]]\nwhy = 'a test'\n" + ENTRY,
    "key": QUEUE + ENTRY + "sede = [0]\n",
    "option": QUEUE.replace('"clean"}', '"square", options = {querys = 9}}') + ENTRY,
    "no-seeds": QUEUE + ENTRY.replace("seeds = [0]", "seeds = []"),
    "weights": QUEUE + ENTRY + "weights = 3\n",
    "no-eps": QUEUE + ENTRY.replace(', eps = "0.2"', ""),
    "why": QUEUE.replace('why = "a test"\n', "") + ENTRY,
    "scale": QUEUE + ENTRY + 'scale = "quik"\n',
    "paper": QUEUE + ENTRY + 'scale = "quick"\npaper = "tian"\n',
    "seeds": QUEUE + ENTRY.replace("seeds = [0]", "seeds = 0"),
    "seed": QUEUE + ENTRY.replace("seeds = [0]", "seeds = [-1]"),
    "field": QUEUE + ENTRY.replace("{dataset", "{epoch = 3, dataset"),
    "type": QUEUE + ENTRY.replace("{dataset", "{epochs = 'three', dataset"),
    "dataset": QUEUE + ENTRY.replace('"digits"', '"digts"'),
    "defence": QUEUE + ENTRY.replace("standard", "standrad"),
    "section": QUEUE + 'section = "tian2021/4-1"\nscale = "quick"\n',
    "evaluation": QUEUE.replace("{attack", "{atack") + ENTRY,
    "attack": QUEUE.replace('"clean"}', '"cleen"}') + ENTRY,
    "eps": QUEUE + ENTRY.replace('"0.2"', '"8"'),
    "epoch": QUEUE + ENTRY.replace("{dataset", "{epoch_images = 0, dataset"),
    "epoch-large": QUEUE + ENTRY.replace("{dataset", "{epoch_images = 5000, dataset"),
    "beyond": QUEUE + ENTRY.replace("{dataset", "{epoch_images = 50, measure = 30, dataset"),
    "classes": QUEUE.replace('"clean"}', '"clean", classes = ["3", "cat"]}') + ENTRY,
}


# What no invalid input may reach.
STARTS = ("runs.schedule.pool.compute", "runs.audit_evaluation._seconds")
STARTS += ("book.notebooks.execute", "runs.record.recorder.record")


@dataclass(frozen=True)
class Invalid:
    """Words of a command, part of what is answered, the exit code, and environment variables."""

    words: str
    says: str
    code: int = 2
    environment: dict[str, str] = field(default_factory=dict)
    last: str | None = None  # one more word, which may be empty or have spaces


def render(parameter, says, notebook=SECTION):
    return Invalid(f"render {notebook} -p", says, last=parameter)


def audit(changed, says, last=None, **environment):
    return Invalid(f"{AUDIT} {changed}", says, last=last, environment=environment)


def record(name, says):
    return Invalid(f"record --out archives --queue queues/{name}.toml", says)


COMMANDS = [
    Invalid("lst", "no such command 'lst'. Did you mean 'list'?"),
    Invalid("show", "missing argument 'ID'; `classwise show --help` lists what there is"),
]
RUNS = [
    Invalid("run tian2021/4-1-clas-bias", "unknown section 'tian2021/4-1-clas-bias' (did you mean 'tian2021/4-1-class-bias'?)"),
    Invalid("run 4-1-class-bias", "did you mean 'tian2021/4-1-class-bias'"),
    Invalid("run --scale quik", "unknown scale 'quik' (did you mean 'quick'?)"),
    Invalid("run --workers 0", "should be greater than or equal to 1"),
    Invalid("run --workers 100000 --dry-run", "should be less than or equal to"),
    Invalid("run --scheduler tcp://x:99999999", "'tcp://x:99999999' is not an address with a port from 1 to 65535"),
    Invalid("run --scheduler", "--scheduler '' is not an address with a port from 1 to 65535; write tcp://host:8786", last=""),
    Invalid("book --scheduler here", "did you mean tcp://here:8786?"),
    Invalid("run --dry-run --scheduler tcp://127.0.0.1:8786", "leave --scheduler out"),
    Invalid("book --scale papers", "unknown scale 'papers' (did you mean 'paper'?)"),
]
STORED = [
    Invalid("show", "the id is empty; `classwise list` prints the ids", last=""),
    Invalid("show zzz", "there is no run 'zzz'; `classwise list` prints the ids of all 2"),
    Invalid(f"show {DAMAGED.id}", "is truncated or not a netCDF file"),
    Invalid("list --filter trades", "--filter 'trades' is not of the form field=value; write one like defence=trades"),
    Invalid("list --filter defense=trades", "unknown field of a run 'defense' (did you mean 'defence'?)"),
    Invalid("list --filter defence=pgd-ta", "unknown defence of a run 'pgd-ta' (did you mean 'pgd-at'?)"),
    Invalid("list --sort sede", "unknown field of a run 'sede' (did you mean 'seed'?)"),
]
RENDERED = [
    Invalid("render claimss", "unknown notebook 'claimss' (did you mean 'claims'?)"),
    Invalid("render ../README", "unknown notebook '../README'"),
    render("", "--parameters is empty; write name=value, like eps=0.1 or seeds=[0,1]"),
    render("eps", "'eps' is not of the form name=value"),
    render("sed=[1]", "unknown parameter 'sed' (did you mean 'seeds'?)"),
    render("eps=0.1 eps=0.2", "parameter eps is given twice, as 0.1 and as 0.2; give it once"),
    render("seeds=0", "did you mean seeds=[0]?"),
    render("seeds=[0.5]", "parameter seeds must be Optional[list[int]], got [0.5]"),
    render("seeds=[]", "seeds must be a list with at least one member, got []"),
    render("seeds=[0,0]", "seeds=[0, 0] names 0 twice; write each once"),
    render("seeds=[-1]", "seed must be 0 or more, got -1"),
    render("seeds=[99999999999999999999]", "seed must be below 4294967296, got 99999999999999999999"),
    render("dataset=digit", "unknown dataset 'digit' (did you mean 'digits'?)"),
    render("datasets=[digits] dataset=digits", "say two things: give one of them"),
    render("defences=[tardes]", "unknown defence 'tardes' (did you mean 'trades'?)"),
    render("eps=8", "did you mean 8/255?"),
    render("eps=1e999999999", "is not a number"),
    render("eval_eps=2", "eval_eps=2 covers the whole range"),
    render("scale=quik", "unknown scale 'quik'", "claims"),
    render("others=[laptp]", "unknown scale 'laptp' (did you mean 'laptop'?)", "claims"),
    render("others=[laptop,laptop]", "others=['laptop', 'laptop'] names 'laptop' twice", "claims"),
    render("paper=tian", "unknown paper 'tian' (did you mean 'tian2021'?)", "tian2021/A-settings"),
    render("section=4-1", "unknown section '4-1'", "tian2021/A-settings"),
    render("attack=fgsmm", "unknown attack 'fgsmm' (did you mean 'fgsm'?)", "audit"),
    render("limit=3", "--limit 3 is less than one image for each of the 10 classes", "audit"),
    render("classes=[stop_sign]", "unknown class 'stop_sign'", "audit"),
    render("weights=none.pt", "there is no file", "audit"),
]
AUDITS = [
    audit("--eps 255", "eps=255 covers the whole range of a pixel, 0 to 1; write a radius below 1, like 8/255"),
    audit("--eps 0", "eps=0 means no attack"),
    audit("--eps 1e-30", "is below 1e-06, about what float32 pixels resolve; write a radius like 8/255"),
    audit("--eps \uff18/255", "is not a number; write a radius like 0.2 or 8/255"),
    audit("--eps 100 --norm l2", "eps=100 covers every image of digits"),
    audit("--norm linff", "unknown norm 'linff' (did you mean 'linf'?)"),
    audit("--attack fgsmm", "unknown attack 'fgsmm' (did you mean 'fgsm'?)"),
    audit("--attack clean", "attack='clean' is no attack"),
    audit("--seed 99999999999999999999999", "seed must be below 4294967296"),
    audit("--limit 3", "--limit 3 is less than one image for each of the 10 classes"),
    audit("--batch 99999999999999999999", "batch must be 16777216 or less"),
    audit("--width 999999", "width must be 65536 or less, got 999999"),
    audit("--width 50000", "width=50000 is too wide for net; leave --width out: the weights have width 4"),
    audit("--width 5", "net and small-cnn of width 5: the weights do not fit the model: other shapes: body.0.weight is (4, "),
    audit("--width 3", "; leave --width out: the weights have width 4"),
    audit("--normalise imagenet", "normalise='imagenet' is not understood"),
    audit("--normalise 0.5/0", "needs as many standard deviations as means, all above 0"),
    audit("--normalise 0.5,0.5/0.2,0.2", "normalise has 2 channels, the images of digits have 1"),
    audit("--normalise 128/64", "divide means and deviations of 0 to 255 by 255"),
    audit("--normalise 0.5/inf", "needs as many standard deviations as means, all above 0"),
    audit("--classes ,", "--classes is empty"),
    audit("--classes stop_sign", "unknown class 'stop_sign'"),
    audit("--skip-bad", "--skip-bad is for your images"),
    audit("--out", "--out is empty; name a file or a folder, or leave it out", last=""),
    audit("--out text.pt/deeper", "text.pt is a file; name a folder"),
    audit("--out /proc/nope", "nothing can be written to /proc"),
    audit("--weights", "--weights is empty", last=""),
    audit("--weights none.pt", "there is no file"),
    audit("--weights folder", "is a folder; name weights, a file .safetensors"),
    audit("--weights /dev/null", "/dev/null is no regular file"),
    audit("--weights pickle.pt", "pickle.pt is not read: it holds more than tensors and could execute code"),
    audit("--weights nan.safetensors", "logits of nan are not finite"),
    audit("--fail-below 20", "--fail-below is 20, and must be a share of the images from 0 to 1; did you mean 0.2?"),
    audit("--fail-below nan", "--fail-below is nan, and must be a share of the images from 0 to 1, such as 0.2"),
    audit("--weights less.safetensors", "missing: head.bias"),
    audit("--weights five.safetensors", "the weights have 5 classes, the dataset has 10; name images of these classes alone"),
    audit("--model resnet81", "unknown model 'resnet81' (did you mean 'resnet18'?)"),
    audit("--model resnet18", "net and resnet18 of width 16: the weights do not fit the model: "),
    audit("--model mnist-cnn", "mnist-cnn needs images of 16x16 pixels or more, got 8x8; these models fit: small-cnn"),
    audit("--model densenet121 --width 7", "densenet121 cannot be 7 channels wide; write one of the multiples of 2"),
    audit("--model my_module:", "is not of the form module:function; write one like my_module:build"),
    audit("--model my-module.py:build", "is not of the form module:function"),
    audit("--model nowhere:build", "there is no module nowhere in"),
    audit("--model nothing:build", "has no attribute 'build'"),
    audit("--model fails:build", "cannot be built: RuntimeError: no disk"),
    audit("--model text:build", "must return a torch.nn.Module, got str"),
    audit("--model broken:build", "cannot be built: SyntaxError"),
    audit("--model other:build", "do not fit"),
    audit("--model other:build --normalise dataset", "normalise='dataset' is for our models"),
    audit("--dataset digit", "unknown dataset 'digit' (did you mean 'digits'?)"),
    audit("--dataset folder:", "names no folder; write folder:PATH"),
    audit("--dataset folder:nowhere", "there is no folder nowhere, neither in"),
    audit("--dataset folder:pictures", "--skip-bad"),
    audit("--dataset folder:pictures?sise=8", "unknown option of folder 'sise' (did you mean 'size'?)"),
    audit("--dataset digits?size=8", "digits takes no path or options"),
]
RECORDED = [
    Invalid("record", "say with --out where the archives go"),
    Invalid("record --scale quick --queue queues/eps.toml", "--scale and --queue both name a queue"),
    Invalid("record --out archives --budget soon", "1h30m, in hours (h), minutes (m) and seconds (s, or no letter), got 'soon'"),
    Invalid("record --out archives --budget 99999999999h", "is longer than this program can wait"),
    Invalid("record --out archives --budget 0s", "a budget must be above 0, got '0s'"),
    Invalid("record --out archives --workers 0", "should be greater than or equal to 1"),
    Invalid("record --scale quik", "unknown scale 'quik' (did you mean 'quick'?)"),
    Invalid("record --scale quick", "scale 'quick' has no queue of its own"),
    Invalid("record --out", "--out is empty", last=""),
    Invalid("record --out archives --queue", "--queue is empty", last=""),
    Invalid("record --out text.pt", "text.pt is a file; name a folder"),
    Invalid("record --out /proc/nope", "nothing can be written to /proc"),
    Invalid("record --out archives --queue none.toml", "there is no queue none.toml"),
    Invalid("record --out archives --queue folder", "folder is a folder; name a file .toml with --queue"),
    record("no-toml", "is not TOML"),
    record("empty", "expected a table [evaluations] and at least one [[entry]]"),
    record("table", "unknown table 'evaluation' (did you mean 'evaluations'?)"),
    record("list", "unknown list of evaluations 'claen' (did you mean 'clean'?)"),
    record("no-list", "unknown list of evaluations 'clean'; there are none"),
    record("key", "unknown key of an entry 'sede'"),
    record("why", "why is missing"),
    record("option", "did you mean 'queries'"),
    record("no-seeds", "seeds is missing"),
    record("weights", "weights must be true or false, got 3"),
    record("no-eps", "without a scale must say"),
    record("scale", "unknown scale 'quik'"),
    record("paper", "unknown paper 'tian'"),
    record("seeds", "seeds must be a list, got 0"),
    record("seed", "seed must be 0 or more, got -1"),
    record("field", "entry 1 (a test): unknown field of a run 'epoch' (did you mean 'epochs'?)"),
    record("type", "epochs must be int, got 'three' (str)"),
    record("dataset", "unknown dataset 'digts' (did you mean 'digits'?)"),
    record("defence", "(seed 0) (a test): unknown defence 'standrad' (did you mean 'standard'?)"),
    record("section", "unknown section 'tian2021/4-1'"),
    record("evaluation", "unknown field of an evaluation 'atack' (did you mean 'attack'?)"),
    record("attack", "unknown attack 'cleen' (did you mean 'clean'?)"),
    record("eps", "did you mean 8/255?"),
    record("epoch", "epoch_images must be 1 or more, got 0"),
    record("epoch-large", "epoch_images=5000 is more than the 1077 training images of digits"),
    record("beyond", "measure=30 is beyond the end of its 24 epochs"),
    record("classes", "unknown class 'cat'"),
    Invalid("import none.tar", "there is no archive none.tar; name one that `classwise record` wrote"),
    Invalid("import folder", "folder is a folder; name one that `classwise record` wrote"),
    Invalid("import", "the name of an archive is empty", last=""),
    Invalid("import text.pt", "is no archive of `classwise record`"),
    Invalid("import foreign.tar", "it does not begin with manifest.json"),
    Invalid("import manifest.tar", "has a damaged manifest.json"),
    Invalid("import format.tar", "is of the format 'classwise recorded 9'"),
    Invalid("import escapes.tar", "names '../../here/x/spec.json'"),
    Invalid("import foreign.tar none.tar", "there is no archive none.tar"),
]
ENVIRONMENT = [
    Invalid("list", "CLASSWISE_DATA text.pt is a file; name a folder", environment={"CLASSWISE_DATA": "text.pt"}),
    Invalid("list", "there are no runs in nowhere yet", 0, {"CLASSWISE_DATA": "nowhere"}),
    Invalid("show abc", "there are no runs yet in nowhere", environment={"CLASSWISE_DATA": "nowhere"}),
    *(
        Invalid(words, "nothing can be written to /proc", environment={"CLASSWISE_DATA": "/proc/nope"})
        for words in ("run", f"render {SECTION}", "book", "import manifest.tar", "record --out archives", AUDIT)
    ),
    audit("", "CLASSWISE_DEVICE='gpu' is no device; write cpu, cuda or cuda:1", CLASSWISE_DEVICE="gpu"),
    Invalid("run", "CLASSWISE_DEVICE='xpu' is no device", environment={"CLASSWISE_DEVICE": "xpu"}),
    Invalid("run", "CLASSWISE_COMPILE='inductr' is no backend", environment={"CLASSWISE_COMPILE": "inductr"}),
    audit("--dataset mnist", "CLASSWISE_IMAGES text.pt is a file; name a folder", CLASSWISE_IMAGES="text.pt"),
    audit("--dataset mnist", "nothing can be written to /proc", CLASSWISE_IMAGES="/proc/nope"),
    audit("", "CLASSWISE_DEVICE='cuda:99'", CLASSWISE_DEVICE="cuda:99"),
    Invalid("run --dry-run", "CLASSWISE_DEVICE='cuda:99'", environment={"CLASSWISE_DEVICE": "cuda:99"}),
    Invalid("serve", "there is no book in"),
    Invalid("zip", "there is no book in"),
]
CASES = [*COMMANDS, *RUNS, *STORED, *RENDERED, *AUDITS, *RECORDED, *ENVIRONMENT]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder with all that a command may name, and a data folder with a run and a damaged one."""
    place = tmp_path_factory.mktemp("invalid")
    for name, code in MODULES.items():
        (place / f"{name}.py").write_text(code)
    for folder in ("folder", "queues", "data/runs", "pictures/a", "pictures/b"):
        (place / folder).mkdir(parents=True)
    for name, text in QUEUES.items():
        (place / "queues" / f"{name}.toml").write_text(text)
    (place / "text.pt").write_text("no weights")
    (place / "pickle.pt").write_bytes(pickle.dumps({"a": Path()}))
    digits = images.load("digits", "test", 0)
    weights = models.build("small-cnn", digits, 4).state_dict()
    five = models.build("small-cnn", digits.only(digits.classes[:5]), 4).state_dict()
    safetensors.torch.save_file(weights, place / "net.safetensors")
    safetensors.torch.save_file(five, place / "five.safetensors")
    safetensors.torch.save_file({name: value * torch.nan for name, value in weights.items()}, place / "nan.safetensors")
    safetensors.torch.save_file({name: weights[name] for name in weights if name != "head.bias"}, place / "less.safetensors")
    for number in range(3):
        Image.new("L", (8, 8), 50 * number).save(place / "pictures" / "a" / f"{number}.png")
        (place / "pictures" / "b" / f"{number}.png").write_bytes(b"no picture")
    with pytest.raises(UserError, match="skip-bad"):
        images.load(f"folder:{place / 'pictures'}", "test")  # which caches what it reads
    _archives(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLASSWISE_DATA", str(place / "data"))
        for spec in (SPEC, DAMAGED):
            history = mocks.dataset().assign_attrs(store.provenance(spec, "a device", 1))
            results.save(history, store.HISTORY, store.run_folder(spec) / "history.nc")
        damaged = store.run_folder(DAMAGED) / "history.nc"
        damaged.write_bytes(damaged.read_bytes()[:2000])
    return place


def _archives(place):
    runs = {"../../here/x": {"evaluations": [], "files": {}}}
    head = {"format": "classwise recorded 1", "recipe": 1, "schemas": [], "runs": runs}
    contents = {
        "foreign": ("readme.txt", b"hello"),
        "manifest": ("manifest.json", b"{"),
        "format": ("manifest.json", json.dumps(head | {"format": "classwise recorded 9"}).encode()),
        "escapes": ("manifest.json", json.dumps(head).encode()),
    }
    for name, (member, content) in contents.items():
        with tarfile.open(place / f"{name}.tar", "w") as tar:
            about = tarfile.TarInfo(member)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))


def state(place):
    """Return the size and the time of change of each file below a folder, and its folders."""
    paths = [path for path in sorted(place.rglob("*")) if "__pycache__" not in path.parts]
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) if path.is_file() else () for path in paths}


def words_of(case):
    return [*case.words.split(), *([] if case.last is None else [case.last])]


def environment_of(case, place):
    return {"CLASSWISE_DATA": str(place / "data"), "CLASSWISE_IMAGES": str(place), "COLUMNS": "400", **case.environment}


def check(case, code, out, error, before, place):
    assert code == case.code, error
    assert case.says in error
    assert out == ""
    assert len(error.strip().splitlines()) == 1
    assert error.startswith("classwise: ") or code == 0
    assert state(place) == before


def started(*_, **__):
    raise AssertionError("something was started")


def title(case):
    return " ".join([*case.words.split(), repr(case.last) if case.last is not None else "", *case.environment.values()])


def test_there_are_enough_slips_and_none_twice():
    assert len(CASES) >= 150
    assert len({title(case) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=title)
def test_a_slip_is_answered_in_one_line_and_leaves_nothing_behind(workplace, case, monkeypatch, capsys):
    monkeypatch.chdir(workplace)
    monkeypatch.setattr(sys, "argv", ["classwise", *words_of(case)])
    monkeypatch.setattr("classwise.core.paths.build_folder", lambda: workplace / "build")
    monkeypatch.setattr("classwise.book.build.build_folder", lambda: workplace / "build")
    for name in STARTS:
        monkeypatch.setattr(f"classwise.{name}", started)
    for name, value in environment_of(case, workplace).items():
        monkeypatch.setenv(name, value)
    before = state(workplace)
    with pytest.raises(SystemExit) as stopped:
        main()
    told = capsys.readouterr()
    check(case, stopped.value.code, told.out, told.err, before, workplace)


def test_slips_are_answered_likewise_by_processes(workplace):
    chosen = [case for case in CASES if case.words.endswith(("--scheduler here", "--attack fgsmm"))]
    before, started = state(workplace), []
    for case in chosen:
        environment = os.environ | environment_of(case, workplace)
        command = [sys.executable, "-B", "-m", "classwise", *words_of(case)]
        started.append(subprocess.Popen(command, cwd=workplace, env=environment, stdout=-1, stderr=-1, text=True))
    for case, process in zip(chosen, started, strict=True):
        out, error = process.communicate(timeout=300)
        check(case, process.returncode, out, error, before, workplace)


# What takes seconds to import, and what only pages, pictures and tests of claims need.
SLOW = ["torch", "altair", "papermill", "nbformat", "nbconvert", "IPython", "ipywidgets", "jupyter_book", "matplotlib"]
SLOW += ["sklearn", "statsmodels", "scipy.stats", "networkx", "torchvision", "distributed"]
WITHOUT_SLOW = """
import json, sys
from classwise.__main__ import main
slow = set(json.loads(sys.argv[2]))
for words in json.loads(sys.argv[1]):
    sys.argv = ["classwise", *words]
    try:
        main()
    except SystemExit:
        pass
    if slow & set(sys.modules):
        raise SystemExit(f"{slow & set(sys.modules)} imported by {words}")
"""


def test_commands_list_show_and_check_their_input_before_what_is_slow_is_imported(workplace):
    checked = ("record", "--budget soon", "record --scale quik")
    cases = [*COMMANDS, *RUNS, *STORED, *(case for case in RECORDED if case.words.endswith(checked))]
    invalid = [words_of(case) for case in cases if case.environment == {}]
    words = [["list"], ["show", SPEC.id], *invalid]
    environment = os.environ | environment_of(COMMANDS[0], workplace)
    command = [sys.executable, "-B", "-c", WITHOUT_SLOW, json.dumps(words), json.dumps(SLOW)]
    done = subprocess.run(command, cwd=workplace, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-1000:]
    assert done.stderr.count("classwise: ") == len(invalid)
