"""How long runs take on a device: by rates measured there, kept in data/runs/pace.json, else as on a core of another machine.

Of a network that was measured on neither, and on a GPU, the numbers of operations and of passes decide: those of a training or an
evaluation are estimated before it runs, and so are the bytes that it leaves on disk.
"""

import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn

from classwise import attacks, defences, models
from classwise.core import files
from classwise.core.datasets import DatasetSize
from classwise.core.paths import data_folder
from classwise.core.spec import Evaluation, Spec
from classwise.images import Images
from classwise.runs import store
from classwise.runs.compute import device, rebuild, threads, validate
from classwise.runs.compute.work import Timing
from classwise.runs.schedule import REFERENCE

# The GPU that stands for any other.
PLANNED = "NVIDIA H200"
# Assumed: the operations per second that a GPU and a CPU thread reach in float32, on batches of 128 images of 32 x 32 pixels; in
# bfloat16 twice as many; and the least seconds of a pass of a batch on a GPU.
_GPU, _THREAD, _PASS = 3e13, 1e11, 6e-4
# An attack that stops early takes all its steps only on images that withstand it: about this share after adversarial training.
WITHSTANDING = 0.5
# Of a training, the least share whose time counts.
_LEAST_SHARE = 0.05


def pace_file() -> Path:
    """Return the path of the measured rates."""
    return data_folder() / "runs" / "pace.json"


def rate_of(spec: Spec, evaluation: Evaluation | None = None) -> tuple[str, str]:
    """Return the keys of the operations per second: a network on a dataset in a precision, and that it trains, or the attack."""
    precision, kind = (spec.precision, "train") if evaluation is None else (evaluation.precision, evaluation.attack)
    return f"rate: {spec.dataset}, {spec.model} {spec.width}, {precision}", f"{kind} on {spec.defence}"


class Costs:
    """Seconds of trainings and evaluations on one device, each computed alone (on one thread of a CPU).

    device: its name, as in the attributes of results. rates: the last KEPT by device, network and kind, of `pace_file`; one that
    is missing or cut short counts as empty.
    """

    KEPT = 3

    def __init__(self, device: str, *, gpu: bool) -> None:
        self.device, self.gpu = device, gpu
        self.rates: dict[str, dict[str, dict[str, list[float]]]] = {}
        with suppress(OSError, ValueError, AttributeError, TypeError):
            self.rates = {
                place: {
                    what: {kind: [float(rate) for rate in rates] for kind, rates in known.items()} for what, known in of.items()
                }
                for place, of in json.loads(pace_file().read_text()).items()
            }

    def rate(self, spec: Spec, evaluation: Evaluation | None = None) -> float | None:
        """Return the measured operations per second of a network, with other defences or of all it did if that is not known.

        None without any. Networks of standard training break at once and count only for themselves.
        """
        what, kind = rate_of(spec, evaluation)
        of_network = self.rates.get(self.device, {}).get(what, {})
        others = {name: rates for name, rates in of_network.items() if not name.endswith(" on standard")}
        alike = [rates for name, rates in others.items() if name.split(" on ")[0] == kind.split(" on ")[0]]
        known = of_network.get(kind) or [rate for rates in alike or others.values() for rate in rates]
        return median(known) if known else None

    def seconds(self, spec: Spec, evaluation: Evaluation | None = None) -> float:
        """Return the seconds of a training, or of an evaluation of a run; 0 if the number of its images is unknown."""
        work, batch, precision = operations(spec, evaluation), (evaluation or spec).batch, (evaluation or spec).precision
        if (rate := self.rate(spec, evaluation)) or not work:
            return work / (rate or 1)
        times = 2 if precision == "bfloat16" else 1
        if self.gpu:
            size = validate.training_size(spec)
            assert size is not None
            return max(work / _GPU / times, work / _network_of(spec, size)[0] / batch * _PASS)
        return work / (reference_costs().rate(spec, evaluation) or _THREAD * times) * slowness()

    def record(self, result: store.Key, timing: Timing) -> None:
        """Record how long a training or an evaluation took on a device; what is stored of few images has no rate of its own.

        Nor has a training of which so little was done that waiting took most of the time.
        """
        of_rate = result.kind == store.OUTCOMES or (result.kind == store.HISTORY and timing.share >= _LEAST_SHARE)
        work = timing.share * operations(result.spec, result.evaluation) if of_rate else 0
        if work > 0 and timing.seconds > 0:
            what, kind = rate_of(result.spec, result.evaluation)
            rates = self.rates.setdefault(timing.device, {}).setdefault(what, {}).setdefault(kind, [])
            rates.append(float(f"{work / timing.seconds:.6g}"))
            del rates[: -self.KEPT]

    def write(self) -> None:
        """Write the file."""
        files.write(pace_file(), json.dumps(self.rates, indent=1, sort_keys=True).encode())


