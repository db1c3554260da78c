"""Sanity warnings: the sanity checks of an evaluation (`attacks.sanity`) in plain words.

An attack that fails, because it finds no gradients for example, makes a network look robust (Carlini et al. 2019).
"""

import json
from collections.abc import Mapping
from typing import Any

import xarray as xr

from classwise.core.results import BLACK_BOX_MEMBERS
from classwise.core.spec import Evaluation
from classwise.stats import intervals

BLACK_BOX_AHEAD = "a black-box attack breaks images that no white-box attack breaks"
VANISH, _UNMOVED = "gradients vanish and the attack does not move", "the attack left images unchanged that it did not break"
_FLAT = "gradients vanish, and the logits are the same at 16 corners of the ball"
_SATURATED = "gradients vanish, since the softmax is exactly 0 or 1"
_REPEATED, _BATCH, _TRAIN = "predictions change when repeated", "predictions depend on the batch", "layers stay in train mode"
_PROBABILITIES = "outputs look like probabilities"
_OUTSIDE = "attacked images lie outside the ball and count as unbroken"
# What a warning indicates.
HIDDEN, SATURATED, RANDOM, FLAT = "hidden gradients", "saturated outputs", "random outputs", "a flat ball"
_DEPENDENT = "outputs that depend on the batch"
CAUSES = {VANISH: HIDDEN, _UNMOVED: HIDDEN, BLACK_BOX_AHEAD: HIDDEN, _SATURATED: SATURATED, _PROBABILITIES: SATURATED}
CAUSES |= {_FLAT: FLAT, _REPEATED: RANDOM, _BATCH: _DEPENDENT, _TRAIN: _DEPENDENT, _OUTSIDE: "an attack that leaves the ball"}
# A warning is given if the interval of a share of images lies above this, and above this share of the spread of the logits.
_IMAGES = 0.01
_NOISE = 1e-4


def stored_warnings(data: xr.Dataset) -> dict[str, str]:
    """Return the sanity warnings of stored outcomes; empty if there are none, or the outcomes were not checked."""
    checks: dict[str, Any] = json.loads(data.attrs.get("checks") or "{}")
    return sanity_warnings(checks, data.sizes["image"]) if checks else {}


def sanity_warnings(checks: Mapping[str, Any], images: int) -> dict[str, str]:
    """Return the warnings that follow from the sanity checks of an attack on `images` images, each with its figure."""
    noise = _NOISE * max(checks["spread"], 1e-6)
    vanishing, unmoved, flat = checks["zero_gradients"], checks.get("unmoved", 0.0), checks.get("flat", 0.0)
    saturated = checks.get("saturated", 0.0) > vanishing / 2
    # Outcomes of earlier versions lack the number of images that are classified correctly.
    right = checks.get("right", checks.get("asked", images))
    gradients = _exceeds(vanishing, right), f"{vanishing:.0%} of {right} correctly classified images"
    broken = checks.get("broken_by", {})
    black = sum(broken.get(name, 0) for name in BLACK_BOX_MEMBERS)
    batch, usual = checks["batch_dependent"], max(100 * noise, 2 * checks["randomised"])
    warnings = {
        _SATURATED: (saturated and gradients[0], gradients[1]),
        VANISH: (not saturated and gradients[0], gradients[1]),
        _FLAT: (_exceeds(flat, right), f"{flat:.0%} of {right} correctly classified images"),
        _UNMOVED: (_exceeds(unmoved, checks.get("unbroken", images)), f"{unmoved:.0%} of them"),
        _REPEATED: (checks["randomised"] > noise, f"logits by {checks['randomised']:.2g}"),
        _BATCH: (batch > usual, f"logits by {batch:.2g}"),
        _PROBABILITIES: (checks["probabilities"], "all in [0, 1], summing to 1"),
        _TRAIN: (checks["training"], ", ".join(checks["training"][:3])),
        _OUTSIDE: (checks["outside"], str(checks["outside"])),
        BLACK_BOX_AHEAD: (_exceeds(black / images, images), f"{black} of {images}"),
    }
    return {sentence: figure for sentence, (applies, figure) in warnings.items() if applies}


def _exceeds(share: float, images: int) -> bool:
    """Return whether the 95 % interval of a share of so many images lies above the limit; a single image is never enough."""
    number = round(share * images)
    low, _ = intervals.proportion(number, images)
    return bool(number > 1 and low > 100 * _IMAGES)


def black_box_ahead(outcomes: list[tuple[str, xr.Dataset]]) -> list[str]:
    """Return the names of the black-box attacks that alone break significantly more than 1 % of the images.

    The outcomes are those of one network at one radius, by name. Only images that all white-box attacks were evaluated on count.
    """
    black: list[tuple[str, xr.DataArray]] = []
    white: list[tuple[str, xr.DataArray]] = []
    for name, data in outcomes:
        evaluation = Evaluation.from_json(data.attrs["evaluation"])
        if evaluation.substitute is None and evaluation.attack != "clean":
            # Black-box attacks, and only they, count queries.
            (black if "queries" in data else white).append((name, data.misclassified))
    if not white:
        return []
    unbroken = ~xr.concat([misclassified for _, misclassified in white], "white", join="inner").any("white")
    pairs = [(name, xr.align(misclassified, unbroken, join="inner")) for name, misclassified in black]
    return [name for name, (broken, left) in pairs if len(left) and _exceeds(float((broken & left).mean()), len(left))]
