"""Tables of metrics and settings."""

import re

import pandas as pd

from classwise.charts import tables
from classwise.core.spec import Spec
from classwise.stats import bootstrap, metrics


def test_interval_tables_contain_the_value_and_its_interval(count):
    table = tables.interval_table({"mcd": bootstrap.bootstrap(count, metrics.mcd, over=["seed"], draws=50)})
    value = float(metrics.mcd(count.sum("seed")).sel(defence="pgd-at", attack="clean"))
    assert table.loc[("pgd-at", "clean"), "MCD, points"].startswith(f"{value:.1f} [")
    assert list(table.index.get_level_values(0).unique()) == ["standard", "pgd-at"]


def test_final_settings_are_a_row_for_each_defence(history):
    table = tables.final_settings(history["weight"])
    assert table.shape == (2, 10)
    assert list(table.index) == ["standard", "pgd-at"]
    assert table.columns.name == "class"
    weight = history["weight"].isel(epoch=-1).sel(defence="pgd-at", label="3")
    assert table.loc["pgd-at", "3"] == f"{float(weight):.2f}"
    assert tables.final_settings(history["weight"].sel(defence=[])).shape == (0, 10)
    shorter = history["weight"].where((history.defence != "pgd-at") | (history.epoch < history.epoch[-1]))
    before = history["weight"].isel(epoch=-2).sel(defence="pgd-at", label="3")
    assert tables.final_settings(shorter).loc["pgd-at", "3"] == f"{float(before):.2f}"


def test_a_folded_table_opens_by_its_escaped_title():
    text = tables.fold("All classes", pd.DataFrame({"a": [1]}))
    assert text.startswith("<details>\n<summary>All classes</summary>\n\n<table")
    assert text.endswith("</table>\n\n</details>")
    assert tables.fold("x", "| a |\n|---|") == "<details>\n<summary>x</summary>\n\n| a |\n|---|\n\n</details>"
    assert "<summary>&#60;b&#62;&#124;&#42;x&#95;</summary>" in tables.fold("<b>|*x_", "")


def test_the_settings_in_which_trainings_differ():
    specs = [Spec(dataset="digits", eps="0.2", defence=name, lr=lr) for name, lr in (("pgd-at", 0.3), ("faal", 0.1))]
    table = tables.training_settings(specs)
    assert table["learning rate"].to_dict() == {"pgd-at": "0.3", "faal": "0.1"}
    assert table.loc["faal", "weight decay"] == "0.0005"


def test_a_table_prints_attacks_and_defences_as_papers_do_and_keeps_other_names():
    rows = pd.MultiIndex.from_tuples([("pgd-at", "fat")], names=["defence", "label"])
    words = re.findall("<th[^>]*>([^<]*)</th>", tables.plain_table(pd.DataFrame({"cw": [1]}, rows).rename_axis(columns="attack")))
    assert words == ["", "attack", "C&amp;W", "defence", "label", "", "PGD-AT", "fat"]
    assert "<th>pgd-at</th>" in tables.plain_table(pd.DataFrame({"a": [1]}, pd.Index(["pgd-at"], name="row")))
