"""Custom layers and heads: cosine head, plane head, batch-instance normalisation."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CosineHead(nn.Module):
    """The cosines between the features and a direction for each class, without a scale (HE, Pang et al. 2020; LDAM).

    The directions are normalised in the forward pass, so that gradients are orthogonal to them; HE's published code rescales the
    weights in place instead. Weight decay shortens the vectors without changing the output. The directions of a linear layer of
    zeros are initialised as by torch.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = nn.Parameter(linear.weight.detach().clone())
        if not self.weight.any():
            nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def forward(self, features: Tensor) -> Tensor:
        # The body may run in bfloat16.
        return F.linear(F.normalize(features.to(self.weight.dtype), dim=1), F.normalize(self.weight, dim=1))


class BatchInstanceNorm(nn.Module):
    """Batch norm and instance norm, mixed by a gate for each channel (Nam and Kim 2018; Entropy 2022, A.3).

    weight x (gate x BN(x) + (1 - gate) x IN(x)) + bias: instance norm uses the statistics of each image, in eval mode too; the
    gate starts at 1 (batch norm only), and training clips it to [0, 1] after each step.
    """

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.batch = nn.BatchNorm2d(channels, eps=eps, affine=False)
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.gate = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        var, mean = torch.var_mean(x, dim=(2, 3), correction=0, keepdim=True)
        instance = (x - mean) * (var + self.batch.eps).rsqrt()
        gate, weight, bias = (value.view(-1, 1, 1) for value in (self.gate, self.weight, self.bias))
        result: Tensor = weight * (gate * self.batch(x) + (1 - gate) * instance) + bias
        return result


def replace_batch_norm(body: nn.Module) -> int:
    """Replace every batch norm of a freshly initialised body in place; return their number."""
    norms = [(name, layer) for name, layer in body.named_modules() if isinstance(layer, nn.BatchNorm2d)]
    for name, layer in norms:
        body.set_submodule(name, BatchInstanceNorm(layer.num_features, layer.eps))
    return len(norms)


def conv(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
    """Return a padded 3x3 convolution, batch norm and ReLU."""
    return [nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]


def _plane(body: nn.Module, head: nn.Linear) -> tuple[nn.Module, nn.Module]:
    return nn.Sequential(body, nn.Linear(head.in_features, 2)), nn.Linear(2, head.out_features, bias=False)


# Functions (body, linear head) -> (body, head).
HEADS: dict[str, Callable[[nn.Module, nn.Linear], tuple[nn.Module, nn.Module]]] = {
    "linear": lambda body, head: (body, head),
    "cosine": lambda body, head: (body, CosineHead(head)),
    "plane": _plane,  # two features, to be plotted, and a head without bias (Entropy 2022, 2.1)
}
LAYERS = ("batch", "batch-instance")
