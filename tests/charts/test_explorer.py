import base64
import io

import ipywidgets
import mocks
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from PIL import Image

from classwise.charts import class_explorer, gallery, style
from classwise.core.spec import Evaluation, Spec


@pytest.fixture(autouse=True)
def _setup():
    style.setup()


@pytest.fixture
def history():
    parts = [mocks.dataset(seed=seed).expand_dims(seed=[0]) for seed in (0, 1)]
    return xr.concat([part.drop_attrs() for part in parts], pd.Index(["standard", "pgd-at"], name="defence"))


def boxes(live):
    return {box.description: box for box in live.children[0].children}


def test_the_static_explorer_has_a_control_for_every_choice(history):
    chart = class_explorer.over_epochs(history, live=False).to_dict()
    bound = {param["name"]: param["bind"]["input"] for param in chart["params"] if "bind" in param}
    assert bound == {
        "chosen_class": "select",
        "chosen_defence": "select",
        "chosen_images": "select",
        "chosen_split": "select",
        "chosen_epoch": "range",
    }


def test_the_live_explorer_has_the_same_controls_and_moves_the_chart(history):
    shown = []
    live = class_explorer.over_epochs(history, show=lambda **chosen: shown.append(chosen) or "picture", live=True)
    assert list(boxes(live)) == ["class", "defence", "images", "split", "epoch"]
    view = live.children[1]
    boxes(live)["class"].value = "7"
    boxes(live)["epoch"].value = 2
    assert (view.params.chosen_class, view.params.chosen_epoch) == ("7", 2)
    assert (shown[-1]["chosen_class"], shown[-1]["chosen_defence"]) == ("7", "pgd-at")
    assert isinstance(live, ipywidgets.VBox)


def test_the_explorer_opens_on_the_weakest_class(history):
    history["count"].loc[{"defence": "pgd-at", "label": "4", "attack": "pgd-10", "predicted": "4"}] = 0
    chart = class_explorer.over_epochs(history, live=False).to_dict()
    assert {param["name"]: param["value"] for param in chart["params"]}["chosen_class"] == "4"


def test_live_is_asked_of_the_kernel(history, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "a notebook")
    assert isinstance(class_explorer.over_epochs(history), ipywidgets.VBox)
    monkeypatch.delenv("JPY_SESSION_NAME")
    assert not isinstance(class_explorer.over_epochs(history), ipywidgets.VBox)


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
    assert rows[rows["row"] == "clean"]["caption"].str.endswith("%").all()
    given = {name: mocks.dataset("examples 1", per_class=2) for name in ("trades", "standard")}
    for number, bound in ((2, {"gallery_class", "gallery_defence"}), (1, {"gallery_class"})):
        chart = gallery.gallery(dict(list(given.items())[:number]), live=False).to_dict()
        assert {param["name"] for param in chart["params"] if "bind" in param} == bound


def test_attacking_now_takes_the_chosen_network_once(history):
    asked, called = [], []

    def attacker(spec, evaluation):
        asked.append(spec.defence)
        return lambda label, count: called.append((label, count)) or mocks.dataset("examples 1", per_class=1)

    specs = [
        Spec(dataset="digits", eps="0.1", defence=defence, seed=seed) for defence in ("standard", "trades") for seed in (0, 1)
    ]
    show = gallery.attacked_now(attacker, specs, Evaluation(attack="pgd-20"))
    for label in ("3", "8"):
        show(chosen_class=label, chosen_defence="trades", chosen_split="test", chosen_epoch=1)
        show(chosen_class=label, chosen_defence="trades", chosen_split="test", chosen_epoch=2)
    assert asked == ["trades"]
    assert called == [("3", 4), ("8", 4)]
