"""A few attacked images, traces of attacks, features: computed once and stored. Images, and attacks on demand."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import xarray as xr

from classwise.core import results
from classwise.core.errors import unknown
from classwise.core.spec import Evaluation, Spec, Subject
from classwise.papers.tian2021 import temperature
from classwise.runs import ensure, store
from classwise.stats.combine import combine_rows

# Number of images of each class that are attacked to be shown.
EXAMPLES_PER_CLASS = 4


def _few(subject: Subject, evaluation: Evaluation, per_class: int = EXAMPLES_PER_CLASS) -> Evaluation:
    return replace(evaluation.resolved_for(subject), per_class=per_class)


def is_stored(subject: Subject, evaluation: Evaluation, schema: str, per_class: int = EXAMPLES_PER_CLASS) -> bool:
    """Return whether examples or a trace are stored; a damaged file of data/runs/ is set aside."""
    return store.find(subject, _few(subject, evaluation, per_class), schema, repair=True) is not None


def _get_or_compute(subject: Subject, evaluation: Evaluation, schema: str, compute: Callable[[], xr.Dataset]) -> xr.Dataset:
    """Return a result of one schema, computed once and stored; a damaged file of data/runs/ is set aside."""
    data = store.find(subject, evaluation, schema, repair=True)
    if data is not None:
        return data
    ensure.ensure_results([(subject, [])])
    from classwise.runs.compute import networks

    networks.network_of(subject, evaluation)  # raises an error before a folder is made
    with store.lock(store.run_folder(subject)):
        data = store.find(subject, evaluation, schema, repair=True)
        if data is None:
            data = compute()
            results.save(data, schema, store.file(store.run_folder(subject), evaluation, schema))
    return data


def examples(subject: Subject, evaluation: Evaluation, per_class: int = EXAMPLES_PER_CLASS) -> xr.Dataset:
    """Return a few images of each class with their attacked forms (schema "examples 1"), computed once and stored."""
    few = _few(subject, evaluation, per_class)

    def compute() -> xr.Dataset:
        from classwise.runs.compute import device, evaluate

        attrs = store.provenance(subject, *device.where(), few)
        return evaluate.attacker(subject, few)().assign_attrs(attrs)

    return _get_or_compute(subject, few, store.EXAMPLES, compute)


def example_sets(specs: Sequence[Spec], evaluation: Evaluation) -> dict[str, xr.Dataset]:
    """Return examples by defence, of the runs of the first seed; recorded runs without examples and weights are left out."""
    first = [spec for spec in specs if spec.seed == specs[0].seed]
    available = [spec for spec in first if is_stored(spec, evaluation, store.EXAMPLES) or not store.lacks_weights(spec)]
    return {spec.defence: examples(spec, evaluation) for spec in available}


def attacker(subject: Subject, evaluation: Evaluation) -> Callable[..., xr.Dataset]:
    """Return a function that attacks the images of an evaluation when it is called and returns them as `examples` does.

    Its parameters: `label` restricts it to a class, `count` to the first images, `eps` changes the radius.
    """
    from classwise.runs.compute import evaluate

    ensure.ensure_results([(subject, [])])
    return evaluate.attacker(subject, evaluation)


def traced_evaluations(evaluations: Iterable[Evaluation]) -> tuple[Evaluation, ...]:
    """Return the evaluations whose attack can be traced step by step (`Attack.traceable`): PGD and stable Temperature-PGD."""
    from classwise import attacks  # torch

    white_box = (evaluation for evaluation in evaluations if evaluation.substitute is None)
    return tuple(evaluation for evaluation in white_box if attacks.build(evaluation.attack, evaluation.options).traceable)


def trace(spec: Spec, evaluation: Evaluation, per_class: int = EXAMPLES_PER_CLASS) -> xr.Dataset:
    """Return the logits of a few images of each class at each step of an attack (schema "course 1"), computed once and stored."""
    few = _few(spec, evaluation, per_class)

    def compute() -> xr.Dataset:
        from classwise.runs.compute import device, tracing

        return tracing.trace_attack(spec, few).assign_attrs(store.provenance(spec, *device.where(), few))

    return _get_or_compute(spec, few, store.TRACE, compute)


def traces(pairs: Sequence[tuple[Spec, Sequence[Evaluation]]], per_class: int = EXAMPLES_PER_CLASS) -> xr.Dataset | None:
    """Return the traces of the runs of the first seed: dimensions network, inverse, image, step, predicted.

    network, inverse: as `temperature.network` and `temperature.inverse` name them. Combinations without a trace have NaN logits.
    Recorded runs without weights and traces are left out; None if nothing is left.
    """
    parts: dict[tuple[str, str], xr.Dataset] = {}
    for spec, evaluations in pairs:
        for evaluation in traced_evaluations(evaluations) if spec.seed == pairs[0][0].seed else ():
            if is_stored(spec, evaluation, store.TRACE, per_class) or not store.lacks_weights(spec):
                network = temperature.network(spec.defence, evaluation.readout)
                parts[network, temperature.inverse(evaluation.options.get("inverse"))] = trace(spec, evaluation, per_class)
    if not parts:
        return None
    combined = combine_rows([({"network": network, "inverse": inverse}, data) for (network, inverse), data in parts.items()])
    # All traces are of the same images.
    return combined.assign(truth=combined.truth.max(["network", "inverse"]))


def scenes(spec: Spec | Sequence[Spec], evaluation: Evaluation, label: str | None = None, *, behind: bool = False) -> xr.Dataset:
    """Return the images of an evaluation before the attack, all or those of a class; of several runs, each image once.

    No network is needed. pixels (image, channel, row, column) from 0 to 1; truth (image) as in outcomes. `behind` adds
    object (image, row, column), the mask of the object, and whiteness (image), the brightness of the background from 0 to 1
    (`images.backgrounds`).
    """
    if isinstance(spec, Sequence):
        parts = [scenes(member, evaluation, label, behind=behind) for member in spec]
        return xr.concat(parts, "image").drop_duplicates("image")
    from classwise.images import backgrounds  # torch
    from classwise.runs.compute import evaluate

    images, _, _ = evaluate.problem(spec, evaluation)
    if label is not None:
        if label not in images.classes:
            raise unknown("class", label, images.classes)
        images = images.take(images.labels == images.classes.index(label))
    pixels, _ = images.batch(slice(None))
    data = xr.Dataset(
        {
            "pixels": (("image", "channel", "row", "column"), pixels.cpu().numpy()),
            "truth": ("image", images.labels.cpu().numpy()),
        },
        coords={"image": images.index.cpu().numpy(), "predicted": list(images.classes)},
    )
    if not behind:
        return data
    data["object"] = (("image", "row", "column"), backgrounds.object_mask(images.pixels).cpu().numpy())
    return data.assign(whiteness=("image", backgrounds.whiteness(images.pixels).cpu().numpy()))


def features(subject: Subject, evaluation: Evaluation | None = None) -> xr.Dataset:
    """Return the penultimate features of each class, mean and variance (schema "features 1"), computed once and stored.

    evaluation: which images and which checkpoint; None for those of an audit, or for the test images of a run.
    """
    resolved = (evaluation or subject.evaluation_of()).resolved_for(subject)

    def compute() -> xr.Dataset:
        from classwise.runs.compute import evaluate

        return evaluate.class_features(subject, resolved)

    return _get_or_compute(subject, resolved, store.FEATURES, compute)
