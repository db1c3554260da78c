"""Durations measured on each device, kept in data/runs/pace.json."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import median

from classwise.core import files
from classwise.core.paths import data_folder
from classwise.core.spec import Evaluation, Spec

# What was measured, and the defence or attack it was measured for.
Key = tuple[str, str]


def file() -> Path:
    """Return the path of the measurements."""
    return data_folder() / "runs" / "pace.json"


def epoch_of(spec: Spec, *, measured: bool) -> Key:
    """Return the key of an epoch: everything that its duration depends on, and the defence."""
    alike = replace(spec, seed=0, defence="standard", options={}, attack_options={}, warm_start=None)
    defence = " ".join([spec.defence, *(f"{name}={value}" for name, value in {**spec.options, **spec.attack_options}.items())])
    kind = "measured epoch" if measured else "epoch"
    return f"{kind}: {spec.dataset}, {spec.model} {spec.width}, {alike.id}", defence


def image_of(spec: Spec, evaluation: Evaluation) -> Key:
    """Return the key of an attacked image: the attack and the network, and the defence."""
    alike = replace(evaluation.resolved_for(spec), checkpoint="last", readout="logits", seed=0, per_class=None, substitute=None)
    return f"image: {spec.dataset}, {spec.model} {spec.width}, {alike.name}", spec.defence


def rate_of(spec: Spec, evaluation: Evaluation | None = None) -> Key:
    """Return the key of the operations per second of a network, in training or under an attack.

    A standard network has a key of its own for each attack: it is broken at once, which the number of operations leaves out.
    """
    precision = spec.precision if evaluation is None else evaluation.precision
    kind = "train" if evaluation is None else evaluation.attack + (" on standard" if spec.defence == "standard" else "")
    return f"rate: {spec.dataset}, {spec.model} {spec.width}, {precision}", kind


class Timings:
    """The last few values measured on each device for each key.

    Seconds of an epoch (`epoch_of`) and of an image (`image_of`), for budgets; operations per second (`rate_of`), for plans.
    """

    KEPT = 3

    def __init__(self, path: Path, device: str) -> None:
        self.path, self.device = path, device
        self.values: dict[str, dict[str, dict[str, list[float]]]] = {}
        # A missing or broken file is replaced by `write`.
        with suppress(OSError, ValueError, AttributeError, TypeError):
            self.values = {
                machine: {
                    what: {who: [float(value) for value in values] for who, values in known.items()}
                    for what, known in of_machine.items()
                }
                for machine, of_machine in json.loads(path.read_text()).items()
            }

    def _last(self, key: Key, device: str | None = None) -> list[float]:
        what, who = key
        return self.values.get(device or self.device, {}).get(what, {}).get(who, [])

    def slowest(self, key: Key) -> float | None:
        """Return the longest of the last times, of the same defence or else of other adversarial ones; None if there is none."""
        if self._last(key):
            return max(self._last(key))
        # Not of standard networks: they train many times faster, and attacks on them stop at once.
        known = self.values.get(self.device, {}).get(key[0], {})
        return max((time for who, times in known.items() if not who.startswith("standard") for time in times), default=None)

    def fastest(self, key: Key) -> float | None:
        """Return the shortest of the last times; None until there are KEPT, since one alone may be that of a stalled machine."""
        return min(self._last(key)) if len(self._last(key)) == self.KEPT else None

    def median(self, key: Key, device: str | None = None) -> float | None:
        """Return the median of the last values of exactly this key, on this device or another; None if there is none."""
        known = self._last(key, device)
        return median(known) if known else None

    def record(self, key: Key, value: float, device: str | None = None) -> None:
        """Add a value; the oldest of more than KEPT is dropped."""
        what, who = key
        values = self.values.setdefault(device or self.device, {}).setdefault(what, {}).setdefault(who, [])
        values.append(float(f"{value:.6g}"))
        del values[: -self.KEPT]

    def write(self) -> None:
        """Write the file."""
        files.write(self.path, json.dumps(self.values, indent=1, sort_keys=True).encode())
