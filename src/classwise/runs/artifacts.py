"""A few attacked images and traces of attacks: computed once and stored. Images, and attacks on demand."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pandas as pd
import xarray as xr

from classwise.core.errors import NotAtScale, NotRecorded, UserError
from classwise.core.spec import Evaluation, Spec, Subject
from classwise.papers.sections import Request
from classwise.runs import ensure, store
from classwise.runs.store import EXAMPLES, EXAMPLES_PER_CLASS, REBUILT, TRACE, Key
from classwise.stats.combine import combine_rows, inverse_name, network_name


def _available(key: Key) -> xr.Dataset | None:
    with suppress(NotRecorded):
        return ensure.get(key)
    return None


def examples(subject: Subject, evaluation: Evaluation, per_class: int = EXAMPLES_PER_CLASS) -> xr.Dataset:
    """Return a few images of each class with their attacked forms (schema "examples 1"), computed once and stored."""
    return ensure.get(Key(subject, EXAMPLES, evaluation, per_class))


def example_sets(specs: Sequence[Spec], evaluation: Evaluation) -> dict[str, xr.Dataset]:
    """Return examples by defence, of the runs of the first seed; recorded runs without examples are left out."""
    sets = [(spec.defence, _available(Key(spec, EXAMPLES, evaluation))) for spec in specs if spec.seed == specs[0].seed]
    return {defence: data for defence, data in sets if data is not None}


def attack_function(subject: Subject, evaluation: Evaluation) -> Callable[..., xr.Dataset]:
    """Return a function that attacks the images of an evaluation when it is called and returns them as `examples` does.

    Its parameters: `label` restricts it to a class, `count` to the first images, `eps` changes the radius.
    """
    from classwise.runs.compute import evaluate

    ensure.ensure_results([Key(subject)])
    return evaluate.attack_function(subject, evaluation)


def traces(pairs: Sequence[tuple[Spec, Sequence[Evaluation]]], per_class: int = EXAMPLES_PER_CLASS) -> xr.Dataset | None:
    """Return the logits of a few images at each step of the attacks on the runs of the first seed (schema "course 1").

    Dimensions network, inverse, image, step, predicted; network, inverse: as `combine.network_name` and `combine.inverse_name`
    name them. Combinations without a trace have NaN logits. Recorded runs without traces are left out; None if nothing is left.
    """
    from classwise.runs.schedule.plan import traced_evaluations  # torch

    parts: dict[tuple[str, str], xr.Dataset] = {}
    for spec, evaluations in pairs:
        for evaluation in traced_evaluations(evaluations) if spec.seed == pairs[0][0].seed else ():
            data = _available(Key(spec, TRACE, evaluation, per_class))
            if data is not None:
                network = network_name(spec.defence, evaluation.readout)
                parts[network, inverse_name(evaluation.options.get("inverse"))] = data
    if not parts:
        return None
    combined = combine_rows([({"network": network, "inverse": inverse}, data) for (network, inverse), data in parts.items()])
    # All traces are of the same images.
    return combined.assign(truth=combined.truth.max(["network", "inverse"]))


def scenes(spec: Spec | Sequence[Spec], evaluation: Evaluation, *, behind: bool = False) -> xr.Dataset:
    """Return the images of an evaluation before the attack; of several runs, each image once.

    No network is needed. pixels (image, channel, row, column) from 0 to 1; truth (image) as in outcomes. `behind` adds
    whiteness (image), the brightness of the background from 0 to 1 (`images.backgrounds`).
    """
    if isinstance(spec, Sequence):
        parts = [scenes(member, evaluation, behind=behind) for member in spec]
        return xr.concat(parts, "image").drop_duplicates("image")
    from classwise.images import backgrounds  # torch
    from classwise.runs.compute import evaluate

    images, _, _ = evaluate.attack_inputs(spec, evaluation)
    pixels, labels = images.batch(slice(None))
    values = {"pixels": (("image", "channel", "row", "column"), pixels), "truth": ("image", labels)}
    if behind:
        values["whiteness"] = ("image", backgrounds.whiteness(images.pixels))
    coords = {"image": images.index.cpu().numpy(), "predicted": list(images.classes)}
    return xr.Dataset({name: (dims, value.cpu().numpy()) for name, (dims, value) in values.items()}, coords)


def gates(spec: Spec) -> xr.DataArray:
    """Return the gates of batch-instance norm after the training: 1 is batch norm alone, 0 instance norm alone.

    Dimensions layer (from 1, in the order of the forward pass) and channel; NaN beyond the channels of a layer. Read from the
    weights, and trained first if necessary; a recorded run without weights is NotAtScale, one with batch norm alone a UserError.
    """
    if store.lacks_weights(spec):
        raise NotAtScale(f"the weights of {spec.name} are not recorded, from which its gates are read")
    ensure.ensure_results([Key(spec)])
    from classwise.defences.training.optimisation import gates as gates_of
    from classwise.runs.compute import networks

    layers = [gate.detach().cpu().numpy() for gate in gates_of(networks.network_of(spec))]
    if not layers:
        raise UserError(f"{spec.name} has no gates: layer={spec.layer!r}, expected 'batch-instance'")
    values = [xr.DataArray(gate, dims="channel", coords={"channel": range(len(gate))}) for gate in layers]
    return xr.concat(values, pd.Index(range(1, len(layers) + 1), name="layer"), join="outer").rename("gate")


def layers(specs: Sequence[Spec]) -> dict[str, dict[str, Any]]:
    """Return the trained small CNNs of runs as arrays, by defence, for an attack without torch; trained first if necessary.

    side, mean, std, classes; layers: inputs, outputs and stride of each 3x3 convolution; values: float32 kernels (row, column,
    input, output) with the batch norm folded in and biases of all layers, the head (row, column, channel, class) last. Where
    nothing may be computed, networks that are not there are left out. UserError for other datasets and architectures.
    """
    described = {}
    for spec in specs:
        if (spec.dataset, spec.model, spec.layer) != ("digits", "small-cnn", "batch"):
            raise UserError(f"layers are described of small-cnn with batch norm on digits, not of {spec.name}")
        with suppress(NotRecorded):
            ensure.ensure_results([Key(spec)])
            from classwise.runs.compute import networks

            described[spec.defence] = networks.describe_layers(spec)
    return described


def rebuilt(spec: Spec) -> xr.Dataset:
    """Return what is known of the rebuilt training images of a run (schema "rebuilt 1"), trained first if necessary.

    truth, original, prediction, to_target, to_start and apart (image); pixels (shown, form, channel, row, column) of a few images
    of each class. NotRecorded if a recorded run lacks them; UserError for a run whose training images are as they are.
    """
    if spec.rebuilt == "none":
        raise UserError(f"{spec.name} trains on images as they are; only runs with rebuilt='features', 'next' or 'random' do not")
    return ensure.get(Key(spec, REBUILT))


def rebuilt_sets(request: Request) -> dict[str, list[xr.Dataset]]:
    """Return `rebuilt` of the runs on rebuilt images of the parts of a request, by the name of the part.

    Recorded runs without them are left out.
    """
    result: dict[str, list[xr.Dataset]] = {}
    for name, part in request.parts.items():
        for spec in part.specs:
            if spec.rebuilt != "none" and (data := _available(Key(spec, REBUILT))) is not None:
                result.setdefault(name, []).append(data)
    return result
