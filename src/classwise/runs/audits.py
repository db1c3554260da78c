"""Audits of users' networks: from the options of the command line to an Audit, checked; torch is imported when needed."""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import xarray as xr
from rich.console import Console

from classwise.core import datasets
from classwise.core.audit import Audit
from classwise.core.errors import NotRecorded, UserError, unknown
from classwise.core.paths import check_file, data_folder
from classwise.core.spec import Spec
from classwise.papers import registry
from classwise.papers.scales import FINE_TUNED, SCALES
from classwise.runs import describe, ensure, load, store
from classwise.runs.store import EXAMPLES, FEATURES, OUTCOMES, Key
from classwise.stats import combine, masking

if TYPE_CHECKING:
    from torch import nn

    from classwise.images import Images

# The file of the numbers of an audit, in its folder.
REPORT = "report.json"
# The defence that is audited by default.
_EXAMPLE = "pgd-at"
# What published networks are evaluated by: on all clean test images, and under attack on the images of their audit.
_CASES: dict[str, dict[str, Any]] = {"clean": {"per_class": None}}
_CASES |= {f"at {eps}": {"attack": "strong", "options": {"steps": 20}, "eps": eps} for eps in ("2/255", "4/255")}
# Names of files that do not name a network; the folder does then.
_GENERIC = ("weights", "model", "checkpoint", "best", "last")


def audit(
    weights: "str | nn.Module | None" = None,
    *,
    model: str = "small-cnn",
    width: int | None = None,
    normalise: str = "none",
    dataset: "str | Images" = "digits",
    attack: str = "strong",
    eps: str | float = "0.2",
    norm: str = "linf",
    limit: int | None = None,
    seed: int = 0,
    batch: int | None = None,
    skip_bad: bool = False,
    home: str | None = None,
    out: str | None = None,
    classes: Sequence[str] | None = None,
) -> Audit:
    """Return the audit of a file of weights; by default of a network of this study, which is trained first if necessary.

    weights: a file, the folder of a run, or the name of a defence, such as "trades": the network of the book; the folder of an
    audit with its report.json is that audit, whatever the other options say; a network of this program, which takes pixels in
    [0, 1] and returns logits, is audited as a copy, whatever model and width are. dataset: a name, or the images. limit: the
    number of images, the same of each class (all of a class that has fewer). batch: None for an eighth of the images, from 8 to
    50. home, out: folders, None for the current one and for data/audits/. classes: those that are critical, only checked. For
    the others see `Audit`. A wrong option is a UserError, before anything is trained. No outcomes are computed.
    """
    if isinstance(weights, str | Path) and (Path(weights) / REPORT).is_file():
        return _stored(Path(weights).resolve())
    from torch import nn

    from classwise.runs.compute import audited_network

    given = weights if isinstance(weights, nn.Module) else None
    if given is None and not isinstance(weights, str | Path | None):
        raise UserError(f"weights are a {type(weights).__name__}; give a torch.nn.Module, or the name of a file")
    name = str(weights or _EXAMPLE) if given is None else type(given).__name__
    path = _file(name) if given is None else None
    settings: dict[str, Any] = {"width": width, "normalise": normalise, "attack": attack, "eps": str(eps), "norm": norm}
    settings |= {"seed": seed, "home": str(Path(home or ".").resolve()), "out": str(Path(out).resolve()) if out else ""}
    settings |= {"model": model if given is None else f"given:{name}", "dataset": _absolute(dataset, skip_bad=skip_bad)}
    result = Audit(network=name, sha256="", **settings)
    if given is None and ":" in model:
        result = replace(result, code=audited_network.code_digest(model, result.home))
    result = _with_images(result, classes or (), limit, batch)
    if given is not None:
        return replace(result, sha256=audited_network.keep(given, result))
    _check_split(path := path or _of_defence(name, model, result.dataset), result.dataset)
    network = path.parent.name if path.stem in _GENERIC else path.stem
    return replace(result, network=network, sha256=audited_network.digest(path), weights=str(path))


def _registered(given: "Images") -> str:
    """Return the name that images of this program have from now on; a UserError for other objects, and for wrong labels."""
    from classwise.images import Images  # torch
    from classwise.runs.compute.audited_network import images_digest

    if not isinstance(given, Images):
        form = "classwise.images.Images of pixels (uint8), labels, their positions, and the names of the classes"
        raise UserError(f"images are a {type(given).__name__}; give the name of a dataset, or {form}")
    labels, known = set(given.labels.tolist()), set(range(len(given.classes)))
    if labels != known:
        problem = f"labels of {len(known)} classes are 0 to {len(known) - 1}, each at least once"
        raise UserError(
            f"{problem}; got {min(labels, default=None)} to {max(labels, default=None)}, {len(labels)} different ones"
        )

    def read(split: str, seed: int) -> "Images":
        if split != "test":
            raise UserError("images that a program hands over are test images")
        return given

    datasets.DATASETS[name := f"given-{images_digest(given)}"] = datasets.DatasetInfo(read, classes=given.classes)
    return name


