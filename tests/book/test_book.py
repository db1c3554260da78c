"""The built book in a real browser: opened from its files, without a network."""

import json
import os
import re

import pytest
import yaml
from browser import LATE, STANDS_OUT, attributes, choose, holding, installed, launched, number, opened
from filelock import FileLock
from playwright.sync_api import Locator, Page, expect
from rich.console import Console

from classwise import runs
from classwise.book import build
from classwise.charts import style
from classwise.core import paths
from classwise.core.paths import build_folder
from classwise.papers import registry
from classwise.papers.tian2021 import homing, recipe
from classwise.stats import aggregate

TOC = yaml.safe_load((paths.checkout() / "book" / "_toc.yml").read_text())
NOTEBOOKS = [chapter["file"] for part in TOC["parts"] for chapter in part["chapters"]]
BIAS, RELATIONS = "tian2021/4-1-class-bias", "tian2021/4-2-class-relations"
DRAWN = [name for name in NOTEBOOKS if name != "tian2021/A-settings" and not name.startswith("guide/")]  # those are words
START = {
    "chosen_class": "3",
    "chosen_defence": "trades",
    "chosen_images": "attacked",
    "chosen_split": "test",
    "chosen_epoch": "16",
}
OTHER = {"chosen_class": "7", "chosen_defence": "pgd-at", "chosen_images": "clean", "chosen_split": "train", "chosen_epoch": "4"}
AGAINST, INK = {"light": "dark", "dark": "light"}, {"light": "#000", "dark": "#fff"}

both = pytest.mark.parametrize("scheme", ["light", "dark"])
every_page = pytest.mark.parametrize("name", [TOC["root"], *NOTEBOOKS])


@pytest.fixture(scope="session")
def program() -> str:
    found = installed()
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no Chromium found; install it, on Debian: apt install chromium")
    return found


@pytest.fixture(scope="session")
def book(program):
    """The folder of the built book, built by one process where the tests run in several."""
    folder = build_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".tests.lock"):
        return build.build("quick", Console(stderr=True)).parent


@pytest.fixture(scope="module")
def visit(program, book):
    # Of this module only: while a browser is there, Playwright's event loop runs, and no other can.
    with launched(program) as browser:
        yield lambda name, *how: opened(browser, book / f"{name}.html", *how)


@pytest.fixture(scope="module")
def bias(visit):
    """A page for tests that say all they need of its state."""
    with visit(BIAS) as page:
        yield page


@pytest.fixture
def explorer(bias) -> Locator:
    return holding(bias, "chosen_class")


@pytest.fixture
def gallery(bias) -> Locator:
    return holding(bias, "gallery_class")


@pytest.fixture(scope="module")
def history(book):
    return aggregate.clean_and_attacked(runs.history(registry.request(BIAS).specs)["count"].sum("seed").load())


def charts(name: str) -> int:
    """Return how many charts the cells of a page returned."""
    path = build_folder() / "executed" / f"{name}.ipynb"
    cells = json.loads(path.read_text())["cells"] if path.exists() else []
    shown = [output.get("data", {}).get("text/html", "") for cell in cells for output in cell.get("outputs", [])]
    return sum("vegaEmbed(" in "".join(html) for html in shown)


def all_drawn(page: Page, name: str) -> None:
    expect(page.locator(".vega-embed > svg")).to_have_count(charts(name))


def line(explorer: Locator) -> Locator:
    return explorer.locator(".mark-line.role-mark path[stroke-width='3']")


def bars(explorer: Locator, label: str = "") -> Locator:
    return explorer.locator(f".mark-rect.role-mark path[aria-label*='predicted class: {label}']")


def courses(page: Page) -> Locator:
    """Return the chart of the classes over the epochs."""
    return holding(page, "highlighted_class").last


@every_page
def test_tables_in_words_are_tables(book, name):
    html = (book / f"{name}.html").read_text()
    assert "<p>| " not in html


def answers(history, chosen: dict[str, str]) -> dict[str, int]:
    """Return how many images of the chosen class were answered as what."""
    where = {"label": chosen["chosen_class"], "defence": chosen["chosen_defence"], "epoch": int(chosen["chosen_epoch"])}
    row = history.sel(where | {"images_are": chosen["chosen_images"], "split": chosen["chosen_split"]}).to_series()
    return {str(label): int(count) for label, count in row.items() if count or label == chosen["chosen_class"]}


