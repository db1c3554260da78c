"""Colours that the colour-blind can tell apart, on a white page and on a dark one; the data of charts."""

import re
from itertools import combinations
from pathlib import Path

import altair as alt
import mocks
import numpy as np
import pandas as pd
import pytest
import vl_convert

from classwise.book import build
from classwise.charts import style
from classwise.charts.primitives import Cells, heatmap
from classwise.charts.style import Category
from classwise.stats import aggregate, bootstrap, metrics

# Machado et al. 2009, severity 1, for linear RGB.
SIGHT = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]])
WHITE = XYZ.sum(1)
PALETTES = {"classes": style.CLASS_COLOURS, "defences": style.DEFENCE_COLOURS.values()}
PALETTES["series"] = style.SERIES_COLOURS
# What charts.js draws on a dark page in place of a colour.
DARK = dict(re.findall(r'"(#[0-9a-f]{6})": "(#[0-9a-f]{6})"', (Path(build.__file__).parent / "charts.js").read_text()))
PALETTES["highlighted"] = (style.CHOSEN, style.HIGHEST, style.LOWEST, style.GREY)


def linear(colour):
    values = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    ratio = XYZ @ rgb / WHITE
    x, y, z = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def ciede2000(first, second):
    """Return the colour difference of Sharma et al. 2005, between two colours in CIELAB."""
    (l1, a1, b1), (l2, a2, b2) = first, second
    mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    stretch = 1.5 - 0.5 * np.sqrt(mean**7 / (mean**7 + 25**7))
    a1, a2 = a1 * stretch, a2 * stretch
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    lightness, chroma, hue = (l1 + l2) / 2, (c1 + c2) / 2, h1 + turn / 2
    cosines = [(0.17, 1, -30), (-0.24, 2, 0), (-0.32, 3, 6), (0.2, 4, -63)]
    weight = 1 - sum(size * np.cos(np.radians(times * hue + shift)) for size, times, shift in cosines)
    dl = (l2 - l1) / (1 + 0.015 * (lightness - 50) ** 2 / np.sqrt(20 + (lightness - 50) ** 2))
    dc = (c2 - c1) / (1 + 0.045 * chroma)
    dh = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2)) / (1 + 0.015 * chroma * weight)
    rotation = 60 * np.exp(-((((hue % 360) - 275) / 25) ** 2))
    mixed = -2 * np.sqrt(chroma**7 / (chroma**7 + 25**7)) * np.sin(np.radians(rotation))
    return float(np.sqrt(dl**2 + dc**2 + dh**2 + mixed * dc * dh))


def contrast(first, second):
    """Return the contrast of WCAG 2, from 1 to 21."""
    low, high = sorted(float(XYZ[1] @ linear(colour)) for colour in (first, second))
    return (high + 0.05) / (low + 0.05)


def test_the_difference_is_that_of_the_published_examples():
    assert ciede2000((50, 2.6772, -79.7751), (50, 0, -82.7485)) == pytest.approx(2.0425, abs=1e-4)
    assert ciede2000((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387)) == pytest.approx(1.2644, abs=1e-4)
    assert ciede2000((22.7233, 20.0904, -46.694), (23.0331, 14.973, -42.5619)) == pytest.approx(2.0373, abs=1e-4)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("palette", PALETTES)
def test_any_two_colours_differ_for_everybody(palette, sight, theme):
    colours = [DARK.get(colour, colour) if theme == "dark" else colour for colour in PALETTES[palette]]
    seen = {colour: lab(np.clip(np.array(SIGHT[sight]) @ linear(colour), 0, 1)) for colour in colours}
    assert len(seen) == len(PALETTES[palette])
    least = min((ciede2000(seen[one], seen[other]), one, other) for one, other in combinations(seen, 2))
    assert least[0] >= (18 if sight == "normal" else 11), least


