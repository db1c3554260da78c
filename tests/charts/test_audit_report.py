"""The sentences and tables of an audit: what they say of counts, and that names with markup are escaped."""

import re
from dataclasses import replace

import mocks
import numpy as np
import pytest
import texts
import xarray as xr

from classwise.charts import audit_report, tables
from classwise.core.audit import Audit
from classwise.core.errors import UserError
from classwise.papers import findings
from classwise.stats import masking, significance

NAME, ESCAPED = "<b>|*x_", "&#60;b&#62;&#124;&#42;x&#95;"
CHECK = masking.BlackBoxCheck(correct=58, left=34, broken=0)
CLEAN = [[18, 1, 1], [0, 20, 0], [0, 0, 20]]
ATTACKED = [[7, 12, 1], [1, 19, 0], [4, 6, 10]]
WORST = [[5, 12, 3], [1, 19, 0], [4, 6, 10]]


@pytest.fixture
def audit():
    return Audit(network="mine", sha256="", dataset="signs", eps="8/255", attack="pgd-20", per_class=20)


def counted(*attacks, names="012"):
    """Return counts of clean images, of attacked ones and of the worst case; those of the last one given are repeated."""
    rows = np.array([*attacks, attacks[-1], attacks[-1]][:3])
    coords = {"attack": ["clean", "pgd-20", "worst case"], "label": list(names), "predicted": list(names)}
    return xr.DataArray(rows.astype(int), dims=("attack", "label", "predicted"), coords=coords)


def radii(*rows):
    """Return counts at the radii 0, 1, 2, ..."""
    names = list("012"[: len(rows[0])])
    coords = {"radius": np.arange(len(rows), dtype=float), "label": names, "predicted": names}
    return xr.DataArray(np.array(rows, int), dims=("radius", "label", "predicted"), coords=coords)


def test_the_summary_says_what_was_counted_the_critical_classes_first(audit):
    count, alike = counted(CLEAN, ATTACKED, WORST), counted(np.eye(3) * 20)
    weak = counted(CLEAN, [[5, 10, 5], [20, 0, 0], [20, 0, 0]]), counted(CLEAN, np.full((3, 3), 5) * (1 - np.eye(3)))
    texts.check(
        "audit-report",
        *(findings.audit_finding(replace(audit, network=name), count, {}) for name in ("mine", "strong", "pgd-at-0123456789")),
        *(findings.audit_finding(audit, one, {"hidden gradients": "numbers"}) for one in weak),
        audit_report.summary(count, ["2", "2"]),
        audit_report.summary(alike),
        audit_report.attack_summary(audit, count, CHECK),
        audit_report.attack_summary(audit, alike, masking.BlackBoxCheck(60, 0, 0)),
        audit_report.sample_note(audit, count),
    )
    with pytest.raises(ValueError, match="robust accuracy is above clean accuracy"):
        findings.audit_finding(audit, counted(WORST, ATTACKED, CLEAN), {})


def test_the_table_has_a_row_for_each_class_critical_and_weak_ones_first(audit):
    count = counted(CLEAN, ATTACKED, WORST)
    numbers = audit_report.class_numbers(audit, count, radii(CLEAN, ATTACKED, WORST))
    table = audit_report.class_table(numbers, count, ["2"])
    assert list(table.index) == ["2 (critical)", "0", "1"]
    assert list(table.columns[1:4]) == ["clean, % [95 %]", "pgd-20, % [95 %]", "worst case, % [95 %]"]
    images, *rates, radius, share, attracted, frequent = table.loc["0"].tolist()
    assert (images, rates) == (20, ["90.0 [69.9, 97.2]", "35.0 [18.1, 56.7]", "25.0 [11.2, 46.9]"])
    assert (radius.partition(" ")[0], frequent) == ("0.727", "class 1: 60 %, class 2: 15 %")
    assert (float(share) > 90, attracted) == (True, "19")  # 5 of 26 mistakes
    assert table.loc["1", "half broken at radius [95 %]"] == "∞ [∞, ∞]"


def test_the_critical_radius_is_that_at_which_half_are_broken():
    count = radii([[20, 0], [12, 8]], [[15, 5], [12, 8]], [[5, 15], [20, 0]])
    low, value, high = audit_report.critical_radius(count).transpose("bound", "label").values
    assert value.tolist() == [1.5, 0.0]
    assert (low[0] < 1.5 < high[0], low[1], 1 < high[1] < 2) == (True, 0.0, True)
    assert np.isnan(audit_report.critical_radius(count * 0)).all()


def audited(*of_attacks):
    """Return outcomes of an audit of 4 images of each of two classes: which of them are right in the clean and the worst case."""
    truth = np.repeat([0, 1], 4)
    right = np.array([[True] * 8, *of_attacks])
    answer = np.where(right, truth, 1 - truth)
    data = mocks.answers(("attack", "image"), truth, answer)
    return xr.Dataset(data, {"attack": ["clean", masking.WORST], "predicted": ["a", "b"], "image": np.arange(8)})


def test_the_worst_class_of_one_half_is_measured_on_the_other():
    # Of a one image is right, of b three: both halves choose a, which is right once in four images.
    one = [[True, False, False, False, True, True, True, False]]
    assert audit_report.held_out_worst(audited(*one)) == (1, 4)
    some = audited(*one), audited(*one).isel(image=[0, 4]), audited([True] * 8)
    texts.check("audit-stability", *map(audit_report.stability, some))


