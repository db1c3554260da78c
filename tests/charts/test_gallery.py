"""Images in charts."""

import base64
import io
import re

import altair as alt
import mocks
import numpy as np
import pandas as pd
import xarray as xr
from drawing import drawn
from PIL import Image

from classwise.charts import gallery
from classwise.core.spec import Evaluation, Spec
from classwise.runs.compute.validate import check_evaluation


def test_a_picture_holds_the_pixels():
    pixels = np.linspace(0, 1, 12).reshape(1, 3, 4)
    address = gallery.png_address(pixels)
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(address.split(",")[1]))))
    assert (image == (pixels[0] * 255).round()).all()
    colour = gallery.png_address(np.stack([pixels[0], 1 - pixels[0], pixels[0] * 0]))
    assert np.asarray(Image.open(io.BytesIO(base64.b64decode(colour.split(",")[1])))).shape == (3, 4, 3)


def test_the_gallery_shows_every_image_in_three_forms_with_its_answer():
    rows = pd.DataFrame(gallery.example_rows(mocks.dataset("examples 1", per_class=2), "trades"))
    assert len(rows) == 10 * 2 * 3
    assert set(rows["row"]) == {"clean", "perturbation", "attacked"}
    assert rows[rows["row"] == "clean"]["caption"].str.fullmatch(r"\d [✓✗]\nconfidence \d+ %").all()
    given = {name: mocks.dataset("examples 1", per_class=2, seed=seed) for seed, name in enumerate(("trades", "standard"))}
    for number, bound in ((2, {"gallery_class", "gallery_defence"}), (1, {"gallery_class"})):
        chart = gallery.gallery(dict(list(given.items())[:number])).to_dict()
        assert {param["name"] for param in chart["params"] if "bind" in param} == bound
    for name, label in (("trades", "5"), ("standard", "5"), ("trades", "0")):
        svg = drawn(gallery.gallery(given), gallery_class=label, gallery_defence=name)
        table = pd.DataFrame(gallery.example_rows(given[name], name)).query(f"label == '{label}'")
        assert set(re.findall(r'href="(data:[^"]+)"', svg)) == set(table["url"])
        assert svg.count('aria-roledescription="text mark"') == len(table) == 6
    chart = gallery.gallery(given, start="7", network="trades").to_dict()
    values = {param["name"]: param.get("value") for param in chart["params"]}
    assert (values["gallery_class"], values["gallery_defence"]) == ("7", "trades")


def test_the_gallery_begins_with_images_that_the_attack_flips():
    data = mocks.dataset("examples 1", per_class=2)
    data["prediction"][:] = np.stack([data.truth, data.truth], 1)
    second = data.truth.values.tolist().index(4) + 1
    data["prediction"][second] = [4, 9]
    data["prediction"][0] = [9, 9]  # wrong without the attack, so the attack flips nothing
    for start in (None, "0", "4"):
        chart = gallery.gallery({"trades": data}, start=start).to_dict()
        assert [param["value"] for param in chart["params"] if "value" in param] == ["4"]
    rows = pd.DataFrame(gallery.example_rows(data, "trades")).query("label == '4' and row != 'perturbation' and place == 0")
    assert rows["caption"].str.partition("\n")[0].tolist() == ["4 ✓", "9 ✗"]
    assert set(rows["number"]) == {int(data.image[second])}


SPECS = [Spec(dataset="digits", eps="0.1", defence=defence, seed=seed) for defence in ("trades", "standard") for seed in (0, 1)]


def attacking(evaluation, images=10, make=gallery.attack_live):
    """Return what is shown, the networks and evaluations of it, and the images that were attacked, of which there are a few."""
    asked, called = [], []

    def attacker(spec, evaluation):
        asked.append((spec.defence, evaluation))
        shown = mocks.dataset("examples 1", per_class=1)
        return lambda label, count, eps: called.append((label, count, eps)) or shown.isel(image=slice(min(count, images)))

    return make(attacker, SPECS, evaluation), asked, called


