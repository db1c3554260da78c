"""Section 3.2: claims on the same classes in other networks, on simulated class profiles."""

import mocks
import numpy as np
import xarray as xr
from claim_answers import verdict_on

from classwise.papers import registry, say
from classwise.papers.benz2020 import networks
from classwise.papers.benz2020 import same_classes as same
from classwise.papers.judging import Bootstrap
from classwise.stats import aggregate

NAMES = [str(number) for number in range(10)]
ONE = np.array([0.85, 0.75, 0.8, 0.6, 0.7, 0.65, 0.8, 0.85, 0.35, 0.6])
# A profile that does not correlate with ONE, whose best class is 8.
OTHER = np.array([0.6, 0.4, 0.75, 0.75, 0.4, 0.7, 0.85, 0.6, 0.9, 0.35])
OTHER = OTHER - ((OTHER - OTHER.mean()) @ (ONE - ONE.mean())) / ((ONE - ONE.mean()) ** 2).sum() * (ONE - ONE.mean())
FLAT = np.full(10, 0.7)
ALL = dict.fromkeys((same.BASE, *same.AGAIN, same.OTHER_SEEDS, networks.ADAM, "LeNet", "VGG16", "trades", same.STANDARD), ONE)


def settings(chances, images=200, seeds=2):
    """Return outcomes along `setting` whose networks are right with these chances of each class; seeds have other images."""
    rates = xr.DataArray(list(chances.values()), {"setting": list(chances), "label": NAMES}, ("setting", "label"))
    data = mocks.folds(rates, images, seeds, seed=1).expand_dims(defence=["pgd-at"], attack=["pgd-20"])
    return data.assign_coords(vulnerable=("predicted", np.array(NAMES) == "8"))


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

REFUSED = [
    *(
        (name, AGREED.drop_sel(setting=lost), message)
        for name, lost, message in (
            ("other-networks", ["LeNet", "VGG16"], "no result of other networks"),
            ("little-to-do-with-architecture", [same.AGAIN[1], same.OTHER_SEEDS], "two repetitions"),
            ("sgd-or-adam", [networks.ADAM], "Adam"),
            ("weakest-is-weak", ["LeNet", "VGG16"], "no other network"),
        )
    ),
    ("standard-or-adversarial", changed(np.ones(10), same.STANDARD), "hardly differ, so that their order is unknown"),
    ("weakest-is-weak", AGREED.drop_vars("vulnerable"), "validation images is not known"),
]


def judged(name, data):
    halves = {"halves": aggregate.split_halves(data)}
    return verdict_on(next(one for one in same.CLAIMS if one.name == name), halves, "digits", 300)


def test_equal_classes_decide_nothing_about_the_same_trend():
    flat = settings(dict.fromkeys(ALL, FLAT), images=100)
    assert judged("weakest-is-weak", flat).verdict == "open"
    halves = {"halves": aggregate.split_halves(flat)}
    verdicts = registry.judge(same.NAME, halves, strict=False, bootstrap=Bootstrap(300))
    assert {verdict.verdict for verdict in verdicts} <= {"open", "described", "not tested"}


def test_a_verdict_states_the_least_number_of_runs():
    more = settings(ALL, seeds=3)
    fewer = more.truth.where((more.seed < 2) | (more.setting == same.OTHER_SEEDS), -1)
    counted = same._counted(more.assign(truth=fewer))
    assert counted.attrs["runs"] == 2
    assert judged("other-networks", counted).seeds == 2
    assert say.sample(counted).endswith(", so the intervals of charts do not cover other training runs.")
    assert say.sample(counted).startswith("We tested 2 networks of each setting on ")


def test_the_ceiling_is_of_the_same_images_and_else_of_other_seeds():
    assert same.repeated_settings(AGREED) == list(same.AGAIN)
    assert same.repeated_settings(AGREED.drop_sel(setting=list(same.AGAIN))) == [same.OTHER_SEEDS]
    assert same.repeated_settings(AGREED.drop_sel(setting=[*same.AGAIN, same.OTHER_SEEDS])) == []


def test_settings_are_those_of_the_shared_seeds_each_in_its_attack():
    full = settings({"x": ONE}, seeds=3).isel(setting=0, drop=True)
    plain = xr.concat([full, full], "attack").assign_coords(attack=["clean", "pgd-20"])
    clean_only = plain.assign(prediction=xr.where(plain.attack == "clean", plain.truth, (plain.truth + 1) % 10).astype("i2"))
    two = clean_only.isel(seed=[0, 1])
    given = dict.fromkeys(same._PARTS)
    given |= {"again": xr.concat([two, two], "redraw").assign_coords(redraw=[1, 2]), "LeNet": two, "standard": two}
    data = same._settings(clean_only, *given.values())
    assert list(data.setting.values) == [same.BASE, *same.AGAIN, same.OTHER_SEEDS, "LeNet", same.STANDARD]
    present = (data.truth >= 0).any(["image", "attack", "defence"]).to_pandas()
    assert present.loc[same.BASE].tolist() == [True, True, False]
    assert present.loc[same.OTHER_SEEDS].tolist() == [False, False, True]
    right = ((data.prediction == data.truth) & (data.truth >= 0)).any(["image", "seed", "attack", "defence"]).to_pandas()
    assert right[right].index.tolist() == [same.STANDARD]
    assert list(data.predicted.values[data.vulnerable.values]) == ["8"]


def test_settings_are_members_of_their_groups():
    assert same.members(AGREED, same.NETWORK, same.TRAINED) == ["LeNet", "VGG16", "trades", same.STANDARD]
