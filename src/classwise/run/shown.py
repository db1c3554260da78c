"""A few images attacked: computed once and kept, or now."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import xarray as xr

from classwise import results
from classwise.audits import Subject
from classwise.run import collect, store
from classwise.spec import Evaluation, Spec

# So many images of each class are attacked to be shown.
PICTURES = 4


def examples(spec: Subject, evaluation: Evaluation, per_class: int = PICTURES) -> xr.Dataset:
    """Return a few images of each class with their attacked forms (schema "examples 1"), computed once and kept."""
    found = kept_examples(spec, evaluation, per_class)
    if found is not None:
        return found
    asked = replace(evaluation.of(spec), per_class=per_class)
    from classwise.run import machine, questions

    collect.ensure([(spec, [])])
    with store.lock(store.place(spec)):
        found = kept_examples(spec, evaluation, per_class)
        if found is None:
            attrs = store.provenance(spec, *machine.where(), asked)
            found = questions.attacker(spec, asked)().assign_attrs(attrs)
            results.save(found, store.EXAMPLES, store.examples_file(store.place(spec), asked))
    return found


def pictures(specs: Sequence[Spec], evaluation: Evaluation) -> dict[str, xr.Dataset]:
    """Return examples by the name of the defence, of the runs of the first seed; without recorded runs that came without any."""
    first = [spec for spec in specs if spec.seed == specs[0].seed]
    there = [spec for spec in first if kept_examples(spec, evaluation) is not None or not store.bare(spec)]
    return {spec.defence: examples(spec, evaluation) for spec in there}


def kept_examples(spec: Subject, evaluation: Evaluation, per_class: int = PICTURES) -> xr.Dataset | None:
    """Return stored examples; a damaged file of data/runs/ is set aside, since it is made again in a moment."""
    asked = replace(evaluation.of(spec), per_class=per_class)
    for folder in store.places(spec):
        path = store.examples_file(folder, asked)
        try:
            if path.exists():
                return store.read(path, store.EXAMPLES, spec, asked)
        except results.Damaged:
            if folder != store.place(spec):
                raise
            path.replace(path.with_suffix(".damaged"))
    return None


def attacker(spec: Subject, evaluation: Evaluation) -> Callable[..., xr.Dataset]:
    """Return a function that attacks images of an evaluation now and returns them as examples.

    Called with `label` it takes the images of that class only, with `count` the first so many, with `eps` another radius.
    """
    from classwise.run import questions

    collect.ensure([(spec, [])])
    return questions.attacker(spec, evaluation)
