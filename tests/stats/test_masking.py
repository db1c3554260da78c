"""Worst cases of audits and the causes of their warnings: networks that hide gradients in a known way, and one that does not."""

import io

import masked_networks
import numpy as np
import pytest
import xarray as xr
from rich.console import Console

from classwise import attacks, runs
from classwise.charts import audit_report, class_explorer
from classwise.core.audit import Audit
from classwise.papers import findings
from classwise.runs import audit_evaluation, store
from classwise.stats import aggregate, masking, metrics, sanity

CAUSE = {"robust": None, "moderate": None, "overfitted": masking.SINGLE_STEP, "quantised": sanity.HIDDEN}
CAUSE |= {"saturated": sanity.SATURATED, "noisy": sanity.RANDOM}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("masked")


@pytest.fixture
def audited(folder, monkeypatch):
    """Audits a kind of network under an attack; returns the audit, its outcomes, its curve and its sanity checks."""
    monkeypatch.setenv("CLASSWISE_DATA", str(folder))

    def evaluated(kind: str, attack: str, **options):
        audit = masked_networks.audit(kind, folder, attack, **options)
        evaluations = [*audit.evaluations, *audit.curve]
        audit_evaluation.ensure_keys(store.outcomes_of([(audit, evaluations)]), Console(file=io.StringIO()))
        return audit, *(runs.outcomes([audit], some) for some in (audit.evaluations, audit.curve)), runs.audit_checks(audit)

    return evaluated


@pytest.mark.parametrize("attack", ["fgsm", "strong"])
@pytest.mark.parametrize("kind", CAUSE)
def test_the_headline_is_the_lowest_number_and_the_cause_is_named(audited, kind, attack):
    audit, outcomes, curve, checks = audited(kind, attack, limit=100)
    results = masking.worst_case_outcomes(outcomes, curve, audit.eps)
    count = audit_report.network_counts(results)
    rates = metrics.overall(count)
    worst = float(rates.sel(attack=masking.WORST))
    of_curve = curve.misclassified.isel(network=0, attack=0).sel(eval_eps=[one.eps for one in audit.curve[:4]]).any("eval_eps")
    broken = outcomes.misclassified.isel(network=0).any("attack") | of_curve
    assert worst == pytest.approx(100 * float(1 - broken.mean()))
    for name, (accuracy, rounding) in masked_networks.accuracies(audit, outcomes, curve, checks).items():
        assert worst <= accuracy + rounding, name
    steps = class_explorer.radius_counts(outcomes, masking.curve_with_worst_case(curve, results, audit.eps))
    assert (metrics.overall(steps).diff("radius") <= 0).all()
    warned = masking.warnings(outcomes, curve, audit.eps, checks)
    assert list(warned) == ([CAUSE[kind]] if CAUSE[kind] else [])
    first = findings.audit_finding(audit, count, warned).split(".")[0]
    assert f"classifies {worst:.0f} % (" in first
    assert worst > 30 if CAUSE[kind] is None else worst <= 5
    if kind == "moderate":
        assert 60 < float(rates.sel(attack="clean")) < 90


def test_no_verdict_improves_under_a_stronger_attack(audited):
    audit, outcomes, curve, _ = audited("noisy", "pgd-20", limit=250)  # of this test alone: what noise repairs is chance
    misclassified = masking.worst_case_outcomes(outcomes, curve, audit.eps).misclassified
    clean, worst = misclassified.sel(attack="clean"), misclassified.sel(attack=masking.WORST)
    for name in misclassified.attack.values:
        assert not (clean & ~misclassified.sel(attack=name)).any()
        assert not (misclassified.sel(attack=name) & ~worst).any()
    repaired = outcomes.misclassified.sel(attack="clean") & ~outcomes.misclassified.sel(attack="apgd-square")
    assert repaired.any(), "noise repairs some mistakes"


def test_members_of_an_ensemble_are_listed_with_what_each_broke_first(audited):
    audit, outcomes, curve, checks = audited("quantised", "autoattack", limit=100)
    assert [one.attack for one in audit.evaluations] == ["clean", "autoattack", "fgsm"]
    results = masking.worst_case_outcomes(outcomes, curve, audit.eps)
    table = audit_report.sanity_table(audit, results, checks)
    first = table.loc["autoattack", "images broken first by"]
    assert [part.split(": ")[0] for part in first.split(", ")] == ["apgd-ce", "apgd-t", "fab-t", "square"]
    numbers = [int(part.split(": ")[1]) for part in first.split(", ")]
    broken = outcomes.misclassified.sel(attack="autoattack") & ~outcomes.misclassified.sel(attack="clean")
    assert sum(numbers) == int(broken.sum())
    assert numbers[3] > 50
    check = masking.black_box_check(outcomes, curve, audit.eps)
    assert 0.9 * check.left <= check.broken <= check.left
    assert audit.queries == attacks.build("autoattack").queries == attacks.build("square").queries == 5000


