"""The courses of attacks: kept like examples, and gathered for a page. Torch is imported only where one is computed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import xarray as xr

from classwise import answers, results
from classwise.run import store
from classwise.run.shown import PICTURES
from classwise.spec import Evaluation, Spec


def followed(evaluations: Iterable[Evaluation]) -> tuple[Evaluation, ...]:
    """Return those of the evaluations whose attack is followed step by step: PGD and Temperature-PGD in its stable form."""
    climbing = (one for one in evaluations if one.attack.startswith(("pgd-", "temperature-pgd-")) and one.substitute is None)
    return tuple(one for one in climbing if one.options.get("form") != "published")


def course(spec: Spec, evaluation: Evaluation, per_class: int = PICTURES) -> xr.Dataset:
    """Return what a run answers for a few images of each class at each step (schema "course 1"), computed once and kept."""
    asked = replace(evaluation.of(spec), per_class=per_class)
    found = kept_course(spec, asked)
    if found is not None:
        return found
    from classwise.run import climbing, machine, pool

    pool.ensure([(spec, [])])
    with store.lock(store.place(spec)):
        found = kept_course(spec, asked)
        if found is None:
            found = climbing.climb(spec, asked).assign_attrs(store.provenance(spec, *machine.where(), asked))
            results.save(found, store.COURSE, store.course_file(store.place(spec), asked))
    return found


def kept_course(spec: Spec, asked: Evaluation) -> xr.Dataset | None:
    """Return a stored course; a damaged file of data/runs/ is set aside, since it is made again in a moment."""
    for folder in store.places(spec):
        path = store.course_file(folder, asked)
        try:
            if path.exists():
                return store.read(path, store.COURSE, spec, asked)
        except results.Damaged:
            if folder != store.place(spec):
                raise
            path.replace(path.with_suffix(".damaged"))
    return None


def courses(asked: Sequence[tuple[Spec, Sequence[Evaluation]]], per_class: int = PICTURES) -> xr.Dataset | None:
    """Return the courses of the runs of the first seed: dimensions network, inverse, image, step, predicted.

    network, inverse: as `answers.network` and `answers.inverse` name them. Where a combination was not asked for, logits are
    NaN. Recorded runs that came without weights and without courses are left out; None where nothing is left.
    """
    parts: dict[str, dict[str, xr.Dataset]] = {}
    for spec, evaluations in asked:
        for one in followed(evaluations) if spec.seed == asked[0][0].seed else ():
            there = kept_course(spec, replace(one.of(spec), per_class=per_class)) is not None
            if there or not store.bare(spec):
                place = parts.setdefault(answers.network(spec.defence, one.readout), {})
                place[answers.inverse(one.options.get("inverse"))] = course(spec, one, per_class).drop_attrs()
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
