"""Every chart has a title and a text alternative with its finding; text of at least 11 pixels; a page that holds it."""

import ast
from pathlib import Path

import mocks
import numpy as np
import pandas as pd
import pytest
import texts
import xarray as xr
from drawing import axes_without_a_panel, drawn, legend_fields, reacting_legends, text_sizes, tooltip_titles, width_of

import classwise
from classwise.charts import audit_report, class_explorer, curves, descriptions, dots, explorers, gallery, heatmaps, style
from classwise.charts.descriptions import extent, largest
from classwise.charts.primitives import CUE
from classwise.papers.tian2021 import trace_explorer
from classwise.papers.wei2023 import charts, theory_explorer
from classwise.papers.wei2023.theory import Model
from classwise.stats import intervals, metrics

LABELS = list("0123456789")
NETWORKS = ["standard", "pgd-at", "trades"]


def rates(**dims):
    """Return accuracies in percent: the highest, 97.3, of the first class and the lowest, 2.4, of the last, else about 50."""
    sizes = {name: values for name, values in dims.items() if name != "label"} | {"label": LABELS}
    values = np.random.default_rng(0).uniform(40, 60, [len(values) for values in sizes.values()])
    values.flat[-10], values.flat[-1] = 97.3, 2.4
    return xr.DataArray(values, dims=list(sizes), coords=sizes)


def bounded(values):
    """Return values with an interval of ten points around them."""
    return xr.concat([values - 5, values, values + 5], pd.Index(["low", "value", "high"], name="bound"))


def by_defence(*values):
    return bounded(xr.DataArray(list(values), dims="defence", coords={"defence": NETWORKS[: len(values)]}))


def counts(**dims):
    """Return counts of 100 images a class: of class 8 of the last network 10 are predicted correctly, of all others 64."""
    sizes = dims | {"label": LABELS, "predicted": LABELS}
    count = xr.DataArray(np.zeros([len(values) for values in sizes.values()]), dims=list(sizes), coords=sizes)
    count[:] = 4
    count = count.where(count.label != count.predicted, 64.0)
    last = {name: values[-1] for name, values in dims.items()} | {"label": "8"}
    count.loc[last] = 10
    return count.astype(int)


EPOCHS = {"epoch": [1, 2, 3]}
RADIUS = counts(radius=[0.0, 0.1]).assign_coords(eps=("radius", ["0", "0.1"]))
BENCH = pd.DataFrame({"name": ["a", "b"], "title": ["a", "b"], "machine": ["m", "n"], "ratio": [0.5, 3.25]})
BENCH = BENCH.assign(peer="x", ours_s=1.0, peer_s=1.0, created="2026-01-01")
CURVE = rates(defence=NETWORKS[:2], images_are=["clean", "attacked"], **EPOCHS)
LAST = CURVE.isel(epoch=-1, label=-1)
SIMILAR = xr.DataArray(np.linspace(-0.25, 0.75, 100).reshape(10, 10), {"label": LABELS, "other": LABELS}, ("label", "other"))
TRACES = xr.Dataset(
    {
        "truth": ("image", np.array([0], dtype="i2")),
        "logits": (("network", "inverse", "image", "step", "predicted"), np.array([[[[[1.0, 0], [1, 0]]], [[[1, 0], [0, 1]]]]])),
    },
    {"network": ["a"], "inverse": ["1", "5"], "image": [7], "step": [0, 1], "predicted": ["x", "y"]},
)

MODEL = Model(p_easy=0.85, p_hard=0.7, eta=0.4, variance=0.6, d=1)
BETA = charts.Setting("beta", "beta", "beta {}")
GROUPS = {"hard": ["8", "9"], "easy": ["0"]}
MARKS = {name: ("label", [label in labels for label in LABELS]) for name, labels in GROUPS.items()}


def history():
    data = xr.concat([mocks.dataset(seed=seed) for seed in (0, 1)], pd.Index(["standard", "pgd-at"], name="defence"))
    chosen = {"defence": "pgd-at", "split": "test", "attack": "pgd-10", "label": "4"}
    data["count"].loc[chosen] = 0
    data["count"].loc[chosen | {"predicted": "5"}] = 10
    return data.expand_dims("seed")


# Over a setting: counts and rates; of the last network class 8 is the worst.
SWEPT, RATED = counts(beta=["1", "6"]), rates(attack=["clean", "pgd-20"], beta=["1", "6"])
ATTACKED, BOTH = counts(attack=["clean", "x"]), counts(attack=["clean", "x"], defence=NETWORKS)
OF_DEFENCES = counts(defence=NETWORKS)


