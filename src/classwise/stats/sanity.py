"""What the checks of an attack say against believing it, in words."""

import json
from collections.abc import Mapping
from typing import Any

import xarray as xr

from classwise.core.spec import Evaluation

# Attacks that ask for no gradients.
BLACK_BOX = ("square", "n-attack")
# From these shares on, what is told of an evaluation is a reason to doubt it.
MASKED = 0.01
_NOISE = 1e-4


def stored_warnings(data: xr.Dataset) -> dict[str, str]:
    """Return what speaks against believing stored outcomes: `doubts` of the checks they carry; empty where there are none."""
    told: dict[str, Any] = json.loads(data.attrs.get("checks") or "{}")
    return sanity_warnings(told, data.sizes["image"]) if told else {}


def sanity_warnings(told: Mapping[str, Any], images: int) -> dict[str, str]:
    """Return what speaks against believing an attack on so many images: sentences, each with its figure; empty: nothing does.

    `told` comes from `outcomes.soundness`; an attack that fails on broken gradients looks like a robust network.
    """
    noise = _NOISE * max(told["spread"], 1e-6)
    still = told.get("unmoved", 0.0)
    broken = told.get("broken_by", {})
    black = sum(broken.get(name, 0) for name in BLACK_BOX)
    reasons = {
        "gradients vanish, and an attack stands still": (
            told["zero_gradients"] > MASKED,
            f"{told['zero_gradients']:.0%}",
        ),
        "the attack left unbroken images as they were": (still > MASKED, f"{still:.0%}"),
        "the answers change when asked again": (told["randomised"] > noise, f"by {told['randomised']:.2g}"),
        "the answer to an image hangs on its batch": (told["batch_dependent"] > 100 * noise, f"by {told['batch_dependent']:.2g}"),
        "the answers look like probabilities": (told["probabilities"], "all in [0, 1], summing to 1"),
        "layers stay in train mode": (told["training"], ", ".join(told["training"][:3])),
        "attacked images left the ball and count as unbroken": (told["outside"], str(told["outside"])),
        "images fall to the black-box attack alone": (black > MASKED * images, f"{black} of {images}"),
    }
    return {sentence: figure for sentence, (speaks, figure) in reasons.items() if speaks}


def black_box_ahead(answers: list[tuple[str, xr.Dataset]]) -> list[str]:
    """Return the black-box attacks that break more than one image in a hundred which no white-box attack breaks."""
    black: list[tuple[str, xr.DataArray]] = []
    white: list[tuple[str, xr.DataArray]] = []
    for name, data in answers:
        asked = Evaluation.from_json(data.attrs["evaluation"])
        if asked.substitute is None and asked.attack != "clean":
            (black if asked.attack.split("@")[0] in BLACK_BOX else white).append((name, data.flipped))
    if not white:
        return []
    # Only images that all white-box attacks were asked about.
    stood = ~xr.concat([flipped for _, flipped in white], "white", join="inner").any("white")
    pairs = [(name, xr.align(flipped, stood, join="inner")) for name, flipped in black]
    return [name for name, (broken, left) in pairs if len(left) and float((broken & left).mean()) > MASKED]
