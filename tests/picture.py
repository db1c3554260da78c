"""The picture of README, the first chart of the book: `make picture` draws it from the recorded results."""

import altair as alt

from classwise import runs
from classwise.charts import ranking, style
from classwise.core.paths import checkout
from classwise.papers import home, registry
from classwise.stats import intervals, metrics, pooling

FILE = checkout() / "book" / "_static" / "classes.svg"


def chart() -> alt.TopLevelMixin:
    """Return the chart of the home page at scale laptop."""
    style.setup()
    request = runs.available(registry.request(home.SECTION, "laptop"))
    count = pooling.pooled(runs.outcomes(request.specs, request.evaluations[-1:])).isel(attack=0, drop=True)
    rates = metrics.accuracy(count)
    theirs = home.printed_rates(rates)
    return ranking.class_ranking(rates, intervals.wilson(count), home.compared(rates, theirs), theirs)


if __name__ == "__main__":
    chart().properties(background="white").save(FILE)
