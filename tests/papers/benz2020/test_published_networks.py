"""Networks that others published: which are shown, what the page says of them, and that their modules build them."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

from classwise import images, models, runs
from classwise.charts import heatmaps
from classwise.core.datasets import class_names
from classwise.core.errors import UserError
from classwise.core.paths import checkout
from classwise.papers.benz2020 import published_networks as section
from classwise.runs.compute import audited_network
from classwise.stats import aggregate, intervals, metrics

HOME = checkout() / "data" / "recorded" / "audits"
TABLE = pd.read_csv(HOME / "networks.csv", index_col="network")
OTHERS = list(TABLE.index[TABLE["repository"] != section.OURS])
CLASSES = list(class_names("cifar10"))
# By the class, how many in twenty clean images are right: cat is the worst and ship the best.
USUAL = dict(zip(CLASSES, (12, 17, 8, 5, 7, 9, 13, 14, 18, 15), strict=True))
# Frog is the worst and truck the best.
ODD = USUAL | {"frog": 2, "truck": 19}


def outcomes(**networks):
    """Return outcomes of networks on 100 images of each class, of which they get five fewer right at each radius."""
    truth = np.repeat(np.arange(10), 100)
    attacks = ["clean", "at 2/255", "at 4/255"]
    right = np.array(
        [[np.arange(100) < 5 * (rates[name] - lost) for name in CLASSES] for rates in networks.values() for lost in range(3)]
    )
    wrong = ~right.reshape(len(networks), 3, 1000)
    prediction = np.where(wrong, (truth + 1) % 10, truth)
    dims = ("network", "attack", "image")
    data = {
        "truth": (dims, np.broadcast_to(truth, wrong.shape)),
        "prediction": (dims, prediction),
        "misclassified": (dims, wrong),
    }
    names = [name.replace("_", "-") for name in networks]
    return xr.Dataset(data, {"network": names, "attack": attacks, "image": np.arange(1000), "predicted": CLASSES})


def table(*rows):
    columns = ["network", "training", "repository", "published"]
    return pd.DataFrame(rows, columns=columns).set_index("network")


SEEN = outcomes(plain=USUAL, robust=USUAL, odd=ODD, our_robust=USUAL)
ROWS = (("plain", "standard", "a/b", None), ("robust", "robust", "a/b", None), ("odd", "robust", "a/b", None))
GIVEN = section.add_measured(table(*ROWS, ("our-robust", "robust", section.OURS, None)), SEEN)


@pytest.mark.parametrize(("published", "shown"), [(59.05, True), (58.95, True), (59.1, False), (58.9, False), (None, True)])
def test_a_network_is_shown_if_it_has_the_published_accuracy_or_none_is_published(published, shown):
    row = section.add_measured(table(("plain", "standard", "a/b", published)), SEEN).loc["plain"]
    assert (row["measured"], row["shown"]) == (pytest.approx(sum(USUAL.values()) / 2), shown)


def test_a_network_without_outcomes_under_attack_is_not_shown_nor_one_without_any():
    clean = SEEN.assign(truth=SEEN.truth.where((SEEN.attack == "clean") | (SEEN.network != "plain"), -1))
    seen = section.add_measured(table(ROWS[0], ROWS[1], ("absent", "robust", "a/b", 1.0)), clean)
    assert seen["shown"].tolist() == [False, True, False]
    assert seen["measured"].isna().tolist() == [False, False, True]


def test_the_answer_counts_networks_of_others_alone():
    text = section.answer(SEEN, GIVEN)
    assert text.startswith("**In 2 of 3 networks of others, ")
    assert "as expected" not in text, "each half holds where both hold"
    assert text.endswith("(odd).")


def test_standard_networks_are_judged_on_clean_images_and_robust_ones_at_the_largest_radius():
    count = aggregate.counts(section.judged(SEEN, GIVEN))
    assert metrics.correct(count).sel(label="cat").to_series().to_dict() == {"plain": 25, "robust": 15, "odd": 15}


def test_classes_and_the_networks_of_each_training_are_sorted_by_their_mean():
    count = section.sorted_counts(SEEN, GIVEN)
    assert count.network.values.tolist() == ["plain", "robust", "our-robust", "odd"]
    assert count.label.values.tolist()[::9] == ["ship", "cat"]


def test_the_chart_has_a_line_for_each_class_and_a_column_for_each_network():
    count = section.sorted_counts(SEEN, GIVEN)
    chart = heatmaps.accuracy_heatmap(count, intervals.relative_robustness(count), "network", "attack", upright=True).to_dict()
    fields = {tuple(layer["encoding"][axis]["field"] for axis in "xy") for layer in chart["spec"]["layer"]}
    assert fields == {("network", "label")}
    assert chart["spec"]["layer"][0]["encoding"]["y"]["sort"] == count.label.values.tolist()


def test_orders_are_compared_within_a_training_with_and_without_ours():
    rows = section.orders(outcomes(plain=USUAL, robust=USUAL, odd=USUAL, our_robust=ODD), GIVEN)
    # A single standard network agrees with none.
    assert rows["networks of others"].to_dict() == {("robust", attack): 2 for attack in SEEN.attack.values}
    assert rows["networks with ours"].unique().tolist() == [3]
    assert rows["W of others"].unique().tolist() == ["1.00"]
    assert float(rows.loc[("robust", "clean"), "W with ours"]) < 1


def test_orders_leave_out_what_is_no_better_than_chance():
    blind = dict.fromkeys(CLASSES, 3) | {"cat": 4}
    rows = section.orders(outcomes(plain=USUAL, robust=USUAL, odd=blind, our_robust=USUAL), GIVEN)
    assert rows.index.tolist() == [("robust", "clean"), ("robust", "at 2/255")]


def test_claims_hold_where_the_whole_interval_is_in_their_range():
    alike = outcomes(plain=USUAL, robust=USUAL, odd=USUAL, our_robust=USUAL)
    verdicts = section.tested_claims(alike, GIVEN)["verdict"].tolist()
    assert verdicts[0] == "holds"
    opposite = {name: 23 - number for name, number in USUAL.items()}
    (_, robust, standard) = section.tested_claims(outcomes(plain=opposite, robust=USUAL, odd=USUAL, our_robust=USUAL), GIVEN)[
        "verdict"
    ]
    assert (robust, standard) == ("holds", "fails")


@pytest.fixture(scope="module")
def recorded():
    listed, data = runs.published_networks()
    return section.add_measured(listed, data), data


def test_what_is_recorded_reproduces_the_published_accuracies(recorded):
    seen, data = recorded
    assert seen.index[~seen["shown"]].tolist() == ["small-8px"]
    assert set(OTHERS) < set(seen.index)
    assert data.attrs["recorded"] == "all"
    assert (data.truth >= 0).sum("image").sel(network="resnet20").values.tolist() == [10_000, 1000, 1000]
    # Its file says 630, which are as many of the first thousand images.
    first = ~data.misclassified.sel(network="conv-small-pgd", attack="clean", image=slice(0, 999))
    assert int(first.sum()) == 630


def test_an_image_that_withstands_a_radius_withstands_the_smaller_one_and_is_right_clean(recorded):
    data = recorded[1].sel(network=section.trainings(recorded[0])["robust"])
    broken = data.misclassified.where((data.truth >= 0).all("attack"), False)
    assert not (broken.sel(attack="clean") & ~broken.sel(attack="at 2/255")).any()
    # The attack is not exhaustive: at most one image in a hundred is broken at the smaller radius alone.
    assert float((broken.sel(attack="at 2/255") & ~broken.sel(attack="at 4/255")).sum("image").max()) <= 10


def built(name):
    module, _, function = TABLE.loc[name, "model"].partition(":")
    with audited_network.importing(str(HOME)):
        return getattr(audited_network.import_users_module(module, str(HOME)), function)()


# Some of the names and shapes in each published file.
NAMES = {
    "resnet20": {"module.conv1.weight": (16, 3, 3, 3), "module.layer3.2.bn2.running_var": (64,), "module.linear.bias": (10,)},
    "resnet32": {"module.layer2.0.conv1.weight": (32, 16, 3, 3), "module.layer3.4.conv2.weight": (64, 64, 3, 3)},
    "cnn-a-adv": {"0.weight": (16, 3, 4, 4), "5.weight": (100, 2048), "7.bias": (10,)},
    "conv-small-pgd": {"2.weight": (32, 16, 4, 4), "5.weight": (100, 1152)},
    "resnet2b": {"layer1.0.shortcut.0.weight": (16, 8, 1, 1), "layer1.1.conv2.bias": (16,), "linear1.weight": (100, 1024)},
}


@pytest.mark.parametrize("name", NAMES)
def test_the_module_of_a_network_builds_it_with_the_published_names(name):
    network, prefix = built(name), "module." if name.startswith("resnet") and name != "resnet2b" else ""
    weights = {key: value for key, value in network.state_dict().items() if "num_batches" not in key}
    shapes = {f"{prefix}{key}": tuple(value.shape) for key, value in weights.items()}
    assert NAMES[name].items() <= shapes.items()
    assert len(shapes) == {"resnet20": 97, "resnet32": 157, "resnet2b": 16}.get(name, 8)
    assert network.eval()(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_a_file_of_random_weights_is_known_by_its_sha256_alone(tmp_path):
    torch.save({"state_dict": built("resnet2b").state_dict()}, tmp_path / "resnet2b.pth")
    with pytest.raises(
        UserError, match=r"no file in .* has the sha256 of a row of .*networks\.csv; download one, or add its row"
    ):
        runs.published_networks(str(tmp_path))


FILES = os.environ.get("CLASSWISE_NETWORKS", "")


@pytest.mark.skipif(not FILES, reason="CLASSWISE_NETWORKS names no folder of downloaded weights")
@pytest.mark.parametrize("name", OTHERS)
def test_downloaded_weights_predict_as_recorded(name, recorded):
    file = next((path for path in Path(FILES).iterdir() if audited_network.digest(path) == TABLE.loc[name, "sha256"]), None)
    if file is None:
        pytest.skip(f"{FILES} has no file with the sha256 of {name}")
    network = built(name)
    models.load_into(network, models.read(file))
    mean, std = (torch.tensor(some).view(-1, 1, 1) for some in audited_network.parse_normalise(TABLE.loc[name, "normalise"]))
    pixels, _ = images.load("cifar10", "test").batch(slice(0, 200))
    with torch.no_grad():
        seen = network.eval()((pixels - mean) / std).argmax(1).tolist()
    assert seen == recorded[1].prediction.sel(network=name, attack="clean", image=slice(0, 199)).values.tolist()
