"""Section 3.2.2, Tables 2 to 4: networks by lambda, gains and the worst class."""

from itertools import product

import numpy as np
import pytest
from claim_answers import at, history, outcomes_with

from classwise.core.errors import NotRecorded
from classwise.papers import registry
from classwise.papers.entropy2022 import gains, networks, trade_off
from classwise.papers.entropy2022.networks import NETWORKS
from classwise.papers.entropy2022.trade_off import BEST, COMPARISONS, EQUAL
from classwise.stats import bootstrap, metrics

AT, LS, ME_AT = "pgd-at", "label-smoothing", "me-at (β=0.5)"
TRADES, T15, ME15, ME27 = "trades (λ=6)", "trades (λ=15)", "me-trades (β=1, λ=15)", "me-trades (β=1, λ=27)"
ATTACKS = ("clean", "pgd-20", "cr")
# The accuracy over all images rises from flat to peaked, and that of the worst class falls.
FLAT, PEAKED = 60, at(30, 3, rest=85)


def among(base=60, **changed):
    """Return outcomes of all networks: `base`, but what `changed` has for a network, for all attacks or one by one."""
    named = {"at": AT, "ls": LS, "me_at": ME_AT, "trades": TRADES, "t15": T15, "me15": ME15, "me27": ME27}
    right = {named[short]: value for short, value in changed.items()}
    tables = {}
    for name in (*NETWORKS, *BEST):
        some = right.get(name, base)
        each = some if isinstance(some, tuple) else (some,) * len(ATTACKS)
        tables |= {(name, attack): value for attack, value in zip(ATTACKS, each, strict=True)}
    return outcomes_with(tables, times=4)


def best(trades, me_trades):
    return outcomes_with(dict(zip(product(BEST, ["cr"]), (trades, me_trades), strict=True)), times=4)


def only_robust(value, other=60):
    return other, other, value


UP, DOWN = 80, 40
EXTREMES = {
    "trades-loses-past-six": ([among(t15=only_robust(DOWN, 90))], [among(t15=only_robust(UP, 20))]),
    "me-trades-gains-up-to-27": ([among(me27=only_robust(UP, 20))], [among(me27=only_robust(DOWN, 90))]),
    "larger-best-robustness": ([best(60, 80)], [best(80, 60)]),
    "equal-lambda": ([among(me15=UP)], [among(me15=DOWN), among(me15=only_robust(DOWN, 90)), among(me15=only_robust(90, DOWN))]),
    "me-at-both": ([among(me_at=UP)], [among(me_at=DOWN), among(me_at=only_robust(DOWN, 90))]),
    "worst-class-clean": (
        [among(at=PEAKED, ls=(FLAT, 10, 10), me_at=(FLAT, 10, 10))],
        [among(at=FLAT, ls=PEAKED, me_at=PEAKED), among(at=PEAKED, ls=FLAT, me_at=at(5, 3, rest=90))],
    ),
    "worst-class-robust": (
        [among(at=PEAKED, ls=only_robust(FLAT, 10), me_at=only_robust(FLAT, 10))],
        [among(at=FLAT, ls=PEAKED, me_at=PEAKED), among(at=PEAKED, ls=at(5, 3, rest=90), me_at=FLAT)],
    ),
    "trades-more-robust": ([among(trades=only_robust(UP, 20))], [among(trades=only_robust(DOWN, 90))]),
    "trades-fairer": ([among(at=PEAKED, trades=FLAT)], [among(at=FLAT, trades=PEAKED), among(trades=only_robust(PEAKED, 90))]),
    "me-trades-worst-clean": ([among(trades=PEAKED, me15=(FLAT, 0, 0))], [among(trades=FLAT, me15=(PEAKED, 99, 99))]),
    "me-trades-worst-robust": ([among(trades=PEAKED, me27=(0, 0, FLAT))], [among(trades=FLAT, me27=(99, 99, PEAKED))]),
    "me-at-all-four": (
        [among(me_at=UP)],
        [among(me_at=PEAKED), among(me_at=only_robust(DOWN, 90)), among(at=PEAKED, me_at=FLAT)],
    ),
    "me-trades-all-four": (
        [among(me15=UP, me27=UP), among(me15=DOWN, me27=UP), among(me15=UP, me27=PEAKED)],
        [among(me15=DOWN, me27=DOWN), among(me15=PEAKED, me27=only_robust(DOWN, 90))],
    ),
    "wider-gap-of-attacks": (
        [among(me_at=(60, 80, 60)), among(at=(60, 70, 60), me_at=(60, 90, 60))],
        [among(at=(60, 80, 60)), among(me_at=(90, 60, 80))],
    ),
}