def expect_bars(explorer: Locator, counted: dict[str, int]) -> None:
    for label, count in counted.items():
        expect(bars(explorer, label)).to_have_attribute("aria-label", re.compile(rf"\bimages predicted so: {count};"))
    expect(bars(explorer)).to_have_count(len(counted))


@both
@every_page
def test_a_page_draws_all_its_charts_without_an_error_or_a_network(visit, name, scheme):
    with visit(name, scheme) as page:
        all_drawn(page, name)
        expect(page.locator("html")).to_have_attribute("data-theme", scheme)
        drawn = page.locator(".vega-embed > svg").all()
        assert bool(drawn) == (name in DRAWN)
        assert all(chart.locator(".role-mark > *").count() for chart in drawn)


@every_page
def test_a_page_fits_a_phone(visit, name):
    with visit(name, "light", 375) as page:
        all_drawn(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        controls = [control.bounding_box() for control in page.locator(".vega-bind:visible").all()]
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= 375 for box in controls)


def test_formulas_are_set(visit):
    with visit(RELATIONS) as page:
        expect(page.locator("mjx-container > svg").first).to_be_visible()
        expect(page.locator("mjx-container")).to_have_count(page.locator("article .math").count())
        expect(page.locator("[data-mjx-error]")).to_have_count(0)
        prose = " ".join(page.locator("article p, article li").all_inner_texts())
        assert "$" not in prose
        assert "\\" not in prose


@both
@pytest.mark.parametrize("name", DRAWN)
def test_the_text_of_charts_stands_out_from_the_page(visit, name, scheme):
    with visit(name, scheme) as page:
        all_drawn(page, name)
        page.wait_for_function(STANDS_OUT, arg=scheme)


@both
def test_another_scheme_redraws_the_charts_and_keeps_what_was_chosen(visit, scheme):
    with visit(BIAS, scheme) as page:
        all_drawn(page, BIAS)
        explorer = holding(page, "chosen_class")
        choose(explorer, chosen_class="7", chosen_epoch="10")
        expect(line(explorer)).to_have_attribute("stroke", style.CHOSEN)
        drawn = str(line(explorer).get_attribute("d"))
        page.locator("button.theme-switch-button").click()
        in_scheme = f"svg:has(.role-axis-label text[fill='{INK[AGAINST[scheme]]}'])"
        expect(page.locator(f".vega-embed > {in_scheme}")).to_have_count(charts(BIAS))
        expect(explorer.locator("[name=chosen_class]")).to_have_value("7")
        expect(explorer.locator("[name=chosen_epoch]")).to_have_value("10")
        expect(line(explorer)).to_have_attribute("d", drawn)


@both
def test_a_chart_that_is_being_drawn_when_the_scheme_changes_follows(visit, scheme):
    with visit(TOC["root"], scheme) as page:
        expect(page.locator("html")).to_have_attribute("data-theme", scheme)
        page.evaluate(LATE, AGAINST[scheme])
        expect(page.locator("#late .role-axis-label text").first).to_have_attribute("fill", INK[AGAINST[scheme]])


@pytest.mark.parametrize(("control", "value"), OTHER.items(), ids=OTHER)
def test_a_choice_shows_what_was_counted(explorer, history, control, value):
    before, after = answers(history, START), answers(history, START | {control: value})
    assert before != after
    choose(explorer, **START)
    expect_bars(explorer, before)
    drawn = line(explorer).get_attribute("d")
    choose(explorer, **{control: value})
    expect_bars(explorer, after)
    assert (line(explorer).get_attribute("d") == drawn) == (control == "chosen_epoch")


@pytest.mark.parametrize("label", ["3", "8"])
def test_the_chosen_class_has_one_colour_and_when_clean_the_tallest_bar(explorer, label):
    choose(explorer, **START | {"chosen_class": label, "chosen_images": "clean"})
    expect(line(explorer)).to_have_attribute("stroke", style.CHOSEN)
    expect(bars(explorer, label)).to_have_attribute("fill", style.CHOSEN)
    heights = [number(bar, "getBBox().height") for bar in bars(explorer).all()]
    assert len(heights) > 1
    assert number(bars(explorer, label), "getBBox().height") == max(heights)


