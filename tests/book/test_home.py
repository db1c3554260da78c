"""The home page: what its table of verdicts says of claims without a verdict."""

from classwise import runs
from classwise.book import home
from classwise.core.paths import checkout
from classwise.papers import registry
from classwise.papers.claims import Verdict
from classwise.stats import metrics, pooling


def test_claims_about_other_datasets_are_counted_apart_from_those_whose_runs_are_missing():
    claims = {claim.name: claim for claim in registry.PAPERS["tian2021"].claims}
    untested = [("gap", "laptop", "cifar10"), ("simple-is-robust", "laptop", "cifar10"), ("cats-worst", "quick", "digits")]
    untested.append(("wider-than-standard", "laptop", "cifar10"))
    verdicts = [Verdict(claims[name], "not tested", scale, dataset) for name, scale, dataset in untested]
    verdicts.append(Verdict(claims["gap"], "open", "quick", "digits", effect=1.0, low=0.0, high=2.0))
    assert home.not_tested(verdicts) == (
        "<em>not tested</em>: on CIFAR-10, 2 need runs that are not recorded yet and 1 cannot be tested on its images; "
        "on digits, 1 cannot be tested on its images."
    )
    assert "on CIFAR-10, 1 needs runs" in home.not_tested(verdicts[:1])
    assert "on digits, 2 cannot be tested" in home.not_tested([verdicts[2], verdicts[2]])
    table = home.certainty(verdicts)
    assert "<em>open</em>: tested, but the interval allows both." in table
    assert home.not_tested(verdicts) in table
    assert home.not_tested(verdicts[-1:]) == ""


def test_the_figures_of_the_readme_are_those_of_the_recorded_results():
    outcomes = runs.outcomes(runs.available(registry.request("tian2021/4-1-class-bias", "laptop")))
    both = metrics.accuracy(pooling.pooled(outcomes).sel(defence="pgd-at"))
    rates = both.sel(attack="pgd-20")
    best, worst = (str(rates.idxmax("label").item()), str(rates.idxmin("label").item()))
    most, least = (round(float(end)) for end in (rates.max(), rates.min()))
    clean = [round(float(both.sel(attack="clean", label=name))) for name in (best, worst)]
    text = " ".join((checkout() / "README.md").read_text(encoding="utf-8").split())
    assert f"classifies {most} % of the {best} images correctly and {least} % of the {worst} images" in text
    assert f"without an attack {clean[0]} % and {clean[1]} %" in text