def test_each_row_of_the_tables_is_a_network():
    for table in (2, 3, 4):
        for name in registry.tables_of("entropy2022").load(table).defence.values:
            assert name in NETWORKS, name
    request = registry.request(trade_off.NAME)
    trained = {(spec.defence, *spec.options.items()) for part in request.parts.values() for spec in part.specs}
    wanted = {(defence, *options.items()) for name, (defence, options) in NETWORKS.items() if name not in networks.BETWEEN}
    assert trained == wanted - {("pgd-at",), ("trades",)}


def test_outcomes_of_parts_stand_along_defence_under_the_names_of_the_tables():
    plain = outcomes_with({("pgd-at", "cr"): 60, ("trades", "cr"): 70}).expand_dims(seed=[0])
    longer = outcomes_with({("trades", "cr"): 80}).expand_dims(seed=[0])
    data = networks.name_networks((T15, ME27), plain.assign_attrs(dataset="digits"), longer, None)
    assert data.defence.values.tolist() == [AT, TRADES, T15]
    assert metrics.overall(bootstrap.sums(data, {})["count"]).isel(attack=0).values.tolist() == [60, 70, 80]
    assert data.attrs["dataset"] == "digits"
    assert trade_off.selection_of("cifar10") == (TRADES, ME27)


def test_the_best_lambda_is_selected_on_validation_images():
    names = {TRADES: 50, T15: 70, ME15: 80, ME27: 60, AT: 99}
    found = history(defence=list(names), seed=[0], label=["a", "b"])
    for name, valid in names.items():
        of_one = found["count"].sel(defence=name)
        # Clean, tested, or earlier images would select another one.
        of_one[:] = [[100 - valid, valid], [0, 100]]
        of_one.loc[{"epoch": 2, "split": "valid", "attack": "pgd-10"}] = [[valid, 100 - valid], [0, 100]]
    assert trade_off.select_most_robust(found) == (T15, ME15)


DATA = among(me15=(90, 70, 80), t15=(80, 60, 50), me_at=UP).expand_dims(seed=[0]).drop_sel(defence=list(BEST))


def test_gains_stand_next_to_those_of_the_paper():
    rows = gains.compare_gains(DATA, COMPARISONS, "cr")
    equal = rows.sel(comparison=EQUAL, panel="all images, robust")
    assert float(equal.sel(source=gains.OURS, bound="value")) == pytest.approx(30)
    theirs = equal.sel(source=gains.THEIRS)
    assert float(theirs.sel(bound="value")) == pytest.approx(49.94 - 49.33)
    half = 1.96 * 100 * np.sqrt((0.4994 * 0.5006 + 0.4933 * 0.5067) / 10_000)
    assert float(theirs.sel(bound="high") - theirs.sel(bound="value")) == pytest.approx(half)
    # Table 1 has TRADES with label smoothing over all images. The paper prints no ME-AT with beta 1 of the worst class.
    printed = rows.sel(source=gains.THEIRS, bound="value").notnull()
    assert printed.sel(comparison="TRADES with LS over TRADES 6").sum() == 4
    kept = printed.sel(comparison="ME-AT 1 over PGD-AT")
    assert set(kept.panel.values[kept.values]) == {"all images, clean", "all images, robust"}
    with pytest.raises(NotRecorded, match="no two networks"):
        gains.compare_gains(DATA.sel(defence=[AT, TRADES]), COMPARISONS, "cr")


def test_the_gap_between_attacks():
    falls = gains.falls(DATA, "cr").sel(bound="value")
    assert float(falls.sel(defence=ME15, source=gains.OURS)) == pytest.approx(-10)
    assert float(falls.sel(defence=T15, source=gains.OURS)) == pytest.approx(10)
    assert float(falls.sel(defence=AT, source=gains.THEIRS)) == pytest.approx(50.86 - 47.64)


def test_tables_have_the_numbers_of_both_sources():
    table = gains.both_tables(DATA)
    ours, theirs = ["clean", "pgd-20", "cr"], ["clean", "pgd-20", "autoattack"]
    assert table.loc[AT, [f"{attack}, ours" for attack in ours]].tolist() == ["60.0"] * 3
    assert table.loc[AT, [f"{attack}, theirs" for attack in theirs]].tolist() == ["83.3", "50.9", "47.6"]
    worst = gains.both_tables(DATA, "worst")
    assert worst.loc[AT, "autoattack, theirs"] == "13.7"
    assert worst.loc[T15, "autoattack, theirs"] == ""


def test_networks_stand_along_their_method_and_setting():
    values = networks.name_methods(metrics.overall(bootstrap.sums(DATA, {})["count"]))
    assert float(values.sel({"method": "me-trades", "setting": "λ=15", "attack": "pgd-20"})) == pytest.approx(70)
    assert float(values.sel({"method": "pgd-at", "setting": "pgd-at", "attack": "clean"})) == pytest.approx(60)
    swept = values.sel({"method": "trades", "attack": "cr"}).dropna("setting")
    assert swept.setting.values.tolist() == ["λ=6", "λ=9", "λ=12", "λ=15"]