def said(chart):
    return " ".join(chart.to_dict()["title"]["subtitle"])


def test_attacking_now_takes_the_chosen_network_once():
    show, asked, called = attacking(Evaluation(attack="pgd-20"))
    for label in ("3", "8"):
        for epoch in (1, 2):
            show.draw(chosen_class=label, chosen_defence="standard", chosen_split="test", chosen_epoch=epoch)
    assert asked == [("standard", Evaluation(attack="pgd-20", split="test"))]
    assert called == [("3", 4, "0.1"), ("8", 4, "0.1")]


def test_what_was_attacked_now_is_said_and_other_images_and_radii_can_be_chosen():
    show, _, called = attacking(Evaluation(attack="pgd-20"))
    assert [choice.name for choice in show.choices] == ["chosen_attack", "attacked_images", "attacked_radius"]
    chart = show.draw(chosen_class="3", attacked_images=2, attacked_radius=1.5)
    assert called == [("3", 8, "0.15")]
    assert len(chart.data[chart.data["row"] == "clean"]) == 4
    assert "pgd-20 at radius 0.15, attacked in" in said(chart)
    assert "no more images" not in said(chart)


def test_another_attack_can_be_chosen_and_has_the_options_of_its_own_table():
    first = Evaluation(attack="pgd-10", options={"rate": 2.0}, per_class=9)
    show, asked, _ = attacking(first)
    assert show.choices[0].value == "pgd-10"
    assert list(show.choices[0].options) == ["pgd-10", *gallery.LIVE_ATTACKS]
    charts = [show.draw(chosen_class="3", chosen_attack=name) for name in ("pgd-10", "square", "square")]
    assert asked == [("trades", first), ("trades", Evaluation(attack="square", per_class=9))]
    assert "square at radius 0.1, attacked in" in said(charts[1])


def test_the_attacks_of_a_live_kernel_exist_for_both_norms():
    for norm in ("linf", "l2"):
        for name in gallery.LIVE_ATTACKS:
            check_evaluation(Evaluation(attack=name), Spec(dataset="digits", defence="trades", eps="0.1", norm=norm, seed=0))


def test_widgets_attack_the_class_and_the_network_that_are_chosen_without_a_chart_above(jupyter):
    shown, asked, called = attacking(Evaluation(attack="pgd-20"), make=gallery.attack_widgets)
    boxes = {box.description: box for box in shown.children[0].children}
    assert list(boxes) == ["class", "network", "attack", "which 4 images", "radius, times that of the evaluation"]
    assert boxes["class"].options == tuple(zip("0123456789", "0123456789", strict=True))
    boxes["class"].value, boxes["network"].value = "8", "trades"
    assert (asked[-1], called[-1]) == (("trades", Evaluation(attack="pgd-20")), ("8", 4, "0.1"))
    assert len(shown.children) == 2


def test_the_last_images_of_a_class_are_said_to_be_the_last():
    show, _, _ = attacking(Evaluation(attack="pgd-20"), images=6)
    charts = [show.draw(chosen_class="3", attacked_images=group) for group in (1, 2, 3)]
    none = "There are no more images: these are the last ones."
    assert [none in said(chart) for chart in charts] == [False, False, True]
    assert [len(chart.data[chart.data["row"] == "clean"]) for chart in charts] == [4, 2, 4]


def test_images_are_shown_in_rows_with_a_caption_each():
    pixels = xr.DataArray(np.zeros((2, 1, 4, 4)), dims=("image", "channel", "row", "column"), coords={"image": [4, 7]})
    chart = gallery.image_rows({"most": pixels}, {"most": ["80 %", "70 %"]})
    assert list(chart.data["caption"]) == ["80 %", "70 %"]
    assert all(url.startswith("data:image/png;base64,") for url in chart.data["url"])
    data = xr.Dataset({"pixels": pixels, "truth": ("image", [1, 0])}, coords={"predicted": ["x", "y"]})
    both = gallery.one_per_class({"set": data})
    assert list(both.data["number"]) == [7, 4]
    assert isinstance(both, alt.LayerChart)
