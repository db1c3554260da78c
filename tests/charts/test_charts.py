import altair as alt
import mocks
import pandas as pd
import pytest
import vl_convert
import xarray as xr

from classwise.charts import curves, dots, heatmaps, style, tables
from classwise.stats import aggregate, bootstrap, intervals, metrics


@pytest.fixture
def count():
    parts = [mocks.dataset(seed=seed)["count"].isel(epoch=-1).sel(split="test") for seed in range(4)]
    pairs = [xr.concat(parts[:2], "seed"), xr.concat(parts[2:], "seed")]
    return xr.concat(pairs, pd.Index(["standard", "pgd-at"], name="defence")).assign_coords(seed=[0, 1])


@pytest.fixture
def history():
    return xr.concat([mocks.dataset(seed=s)["count"] for s in (0, 1)], pd.Index(["standard", "pgd-at"], name="defence"))


@pytest.fixture(autouse=True)
def _setup():
    style.setup()


def drawn(chart):
    """Return the SVG that Vega draws; it raises where the chart is no chart."""
    return vl_convert.vegalite_to_svg(chart.to_json(), vl_version="6.4" if "6.4" in vl_convert.get_vegalite_versions() else None)


def test_epochs_draw_a_line_a_class_and_a_band_in_every_panel(history):
    svg = drawn(
        curves.class_accuracy(metrics.accuracy(aggregate.clean_and_attacked(history.sel(split="test"))), row="images_are")
    )
    assert svg.count('aria-roledescription="line mark"') == 2 * 2 * 10
    assert svg.count('aria-roledescription="area mark"') == 2 * 2


def test_classes_draw_an_interval_for_every_class(count):
    pooled = count.sum("seed")
    svg = drawn(dots.class_accuracy(metrics.accuracy(pooled), intervals.wilson(pooled)))
    assert svg.count('aria-roledescription="point"') == 2 * 2 * 10
    assert svg.count('aria-roledescription="rule mark"') == 2 * 2 * 10


def test_confusion_draws_every_cell_in_the_given_order(count):
    order = list("9876543210")
    chart = heatmaps.confusion(metrics.confusion(count.sum("seed").sel(attack="pgd-10")), order=order)
    assert chart.to_dict()["spec"]["layer"][0]["encoding"]["y"]["sort"] == order
    assert drawn(chart).count('aria-roledescription="rect mark"') == 2 * (100 + 10)


def test_mirrored_draws_each_pair_once(count):
    svg = drawn(dots.confusion_symmetry(metrics.confusion(count.sum("seed").sel(attack="pgd-10"))))
    assert svg.count('aria-roledescription="circle"') == 2 * 45


def test_pairs_seeds_and_gap_are_drawn(count, history):
    mistakes = metrics.off_diagonal_confusion(count.sum("seed").sel(attack="pgd-10"))
    assert drawn(dots.confused_pairs(mistakes, most=5)).count('aria-roledescription="bar"') == 2 * 5
    assert (
        drawn(dots.seed_dots(metrics.accuracy(count.sel(attack="pgd-10")))).count('aria-roledescription="circle"') == 2 * 2 * 10
    )
    spread = bootstrap.bootstrap(history.sel(split="test", attack="pgd-10"), metrics.mcd, draws=50)
    assert drawn(curves.metric_curves(spread, title="points")).count('aria-roledescription="line mark"') == 2


def test_a_class_keeps_its_colour_whatever_is_filtered(count):
    few = metrics.accuracy(count.sel(attack="pgd-10"))
    scale = style.class_colour(list("0123456789")).to_dict()["scale"]
    assert scale["domain"] == list("0123456789")
    assert dots.seed_dots(few).to_dict()["spec"]["layer"][0]["encoding"]["color"]["scale"] == scale


def test_tables_say_the_value_and_its_interval(count):
    table = tables.interval_table({"mcd": bootstrap.bootstrap(count, metrics.mcd, over=["seed"], draws=50)})
    value = float(metrics.mcd(count.sum("seed")).sel(defence="pgd-at", attack="clean"))
    assert table.loc[("pgd-at", "clean"), "MCD, points"].startswith(f"{value:.1f} [")
    assert list(table.index.get_level_values(0).unique()) == ["standard", "pgd-at"]


def test_extremes_name_the_best_and_the_worst_class(count):
    rates = metrics.accuracy(count.sum("seed"))
    table = tables.best_and_worst(rates)
    assert table.loc[("standard", "clean"), "worst class"] == rates.sel(defence="standard", attack="clean").idxmin().item()


def test_rows_travel_as_csv_with_their_types():
    frame = pd.DataFrame({"label": ["0", "1"], "value": [1.23456789, 2.0], "right": [True, False]})
    packed = style.inline_csv(frame)
    assert packed["values"] == "label,value,right\n0,1.235,true\n1,2,false\n"
    assert packed["format"]["parse"] == {"label": "string", "value": "number", "right": "boolean"}


def test_too_many_rows_are_refused():
    with pytest.raises(alt.MaxRowsError, match="aggregate"):
        style.inline_csv(pd.DataFrame({"x": range(style.MAX_ROWS + 1)}))
