import ipywidgets
import mocks
import pandas as pd
import pytest
import xarray as xr

from classwise.charts import class_explorer
from classwise.stats import aggregate, metrics


@pytest.fixture
def history():
    parts = [mocks.dataset(seed=seed).expand_dims(seed=[0]) for seed in (0, 1)]
    return xr.concat([part.drop_attrs() for part in parts], pd.Index(["standard", "pgd-at"], name="defence"))


def boxes(live):
    return {box.description: box for box in live.children[0].children}


def test_the_explorer_starts_with_the_chosen_defence_and_its_weakest_class(history):
    for start in ("standard", "pgd-at"):
        chart = class_explorer.over_epochs(history, live=False, start=start).to_dict()
        values = {param["name"]: param.get("value") for param in chart["params"]}
        attacked = aggregate.clean_and_attacked(history["count"].sel(split="test", defence=start).isel(epoch=-1).sum("seed"))
        rates = metrics.accuracy(attacked.sel(images_are="attacked"))
        assert (values["chosen_defence"], values["chosen_class"]) == (start, str(rates.idxmin("label").values))


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
