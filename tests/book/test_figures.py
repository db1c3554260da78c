"""The data behind the charts: tidy rows with columns that the dictionary explains."""

import altair as alt
import pandas as pd
import pytest

from classwise.book import figures
from classwise.book.data import KEYS, MEASURES
from classwise.charts import style

ROWS = pd.DataFrame({"label": ["cat", "dog"], "predicted": ["dog", "dog"], "value": [1 / 3, 0.5], "end": [True, False]})
WIDE = pd.DataFrame({"network": ["pgd-at"], "step": [3], "cat": [25.0], "dog": [75.0]})
TIDY = {"predicted": ["cat", "dog"], "network": ["pgd-at"] * 2, "step": ["3"] * 2, "confidence": ["25", "75"]}
PICTURES = pd.DataFrame({"row": ["clean"], "place": [0], "number": [7], "url": ["data:image/png;base64,AA"], "caption": ["a\nb"]})


@pytest.fixture(autouse=True)
def _csv():
    style.setup()


def chart(rows, title="accuracy, %"):
    value = alt.Y("value:Q", title=title)
    return alt.Chart(rows).mark_point().encode(x="label:N", y=value, tooltip=[alt.Tooltip("value:Q", title="short")])


def table(some):
    (spec,) = figures.specifications([{"data": some._repr_mimebundle_(None, None)}])
    return figures.table(spec)


def test_rows_have_the_names_of_the_dictionary_and_say_what_the_value_is():
    rows = table(chart(ROWS, "robust accuracy, %"))
    assert list(rows) == ["quantity", "class", "predicted", "value"]
    assert set(rows) <= {*KEYS, *MEASURES}
    assert rows.iloc[0].tolist() == ["robust accuracy, %", "cat", "dog", "0.3333"]


def test_panels_are_told_apart_by_their_titles_or_numbers_and_data_that_only_place_marks_are_left_out():
    pair = [chart(ROWS), chart(ROWS.assign(value=1.5))]
    titled = alt.hconcat(*(one.properties(title=title) for one, title in zip(pair, ("clean", "attacked"), strict=True)))
    assert table(titled)["panel"].tolist() == ["clean", "clean", "attacked", "attacked"]
    assert table(alt.vconcat(*pair))["panel"].tolist() == ["1", "1", "2", "2"]
    rule = alt.Chart(pd.DataFrame({"x": [1]})).mark_rule().encode(x="x:Q")
    assert len(table(rule + chart(ROWS))) == 2
    assert table(rule).empty
    assert figures.specifications([{"data": {"text/html": "<p>words</p>"}}, {"name": "stdout"}]) == []


@pytest.mark.parametrize(
    ("rows", "expected"), [(WIDE, TIDY), (PICTURES, {"image": ["7"], "form": ["clean"], "caption": ["a; b"]})]
)
def test_columns_of_classes_become_rows_and_pictures_are_left_out(rows, expected):
    assert table(alt.Chart(rows).mark_point().encode(x="row:N", y="step:Q")).to_dict("list") == expected
