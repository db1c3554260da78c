"""Section 3.2: claims on the same classes in other networks, on simulated class profiles, and what the page says of them."""

import numpy as np
import pytest
import xarray as xr

from classwise.papers import registry
from classwise.papers.benz2020 import charts_agreement, networks
from classwise.papers.benz2020 import section_3_2_same as same
from classwise.papers.benz2020 import sentences_same as sentences
from classwise.papers.claims import MeasurementError
from classwise.papers.judging import Bootstrap
from classwise.stats import aggregate, agreement

NAMES = [str(number) for number in range(10)]
RNG = np.random.default_rng(4)
ONE = np.array([0.85, 0.75, 0.8, 0.6, 0.7, 0.65, 0.8, 0.85, 0.35, 0.6])
# A profile that does not correlate with ONE, whose best class is 8.
OTHER = np.array([0.6, 0.4, 0.75, 0.75, 0.4, 0.7, 0.85, 0.6, 0.9, 0.35])
OTHER = OTHER - ((OTHER - OTHER.mean()) @ (ONE - ONE.mean())) / ((ONE - ONE.mean()) ** 2).sum() * (ONE - ONE.mean())
FLAT = np.full(10, 0.7)
ALL = dict.fromkeys((same.BASE, *same.AGAIN, same.OTHER_SEEDS, networks.ADAM, "LeNet", "VGG16", "trades", same.STANDARD), ONE)


def settings(chances, images=200, seeds=2):
    """Return outcomes along `setting` whose networks are right with these chances of each class; seeds have other images."""
    rng, names = np.random.default_rng(1), list(chances)
    truth = np.tile(np.repeat(np.arange(10), images), seeds)
    here = np.repeat(np.arange(seeds), 10 * images) == np.arange(seeds)[:, None]
    right = rng.random((len(names), len(truth))) < np.stack([chances[name] for name in names])[:, truth]
    answer = np.where(right, truth, (truth + 1) % 10)
    values = {
        "truth": np.broadcast_to(np.where(here, truth, -1), (len(names), seeds, len(truth))).copy(),
        "answer": np.where(here, answer[:, None], -1),
    }
    values["flipped"] = values["truth"] != values["answer"]
    dims = ("setting", "defence", "seed", "attack", "image")
    data = {name: (dims, array[:, None, :, None]) for name, array in values.items()}
    coords = {
        "setting": names,
        "defence": ["pgd-at"],
        "seed": np.arange(seeds),
        "attack": ["pgd-20"],
        "image": np.arange(len(truth)),
        "predicted": NAMES,
        "vulnerable": ("predicted", np.array(NAMES) == "8"),
    }
    return xr.Dataset(data, coords, {"scale": "quick", "dataset": "digits"})


def changed(profile, *names):
    return settings(ALL | dict.fromkeys(names, profile))


AGREED = settings(ALL)
# Each claim with networks on which it holds and networks on which it fails.
CASES = {
    "other-networks": (AGREED, changed(OTHER, "LeNet", "VGG16")),
    "little-to-do-with-architecture": (settings(ALL, images=600), changed(OTHER, "LeNet", "VGG16")),
    "sgd-or-adam": (changed(OTHER, "LeNet"), changed(OTHER, networks.ADAM)),
    "standard-or-adversarial": (changed(OTHER, networks.ADAM), changed(OTHER, same.STANDARD)),
    "weakest-is-weak": (changed(OTHER, networks.ADAM), changed(OTHER, "LeNet", "VGG16")),
}


def judged(name, data):
    halves = {"halves": aggregate.halved(data)}
    (verdict,) = registry.judge(same.NAME, halves, dataset="digits", scale="quick", only=[name], bootstrap=Bootstrap(300))
    return verdict


def test_equal_classes_decide_nothing_about_the_same_trend():
    flat = settings(dict.fromkeys(ALL, FLAT), images=100)
    assert judged("weakest-is-weak", flat).verdict == "open"
    halves = {"halves": aggregate.halved(flat)}
    verdicts = registry.judge(same.NAME, halves, strict=False, bootstrap=Bootstrap(300))
    assert {verdict.verdict for verdict in verdicts} <= {"open", "not tested"}


