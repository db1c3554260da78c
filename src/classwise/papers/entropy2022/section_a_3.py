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

from classwise.papers.claims import claims_of
from classwise.papers.entropy2022 import networks
from classwise.papers.entropy2022.tables import TABLES
from classwise.papers.extremes import extreme
from classwise.papers.sections import Arranged, Section
from classwise.stats import combine, metrics

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


def both(batch: xr.Dataset, mixed: xr.Dataset | None) -> xr.Dataset:
    """Return the networks with either normalisation along `layer`; mixed: batch-instance norm, None if not recorded."""
    parts = dict(zip(LAYERS, (batch, mixed), strict=True))
    return combine.combine("layer", {name: part for name, part in parts.items() if part is not None})


SECTION = Section(
    title="More images, and batch-instance normalisation",
    parts={LAYERS[1]: Section(title="batch-instance norm", run={"layer": LAYERS[1]}, **_SHARED)},
    arrange={"layers": Arranged(both, ("",), (LAYERS[1],))},
    **_SHARED,
)


def accuracy_gains(sums: xr.Dataset) -> xr.DataArray:
    """Return how much more accurate batch-instance norm is than batch norm under each attack, in points, along gain."""
    rates = metrics.overall(sums["count"].isel(defence=0, drop=True))
    change = rates.sel(layer=LAYERS[1], drop=True) - rates.sel(layer=LAYERS[0], drop=True)
    return change.rename(attack="gain")


def least_gain(sums: xr.Dataset) -> xr.DataArray:
    """Return by how many points batch-instance norm is more accurate than batch norm, under the attack where this is least."""
    return accuracy_gains(sums).min("gain", skipna=False)


def gain_by_entropy(sums: xr.Dataset) -> xr.DataArray:
    """Return how much more accurate RST is with maximised entropy than without, in points."""
    rates = metrics.overall(sums["count"].isel(attack=0, drop=True))
    return rates.sel(defence="me-rst", drop=True) - rates.sel(defence="rst", drop=True)


def printed_gain(better: str, worse: str, attacks: Sequence[str]) -> float:
    """Return the least gain that Table 5 prints, over attacks."""
    rates = TABLES.load(5).overall
    return min(float(rates.sel(defence=better, attack=one) - rates.sel(defence=worse, attack=one)) for one in attacks)


_BOTH = ("clean", "autoattack")
_WITHDRAWN: dict[str, Any] = {
    "datasets": ("cifar10 with pseudo-labelled images",),
    "excluded_because": "the 500,000 pseudo-labelled images of these trainings were withdrawn",
}
_claim = claims_of(NAME, data="layers")
_normalised: dict[str, Any] = {
    "measure": least_gain,
    "truth": extreme(accuracy_gains),
    "attacks": ("clean", networks.AUTOATTACK),
    "dims": ("layer",),
}

CLAIMS = (
    _claim(
        "normalisation-with-more-images",
        "A.3.2, Table 5",
        "Batch-instance norm raises the clean and the robust accuracy of ME-RST, which trains with 500,000 more images.",
        defences=("me-rst",),
        reported=partial(printed_gain, "me-rst with BIN", "me-rst", _BOTH),
        **_normalised,
        **_WITHDRAWN,
    ),
    _claim(
        "normalisation",
        "A.3.2, a control of ours",
        "Batch-instance norm raises the clean and the robust accuracy of ME-TRADES, which has no more images.",
        defences=("me-trades",),
        **_normalised,
    ),
    _claim(
        "entropy-with-more-images",
        "A.3.1, Table 5",
        "Maximised entropy raises the robust accuracy of RST, which trains with 500,000 more images.",
        gain_by_entropy,
        defences=("rst", "me-rst"),
        attacks=(networks.AUTOATTACK,),
        reported=partial(printed_gain, "me-rst", "rst", ("autoattack",)),
        **_WITHDRAWN,
    ),
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
