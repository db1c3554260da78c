"""Tian et al. 2021, section 4.2: the relations among classes."""

from collections.abc import Mapping
from functools import partial

import pandas as pd
import xarray as xr

from classwise.core import datasets
from classwise.papers import measures
from classwise.papers.sections import CLEAN_AND_PGD, Section
from classwise.papers.terms import claims
from classwise.papers.tian2021.networks import BIASED, OTHERS, UNDER_ATTACK
from classwise.papers.tian2021.tables import TABLES
from classwise.stats import metrics, significance

NAME = "tian2021/4-2-class-relations"
SECTION = Section(title="The relations among classes", defences=BIASED, evaluations=CLEAN_AND_PGD, datasets=OTHERS)

CLAIMS = claims(
    NAME,
    {
        "symmetry": {"measure": partial(measures.of_first, measure=metrics.symmetry), "truth": measures.true_symmetry},
        "six-and-eight": partial(measures.pair, first="6", second="8"),
        "cat-and-dog": partial(measures.pair, first="cat", second="dog"),
        "same-superclass": measures.within_superclasses,
        "few-across": partial(measures.within_superclasses, times=2),
        "dog-and-truck": {
            "measure": partial(measures.confusion_of, first="dog", second="truck"),
            "reported": 0,
            "reported_on": "stl10",
        },
    },
    defences=("pgd-at",),
    attacks=(UNDER_ATTACK,),
)


def within_superclasses(dataset: str, counts: Mapping[str, xr.DataArray]) -> pd.DataFrame:
    """Return the share of mistakes within superclasses, and that by chance, in percent: a row for each of `counts`.

    counts: of networks on a dataset that may have superclasses. The last rows follow from the paper's Table 4 (TRADES on 1,000
    cats, plain and attacked): there chance is that a mistake falls on any other class alike (an exact binomial test).
    """
    from scipy import stats  # slow to import

    rows: dict[str, tuple[float, float, float]] = {}
    known = counts if dataset in datasets.with_superclasses() else {}
    for name, count in known.items():
        group = count.label.copy(data=datasets.superclass_numbers([str(label) for label in count.label.values]))
        rows[f"{dataset}, {name}"] = significance.within_test(count, group)
    kinds = datasets.superclasses("cifar10")
    names = [name for name in kinds if name != "cat"]
    near = [kinds[name] == kinds["cat"] for name in names]
    for others in TABLES.load(4)["count"].sel(treatment="as they are", predicted=names).transpose("attack", "predicted"):
        inside, total, chance = int(others.values[near].sum()), int(others.sum()), sum(near) / len(near)
        p = float(stats.binomtest(inside, total, chance, alternative="greater").pvalue)
        rows[f"theirs: cats of cifar10, {others.attack.item()}"] = (100 * inside / total, 100 * chance, p)
    table = pd.DataFrame(rows, index=["within, % of the mistakes", "by chance, %", "p"]).T
    return table.iloc[:, :2].map("{:.0f}".format).assign(p=table["p"].map(significance.p_text))
