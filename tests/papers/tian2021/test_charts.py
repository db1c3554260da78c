"""Charts of single sections of the paper."""

import numpy as np
import pandas as pd
import xarray as xr
from drawing import drawn

from classwise.charts import gallery
from classwise.papers.tian2021 import charts

CLASSES = ["a", "b", "c"]


def test_table_4_has_its_six_lines_each_compared_with_the_first_of_its_block():
    dims, names = ("defence", "seed", "attack", "treatment", "image"), ["as they are", "white", "both"]
    truth = np.broadcast_to([0, 1, 1, 1, 1], (1, 1, 2, 3, 5))
    answer = np.array([[[0, 0, 1, 1, 2], [0, 1, 1, 1, 2], [0, 1, 1, 1, 1]], [[0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 2, 2, 1, 1]]])
    data = {"truth": (dims, truth), "prediction": (dims, answer[None, None])}
    coords = {"attack": ["clean", "pgd"], "treatment": names, "predicted": CLASSES}
    table = charts.table_4(xr.Dataset(data, coords), "b")
    assert list(table.index) == [f"{attack}, {name}" for attack in ("clean", "pgd") for name in names]
    assert list(table.loc["clean, as they are"]) == ["1", "2", "1"]
    assert list(table.loc["clean, both"]) == ["0 (-1)", "4 (+2)", "0 (-1)"]
    assert list(table.loc["pgd, white"]) == ["3 (-1)", "1 (+1)", "0 (+0)"]


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
    painted = before.assign(logits=before.logits[..., [1, 0, 2]].drop_vars("predicted"))
    treated = xr.concat([before, painted], pd.Index(["as they are", "white"], name="treatment"), data_vars="all")
    sure = xr.DataArray([0.1, 0.9, 0.5], dims="image", coords=images)
    table = charts.repainted_images(sure, {"as they are": plain, "white": white}, treated, count=2).data
    assert list(zip(table["row"], table["number"], table["caption"], strict=True)) == [
        ("as they are", 7, "clean: x 70 %\nthen y 20 %"),
        ("as they are", 2, "clean: x 70 %\nthen y 20 %"),
        ("white", 7, "clean: y 70 %\nthen x 20 %"),
        ("white", 2, "clean: y 70 %\nthen x 20 %"),
    ]
    assert table["url"].nunique() == 2
