"""Each objective against its formula, restated in float64, and the parts that a defence is made of."""

from dataclasses import fields, replace

import pytest
import torch
import torch.nn.functional as F
from layers import Layer

from classwise import defences, images, models
from classwise.attacks import ATTACKS, PGD, FriendlyPGD
from classwise.attacks.balls import Linf
from classwise.core.errors import UserError
from classwise.defences import DEFENCES, Defence, objectives
from classwise.defences.averaging import FAWA, NoAveraging
from classwise.defences.calibrations import CFA, ClassSettings, Uniform
from classwise.defences.objectives import MART, TRADES, Adversarial, Adversary, LossTerms, Standard, TrainingStep
from classwise.models import inference

X, Y = images.load("digits", "train").batch(slice(0, 64))


@pytest.fixture
def model():
    return models.build("small-cnn", images.load("digits", "train"), 4).eval()


def adversary(mode="eval", seed=0, attack=None):
    return Adversary(attack or PGD(steps=3), Linf(0.1), mode, torch.Generator().manual_seed(seed))


def each(beta=6.0, margin=0.0, images=64, **changed):
    """The settings of a batch whose classes are all alike."""
    return replace(ClassSettings.uniform(images, 0.1, beta, torch.device("cpu"), margin), **changed)


def gradients(model, loss):
    return torch.cat([one.flatten() for one in torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)])


class Watching(Adversary):
    """An adversary that remembers what it made."""

    def craft(self, *problem, **known):
        made = super().craft(*problem, **known)
        object.__setattr__(self, "made", made)
        return made


def entropies(p):
    return -(p * p.log()).sum(1)


