"""Charts by the names of dimensions: they are drawn, fit the page, describe themselves, and have their controls."""

import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from drawing import drawn, text_sizes, tooltip_titles, width_of

from classwise.charts import plots, style
from classwise.papers import say

DIMS = {"defence": ["standard", "pgd-at"], "attack": ["clean", "pgd-20"], "label": ["0", "1", "2"]}
VALUES = xr.DataArray(np.linspace(-20, 90, 12).reshape(2, 2, 3), DIMS, tuple(DIMS))
BOUNDS = xr.concat([VALUES - 5, VALUES, VALUES + 5], pd.Index(["low", "value", "high"], name="bound"))
ONE = BOUNDS.isel(attack=1, drop=True)
EPOCHS = BOUNDS.isel(label=[0, 1]).rename(label="epoch").assign_coords(epoch=[1, 2])
RADII = EPOCHS.isel(attack=0, drop=True).rename(epoch="eval_eps").assign_coords(eval_eps=["0", "0.1"])
DIGITS = {"text": "value", "digits": ".0f"}
SHARES = RADII.sel(bound="value").rename("accuracy")

CHARTS = {
    "dots": lambda: plots.dots(BOUNDS, "label", "gap, points", "Gaps", colour="attack", panel="defence"),
    "columns": lambda: plots.dots(BOUNDS, "label", "gap, points", "Gaps", colour="attack", panel="defence", vertical=True),
    "band": lambda: plots.dots(ONE.isel(defence=0), "label", "gap, points", "Gaps", ONE.isel(defence=1), below="Grey: chance."),
    "free": lambda: plots.lines(EPOCHS, "epoch", "gap, points", "Gaps", panel="defence", choose="attack", free=True),
    "chosen": lambda: plots.dots(BOUNDS, "attack", "gap, points", "Gaps", panel="defence", choose="label", first="2"),
    "lines": lambda: plots.lines(EPOCHS, "epoch", "gap, points", "Gaps", colour="attack", panel="defence"),
    "over": lambda: plots.lines(RADII, SHARES, "share, %", "Shares", colour="defence", label="eval_eps"),
    "points": lambda: plots.points(ONE, VALUES.isel(attack=0), ("x", "gap, points"), "Gaps", colour="defence", label="label"),
    "cells": lambda: plots.cells(VALUES, "label", "defence", "gap, points", "Gaps", DIGITS, panel="attack"),
    "in_a_row": lambda: plots.arrange_in_row(
        *(plots.dots(ONE, "label", "gap, points", "Gaps", colour="defence", width=200) for _ in range(2)), title="Twice"
    ),
}


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_drawn_fits_the_page_and_describes_itself(name):
    chart = CHARTS[name]()
    spec, svg = chart.to_dict(), drawn(chart)
    assert spec["title"]["text"]
    assert ":" in spec["description"]
    assert min(text_sizes(svg)) >= 11
    assert width_of(svg) <= style.COLUMN
    assert tooltip_titles(chart).isdisjoint({"low", "high", "label", "across"})


@pytest.mark.parametrize("name", ["dots", "lines", "points"])
def test_a_tooltip_has_as_many_digits_as_its_values_need(monkeypatch, name):
    for table in ("BOUNDS", "ONE", "EPOCHS"):
        monkeypatch.setitem(globals(), table, globals()[table] / 1000)
    tips = str(CHARTS[name]().to_dict())
    ends = re.findall(r"'field': '(?:low|value|high)', 'format': '([^']+)'", tips)
    assert len(ends) >= 3
    assert set(ends) == {".3f"}


def test_an_explorer_begins_with_the_member_that_is_named_and_keeps_its_axis():
    spec = CHARTS["chosen"]().to_dict()
    (control,) = [one for one in spec["params"] if "bind" in one]
    assert (control["value"], control["bind"]["options"]) == ("2", ["0", "1", "2"])
    assert "-25.0, 95.0" in str(spec)
    text = "Gap, 3 classes: -20 points (standard training, clean, class 0) to 90 points (PGD-AT, PGD-20, class 2)."
    assert spec["description"] == text


def test_a_title_follows_the_choice():
    titles = {"clean": 'No [attack], no "loss"', "pgd-20": "Attacked"}
    chart = plots.points(BOUNDS, VALUES, ("x", "gap, points"), titles, panel="defence", choose="attack", first="pgd-20")
    assert ">Attacked<" in drawn(chart)
    assert f">{titles['clean']}<" in drawn(chart, chosen_attack="clean")


def test_axes_legends_and_panels_print_defences_and_attacks_as_papers_do_and_classes_as_they_are():
    bounds = BOUNDS.assign_coords(label=["mart", "1", "2"])
    for look in ({"colour": "defence", "panel": "attack"}, {"colour": "attack", "panel": "defence"}):
        svg = drawn(plots.dots(bounds, "label", "gap, points", "Gaps", **look))
        assert {"mart", "standard", "PGD-AT", "PGD-20"} <= set(re.findall(r"<text[^>]*>([^<]*)</text>", svg)), look


def test_columns_of_numbers_say_what_they_are_and_a_title_has_no_markup():
    for names, title in ((["1", "2", "5"], {"1/T"}), (["1", "2", "all"], set())):
        bounds = ONE.rename(label="inverse").assign_coords(inverse=names)
        svg = drawn(
            plots.dots(bounds, "inverse", "gap, points", say.text("{name} leads", name="cw"), panel="defence", vertical=True)
        )
        assert {"1/T", "C&amp;W leads"} & set(re.findall(r"<text[^>]*>([^<]*)</text>", svg)) == {"C&amp;W leads"} | title


def test_labels_of_a_line_keep_apart():
    table = pd.DataFrame({"place": [0.0, 1, 50, 51, 52], "of": ["a", "b", "a", "a", "b"]})
    assert plots._apart(table, "place", "of").index.tolist() == [4, 3, 1, 0]


def test_an_unknown_look_is_an_error():
    with pytest.raises(TypeError, match="colur"):
        plots.dots(ONE, "label", "gap, points", "Gaps", colur="defence")
