"""Entropy 2022, appendix A.3: more training images, and batch-instance normalisation.

The rows of Table 5 train with 500,000 pseudo-labelled images that have been withdrawn. Without them ME-TRADES is trained with the
lambda of Table 5 and either normalisation, along `layer`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from classwise.papers.entropy2022 import networks
from classwise.papers.entropy2022.tables import TABLES
from classwise.papers.joined import Row, joined
from classwise.papers.sections import Section
from classwise.papers.terms import Term, claims, least, of
from classwise.stats.metrics import overall

NAME = "entropy2022/A-3-more-data"
# The normalisations of `Spec.layer`, the paper's last.
LAYERS = ("batch", "batch-instance")
NAMES = {"batch": "batch norm", "batch-instance": "batch-instance norm"}
_NETWORK = networks.NETWORKS["me-trades (β=1, λ=27)"]


_SHARED: dict[str, Any] = {
    "defences": (_NETWORK.defence,),
    "evaluations": networks.EVALUATIONS,
    "max_seeds": 1,
    "variants": networks.trained(**_NETWORK.options),
}


SECTION = Section(
    title="More images, and batch-instance normalisation",
    parts={LAYERS[1]: Section(title="batch-instance norm", run={"layer": LAYERS[1]}, **_SHARED)},
    arrange={"layers": joined("layer", Row("", LAYERS[0]), Row(LAYERS[1], LAYERS[1]), optional=True)},
    **_SHARED,
)


def printed_gain(better: str, worse: str, attacks: Sequence[str]) -> float:
    """Return the least gain that Table 5 prints, over attacks."""
    rates = TABLES.load(5).overall
    return min(float(rates.sel(defence=better, attack=one) - rates.sel(defence=worse, attack=one)) for one in attacks)


_BOTH = ("clean", "autoattack")


def _normalised(defence: str) -> Term:
    """Return by how much batch-instance norm raises the accuracy of a training, clean or robust, whichever less."""
    batch, mixed = ([of(overall, defence, one, layer=layer) for one in ("clean", networks.AUTOATTACK)] for layer in LAYERS)
    return least(*(one - other for one, other in zip(mixed, batch, strict=True)))


# A name with spaces, which no list in claims.csv can hold.
_WITHDRAWN: dict[str, Any] = {"datasets": ("cifar10 with pseudo-labelled images",)}

CLAIMS = claims(
    NAME,
    {
        "normalisation-with-more-images": {
            "measure": _normalised("me-rst"),
            "reported": partial(printed_gain, "me-rst with BIN", "me-rst", _BOTH),
            **_WITHDRAWN,
        },
        "normalisation": _normalised("me-trades"),
        "entropy-with-more-images": {
            "measure": of(overall, "me-rst", networks.AUTOATTACK) - of(overall, "rst", networks.AUTOATTACK),
            "reported": partial(printed_gain, "me-rst", "rst", ("autoattack",)),
            **_WITHDRAWN,
        },
    },
)


def by_layer(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes with the two normalisations in words along `norm`, without the dimension defence."""
    part = outcomes.isel(defence=0, drop=True)
    names = [NAMES[str(layer)] for layer in part.layer.values]
    return part.assign_coords(layer=names).rename(layer="norm").assign_attrs(outcomes.attrs)


def table_5() -> pd.DataFrame:
    """Return Table 5 with the rank of each row and its difference to RST, in points; clean accuracy and AutoAttack."""
    rates = TABLES.load(5).overall
    rows = {}
    for name in map(str, rates.defence.values):
        clean, robust = (float(rates.sel(defence=name, attack=attack)) for attack in _BOTH)
        less = [
            value - float(rates.sel(defence="rst", attack=attack)) for value, attack in zip((clean, robust), _BOTH, strict=True)
        ]
        rows[name] = {"clean": clean, "AutoAttack": robust, "clean, against RST": less[0], "AutoAttack, against RST": less[1]}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")
    rank = table["AutoAttack"].rank(ascending=False).astype(int)
    words = {name: "{:+.2f}".format if "against" in str(name) else "{:.2f}".format for name in table}
    shown = pd.DataFrame({name: table[name].map(form) for name, form in words.items()})
    return shown.assign(rank=rank)


def printed_standard_error(method: str = "me-rst with BIN", attack: str = "autoattack") -> float:
    """Return the standard error of a printed accuracy of 10,000 images, in points."""
    share = float(TABLES.load(5).overall.sel(defence=method, attack=attack)) / 100
    return 100 * float(np.sqrt(share * (1 - share) / 10_000))
