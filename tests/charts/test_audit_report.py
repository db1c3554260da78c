"""The sentences and tables of an audit whose classes and network have names with markup."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from classwise.charts import audit_report, tables
from classwise.core.audit import Audit
from classwise.core.errors import UserError
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


def counted(rows):
    names = [str(number) for number in range(len(rows))]
    return xr.DataArray(rows, dims=("label", "predicted"), coords={"label": names, "predicted": names})


def test_the_summary_says_what_was_counted_the_critical_classes_first():
    clean = counted([[18, 1, 1], [0, 20, 0], [0, 0, 20]])
    attacked = counted([[7, 12, 1], [1, 19, 0], [4, 6, 10]])
    robust = counted([[5, 12, 3], [1, 19, 0], [4, 6, 10]])
    count = xr.concat([clean, attacked, robust], "attack").assign_coords(attack=["clean", "pgd-20", "worst case"])
    audit = Audit(network="mine", sha256="", dataset="signs", eps="8/255", attack="pgd-20", per_class=20)
    first = findings.audited(audit, count, {})
    assert first.startswith("**mine classifies 57 % (95 %: 44 to 68) of 60 images of signs correctly under the attacks of")
    assert "Without an attack it is 97 % (95 %: 89 to 99). Its weakest class is class 0: 25 %" in first
    named = {name: findings.audited(replace(audit, network=name), count, {}) for name in ("strong", "pgd-at-0123456789")}
    assert [text.split(" ")[0] for text in named.values()] == ["**strong", "**PGD-AT"]
    check = masking.BlackBoxCheck(correct=58, left=34, broken=0)
    lines = audit_report.summary(audit, count, check, ["2"]).splitlines()
    assert "Under pgd-20 alone it classifies 60 % (95 %: 47 to 71) correctly" in lines[0]
    assert "Critical: 2" in lines[1]
    assert "50 % (95 %: 30 to 70), most often misclassified as class 1 (30 %)" in lines[1]
    assert "Square with up to 1,000 queries broke 0 of the 34 images that attacks with gradients left (0.0 %" in lines[4]
    assert "If it could break 6.5 % of such images, it would have broken one with probability 0.90" in lines[4]
    assert lines[-1] == "- **Note.** pgd-20 is a quick look: `--attack strong` may break more images."
    assert "Warning" not in first + "".join(lines)
    assert "**class 0**: 25 %" in lines[2]
    assert "**1**" not in lines[2]
    assert "(1) and the worst lie 70 points" in lines[3]
    assert list(audit_report.class_table(audit, count, ["2"]).index) == ["2 (critical)", "0", "1"]
    assert "20 images of each class (a sample" in audit_report.sample_note(audit, count)
    assert "± 22 points" in audit_report.sample_note(audit, count)
    assert audit_report.summary(audit, count, check, ["2", "2"]).splitlines() == lines
    with pytest.raises(UserError, match="unknown class 'stop'"):
        audit_report.summary(audit, count, check, ["stop"])
    with pytest.raises(ValueError, match="robust accuracy is above clean accuracy"):
        findings.audited(audit, count.assign_coords(attack=["worst case", "pgd-20", "clean"]), {})


def test_no_class_is_called_weak_where_all_do_alike():
    audit = Audit(network="mine", sha256="", dataset="signs", eps="8/255")
    names = ["clean", "strong", "worst case"]
    count = xr.concat([counted(np.eye(4, dtype=int) * 20)] * 3, "attack").assign_coords(attack=names)
    lines = audit_report.summary(audit, count, masking.BlackBoxCheck(80, 0, 0)).splitlines()
    assert (
        lines[1]
        == "- **Weakest classes.** None is weaker than the others: each withstands the attacks on 100 % (95 %: 84 to 100)."
    )
    assert "none is left for Square" in lines[3]
    assert "lie 0 points under attack (95 %: 0 to 0)" not in lines[2]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (np.eye(5) * 20, None),
        (np.full((5, 5), 4), "20 % of the clean images, and 20 % would be chance: probably another normalisation"),
        (
            np.roll(np.eye(5) * 20, 1, axis=1),
            "100 % of the clean images, not 0 %: its classes are probably numbered in another order",
        ),
        (np.eye(5)[[1, 0, 2, 3, 4]] * 20, "not 60 %"),
    ],
)
def test_a_network_near_chance_or_out_of_order_is_warned_of(rows, says):
    found = audit_report.clean_warnings(counted(rows.astype(int)))
    assert len(found) == (says is not None)
    assert says is None or says in found[0]