@pytest.mark.parametrize(("epoch", "measured"), [("10", "10"), ("5", "4")])
def test_the_epoch_is_marked_and_shown_as_it_was_last_measured(explorer, history, epoch, measured):
    choose(explorer, **START | {"chosen_epoch": epoch})
    expect_bars(explorer, answers(history, START | {"chosen_epoch": measured}))
    rule = explorer.locator(".mark-rule.role-mark").first.locator("line")
    expect(rule).not_to_have_count(0)
    across = "transform.baseVal[0].matrix.e"
    last = explorer.locator(".mark-symbol.role-mark path").last
    assert number(rule.first, across) / number(last, across) == pytest.approx(int(measured) / int(START["chosen_epoch"]))


def test_the_gallery_shows_four_images_of_the_chosen_class_in_three_forms(gallery):
    shown = {}
    for label in ("0", "3"):
        choose(gallery, gallery_class=label)
        for form in ("clean", "perturbation", "attacked"):
            expect(gallery.locator(f"image[aria-label*='case: {form}; class: {label};']")).to_have_count(4)
        expect(gallery.locator("image")).to_have_count(12)
        expect(gallery.locator(".mark-text.role-mark text")).to_have_count(12)
        shown[label] = set(attributes(gallery.locator("image"), "href"))
    assert len(shown["0"]) == len(shown["3"]) == 12
    assert not shown["0"] & shown["3"]


def test_another_defence_changes_the_attacked_images_and_not_the_clean_ones(gallery):
    clean, attacked = (gallery.locator(f"image[aria-label*='case: {form}; class: 5;']") for form in ("clean", "attacked"))
    choose(gallery, gallery_class="5", gallery_defence="trades")
    expect(attacked).to_have_count(4)
    images, old = attributes(clean, "href"), attributes(attacked, "href")
    choose(gallery, gallery_defence="standard")
    expect(attacked.first).not_to_have_attribute("href", old[0])
    assert attributes(clean, "href") == images
    assert not set(attributes(attacked, "href")) & set(old)


def test_a_control_highlights_a_class_in_all_panels(bias):
    chart = courses(bias)
    lines = chart.locator(".mark-line.role-mark path")
    expect(lines).to_have_count(60)
    chosen = chart.locator(f".mark-line.role-mark path[stroke='{style.CHOSEN}']")
    expect(chosen).to_have_count(0)
    choose(chart, highlighted_class="3")
    expect(chosen).to_have_count(6)
    expect(lines).to_have_count(60)
    choose(chart, highlighted_class="none")


def test_a_mark_under_the_pointer_tells_its_class(bias, explorer):
    choose(explorer, **START | {"chosen_class": "8"})
    explorer.locator(".mark-symbol.role-mark path[aria-label*='class: 8;']").nth(5).hover()
    tooltip = bias.locator("#vg-tooltip-element")
    expect(tooltip).to_be_visible()
    assert "8" in tooltip.locator(".value").all_inner_texts()
    bias.mouse.move(1, 1)
    expect(tooltip).to_be_hidden()


def test_the_pair_of_digits_is_the_one_that_the_rule_names_on_the_runs_of_the_book(book):
    asked = registry.request("tian2021/6-1-training-adjustment").parts["choosing"].specs
    seen = runs.history(asked).isel(defence=0)
    assert homing.pair_of(seen, recipe.SELECTION_SEEDS["digits"]) == recipe.VULNERABLE_PAIRS["digits"]


def test_a_switch_shows_the_photographs_first_and_remembers_the_digits(visit):
    with visit(BIAS, "light", 1280, "") as page:
        all_drawn(page, BIAS)
        buttons = page.locator(".scale-switch button")
        expect(buttons).to_have_text(["CIFAR-10, recorded", "digits, computed here"])
        expect(buttons.first).to_have_attribute("aria-pressed", "true")
        recorded = holding(page, "chosen_class")
        expect(recorded).to_have_count(1)
        expect(recorded.locator("[name=chosen_class] option").nth(3)).to_have_text("cat")
        buttons.last.click()
        expect(holding(page, "chosen_class").locator("[name=chosen_class] option").nth(3)).to_have_text("3")
        page.reload()
        expect(page.locator(".scale-switch button").last).to_have_attribute("aria-pressed", "true")
        expect(holding(page, "chosen_class").locator("[name=chosen_class] option").nth(3)).to_have_text("3")
