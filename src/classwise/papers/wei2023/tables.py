"""The printed tables of Wei et al. 2023."""

from pathlib import Path

from classwise.papers.published import Place, Tables

_DEFENCES = {
    "AT": "pgd-at",
    "AT + EMA": "at-ema",
    "AT + FAWA": "at-fawa",
    "AT + CCM": "at-ccm",
    "AT + CFA": "at-cfa",
    "TRADES": "trades",
    "TRADES + EMA": "trades-ema",
    "TRADES + FAWA": "trades-fawa",
    "TRADES + CCM": "trades-ccm",
    "TRADES + CCR": "trades-ccr",
    "TRADES + CCM + CCR": "trades-ccm-ccr",
    "TRADES + CFA": "trades-cfa",
    "FAT": "fat",
    "FAT + EMA": "fat-ema",
    "FAT + FAWA": "fat-fawa",
    "FAT + CCM": "fat-ccm",
    "FAT + CFA": "fat-cfa",
    "FRL": "frl",
    "FRL + EMA": "frl-ema",
}
_ATTACKS = {"clean": "clean", "AA": "autoattack"}
_MEASURES = {"average": "overall", "worst": "worst", "worst 20%": "worst_k"}


def _defence(row: str) -> Place:
    return {"defence": _DEFENCES[row]}


def _measure(column: str) -> tuple[str, Place]:
    """Read a column: "best AA worst 20%"."""
    checkpoint, attack, measure = column.split(" ", 2)
    return _MEASURES[measure], {"checkpoint": checkpoint, "attack": _ATTACKS[attack]}


def _of_best(column: str) -> tuple[str, Place]:
    return _measure(f"best {column}")


TABLES = Tables(
    folder=Path(__file__).parent,
    readers={"1": (_defence, _measure), "2": (_defence, _of_best), "3": (_defence, _of_best), "4": (_defence, _measure)},
    datasets={"4": "tiny-imagenet"},
)
