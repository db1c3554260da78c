"""How the parts of a section become one Dataset along a dimension: declared as rows, joined by one function."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import xarray as xr

from classwise.papers.sections import Derived
from classwise.stats import combine

Then = Callable[[xr.Dataset, Mapping[str, xr.Dataset]], xr.Dataset]


@dataclass(frozen=True)
class Member:
    """A part ("" is the section itself) as one member of the new dimension, or as several, one for each of its own along `by`.

    name: of the member, or how it is made from its Dataset; "" with `by`: as there. at: what is selected of the part first.
    """

    part: str
    name: str | Callable[[xr.Dataset], str] = ""
    by: str = ""
    at: Mapping[str, Any] = field(default_factory=dict)

    def members(self, data: xr.Dataset) -> Iterator[tuple[str, xr.Dataset]]:
        """Yield the members with their names."""
        chosen = data.sel({dim: [one] for dim, one in self.at.items()})
        known = list(map(str, chosen[self.by].values)) if self.by in chosen.dims else [""]
        for place, name in enumerate(known):
            one = chosen.isel({self.by: place}, drop=True) if self.by in chosen.dims else chosen
            yield self.name(one) if callable(self.name) else self.name or name, one


def join_parts(
    along: str, *rows: Member, optional: bool = False, any_seeds: bool = False, like: str = "", then: Then | None = None
) -> Derived:
    """Return how parts are joined along a dimension, on the seeds that all of them have; `any_seeds`: each on its own.

    All have the attack names of the last one, where each has a single attack, and the attributes of the first part. optional:
    all parts but the first may be missing. like: the part whose defence and attributes the result has instead. then: what is made
    of the result and of its members by name.
    """
    parts = tuple(dict.fromkeys(row.part for row in rows))
    origin = like or parts[0]

    def function(*data: xr.Dataset | None) -> xr.Dataset:
        known = {name: one for name, one in zip(parts, data, strict=True) if one is not None}
        members = dict(pair for row in rows if row.part in known for pair in row.members(known[row.part]))
        if all(one.sizes["attack"] == 1 for one in members.values()):
            last = list(members.values())[-1].attack.values
            members = {name: one.assign_coords(attack=last) for name, one in members.items()}
        members = members if any_seeds else combine.shared_seeds(members)
        result = combine.combine(along, members).assign_attrs(known[origin].attrs)
        result = result.assign_coords(defence=known[origin].defence.values) if like else result
        return then(result, members) if then else result

    return Derived(function, parts[:1] if optional else parts, parts[1:] if optional else ())
