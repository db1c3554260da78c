"""What claims compare, written as it is read: value(mcd, "pgd-at", "pgd-20") - value(mcd, "standard").

A term is the measure of a claim: it takes sums over images (`bootstrap.sums`) and gives a number for each draw. It knows which
networks and attacks it reads, so that a claim need not list them, and what it is in words. What the claims of a paper say is in
its claims.csv, a row for each: lists are separated by spaces, an empty `low` or `high` is no bound, `log` is "yes" of a ratio;
for `family` and `absolute` see Claim.
"""

import csv
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.errors import UserError, check_known, unknown
from classwise.core.markup import printed_name
from classwise.papers.claims import FAMILIES, MAIN, Claim, first_sentence
from classwise.stats import agreement, metrics

Computed = Callable[[xr.Dataset], xr.DataArray]

_WORDS = {"mcd": "gap (MCD)", "cv": "class-wise variance (CV)", "overall": "accuracy", "worst": "accuracy of the worst class"}


@dataclass(frozen=True)
class Term:
    """A quantity: its words, how it is computed, the (network, attack) pairs it reads; of an extreme, what it is taken of.

    outer: the dimension of `each` along which the other extreme is taken of the extremes along all others.
    """

    words: str
    compute: Computed
    needs: tuple[tuple[str, str], ...] = ()
    each: Computed | None = None
    largest: bool = False
    outer: str = ""

    def __call__(self, sums: xr.Dataset) -> xr.DataArray:
        return self.compute(sums)

    def __sub__(self, other: "Term") -> "Term":
        return combine_terms("minus", operator.sub, self, other)

    def __truediv__(self, other: "Term") -> "Term":
        return combine_terms("over", operator.truediv, self, other)


def value(metric: metrics.Metric, defence: str, attack: str = "clean", label: str = "", **at: str) -> Term:
    """Return a metric of a network under an attack ("a|b": the first that is present), or of one of its classes.

    at: the members of further dimensions, margin="1/2".
    """

    def compute(sums: xr.Dataset) -> xr.DataArray:
        here = next((name for name in attack.split("|") if name in sums.attack.values), attack)
        value = metric(sums["count"].sel({"defence": defence, "attack": here, **at}, drop=True))
        return value.sel(label=label, drop=True) if label else value

    name = _WORDS.get(metric.__name__, metric.__name__.replace("_", " "))
    places = [printed_name(defence), *([f"class {label}"] if label else []), *(f"{dim} {member}" for dim, member in at.items())]
    first = attack.split("|")[0]
    attacked = "without attack" if first == "clean" else f"under {printed_name(first)}"
    words = f"{name} of {', '.join(places)}{',' * (len(places) > 1)} {attacked}"
    return Term(words, compute, ((defence, attack),))


def combine_terms(word: str, function: Callable[..., xr.DataArray], *terms: Term) -> Term:
    """Return a function of terms; word: what stands between them in words."""
    needs = tuple(dict.fromkeys(need for term in terms for need in term.needs))
    return Term(f" {word} ".join(term.words for term in terms), lambda sums: function(*(term(sums) for term in terms)), needs)


def correlation(one: Term, other: Term, over: str = "label") -> Term:
    """Return the correlation of two terms along a dimension."""
    return combine_terms("correlated with", lambda a, b: xr.corr(a, b, over), one, other)


def least(*parts: Computed, largest: bool = False, outer: str = "") -> Term:
    """Return the least (`largest`) of several terms, or of what one function returns along its dimensions.

    outer: a dimension of the function along which the largest (least) of these is taken then.
    """

    def each(sums: xr.Dataset) -> xr.DataArray:
        values = [part(sums) for part in parts]
        return xr.concat(values, "part", coords="minimal", compat="override") if len(values) > 1 else values[0]

    def compute(sums: xr.Dataset) -> xr.DataArray:
        values = each(sums)
        over = [dim for dim in values.dims if dim not in ("draw", outer)]
        inner = values.max(over, skipna=False) if largest else values.min(over, skipna=False)
        if not outer:
            return inner
        return inner.min(outer, skipna=False) if largest else inner.max(outer, skipna=False)

    needs = tuple(dict.fromkeys(need for part in parts for need in getattr(part, "needs", ())))
    first, second = ("largest", "least") if largest else ("least", "largest")
    words = "; ".join(map(first_sentence, parts))
    words = f"the {second} over each {outer} of the {first} of: {words}" if outer else f"the {first} of: {words}"
    return Term(words, compute, needs, each, largest, outer)


