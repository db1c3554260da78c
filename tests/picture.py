"""The picture of README, the first chart of the book: `make picture` draws it from the recorded results."""

import vl_convert

from classwise import runs
from classwise.charts import explorers, style
from classwise.core.paths import checkout
from classwise.papers import home, registry
from classwise.stats import intervals, metrics, pooling

FILE = checkout() / "book" / "_static" / "classes.svg"


def svg() -> str:
    """Return the chart of the home page at scale laptop as SVG."""
    style.setup()
    request = runs.keep_recorded(registry.request(home.SECTION, "laptop"))
    count = pooling.pool(runs.outcomes(request.specs, request.evaluations[-1:])).isel(attack=0, drop=True)
    rates = metrics.accuracy(count)
    theirs = home.printed_rates(rates)
    chart = explorers.class_ranking(rates, intervals.wilson(count), home.compared_defences(rates, theirs), theirs)
    return str(vl_convert.vegalite_to_svg(chart.properties(background="white").to_json()))


if __name__ == "__main__":
    FILE.write_text(svg(), encoding="utf-8")