def test_colours_stand_out_from_both_pages_and_those_of_the_dark_theme_replace_colours_of_charts():
    colours = {colour for palette in PALETTES.values() for colour in palette}
    assert set(DARK) <= colours | {*style.SEQUENTIAL, *style.DIVERGING, *style.INKS}
    for page in ("#ffffff", "#121212"):
        assert min((contrast(colour, page), colour) for colour in colours)[0] >= 3
    for page in ("#14181e", "#121212"):
        assert min((contrast(DARK.get(colour, colour), page), colour) for colour in colours)[0] >= 4


def test_classes_and_defences_have_one_colour_on_all_pages_others_are_grey_and_many_classes_have_a_larger_scheme():
    few = Category("defence", ["trades", "wat", "pgd-at"]).scale.to_dict()
    assert few["range"] == [style.DEFENCE_COLOURS["trades"], style.GREY, style.DEFENCE_COLOURS["pgd-at"]]
    digits = [str(number) for number in range(12)]
    assert Category("label", digits[:10]).scale.to_dict() == {"domain": digits[:10], "range": list(style.CLASS_COLOURS)}
    assert Category("label", digits).scale.to_dict()["scheme"] == "tableau20"


def test_readers_see_words():
    assert style.display_name("cv_unbiased") == "unbiased CV, points squared"
    tips = [tip.to_dict() for tip in style.tooltip("images_are", "defence", value="accuracy, %", low="|.2f")]
    assert [tip["title"] for tip in tips] == ["images", "defence", "accuracy, %", "95 % interval, from"]
    assert [tip.get("format") for tip in tips] == [None, None, ".1f", ".2f"]


def test_rows_are_carried_as_csv_with_their_types():
    frame = pd.DataFrame({"label": ["0", "1"], "value": [1.23456789, 2.0], "right": [True, False]})
    packed = style.inline_csv(frame)
    assert packed["values"] == "label,value,right\n0,1.235,true\n1,2,false\n"
    assert packed["format"]["parse"] == {"label": "string", "value": "number", "right": "boolean"}


def test_too_many_rows_are_refused():
    with pytest.raises(alt.MaxRowsError, match="aggregate"):
        style.inline_csv(pd.DataFrame({"x": range(style.MAX_ROWS + 1)}))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("diverging", [False, True])
def test_numbers_stand_out_from_their_cells(diverging, theme):
    names = [str(number) for number in range(-60 if diverging else 0, 61)]
    table = pd.DataFrame({"label": names, "of": "", "value": map(float, names)})
    cells = Cells("value", "", "value", ".0f", diverging)
    chart = heatmap(table, Category("label", names), Category("of", [""]), cells, style.tooltip("label")).to_json()
    for colour, other in DARK.items() if theme == "dark" else ():
        chart = chart.replace(f'"{colour}"', f'"~{other}"')
    svg = vl_convert.vegalite_to_svg(chart.replace("~", ""))
    grounds = re.findall(r'="rect mark"[^>]* fill="rgb\((\d+), (\d+), (\d+)\)"', svg)
    inks = re.findall(r'="text mark"[^>]* fill="(#\w{6})"', svg)
    assert len(inks) == len(grounds) == len(names)
    grounds = ["#" + "".join(f"{int(part):02x}" for part in ground) for ground in grounds]
    assert min(map(contrast, grounds, inks)) >= 4.5
    # The cells without an effect are like the page.
    assert contrast(grounds[names.index("0")], "#14181e" if theme == "dark" else "#ffffff") < 1.3


def test_rows_say_how_many_images_they_are_of_where_attacks_differ_in_them():
    outcomes = mocks.dataset("outcomes 1").expand_dims(attack=["pgd-20", "strong"])
    some = outcomes.assign(truth=outcomes.truth.where((outcomes.attack == "pgd-20") | (outcomes.image % 2 == 0), -1))
    number = {name: int((some.truth.sel(attack=name) >= 0).sum()) for name in ("pgd-20", "strong")}
    bounds = bootstrap.bootstrap(some, metrics.overall, draws=20)
    assert dict(style.wide_bounds(bounds).set_index("attack")["evaluated"]) == number
    assert number["strong"] < number["pgd-20"]
    shared = metrics.overall(aggregate.counts(aggregate.common_images(some, "attack")))
    assert "evaluated" not in style.frame(shared)
