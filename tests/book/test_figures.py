"""The data behind the charts: tidy rows with columns that the dictionary explains."""

import altair as alt
import pandas as pd
import pytest

from classwise.book import figures
from classwise.book.dictionary import KEYS, MEASURES
from classwise.charts import style

ROWS = pd.DataFrame({"label": ["cat", "dog"], "predicted": ["dog", "dog"], "value": [1 / 3, 0.5], "end": [True, False]})


@pytest.fixture(autouse=True)
def _csv():
    style.setup()


def chart(rows, title):
    value = alt.Y("value:Q", title=title)
    return alt.Chart(rows).mark_point().encode(x="label:N", y=value, tooltip=[alt.Tooltip("value:Q", title="short")])


def table(some):
    return figures.table(figures.specification(some._repr_mimebundle_(None, None)["text/html"]))


def test_rows_have_the_names_of_the_dictionary_and_say_what_the_value_is():
    rows = table(chart(ROWS, "robust accuracy, %"))
    assert list(rows) == ["quantity", "class", "predicted", "value"]
    assert set(rows) <= {*KEYS, *MEASURES}
    assert rows.iloc[0].tolist() == ["robust accuracy, %", "cat", "dog", "0.3333"]


def test_panels_are_told_apart_by_their_titles_or_numbers():
    pair = [chart(ROWS, "accuracy, %"), chart(ROWS.assign(value=1.5), "accuracy, %")]
    titled = alt.hconcat(*(one.properties(title=title) for one, title in zip(pair, ("clean", "attacked"), strict=True)))
    assert table(titled)["panel"].tolist() == ["clean", "clean", "attacked", "attacked"]
    assert table(alt.vconcat(*pair))["panel"].tolist() == ["1", "1", "2", "2"]


def test_data_that_only_place_marks_are_left_out():
    rule = alt.Chart(pd.DataFrame({"x": [1]})).mark_rule().encode(x="x:Q")
    assert len(table(rule + chart(ROWS, "accuracy, %"))) == 2
    assert table(rule).empty


def test_columns_of_classes_become_rows():
    wide = pd.DataFrame({"network": ["pgd-at"], "step": [3], "cat": [25.0], "dog": [75.0]})
    rows = table(alt.Chart(wide).mark_point().encode(x="step:Q"))
    assert rows.to_dict("list") == {
        "predicted": ["cat", "dog"],
        "network": ["pgd-at"] * 2,
        "step": ["3"] * 2,
        "confidence": ["25", "75"],
    }


def test_pictures_are_left_out_and_their_captions_are_one_line():
    rows = pd.DataFrame({"row": ["clean"], "place": [0], "number": [7], "url": ["data:image/png;base64,AA"], "caption": ["a\nb"]})
    pictures = alt.Chart(rows).mark_image().encode(url="url:N")
    assert table(pictures).to_dict("list") == {"image": ["7"], "form": ["clean"], "caption": ["a; b"]}


def test_an_output_without_a_chart_has_no_data():
    assert figures.specification("<p>words</p>") is None