def _with_images(audit: Audit, classes: Sequence[str], limit: int | None, batch: int | None) -> Audit:
    """Return an audit with the choice and the digest of its images; a UserError if it names something that does not exist."""
    from classwise.runs import audit_evaluation  # torch
    from classwise.runs.compute import audited_network

    available = audit_evaluation.check(audit, classes, limit)
    audit = replace(audit, per_class=limit and limit // len(available.classes), reach=math.prod(available.shape) ** 0.5)
    sample = audited_network.sample(audit, available)
    batch = min(max(len(sample) // 8, 8), 50) if batch is None else batch
    return replace(audit, images=audited_network.images_digest(sample), batch=batch)


def _stored(folder: Path) -> Audit:
    """Return the audit that was carried out in a folder, as its report says."""
    try:
        result = Audit.from_json(json.dumps(json.loads((folder / REPORT).read_text(encoding="utf-8"))["audit"]))
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder / REPORT} is no report of an audit ({error}); carry the audit out again") from None
    if result.name != folder.name:
        raise UserError(f"{folder} is the folder of another audit than its {REPORT}, which is of {result.name}; rename it")
    return replace(result, out=str(folder.parent))


def _file(weights: str) -> Path | None:
    """Return the file of weights that is meant, also by the folder of a run; None for the name of a defence."""
    from classwise.defences import DEFENCES  # torch

    path = Path(weights).expanduser().resolve()
    if path.is_dir() and (path / store.WEIGHTS).is_file():
        return path / store.WEIGHTS
    if not path.exists() and weights in DEFENCES:
        return None
    if not path.exists() and re.fullmatch(r"[\w-]+", weights):
        raise unknown("file or defence", weights, DEFENCES)
    check_file(path, "file", "name weights, a file .safetensors or a state dict in .pt, or a defence such as trades")
    return path


def _check_split(path: Path, dataset: str) -> None:
    """Raise a UserError for a run of another seed than the test images of the audit, 0, on a dataset that it splits."""
    from classwise import images
    from classwise.runs.compute.audited_network import images_digest  # torch

    history, spec = (path.parent / name for name in ("history.nc", "spec.json"))
    if not (history.is_file() and spec.is_file()) or ":" in dataset:  # all images of a folder are audited
        return
    run = Spec.from_json(spec.read_text(encoding="utf-8"))
    if run.seed and datasets.base_dataset(run.dataset) == datasets.base_dataset(dataset):
        tested = {images_digest(images.load(dataset, "test", seed)) for seed in (0, run.seed)}
        if len(tested) > 1:
            problem = f"{dataset} is split by the seed: {run.name} (seed {run.seed}) was trained on images of the audit"
            raise UserError(f"{problem}; name the weights of a run with seed 0, or other images by --dataset")


def _absolute(dataset: "str | Images", *, skip_bad: bool) -> str:
    """Return the name of a dataset that means the same in any working folder; all images of a folder are test images."""
    from classwise import images

    dataset = dataset if isinstance(dataset, str) else _registered(dataset)
    datasets.check(dataset)
    kind = dataset.partition("?")[0].partition(":")[0]
    if kind not in datasets.datasets_with_options():
        if skip_bad:
            raise UserError(f"--skip-bad is for your images, folder:PATH; {dataset} has no unreadable files")
        return dataset
    name, _, options = images.absolute(dataset).partition("?")
    options = "&".join(filter(None, [options, "whole=1" if kind == "folder" else "", "skip-bad=1" if skip_bad else ""]))
    return f"{name}?{options}" if options else name


def _of_defence(name: str, model: str, dataset: str) -> Path:
    """Return the weights of a defence as a scale trains this model on this dataset; on digits it is trained if necessary."""
    specs = {scale: registry.training(scale, name, 0) for scale in SCALES}
    specs = {scale: spec for scale, spec in specs.items() if (spec.model, spec.dataset) == (model, dataset)}
    if "quick" in specs:
        base = [registry.training("quick", one, 0) for one in (FINE_TUNED.get(name),) if one]
        ensure.ensure_results([Key(spec) for spec in (*base, specs["quick"])])
    path = next((path for spec in specs.values() if (path := store.weights(spec))), None)
    if path is None:
        raise UserError(f"no weights of {name} for {model} on {dataset} are stored; name the weights of your network")
    return path


def run_audit(audit: Audit, console: Console | None = None) -> int:
    """Compute everything that the report of an audit shows, and return the number of evaluations that were missing."""
    from classwise.runs.audit_evaluation import ensure_keys  # torch

    keys = store.outcomes_of([(audit, [*audit.evaluations, *audit.curve])])
    keys += [Key(audit, FEATURES, audit.evaluation_of()), Key(audit, EXAMPLES, audit.cheap)]
    weaker = ", a weaker attack by --attack pgd-20" * (audit.attack in masking.THOROUGH)
    return ensure_keys(keys, console, f"; shorter: fewer images by --limit{weaker}")


def audit_outcomes(audit: Audit) -> xr.Dataset:
    """Return the outcomes of an audit along attack, under each attack and in the worst case, as `stats.masking` has them."""
    outcomes, curve = (load.outcomes([audit], some) for some in (audit.evaluations, audit.curve))
    same = {name: getattr(audit, name) for name in ("images", "attack", "eps", "norm")}
    return masking.worst_case_outcomes(outcomes, curve, audit.eps).assign_attrs(same)


def audit_against(first: Audit, weights: "str | nn.Module", **options: Any) -> Audit:
    """Return the audit of other weights with the same options; a UserError if they are the same weights or do not fit."""
    from classwise.runs.compute import audited_network  # torch

    other = audit(weights, **options)
    if not isinstance(weights, str) and other.network == first.network:
        other = replace(other, network=f"{other.network}-2")
    if other.sha256 == first.sha256:
        name = weights if isinstance(weights, str) else other.network
        raise UserError(f"--against {name} holds the same weights as --weights; name others")
    audited_network.network(other)
    return other


def audit_checks(audit: Audit) -> dict[str, dict[str, Any]]:
    """Return the sanity checks of the stored evaluations of an audit by attack and radius, for `stats.masking.warnings`."""
    stored = {one: Key(audit, OUTCOMES, one).read() for one in dict.fromkeys([*audit.evaluations, *audit.curve])}
    return {f"{one.attack} at {one.eps}": json.loads(data.attrs["checks"]) for one, data in stored.items() if data is not None}


def published_networks(files: str | None = None) -> tuple[pd.DataFrame, xr.Dataset]:
    """Return the table data/recorded/audits/networks.csv of published networks and ours, and their outcomes.

    Outcomes are along network and attack: of all clean test images, and of 100 of each class at two radii. What is not recorded
    has truth -1, a network without any is left out. files: a folder of downloaded weights, known by their sha256; what lacks of
    them is computed into data/audits/. A UserError if it has none of the table.
    """
    home = data_folder() / "recorded" / "audits"
    if not (home / "networks.csv").is_file():
        raise NotRecorded(f"there is no table of published networks, {home / 'networks.csv'}")
    table = pd.read_csv(home / "networks.csv", index_col="network").fillna({"note": ""})
    paths = [path.resolve() for path in Path(files).expanduser().glob("*") if path.is_file()] if files else []
    here = {hashlib.sha256(path.read_bytes()).hexdigest(): str(path) for path in paths}
    if files and not here.keys() & set(table["sha256"]):
        raise UserError(f"no file in {files} has the sha256 of a row of {home / 'networks.csv'}; download one, or add its row")
    rows = []
    for _, row in table.iterrows():
        audit = _published(row, here, home)
        for attack, fields in _CASES.items():
            key = Key(audit, OUTCOMES, audit.evaluation_of(**fields))
            data = ensure.get(key) if audit.weights else key.read()
            if data is not None:
                data = data.drop_vars(("logits", "distance", "member"), errors="ignore")
                rows.append(({"network": audit.network, "attack": attack}, data))
    return table, combine.combine_rows(rows).assign_attrs(describe.provenance_attributes(rows))


def _published(row: Any, here: Mapping[str, str], home: Path) -> Audit:
    """Return the audit of a row of the table, whose module is in `home`; here: files of weights by their sha256."""
    from classwise.runs.compute.audited_network import code_digest  # torch

    code = code_digest(row.model, str(home)) if ":" in row.model else ""
    given: dict[str, Any] = {"network": row.name, "weights": here.get(row.sha256, ""), "home": str(home), "code": code}
    given |= row[["sha256", "model", "normalise"]].to_dict()
    return Audit(dataset="cifar10", eps="4/255", per_class=100, batch=250, **given)
