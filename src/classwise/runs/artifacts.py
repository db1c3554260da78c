"""A few images attacked: computed once and kept, or now."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import xarray as xr

from classwise.core import results
from classwise.core.audit import Audit, Subject
from classwise.core.errors import unknown
from classwise.core.spec import Evaluation, Spec
from classwise.papers.tian2021 import temperature
from classwise.runs import ensure, store

# So many images of each class are attacked to be shown.
EXAMPLES_PER_CLASS = 4


def examples(spec: Subject, evaluation: Evaluation, per_class: int = EXAMPLES_PER_CLASS) -> xr.Dataset:
    """Return a few images of each class with their attacked forms (schema "examples 1"), computed once and kept."""
    found = stored_examples(spec, evaluation, per_class)
    if found is not None:
        return found
    asked = replace(evaluation.of(spec), per_class=per_class)
    from classwise.runs.compute import device, evaluate

    ensure.ensure_results([(spec, [])])
    with store.lock(store.run_folder(spec)):
        found = stored_examples(spec, evaluation, per_class)
        if found is None:
            attrs = store.provenance(spec, *device.where(), asked)
            found = evaluate.attacker(spec, asked)().assign_attrs(attrs)
            results.save(found, store.EXAMPLES, store.examples_file(store.run_folder(spec), asked))
    return found


def example_sets(specs: Sequence[Spec], evaluation: Evaluation) -> dict[str, xr.Dataset]:
    """Return examples by the name of the defence, of the runs of the first seed; without recorded runs that came without any."""
    first = [spec for spec in specs if spec.seed == specs[0].seed]
    there = [spec for spec in first if stored_examples(spec, evaluation) is not None or not store.lacks_weights(spec)]
    return {spec.defence: examples(spec, evaluation) for spec in there}


def stored_examples(spec: Subject, evaluation: Evaluation, per_class: int = EXAMPLES_PER_CLASS) -> xr.Dataset | None:
    """Return stored examples; a damaged file of data/runs/ is set aside, since it is made again in a moment."""
    asked = replace(evaluation.of(spec), per_class=per_class)
    for folder in store.search_folders(spec):
        path = store.examples_file(folder, asked)
        try:
            if path.exists():
                return store.read(path, store.EXAMPLES, spec, asked)
        except results.Damaged:
            if folder != store.run_folder(spec):
                raise
            path.replace(path.with_suffix(".damaged"))
    return None


def attacker(spec: Subject, evaluation: Evaluation) -> Callable[..., xr.Dataset]:
    """Return a function that attacks images of an evaluation now and returns them as examples.

    Called with `label` it takes the images of that class only, with `count` the first so many, with `eps` another radius.
    """
    from classwise.runs.compute import evaluate

    ensure.ensure_results([(spec, [])])
    return evaluate.attacker(spec, evaluation)


def traced_specs(evaluations: Iterable[Evaluation]) -> tuple[Evaluation, ...]:
    """Return those of the evaluations whose attack is followed step by step: PGD and Temperature-PGD in its stable form."""
    climbing = (one for one in evaluations if one.attack.startswith(("pgd-", "temperature-pgd-")) and one.substitute is None)
    return tuple(one for one in climbing if one.options.get("form") != "published")


def trace(spec: Spec, evaluation: Evaluation, per_class: int = EXAMPLES_PER_CLASS) -> xr.Dataset:
    """Return what a run answers for a few images of each class at each step (schema "course 1"), computed once and kept."""
    asked = replace(evaluation.of(spec), per_class=per_class)
    found = stored_trace(spec, asked)
    if found is not None:
        return found
    from classwise.runs.compute import device, tracing
    from classwise.runs.schedule import pool

    pool.ensure_runs([(spec, [])])
    with store.lock(store.run_folder(spec)):
        found = stored_trace(spec, asked)
        if found is None:
            found = tracing.trace_attack(spec, asked).assign_attrs(store.provenance(spec, *device.where(), asked))
            results.save(found, store.TRACE, store.trace_file(store.run_folder(spec), asked))
    return found


def stored_trace(spec: Spec, asked: Evaluation) -> xr.Dataset | None:
    """Return a stored course; a damaged file of data/runs/ is set aside, since it is made again in a moment."""
    for folder in store.search_folders(spec):
        path = store.trace_file(folder, asked)
        try:
            if path.exists():
                return store.read(path, store.TRACE, spec, asked)
        except results.Damaged:
            if folder != store.run_folder(spec):
                raise
            path.replace(path.with_suffix(".damaged"))
    return None


def traces(asked: Sequence[tuple[Spec, Sequence[Evaluation]]], per_class: int = EXAMPLES_PER_CLASS) -> xr.Dataset | None:
    """Return the courses of the runs of the first seed: dimensions network, inverse, image, step, predicted.

    network, inverse: as `answers.network` and `answers.inverse` name them. Where a combination was not asked for, logits are
    NaN. Recorded runs that came without weights and without courses are left out; None where nothing is left.
    """
    parts: dict[str, dict[str, xr.Dataset]] = {}
    for spec, evaluations in asked:
        for one in traced_specs(evaluations) if spec.seed == asked[0][0].seed else ():
            there = stored_trace(spec, replace(one.of(spec), per_class=per_class)) is not None
            if there or not store.lacks_weights(spec):
                place = parts.setdefault(temperature.network(spec.defence, one.readout), {})
                place[temperature.inverse(one.options.get("inverse"))] = trace(spec, one, per_class).drop_attrs()
    if not parts:
        return None
    return _joined("network", {name: _joined("inverse", some) for name, some in parts.items()})


def _joined(name: str, parts: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Return Datasets of the same images along a new dimension: their logits; the truth is the same in all."""
    members = xr.DataArray(list(parts), dims=name, name=name)
    found: xr.Dataset = xr.concat(
        list(parts.values()), members, data_vars=["logits"], coords="minimal", compat="override", join="outer"
    )
    return found


