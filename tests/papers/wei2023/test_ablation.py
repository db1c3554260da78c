"""Section 5.3: the components of CFA alone, the offsets of its rule, and what each class was trained with."""

import numpy as np
import pytest
import xarray as xr
from claim_answers import ALONG, at, outcomes_with, under
from mocks import dataset

from classwise.core.errors import NotAtScale
from classwise.papers.wei2023 import ablation, gains, methods
from classwise.papers.wei2023.ablation import WITHOUT
from classwise.papers.wei2023.gains import METHODS
from classwise.stats import aggregate, bootstrap, metrics
from classwise.stats.aggregate import training_accuracy

# From flat to peaked the accuracy over all images rises and that of the worst class falls.
FLAT, PEAKED = 60, at(30, 3, rest=85)


def rows(component, over, with_it, without, **but):
    """Return rows of the tables under a strong attack; `but`: other rows of one method. Under PGD all is the other way round."""
    right = {}
    for method in METHODS:
        pair = but.get(method, (with_it, without))
        right |= dict(zip(*gains.pairs_of(component, over, [method]), pair, strict=True))
    return outcomes_with(
        {(name, "cr"): value for name, value in right.items()}
        | {(name, "pgd-20"): without if value is with_it else with_it for name, value in right.items()}
    )


def both_ways(component, over="", alone=False):
    """Return answers of a claim about all images, and of one about the worst class: it holds, it fails."""
    one_bad = [] if alone else [rows(component, over, 80, 60, FAT=(60, 80)), rows(component, over, 80, 60, TRADES=(60, 80))]
    up, down = rows(component, over, PEAKED, FLAT), rows(component, over, FLAT, PEAKED)
    alike = rows(component, over, 80, 60), rows(component, over, 60, 80)
    return ([up, alike[0]], [down, alike[1], *one_bad]), ([down, alike[0]], [up, alike[1], *one_bad])


def swept(along, values):
    """Return outcomes along an offset, of one defence under PGD."""
    return outcomes_with({(name, "at-ccm", "pgd-20"): right for name, right in values.items()}, along=(along, *ALONG))


def offsets(along, low, middle, high, without=60):
    return swept(along, {WITHOUT: without, "0.5": middle, "0.3": low, "0.7": high})


def of_offsets(others, middle, without=60):
    return swept("lambda2", {WITHOUT: without, "0.3": others, "0.5": middle, "0.6": middle, "0.7": others})


def settings(multiple, defence="at-ccm", trained=0.8):
    """Return outcomes of a defence with what each class was trained with; hard are 8, 1 and 9, easy 0, 5 and 6."""
    data = outcomes_with(under(defence))
    dims, values = ("defence", "predicted"), np.broadcast_to(multiple, 10)[None].astype(float)
    data = data.assign(dict.fromkeys(("radius", "beta"), (dims, values)))
    data = data.assign(trained=(dims, np.full((1, 10), trained)), sample=(dims, np.full((1, 10), 400.0)))
    classes = data.predicted.values.tolist()
    return data.assign_coords({mark: ("predicted", np.isin(classes, list(some))) for mark, some in MARKS.items()})


MARKS = {"hard": "819", "easy": "056"}


def by_group(hard, easy, defence="at-ccm", rest=1.0):
    return settings(np.where(np.isin(np.arange(10), [8, 1, 9]), hard, at(easy, 0, 5, 6, rest=rest)), defence)


def of_groups(defence):
    """Return answers of a claim about hard classes, and of one about easy ones."""
    one_hard, one_easy = (settings(at(value, place, rest=rest), defence) for value, place, rest in ((1.3, 9, 0.7), (0.7, 5, 1.3)))
    smaller, larger = by_group(0.7, 1.3, defence), by_group(1.3, 0.7, defence)
    return ([smaller, by_group(0.7, 0.7, defence)], [larger, one_hard]), (
        [smaller, by_group(1.3, 1.3, defence)],
        [larger, one_easy],
    )


def uniform(right, calibrated, mean="1.25"):
    """Return networks with uniform radii at half, one and one and a half times the usual one, and one with CCM."""
    known = {("pgd-at", "pgd-20", name): value for name, value in zip(("0.5", "1", "1.5"), right, strict=True)}
    return outcomes_with(known | {("at-ccm", "pgd-20", mean): calibrated}, along=(*ALONG, "setting"))


