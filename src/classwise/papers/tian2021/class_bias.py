"""Tian et al. 2021, section 4.1: class-biased learning.

In all sections ranges are the widest that the words allow: "larger" is more than 0, "almost 0" less than 1, "roughly" a
correlation above .5.
"""

from collections.abc import Mapping
from functools import partial

import pandas as pd
import xarray as xr

from classwise.papers import measures
from classwise.papers.sections import Section
from classwise.papers.terms import claims, value
from classwise.papers.tian2021.recipe import BIASED, OTHERS, UNDER_ATTACK
from classwise.papers.tian2021.tables import text_number
from classwise.stats import aggregate, metrics

NAME = "tian2021/4-1-class-bias"
SECTION = Section(title="Class-biased learning", defences=BIASED, gallery=True, datasets=OTHERS)


def _gap(dataset: str) -> dict[str, object]:
    return {"measure": measures.gap, "reported": partial(text_number, "gap", dataset), "reported_on": dataset}


CLAIMS = claims(
    NAME,
    {
        "gap": _gap("mnist"),
        "gap-of-40-to-50": _gap("svhn, cifar10, stl10 or cifar100"),
        "gap-of-80": _gap("imagenet"),
        "simple-is-robust": {
            "measure": value(metrics.overall, "pgd-at", UNDER_ATTACK),
            "reported": partial(text_number, "overall", "mnist"),
            "reported_on": "mnist",
        },
        "wider-than-standard": value(metrics.mcd, "pgd-at", UNDER_ATTACK) - value(metrics.mcd, "standard"),
    },
    defences=("pgd-at",),
    attacks=(UNDER_ATTACK,),
)


def learning(histories: Mapping[str, xr.Dataset]) -> xr.DataArray:
    """Return the accuracy of the classes on test images over the epochs, along defence and images_are: "clean", "attacked".

    histories: of `runs.history`, by dataset. Of all but the first one the attacked images alone, as "attacked, mnist".
    """
    shown: dict[str, xr.DataArray] = {}
    for dataset, history in histories.items():
        both = aggregate.clean_and_attacked(history["count"].sel(split="test").sum("seed"))
        clean, attacked = metrics.accuracy(aggregate.measured_epochs(both)).drop_vars("images_are").transpose("images_are", ...)
        shown |= {f"attacked, {dataset}": attacked} if shown else {"clean": clean, "attacked": attacked}
    return xr.concat(list(shown.values()), pd.Index(list(shown), name="images_are"), join="outer")
