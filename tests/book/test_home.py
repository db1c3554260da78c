"""The home page: what its table of verdicts says of claims without a verdict."""

from classwise.book import home
from classwise.papers import registry
from classwise.papers.claims import Verdict


def test_claims_about_other_datasets_are_counted_apart_from_those_whose_runs_are_missing():
    claims = {claim.name: claim for claim in registry.PAPERS["tian2021"].claims}
    untested = [("gap", "laptop", "cifar10"), ("simple-is-robust", "laptop", "cifar10"), ("cats-worst", "quick", "digits")]
    untested.append(("wider-than-standard", "laptop", "cifar10"))
    verdicts = [Verdict(claims[name], "not tested", scale, dataset) for name, scale, dataset in untested]
    verdicts.append(Verdict(claims["gap"], "open", "quick", "digits", effect=1.0, low=0.0, high=2.0))
    assert home.not_tested(verdicts) == (
        "<em>not tested</em>: on CIFAR-10, 2 need runs that are not recorded yet and 1 is about other datasets; "
        "on digits, 1 is about other datasets."
    )
    assert "on CIFAR-10, 1 needs runs" in home.not_tested(verdicts[:1])
    assert "on digits, 2 are about" in home.not_tested([verdicts[2], verdicts[2]])
    table = home.certainty(verdicts)
    assert "<em>open</em>: tested, but the interval allows both." in table
    assert home.not_tested(verdicts) in table
    assert home.not_tested(verdicts[-1:]) == ""
