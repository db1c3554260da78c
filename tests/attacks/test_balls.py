import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from classwise.attacks.balls import BALLS, L2, Linf


def image(seed, n=6):
    return torch.rand(n, 1, 4, 4, generator=torch.Generator().manual_seed(seed))


radii = st.one_of(
    st.floats(0, 0.9),
    st.lists(st.floats(0, 0.9), min_size=6, max_size=6).map(lambda each: torch.tensor(each, dtype=torch.float32)),
)


@pytest.mark.parametrize("kind", BALLS.values(), ids=BALLS)
@given(radius=radii, seed=st.integers(0, 1000))
@settings(max_examples=40)
def test_a_projected_image_lies_in_the_ball_and_stays_where_it_is(kind, radius, seed):
    ball, centre = kind(radius), image(seed)
    far = centre + 3 * (image(seed + 1) - 0.5)
    near = ball.project(far, centre)
    assert ball.contains(near, centre).all()
    assert torch.allclose(ball.project(near, centre), near, atol=1e-6)


@pytest.mark.parametrize("kind", BALLS.values(), ids=BALLS)
def test_samples_fill_the_ball_and_its_surface(kind, generator):
    centre, ball = torch.full((2000, 1, 2, 2), 0.5), kind(0.3)
    inside = ball.distance(ball.sample(centre, generator), centre)
    surface = ball.distance(ball.sample(centre, generator, surface=True), centre)
    assert inside.max() <= 0.3 + 1e-6
    # Uniform in a volume of four dimensions: the share within a fraction q of the radius is q to the fourth.
    assert float((inside < 0.15).float().mean()) == pytest.approx(0.5**4, abs=0.02)
    assert torch.allclose(surface, torch.tensor(0.3), atol=1e-5)


@pytest.mark.parametrize("kind", BALLS.values(), ids=BALLS)
def test_a_step_has_its_length_and_goes_along_the_gradient_or_its_sign(kind, generator):
    gradient = torch.randn(6, 1, 4, 4, generator=generator)
    gradient[0] = 0
    sizes = torch.tensor([0.2, 0.1, 0.2, 0.3, 0.4, 0.5])
    expected = gradient.sign() if kind is Linf else gradient / gradient.flatten(1).norm(dim=1).clamp_min(1e-9).view(-1, 1, 1, 1)
    assert torch.allclose(kind(1.0).step(image(0), gradient, sizes) - image(0), sizes.view(-1, 1, 1, 1) * expected, atol=1e-6)
    assert torch.allclose(kind(1.0).step(image(0), gradient, 0.2) - image(0), 0.2 * expected, atol=1e-6)


def test_l2_projection_is_the_nearest_point_of_the_ball():
    centre, x = torch.full((1, 1, 1, 2), 0.5), torch.tensor([[[[0.9, 0.8]]]])
    assert L2(0.25).project(x, centre).flatten().tolist() == pytest.approx([0.7, 0.65])


def test_a_radius_per_image_goes_with_its_image():
    ball = Linf(torch.tensor([0.1, 0.2, 0.3]))
    assert ball.select(torch.tensor([2, 0])).radius.tolist() == pytest.approx([0.3, 0.1])
    assert ball.select(torch.tensor([False, True, False])).radius.tolist() == pytest.approx([0.2])
    assert Linf(0.1).select(torch.tensor([1])) == Linf(0.1)


def test_contains_tells_the_ball_and_the_range_apart():
    centre = torch.full((4, 1, 1, 1), 0.9)
    x = torch.tensor([0.9, 1.0, 1.05, 0.7]).view(4, 1, 1, 1)
    assert Linf(0.15).contains(x, centre).tolist() == [True, True, False, False]
