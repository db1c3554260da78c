import pytest
import torch

from classwise import images, models
from classwise.errors import UserError
from classwise.folding import searchable


@pytest.fixture
def train():
    return images.load("digits", "train")


def test_logits_are_the_head_of_the_features(train):
    model = models.build("small-cnn", train, width=4).eval()
    x, _ = train.batch(slice(0, 7))
    assert model(x).shape == (7, 10)
    assert torch.equal(model.head(model.features(x)), model(x))


def test_pixels_are_normalised_inside(train):
    model = models.build("small-cnn", train, width=4).eval()
    x, _ = train.batch(slice(None))
    seen = []
    model.body[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(x)
    assert seen[0].mean() == pytest.approx(0, abs=1e-5)
    assert seen[0].std() == pytest.approx(1, abs=1e-4)
    assert {"mean", "std"} <= set(model.state_dict())


def test_the_seed_decides_the_weights_and_nothing_else(train):
    before = torch.random.get_rng_state()
    one, same, other = (models.build("small-cnn", train, 4, seed).head.weight for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(before, torch.random.get_rng_state())


def test_any_size_and_number_of_classes_fits(train):
    odd = images.Images(torch.zeros(5, 3, 9, 7, dtype=torch.uint8), torch.arange(5) % 3, torch.arange(5), ("a", "b", "c"))
    assert models.build("small-cnn", odd, 2)(torch.rand(2, 3, 9, 7)).shape == (2, 3)


def test_an_unknown_model_is_named(train):
    with pytest.raises(UserError, match="did you mean 'small-cnn'"):
        models.build("small_cnn", train, 4)


@pytest.mark.parametrize(("name", "parameters"), [("resnet18", 11_173_962), ("preact-resnet18", 11_172_170)])
def test_residual_networks_have_the_published_size_and_shapes(name, parameters):
    colour = images.Images(torch.randint(0, 256, (4, 3, 32, 32)).byte(), torch.arange(4), torch.arange(4), tuple("abcdefghij"))
    model = models.build(name, colour, width=64).eval()
    assert sum(one.numel() for one in model.parameters()) == parameters
    x, _ = colour.batch(slice(None))
    sizes = []
    for block in model.body:
        block.register_forward_hook(lambda _, __, out: sizes.append(tuple(out.shape[1:])))
    assert model.features(x).shape == (4, 512)
    assert [size for size in dict.fromkeys(sizes) if len(size) == 3][-5:-1] == [
        (64, 32, 32),
        (128, 16, 16),
        (256, 8, 8),
        (512, 4, 4),
    ]
    narrow = models.build(name, colour, width=4)
    assert narrow(x).shape == (4, 10)


def test_a_preactivated_block_is_the_formula():
    block = models._PreActivation(3, 5, 2).eval()
    x = torch.rand(2, 3, 8, 8)
    active = torch.relu(block.bn1(x))
    expected = block.conv2(torch.relu(block.bn2(block.conv1(active)))) + block.shortcut(active)
    assert torch.equal(block(x), expected)


def test_a_cosine_head_gives_the_cosines_to_its_directions(train):
    model = models.build("small-cnn", train, width=4, head="cosine").eval()
    x, _ = train.batch(slice(0, 7))
    features, weight = model.features(x), model.head.weight
    expected = (features @ weight.T) / features.norm(dim=1, keepdim=True) / weight.norm(dim=1)
    assert torch.allclose(model(x), expected, atol=1e-6)
    weight.data.mul_(3)
    assert torch.allclose(model(x), expected, atol=1e-6)
    (gradient,) = torch.autograd.grad(model(x)[:, 0].sum(), weight)
    assert (gradient * weight).sum(1).abs().max() < 1e-5, "no gradient along a direction"


def test_a_plane_head_has_features_of_two_numbers(train):
    model = models.build("small-cnn", train, width=4, head="plane").eval()
    x, _ = train.batch(slice(0, 7))
    assert model.features(x).shape == (7, 2)
    assert model(x).shape == (7, 10)
    assert model.head.bias is None


def test_batch_instance_norm_is_its_formula():
    layer = models.BatchInstanceNorm(3).double()
    x = torch.randn(5, 3, 4, 4, generator=torch.Generator().manual_seed(0)).double()
    batch, instance = torch.nn.BatchNorm2d(3).double(), torch.nn.InstanceNorm2d(3).double()
    assert torch.allclose(layer(x), batch(x)), "the gate begins at batch norm"
    gate = torch.tensor([0.0, 0.3, 1.0]).double()
    layer.gate.data.copy_(gate)
    layer.weight.data.fill_(2)
    layer.bias.data.fill_(1)
    mixed = gate.view(-1, 1, 1) * batch(x) + (1 - gate.view(-1, 1, 1)) * instance(x)
    assert torch.allclose(layer(x), 2 * mixed + 1)
    layer.eval()
    batch.eval()
    mixed = gate.view(-1, 1, 1) * batch(x) + (1 - gate.view(-1, 1, 1)) * instance(x)
    assert torch.allclose(layer(x), 2 * mixed + 1), "an image's own statistics in eval mode too"


@pytest.mark.parametrize("name", models.MODELS)
def test_any_model_takes_batch_instance_norm(train, name):
    model = models.build(name, train, width=4, layer="batch-instance")
    kinds = [type(layer).__name__ for layer in model.modules()]
    assert kinds.count("BatchInstanceNorm") == kinds.count("BatchNorm2d") > 0
    assert model(train.batch(slice(0, 4))[0]).isfinite().all()


@pytest.mark.parametrize("head", models.HEADS)
@pytest.mark.parametrize("layer", models.LAYERS)
def test_any_head_and_layer_can_be_searched_on(train, head, layer):
    x, _ = train.batch(slice(0, 32))
    model = models.build("resnet18", train, width=4, head=head, layer=layer).train()
    model(x)
    model.eval().requires_grad_(False)
    spread = float(model(x).std())
    assert torch.allclose(searchable(model, x)(x), model(x), atol=1e-3 * spread)
    assert torch.allclose(searchable(model, x, "bfloat16")(x), model(x), atol=0.2 * spread)