def profile_fields(measure: Callable[[xr.DataArray], xr.DataArray], along: str) -> dict[str, Any]:
    """Return the fields of a claim on class profiles of opposite halves of the images (`stats.agreement`), along `along`.

    A permutation test of a correlation puts the classes of the first member of `along` in another order.
    """

    def truth(outcomes: xr.Dataset, draws: int, seed: int) -> np.ndarray:
        return measure(agreement.drawn_profiles(outcomes, along, draws, seed)).values

    return {
        "measure": Term(first_sentence(measure), lambda sums: measure(agreement.sum_profiles(sums, along))),
        "truth": truth,
        "permuted": along,
    }


def claims(section: str, measures: Mapping[str, Any], **shared: Any) -> tuple[Claim, ...]:
    """Return the claims of a section: the rows of its paper's claims.csv, each with its measure; UserError if these disagree.

    measures: by the name of a claim, its measure, or fields of Claim with it. A term says by itself which networks and attacks
    it reads; shared: fields of all these claims, and the defences and attacks of measures that are functions.
    """
    rows = {row["name"]: row for row in rows_of(section)}
    place, known = f"claims.csv of {section}", [field.name for field in fields(Claim)]
    for name in measures:
        if name not in rows:
            raise UserError(f"{place} has no row for the measure {name!r}: add it. {unknown('claim', name, rows)}")
    result, size = list[Claim](), sum(row["family"] == MAIN for row in rows.values())
    for name, row in rows.items():
        if name not in measures:
            raise UserError(f"{place}: the row {name!r} has no measure: add one, or remove it")
        given = measures[name] if isinstance(measures[name], dict) else {"measure": measures[name]}
        needs = zip(*getattr(given["measure"], "needs", ()), strict=True)
        read = dict(zip(("defences", "attacks"), (tuple(dict.fromkeys(some)) for some in needs), strict=False))
        full = {"section": section, **shared, **row, **read, **given}
        check_known(f"field of the claim {name!r}", sorted(full), known)
        result.append(Claim(**full, family_size=size))
    return tuple(result)


_TEXTS = ("section", "name", "where", "statement")
COLUMNS = (*_TEXTS, "low", "high", "unit", "log", "family", "absolute", "data", "dims", "datasets", "excluded_because")


def rows_of(section: str) -> list[dict[str, Any]]:
    """Return the rows on a section as fields of Claim; UserError where a row is not as `read` wants it."""
    paper, _, name = section.partition("/")
    text = resources.files("classwise.papers").joinpath(paper, "claims.csv").read_text(encoding="utf-8")
    return [row for of, row in read(text, f"{paper}/claims.csv") if of == name]


@cache
def read(text: str, file: str = "claims.csv") -> list[tuple[str, dict[str, Any]]]:
    """Return each row of a table of claims as its section and fields of Claim.

    UserError for columns other than COLUMNS, and for a row with a cell too many or too few, without a name, place or statement,
    with a bound that is no number, or with the name of an earlier one.
    """
    header, *lines = csv.reader(text.splitlines())
    check_known(f"column of {file}", header, COLUMNS)
    if tuple(header) != COLUMNS:
        raise UserError(f"{file} has the columns {', '.join(header)}; it needs, in this order: {', '.join(COLUMNS)}")
    result: dict[str, tuple[str, dict[str, Any]]] = {}
    for line in lines:
        row: dict[str, Any] = dict(zip(COLUMNS, line, strict=False))
        name = row.get("name", "")
        where = f"{file}, row {len(result) + 2} ({name or 'no name'})"
        if len(line) != len(COLUMNS):
            raise UserError(f"{where} has {len(line)} cells, expected {len(COLUMNS)}: quote a text that has a comma")
        if empty := [column for column in _TEXTS if not row[column].strip()]:
            raise UserError(f"{where}: {empty[0]} is empty; write what the paper says, in one sentence")
        if name in result:
            raise UserError(f"{where}: an earlier row has this name; each claim needs one of its own")
        for column, what in (("log", "a ratio"), ("absolute", "a level that weaker networks cannot have")):
            if row[column] not in ("", "yes"):
                raise UserError(f"{where}: {column} is {row[column]!r}; write yes for {what}, else nothing")
        check_known(f"family of {where}", [row["family"]], FAMILIES)
        try:
            row |= {end: float(row[end] or none) for end, none in (("low", -np.inf), ("high", np.inf))}
        except ValueError as error:
            raise UserError(f"{where}: low and high must be numbers, or empty for no bound; {error}") from None
        row |= {column: row[column] == "yes" for column in ("log", "absolute")}
        row |= {"dims": tuple(row["dims"].split()), "datasets": tuple(row["datasets"].split())}
        result[name] = row.pop("section"), row
    return list(result.values())
