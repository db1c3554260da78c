"""The explorer of a class: what it shows at first and after a choice, with controls of Vega and of a live kernel."""

import re

import ipywidgets
import pandas as pd
import pytest
import xarray as xr
from drawing import drawn

from classwise.charts import class_explorer
from classwise.charts.primitives import Show
from classwise.charts.style import CHOSEN, Category
from classwise.stats import aggregate, metrics


@pytest.fixture
def history(history):
    return history.expand_dims(seed=[0])


def values(chart):
    return {param["name"]: param.get("value") for param in chart.to_dict()["params"]}


def controls(chart, part):
    return {param["name"]: param["bind"][part] for param in chart.to_dict()["params"] if "bind" in param}


def boxes(live):
    return {box.description: box for box in live.children[0].children}


def test_the_explorer_starts_with_the_chosen_defence_else_the_last_and_its_weakest_class(history):
    for start, defence in (("standard", "standard"), ("pgd-at", "pgd-at"), (None, "pgd-at"), ("none", "pgd-at")):
        at_first = values(class_explorer.epoch_explorer(history, start=start))
        attacked = aggregate.clean_and_attacked(history["count"].sel(split="test", defence=defence).isel(epoch=-1).sum("seed"))
        rates = metrics.accuracy(attacked.sel(images_are="attacked"))
        assert (at_first["chosen_defence"], at_first["chosen_class"]) == (defence, str(rates.idxmin("label").values))


def test_the_static_explorer_has_a_control_for_every_choice(history):
    lists = dict.fromkeys(("chosen_class", "chosen_defence", "chosen_images", "chosen_split"), "select")
    assert controls(class_explorer.epoch_explorer(history), "input") == lists | {"chosen_epoch": "range"}


START = {"chosen_class": "3", "chosen_defence": "pgd-at", "chosen_images": "attacked", "chosen_split": "test", "chosen_epoch": 4}
OTHER = {"chosen_class": "7", "chosen_defence": "standard", "chosen_images": "clean", "chosen_split": "train", "chosen_epoch": 3}
BAR = r'"predicted class: (\d); share of the class, %: ([\d.]+);[^"]* predicted so: (\d+);[^"]*"[^>]* fill="(#\w+)"'


def seen(history, chosen):
    """Return the bars of the explorer, as class, share, count and colour, its line, and the place of the chosen epoch."""
    svg = drawn(class_explorer.epoch_explorer(history), **chosen)
    (line,) = re.findall(r'd="(\S+)" stroke="(#\w+)" stroke-width="3"', svg)
    (rule,) = re.findall(r'"epoch: (\d)"[^>]* transform="translate\(([\d.]+),0\)"', svg)
    return re.findall(BAR, svg), line, rule


@pytest.mark.parametrize("control", ["", *OTHER])
def test_a_choice_shows_what_was_counted_at_the_last_measured_epoch(history, control):
    history, chosen = history.sel(epoch=[1, 2, 4]), START | {name: value for name, value in OTHER.items() if name == control}
    bars, line, rule = seen(history, chosen)
    epoch = 2 if control == "chosen_epoch" else 4
    label, where = chosen["chosen_class"], {"defence": chosen["chosen_defence"], "split": chosen["chosen_split"], "epoch": epoch}
    count = aggregate.clean_and_attacked(history["count"].sum("seed")).sel(where | {"images_are": chosen["chosen_images"]})
    counted = count.sel(label=label).to_series()
    assert {name: int(number) for name, _, number, _ in bars} == counted[(counted > 0) | (counted.index == label)].to_dict()
    assert all(float(share) == 100 * int(number) / 40 for _, share, number, _ in bars)
    assert [name for name, *_, colour in bars if colour == CHOSEN] == [label]
    assert line[1] == CHOSEN
    assert (line == seen(history, START)[1]) == (control in ("", "chosen_epoch"))
    assert rule == (str(epoch), str(200 * (epoch - 1)))


def test_the_live_explorer_has_the_same_controls_and_moves_the_chart(history, jupyter):
    shown = []
    live = class_explorer.epoch_explorer(history, show=Show(lambda **chosen: shown.append(chosen) or "picture"))
    assert list(boxes(live)) == ["class", "defence", "images", "split", "epoch"]
    view = live.children[1]
    boxes(live)["class"].value = "7"
    boxes(live)["epoch"].value = 2
    assert (view.params.chosen_class, view.params.chosen_epoch) == ("7", 2)
    assert (shown[-1]["chosen_class"], shown[-1]["chosen_defence"]) == ("7", "pgd-at")
    assert isinstance(live, ipywidgets.VBox)


@pytest.fixture
def settings():
    """Counts of two settings: class 2 is the least accurate of the first one, class 1 of the second."""
    labels = ["0", "1", "2"]
    tables = [[[8, 1, 1], [2, 8, 0], [5, 0, 5]], [[9, 1, 0], [4, 6, 0], [0, 0, 10]]]
    sizes = {"transform": ["fog", "contrast"], "label": labels, "predicted": labels}
    return xr.DataArray(tables, sizes, tuple(sizes))


def test_by_category_opens_on_the_least_accurate_class_of_the_setting_at_first(settings):
    by = Category.from_array(settings, "transform", "corruption")
    for start, label in ((None, "2"), ("fog", "2"), ("contrast", "1")):
        chart = class_explorer.category_explorer(settings, by, start)
        assert values(chart) == {"chosen_class": label, "chosen_transform": start or "fog"}
    assert controls(chart, "name") == {"chosen_class": "class", "chosen_transform": "corruption"}


def test_by_category_has_a_choice_of_images_where_the_counts_are_of_both(settings, monkeypatch):
    attacked = settings[::-1].assign_coords(transform=settings.transform)
    both = xr.concat([settings, attacked], pd.Index(["clean", "attacked"], name="images_are"))
    chart = class_explorer.category_explorer(both, Category.from_array(settings, "transform"))
    assert values(chart) == {"chosen_class": "1", "chosen_images": "attacked", "chosen_transform": "fog"}
    monkeypatch.setenv("JPY_SESSION_NAME", "a notebook")
    live = class_explorer.category_explorer(both, Category.from_array(settings, "transform", "corruption"))
    assert list(boxes(live)) == ["class", "images", "corruption"]
    boxes(live)["corruption"].value = "contrast"
    assert live.children[1].params.chosen_transform == "contrast"


def test_by_category_leaves_out_settings_that_are_not_drawn_and_keeps_their_order(settings):
    spec = class_explorer.category_explorer(settings, Category("transform", ["contrast"], "corruption")).to_dict()
    (data,) = spec["datasets"].values() if "datasets" in spec else [spec["vconcat"][0]["data"]["values"]]
    assert "contrast" in str(data)
    assert "fog" not in str(spec)
