"""How long things took: the one place that knows."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import median

from classwise.core import files
from classwise.core.paths import data_folder
from classwise.core.spec import Evaluation, Spec


def file() -> Path:
    """Return where it is kept."""
    return data_folder() / "runs" / "pace.json"


def epoch_of(spec: Spec, *, measured: bool) -> tuple[str, str]:
    """Return what an epoch of a run is called in Pace: all that decides how long it takes, and the defence."""
    alike = replace(spec, seed=0, defence="standard", options={}, attack_options={}, warm_start=None)
    defence = " ".join([spec.defence, *(f"{name}={value}" for name, value in {**spec.options, **spec.attack_options}.items())])
    kind = "measured epoch" if measured else "epoch"
    return f"{kind}: {spec.dataset}, {spec.model} {spec.width}, {alike.id}", defence


def image_of(spec: Spec, evaluation: Evaluation) -> tuple[str, str]:
    """Return what attacking an image is called in Pace: the attack on the network, and the defence."""
    alike = replace(evaluation.of(spec), checkpoint="last", readout="logits", seed=0, per_class=None, substitute=None)
    return f"image: {spec.dataset}, {spec.model} {spec.width}, {alike.name}", spec.defence


def rate_of(spec: Spec, evaluation: Evaluation | None = None) -> tuple[str, str]:
    """Return what the arithmetic that a network does in a second is called in Pace: in training, or under an attack.

    The arithmetic does not know how many images an attack leaves early; a standard network is broken at once.
    """
    precision = spec.precision if evaluation is None else evaluation.precision
    kind = "train" if evaluation is None else evaluation.attack + (" on standard" if spec.defence == "standard" else "")
    return f"rate: {spec.dataset}, {spec.model} {spec.width}, {precision}", kind


class Timings:
    """What was seen on each device, the last few times, kept in a small file so that the next call knows.

    Seconds of an epoch (`epoch_of`) and of an image (`image_of`), which a budget is kept by; operations a second (`rate_of`),
    which plans are made with.
    """

    KEPT = 3

    def __init__(self, path: Path, device: str) -> None:
        self.path, self.device = path, device
        self.told: dict[str, dict[str, dict[str, list[float]]]] = {}
        # Where nothing is known, or the file is broken, it is written anew.
        with suppress(OSError, ValueError, AttributeError, TypeError):
            self.told = {
                machine: {
                    what: {who: [float(one) for one in times] for who, times in known.items()} for what, known in all_.items()
                }
                for machine, all_ in json.loads(path.read_text()).items()
            }

    def expect(self, key: tuple[str, str]) -> float | None:
        """Return the longest of the last few times, of the same defence or else of others that attack; None for never."""
        what, who = key
        known = self.told.get(self.device, {}).get(what, {})
        if known.get(who):
            return max(known[who])
        # A standard network trains many times faster, and breaks at once.
        others = [time for name, times in known.items() if not name.startswith("standard") for time in times]
        return max(others, default=None)

    def hopes(self, key: tuple[str, str]) -> float | None:
        """Return the shortest of the last times, None until there are enough of them: a stalled machine is no measure."""
        what, who = key
        times = self.told.get(self.device, {}).get(what, {}).get(who, [])
        return min(times) if len(times) == self.KEPT else None

    def usual(self, key: tuple[str, str], device: str | None = None) -> float | None:
        """Return the median of the last few values of exactly this, on this device or another; None for never."""
        what, who = key
        known = self.told.get(device or self.device, {}).get(what, {}).get(who, [])
        return median(known) if known else None

    def see(self, key: tuple[str, str], took: float, device: str | None = None) -> None:
        """Take a time down, or what else was seen."""
        what, who = key
        times = self.told.setdefault(device or self.device, {}).setdefault(what, {}).setdefault(who, [])
        times.append(float(f"{took:.6g}"))
        del times[: -self.KEPT]

    def write(self) -> None:
        """Keep what is known."""
        files.write(self.path, json.dumps(self.told, indent=1, sort_keys=True).encode())
