"""The sentences and tables of an audit whose classes and network have names with markup."""

import numpy as np
import pytest
import xarray as xr

from classwise.charts import audit_report, tables
from classwise.core.audit import Audit
from classwise.papers import findings
from classwise.stats import masking, significance

NAME, ESCAPED = "<b>|*x_", "&#60;b&#62;&#124;&#42;x&#95;"
CHECK = masking.BlackBoxCheck(correct=56, left=33, broken=1)


@pytest.fixture
def audit():
    return Audit(network=NAME, sha256="", dataset=NAME, eps="8/255", attack="strong")


@pytest.fixture
def count():
    """Counts of three classes, one of them with markup in its name: the weakest, and what others are predicted as."""
    names = [NAME, "b", "c"]
    robust = [[5, 10, 5], [10, 10, 0], [2, 0, 18]]
    rows = np.array([[[18, 2, 0], [2, 18, 0], [0, 0, 20]], robust, robust])
    coords = {"attack": ["clean", "strong", "worst case"], "label": names, "predicted": names}
    return xr.DataArray(rows, dims=("attack", "label", "predicted"), coords=coords)


def test_names_are_escaped_in_the_summary(audit, count):
    first = findings.audited(audit, count, {"hidden gradients": f"{NAME} hides them"})
    assert NAME not in first
    assert f"**{ESCAPED} classifies" in first
    assert f"images of {ESCAPED} correctly" in first
    assert f"Its weakest class is class {ESCAPED}: 25 %" in first
    text = audit_report.summary(audit, count, CHECK, [NAME])
    assert NAME not in text
    assert f"**Critical: {ESCAPED}.**" in text
    assert f"**class {ESCAPED}**: 25 %" in text
    assert f"misclassified as class {ESCAPED} (10 %)" in audit_report.summary(audit, count, CHECK, ["c"])


def test_the_best_class_is_escaped(audit, count):
    robust = count.assign_coords(label=["b", "c", NAME], predicted=["b", "c", NAME])
    assert f"best class ({ESCAPED})" in audit_report.summary(audit, robust, CHECK)


def test_the_table_of_the_classes_is_escaped_where_it_becomes_html(audit, count):
    table = audit_report.class_table(audit, count)
    assert NAME in table.index
    assert "<b>" not in tables.folded("All classes", table)


def test_names_are_escaped_in_the_most_similar_classes(count):
    names = count.label.values
    cosine = xr.DataArray(np.eye(3), dims=("label", "other"), coords={"label": names, "other": names})
    text = audit_report.closest_classes(cosine, count.sel(attack="strong"), "penultimate")
    assert NAME not in text
    assert f"{ESCAPED} and b (0.00)" in text


def test_the_correlation_has_its_p_value():
    names = list("abcdef")
    near = np.random.default_rng(0).random((6, 6))
    cosine = xr.DataArray(near + near.T, dims=("label", "other"), coords={"label": names, "other": names})
    robust = xr.DataArray((100 * (near + near.T)).astype(int), dims=("label", "predicted"), coords=[names, names])
    assert audit_report.closest_classes(cosine, robust, "penultimate").endswith("rank correlation of 0.99 (p = 0.003).")
    unrelated = robust.copy(data=np.random.default_rng(1).integers(1, 100, (6, 6)))
    assert significance.mantel_test(cosine, unrelated)[1] > 0.05


def test_classes_that_are_equally_weak_are_counted_and_no_warning_is_stated(audit, count):
    tied = count.copy()
    tied.loc[{"label": ["b", "c"], "attack": "worst case"}] = [[20, 0, 0], [20, 0, 0]]
    first = findings.audited(audit, tied, {})
    assert "Its weakest 2 classes: 0 %." in first
    assert first.endswith("No sanity check of the attacks gives a warning.")
    nothing = tied.copy()
    nothing.loc[{"attack": "worst case"}] = np.full((3, 3), 5) * (1 - np.eye(3, dtype=int))
    first = findings.audited(audit, nothing, {"hidden gradients": "numbers"})
    assert "weakest" not in first
    assert "\n\n**Warning: hidden gradients. Numbers.**\n\n" in first


@pytest.mark.parametrize(("left", "broken", "stated"), [(60, 0, True), (60, 3, False), (19, 0, False)])
def test_what_the_black_box_check_detects_is_stated_where_it_broke_none_of_enough_images(audit, count, left, broken, stated):
    text = audit_report.summary(audit, count, masking.BlackBoxCheck(100, left, broken))
    assert ("it would have broken one with probability 0.90" in text) == stated
