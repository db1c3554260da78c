"""Sanity warnings: the sanity checks of an evaluation (`attacks.sanity`) in plain words.

An attack that fails, because it finds no gradients for example, makes a network look robust (Carlini et al. 2019).
"""

import json
from collections.abc import Mapping
from typing import Any

import xarray as xr

from classwise.core.results import BLACK_BOX_MEMBERS
from classwise.core.spec import Evaluation

BLACK_BOX_AHEAD = "a black-box attack breaks images that no white-box attack breaks"
# A warning is given above these shares: of images, and of the spread of the logits.
_IMAGES = 0.01
RULE = (
    f"A check of images is a warning above {100 * _IMAGES:g} % of them. A black-box attack is compared with all white-box "
    "attacks on the same network at the same radius, on the images that all of them were evaluated on."
)
_NOISE = 1e-4


def stored_warnings(data: xr.Dataset) -> dict[str, str]:
    """Return the sanity warnings of stored outcomes; empty if there are none, or the outcomes were not checked."""
    checks: dict[str, Any] = json.loads(data.attrs.get("checks") or "{}")
    return sanity_warnings(checks, data.sizes["image"]) if checks else {}


def sanity_warnings(checks: Mapping[str, Any], images: int) -> dict[str, str]:
    """Return the warnings that follow from the sanity checks of an attack on `images` images, each with its figure."""
    noise = _NOISE * max(checks["spread"], 1e-6)
    unmoved = checks.get("unmoved", 0.0)
    broken = checks.get("broken_by", {})
    black = sum(broken.get(name, 0) for name in BLACK_BOX_MEMBERS)
    warnings = {
        "gradients vanish and the attack does not move": (
            checks["zero_gradients"] > _IMAGES,
            f"{checks['zero_gradients']:.0%} of the images",
        ),
        "the attack left images unchanged that it did not break": (unmoved > _IMAGES, f"{unmoved:.0%} of them"),
        "predictions change when repeated": (checks["randomised"] > noise, f"logits by {checks['randomised']:.2g}"),
        "predictions depend on the batch": (
            checks["batch_dependent"] > 100 * noise,
            f"logits by {checks['batch_dependent']:.2g}",
        ),
        "outputs look like probabilities": (checks["probabilities"], "all in [0, 1], summing to 1"),
        "layers stay in train mode": (checks["training"], ", ".join(checks["training"][:3])),
        "attacked images lie outside the ball and count as unbroken": (checks["outside"], str(checks["outside"])),
        BLACK_BOX_AHEAD: (black > _IMAGES * images, f"{black} of {images}"),
    }
    return {sentence: figure for sentence, (applies, figure) in warnings.items() if applies}


def black_box_ahead(outcomes: list[tuple[str, xr.Dataset]]) -> list[str]:
    """Return the names of the black-box attacks that break more than 1 % of the images that no white-box attack breaks.

    The outcomes are those of one network at one radius, by name. Only images that all white-box attacks were evaluated on count.
    """
    black: list[tuple[str, xr.DataArray]] = []
    white: list[tuple[str, xr.DataArray]] = []
    for name, data in outcomes:
        evaluation = Evaluation.from_json(data.attrs["evaluation"])
        if evaluation.substitute is None and evaluation.attack != "clean":
            # Black-box attacks, and only they, count queries.
            (black if "queries" in data else white).append((name, data.flipped))
    if not white:
        return []
    unbroken = ~xr.concat([flipped for _, flipped in white], "white", join="inner").any("white")
    pairs = [(name, xr.align(flipped, unbroken, join="inner")) for name, flipped in black]
    return [name for name, (broken, left) in pairs if len(left) and float((broken & left).mean()) > _IMAGES]