def test_the_example_without_warnings_stays_so_on_few_images_and_other_seeds(audited):
    for seed in (1, 2):
        audit, outcomes, curve, checks = audited("robust", "pgd-20", seed=seed, limit=50)
        assert masking.warnings(outcomes, curve, audit.eps, checks) == {}


COLUMNS = ("truth", "prediction", "misclassified", "queries")


def outcomes_of(count=50, **broken):
    """Return outcomes of one network on `count` images of class 0 by attack, of which those at the given places are broken."""
    places = np.arange(count)
    misclassified = np.array([np.isin(places, list(some)) for some in broken.values()])
    queries = np.array([np.full(count, 7 if name == "square" else -1) for name in broken])
    values = dict(zip(COLUMNS, (0 * misclassified, misclassified * 1, misclassified, queries), strict=True))
    coords = {"network": ["mine"], "attack": list(broken), "image": places, "predicted": ["a", "b"]}
    return xr.Dataset({name: (("network", "attack", "image"), value[None]) for name, value in values.items()}, coords)


def curve_of(count=50, **broken):
    data = outcomes_of(count, **broken).drop_vars("queries").rename(attack="eval_eps")
    radii = [name.removeprefix("r").replace("_", "/") for name in broken]
    return data.assign_coords(eval_eps=radii).expand_dims(attack=["apgd-ce"])


def checks_of(**failed):
    good = {"zero_gradients": 0.0, "randomised": 0.0, "batch_dependent": 0.0, "spread": 1.0, "probabilities": False}
    return {"fgsm at 2/10": good | {"training": [], "outside": 0, "asked": 50, "right": 50} | failed}


HALF = {"clean": [], "pgd-20": range(10), "fgsm": range(3)}
LAST, MOST = ({"clean": [], "pgd-20": range(end), "fgsm": range(end - 50)} for end in (950, 198))
EARLY, STEP = {"clean": [], "pgd-20": range(20), "fgsm": range(20)}, {"clean": [], "pgd-20": range(45), "fgsm": range(5)}
SINGLE, WEAK, HIDDEN, RENUMBERED = [masking.SINGLE_STEP], [masking.WEAK], [sanity.HIDDEN], [masking.RENUMBERED]
# By what is shown: the number of images, those that each attack breaks, those that the curve breaks, failed checks, the causes.
WARNED = {
    "one image of fifty": (50, HALF | {"square": [10]}, {"r1_10": range(5), "r2_10": range(10)}, {}, []),
    "two images of fifty": (50, HALF | {"square": [10, 11]}, {"r1_10": range(5), "r2_10": range(10)}, {}, []),
    "many of fifty": (50, HALF | {"square": range(10, 22)}, {"r1_10": range(5), "r2_10": range(10)}, {}, WEAK),
    "under a strong attack": (50, HALF | {"strong": range(10), "square": range(10, 30)}, {"r2_10": range(10)}, {}, HIDDEN),
    "without gradients": (50, HALF | {"square": range(10, 30)}, {"r2_10": range(10)}, {"zero_gradients": 1.0}, HIDDEN),
    "ten of the last 50 images": (1000, LAST | {"square": range(950, 960)}, {"r2_10": range(950)}, {}, []),
    "the only image left": (50, {"clean": range(1, 50), "pgd-20": [], "square": [0]}, {"r2_10": []}, {}, RENUMBERED),
    "the last two of 200": (200, MOST | {"square": [198, 199]}, {"r2_10": range(198)}, {}, []),
    "broken above the radius": (50, EARLY, {"r1_10": range(10), "r2_10": range(20), "r4_10": []}, {}, []),
    "single step": (50, STEP, {"r1_10": range(45), "r2_10": range(30)}, {}, HIDDEN + SINGLE),
    "single step, unmoved": (50, STEP, {"r1_10": range(45)}, {"unmoved": 0.5, "unbroken": 45}, HIDDEN + SINGLE),
    "vanishing gradients": (50, STEP, {"r1_10": range(45)}, {"zero_gradients": 0.9}, HIDDEN),
    "saturated": (50, STEP, {"r1_10": range(45)}, {"zero_gradients": 0.9, "saturated": 0.9}, [sanity.SATURATED]),
    "random": (50, STEP, {"r1_10": range(45)}, {"randomised": 0.5}, [sanity.RANDOM]),
    "milder overfitting": (100, {"clean": range(80, 100), "pgd-20": range(80), "fgsm": range(39)}, {"r2_10": []}, {}, SINGLE),
    "an honest network": (100, {"clean": range(80, 100), "pgd-20": range(80), "fgsm": range(56)}, {"r2_10": []}, {}, []),
    "30 of 100 withstand one step": (100, {"clean": [], "pgd-20": range(100), "fgsm": range(70)}, {"r2_10": []}, {}, []),
}