def measured(count):
    return metrics.accuracy(count), intervals.wilson(count)


SCATTERED = by_defence(10.0, 61.0, 55.0), by_defence(1.0, 12.0, 21.0)
TABLE = counts(attack=["a", "b"], defence=NETWORKS)
SET = counts(images_are=["clean", "attacked"], setting=["VGG16", "Adam"])
SETTINGS = style.Category("setting", ["VGG16", "Adam"], "setting")
METHODS = pd.DataFrame({"label": ["a", "a", "b"], "number": [1, 2, 3], "AT": [1, 1, 0], "FAT": [0, 0, 1], "url": ""})
RULED = rates(network=["at-ccm"], **EPOCHS) / 100
IMAGES = xr.DataArray(np.zeros((2, 1, 4, 4)), {"image": [4, 7]}, ("image", "c", "row", "column"))
OF_ONE = SIMILAR.expand_dims(defence=["pgd-at"]), metrics.confusion(counts(attack=["clean"], defence=["pgd-at"]))
# Each chart; what their text alternatives say is golden.
CHARTS = {
    "curves.class_accuracy": lambda: curves.class_accuracy(CURVE, row="images_are"),
    "curves.training_settings": lambda: curves.training_settings({"beta": CURVE.isel(images_are=0)}),
    "dots.class_accuracy": lambda: dots.class_accuracy(BOTH),
    "explorers.class_ranking": lambda: explorers.class_ranking(
        {"attacked": measured(OF_DEFENCES)[0]}, measured(OF_DEFENCES)[1], {NETWORKS[-1]: "Classes"}
    ),
    "dots.class_accuracy of one network": lambda: dots.class_accuracy(ATTACKED),
    "dots.metric_dots": lambda: dots.metric_dots({"mcd": bounded(LAST.rename(images_are="attack"))}, columns=3),
    "dots.seed_dots": lambda: dots.seed_dots(rates(seed=[0, 1], defence=NETWORKS)),
    "dots.confusion_symmetry": lambda: dots.confusion_symmetry(metrics.confusion(OF_DEFENCES)),
    "dots.confused_pairs": lambda: dots.confused_pairs(metrics.off_diagonal_confusion(OF_DEFENCES)),
    "dots.benchmark_ratios": lambda: dots.benchmark_ratios(BENCH),
    "dots.metric_scatter": lambda: dots.metric_scatter(*SCATTERED, by_defence(1.0, 2, 3).isel(bound=0)),
    "heatmaps.confusion": lambda: heatmaps.confusion(metrics.confusion(OF_DEFENCES)),
    "heatmaps.accuracy_heatmap": lambda: heatmaps.accuracy_heatmap(TABLE, intervals.relative_robustness(TABLE)),
    "heatmaps.change_heatmap": lambda: heatmaps.change_heatmap(rates(step=["a", "b"]), "step"),
    "class_explorer.epoch_explorer": lambda: class_explorer.epoch_explorer(history()),
    "class_explorer.radius_explorer": lambda: class_explorer.radius_explorer(RADIUS, ["8", "0"], "0.1"),
    "class_explorer.radius_curves": lambda: class_explorer.radius_curves(RADIUS, LABELS),
    "charts.setting_explorer": lambda: charts.setting_explorer(SWEPT, SWEPT, BETA, "6"),
    "class_explorer.category_explorer": lambda: class_explorer.category_explorer(SET, SETTINGS, "Adam"),
    "explorers.two_methods": lambda: explorers.two_methods(METHODS, "AT", "FAT"),
    "charts.class_sweep": lambda: charts.class_sweep(SWEPT, GROUPS, BETA, "Robust accuracy", "robust accuracy, %"),
    "charts.metric_sweep": lambda: charts.metric_sweep({"worst class, %": bounded(RATED.isel(label=-1))}, BETA, "attack", "x"),
    "charts.exchange": lambda: charts.exchange(RATED, GROUPS, BETA, ("clean", "pgd-20")),
    "charts.rule_explorer": lambda: charts.rule_explorer(RULED.assign_coords(MARKS), {"at-ccm": 0.5}),
    "gallery.gallery": lambda: gallery.gallery({"trades": mocks.dataset("examples 1", per_class=2)}),
    "gallery.image_rows": lambda: gallery.image_rows({"most": IMAGES}, {"most": ["a", "b"]}),
    "audit_report.similarity_heatmap": lambda: audit_report.similarity_heatmap(SIMILAR, LABELS),
    "explorers.similar_classes": lambda: explorers.similar_classes(*OF_ONE, "8", "pgd-at"),
    "theory_explorer.model_explorer": lambda: theory_explorer.model_explorer(MODEL, 50),
    "trace_explorer.explore": lambda: trace_explorer.explore(TRACES, {}),
}


