"""Entropy 2022, appendix A.3: more training images, and batch-instance normalisation.

The rows of Table 5 train with 500,000 pseudo-labelled images that have been withdrawn. Without them ME-TRADES is trained with the
lambda of Table 5 and either normalisation, along `layer`.
"""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from classwise.papers.entropy2022 import networks
from classwise.papers.entropy2022.gains import printed_gain
from classwise.papers.entropy2022.tables import TABLES
from classwise.papers.sections import Member, Part, Section, join_parts
from classwise.papers.terms import Term, claims, least, value
from classwise.stats.combine import concat_named
from classwise.stats.metrics import overall, worst

NAME = "entropy2022/A-3-more-data"
# The normalisations of `Spec.layer`, the paper's last.
LAYERS = ("batch", "batch-instance")
_DEFENCE, _OPTIONS = networks.NETWORKS["me-trades (β=1, λ=27)"]
_SHARED: dict[str, Any] = {
    "defences": (_DEFENCE,),
    "evaluations": networks.EVALUATIONS,
    "max_seeds": 1,
    "variants": networks.variant(**_OPTIONS),
}

SECTION = Section(
    title="More images, and batch-instance normalisation",
    parts={LAYERS[1]: Part(title="batch-instance norm", run={"layer": LAYERS[1]}, **_SHARED)},
    arrange={"layers": join_parts("layer", Member("", LAYERS[0]), Member(LAYERS[1], LAYERS[1]), optional=True)},
    **_SHARED,
)


_BOTH = ("clean", "autoattack")


def _normalised(defence: str) -> Term:
    """Return by how much batch-instance norm raises the accuracy of a training, clean or robust, whichever less."""
    batch, mixed = ([value(overall, defence, one, layer=layer) for one in ("clean", networks.AUTOATTACK)] for layer in LAYERS)
    return least(*(one - other for one, other in zip(mixed, batch, strict=True)))


# A name with spaces, which no list in claims.csv can hold.
_MORE = "cifar10 with pseudo-labelled images"
_WITHDRAWN: dict[str, Any] = {"datasets": (_MORE,), "reported_on": _MORE}

CLAIMS = claims(
    NAME,
    {
        "normalisation-with-more-images": {
            "measure": _normalised("me-rst"),
            "reported": partial(printed_gain, [("me-rst with BIN", "me-rst")], _BOTH),
            **_WITHDRAWN,
        },
        "normalisation": _normalised("me-trades"),
        "entropy-with-more-images": {
            "measure": value(overall, "me-rst", networks.AUTOATTACK) - value(overall, "rst", networks.AUTOATTACK),
            "reported": partial(printed_gain, [("me-rst", "rst")], ("autoattack",)),
            **_WITHDRAWN,
        },
    },
)


def gains(count: xr.DataArray) -> xr.DataArray:
    """Return what batch-instance norm adds over all images and in the worst class (`images_of`), from counts along layer."""
    first, last = (count.sel(layer=name, drop=True) for name in LAYERS)
    return concat_named(
        "images_of", {"all classes": overall, "the worst class": worst}, lambda measure: measure(last) - measure(first)
    )


def table_5() -> pd.DataFrame:
    """Return Table 5 with the rank of each row and its difference to RST, in points; clean accuracy and AutoAttack."""
    rates = TABLES.load(5).overall.sel(attack=list(_BOTH)).transpose("defence", "attack").to_pandas()
    rates = rates.rename(columns={"autoattack": "AutoAttack"}).rename_axis(index="method", columns=None)
    less = (rates - rates.loc["rst"]).map("{:+.2f}".format).add_suffix(", against RST")
    rank = rates["AutoAttack"].rank(ascending=False).astype(int)
    table: pd.DataFrame = rates.map("{:.2f}".format).join(less).assign(rank=rank)
    return table


def printed_standard_error(method: str = "me-rst with BIN", attack: str = "autoattack") -> float:
    """Return the standard error of a printed accuracy of 10,000 images, in points."""
    share = TABLES.number(5, "overall", defence=method, attack=attack) / 100
    return 100 * float(np.sqrt(share * (1 - share) / 10_000))
