"""The printed tables of Wei et al. 2023, along defence with the names of their rows (`methods.METHODS`)."""

from pathlib import Path

from classwise.papers.published import Place, Tables

_ATTACKS = {"clean": "clean", "AA": "autoattack"}
_MEASURES = {"average": "overall", "worst": "worst", "worst 20%": "worst_k"}


def _method(row: str) -> Place:
    return {"defence": row}


def _measure(column: str) -> tuple[str, Place]:
    """Read a column: "best AA worst 20%"."""
    checkpoint, attack, measure = column.split(" ", 2)
    return _MEASURES[measure], {"checkpoint": checkpoint, "attack": _ATTACKS[attack]}


def _in_text(row: str) -> Place:
    """Read a row of the numbers in the text: "AT, epoch 108", "CFA"."""
    method, _, epoch = row.partition(", epoch ")
    return {"defence": method} | ({"epoch": int(epoch)} if epoch else {})


def _measure_in_text(column: str) -> tuple[str, Place]:
    """Read a column of the numbers in the text: "average", "worst", "variance" (of Figure 6, a share)."""
    return _MEASURES.get(column, column), {}


TABLES = Tables(
    folder=Path(__file__).parent,
    readers={
        "1": (_method, _measure),
        **dict.fromkeys(("2", "3"), (_method, lambda column: _measure(f"best {column}"))),
        "4": (_method, _measure),
        "text": (_in_text, _measure_in_text),
    },
    datasets={"4": "tiny-imagenet"},
)


def fairer_epoch(measure: str) -> float:
    """Return by how many points "overall" or "worst" is higher at epoch 110 than at epoch 108 (section 3.3)."""
    return TABLES.number("text", measure, defence="AT", epoch=110) - TABLES.number("text", measure, defence="AT", epoch=108)


def spread_change() -> float:
    """Return by how many points the standard deviation between classes is larger with CFA than with EMA (Figure 6)."""
    return 100 * (TABLES.number("text", "variance", defence="CFA") - TABLES.number("text", "variance", defence="EMA"))