CCM, CCR, FAWA = both_ways("CCM"), both_ways("CCR", alone=True), both_ways("FAWA", "EMA")
RADII, BETAS = of_groups("at-ccm"), of_groups("trades-ccm-ccr")
# For each claim: answers on which it must hold, and answers on which it must fail.
EXTREMES = {
    "ccm-overall": CCM[0],
    "ccm-worst": CCM[1],
    "ccr-overall": CCR[0],
    "ccr-worst": CCR[1],
    "ccm-with-ccr": both_ways("CCM + CCR", "CCR", alone=True)[1],
    "fawa-worst": FAWA[1],
    "fawa-overall": FAWA[0],
    "lambda1-all": (
        [offsets("lambda1", 80, 85, 90), offsets("lambda1", PEAKED, PEAKED, PEAKED, at(10, 3, rest=60))],
        [offsets("lambda1", 80, 85, 40), offsets("lambda1", PEAKED, 80, 80), offsets("lambda1", 80, FLAT, 80, PEAKED)],
    ),
    "lambda1-best": (
        [offsets("lambda1", 60, 80, 60, 99)],
        [offsets("lambda1", 60, 70, 90, 10), offsets("lambda1", FLAT, PEAKED, FLAT, 10)],
    ),
    "hard-smaller-radius": RADII[0],
    "easy-larger-radius": RADII[1],
    "lambda2-all": (
        [offsets("lambda2", 80, 85, 90), offsets("lambda2", FLAT, FLAT, FLAT, PEAKED)],
        [offsets("lambda2", 80, 85, 40), offsets("lambda2", PEAKED, 90, 90)],
    ),
    "lambda2-overall": ([of_offsets(40, 80), of_offsets(40, PEAKED, FLAT)], [of_offsets(80, 40), of_offsets(80, FLAT, PEAKED)]),
    "hard-smaller-beta": BETAS[0],
    "easy-larger-beta": BETAS[1],
    "ccm-beyond-uniform": (
        [uniform((20, 40, 80), 80), uniform((90, 60, 40), 70), uniform((0, PEAKED, PEAKED), FLAT)],
        [uniform((20, 40, 80), 45), uniform((0, FLAT, FLAT), PEAKED), uniform((20, 90, 80), 60, "0.9")],
    ),
}
OUTSIDE = r"1.6 of the classes lies outside the uniform ones \(0.5 to 1.5\)"
REFUSED = [("ccm-beyond-uniform", uniform((20, 40, 80), 75, "1.6"), OUTSIDE)]


def test_the_gains_are_those_of_the_methods_with_both_rows():
    data = rows("CCM", "", 80, 60, FAT=(65, 60)).drop_sel(defence="FAT")
    sums = bootstrap.sums(data.expand_dims(seed=[0]).sel(attack=["cr"]), {})
    assert gains.gains_of_methods(sums, "CCM").values.tolist() == [20, 20]
    with pytest.raises(NotAtScale, match=r"no two methods .* AT \+ FAWA over AT \+ EMA"):
        gains.gains_of_methods(sums, "FAWA", "EMA")


def test_the_control_is_interpolated_between_the_uniform_networks():
    sums = bootstrap.sums(uniform((20, 40, 80), 75, "1.25").expand_dims(seed=[0]), {})
    assert float(ablation.gain_over_uniform(sums)) == pytest.approx(75 - 60)
    assert float(ablation.gain_over_uniform(sums, metrics.overall)) == pytest.approx(75 - 60)


def test_rows_without_components_are_left_out():
    kept = {(name, "cr", kept): 60 for name in ("pgd-at", "at-ccm") for kept in ("last", "ema", "fawa")}
    main, components = outcomes_with(kept, along=(*ALONG, "checkpoint")), outcomes_with(under("trades-ccm", "trades-ccr"))
    joined = methods.name_rows(main, components.assign_coords(attack=["cr"]))
    assert {"AT", "AT + EMA", "AT + CCM", "AT + CCM + EMA", "TRADES + CCM", "TRADES + CCR"} <= set(joined.defence.values)
    assert set(joined.attrs["refused"]) == {"AT + FAWA", "AT + CFA"}
    assert "TRADES + CCM" not in methods.name_rows(main).defence.values
    assert (aggregate.counts(joined).sum(["label", "predicted"]) > 0).all()


