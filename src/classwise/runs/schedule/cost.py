"""How long runs take on a device: from measurements of the same network there, else from the number of operations."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING

from classwise.core import results
from classwise.core.paths import data_folder
from classwise.core.results import Damaged
from classwise.core.spec import Evaluation, Spec
from classwise.runs import store
from classwise.runs.compute import validate
from classwise.runs.schedule import timings
from classwise.runs.schedule.timings import Timings, rate_of

if TYPE_CHECKING:
    from classwise.runs.schedule.flops import Flops


@dataclass(frozen=True)
class DeviceSpeed:
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

# At most this many histories of a network are read if nothing else is known of its speed.
_HISTORIES = 20


def device_speed(device: str, *, gpu: bool) -> DeviceSpeed:
    """Return the assumed speed of a GPU, or of a thread of this processor, measured in a second; twice as fast in bfloat16."""
    if not gpu:
        from classwise.runs.schedule import flops  # torch

        operations, call = flops.of_a_thread()
        return DeviceSpeed(2 * operations, operations, call)
    return next((speed for name, speed in GPUS.items() if device.startswith(name)), GPUS[PLANNED])


class Costs:
    """Seconds of trainings and evaluations on one device, each computed alone (on one thread of a CPU).

    device: its name, as in the attributes of results. measured, estimated: ids of the runs whose seconds are based on
    measurements or on the number of operations; unknown: of those whose number of images is unknown.
    """

    def __init__(self, device: str, *, gpu: bool, known: Timings | None = None) -> None:
        self.device, self.gpu = device, gpu
        self.known = Timings(timings.file(), device) if known is None else known
        self.measured: set[str] = set()
        self.estimated: set[str] = set()
        self.unknown: set[str] = set()
        self._rates: dict[tuple[str, ...], float | None] = {}
        self._seconds: dict[str, tuple[float, bool] | None] = {}
        self._cost_keys: dict[str, str] = {}

    @cached_property
    def speed(self) -> DeviceSpeed:
        """The speed of the device where nothing was measured on it."""
        return device_speed(self.device, gpu=self.gpu)

    def seconds(self, spec: Spec, evaluation: Evaluation | None = None) -> float:
        """Return the seconds of a training, or of an evaluation of a run: estimated once for all runs of equal cost."""
        if spec.id not in self._cost_keys:
            self._cost_keys[spec.id] = _cost_key(spec)
        key = f"{'' if evaluation is None else evaluation.id} {self._cost_keys[spec.id]}"
        if key not in self._seconds:
            work = _work(spec, evaluation)
            self._seconds[key] = None if work is None else self._from_flops(spec, evaluation, work)
        result = self._seconds[key]
        ids = self.unknown if result is None else self.measured if result[1] else self.estimated
        ids.add(spec.id)
        return 0.0 if result is None else result[0]

    def _from_flops(self, spec: Spec, evaluation: Evaluation | None, work: "Flops") -> tuple[float, bool]:
        """Return the seconds, and whether they are based on measurements."""
        rate = self.rate(spec, evaluation)
        if rate is not None:
            return work.operations / rate, True
        precision = spec.precision if evaluation is None else evaluation.precision
        speed = self.speed.bfloat16 if precision == "bfloat16" else self.speed.float32
        return max(work.operations / speed, work.passes * self.speed.call), False

    def rate(self, spec: Spec, evaluation: Evaluation | None = None) -> float | None:
        """Return the operations per second of a run's network, as measured on this device; None if there is no measurement."""
        key = rate_of(spec, evaluation)
        if key not in self._rates:
            rate = self.known.median(key, self.device)
            if rate is None and evaluation is None:
                rate = self._from_histories(spec)
            elif rate is None and evaluation is not None and evaluation.precision == spec.precision:
                rate = self.rate(spec)
            self._rates[key] = rate
        return self._rates[key]

    def _from_histories(self, spec: Spec) -> float | None:
        """Return the operations per second in the epochs of stored runs of the same network; None if there are none."""
        from classwise.runs.schedule import flops

        rates = []
        for other, seconds in islice(_histories(spec, self.device), _HISTORIES):
            size = validate.training_size(other)
            if size is not None and seconds > 0:
                rates.append(flops.epoch(other, size).operations / seconds)
        return median(rates) if rates else None

    def record(self, spec: Spec, evaluation: Evaluation | None, share: float, seconds: float, device: str) -> None:
        """Record the seconds that a share of a training or of an evaluation took on a device."""
        work = _work(spec, evaluation)
        if work is not None and share > 0 and seconds > 0 and work.operations > 0:
            self.known.record(rate_of(spec, evaluation), share * work.operations / seconds, device)


# Fields of Spec that do not change the cost.
_FREE = (
    *("seed", "redraw", "eps", "probe_eps", "lr", "momentum", "weight_decay", "nesterov", "milestones", "decay", "schedule"),
    "warm_start",
)


def _work(spec: Spec, evaluation: Evaluation | None) -> "Flops | None":
    from classwise.runs.schedule import flops  # torch

    return flops.training(spec) if evaluation is None else flops.evaluation(spec, evaluation)


def _cost_key(spec: Spec) -> str:
    return " ".join(str(value) for name, value in vars(spec).items() if name not in _FREE)


def _histories(spec: Spec, device: str) -> Iterable[tuple[Spec, float]]:
    """Yield the specs of runs of the same network on the device, with the seconds of one of their epochs, newest first."""
    below = "/".join(spec.relative_path.split("/")[:2])
    files = [path for kind in ("runs", "recorded") for path in (data_folder() / kind / below).glob("*/history.nc")]
    for path in islice(sorted(files, key=lambda path: path.stat().st_mtime, reverse=True), 10 * _HISTORIES):
        try:
            data = results.load(path, store.HISTORY)
            other = Spec.from_json(data.attrs["spec"])
        except (Damaged, KeyError, ValueError, TypeError):  # reported when its results are read
            continue
        if data.attrs.get("device") == device and (other.width, other.precision) == (spec.width, spec.precision):
            yield other, float(data.seconds.median())
