"""Questions put to a trained run: its model, attacked."""

from collections.abc import Callable
from dataclasses import replace

import safetensors.torch
import torch
import xarray as xr
from torch import Tensor, nn

from classwise import attacks, models, outcomes, results
from classwise.balls import BALLS, Ball
from classwise.errors import UserError, unknown
from classwise.images import Images
from classwise.results import Damaged
from classwise.run import convert, store
from classwise.run.compute import Report, check, check_evaluation, device, one_thread, quietly, split, train, where
from classwise.spec import Evaluation, Spec


def model_of(spec: Spec) -> models.Classifier:
    """Return a trained run's model in eval mode, on the device."""
    model = models.build(spec.model, split(spec, "train"), spec.width)
    path = store.weights(spec)
    if path is None:
        raise UserError(f"the weights of {spec.name} are not here, only its results; remove its recorded folder to train it anew")
    try:
        model.load_state_dict(safetensors.torch.load_file(path))
    except Exception as error:  # safetensors raises its own kinds, torch a RuntimeError with all keys
        raise Damaged(f"{path} does not hold the weights of {spec.name}; delete its folder and ask again") from error
    return model.eval().to(device())


def evaluate(spec: Spec, evaluation: Evaluation, report: Report = quietly, *, mend: bool = False) -> None:
    """Put an evaluation to a trained run, if that was not done yet, and write the outcomes; a substitute is trained first."""
    folder, evaluation = store.place(spec), evaluation.of(spec)
    # Before the lock is taken: two runs that are each other's substitute must not wait for one another.
    made_on = None if evaluation.substitute is None else spec.substitute(evaluation.substitute)
    if made_on is not None and store.find(spec, evaluation, mend=mend) is None:
        train(made_on, mend=mend)
    with store.lock(folder):
        if store.find(spec, evaluation, mend=mend) is not None:
            return
        asked, ball, attack = problem(spec, evaluation)
        found = outcomes.evaluate(
            model_of(spec),
            asked,
            attack,
            ball,
            made_on=None if made_on is None else model_of(made_on),
            seed=evaluation.seed,
            report=lambda done: report("attack", done, len(asked)),
        )
        attrs = store.provenance(spec, *where(), evaluation)
        data = convert.outcomes_dataset(found, asked.classes, attrs)
        results.save(data, store.OUTCOMES, store.outcomes_file(folder, evaluation))


def problem(spec: Spec, evaluation: Evaluation) -> tuple[Images, Ball, attacks.Attack]:
    """Return the images, the ball and the attack of an evaluation."""
    evaluation = evaluation.of(spec)
    asked = split(spec, evaluation.split)
    if evaluation.per_class is not None:
        asked = asked.per_class(evaluation.per_class, evaluation.seed)
    assert evaluation.eps is not None
    assert evaluation.norm is not None
    ball = BALLS[evaluation.norm](convert.number(evaluation.eps))
    return asked, ball, attacks.build(evaluation.attack, evaluation.options)


def attacker(spec: Spec, evaluation: Evaluation) -> Callable[..., xr.Dataset]:
    """Return what `classwise.run.attacker` does, for a run whose weights are here."""
    check(spec)
    check_evaluation(evaluation)
    model = model_of(spec)
    source = model if evaluation.substitute is None else model_of(spec.substitute(evaluation.substitute))

    def attack(label: str | None = None, count: int | None = None, eps: str | float | None = None) -> xr.Dataset:
        asked = evaluation.of(spec) if eps is None else replace(evaluation.of(spec), eps=str(eps))
        chosen, ball, method = problem(spec, asked)
        if label is not None:
            if label not in chosen.classes:
                raise unknown("class", label, chosen.classes)
            chosen = chosen.take(chosen.labels == chosen.classes.index(label))
        chosen = chosen.take(torch.arange(len(chosen))[:count])
        seen: list[Tensor] = []

        def watched(net: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
            seen.append(method(source, x, y, ball, generator))
            return seen[-1]

        with one_thread(), torch.no_grad():
            found = outcomes.evaluate(model, chosen, watched, ball, seed=asked.seed)
            clean, _ = chosen.batch(slice(None))
            logits = model(clean).float()
        return convert.examples_dataset(clean, torch.cat(seen), (logits, found.logits), found, chosen.classes)

    return attack
