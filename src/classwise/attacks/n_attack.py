"""N-attack: a distribution of candidates moves towards misclassified images; only their probabilities are needed."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack, AttackResult
from classwise.attacks.carlini_wagner import box, unbox
from classwise.core.options import Count, OneOf, Positive

# The most candidates in one forward pass.
_CANDIDATES = 8192


@dataclass(frozen=True)
class NAttack(Attack):
    """Moves the mean of a normal distribution, in tanh coordinates, towards misclassified images; it uses probabilities only.

    population: candidates per step. sigma: their standard deviation. rate: learning rate of the mean. every: after so many steps
    the mean is tried, and the image is broken if it is misclassified. reward: "paper" compares p_y with the likeliest other class
    of each candidate; "code", as in every published implementation, with that of the first candidate, which is nearly log p_y.
    """

    black_box: ClassVar[bool] = True
    steps: Count = 500
    population: Count = 300
    sigma: Positive = 0.1
    rate: Positive = 0.02
    every: Count = 10
    reward: Annotated[str, OneOf(("paper", "code"))] = "paper"

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> AttackResult:
        result, queries = x.clone(), torch.zeros(len(x), dtype=torch.long, device=x.device)
        mean = 0.001 * torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
        origin = unbox(x)
        left = (model(x).argmax(1) == y).nonzero()[:, 0]
        for step in range(self.steps + 1):
            if len(left) and (step % self.every == 0 or step == self.steps):
                result[left] = ball.select(left).project(box(origin[left] + mean[left]), x[left])
                queries[left] += 1
                left = left[torch.cat([model(result[part]).argmax(1) == y[part] for part in self._parts(left)])]
            if not len(left) or step == self.steps:
                break
            for part in self._parts(left):
                mean[part] += self._step(model, x[part], y[part], origin[part] + mean[part], ball.select(part), generator)
            queries[left] += self.population
        return AttackResult(result, queries)

    def _parts(self, left: Tensor) -> tuple[Tensor, ...]:
        return torch.split(left, max(1, _CANDIDATES // self.population))

    def _step(self, model: nn.Module, x: Tensor, y: Tensor, mean: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        """Return the change of the means: the noise of the candidates, weighted by their standardised rewards."""
        shape = (len(x), self.population, *x.shape[1:])
        noise = torch.randn(shape, generator=generator, device=x.device, dtype=x.dtype)
        owner = torch.arange(len(x), device=x.device).repeat_interleave(self.population)
        tried = ball.select(owner).project(box(mean[:, None] + self.sigma * noise).flatten(0, 1), x[owner])
        logs = model(tried).log_softmax(1).view(len(x), self.population, -1)
        truth = y.view(-1, 1, 1).expand(-1, self.population, 1)
        other = logs.scatter(2, truth, -torch.inf).amax(2)
        if self.reward == "code":
            other = other[:, :1]
        gained = -0.5 * (logs.gather(2, truth)[..., 0] - other).clamp_min(0)
        spread = gained.std(1, correction=0, keepdim=True)
        weight = (gained - gained.mean(1, keepdim=True)) / (spread + 1e-7)
        scale = self.rate / (self.population * self.sigma)
        moved: Tensor = scale * (weight.view(len(x), -1, 1, 1, 1) * noise).sum(1)
        return moved
