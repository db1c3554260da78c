"""How long runs will take on a device: by what the same network did there before, else by the arithmetic."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING

from classwise.core import results
from classwise.core.paths import data_folder
from classwise.core.results import Damaged
from classwise.core.spec import Evaluation, Spec
from classwise.runs import store
from classwise.runs.compute import sizes
from classwise.runs.schedule import timings
from classwise.runs.schedule.timings import Timings, rate_of

if TYPE_CHECKING:
    from classwise.runs.schedule.flops import Flops


@dataclass(frozen=True)
class DeviceSpeed:
    """What we state of a device that nothing was measured on.

    bfloat16, float32: operations a second that small images leave of what is advertised (batches of 128 of 32 x 32 pixels).
    call: seconds that a pass of a batch takes at least, however small the network.
    """

    bfloat16: float
    float32: float
    call: float


# For a GPU that is not named here the first stands; for a CPU, one thread of it.
GPUS: dict[str, DeviceSpeed] = {
    "NVIDIA H200": DeviceSpeed(6e13, 3e13, 6e-4),
    "NVIDIA H100": DeviceSpeed(5e13, 2.5e13, 6e-4),
    "NVIDIA A100": DeviceSpeed(3e13, 1.5e13, 8e-4),
}
PLANNED = "NVIDIA H200"
THREAD = DeviceSpeed(8e10, 4e10, 4e-4)

# So many histories of a network are looked into where nothing else is known of it.
_LOOKED = 20


def device_speed(device: str, *, gpu: bool) -> DeviceSpeed:
    """Return what we state of a device by its name."""
    if not gpu:
        return THREAD
    return next((rated for name, rated in GPUS.items() if device.startswith(name)), GPUS[PLANNED])


class Costs:
    """Seconds that trainings and questions take on one device, each computed alone (on one thread of a CPU).

    device: its name, as results carry it. measured, reckoned: the ids of runs whose seconds came from one or the other;
    unknown: of those of which nobody knows how many images there are.
    """

    def __init__(self, device: str, *, gpu: bool, known: Timings | None = None) -> None:
        self.device, self.rated = device, device_speed(device, gpu=gpu)
        self.known = Timings(timings.file(), device) if known is None else known
        self.measured: set[str] = set()
        self.reckoned: set[str] = set()
        self.unknown: set[str] = set()
        self._rates: dict[tuple[str, ...], float | None] = {}
        self._seconds: dict[str, tuple[float, bool] | None] = {}
        self._likes: dict[str, str] = {}

    def training(self, spec: Spec) -> float:
        """Return the seconds of a training."""
        from classwise.runs.schedule import flops  # torch

        return self._noted(spec, None, lambda: flops.training(spec))

    def question(self, spec: Spec, evaluation: Evaluation) -> float:
        """Return the seconds of a question put to a run."""
        from classwise.runs.schedule import flops

        return self._noted(spec, evaluation, lambda: flops.evaluation(spec, evaluation))

    def _noted(self, spec: Spec, asked: Evaluation | None, work: "Callable[[], Flops | None]") -> float:
        """Return the seconds of some work, reckoned once for all runs that differ in what costs nothing."""
        if spec.id not in self._likes:
            self._likes[spec.id] = _alike(spec)
        key = f"{'' if asked is None else asked.id} {self._likes[spec.id]}"
        if key not in self._seconds:
            done = work()
            self._seconds[key] = None if done is None else self._of(spec, asked, done)
        found = self._seconds[key]
        told = self.unknown if found is None else self.measured if found[1] else self.reckoned
        told.add(spec.id)
        return 0.0 if found is None else found[0]

    def _of(self, spec: Spec, asked: Evaluation | None, work: "Flops") -> tuple[float, bool]:
        rate = self.rate(spec, asked)
        if rate is not None:
            return work.operations / rate, True
        precision = spec.precision if asked is None else asked.precision
        whole = self.rated.bfloat16 if precision == "bfloat16" else self.rated.float32
        return max(work.operations / whole, work.passes * self.rated.call), False

    def rate(self, spec: Spec, asked: Evaluation | None = None) -> float | None:
        """Return the operations a second of the network of a run, as they were measured on this device; None where never."""
        key = rate_of(spec, asked)
        if key not in self._rates:
            seen = self.known.usual(key, self.device)
            if seen is None:
                seen = self._read(spec) if asked is None else self.rate(spec) if asked.precision == spec.precision else None
            self._rates[key] = seen
        return self._rates[key]

    def _read(self, spec: Spec) -> float | None:
        """Return the same as the seconds of epochs say that the histories of such runs hold."""
        from classwise.runs.schedule import flops

        found = []
        for other, seconds in islice(_histories(spec, self.device), _LOOKED):
            size = sizes.training_size(other)
            if size is not None and seconds > 0:
                found.append(flops.epoch(other, size).operations / seconds)
        return median(found) if found else None

    def saw(self, spec: Spec, evaluation: Evaluation | None, share: float, seconds: float, device: str) -> None:
        """Take down that a share of a training or of a question took so many seconds on a device."""
        from classwise.runs.schedule import flops

        work = flops.training(spec) if evaluation is None else flops.evaluation(spec, evaluation)
        if work is not None and share > 0 and seconds > 0 and work.operations > 0:
            self.known.see(rate_of(spec, evaluation), share * work.operations / seconds, device)


# Fields of Spec that change nothing of how long it takes.
_FREE = ("seed", "redraw", "eps", "lr", "momentum", "weight_decay", "nesterov", "milestones", "decay", "schedule", "warm_start")


def _alike(spec: Spec) -> str:
    return " ".join(str(value) for name, value in vars(spec).items() if name not in _FREE)


def _histories(spec: Spec, device: str) -> Iterable[tuple[Spec, float]]:
    """Yield the specs of runs of the same network on the device, with the seconds of one of their epochs, newest first."""
    below = "/".join(store.relative_path(spec).split("/")[:2])
    files = [path for kind in ("runs", "recorded") for path in (data_folder() / kind / below).glob("*/history.nc")]
    for path in islice(sorted(files, key=lambda path: path.stat().st_mtime, reverse=True), 10 * _LOOKED):
        try:
            data = results.load(path, store.HISTORY)
            other = Spec.from_json(data.attrs["spec"])
        except (Damaged, KeyError, ValueError, TypeError):  # who reads it for its numbers will hear
            continue
        if data.attrs.get("device") == device and (other.width, other.precision) == (spec.width, spec.precision):
            yield other, float(data.seconds.median())
