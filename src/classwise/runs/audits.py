"""Audits of users' networks: from the options of the command line to an Audit, checked; torch is imported when needed."""

import json
import math
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from classwise.core.audit import Audit
from classwise.core.datasets import with_options
from classwise.core.errors import UserError, unknown
from classwise.core.names import names
from classwise.core.paths import check_file
from classwise.papers import registry
from classwise.papers.scales import SCALES
from classwise.runs import artifacts, ensure, store
from classwise.runs.compute import user_module

if TYPE_CHECKING:
    from classwise.images import Images

# The defence that is audited by default.
_EXAMPLE = "pgd-at"
# The attack that is advised where an audit takes long.
_QUICK = "pgd-20"
# Seconds that features, examples and the report take after the evaluations.
_REPORT = 20.0
# Names of files that do not name a network; the folder does then.
_GENERIC = ("weights", "model", "checkpoint", "best", "last")


def audit(
    weights: str | None = None,
    *,
    model: str = "small-cnn",
    width: int | None = None,
    normalise: str = "none",
    dataset: str = "digits",
    attack: str = "strong",
    eps: str | float = "0.2",
    norm: str = "linf",
    limit: int | None = None,
    seed: int = 0,
    batch: int | None = None,
    skip_bad: bool = False,
    home: str | None = None,
    out: str | None = None,
) -> Audit:
    """Return the audit of a file of weights; by default of a network of this study, which is trained first if necessary.

    weights: a file, the folder of a run, or the name of a defence, such as "trades": the network of the book.
    limit: number of images, the same of each class (all of a class that has fewer). batch: None for an eighth of the images, from
    8 to 50. home, out: folders, None for the current one and for data/audits/. For the others see `Audit`. A wrong option is a
    UserError. No outcomes are computed.
    """
    path = _of_defence(weights or _EXAMPLE, model, dataset) or Path(weights or "").expanduser().resolve()
    if path.is_dir() and (path / store.WEIGHTS).is_file():
        path = path / store.WEIGHTS  # of a run
    if weights and not path.exists() and re.fullmatch(r"[\w-]+", weights):
        raise unknown("file or defence", weights, names("defence"))
    check_file(path, "file", "name the weights of a network, a file .safetensors or a state dict in .pt")
    result = Audit(
        network=path.parent.name if path.stem in _GENERIC else path.stem,
        sha256=user_module.digest(path),
        dataset=dataset,
        eps=str(eps),
        norm=norm,
        model=model,
        width=width,
        normalise=normalise,
        attack=attack,
        seed=seed,
        weights=str(path),
        home=str(Path(home).resolve()) if home else "",
        out=str(Path(out).resolve()) if out else "",
    )
    if ":" in model:
        result = replace(result, code=user_module.digest(user_module.module_file(model, result.home)))
    return _resolved(result, limit, batch, skip_bad=skip_bad)


def _absolute(dataset: str, *, skip_bad: bool) -> str:
    """Return the name of a dataset that means the same in any working folder; all images of a folder are test images."""
    from classwise import images

    kind = dataset.partition("?")[0].partition(":")[0]
    if kind not in with_options():
        if skip_bad:
            raise UserError(f"--skip-bad is for your images, folder:PATH; {dataset} has no unreadable files")
        return dataset
    name, _, options = images.absolute(dataset).partition("?")
    options = "&".join(filter(None, [options, "whole=1" if kind == "folder" else "", "skip-bad=1" if skip_bad else ""]))
    return f"{name}?{options}" if options else name


def _resolved(audit: Audit, limit: int | None, batch: int | None, *, skip_bad: bool) -> Audit:
    """Return an audit, after checking its names, with the fields that depend on its images."""
    from classwise.runs import audit_evaluation
    from classwise.runs.compute import foreign_network, validate

    audit = replace(audit, dataset=_absolute(audit.dataset, skip_bad=skip_bad))
    audit_evaluation.check(audit)
    available = validate.images_of(audit, "test")
    per_class = None if limit is None else _per_class(limit, available)
    audit = replace(audit, per_class=per_class, reach=math.prod(available.shape) ** 0.5)
    sample = foreign_network.sample(audit, available)
    size = batch if batch is not None else min(max(len(sample) // 8, 8), 50)
    return replace(audit, images=foreign_network.images_digest(sample), batch=size)


def _of_defence(name: str, model: str, dataset: str) -> Path | None:
    """Return the weights of a defence of that name as a scale trains this model on this dataset; None if it is none, or a file.

    On digits it is trained first if necessary.
    """
    if Path(name).exists() or name not in names("defence"):
        return None
    specs = {scale: registry.training(scale, name, 0) for scale in SCALES}
    specs = {scale: spec for scale, spec in specs.items() if (spec.model, spec.dataset) == (model, dataset)}
    if "quick" in specs:
        ensure.ensure_results([(specs["quick"], [])])
    path = next((path for spec in specs.values() if (path := store.weights(spec))), None)
    if path is None:
        raise UserError(f"no weights of {name} for {model} on {dataset} are stored; name the weights of your network")
    return path


def _per_class(limit: int, images: "Images") -> int:
    if limit < len(images.classes):
        raise UserError(f"--limit {limit} is less than one image for each of the {len(images.classes)} classes")
    return limit // len(images.classes)


def carry_out(audit: Audit, console: Console | None = None) -> int:
    """Compute everything that the report of an audit shows, and return the number of evaluations that were missing."""
    from classwise.runs.audit_evaluation import ensure_evaluations, fast_threads  # torch

    evaluations = [*audit.evaluations, *audit.curve]
    with fast_threads(audit, evaluations):
        computed = ensure_evaluations(audit, evaluations, console, partial(_shorter, audit), _REPORT)
        artifacts.features(audit)
        artifacts.examples(audit, audit.cheap)
    return computed


def audit_checks(audit: Audit) -> dict[str, dict[str, Any]]:
    """Return the sanity checks of the stored evaluations of an audit by attack and radius, for `stats.masking.warnings`."""
    stored = {one: store.Key(audit, store.OUTCOMES, one).read() for one in dict.fromkeys([*audit.evaluations, *audit.curve])}
    return {f"{one.attack} at {one.eps}": json.loads(data.attrs["checks"]) for one, data in stored.items() if data is not None}


def _shorter(audit: Audit, total: int) -> list[str]:
    """Return the options of the command line that shorten an audit of so many images."""
    from classwise import attacks
    from classwise.runs.compute import validate

    classes = len(validate.class_names(audit))
    fewer = max(total // 4, classes)
    ways = [f"--limit {fewer} takes about {100 * fewer / total:.0f} % of that"] if fewer < total else []
    quicker = attacks.build(_QUICK).cost(classes).rows < attacks.build(audit.attack).cost(classes).rows
    return [*ways, f"--attack {_QUICK} is quicker and weaker"] if quicker else ways
