"""Names that contain markup."""

from html import unescape

import pytest
from nbconvert.filters import markdown2html

from classwise.core.markup import decimal, escape, printed_name

NAMES = ["<b>|*x_", "[a](b)", "a`b`", "&lt;", "$x$", "~~x~~", "\\|", '" onclick="', "plain-name 8"]


@pytest.mark.parametrize("name", NAMES)
def test_an_escaped_name_is_shown_as_it_is(name):
    assert unescape(escape(name)) == name
    assert unescape(markdown2html(f"**{escape(name)}**")) == f"<p><strong>{name}</strong></p>\n"
    table = markdown2html(f"| a | b |\n|---|---|\n| {escape(name)} | c |")
    assert table.count("<td>") == 2
    assert f"<td>{name}</td>" in unescape(table)


def test_usual_names_are_unchanged():
    assert escape("resnet-18 (wide), 95 %") == "resnet-18 (wide), 95 %"


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(-0.04, 1, "0.0"), (-0.0, 0, "0"), (-0.06, 1, "-0.1"), (2.345, 2, "2.35"), (float("nan"), 1, "nan")],
)
def test_zero_has_no_sign(value, digits, text):
    assert decimal(value, digits) == text


def test_attacks_and_defences_are_printed_as_papers_do_and_words_as_they_are():
    names = {
        "pgd-at": "PGD-AT",
        "trades (λ=6)": "TRADES (λ=6)",
        "pgd-20 at 1/2 ε": "PGD-20 at 1/2 ε",
        "standard, clean images": "standard training, clean images",
        "trades-ccm-ccr, strong": "TRADES-CCM-CCR, APGD-CE + APGD-T",
        "label-smoothing": "PGD-AT with label smoothing",
        "trades-smoothed (λ=6)": "TRADES with label smoothing (λ=6)",
        "cr": "constraint relaxation",
        "cw": "C&W",
    }
    names |= {name: name for name in ("class-balanced", "fat cat", "at night", "transferred pgd-20", "cat, dog", "PGD-AT, clean")}
    assert {name: printed_name(name) for name in names} == names
