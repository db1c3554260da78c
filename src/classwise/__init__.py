"""Class-wise adversarial robustness: attacks, defences and per-class results that can be rerun."""

from pathlib import Path
from pkgutil import resolve_name
from typing import Any

__version__ = "0.2.0"


def audit(network: Any, images: Any, eps: str | float, **options: Any) -> tuple[Path, dict[str, Any]]:
    """Audit a network class by class, and return the page of the report and its numbers, as in report.json.

    network: a module of torch that takes pixels in [0, 1] and returns logits, of which a copy is audited, or what
    `classwise audit` accepts as --weights. images: the test images, as `images.Images`, or the name of a dataset. eps: the
    radius, like "8/255". options: those of `runs.audit`, such as attack="strong", norm="linf", limit=200, normalise, out;
    against: another network, compared image by image. A UserError says what is wrong before anything is attacked; what is
    finished of the same audit is kept.
    """
    # By its name: every module imports this one.
    carry_out = resolve_name("classwise.book.audits:audit_in_full")
    page, numbers = carry_out(network, images, eps=eps, **options)
    return page, numbers