def scenes(spec: Spec | Sequence[Spec], evaluation: Evaluation, label: str | None = None, *, behind: bool = False) -> xr.Dataset:
    """Return the images of an evaluation before they are attacked, all or those of a class; of several runs, each image once.

    No network is needed.

    pixels (image, channel, row, column) from 0 to 1; truth (image) as in outcomes. `behind` tells objects from what lies behind
    them: object (image, row, column) and whiteness (image), how light the background is, 0 to 1 (`backgrounds.objects`).
    """
    if not isinstance(spec, Spec):
        each = [scenes(one, evaluation, label, behind=behind) for one in spec]
        return xr.concat(each, "image").drop_duplicates("image")
    from classwise.images import backgrounds  # torch
    from classwise.runs.compute import evaluate

    images, _, _ = evaluate.problem(spec, evaluation)
    if label is not None:
        if label not in images.classes:
            raise unknown("class", label, images.classes)
        images = images.take(images.labels == images.classes.index(label))
    pixels, _ = images.batch(slice(None))
    found = xr.Dataset(
        {
            "pixels": (("image", "channel", "row", "column"), pixels.cpu().numpy()),
            "truth": ("image", images.labels.cpu().numpy()),
        },
        coords={"image": images.index.cpu().numpy(), "predicted": list(images.classes)},
    )
    if not behind:
        return found
    found["object"] = (("image", "row", "column"), backgrounds.objects(images.pixels).cpu().numpy())
    return found.assign(whiteness=("image", backgrounds.whiteness(images.pixels).cpu().numpy()))


def features(subject: Subject, evaluation: Evaluation | None = None) -> xr.Dataset:
    """Return where a network puts each class in its penultimate layer (schema "features 1"), computed once and kept.

    evaluation: which images and which checkpoint; None for those of an audit, or for the test images of a run.
    """
    asked = evaluation or (subject.asks() if isinstance(subject, Audit) else Evaluation())
    asked = asked.of(subject)
    path = store.features_file(store.run_folder(subject), asked)
    if path.exists():
        return store.read(path, store.FEATURES, subject, asked)
    ensure.ensure_results([(subject, [])])
    from classwise.runs.compute import evaluate, networks

    networks.model_of(subject, asked)  # what cannot be had leaves no folder
    with store.lock(store.run_folder(subject)):
        data = evaluate.class_features(subject, asked)
        results.save(data, store.FEATURES, path)
    return data
