"""What an interrupted computation has done so far, kept in a file until it ends."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from classwise.core import files
from classwise.core.results import Damaged
from classwise.runs import store
from classwise.runs.compute.device import device
from classwise.runs.store import Key

# A file is written at most once in this many seconds.
SAVE_AFTER = 10.0


@dataclass
class Resumable:
    """The file that keeps the state of a computation until its result, `key`, is there; saved: when it was written."""

    key: Key
    path: Path
    saved: float = -math.inf

    def restore(self, take: Callable[[dict[str, Any]], None], *, repair: bool) -> bool:
        """Call a function with the kept state, if there is one; return whether it took it without an error.

        Damaged is raised for a file that cannot be read or is of another run or evaluation; with `repair` it is set aside.
        """
        if not self.path.exists():
            return False
        try:
            state: dict[str, Any] = torch.load(self.path, map_location=device(), weights_only=True)
            for name, item in self.key.identity.items():
                if type(item).from_json(state[name]).canonical() != item.canonical():
                    raise ValueError(f"it belongs to another {'run' if name == 'spec' else name}")
            take(state)
        except Exception as error:  # torch.load raises a dozen kinds for a file that is cut short or foreign
            if not repair:
                reason = str(error) if isinstance(error, ValueError) else "it is truncated or foreign"
                what = f"train {self.key.subject.name}" if self.key.evaluation is None else "attack"
                raise Damaged(f"{self.path} cannot be resumed from: {reason}; delete it to {what} from the start") from error
            store.set_aside(self.path)
            return False
        return True

    def keep(self, state: Callable[[], Mapping[str, Any]], *, now: bool = False) -> bool:
        """Write the state, if that is due; return whether it was written."""
        if not now and time.monotonic() - self.saved < SAVE_AFTER:
            return False
        buffer = BytesIO()
        torch.save({**{name: item.json() for name, item in self.key.identity.items()}, **state()}, buffer)
        files.write(self.path, buffer.getvalue())
        self.saved = time.monotonic()
        return True
