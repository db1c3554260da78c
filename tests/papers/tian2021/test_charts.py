"""Charts of single sections of the paper."""

import numpy as np
import pandas as pd
import xarray as xr
from drawing import drawn, legend_fields, reacting_legends

from classwise.charts import gallery
from classwise.papers.tian2021 import charts
from classwise.stats import metrics

CLASSES = ["a", "b", "c"]


def square(values):
    return xr.DataArray(values, dims=("label", "predicted"), coords={"label": CLASSES, "predicted": CLASSES})


def counted():
    """Two networks' counts under two attacks and transforms for two classes."""
    coords = {"attack": ["clean", "pgd"], "transform": ["none", "white-background"], "label": CLASSES[:2], "predicted": CLASSES}
    numbers = np.arange(24).reshape(2, 2, 2, 3)
    return xr.DataArray(numbers, dims=tuple(coords), coords=coords, name="count")


def test_matrices_show_numbers_and_leave_zeros_blank():
    first, second = square([[0, 37, 1], [2, 0, 0], [0, 3, 0]]), square([[0, 23, 0], [2, 0, 0], [0, 0, 0]])
    svg = drawn(charts.count_matrices({"taken for": first, "home": second}))
    assert svg.count(">23<") == 1
    assert svg.count(">0<") == 1, "of the scale of colours"
    assert ">home<" in svg
    data = charts.count_matrices({"taken for": first, "home": second}).data
    assert set(data[(data["matrix"] == "home") & (data["value"] == 23)]["of"]) == {37}


def test_shares_keep_the_order_of_their_rows():
    index = pd.Index(["z", "a 0.5"], name="a name. with a dot")
    table = pd.DataFrame({"share": [40.0, 50.0], "low": [30.0, 45.0], "high": [55.0, 60.0], "images": [9, 9]}, index=index)
    svg = drawn(charts.share_intervals(table, "share, %"))
    assert svg.index(">z<") < svg.index(">a 0.5<")
    assert "null" not in svg
    both = pd.concat([table.assign(of="one"), table.assign(of="other")])
    assert ">other<" in drawn(charts.share_intervals(both, "share, %", colour="of"))


def test_the_two_classes_of_a_trade_off_are_named_and_the_axis_is_logarithmic():
    rates = xr.DataArray(
        [[10.0, 20.0], [30.0, 40.0], [50.0, 60.0]],
        dims=("label", "betas"),
        coords={"label": CLASSES, "betas": ["0.5", "6"]},
        name="accuracy",
    )
    interval = xr.concat([rates - 5, rates + 5], "bound").assign_coords(bound=["low", "high"])
    chart = charts.trade_offs(rates, interval, ("b", "a"))
    svg = drawn(chart)
    assert ">beta of class a (of all others 6)<" in svg
    assert ">class b, most vulnerable<" in svg
    assert ">class a, changed<" in svg
    # The others are named at their lines alone.
    assert svg.count(">c<") == 1
    assert ">b<" not in svg
    # On a scale of logarithms .5 is as far from 3 as 3 from 18.
    values = [*rates.betas.values, "3", "18"]
    wide = rates.reindex(betas=values, fill_value=30.0)
    spec = charts.trade_offs(
        wide, xr.concat([wide - 5, wide + 5], "bound").assign_coords(bound=["low", "high"]), ("b", "a")
    ).to_dict()
    axis = spec["layer"][0]["encoding"]["x"]
    assert axis["scale"]["type"] == "log"
    assert axis["axis"]["values"] == [0.5, 3, 6, 18]


def test_table_4_has_its_six_lines_each_compared_with_the_first_of_its_block():
    plain, adjusted = counted(), counted() + 100
    lines, first = charts.table_4(plain, adjusted, "b")
    titles = list(lines.line.values)
    assert len(titles) == 6
    np.testing.assert_array_equal(lines[0], plain.sel(attack="clean", transform="none", label="b"))
    np.testing.assert_array_equal(lines[4], plain.sel(attack="pgd", transform="white-background", label="b"))
    np.testing.assert_array_equal(lines[5], adjusted.sel(attack="pgd", transform="white-background", label="b"))
    assert [first[name] for name in titles] == [titles[0]] * 3 + [titles[3]] * 3
    table = charts.prediction_table(lines, first)
    assert set(table.loc[titles[0]]) == {"3", "4", "5"}
    assert "109 (+106)" in set(table.loc[titles[2]])