@pytest.mark.parametrize(
    ("name", "lost", "message"),
    [
        ("other-networks", ["LeNet", "VGG16"], "no result of other networks"),
        ("little-to-do-with-architecture", [same.AGAIN[1], same.OTHER_SEEDS], "two repetitions"),
        ("sgd-or-adam", [networks.ADAM], "Adam"),
        ("weakest-is-weak", ["LeNet", "VGG16"], "no other network"),
    ],
)
def test_a_claim_says_what_is_missing(name, lost, message):
    with pytest.raises(MeasurementError, match=message):
        judged(name, AGREED.drop_sel(setting=lost))


def test_classes_that_do_not_differ_have_no_order():
    with pytest.raises(MeasurementError, match="hardly differ, so that their order is unknown"):
        judged("standard-or-adversarial", changed(np.ones(10), same.STANDARD))


def test_each_network_counts_alike():
    """A network with a wide spread of another order does not outweigh one whose classes differ less, but agree."""
    narrow, wide = 0.7 + 0.5 * (ONE - ONE.mean()), 0.5 + 0.85 * (OTHER - OTHER.mean())
    profiles = agreement.profiles(settings(ALL | {"LeNet": narrow, "VGG16": wide}, images=2000))
    each = agreement.corrected(profiles).sel(other=same.BASE, setting=["LeNet", "VGG16"])
    assert float(same.of_networks(profiles)) == pytest.approx(float(each.mean()))
    assert float(same.of_networks(profiles)) == pytest.approx(0.5, abs=0.05)


def test_a_verdict_states_the_least_number_of_runs():
    more = settings(ALL, seeds=3)
    fewer = more.truth.where((more.seed < 2) | (more.setting == same.OTHER_SEEDS), -1)
    counted = same._counted(more.assign(truth=fewer))
    assert counted.attrs["runs"] == 2
    assert judged("other-networks", counted).seeds == 2
    assert "At least 2 runs of each setting, taken as given" in sentence(counted)


def test_without_a_class_selected_on_other_images_the_weakest_is_not_judged():
    with pytest.raises(MeasurementError, match="validation images is not known"):
        judged("weakest-is-weak", AGREED.drop_vars("vulnerable"))


def test_the_ceiling_is_of_the_same_images_and_else_of_other_seeds():
    assert same.repeated(AGREED) == list(same.AGAIN)
    assert same.repeated(AGREED.drop_sel(setting=list(same.AGAIN))) == [same.OTHER_SEEDS]
    without = AGREED.drop_sel(setting=[*same.AGAIN, same.OTHER_SEEDS])
    sampled = agreement.sampled(without, draws=100)
    bounds = sentences.ceiling(without, sampled)
    assert np.isnan(float(bounds.sel(bound="value")))
    chart = charts_agreement.agreement_dots(agreement.with_base(sampled, same.BASE), same.GROUPS, bounds).to_dict()
    assert "Shaded" not in str(chart["title"])
    # Without a row, as values or as CSV.
    assert any(rows in ([], "from,value,to\n") for rows in chart["datasets"].values())


def sentence(data, draws=300):
    return sentences.headline(data, agreement.sampled(data, draws=draws))


def test_the_headline_says_what_the_interval_shows():
    assert sentence(AGREED).startswith("**The same classes are hard for other networks: class profiles of LeNet, VGG16")
    assert "The same training repeated (initialisation 1, initialisation 2) correlates by" in sentence(AGREED)
    assert sentence(changed(OTHER, "LeNet", "VGG16")).startswith("**Not the same classes are hard for other networks")
    open_one = sentence(settings(ALL | dict.fromkeys(("LeNet", "VGG16"), 0.5 * ONE + 0.5 * OTHER), images=30))
    assert open_one.startswith("**Whether the same classes are hard for other networks is open")


def test_the_headline_names_what_is_missing():
    alone = AGREED.sel(setting=[same.BASE, "trades"])
    text = sentence(alone)
    assert text.startswith(
        "**The same classes are hard for other trainings of the same network: the class profile of trades correlates"
    )
    assert "the class profile of trades correlates with that of pgd-at by" in text
    assert "not repeated at this scale" in text
    assert "No other network is recorded" in text
    assert sentence(AGREED.sel(setting=[same.BASE])).startswith("No other adversarial training is recorded")