# How many marks of a kind each draws: one for each number that it shows.
DRAWN = {
    "curves.class_accuracy": {"line mark": 2 * 2 * 10, "area mark": 2 * 2},
    "curves.training_settings": {"line mark": 2 * 10},
    "dots.class_accuracy": {"point": 2 * 3 * 10, "rule mark": 2 * 3 * 10},
    "dots.metric_dots": {"point": 2 * 2, "rule mark": 2 * 2},
    "dots.seed_dots": {"circle": 2 * 3 * 10},
    "dots.confusion_symmetry": {"circle": 3 * 45},
    "dots.confused_pairs": {"bar": 3 * 12},
    "heatmaps.confusion": {"rect mark": 3 * (100 + 10)},
    "heatmaps.accuracy_heatmap": {"rect mark": 6 * 10 + 1},
}
# Their legends name what controls choose.
UNCLICKED = {"explorers.two_methods", "charts.rule_explorer", "theory_explorer.model_explorer"}

every_chart = pytest.mark.parametrize("name", CHARTS)


@every_chart
def test_a_chart_has_a_title_panels_for_its_axes_and_tooltips_in_words(name):
    chart = CHARTS[name]()
    titles = tooltip_titles(chart)
    spec = chart.to_dict()
    assert spec["title"]["text"]
    assert len(spec["description"].split()) >= 5
    assert axes_without_a_panel(chart) == 0
    # vega-tooltip takes a value called image for the address of a picture, and one called title for a heading.
    assert titles.isdisjoint({"image", "title", "url", *("low", "high", "label", "inverse", "back", "sure", "across")})
    assert [title for title in titles if "_" in title] == []


def test_text_alternatives_say_what_the_charts_show():
    texts.check("charts", *(f"{name}: {make().to_dict()['description']}" for name, make in CHARTS.items()))


@every_chart
def test_a_chart_is_legible_and_fits_the_page(name):
    svg = drawn(CHARTS[name]())
    assert min(text_sizes(svg)) >= 11
    assert width_of(svg) <= style.COLUMN
    marks = DRAWN.get(name, {})
    assert {mark: svg.count(f'aria-roledescription="{mark}"') for mark in marks} == marks


@pytest.mark.parametrize("name", [name for name in CHARTS if name not in UNCLICKED])
def test_a_legend_of_categories_has_the_cue_if_and_only_if_a_click_highlights(name):
    chart = CHARTS[name]()
    named, cued, clicked, fading = legend_fields(chart)
    assert cued == clicked == fading == named
    assert all((CUE in title) == reacts for title, reacts in reacting_legends(chart).items())


def test_every_public_function_that_returns_a_chart_is_drawn_here():
    package = Path(classwise.__file__).parent
    modules = [*(package / "charts").glob("*.py"), *(package / "papers").glob("*/charts.py")]
    parts = {"descriptions", "primitives", "style", "tables", "plots"}  # the last has a test of its own
    returned = set()
    for path in modules:
        for node in ast.parse(path.read_text()).body:
            public = isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and path.stem not in parts
            if public and ast.unparse(node.returns or node) == "Any":
                returned.add(f"{path.stem}.{node.name}")
    # Drawn by others of the list.
    assert returned - {
        "class_explorer.panels_along",
        "gallery.attack_widgets",
        "gallery.example_grid",
        "gallery.one_per_class",
    } <= set(CHARTS)


def test_a_headline_moves_what_the_title_said_below_it():
    chart = descriptions.headline(CHARTS["curves.class_accuracy"](), "Under attack, cats end at 16 %")
    title, old = chart.title.to_dict(), CHARTS["curves.class_accuracy"]().title.to_dict()
    assert title["text"] == ["Under attack, cats end at 16\u00a0%"]
    assert " ".join(title["subtitle"]) == f"{old['text'][0]}. {old['subtitle'][0]}"
    assert chart.description == CHARTS["curves.class_accuracy"]().description


def test_an_extent_names_both_ends_by_what_differs():
    table = pd.DataFrame({"label": ["a", "b"], "defence": "trades", "value": [27.4, 90.0]})
    both = "Robust accuracy, 2 classes: 27 % (class a) to 90 % (class b)."
    assert extent(table, ["label", "defence"], "robust accuracy") == both
    assert largest(table, ["label"], "accuracy") == "Accuracy: 90 % (class b)."
    assert extent(table.assign(value=np.nan), ["label"], "accuracy") == "accuracy: no values."
