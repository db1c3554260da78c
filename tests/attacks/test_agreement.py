"""Our attacks against independent implementations of them: the same network, the same settings, the verdict of each image.

`python -m benchmarks.agreement` does the same at full length, over every image of the digits.
"""

import math
from functools import cache

import pytest
import torch

from benchmarks import peers
from benchmarks.agreement import Network, Settings, broken, ours, pairs, theirs
from classwise import images, models
from classwise.attacks import PGD
from classwise.defences import DEFENCES
from classwise.defences.training import TrainConfig, begin, train

EPS, COUNT = 0.15, 200
# The number of images by which two implementations may differ, from rounding and other random starts.
ROOM = math.ceil(COUNT / 200)
# One ascent from a random start breaks a few images of 200 more or less than another, so that many starts are compared.
STARTS = 32
PAIRS = pairs(EPS, Settings(pgd_steps=20, steps=30, targets=4, queries=300))
TITLES = sorted({pair.title for pair in PAIRS})


@pytest.fixture(scope="module")
def network():
    """A network that withstands some attacks, and two hundred images it never saw."""
    data = images.load("digits", "train")
    model = models.build("small-cnn", data, width=8)
    plan = TrainConfig(DEFENCES["pgd-at"], PGD(steps=3), "linf", "eval", "one-cycle", 0.1, 6, 64)
    for _ in train(begin(model, plan, 10, EPS, 0), data, plan):
        pass
    return Network("digits", EPS, [(model.eval(), *images.load("digits", "test").batch(slice(COUNT)))])


@cache
def installed():
    return peers.installed()


def of(title, package=None):
    """The pairs of that title, and package, whose peer is there."""
    known = [pair for pair in PAIRS if pair.title == title and package in (None, pair.package)]
    present = [pair for pair in known if pair.package in installed()]
    if not present:
        pytest.skip(f"not installed: {', '.join(pair.package for pair in known)}")
    return present


@pytest.fixture(scope="module")
def near(network):
    """The images whose verdict depends on the attack, since a slightly smaller or larger radius decides it, repeated."""
    (model, x, y), *_ = network.parts
    less, more = (ours(PGD(steps=20, start="none"), Network("", radius, network.parts))[0] for radius in (0.85 * EPS, 1.15 * EPS))
    chosen = more & ~less
    return Network("near", EPS, [(model, x[chosen].repeat(STARTS, 1, 1, 1), y[chosen].repeat(STARTS))])


@pytest.mark.parametrize("package", peers.PEERS["pgd"])
def test_pgd_from_the_image_itself_gives_the_same_verdicts(network, package):
    (pair,) = of("PGD, no random start", package)
    mine, _ = ours(pair.ours, network)
    other, outside, _ = theirs(pair, network)
    assert outside == 0
    assert (mine != other).sum() <= ROOM


# These draw the random start of correctly classified images as we do, the same numbers in the same order.
SAME_START = [("PGD, random start", "torchattacks"), ("PGD, random start", "foolbox")]
SAME_START += [("APGD-CE", "torchattacks"), ("APGD-DLR", "torchattacks")]


@pytest.mark.parametrize(("title", "package"), SAME_START)
def test_the_same_random_start_gives_the_same_verdicts(near, title, package):
    (pair,) = of(title, package)
    mine, _ = ours(pair.ours, near)
    other, outside, _ = theirs(pair, near)
    assert outside == 0
    assert 0 < mine.sum() < len(mine)
    assert (mine != other).sum() <= len(mine) / 200


@pytest.mark.parametrize("title", [title for title in TITLES if title != "PGD, no random start"])
def test_ours_is_no_weaker_than_the_strongest_peer(network, near, title):
    known, random = of(title), title in ("PGD, random start", "APGD-CE", "APGD-DLR")
    victim, starts = (near, STARTS) if random else (network, 1)
    mine, _ = ours(known[0].ours, victim)
    for pair in known:
        other, outside, _ = theirs(pair, victim)
        assert outside == 0
        assert mine.sum() / starts >= other.sum() / starts - ROOM, pair.package


def test_the_network_leaves_room_to_be_weaker_and_to_be_stronger(network):
    (model, x, y), *_ = network.parts
    clean = broken(model, x, y, x, EPS)
    mine, _ = ours(PGD(steps=20), network)
    assert clean.sum() < COUNT // 10
    assert clean.sum() + COUNT // 10 < mine.sum() < COUNT * 9 // 10


def test_an_image_outside_the_ball_breaks_nothing(network):
    (model, x, y), *_ = network.parts
    far = (x + 5 * EPS * torch.randn(x.shape, generator=torch.Generator().manual_seed(0)).sign()).clamp(0, 1)
    with torch.no_grad():
        assert (model(far).argmax(1) != y).sum() > COUNT // 10
    assert torch.equal(broken(model, x, y, far, EPS), broken(model, x, y, x, EPS))


@pytest.mark.parametrize("kind", peers.PEERS)
def test_a_peer_leaves_the_model_and_the_random_states_alone(network, kind, untouched):
    (model, x, y), *_ = network.parts
    images_before = x.clone()
    brief = {"pgd": {"steps": 1, "step": 0.1, "random_start": True}, "autoattack": {"steps": 2, "queries": 3}}
    usual = {"queries": 3} if kind.startswith("square") else {"steps": 2} | ({"targets": 2} if kind.endswith("-t") else {})
    for package, attack in peers.PEERS[kind].items():
        if package not in installed():
            continue
        with untouched(model, train=True):
            attack(model, x[:8], y[:8], EPS, **brief.get(kind, usual))
        assert torch.equal(images_before, x)