def test_mean_settings_are_multiples_of_the_usual_one():
    data = xr.concat([settings(1.0, "pgd-at"), settings(1.3)], "defence").expand_dims(seed=[0])
    data = data.assign_attrs(eps="0.2", dataset="digits")
    swept = outcomes_with({("pgd-at", "pgd-20", eps): 60 for eps in ("0.1", "0.3")}, along=(*ALONG, "eps"))
    joined = ablation.stack_mean_radii(data, swept.expand_dims(seed=[0, 1]))
    assert joined.setting.values.tolist() == ["1/2", "1", "3/2", "1.3"]
    assert joined.seed.values.tolist() == [0]
    count = aggregate.counts(joined).sum(["label", "predicted"]).squeeze()
    assert (count.sel(defence="pgd-at") > 0).values.tolist() == [True, True, True, False]
    assert (count.sel(defence="at-ccm") > 0).values.tolist() == [False, False, False, True]


def test_offsets_are_compared_on_the_seeds_that_all_have():
    both = outcomes_with(under("pgd-at", "at-ccm")).expand_dims(seed=[0, 1])
    other = outcomes_with({("at-ccm", "pgd-20", value): 60 for value in (0.3, 0.7)}, along=(*ALONG, "lambda1"))
    joined = ablation.SECTION.arrange["lambda1"].function(both, other.expand_dims(seed=[0]))
    assert joined["lambda1"].values.tolist() == [WITHOUT, "0.5", "0.3", "0.7"]
    assert joined.seed.values.tolist() == [0]


def table(**right):
    """Return rows of the tables under a strong attack, of one seed; names as in AT_CCM_EMA."""
    names = {name.replace("_", " + "): value for name, value in right.items()}
    data = outcomes_with({(name, "cr"): value for name, value in names.items()})
    return data.expand_dims(seed=[0])


def test_gains_stand_next_to_those_of_the_paper():
    rows = table(AT=50, AT_EMA=55, AT_FAWA=54, AT_CCM=60, TRADES_CCM=60).isel(attack=0, drop=True)
    value = ablation.component_gains(rows).sel(bound="value")
    ours = value.sel(source="ours, last epoch", measure="all images").dropna("comparison").to_series()
    assert ours.to_dict() == pytest.approx({"AT + CCM over AT": 10, "AT + FAWA over AT + EMA": -1})
    theirs = value.sel(source="theirs, best epoch", comparison=list(ours.index)).transpose("measure", "comparison")
    assert theirs.values == pytest.approx(np.array([[0.9, -0.3], [2.7, 1.8]]))
    with pytest.raises(NotAtScale, match="no two methods"):
        ablation.component_gains(rows.sel(defence=["AT", "TRADES + CCM"]))


def test_networks_stand_at_their_mean_setting():
    data = uniform((20, 40, 80), 70).expand_dims(seed=[0]).assign_coords(setting=["1/2", "1", "3/2", "1.25"])
    bounds, place = ablation.accuracy_by_setting({"radius": data})
    assert place.to_series().to_dict() == {"1/2": 0.5, "1": 1, "3/2": 1.5, "1.25": 1.25}
    value = bounds.sel(measure="radius, worst class", bound="value")
    assert value.sel(calibration="uniform").dropna("setting").to_series().to_dict() == {"1/2": 20, "1": 40, "3/2": 80}
    assert value.sel(calibration="calibrated").dropna("setting").to_series().to_dict() == {"1.25": 70}


def test_offsets_are_swept_next_to_the_method_without_them():
    data = swept("lambda1", {WITHOUT: 50, "0.3": 60, "0.5": 70})
    bounds = ablation.offsets({"lambda1": data.expand_dims(seed=[0])}).sel(bound="value")
    assert bounds.measure.values.tolist() == ["lambda1, all images", "lambda1, worst class"]
    of_all = bounds.sel(measure="lambda1, all images")
    assert of_all.sel(calibration="calibrated").to_series().to_dict() == {"0.3": 60, "0.5": 70}
    assert of_all.sel(calibration="uniform").values.tolist() == [50, 50]


def test_the_offset_is_recovered_from_the_recorded_settings():
    data = dataset(epochs=4).expand_dims(defence=["at-ccm"], seed=[0])
    t = training_accuracy(data)
    radius = xr.concat([0 * t.isel(epoch=0) + 1, *(t.isel(epoch=place) + 0.35 for place in range(3))], "epoch").transpose(*t.dims)
    data = data.assign(radius=(t.dims, 0.2 * radius.values))
    accuracy, offsets = ablation.recorded_rule({"radius": data}, "digits")
    assert offsets == {"at-ccm, radius": 0.35}
    assert accuracy.dims[0] == "network"
    assert accuracy.hard.values.any()
