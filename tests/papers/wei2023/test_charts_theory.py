"""The charts of the Gaussian model: drawn at any parameters, legible, described with numbers that follow from the formulas."""

import re

import pytest
from drawing import drawn, text_sizes, tooltip_titles, width_of

from classwise.book import figures
from classwise.book.dictionary import KEYS, MEASURES
from classwise.charts import style
from classwise.papers.wei2023 import charts_theory as charts
from classwise.papers.wei2023 import section_2, sentences_theory, theory, theory_explorer

PAGE = theory.Model(p_easy=0.85, p_hard=0.7, eta=0.4, variance=0.6, d=1)
OTHER = theory.Model(p_easy=0.95, p_hard=0.55, eta=0.1, variance=2.0, d=10)
# By chart, how it is made, and the numbers of its description at the parameters of the page.
CHARTS = {
    "curves": (lambda model: charts.curves(model, theory.draw(model, 200), model.eta / 2), ["10.6 points", "14.5 against"]),
    "figure 1": (
        lambda model: charts.figure_1(model, theory.draw(model, 200), model.eta / 2),
        ["w = 1.86", "10.6 points", "14.5 against"],
    ),
    "optimum": (charts.optimum, ["0.93 (0) to 9.28 (0.36)"]),
    "gaps": (charts.gaps, ["-1.5 points (with intercept, attacked images, 0) to 15.0 points"]),
    "preferred": (charts.preferred, ["0.37 (class easy, 0.36)"]),
    "judged": (charts.judged, ["best at w = 1.27, with 70.5 %", "70.0 %"]),
    "explorer": (lambda model: theory_explorer.model_explorer(model, 50, live=False), ["14.5 points clean"]),
}


@pytest.fixture(autouse=True)
def _setup():
    style.setup()


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_described_and_legible_at_any_parameters(name):
    make, numbers = CHARTS[name]
    spec = make(PAGE).to_dict()
    assert spec["title"]["text"]
    assert [number for number in numbers if number not in spec["description"]] == [], spec["description"]
    for model in (PAGE, OTHER):
        svg = drawn(make(model))
        assert "NaN" not in svg
        assert min(text_sizes(svg)) >= 11
        assert width_of(svg) <= style.COLUMN
    assert not [title for title in tooltip_titles(make(PAGE)) if "_" in title or title in ("value", "low", "high", "label")]


@pytest.mark.parametrize("name", CHARTS)
def test_the_columns_of_its_data_are_in_the_dictionary(name):
    html = CHARTS[name][0](PAGE)._repr_mimebundle_(None, None)
    data = html[0]["text/html"] if isinstance(html, tuple) else html["text/html"]
    rows = figures.table(figures.specification(data))
    assert set(rows) <= {*KEYS, *MEASURES}
    assert name == "explorer" or len(rows) > 2


def test_the_finding_counts_violations_and_names_both_gaps():
    text = sentences_theory.finding(PAGE, 0.2)
    assert "widens the clean gap between the easy and the hard class from 10.6 to 14.5 points" in text
    assert "from 4.3 to 12.6" in text
    assert f"In {section_2.DRAWS:,} drawn settings the theorems have 0 violations." in text


def test_sentences_say_what_holds_at_other_parameters():
    assert "0.115, which is 0.29 η" in sentences_theory.premise(PAGE)
    assert "radius 0.2 and the hard class against 0.1" in sentences_theory.one_radius(PAGE, 0.2, 0.1)
    assert "against 0.147" in sentences_theory.one_radius(PAGE, 0.2, 0.1)
    assert "against 0.257, and the hard class after training against 0.108" in sentences_theory.preferred(PAGE, 0.2)
    assert "no training radius is small enough, 0 is best" in sentences_theory.preferred(PAGE, 0.0)
    alike = theory.Model(p_easy=0.7, p_hard=0.7, eta=0.4, variance=0.6, d=1)
    assert "does not widen" in sentences_theory.finding(alike, 0.2)
    assert "the order of the classes stays" in sentences_theory.intercept(alike, 0.2)
    few, many = map(float, re.findall(r"([\d.]+) points with", sentences_theory.agreement(PAGE, 100, 20_000)))
    assert few > many