def test_gains_are_signed_and_each_image_is_a_dot():
    gain = square([[np.nan, 4.0, -2.0]] * 3).rename(label="removed", predicted="label")
    svg = drawn(charts.class_changes(gain))
    assert svg.count(">+4<") == 3
    image = xr.DataArray([0.2, 0.9], dims="image", coords={"image": [3, 5]})
    chart = charts.confidence_scatter(image, image + 0.05, "a")
    assert set(chart.data["number"]) == {3, 5}


def test_the_two_most_confident_predictions_are_two_lines_for_each_attack():
    logits = np.log([[[0.7, 0.2, 0.1]], [[0.1, 0.25, 0.65]]])
    data = {"logits": (("attack", "image", "predicted"), logits), "truth": (("attack", "image"), [[0], [0]])}
    some = xr.Dataset(data, {"attack": ["clean", "temperature-pgd-20"], "image": [4], "predicted": ["x", "y", "z"]})
    said = charts.top_two(some, [4])
    assert said == ["clean: x 70 %\nthen y 20 %\nattacked: z 65 %\nthen y 25 %"]
    pixels = xr.DataArray(np.zeros((1, 1, 4, 4)), dims=("image", "channel", "row", "column"), coords={"image": [4]})
    svg = drawn(gallery.image_rows({"as it is": pixels}, {"as it is": said}))
    assert all(f">{line}<" in svg for line in said[0].splitlines())


def test_the_least_confident_images_are_shown_as_they_are_and_painted():
    shape, images = ("image", "channel", "row", "column"), {"image": [2, 4, 7]}
    plain, white = (xr.DataArray(np.full((3, 1, 4, 4), shade), dims=shape, coords=images) for shade in (0.2, 1.0))
    logits = (("attack", "image", "predicted"), np.log(np.tile([0.7, 0.2, 0.1], (1, 3, 1))))
    data = {"logits": logits, "truth": (("attack", "image"), np.zeros((1, 3), dtype=int))}
    before = xr.Dataset(data, {"attack": ["clean"], **images, "predicted": ["x", "y", "z"]})
    after = before.assign_coords(predicted=["y", "x", "z"])
    sure = xr.DataArray([0.1, 0.9, 0.5], dims="image", coords=images)
    table = charts.repainted_images(sure, (plain, before), (white, after), count=2).data
    assert list(zip(table["row"], table["number"], table["caption"], strict=True)) == [
        ("as it is", 7, "clean: x 70 %\nthen y 20 %"),
        ("as it is", 2, "clean: x 70 %\nthen y 20 %"),
        ("painted white", 7, "clean: y 70 %\nthen x 20 %"),
        ("painted white", 2, "clean: y 70 %\nthen x 20 %"),
    ]
    assert table["url"].nunique() == 2


def test_each_legend_of_categories_has_the_cue_and_highlights_what_is_clicked(rates):
    table = pd.DataFrame(
        {"share": [1.0, 2], "low": 0.5, "high": 3.0, "images": 9, "images of": ["one", "other"]}, index=["x", "y"]
    )
    accuracy = metrics.accuracy(rates.sel(defence="a")).rename(attack="betas").assign_coords(betas=["1", "6"])
    interval = xr.concat([accuracy - 5, accuracy + 5], "bound").assign_coords(bound=["low", "high"])
    shown = {
        "images of": charts.share_intervals(table, "share, %", colour="images of"),
        "name": charts.trade_offs(accuracy, interval, ("0", "1")),
    }
    for field, chart in shown.items():
        assert legend_fields(chart) == ({field},) * 4
        assert set(reacting_legends(chart).values()) == {True}
    assert legend_fields(charts.share_intervals(table, "share, %")) == (set(),) * 4
