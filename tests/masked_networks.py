"""Networks on digits whose robust accuracy attacks get right or wrong for a known reason, as audits of a user's weights.

robust: adversarially trained, nothing hidden. moderate: the same at a larger radius, so that it is less accurate
without an attack. overfitted: trained against a single step until several steps break every image
(catastrophic overfitting). quantised: its pixels are rounded, so that it has no gradient. saturated: the softmax of its logits is
exactly 0 or 1. noisy: it adds noise to its pixels. The last three are otherwise a standard network.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import xarray as xr
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from classwise import attacks, images, runs
from classwise.attacks.balls import BALLS
from classwise.charts import audit_report, class_explorer
from classwise.core.audit import Audit
from classwise.runs.compute.device import one_thread
from classwise.stats import masking, metrics

MODULE = """
import torch
from torch import nn


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


class Quantised(Net):
    def forward(self, x):
        return super().forward((x * 4).round() / 4)


class Saturated(Net):
    def forward(self, x):
        return 1000 * super().forward(x)


class Noisy(Net):
    def forward(self, x):
        return super().forward(x + 0.1 * torch.randn_like(x))


robust = moderate = overfitted = Net
quantised, saturated, noisy = Quantised, Saturated, Noisy
"""


@dataclass(frozen=True)
class Training:
    """How a network is trained: the attack inside, its radius, epochs, and whether clean images are trained on, too."""

    attack: str
    eps: float
    epochs: int
    clean: bool = False


STANDARD = Training("clean", 0.0, 8)
TRAININGS = {"robust": Training("pgd-5", 0.2, 20), "moderate": Training("pgd-5", 0.3, 20)}
TRAININGS |= {"overfitted": Training("fgsm", 0.3, 20, clean=True)}
# The radius at which each is audited.
RADII = {"robust": "0.2", "moderate": "0.2", "overfitted": "0.3", "quantised": "0.2", "saturated": "0.2", "noisy": "0.2"}


@one_thread()
def trained(training: Training, seed: int = 0) -> dict[str, Tensor]:
    """Return the weights of `Net` in MODULE."""
    torch.manual_seed(seed)
    space: dict[str, Callable[[], nn.Module]] = {}
    exec(MODULE, space)
    model, data = space["Net"](), images.load("digits", "train")
    x, y = data.batch(slice(None))
    generator, ball = torch.Generator().manual_seed(seed), BALLS["linf"](training.eps)
    optimiser = torch.optim.Adam(model.parameters(), 0.002)
    attack = attacks.build(training.attack)
    for _ in range(training.epochs):
        for rows in torch.randperm(len(x), generator=generator).split(64):
            attacked = attack.craft(model, x[rows], y[rows], ball, generator)
            loss = cross_entropy(model(attacked), y[rows])
            loss = loss + cross_entropy(model(x[rows]), y[rows]) if training.clean else loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model.state_dict()


def audit(kind: str, folder: Path, attack: str, seed: int = 0, limit: int | None = None) -> Audit:
    """Return the audit of a network of this kind, whose weights and module are written to a folder."""
    weights = folder / f"{kind}-{seed}.safetensors"
    if not weights.exists():
        folder.mkdir(parents=True, exist_ok=True)
        safetensors.torch.save_file(trained(TRAININGS.get(kind, STANDARD), seed), weights)
    (folder / "masked.py").write_text(MODULE)
    options = {"model": f"masked:{kind}", "eps": RADII[kind], "attack": attack, "limit": limit, "home": str(folder)}
    return runs.audit(str(weights), **options)


def accuracies(
    audit: Audit, outcomes: xr.Dataset, curve: xr.Dataset, checks: Mapping[str, Mapping[str, Any]]
) -> dict[str, tuple[float, float]]:
    """Return each accuracy over all images up to the audit's radius, in percent, and half a unit of its last digit.

    They are computed from the outcomes of each evaluation, or read from the tables and sentences of the page.
    """
    attacks = [str(name) for name in outcomes.attack.values]
    result = {name: (100 * float(1 - outcomes.misclassified.sel(attack=name).mean()), 1e-9) for name in attacks}
    below = [str(radius) for radius in curve.eval_eps.values if Fraction(str(radius)) <= Fraction(audit.eps)]
    result |= {f"curve at {one}": (100 * float(1 - curve.misclassified.sel(eval_eps=one).mean()), 1e-9) for one in below}
    results = masking.worst_case_outcomes(outcomes, curve, audit.eps)
    count = audit_report.network_counts(results)
    steps = class_explorer.radius_counts(outcomes, masking.curve_with_worst_case(curve, results, audit.eps))
    charted = metrics.overall(steps).isel(radius=int((steps.eps == audit.eps).argmax("radius")))
    result["chart of radii"] = float(charted), 1e-9
    misclassified = audit_report.sanity_table(audit, results, checks)["images misclassified"]
    result |= {f"table, {name}": (100 - float(share.rstrip("%")), 0.05) for name, share in misclassified.items()}
    table = audit_report.class_table(audit_report.class_numbers(audit, count, steps), count)
    for column in (name for name in table if name.endswith(", % [95 %]")):
        select_classes = table[column].str.partition(" ")[0].astype(float)
        result[f"classes, {column}"] = float((select_classes * table["images"]).sum() / table["images"].sum()), 0.05
    gap, check = audit_report.attack_gap(audit, count), masking.black_box_check(outcomes, curve, audit.eps)
    result |= {f"gap {place}": (float(text), 0.05) for place, text in enumerate(re.findall(r"([\d.]+) %", gap))}
    first = audit_report.attack_summary(audit, count, check).splitlines()[0]
    result["summary"] = float(re.search(r"classifies (\d+) %", first)[1]), 0.5
    return result
