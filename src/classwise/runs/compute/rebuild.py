"""Rebuild the training images of a run with the network of another one (`Spec.rebuilt`), resumable batch by batch."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import xarray as xr
from torch import Tensor, nn

from classwise.attacks import feature_inversion
from classwise.attacks.balls import BALLS
from classwise.core import results
from classwise.core.identity import radius_value
from classwise.core.spec import Evaluation, Spec
from classwise.images import Images
from classwise.runs import store
from classwise.runs.compute import networks, to_xarray
from classwise.runs.compute.resume import Resumable
from classwise.runs.store import Key

# Number of images that are rebuilt at a time, and of those of each class whose pixels are stored.
BATCH, SHOWN_PER_CLASS = 500, 4
# What is rebuilt so far, until the training ends.
PART = "rebuilt.part"
_FORMS = ("target", "start", "rebuilt")


def cost(spec: Spec) -> int:
    """Return the passes through the network that rebuilding one training image, and measuring its distances, takes."""
    made = feature_inversion.INVERSION if spec.rebuilt == "features" else feature_inversion.TOWARDS
    return 0 if spec.rebuilt == "none" else 2 * made.steps + 4


def training_images(spec: Spec, images: Images, folder: Path, attrs: Mapping[str, str]) -> Images:
    """Return the rebuilt training images of a run, and store what `runs.rebuilt` returns in its folder.

    images: its training images as they are. attrs: the provenance, with the digest of their folder. What an interrupted call
    leaves in PART is continued if it was made of the same images and weights by the same settings; the training removes it.
    """
    source = spec.image_source
    assert source is not None
    # The network itself: without the scale of a cosine head, which is no part of its features.
    model, scaled = networks.network_of(source, Evaluation(readout="cosines")), networks.network_of(source)
    places, labels = _problem(spec, images)
    starts = replace(images.take(places), labels=labels)
    # All that the images are made of: the run, the original images, the settings and the weights.
    made_of = f"{spec.json()} {attrs.get('images', '')} {(feature_inversion.INVERSION, feature_inversion.TOWARDS, BATCH)}"
    key, stamp, parts = Key(spec, store.REBUILT), networks.weights_digest(made_of, model), list[Tensor]()
    kept, described = Resumable(key, folder / PART, time.monotonic()), folder / key.name
    # What cannot be read can be made again.
    kept.restore(lambda state: parts.extend([state["pixels"].cpu()] if state["stamp"] == stamp else []), repair=True)
    if not parts:
        # Of other images than those that are made now.
        described.unlink(missing_ok=True)

    def state() -> dict[str, Any]:
        return {"stamp": stamp, "pixels": torch.cat(parts)}

    try:
        while (done := sum(map(len, parts))) < len(images):
            rows = torch.arange(done, min(done + BATCH, len(images)))
            parts.append(_made(spec, (model, scaled), images.take(rows), starts.take(rows)).cpu())
            kept.keep(state)
    finally:
        if parts:
            kept.keep(state, now=True)
    rebuilt = Images(torch.cat(parts).to(images.pixels.device), labels, images.index, images.classes)
    if not described.exists():
        forms = (images, images.take(places), rebuilt)
        results.save(_described(spec, model, forms).assign_attrs(attrs), store.REBUILT, described)
    return rebuilt


def _problem(spec: Spec, images: Images) -> tuple[Tensor, Tensor]:
    """Return for each image the position of the one that it starts from, and its label: int64 (n,)."""
    generator, count = torch.Generator().manual_seed(spec.training_seed), len(images.classes)
    if spec.rebuilt == "features":
        return feature_inversion.other_images(len(images), generator).to(images.labels.device), images.labels
    itself = torch.arange(len(images), device=images.labels.device)
    if spec.rebuilt == "next":
        return itself, (images.labels + 1) % count
    return itself, torch.randint(count, (len(images),), generator=generator).to(images.labels.device)


def _made(spec: Spec, models: tuple[nn.Module, nn.Module], images: Images, starts: Images) -> Tensor:
    (model, scaled), (x, _), (start, labels) = models, images.batch(slice(None)), starts.batch(slice(None))
    if spec.rebuilt == "features":
        made = feature_inversion.invert_features(model, x, start)
    else:
        made = feature_inversion.perturb_towards(scaled, x, labels, BALLS[spec.norm](radius_value(spec.eps)))
    return (255 * made).round().to(torch.uint8)


@torch.no_grad()
def _described(spec: Spec, model: nn.Module, forms: tuple[Images, Images, Images]) -> xr.Dataset:
    """Return what `runs.rebuilt` returns: distances between features of all images, and the pixels of a few."""
    (target, _), (start, _), (rebuilt, logits) = (_seen(model, images) for images in forms)
    # By the classes of the images themselves: the same images of all sets.
    places = torch.arange(len(forms[0]), device=forms[0].labels.device)
    few = replace(forms[0], index=places).per_class(SHOWN_PER_CLASS, spec.seed).index
    values = {
        "truth": forms[2].labels,
        "original": forms[1].labels,
        "prediction": logits.argmax(1),
        "to_target": (rebuilt - target).norm(dim=1),
        "to_start": (rebuilt - start).norm(dim=1),
        "apart": (start - target).norm(dim=1),
        "pixels": torch.stack([images.pixels[few] for images in forms], 1).float() / 255,
    }
    index = forms[0].index.cpu().numpy()
    coords = {"image": index, "shown": index[few.cpu().numpy()], "form": list(_FORMS), "predicted": list(forms[0].classes)}
    return to_xarray.label_dimensions(store.REBUILT, values, coords)


def _seen(model: nn.Module, images: Images) -> tuple[Tensor, Tensor]:
    parts = [(model.features(x), model(x)) for x, _ in images.batches(BATCH)]  # type: ignore[operator]
    features, logits = zip(*parts, strict=True)
    return torch.cat(features).flatten(1), torch.cat(logits)
