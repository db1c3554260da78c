"""Section 4.1: one network, attacked; its answers to images that are not attacked must not matter."""

import mocks
import xarray as xr
from claim_answers import CLASS, DRIFTED, UP, at, attacked

from classwise.papers.tian2021 import class_bias
from classwise.stats import metrics

# For each claim: answers on which it must hold, and answers on which it must fail.
EXTREMES = {
    "gap": ([attacked(UP, 90), attacked(at(80, 4, rest=98))], [attacked(99, UP), attacked(at(97, 4, rest=99))]),
    "gap-of-40-to-50": ([attacked(UP)], [attacked(60 + 2 * CLASS, UP)]),
    "gap-of-80": ([attacked(10 * CLASS + 5)], [attacked(UP, 10 * CLASS + 5)]),
    "simple-is-robust": ([attacked(98, 50)], [attacked(90, 99), attacked(at(99, 3), 99)]),
    "wider-than-standard": DRIFTED,
}


def test_other_datasets_are_shown_attacked():
    history = mocks.dataset().expand_dims(seed=[0], defence=["pgd-at"])
    rates = class_bias.learning({"digits": history, "mnist": history})
    assert list(rates.images_are.values) == ["clean", "attacked", "attacked, mnist"]
    count = history["count"].sel(split="test").squeeze(drop=True)
    clean = metrics.accuracy(count.sel(attack="clean", drop=True))
    xr.testing.assert_equal(rates.sel(images_are="clean", defence="pgd-at", drop=True), clean)
    xr.testing.assert_equal(rates.sel(images_are="attacked", drop=True), rates.sel(images_are="attacked, mnist", drop=True))
