"""The findings of the page on pairs of classes, with 95 % intervals."""

import pandas as pd
import xarray as xr

from classwise.core.markup import decimal
from classwise.papers.entropy2022 import pairs, section_2_2
from classwise.papers.entropy2022.section_2_2 import CONSTANT, STANDARD
from classwise.papers.findings import interval, p_value, sample
from classwise.stats import features
from classwise.stats.significance import permutation_p

# Both the images and the partners must show that a correlation is positive.
_LEVEL = 0.05


def headline(data: xr.Dataset, correlated: xr.DataArray, outcomes: xr.Dataset) -> str:
    """Return in a sentence whether robust errors of pairs follow similarity, and whether they do so more than pixels tell.

    data, outcomes: of one training, by block and by image. correlated: of the same data.
    """
    attack, defence = "pgd-20", str(outcomes.defence.values[0])
    statistics, bounds = features.statistics(data), correlated.sel(predictor=pairs.SIMILARITY, attack=attack)
    victim, ordered = section_2_2.victim(statistics), pairs.order(data)
    p = permutation_p(section_2_2.alike(statistics), section_2_2.errors(statistics, attack), "partner")
    low, high = (float(bounds.sel(bound=name)) for name in ("low", "high"))
    start = "Whether pairs of similar classes have larger robust errors is open"
    if low > 0 and p < _LEVEL:
        start = "Pairs of similar classes have larger robust errors"
    elif high < 0:
        start = "Pairs of similar classes have smaller robust errors"
    error = section_2_2.errors(statistics, attack)
    ends = [f"{decimal(float(error.sel(partner=name)), 0)} % with class {name}" for name in (ordered[0], ordered[-1])]
    pixels = ""
    if pairs.MORE in correlated.predictor.values:
        of_images, more = (correlated.sel(predictor=name, attack=attack) for name in (pairs.IMAGES, pairs.MORE))
        pixels = (
            f" With the cosine of mean images, which needs no network, the correlation is {interval(of_images, '', 2)}, a "
            f"difference of {interval(more, '', 2)}."
        )
    return (
        f"**{start}: over the {len(ordered)} partners of class {victim}, errors of {defence} under {attack} correlate with the "
        f"similarity in standard training by {interval(bounds, '', 2)}.** The error is {ends[0]}, the least similar, and "
        f"{ends[1]}, the most similar one; {p_value(p)} against a random order."
        f"{pixels} {sample(outcomes.sel(partner=STANDARD, drop=True))}"
    )


def converged(table: pd.DataFrame) -> str:
    """Return which pairs give a constant answer, of a table of `pairs.error_table`."""
    trained = table.drop_duplicates(["defence", "partner"])
    lost, number = trained[trained["constant"]], int(trained["networks"].sum())
    listed = ", ".join(f"{row.partner} ({row.defence})" for row in lost.itertuples())
    most = f"{CONSTANT} % of the images"
    if lost.empty:
        return f"None of the {number} networks gives the same answer to more than {most}: all were trained successfully."
    return f"Of {number} networks, {int(lost['lost'].sum())} give the same answer to more than {most}: those with {listed}."
