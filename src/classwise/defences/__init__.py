"""Defences: an objective, a calibration and an averaging, with the inner attack that the objective is used with."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from classwise.defences.adversary import BATCH_NORM_MODES
from classwise.defences.averaging import Averaging, Unaveraged
from classwise.defences.calibrations import Calibration, Uniform
from classwise.defences.objectives import Adversarial, Objective, Standard, Trades
from classwise.errors import UserError, unknown
from classwise.options import configure

__all__ = ["BATCH_NORM_MODES", "DEFENCES", "Defence", "build"]


@dataclass(frozen=True)
class Defence:
    """How a model is trained.

    attack: the name of the inner attack, None where nothing is attacked.
    """

    objective: Objective
    attack: str | None = None
    calibration: Calibration = Uniform()  # noqa: RUF009 (frozen)
    averaging: Averaging = Unaveraged()  # noqa: RUF009 (frozen)

    @property
    def beta(self) -> float:
        """The trade-off of the objective before any calibration; 0 where it has none."""
        return float(getattr(self.objective, "beta", 0.0))


DEFENCES: dict[str, Defence] = {
    "standard": Defence(Standard()),
    "pgd-at": Defence(Adversarial(), "pgd-10"),
    "trades": Defence(Trades(), "pgd-10-gaussian"),
}


def build(name: str, options: Mapping[str, object] | None = None) -> Defence:
    """Return the named defence with options of its objective, calibration or averaging replaced."""
    if name not in DEFENCES:
        raise unknown("defence", name, DEFENCES)
    defence, rest = DEFENCES[name], dict(options or {})
    parts = {"objective": defence.objective, "calibration": defence.calibration, "averaging": defence.averaging}
    names = {field.name: role for role, part in parts.items() for field in fields(part)}  # type: ignore[arg-type]
    for option in rest:
        if option not in names:
            if not names:
                raise UserError(f"defence {name!r} takes no options, got {option}={rest[option]!r}")
            raise unknown(f"option of defence {name!r}", option, names)
    for role, part in parts.items():
        own = {option: value for option, value in rest.items() if names[option] == role}
        parts[role] = configure(part, own, f"defence {name!r}")
    return replace(defence, **parts)  # type: ignore[arg-type]
