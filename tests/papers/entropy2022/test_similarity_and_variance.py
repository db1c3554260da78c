"""Section 3.2.2, Figures 6 and 9: similarity and variance with label smoothing, maximum entropy and over lambda."""

import numpy as np
import pytest
import xarray as xr
from claim_answers import outcomes_with, with_features

from classwise.core.errors import NotRecorded
from classwise.papers.entropy2022 import similarity, similarity_and_variance
from classwise.papers.entropy2022.similarity_and_variance import AT, LAMBDAS, SMOOTHED, TRADES
from classwise.stats import features

CLASSES, SIZE, PER_CLASS, BLOCKS = [str(number) for number in range(10)], 16, 24, 6
(_, LS_AT, ME_AT), (_, LS, ME) = (tuple(lines.values()) for lines in SMOOTHED.values())


def of_networks(kinds):
    """Return outcomes of networks with sums of features, from how similar the classes of each are and how they spread.

    The means of the classes share an offset: the larger it is, the more similar they are.
    """
    rng = np.random.default_rng(0)
    outcomes = outcomes_with({(name, attack): 90 for name in kinds for attack in ("clean", "pgd-20")})
    outcomes = outcomes.isel(image=[label * 100 + place for label in range(10) for place in range(PER_CLASS)])
    truth = np.repeat(np.arange(10), PER_CLASS)
    noise, means = rng.standard_normal((len(truth), SIZE)), np.eye(10, SIZE)[truth]
    values = {name: offset + means + spread * noise for name, (offset, spread) in kinds.items()}
    return with_features(outcomes.expand_dims(seed=[0]), values, BLOCKS)


def swept(offsets, spreads):
    """Return TRADES with lambda 1, 6, 12 and 15, and the other networks: all alike."""
    lines = dict(zip(LAMBDAS.values(), zip(offsets, spreads, strict=True), strict=True))
    return of_networks(dict.fromkeys((AT, LS_AT, ME_AT, LS, ME), (0.3, 0.3)) | lines)


ALL = (AT, LS_AT, ME_AT, LS, ME, *LAMBDAS.values())
AS_PUBLISHED, OPPOSITE = (
    of_networks(dict(zip(ALL, zip(offsets, spreads, strict=True), strict=True)))
    for offsets, spreads in (
        ((0.4, 0.35, 0.3, 0.4, 0.3, 0.3, 0.5, 0.55, 0.6), (0.5, 0.4, 0.3, 0.35, 0.25, 0.45, 0.4, 0.3, 0.28)),
        ((0.4, 0.3, 0.35, 0.3, 0.6, 0.5, 0.3, 0.25, 0.2), (0.3, 0.3, 0.4, 0.25, 0.5, 0.35, 0.4, 0.5, 0.5)),
    )
)
EXTREMES = {claim.name: ([AS_PUBLISHED], [OPPOSITE]) for claim in similarity_and_variance.CLAIMS}
# The last lambda is not among those of the figure; the rise is that of all three.
EXTREMES["similarity-rises-with-lambda"][0].append(swept((0.2, 0.4, 0.3, 0.1), (0.3,) * 4))
EXTREMES["variance-falls-with-lambda"][1].append(swept((0.3,) * 4, (0.3, 0.4, 0.4, 0.1)))

REFUSED = [
    ("trades-lower-variance", AS_PUBLISHED.drop_vars(["total", "square", "images", "block_of"]), "needs features of"),
    ("entropy-similarity-trades", AS_PUBLISHED.sel(defence=[AT, ME]), "trades-smoothed"),
]


def test_networks_are_joined_with_their_features_and_what_is_missing_is_left_out():
    both = AS_PUBLISHED.sel(defence=[AT, TRADES]).assign_coords(defence=["pgd-at", "trades"])
    one = AS_PUBLISHED.sel(defence=[ME_AT])
    parts = [one if name == ME_AT else None for name in similarity_and_variance.SECTION.parts]
    joined = similarity_and_variance.SECTION.arrange["networks"].function(both, *parts)
    assert list(joined.defence.values) == [AT, ME_AT, TRADES]
    assert set(joined.block_of.dims) == {"seed", "image"}
    data = similarity.blocks(joined, ME_AT, AT)
    xr.testing.assert_allclose(
        features.statistics(data)["mean"].sel(defence=ME_AT),
        features.statistics(features.select_sums(AS_PUBLISHED))["mean"].sel(defence=ME_AT),
    )
    none = joined.assign(images=joined.images.where(joined.defence != ME_AT, 0))
    with pytest.raises(NotRecorded, match=r"me-at \(β=0.5\), pgd-at are not recorded"):
        similarity.blocks(none, ME_AT, AT)


def test_forms_that_do_not_depend_on_the_scale_of_the_features_stay_as_they_are():
    scaled = AS_PUBLISHED.sel(defence=[AT, TRADES])
    half = xr.where(scaled.defence == AT, 0.5, 1.0)
    scaled = scaled.assign(total=scaled.total * half, square=scaled.square * half**2)
    name = "TRADES against PGD-AT"
    before, after = (similarity_and_variance.changes(data).sel(comparison=name) for data in (AS_PUBLISHED, scaled))
    free = ["relative variance", "centred cosine", "centred and debiased cosine"]
    np.testing.assert_allclose(before.sel(form=free), after.sel(form=free), rtol=1e-5, atol=1e-6)
    first, second = (float(some.sel(form="variance", bound="value")) for some in (before, after))
    assert 100 + second == pytest.approx(4 * (100 + first), rel=1e-5)
    # One interval for one quantity: the verdicts have those of the raw measures.
    assert bool(before.sel(form=["cosine", "variance"], bound=["low", "high"]).isnull().all())


def test_what_is_measured_over_lambda():
    values = similarity_and_variance.lambda_sweep(AS_PUBLISHED).sel(bound="value")
    assert list(values["lambda"].values) == [1, 6, 12, 15]
    flat = values.sel({"method": "PGD-AT"})
    assert (flat == flat.isel({"lambda": 0})).all()
    data = features.statistics(similarity.blocks(AS_PUBLISHED, TRADES))
    trades = values.sel({"method": "TRADES", "lambda": 6})
    assert float(trades.sel(measure="largest cosine", label="mean")) == pytest.approx(float(similarity.similarity(data).mean()))
    np.testing.assert_allclose(trades.sel(measure="variance", label=CLASSES), similarity.variance(data).squeeze())
    robust = trades.sel(measure="robust accuracy, %", label=CLASSES)
    np.testing.assert_allclose(robust, similarity.robust_accuracy(data).squeeze())
