import math
from dataclasses import replace

import pytest
import torch

from classwise import images, models
from classwise.attacks import PGD
from classwise.defences import DEFENCES
from classwise.training import SCHEDULES, Diverged, Plan, begin, train


@pytest.fixture(scope="module")
def data():
    return images.load("digits", "train")


def start(data, defence="pgd-at", lr=0.1, epochs=3, optimiser="sgd", seed=0):
    plan = Plan(DEFENCES[defence], PGD(steps=2), "linf", "eval", "one-cycle", lr, epochs, 128)
    model = models.build("small-cnn", data, 4, seed)
    return begin(model, plan, 10, 0.1, optimiser, seed, momentum=0.9, weight_decay=5e-4), plan


def weights(state):
    return torch.cat([value.flatten().float() for value in state.model.state_dict().values()])


@pytest.mark.parametrize("defence", DEFENCES)
@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_training_learns_and_counts_what_it_saw(data, defence, optimiser):
    state, plan = start(data, defence, optimiser=optimiser, lr=0.1 if optimiser == "sgd" else 0.01)
    epochs = list(train(state, data, plan))
    assert [epoch.number for epoch in epochs] == [1, 2, 3]
    assert epochs[-1].loss < epochs[0].loss
    seen = {"standard": (True, False), "pgd-at": (False, True), "trades": (True, True)}[defence]
    assert (epochs[0].clean is not None, epochs[0].attacked is not None) == seen
    for count in (epochs[0].clean, epochs[0].attacked):
        assert count is None or torch.equal(count.sum(1), data.labels.bincount())


def test_a_seed_gives_the_same_bits_and_another_seed_others(data):
    found = []
    for seed in (0, 0, 1):
        state, plan = start(data, seed=seed)
        list(train(state, data, plan))
        found.append(weights(state))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_a_saved_state_goes_on_to_the_same_bits(data, tmp_path, optimiser):
    whole, plan = start(data, "trades", optimiser=optimiser, lr=0.01)
    losses = [epoch.loss for epoch in train(whole, data, plan)]
    half, _ = start(data, "trades", optimiser=optimiser, lr=0.01)
    next(iter(train(half, data, plan)))
    torch.save(half.state_dict(), tmp_path / "state.pt")
    fresh, _ = start(data, "trades", optimiser=optimiser, lr=0.01, seed=5)
    fresh.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert [epoch.loss for epoch in train(fresh, data, plan)] == losses[1:]
    assert torch.equal(weights(fresh), weights(whole))


def test_a_loss_that_is_not_finite_stops_the_training(data):
    state, plan = start(data, "standard", lr=1e30)
    with pytest.raises(Diverged, match="epoch 1"):
        list(train(state, data, plan))


def test_answers_that_are_not_finite_stop_the_training_although_the_loss_is(data):
    state, plan = start(data, "standard", lr=1e30)
    plan = replace(plan, epochs=1, batch=4000, schedule="constant")
    with pytest.raises(Diverged, match="answers of the network became"):
        list(train(state, data, plan))


def test_the_global_random_state_is_left_alone(data):
    before = torch.random.get_rng_state()
    state, plan = start(data)
    list(train(state, data, plan))
    assert torch.equal(before, torch.random.get_rng_state())


def test_schedules_are_what_their_names_say():
    assert [SCHEDULES["one-cycle"](at) for at in (0, 0.15, 0.3, 1)] == pytest.approx([0, 0.5, 1, 0])
    assert [SCHEDULES["step"](at) for at in (0.49, 0.5, 0.75)] == [1.0, 0.1, 0.01]
    assert SCHEDULES["cosine"](0.5) == pytest.approx(0.5)
    assert all(
        0 <= schedule(step / 50) <= 1 and math.isfinite(schedule(step / 50))
        for schedule in SCHEDULES.values()
        for step in range(51)
    )


def test_a_class_weight_of_zero_means_the_class_is_not_learnt(data):
    state, plan = start(data, "standard", epochs=6)
    state.settings.weight[3] = 0
    *_, last = train(state, data, plan)
    recall = last.clean.diag() / last.clean.sum(1)
    assert recall[3] == 0
    assert recall[[0, 1, 2, 4, 5, 6, 7, 8, 9]].min() > 0.8