@pytest.mark.parametrize(("count", "broken", "curve", "failed", "causes"), WARNED.values(), ids=WARNED)
def test_causes_are_named_where_many_images_show_them(count, broken, curve, failed, causes):
    checks = checks_of(**failed) if failed else {}
    warned = masking.warnings(outcomes_of(count, **broken), curve_of(count, **curve), "2/10", checks)
    assert list(warned) == causes


def test_a_warning_says_how_many_images_show_it():
    def said(count, broken, **curve):
        (text,) = masking.warnings(outcomes_of(count, **broken), curve_of(count, **curve), "2/10", {}).values()
        return text

    overshot = said(50, HALF, r1_10=range(20), r2_10=range(5))
    assert "breaks 15 of 50 (30 %, 95 %: 19 to 44)" in overshot
    left = said(1000, LAST | {"square": range(950, 1000)}, r2_10=range(950))
    assert "a black-box attack alone breaks 50 of 50 (100 %, 95 %: 93 to 100) of the images left" in left
    # Above the radius of the audit only images without a broken verdict count.
    assert "breaks 30 of 50" in said(50, EARLY, r1_10=range(10), r2_10=range(20), r3_10=range(50), r4_10=range(20))
    outcomes, curve = outcomes_of(**HALF, square=range(10, 22)), curve_of(r1_10=range(5), r2_10=range(10))
    assert masking.black_box_check(outcomes, curve, "2/10") == masking.BlackBoxCheck(correct=50, left=40, broken=12)


def test_smaller_radii_count_and_larger_ones_do_not():
    outcomes = outcomes_of(clean=[49], **{"pgd-20": range(10)}, square=[])
    curve = curve_of(r1_10=[20, 21], r2_10=range(5), r4_10=range(50))
    worst = masking.worst_case_outcomes(outcomes, curve, "2/10").misclassified.sel(attack=masking.WORST)
    assert np.flatnonzero(worst).tolist() == [*range(10), 20, 21, 49]


@pytest.mark.parametrize(("left", "detectable"), [(0, 1.0), (50, 0.045), (230, 0.00996)])
def test_the_share_that_the_black_box_check_detects(left, detectable):
    share = masking.BlackBoxCheck(correct=300, left=left, broken=0).detectable()
    assert share == pytest.approx(detectable, abs=0.001)
    # A simulation of the definition.
    hits = np.random.default_rng(0).binomial(left, share, 20_000) > 0
    assert hits.mean() == pytest.approx(0.9 if left else 0.0, abs=0.01)


def test_worst_cases_have_a_prediction_and_a_class():
    outcomes = outcomes_of(clean=[0], **{"pgd-20": [1]}, square=[2])
    count = aggregate.counts(masking.worst_case_outcomes(outcomes, curve_of(r1_10=[3], r2_10=[3]), "2/10"))
    assert count.sel(attack=masking.WORST, label="a").values.tolist() == [46, 4]


def test_audits_query_more_than_a_hundred_times():
    audit = Audit(network="one", sha256="", dataset="digits", eps="0.1")
    assert audit.evaluations[-1].options == {"queries": audit.queries} == {"queries": 1000}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (np.eye(5) * 20, None),
        (np.full((5, 5), 4), "20 % of the clean images, and 20 % would be chance: probably another normalisation"),
        (np.roll(np.eye(5) * 20, 1, axis=1), "in another order it would be right on 100 % of the clean images, not 0 %"),
        (np.eye(5)[[1, 0, 2, 3, 4]] * 20, "not 60 %"),
    ],
)
def test_a_network_near_chance_or_out_of_order_is_warned_of(rows, says):
    coords = {"label": list("01234"), "predicted": list("01234")}
    found = masking.clean_warnings(xr.DataArray(rows.astype(int), coords, ("label", "predicted")))
    assert len(found) == (says is not None)
    assert says is None or says in next(iter(found.values()))