# The published formulas, image by image, from the probabilities p of clean and q of attacked images and those of the labels.
FORMULAS = {
    "standard": lambda p, q, py, qy: -py.log(),
    "pgd-at": lambda p, q, py, qy: -qy.log(),
    "trades": lambda p, q, py, qy: -py.log() + 6 * (p * (p / q).log()).sum(1),
    "trades-normalised": lambda p, q, py, qy: (-py.log() + 6 * (p * (p / q).log()).sum(1)) / 7,
    "label-smoothing": lambda p, q, py, qy: -(0.9 * qy.log() + 0.1 * q.log().mean(1)),
    "standard-smoothed": lambda p, q, py, qy: -(0.9 * py.log() + 0.1 * p.log().mean(1)),
    "trades-smoothed": lambda p, q, py, qy: -(0.9 * py.log() + 0.1 * p.log().mean(1)) + 6 * (p * (p / q).log()).sum(1),
    "me-at": lambda p, q, py, qy: -qy.log() - 0.5 * entropies(q),
    "me-trades": lambda p, q, py, qy: -py.log() + 15 * (p * (p / q).log()).sum(1) - entropies(p),
    "mart": lambda p, q, py, qy: (
        -qy.log() - (1.0001 - q.masked_fill(q == qy[:, None], 0).amax(1)).log() + 5 * (p * (p / q).log()).sum(1) * (1 - py)
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_an_objective_and_its_gradient_are_the_formula(name, model):
    model = model.double()  # in eval mode, as batch norm must not depend on who is in the batch
    objective, watching = DEFENCES[name].objective, Watching(PGD(steps=3), Linf(0.1), "eval", torch.Generator().manual_seed(0))
    x = X.double()
    cost = objective(model, x, Y, each(objective.beta), watching)
    p, q = model(x).softmax(1), model(getattr(watching, "made", x)).softmax(1)
    own = torch.arange(len(Y)), Y
    expected = FORMULAS[name](p, q, p[own], q[own])
    assert torch.allclose(cost.loss, expected, rtol=1e-5, atol=1e-5)
    assert torch.allclose(gradients(model, cost.loss.mean()), gradients(model, expected.mean()), atol=1e-5)


def test_csr_and_its_gradient_are_the_formula(model):
    """.7 CE(x, y) + 6 KL(p || q) + .3 KL(w e_y || q), w by the prediction of the attacked image and the label."""
    defence, model, x = DEFENCES["csr"], model.double(), X.double()
    pattern = torch.rand(10, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.01
    watching = Watching(PGD(steps=3), Linf(0.1), "eval", torch.Generator().manual_seed(0))
    settings = defence.calibration.start(ClassSettings.uniform(10, 0.1, 6.0, torch.device("cpu")), torch.ones(10)).select(Y)
    still = torch.optim.SGD(model.parameters(), lr=0.0)
    step = TrainingStep(settings, watching, defence.calibration, still, {"confusion": pattern}, 64)
    loss = defence.objective.step(model, x, Y, step).loss
    p, q, own = model(x).softmax(1), model(watching.made).softmax(1), (torch.arange(len(Y)), Y)
    w = pattern[Y, q.argmax(1)]
    expected = -0.7 * p[own].log() + 6 * (p * (p / q).log()).sum(1) + 0.3 * w * (w / q[own]).log()
    assert torch.allclose(loss, expected, atol=1e-5)
    taken = torch.cat([one.grad.flatten() for one in model.parameters()])
    assert torch.allclose(taken, gradients(model, expected.mean()), atol=1e-5)


@pytest.mark.parametrize("name", ["pgd-he", "trades-he", "ldam"])
def test_hypersphere_embedding_is_its_formula(name):
    """Scale 10, 15 or 30 on cosines, a margin off the own one, and the attack on the scaled cosines without it."""
    objective, margin = DEFENCES[name].objective, torch.linspace(0.1, 0.5, 10, dtype=torch.float64)[Y]
    margin = margin if name == "ldam" else 0.2 + 0 * margin
    model = models.build("small-cnn", images.load("digits", "train"), 4, head="cosine").double().eval()
    watching = Watching(PGD(steps=3), Linf(0.1), "eval", torch.Generator().manual_seed(0))
    cost = objective(model, X.double(), Y, replace(each(objective.beta), margin=margin), watching)
    if name != "trades-he":  # unscaled cosines make a nearly uniform softmax, whose ascent is another
        problem = (X.double(), Y, Linf(0.1), torch.Generator().manual_seed(0))
        of_scaled, of_bare = (PGD(steps=3).craft(one, *problem) for one in (objective.scaled_model(model), model))
        assert torch.equal(watching.made, of_scaled)
        assert not torch.equal(watching.made, of_bare)
    own = torch.arange(len(Y)), Y

    def cosines(pixels):
        features = model.features(pixels)
        across = features @ model.head.weight.T
        return across / features.norm(dim=1, keepdim=True) / model.head.weight.norm(dim=1)

    seen = cosines(X.double() if name == "trades-he" else watching.made)
    shifted = objective.scale * seen
    shifted[own] = objective.scale * (seen[own] - margin)
    expected = -(shifted[own].exp() / shifted.exp().sum(1)).log()
    if name == "trades-he":
        p, q = (15 * cosines(one) for one in (X.double(), watching.made))
        expected = expected + 6 * (p.softmax(1) * (p.softmax(1) / q.softmax(1)).log()).sum(1)
    assert torch.allclose(cost.loss, expected, atol=1e-10)
    assert torch.allclose(gradients(model, cost.loss.mean()), gradients(model, expected.mean()), atol=1e-9)
    with torch.no_grad():
        assert model(X.double()).abs().max() <= 1 + 1e-12


def test_trades_attacks_the_divergence_from_the_clean_answer(model):
    cost = TRADES()(model, X, Y, each(1.0), adversary())
    with torch.no_grad():
        noisy = model(X + 0.1 * torch.randn_like(X).sign())
        at_noise = F.kl_div(noisy.log_softmax(1), model(X).softmax(1), reduction="batchmean")
        at_attack = F.kl_div(cost.attacked.log_softmax(1), cost.clean.softmax(1), reduction="batchmean")
    assert at_attack > at_noise


@pytest.mark.parametrize("normalised", [False, True])
def test_trades_with_beta_0_is_standard_training(normalised, model):
    """Also where single classes have it."""
    betas = (torch.full(Y.shape, 6.0), torch.where(Y == 5, 0.5, 6.0))
    whole, apart = (TRADES()(model, X, Y, replace(each(), beta=beta), adversary()) for beta in betas)
    assert torch.allclose(whole.robust[Y == 5], 12 * apart.robust[Y == 5], rtol=1e-5)
    assert torch.equal(whole.loss[Y != 5], apart.loss[Y != 5])
    first, second = (one(model, X, Y, each(0.0), adversary()).loss for one in (TRADES(normalised=normalised), Standard()))
    assert torch.allclose(first, second, atol=1e-6)
    assert torch.allclose(gradients(model, first.mean()), gradients(model, second.mean()), atol=1e-6)


def test_a_detached_divergence_has_the_same_loss_and_another_gradient(model):
    both, one = (TRADES(detached=form)(model, X, Y, each(6.0), adversary()).loss for form in (False, True))
    assert torch.equal(both, one)
    assert not torch.allclose(gradients(model, both.mean()), gradients(model, one.mean()), atol=1e-4)


def test_the_attack_of_a_smoothed_trades_is_that_of_trades(model):
    plain, smoothed = (TRADES(smoothing=share)(model, X, Y, each(6.0), adversary()) for share in (0.0, 0.1))
    assert torch.equal(plain.attacked, smoothed.attacked)
    assert torch.equal(plain.robust, smoothed.robust)
    assert not torch.allclose(plain.natural, smoothed.natural, atol=1e-3)


def test_weights_multiply_the_terms_and_may_be_relative_to_the_batch():
    natural, robust = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    settings = each(images=2, weight=torch.tensor([1.0, 3.0]), robust=torch.tensor([2.0, 6.0]))
    cost = LossTerms(natural, None, None, robust)
    assert cost.weigh(settings).loss.tolist() == [1 + 6, 6 + 24]
    assert cost.weigh(settings, normalise_weights=True).loss.tolist() == [0.5 + 1.5, 3 + 6]


@pytest.mark.parametrize(("mode", "moves"), [("eval", 1), ("train", 4)])
def test_the_mode_of_the_attack_decides_how_often_the_running_statistics_move(model, mode, moves):
    fusing = replace(adversary(mode), fusions=inference.fusions(model.train()))
    Adversarial()(model, X, Y, each(0.0), fusing)
    assert int(model.body[1].num_batches_tracked) == moves
    scaled = models.build("small-cnn", images.load("digits", "train"), 4, head="cosine").train()
    DEFENCES["trades-he"].objective(scaled, X, Y, each(6.0, 0.2), adversary(mode))
    assert all(layer.training for one in (model, scaled) for layer in one.modules())


def test_trades_ends_on_the_clean_statistics_and_mart_on_the_attacked(model):
    order, clean = [], (X - model.mean) / model.std
    model.train().body[0].register_forward_hook(lambda _, inputs, out: order.append(inputs[0]) if model.training else None)
    TRADES()(model, X, Y, each(1.0), adversary())
    assert len(order) == 2
    assert torch.equal(order[-1], clean)
    MART()(model, X, Y, each(1.0), adversary())
    assert len(order) == 4
    assert torch.equal(order[2], clean)
    assert not torch.equal(order[3], clean)


def test_friendly_pgd_with_all_its_steps_is_pgd(model):
    friendly, plain = FriendlyPGD(steps=5, tau=5), PGD(steps=5)
    assert torch.equal(*(adversary(attack=one).craft(model, X, Y) for one in (friendly, plain)))


def test_friendly_pgd_stops_by_hand():
    """An image takes tau more steps once it is misclassified; one that begins misclassified takes just those."""
    x = torch.full((3, 1, 1, 1), 0.5)
    # Says class 1 above .62, and always asks to go up.
    threshold = Layer(lambda x: torch.cat([62 - 100 * x.flatten(1), 100 * x.flatten(1) - 62], 1))
    x[2] = 0.7
    y = torch.zeros(3, dtype=torch.int64)
    for tau, reached in ((0, [0.65, 0.65, 0.7]), (1, [0.7, 0.7, 0.75]), (9, [1.0, 1.0, 1.0])):
        attack = FriendlyPGD(steps=10, step=0.05, tau=tau, start="none")
        found = attack.search(threshold, x, y, Linf(0.9), torch.Generator())
        assert found.flatten().tolist() == pytest.approx(reached), tau


def test_tau_rises_with_the_training(model):
    attack = ATTACKS["friendly-10"]
    taus = {epoch: attack.attack_at((epoch - 0.5) / 120).tau for epoch in (1, 50, 51, 90, 91, 120)}
    assert taus == {1: 0, 50: 0, 51: 1, 90: 1, 91: 2, 120: 2}
    assert ATTACKS["friendly-10-constant"].attack_at(1.0) == ATTACKS["friendly-10-constant"]
    late = replace(adversary(attack=attack), progress=0.99).craft(model, X, Y)
    assert torch.equal(late, adversary(attack=replace(attack, tau=2, rises="")).craft(model, X, Y))
    assert not torch.equal(late, adversary(attack=attack).craft(model, X, Y))


def test_friendly_trades_is_judged_by_the_labels(model):
    """An image that the model already gets wrong is left where it starts."""
    with torch.no_grad():
        wrong = model(X).argmax(1) != Y
    assert wrong.any()
    watching = Watching(FriendlyPGD(steps=3, start="none"), Linf(0.1), "eval", torch.Generator())
    TRADES()(model, X, Y, each(6.0), watching)
    assert torch.equal(watching.made[wrong], X[wrong])
    assert not torch.equal(watching.made[~wrong], X[~wrong])


def test_the_similarity_of_classes_is_the_cosine_of_their_mean_answers():
    logits = torch.tensor([[2.0, 0, 0], [0, 2.0, 0], [3.0, 3.0, 0], [-1.0, 0, 0]])
    found = objectives.class_similarity(logits, torch.tensor([0, 0, 1, 2]))
    # Means (1, 1, 0), (3, 3, 0) and (-1, 0, 0): cosines 1, and two below 0.
    assert float(found) == pytest.approx(1 / 3)
    assert float(objectives.class_similarity(logits[:2], torch.tensor([0, 0]))) == 0


def test_the_regulariser_adds_its_similarity(model):
    plain, more = (Adversarial(similarity=weight)(model, X, Y, each(0.0), adversary()) for weight in (0.0, 0.5))
    assert torch.allclose(more.loss - plain.loss, 0.5 * objectives.class_similarity(plain.attacked, Y).expand(64), atol=1e-6)


def test_options_reach_the_part_that_has_them():
    assert defences.build("trades", {"beta": 2}).objective.beta == 2
    assert defences.build("trades").objective.beta == 6
    assert defences.build("pgd-at").objective.beta == 0
    fair = defences.build("trades-cfa", {"lambda1": 0.4, "threshold": 0.24, "beta": 3})
    assert (fair.calibration.lambda1, fair.averaging.threshold, fair.objective.beta) == (0.4, 0.24, 3)


@pytest.mark.parametrize("name", DEFENCES)
def test_no_option_belongs_to_two_parts(name):
    defence = DEFENCES[name]
    names = [each.name for part in (defence.objective, defence.calibration, defence.averaging) for each in fields(part)]
    assert len(names) == len(set(names))
    assert defence.attack is None or not defence.objective.soft_targets or not ATTACKS[defence.attack].needs_labels
    assert defence.head in models.HEADS
    assert defence.validation_attack in ATTACKS


def test_the_calibrated_defences_of_cfa_are_those_of_its_tables_without_averages():
    for name in ("trades-ccm-ccr", "fat-ccm", "at-ccm"):
        whole = DEFENCES[{"trades-ccm-ccr": "trades-cfa"}.get(name, name.replace("ccm", "cfa"))]
        assert DEFENCES[name] == replace(whole, averaging=NoAveraging())
    parts = CFA(lambda1=0.3, lambda2=0.5), FAWA(decay=0.85, threshold=0.2)
    assert DEFENCES["trades-cfa"] == Defence(TRADES(normalised=True), "pgd-10-gaussian", *parts)
    assert DEFENCES["fat-constant"] == replace(DEFENCES["fat-ccm"], calibration=Uniform())
    assert (ATTACKS[DEFENCES["fat-constant"].attack].tau, ATTACKS[DEFENCES["fat-constant"].attack].omega) == (3, 0)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("trades", {"beta": "six"}, "beta must be float, got 'six'"),
        ("standard", {"beta": 1}, "unknown option of defence 'standard' 'beta'"),
        ("at-ema", {"average_from": 0.5, "per": "step"}, "average_from counts epochs, .*; use per='epoch'"),
        ("codat", {"rho": -0.1}, "rho must be 0 or more, got -0.1"),
        ("csr", {"spectral": 1.0}, "spectral must be 0 or more and below 1, got 1.0"),
        ("single-class-at", {"label": 10}, "class 10, which does not exist"),
        ("trades-per-class", {"betas": "10:1"}, "class 10, which does not exist"),
        ("tardes", {}, "unknown defence 'tardes'"),
    ],
)
def test_options_that_do_not_fit_are_named(name, options, says):
    with pytest.raises(UserError, match=says):
        defences.build(name, options).check(10)


def test_a_calibrated_defence_is_compared_with_the_same_without():
    said = {name: defences.baseline_of(name) for name in defences.DEFENCES}
    assert said["at-cfa"] == said["at-fawa"] == said["at-ema"] == said["cost-sensitive"] == said["faal"] == "pgd-at"
    assert said["trades-cfa"] == said["trades-ccm-ccr"] == said["trades-ccr"] == said["trades-ema"] == "trades-normalised"
    assert said["fat-cfa"] == said["fat-ccm"] == "fat-constant"
    assert said["dafa"] == said["wat"] == said["csr"] == "trades"
    assert (said["codat"], said["n-fgsm"]) == ("pgd-at", None)
    # No defence has FRL's beta of 1.5 without the rest.
    assert said["frl-rw"] is None
    assert said["pgd-at"] is None