def rows_of(text):
    """Return the cells of a table in HTML by the first one of each row."""
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in text.split("<tr")]
    return {row[0]: row[1:] for row in rows if row}


def test_two_networks_are_compared_image_by_image():
    first = audited([True, False, True, True, True, True, True, True])
    second = audited([True, True, False, False, True, True, True, True])
    text = audit_report.comparison(audit_report.match_networks(first, second), ("one", "two"))
    texts.check("audit-compared", text, audit_report.comparison(audit_report.match_networks(first, first), ("one", "one")))
    rows = rows_of(text)
    assert rows["a"] == ["75.0", "50.0", "25.0 [-47.3, 80.6]", "2", "1"]
    assert (rows["all images"][3:], rows["b"][:2]) == (["2", "1"], ["100.0", "100.0"])
    # One comparison over all images, and one for each of two classes.
    whole, half = audited([True] * 8), audited([True, True, False, False] * 2)
    assert audit_report.match_networks(whole, half).apart.values.tolist() == [True, False, False]
    for other in (second.assign_coords(image=second.image + 1), second.assign_attrs(eps="0.3")):
        with pytest.raises(UserError, match="the two audits are of other images or attacks"):
            audit_report.match_networks(first, other)


def test_classes_that_differ_are_named_the_largest_difference_first():
    labels = ["all images", *(f"class {number}" for number in range(30))]
    values = np.array([0.0, *np.linspace(-40, 40, 30)])
    pairs = xr.Dataset(coords={"label": labels})
    pairs = pairs.assign({name: ("label", 50 + sign * values / 2) for name, sign in (("first", 1), ("second", -1))})
    pairs["difference"] = xr.DataArray(np.stack([values - 9, values, values + 9]), dims=("bound", "label"))
    pairs = pairs.assign_coords(bound=["low", "value", "high"]).assign(only_first=("label", np.arange(31)))
    pairs["first"][1] = pairs["difference"][:, 1] = np.nan  # a class without images
    pairs = pairs.assign(only_second=pairs.only_first, apart=abs(pairs.difference.sel(bound="value", drop=True)) > 20)
    text = audit_report.comparison(pairs, ("one", "two"))
    assert "their number: class 29 40.0 [31.0, 49.0], class 1 -37.2 [-46.2, -28.2], class 28" in text
    assert text.split("</details>")[0].count(" and 10 more.\n\n<details>") == 1
    assert rows_of(text)["class 0"][0] == rows_of(text)["class 0"][2] == "unknown"


def test_names_are_escaped(audit):
    audit, count = replace(audit, network=NAME, dataset=NAME), counted(CLEAN, ATTACKED, WORST, names=[NAME, "b", "c"])
    first = findings.audit_finding(audit, count, {"hidden gradients": f"{NAME} hides them"})
    assert f"**{ESCAPED} classifies" in first
    assert f"the images of {ESCAPED} correctly" in first
    assert f", and 25 % of its weakest class ({ESCAPED}).**" in first
    text = audit_report.summary(count, [NAME, "c"])
    assert f"**Critical: {ESCAPED}.**" in text
    assert f"**{ESCAPED}**: 25 %" in text
    best = audit_report.summary(counted(CLEAN, WORST, names=["a", NAME, "c"]))
    assert f"best class ({ESCAPED})" in best
    assert f"misclassified as {ESCAPED} (60 %)" in best
    cosine = xr.DataArray(np.eye(3), dims=("label", "other"), coords={"label": count.label.values, "other": count.label.values})
    closest = audit_report.closest_classes(cosine, count.sel(attack="pgd-20"), "penultimate")
    assert f"{ESCAPED} and b (0.00)" in closest
    assert not [shown for shown in (first, text, best, closest) if NAME in shown]
    at_radii = count.rename(attack="radius").assign_coords(radius=[0.0, 1.0, 2.0])
    table = audit_report.class_table(audit_report.class_numbers(audit, count, at_radii), count)
    assert NAME in table.index
    assert "<b>" not in tables.fold("All classes", table)


def test_the_correlation_has_its_p_value():
    names = list("abcdef")
    near = np.random.default_rng(0).random((6, 6))
    cosine = xr.DataArray(near + near.T, dims=("label", "other"), coords={"label": names, "other": names})
    robust = xr.DataArray((100 * (near + near.T)).astype(int), dims=("label", "predicted"), coords=[names, names])
    assert audit_report.closest_classes(cosine, robust, "penultimate").endswith("rank correlation of 0.99 (p = 0.003).")
    unrelated = robust.copy(data=np.random.default_rng(1).integers(1, 100, (6, 6)))
    assert significance.mantel_test(cosine, unrelated)[1] > 0.05


@pytest.mark.parametrize(("left", "broken", "stated"), [(60, 0, True), (60, 3, False), (19, 0, False)])
def test_what_the_black_box_check_detects_is_stated_where_it_broke_none_of_enough_images(audit, left, broken, stated):
    text = audit_report.attack_summary(audit, counted(CLEAN, WORST), masking.BlackBoxCheck(100, left, broken))
    assert ("it would have broken one with probability 0.90" in text) == stated
