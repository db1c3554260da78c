"""How long runs take on a device: by rates measured there, kept in data/runs/pace.json, else from those of another machine.

Of a network that was measured on neither, the number of operations decides.
"""

import json
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from statistics import median
from typing import NamedTuple

from classwise.core import files
from classwise.core.paths import data_folder
from classwise.core.spec import Evaluation, Spec
from classwise.runs import store
from classwise.runs.compute.work import Timing
from classwise.runs.schedule import REFERENCE, flops
from classwise.runs.schedule.flops import Flops

# A network on a dataset in a precision, and what it does: it trains or is attacked, with a defence.
RateKey = tuple[str, str]


class DeviceSpeed(NamedTuple):
    """The speed of a device without measurements of the same network.

    bfloat16, float32: operations per second that are reached on small images (batches of 128 of 32 x 32 pixels), well below the
    advertised ones. call: the least seconds of a pass of a batch, however small the network.
    """

    bfloat16: float
    float32: float
    call: float


# Assumed; a GPU that is not listed counts as the first one.
GPUS: dict[str, DeviceSpeed] = {
    "NVIDIA H200": DeviceSpeed(6e13, 3e13, 6e-4),
    "NVIDIA H100": DeviceSpeed(5e13, 2.5e13, 6e-4),
    "NVIDIA A100": DeviceSpeed(3e13, 1.5e13, 8e-4),
}
PLANNED = "NVIDIA H200"


def device_speed(device: str, *, gpu: bool) -> DeviceSpeed:
    """Return the assumed speed of a GPU, or of a thread of this processor, measured in a second; twice as fast in bfloat16."""
    if gpu:
        return next((speed for name, speed in GPUS.items() if device.startswith(name)), GPUS[PLANNED])
    (operations, _), (_, call) = flops.speed("resnet18", 16, 32, 32), flops.speed("small-cnn", 8, 8, 64)
    return DeviceSpeed(2 * operations, operations, call)


def pace_file() -> Path:
    """Return the path of the measured rates."""
    return data_folder() / "runs" / "pace.json"


def rate_of(spec: Spec, evaluation: Evaluation | None = None) -> RateKey:
    """Return the key of the operations per second of a network in training or under an attack."""
    precision, kind = (spec.precision, "train") if evaluation is None else (evaluation.precision, evaluation.attack)
    return f"rate: {spec.dataset}, {spec.model} {spec.width}, {precision}", f"{kind} on {spec.defence}"


class Costs:
    """Seconds of trainings and evaluations on one device, each computed alone (on one thread of a CPU).

    device: its name, as in the attributes of results. file: the last KEPT rates by device, network and kind, by default those of
    the data folder; one that is missing or damaged counts as empty.
    """

    KEPT = 3

    def __init__(self, device: str, *, gpu: bool, file: Path | None = None) -> None:
        self.device, self.gpu, self.file = device, gpu, file or pace_file()
        self.rates: dict[str, dict[str, dict[str, list[float]]]] = {}
        with suppress(OSError, ValueError, AttributeError, TypeError):
            self.rates = {
                place: {
                    what: {kind: [float(rate) for rate in rates] for kind, rates in known.items()} for what, known in of.items()
                }
                for place, of in json.loads(self.file.read_text()).items()
            }

    @cached_property
    def speed(self) -> DeviceSpeed:
        """The speed of the device where nothing was measured on it."""
        return device_speed(self.device, gpu=self.gpu)

    def last(self, key: RateKey) -> list[float]:
        """Return the last rates of exactly this key on this device, at most KEPT."""
        return self.rates.get(self.device, {}).get(key[0], {}).get(key[1], [])

    def known(self, key: RateKey) -> list[float]:
        """Return the last rates of this key, else of other defences than standard training, whose networks break at once."""
        attack, of_network = key[1].split(" on ")[0], self.rates.get(self.device, {}).get(key[0], {})
        alike = [kind for kind in of_network if kind.split(" on ")[0] == attack and not kind.endswith(" on standard")]
        return self.last(key) or [rate for kind in alike for rate in of_network[kind]]

    def rate(self, spec: Spec, evaluation: Evaluation | None = None) -> float | None:
        """Return the measured operations per second of a network, of its training if not under the attack; None without any."""
        known = self.known(rate_of(spec, evaluation))
        if not known and evaluation is not None and evaluation.precision == spec.precision:
            known = self.known(rate_of(spec))
        return median(known) if known else None

    def seconds(self, spec: Spec, evaluation: Evaluation | None = None) -> float:
        """Return the seconds of a training, or of an evaluation of a run; 0 if the number of its images is unknown."""
        work, rate = _work(spec, evaluation), self.rate(spec, evaluation)
        if rate is not None:
            return work.operations / rate
        precision = spec.precision if evaluation is None else evaluation.precision
        assumed, elsewhere = _assumed(work, precision, self.speed), reference_costs()
        rate = None if self.gpu else elsewhere.rate(spec, evaluation)
        return assumed if rate is None else work.operations / rate * assumed / _assumed(work, precision, elsewhere.speed)

    def record(self, result: store.Key, timing: Timing) -> None:
        """Record how long a training or an evaluation took on a device; what is stored of few images has no rate of its own."""
        if result.kind in (store.HISTORY, store.OUTCOMES):
            rate = rate_of(result.spec, result.evaluation)
            self.add(rate, timing.share * _work(result.spec, result.evaluation).operations, timing.seconds, timing.device)

    def add(self, key: RateKey, operations: float, seconds: float, device: str | None = None) -> None:
        """Add a rate, on this device or another; the oldest of more than KEPT is dropped."""
        if operations > 0 and seconds > 0:
            rates = self.rates.setdefault(device or self.device, {}).setdefault(key[0], {}).setdefault(key[1], [])
            rates.append(float(f"{operations / seconds:.6g}"))
            del rates[: -self.KEPT]

    def write(self) -> None:
        """Write the file."""
        files.write(self.file, json.dumps(self.rates, indent=1, sort_keys=True).encode())


def _assumed(work: Flops, precision: str, speed: DeviceSpeed) -> float:
    """Return the seconds of work on a device where nothing like it was measured."""
    return max(work.operations / (speed.bfloat16 if precision == "bfloat16" else speed.float32), work.passes * speed.call)


@cache
def reference_costs() -> Costs:
    """Return what runs cost on a core of the reference machine."""
    known = json.loads(REFERENCE.read_text())
    costs = Costs(known["device"], gpu=False, file=REFERENCE)
    costs.rates, costs.speed = {known["device"]: known["rates"]}, DeviceSpeed(*known["speed"])
    return costs


def _work(spec: Spec, evaluation: Evaluation | None) -> Flops:
    return (flops.training(spec) if evaluation is None else flops.evaluation(spec, evaluation)) or Flops()