@cache
def reference_costs() -> Costs:
    """Return what runs cost on a core of the reference machine."""
    known = json.loads(REFERENCE.read_text())
    costs = Costs(known["device"], gpu=False)
    costs.rates = {known["device"]: known["rates"]}
    return costs


def seconds_of_step() -> float:
    """Return the seconds of a training step of a network for digits, of 64 images, on a thread of this processor."""
    images = Images(torch.zeros(64, 3, 8, 8, dtype=torch.uint8), torch.arange(64), torch.arange(64), tuple("0123456789"))
    network, x = models.build("small-cnn", images, 8), torch.rand(64, 3, 8, 8)
    with device.one_thread():
        return threads.seconds_of_step(lambda: network(x).sum().backward(), 1)


@cache
def slowness() -> float:
    """Return how many times as long as a core of the reference machine a thread here takes for a step."""
    return seconds_of_step() / float(json.loads(REFERENCE.read_text())["step"])


@cache
def _network(model: str, width: int, shape: tuple[int, int, int], classes: int, head: str, layer: str) -> tuple[float, int]:
    """Return the operations of the forward pass of one image, and the bytes of the weights."""
    image = Images(torch.zeros(2, *shape, dtype=torch.uint8), torch.arange(2), torch.arange(2), tuple(map(str, range(classes))))
    network = models.build(model, image, width, 0, head, layer).eval()
    operations = 0.0

    def count(layer: nn.Module, _: object, out: Tensor) -> None:
        nonlocal operations
        weight = layer.weight
        assert isinstance(weight, Tensor)
        # Each output multiplies and adds all weights that lead to it.
        operations += 2 * out.numel() * weight[0].numel()

    # Convolutions and linear layers do nearly all of it; the counter in torch takes ten seconds to import.
    for part in network.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            part.register_forward_hook(count)
    with torch.no_grad():
        network(torch.zeros(1, *shape))
    return operations, sum(value.numel() * value.element_size() for value in network.state_dict().values())


def _network_of(spec: Spec, size: DatasetSize) -> tuple[float, int]:
    shape = (size.channels, size.height, size.width)
    return _network(spec.model, spec.width, shape, size.classes, validate.head(spec), spec.layer)


def training_operations(spec: Spec) -> float:
    """Return the operations of a training, its measurements and rebuilt images; 0 if the number of images is unknown."""
    size, validation = validate.training_size(spec), validate.validation_attack(spec)
    if size is None:
        return 0.0
    defence = defences.build(spec.defence, spec.options)
    name, probe = spec.attack or defence.attack, attacks.build(spec.probe)
    # Forward, and backward to the input and to the weights.
    step: float = 3 * defence.objective.training_passes
    step += attacks.build(name, spec.attack_options).cost(size.classes) if name else 0
    passes: float = spec.epochs * (spec.epoch_images or size.train) * step + size.train * rebuild.cost(spec)
    if validation is not None:
        selected = len(spec.averages) / spec.select_averages_every if spec.select is not None else 0
        images = round(size.valid * (1 + selected)) + (size.test if spec.test_selected else 0)
        attack = attacks.build(validation)
        share = (1 - spec.select_from) * (WITHSTANDING if attack.stops_early else 1.0)
        passes += spec.epochs * images * (1 + attack.cost(size.classes)) * share
    probed = size.test + (0 if validation == spec.probe else size.valid)  # what the training measures is not measured again
    measured = len({1, spec.epochs, *range(spec.measure, spec.epochs + 1, spec.measure)})
    passes += measured * probed * (1 + probe.cost(size.classes))
    return passes * _network_of(spec, size)[0]


def image_count(evaluation: Evaluation, size: DatasetSize) -> int:
    """Return the number of images of an evaluation."""
    full: int = getattr(size, evaluation.split)
    full = full * len(evaluation.classes) // size.classes if evaluation.classes else full
    return full if evaluation.per_class is None else min(full, evaluation.per_class * size.classes)


def operations(spec: Spec, evaluation: Evaluation | None = None) -> float:
    """Return the operations of a training or of evaluating a run; 0 if the number of its images is unknown."""
    if evaluation is None:
        return training_operations(spec)
    size = validate.training_size(spec)
    if size is None:
        return 0.0
    attack = attacks.build(evaluation.attack, evaluation.options)
    # One prediction before the attack, one after it.
    passes = 2 + attack.cost(size.classes) * (WITHSTANDING if attack.stops_early else 1.0)
    return image_count(evaluation, size) * passes * _network_of(spec, size)[0]


def bytes_on_disk(spec: Spec, evaluation: Evaluation | None) -> int:
    """Return the bytes on disk of a training or of an evaluation of a run, 0 if the number of images is unknown."""
    size = validate.training_size(spec)
    if size is None:
        return 0
    if evaluation is None:
        return _network_of(spec, size)[1] * len(validate.checkpoints(spec)) + 40_000
    # Of each image: logits, label, prediction, verdicts and coordinates.
    return image_count(evaluation, size) * (4 * min(size.classes, 100) + 30) + 30_000
