"""An audit at the door: what the user names becomes an Audit; torch is imported only when it is asked for."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from classwise.core.audit import Audit
from classwise.core.errors import UserError
from classwise.papers import sections
from classwise.runs import artifacts, ensure, store
from classwise.runs.compute import user_module

if TYPE_CHECKING:
    from classwise.images import Images

# The weights that are audited where none are named: the first adversarial training of the study.
EXAMPLE = ("quick", "pgd-at", 0)
# Names of files that say nothing of the network: it is then called after the folder.
_BLAND = ("weights", "model", "checkpoint", "best", "last")


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
    """Return the audit of a file of weights; without one, of a network of this study, trained first if need be.

    limit: so many images in all, the same number of each class (all of a class that has fewer). batch: None for an eighth of
    the images, 8 to 50. home, out: folders, None for the current one and for data/audits/. The rest is described at `Audit`. A
    slip is a UserError; nothing is computed yet.
    """
    path = _example() if weights is None else Path(weights).expanduser().resolve()
    if path.is_dir() and (path / store.WEIGHTS).is_file():
        path = path / store.WEIGHTS  # of a run
    if not path.is_file():
        raise UserError(f"there is no file {path}; give the weights of a network, as .safetensors or a state dict in .pt")
    asked = Audit(
        network=path.parent.name if path.stem in _BLAND else path.stem,
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
        asked = replace(asked, code=user_module.digest(user_module.module_file(model, asked.home)))
    return _resolved(asked, limit, batch, skip_bad=skip_bad)


def _named(dataset: str, *, skip_bad: bool) -> str:
    """Return the name of a dataset as it is audited: a folder means the same from anywhere, and all of it is asked about."""
    from classwise import images

    kind = dataset.partition("?")[0].partition(":")[0]
    if kind not in images.FAMILIES:
        if skip_bad:
            raise UserError(f"--skip-bad is for images of your own, folder:PATH; {dataset} has no bad ones")
        return dataset
    name, _, asked = images.absolute(dataset).partition("?")
    options = [asked, "whole=1" if kind == "folder" else "", "skip-bad=1" if skip_bad else ""]
    given = "&".join(filter(None, options))
    return f"{name}?{given}" if given else name


def _resolved(asked: Audit, limit: int | None, batch: int | None, *, skip_bad: bool) -> Audit:
    """Return an audit with what only its images can tell, after checking its names."""
    from classwise.runs import audit_evaluation
    from classwise.runs.compute import foreign_network

    asked = replace(asked, dataset=_named(asked.dataset, skip_bad=skip_bad))
    audit_evaluation.check(asked)
    whole = audit_evaluation.images_of(asked)
    per_class = None if limit is None else _per_class(limit, whole)
    asked = replace(asked, per_class=per_class, reach=math.prod(whole.shape) ** 0.5)
    some = foreign_network.drawn(asked, whole)
    size = batch if batch is not None else min(max(len(some) // 8, 8), 50)
    return replace(asked, images=foreign_network.images_digest(some), batch=size)


def _example() -> Path:
    """Return the weights of the example."""
    spec = sections.training(*EXAMPLE)
    if store.weights(spec) is None:
        ensure.ensure_results([(spec, [])])
    path = store.weights(spec)
    if path is None:
        raise UserError(f"the weights of {spec.name} are not here, only its results; name the weights of your network")
    return path


def _per_class(limit: int, whole: "Images") -> int:
    if limit < len(whole.classes):
        raise UserError(f"--limit {limit} is less than one image for each of the {len(whole.classes)} classes")
    return limit // len(whole.classes)


def carry_out(audit: Audit, console: Console | None = None) -> int:
    """Compute all that the report of an audit shows, and return how many questions were asked."""
    from classwise.runs.audit_evaluation import ensure_audit  # torch

    asked = ensure_audit(audit, [*audit.evaluations, *audit.curve], console)
    artifacts.features(audit)
    artifacts.examples(audit, audit.cheap)
    return asked
