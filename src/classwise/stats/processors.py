"""Results of the same trainings with other vector instructions, recorded in data/recorded/processors/."""

import json

import pandas as pd

from classwise.core.errors import UserError
from classwise.core.paths import data_folder

COLUMNS = ("machine", "defence", "instructions", "attack", "correct", "same", "images")


def load() -> pd.DataFrame:
    """Return a row for each machine, defence, kind of instructions and attack, all seeds together; no rows if none is recorded.

    images: their number, of all seeds. correct, same: how many were classified correctly, and how many got the class that the
    network of the same seed predicts which was trained with all instructions of the processor. An unreadable file is a UserError.
    """
    rows = []
    for path in sorted((data_folder() / "recorded" / "processors").glob("*.json")):
        try:
            measured = json.loads(path.read_text())
            rows += [{"machine": measured["device"], **row} for row in measured["rows"]]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is not a file of tests.benchmarks.processors ({type(error).__name__}); delete it") from None
    table = pd.DataFrame(rows).reindex(columns=[*COLUMNS, "seed"])
    return table.groupby(list(COLUMNS[:4]), sort=False)[list(COLUMNS[4:])].sum().reset_index()


def rates(table: pd.DataFrame) -> pd.DataFrame:
    """Return accuracies and shares of equal predictions in percent, by machine, defence, kind of instructions and attack."""
    shares = {
        "accuracy, %": 100 * table["correct"] / table["images"],
        "same prediction, %": 100 * table["same"] / table["images"],
    }
    return table.assign(**shares).set_index(list(COLUMNS[:4]))[list(shares)].round(1)
