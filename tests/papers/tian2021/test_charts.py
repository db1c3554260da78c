"""Charts of single sections of the paper."""

import numpy as np
import xarray as xr
from drawing import drawn

from classwise.charts import gallery
from classwise.papers.tian2021 import charts

CLASSES = ["a", "b", "c"]


def square(values):
    return xr.DataArray(values, dims=("label", "predicted"), coords={"label": CLASSES, "predicted": CLASSES})


def counted():
    """Two networks' counts under two attacks and transforms for two classes."""
    coords = {"attack": ["clean", "pgd"], "transform": ["none", "white-background"], "label": CLASSES[:2], "predicted": CLASSES}
    numbers = np.arange(24).reshape(2, 2, 2, 3)
    return xr.DataArray(numbers, dims=tuple(coords), coords=coords, name="count")


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