def test_the_weakest_class_is_counted_and_compared_with_the_mean():
    text = sentences.weakest(AGREED, agreement.sampled(AGREED, draws=200))
    assert "the weakest class of pgd-at is class 8. On the other half it is also the weakest of 8 of 8 other settings" in text
    assert "Class 8 is the weakest on validation images" in text
    assert "in other networks, " in text
    assert text.endswith("in other trainings; a class drawn at random would lie at 0.")
    other = changed(OTHER, "LeNet", "VGG16")
    text = sentences.weakest(other, agreement.sampled(other, draws=200))
    assert "the weakest of 6 of 8 other settings" in text


def test_the_architecture_is_compared_with_the_ceiling():
    def said(data):
        return sentences.architecture(data, agreement.sampled(data, draws=300))

    assert said(settings(ALL, images=600)).startswith("**Hardly: other networks less the ceiling")
    assert said(changed(OTHER, "LeNet", "VGG16")).startswith("**Yes, in part: ")
    assert "(90 % interval" in said(AGREED)
    assert said(settings(ALL | {"LeNet": 0.5 * ONE + 0.5 * OTHER}, images=30)).startswith("**It is open")
    alone = AGREED.sel(setting=[same.BASE, "trades"])
    assert (
        said(alone)
        == "**Not known on digits: other networks and repetitions of the same training are not recorded at this scale.**"
    )


def test_classes_that_stand_out_are_counted():
    below, above = sentences.outstanding(changed(FLAT, "LeNet")).split("significantly above")
    assert "class 8 in 8" in below
    assert "class 8" not in above


def test_a_network_that_did_not_learn_is_left_out_and_named():
    data = changed(np.eye(10)[3], "LeNet")
    kept = networks.only_learned(data)
    assert "LeNet" not in kept.setting.values
    assert sentences.left_out(kept, data).endswith("constant prediction: LeNet.")
    assert sentences.left_out(data, data).startswith("All networks")


def test_settings_are_those_of_the_shared_seeds_each_in_its_attack():
    full = settings({"x": ONE}, seeds=3).isel(setting=0, drop=True)
    plain = xr.concat([full, full], "attack").assign_coords(attack=["clean", "pgd-20"])
    clean_only = plain.assign(answer=xr.where(plain.attack == "clean", plain.truth, (plain.truth + 1) % 10).astype("i2"))
    two = clean_only.isel(seed=[0, 1])
    given = dict.fromkeys(same._PARTS)
    given |= {"again": xr.concat([two, two], "redraw").assign_coords(redraw=[1, 2]), "LeNet": two, "standard": two}
    data = same._settings(clean_only, *given.values())
    assert list(data.setting.values) == [same.BASE, *same.AGAIN, same.OTHER_SEEDS, "LeNet", same.STANDARD]
    present = (data.truth >= 0).any(["image", "attack", "defence"]).to_pandas()
    assert present.loc[same.BASE].tolist() == [True, True, False]
    assert present.loc[same.OTHER_SEEDS].tolist() == [False, False, True]
    right = ((data.answer == data.truth) & (data.truth >= 0)).any(["image", "seed", "attack", "defence"]).to_pandas()
    assert right[right].index.tolist() == [same.STANDARD]
    assert list(data.predicted.values[data.vulnerable.values]) == ["8"]


def test_charts_have_all_settings_in_their_groups():
    sampled = agreement.sampled(AGREED, draws=100)
    bounds = agreement.with_base(sampled, same.BASE)
    chart = charts_agreement.agreement_dots(bounds, same.GROUPS, sentences.ceiling(AGREED, sampled)).to_dict()
    assert [panel["title"]["text"] for panel in chart["vconcat"]] == list(dict.fromkeys(same.GROUPS.values()))
    rates = sampled.value.mean("half").rename("accuracy")
    assert "mean of the row" in str(charts_agreement.profile_matrix(rates).to_dict())
    values = agreement.corrected(sampled.value)
    matrix = charts_agreement.agreement_matrix(values, agreement.reliability(sampled.value))
    assert "Corrected correlation of two networks" in matrix.to_dict()["description"]
    table = agreement.table(sampled, same.BASE)
    assert list(table.index) == list(ALL)
    assert table.loc["LeNet", agreement.CORRECTED].startswith(("0.9", "1.0"))
