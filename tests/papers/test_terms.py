"""Terms of claims, the table of what claims say, and how parts become one Dataset."""

import numpy as np
import pytest
import xarray as xr

from classwise.core.errors import UserError
from classwise.papers import registry, terms
from classwise.papers.sections import Member, join_parts
from classwise.papers.terms import correlation, least, value
from classwise.stats.metrics import accuracy, mcd, overall

LABELS = ["a", "b"]


def sums():
    """Return counts of two classes of ten images: right 9 and 5 of a, 7 and 5 of b, by standard and pgd-at."""
    right = xr.DataArray([[9.0, 7], [5, 5]], {"defence": ["standard", "pgd-at"], "label": LABELS}, ("defence", "label"))
    names = xr.DataArray(LABELS, {"predicted": LABELS}, ("predicted",))
    count = xr.where(right.label == names, right, 10 - right)
    return xr.Dataset({"count": count.expand_dims(attack=["pgd-40"])})


def test_terms_compute_what_they_say_and_know_what_they_read():
    wider = value(mcd, "standard", "pgd-20|pgd-40") - value(mcd, "pgd-at", "pgd-20|pgd-40")
    assert float(wider(sums())) == 20
    assert wider.words == "gap (MCD) of standard training under PGD-20 minus gap (MCD) of PGD-AT under PGD-20"
    assert wider.needs == (("standard", "pgd-20|pgd-40"), ("pgd-at", "pgd-20|pgd-40"))
    ratio = value(accuracy, "standard", "pgd-40", label="a") / value(overall, "pgd-at", "pgd-40")
    assert float(ratio(sums())) == pytest.approx(90 / 50)
    low, high = (least(wider, ratio, largest=largest) for largest in (False, True))
    assert (float(low(sums())), float(high(sums()))) == (pytest.approx(1.8), 20)
    assert low.each(sums()).sizes == {"part": 2}
    one = value(accuracy, "standard", "pgd-40")
    assert float(correlation(one, one)(sums())) == pytest.approx(1)


HEADER = ",".join(terms.COLUMNS)
ROW = "s,c,1,It is so.,1,,points,,main,,,,,"


def test_a_row_is_the_fields_of_a_claim():
    ((section, row),) = terms.read(f'{HEADER}\ns,c,1,"It is, so.",,2,times,yes,control,yes,radii,eval_eps,digits mnist,why')
    assert section == "s"
    assert (row["statement"], row["low"], row["high"], row["log"]) == ("It is, so.", -np.inf, 2, True)
    assert (row["family"], row["absolute"]) == ("control", True)
    assert (row["dims"], row["datasets"]) == (("eval_eps",), ("digits", "mnist"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{HEADER.replace('data,', 'dta,')}\n", "unknown column of claims.csv 'dta'"),
        (f"{HEADER.replace('data,', '')}\n", "it needs, in this order: section, name"),
        (f"{HEADER}\n{ROW},", r"row 2 \(c\) has 15 cells, expected 14: quote a text that has a comma"),
        (f"{HEADER}\n{ROW}\n{ROW}", r"row 3 \(c\): an earlier row has this name"),
        (f"{HEADER}\n{ROW.replace('It is so.', ' ')}", r"row 2 \(c\): statement is empty; write what the paper says"),
        (f"{HEADER}\n{ROW.replace('1,,points', 'one,,points')}", r"row 2 \(c\): low and high must be numbers, .*'one'"),
        (f"{HEADER}\n{ROW.replace('points,,', 'points,no,')}", r"row 2 \(c\): log is 'no'; write yes for a ratio"),
        (f"{HEADER}\n{ROW.replace('main', 'mian')}", r"unknown family of claims.csv, row 2 \(c\) 'mian'"),
    ],
)
def test_a_mistake_in_the_table_is_named(text, says):
    with pytest.raises(UserError, match=says):
        terms.read(text)


def test_rows_and_measures_belong_together(monkeypatch):
    monkeypatch.setattr(terms, "rows_of", lambda section: [row for _, row in terms.read(f"{HEADER}\n{ROW}")])
    (claim,) = terms.claims("p/s", {"c": value(mcd, "pgd-at")})
    assert (claim.defences, claim.attacks, claim.low) == (("pgd-at",), ("clean",), 1)
    assert claim.measured == "gap (MCD) of PGD-AT without attack"
    (extreme,) = terms.claims("p/s", {"c": {"measure": least(value(mcd, "a"), value(mcd, "b")), "attacks": ("x",)}})
    assert (extreme.defences, extreme.attacks) == (("a", "b"), ("x",))
    with pytest.raises(UserError, match=r"no row for the measure 'd': add it\. unknown claim 'd'; there are: c"):
        terms.claims("p/s", {"c": mcd, "d": mcd})
    with pytest.raises(UserError, match="the row 'c' has no measure: add one, or remove it"):
        terms.claims("p/s", {})
    with pytest.raises(UserError, match=r"unknown field of the claim 'c' 'lwo'"):
        terms.claims("p/s", {"c": {"measure": mcd, "lwo": 1}})


def test_every_row_is_a_claim():
    for paper in registry.PAPERS:
        path = terms.resources.files("classwise.papers").joinpath(paper, "claims.csv")
        if path.is_file():
            known = {f"{paper}/{section} {row['name']}" for section, row in terms.read(path.read_text(), paper)}
            assert known <= {f"{claim.section} {claim.name}" for claim in registry.CLAIMS}


def outcomes(*attacks, seeds=(0, 1), **dims):
    sizes = {"defence": ["standard"], "seed": list(seeds), "attack": list(attacks), **dims, "image": range(3)}
    truth = np.zeros([len(values) for values in sizes.values()], dtype="i2")
    data = {name: (tuple(sizes), truth) for name in ("truth", "prediction", "misclassified")}
    return xr.Dataset(data, {**sizes, "predicted": LABELS}, {"dataset": "digits"})


def test_parts_are_joined_as_the_rows_say_on_the_seeds_that_all_have():
    how = join_parts("radius", Member("", "0", at={"attack": "clean"}), Member("radii", by="radius"))
    assert how.needs == ("", "radii")
    data = how.function(outcomes("clean", "pgd-20"), outcomes("pgd-20", seeds=(1,), radius=["0.1", "0.2"]))
    assert (data.radius.values.tolist(), data.seed.values.tolist()) == (["0", "0.1", "0.2"], [1])
    assert (data.attack.values.tolist(), data.attrs) == (["pgd-20"], {"dataset": "digits"})


def test_optional_parts_may_be_missing_and_members_name_themselves():
    rows = Member("", lambda one: str(one.defence.item())), Member("other", "other")
    how = join_parts("network", *rows, optional=True, then=lambda data, members: data.assign_attrs(number=len(members)))
    assert (how.needs, how.optional) == (("",), ("other",))
    data = how.function(outcomes("clean"), None)
    assert (data.network.values.tolist(), data.attrs["number"]) == (["standard"], 1)
