"""The tables of the paper beside our results."""

import numpy as np

from classwise.papers import published
from classwise.papers.tian2021.tables import TABLES


def test_our_results_are_compared_with_the_tables_setting_by_setting(rates):
    theirs = TABLES.load(1)
    ours = published.counts(theirs.accuracy.sel(defence=["trades"]))
    table = published.compared_with_published(ours, theirs)
    assert len(table) == 20
    same = table.xs("trades", level="defence")
    for name in ("worst", "best", "MCD", "cat"):
        assert np.allclose(same[f"{name}, ours"].astype(float), same[f"{name}, theirs"].astype(float), atol=0.11), name
    assert (table.xs("mart", level="defence")["all, ours"] == "").all()
    assert "cat, ours" not in published.compared_with_published(rates, theirs)
    heated = TABLES.load(3)
    heated = heated.assign_coords(inverse=heated.inverse.astype(str))
    assert len(published.compared_with_published(rates.rename(attack="inverse"), heated, over=("defence", "inverse"))) == 5
