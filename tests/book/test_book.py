"""The built book in a real browser: opened from its files, without a network."""

import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

import browser
import lengths
import nbformat
import pytest
import xarray as xr
import yaml
from filelock import FileLock
from playwright.sync_api import Locator, Page, expect
from rich.console import Console
from scipy.stats import binomtest, fisher_exact

from classwise import runs
from classwise.book import build, data, figures, notebooks, pages
from classwise.charts.style import CHOSEN
from classwise.core import markup, paths
from classwise.core.paths import build_folder
from classwise.papers import home, ledger, registry, selection
from classwise.papers.say import UNCLEAR
from classwise.stats import metrics, pooling

TOC = yaml.safe_load((paths.checkout() / "book" / "_toc.yml").read_text())
NOTEBOOKS = [chapter["file"] for part in TOC["parts"] for chapter in part["chapters"]]
HOME = TOC["root"]
BIAS, RELATIONS = "tian2021/4-1-class-bias", "tian2021/4-2-class-relations"
FAIRNESS = "entropy2022/1-robust-fairness"
PAGES = [HOME, *NOTEBOOKS]
_OF_WORDS = {"claims", "papers", "attack", "settings"}
DRAWN = [name for name in PAGES if name in notebooks.names() and name not in _OF_WORDS]
WORDS = ("claims", "papers", "settings", "data", "guide/audit")
# CHOSEN as charts.js draws it.
STRONG = {"light": CHOSEN, "dark": "#ea00ab"}
AGAINST, INK = {"light": "dark", "dark": "light"}, {"light": "#000", "dark": "#fff"}
DESKTOP, DARK, PHONE = ("light", 1280), ("dark", 1280), ("light", 375)
both = pytest.mark.parametrize("scheme", ["light", "dark"])


def looked_at(names: Sequence[str], *settings: tuple[str, int]) -> pytest.MarkDecorator:
    """Parametrize a test with pages that it only looks at, in some schemes and widths; each is opened once for all such tests.

    Of the pages of words, which share one style, a dark one is of each kind.
    """
    places = [(name, *setting) for name in names for setting in settings if setting != DARK or name in (*DRAWN, *WORDS)]
    return pytest.mark.parametrize("shown", places, indirect=True, ids=lambda place: "-".join(map(str, place)))


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
    with browser.launched(program) as chromium:
        yield lambda name, *how: browser.opened(chromium, book / f"{name}.html", *how)


class Shown(NamedTuple):
    """A page in the browser, its name, its scheme and its width."""

    page: Page
    name: str
    scheme: str
    width: int


@pytest.fixture(scope="module")
def turn(visit) -> Iterator[Callable[[str, int], Page]]:
    """A function that opens a page and closes the one before; what is open is kept, whatever its scheme."""
    with ExitStack() as opened:
        place: list[tuple[str, int]] = []

        def turn(name: str, width: int) -> Page:
            if place[-1:] != [(name, width)]:
                opened.close()
                place.append((name, width))
                turn.page = opened.enter_context(visit(name, "light", width, ""))
            return turn.page

        yield turn


@pytest.fixture(scope="module")
def shown(turn, request) -> Shown:
    """A page with its charts, for tests that leave it as it was."""
    name, scheme, width = request.param
    page = turn(name, width)
    page.emulate_media(color_scheme=scheme)
    expect(page.locator("html")).to_have_attribute("data-theme", scheme)
    all_drawn(page, name)
    return Shown(page, name, scheme, width)


def each_scale(page: Page) -> Iterator[None]:
    """Choose the results of each scale, and at the end those that were chosen at first."""
    buttons = page.locator(".scale-switch button").all()
    first = [button for button in buttons if button.get_attribute("aria-pressed") == "true"]
    for button in buttons:
        button.click()
        yield
    for button in first:
        button.click()
    if not buttons:
        yield


def executed(name: str) -> list[list[nbformat.NotebookNode]]:
    """Return the outputs of each cell of an executed page; of a page that is no notebook, none."""
    path = build_folder() / "executed" / f"{name}.ipynb"
    return [cell.get("outputs", []) for cell in nbformat.read(path, as_version=4).cells] if path.exists() else []


def charts(name: str) -> int:
    """Return how many charts the cells of a page returned."""
    return sum(len(figures.specifications(outputs)) for outputs in executed(name))


def findings_of(name: str) -> list[str]:
    """Return the first sentence in bold of the first text that an executed page computes, at each of its scales."""
    texts = [[one.data["text/markdown"] for one in cell if "text/markdown" in one.get("data", {})] for cell in executed(name)]
    first = next(filter(None, texts))
    return [bold[1] for text in first if (bold := re.search(r"\*\*(.+?)\*\*", text, re.DOTALL))]


def places(spec: dict) -> list[str]:
    """Return the columns of a chart that have a panel for each value, or of which a reader chooses one."""
    text = json.dumps(spec)
    panels = re.findall(r'"(?:facet|row|column)": {[^{}]*?"field": "(\w+)"', text)
    return [name.replace("_", " ") for name in panels + re.findall(r"datum\.(\w+) ===? chosen_", text)]


@pytest.mark.parametrize("name", DRAWN)
def test_what_a_panel_compares_was_evaluated_on_the_same_images(book, name):
    for spec in (one for outputs in executed(name) for one in figures.specifications(outputs)):
        table = figures.table(spec).assign(chart="")
        if "evaluated" in table:
            kept, apart = table[table["evaluated"] != ""], [one for one in table if one in ("chart", *places(spec))]
            assert (kept.groupby(apart)["evaluated"].nunique() == 1).all(), (spec["title"], kept)


# The reader sets all that the model of the theory shows.
@pytest.mark.parametrize("name", [name for name in DRAWN if name != "wei2023/2-theory"])
def test_the_first_chart_of_a_page_is_titled_by_numbers_that_it_shows(book, name):
    first = next(filter(None, map(figures.specifications, executed(name))))
    titles = []
    for spec in first:
        text = spec["title"]["text"]  # an expression picks one by the choice
        several = [text] if isinstance(text, list) else list(json.loads(text["expr"][1:].rpartition(")")[0]).values())
        assert [title for title in several if not re.search(r"\d", " ".join(title))] == []
        titles.append(" ".join(several[0]))
    # What the answer calls unclear, the title does not state.
    for finding, title in zip(findings_of(name), titles, strict=False):
        assert not finding.startswith(UNCLEAR) or re.search(f"^{UNCLEAR}|significantly", title), title


# The page "pgd" is a lesson, which finds nothing.
@pytest.mark.parametrize("name", [name for name in DRAWN if name != "pgd"])
def test_the_finding_of_a_page_is_short_and_says_whether_its_effect_is_clear(book, name):
    assert findings_of(name)
    for finding in (one.replace("\u2212", "-") for one in findings_of(name)):
        intervals = re.findall(r"\((-?[\d.]+) to (-?[\d.]+)\)", finding)
        assert len(finding.split()) <= 30, finding
        assert len(intervals) <= 1, finding
        # Digits are also the names of classes: "the weakest class (8)", "3 and 9 are confused most".
        names = r"\(\d\)|\bclass \w+|\b\d (?:and|are|is)\b|[A-Z]\w*-\d+"
        rest = re.sub(rf"\(-?[\d.]+ to -?[\d.]+\)|{names}", "", finding)
        assert len(re.findall(r"\d[\d.,]*", rest)) <= 2, finding
        unclear = any(float(low) <= 0 <= float(high) for low, high in intervals)
        assert finding.startswith(UNCLEAR) == unclear, finding
        ids = [
            word for word in re.findall(r"[\w-]+", finding) if "-" in word or word in ("trades", "mart", "cr", "strong", "dafa")
        ]
        assert [markup.printed_name(word) for word in ids] == ids, finding


def all_drawn(page: Page, name: str) -> None:
    expect(page.locator(".vega-embed > svg")).to_have_count(charts(name))


@looked_at(PAGES, DESKTOP, DARK)
def test_a_page_draws_all_its_charts_without_an_error_a_network_or_a_serious_violation(shown):
    page, drawn = shown.page, shown.page.locator(".vega-embed > svg").all()
    expect(page.locator("html")).to_have_attribute("data-theme", shown.scheme)
    assert bool(drawn) == (shown.name in DRAWN)
    assert all(chart.locator(".role-mark > *").count() for chart in drawn)
    # A screen reader says what a chart shows.
    assert all(browser.attributes(page.locator(".vega-embed[role=graphics-document]"), "aria-label"))
    expect(page.locator(".vega-embed[role=graphics-document]")).to_have_count(len(drawn))
    assert page.evaluate(browser.scripts.UNPRINTED) == []
    # The rest does not depend on the scheme.
    assert browser.violations(page, *(["color-contrast"] if shown.scheme == "dark" else [])) == []


@looked_at(PAGES, PHONE)
def test_a_page_fits_a_phone(shown):
    page = shown.page
    for _ in each_scale(page):
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        # Measured all at once: a chart that is drawn anew has other controls a moment later.
        controls = page.locator(".vega-bind:visible").evaluate_all(browser.scripts.SIDES)
        assert all(left >= 0 and right <= 375 for left, right in controls)
        # A word of the head of a row is not broken.
        assert page.locator("table.dataframe:visible tbody th:visible").evaluate_all(browser.scripts.BROKEN) == []


@looked_at(DRAWN, DESKTOP, DARK, PHONE)
def test_charts_are_legible_on_a_desktop_and_a_phone(shown):
    page = shown.page
    if shown.width == 1280:
        page.wait_for_function(browser.scripts.STANDS_OUT, arg=[shown.scheme, 20])
    if shown.scheme == "light":
        assert browser.misfits(page) == []
    for _ in each_scale(page) if shown.scheme == "light" else []:
        if shown.width == 1280:
            page.wait_for_function(browser.scripts.WIDE)
        assert browser.misfits(page) == []
        assert shown.width < 1280 or page.evaluate(browser.scripts.SMALLEST) >= 10.99


# The width of A4 without the margins of Chromium, in pixels; and what stays off the paper.
PAPER = 718
SHELL = ".bd-sidebar-primary, .bd-header, .prev-next-footer, .page-switches, .scale-switch, .vega-bindings"


@looked_at(DRAWN[::3], DARK)
def test_a_page_is_printed_light_and_no_wider_than_the_paper(shown):
    page, usual = shown.page, shown.page.viewport_size
    page.set_viewport_size({"width": PAPER, "height": 900})
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_function(browser.scripts.STANDS_OUT, arg=["light", 20])
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    for shell in SHELL.split(", "):
        assert not any(one.is_visible() for one in page.locator(shell).all()), shell
    right = [box["x"] + box["width"] for one in inside(page).locator("> svg").all() if (box := one.bounding_box())]
    assert max(right) <= PAPER
    assert page.evaluate("document.documentElement.scrollWidth") <= PAPER
    page.emulate_media(media="screen", color_scheme="dark")
    page.set_viewport_size(usual)
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


@looked_at([BIAS], DARK)
def test_a_dark_page_that_goes_to_a_printer_has_dark_words(shown):
    # With its backgrounds, since without them Chromium darkens what is light.
    printed = browser.inks(shown.page.pdf(print_background=True))
    assert len(printed) > 200
    assert max(0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in printed) < 0.5


@looked_at(["tian2021/5-temperature-pgd"], DESKTOP)
def test_formulas_are_set(shown):
    page = shown.page
    expect(page.locator("mjx-container > svg").first).to_be_visible()
    expect(page.locator("mjx-container")).to_have_count(page.locator("article .math").count())
    expect(page.locator("[data-mjx-error]")).to_have_count(0)
    prose = " ".join(page.locator("article p, article li").all_inner_texts())
    assert "$" not in prose
    assert "\\" not in prose


@both
def test_another_scheme_redraws_the_charts_and_keeps_what_was_chosen_and_a_mark_tells_its_class(visit, scheme):
    epoch = str(3 * registry.training("quick", "trades", 0).measure)
    with visit(BIAS, scheme) as page:
        all_drawn(page, BIAS)
        explorer = browser.holding(page, "chosen_class")
        browser.choose(explorer, chosen_class="7", chosen_epoch=epoch)
        line = explorer.locator(".mark-line.role-mark path[stroke-width='3']")
        expect(line).to_have_attribute("stroke", STRONG[scheme])
        drawn = str(line.get_attribute("d"))
        page.locator("button.theme-switch-button").click()
        in_scheme = f"svg:has(.role-axis-label text[fill='{INK[AGAINST[scheme]]}'])"
        expect(page.locator(f".vega-embed > {in_scheme}")).to_have_count(charts(BIAS))
        expect(explorer.locator("[name=chosen_class]")).to_have_value("7")
        expect(explorer.locator("[name=chosen_epoch]")).to_have_value(epoch)
        expect(line).to_have_attribute("d", drawn)
        explorer.locator(".mark-symbol.role-mark path[aria-label*='class: 7;']").nth(5).hover()
        tooltip = page.locator("#vg-tooltip-element")
        expect(tooltip).to_be_visible()
        assert "7" in tooltip.locator(".value").all_inner_texts()
        page.mouse.move(1, 1)
        expect(tooltip).to_be_hidden()


def test_tooltips_and_what_is_said_of_marks_print_defences_as_axes_do(visit):
    with visit("defences") as page:
        all_drawn(page, "defences")
        said = page.locator(".vega-embed:visible .mark-symbol.role-mark path[aria-label*='defence:']")
        names = {re.search("defence: ([^;]*)", label)[1] for label in said.evaluate_all("all => all.map((one) => one.ariaLabel)")}
        assert {"PGD-AT", "TRADES"} <= names == set(map(markup.printed_name, names))
        page.locator(".vega-embed:visible .mark-symbol.role-mark path[aria-label*='defence: TRADES;']").first.hover()
        rows = page.locator("#vg-tooltip-element tr")
        expect(rows.filter(has_text="defence")).to_contain_text("TRADES")
        titles = rows.locator(".key").all_inner_texts()
        assert len(set(titles)) == len(titles) > 5
        page.locator("[name=highlighted_defence]:visible").first.select_option("at-ccm")
        expect(page.locator(".role-mark path[aria-label*='kind: chosen'][aria-label*='defence: AT-CCM']").first).to_be_attached()
        expect(page.locator(".role-mark [aria-label*='defence: at-ccm']")).to_have_count(0)


def test_what_was_picked_in_a_legend_stays_picked_when_the_chart_is_drawn_again(visit):
    with visit(FAIRNESS, "light") as page:
        all_drawn(page, FAIRNESS)
        # Of two members, both picked are as none.
        third = page.locator(".role-legend-label text[role=button] >> nth=2")
        chart = page.locator(".vega-embed:visible").filter(has=third).first
        marks = chart.locator(".role-mark path")
        faint = "all => all.map(one => one.getAttribute('opacity') || '1')"
        plain = marks.evaluate_all(faint)
        labels = chart.locator(".role-legend-label text[role=button]")
        labels.first.press("Enter")
        picked = marks.evaluate_all(faint)
        assert picked != plain
        page.locator("button.theme-switch-button").click()
        expect(chart.locator(".role-axis-label text").first).to_have_attribute("fill", INK["dark"])
        assert marks.evaluate_all(faint) == picked
        labels.nth(1).press("Shift+Enter")
        assert marks.evaluate_all(faint) not in (plain, picked)
        labels.nth(1).press("Shift+Enter")
        assert marks.evaluate_all(faint) == picked


@both
def test_a_chart_that_failed_or_is_being_drawn_when_the_scheme_changes_follows(visit, scheme):
    with visit(HOME, scheme) as page:
        expect(page.locator("html")).to_have_attribute("data-theme", scheme)
        assert page.evaluate(browser.scripts.FAILING) == "once"
        page.evaluate(browser.scripts.LATE, AGAINST[scheme])
        for name in ("late", "failing"):
            expect(page.locator(f"#{name} .role-axis-label text").first).to_have_attribute("fill", INK[AGAINST[scheme]])


def as_weak(count):
    """Return the classes that no other is less robust than beyond chance (Fisher's exact test, nine comparisons)."""
    right = metrics.correct(count)
    cells = xr.concat([right, metrics.images(count) - right], "robust").transpose("label", ...).values
    chances = [min(fisher_exact([one, other], "greater").pvalue for other in cells) for one in cells]
    return [name for name, chance in zip(count.label.values, chances, strict=True) if chance > 0.05 / 9]


@pytest.mark.parametrize("section", ["tian2021/6-1-training-adjustment", "wei2023/3-1-margins"])
def test_the_pair_of_digits_is_by_the_runs_of_the_book_as_vulnerable_as_any(book, section):
    seen = runs.history(registry.request(section).parts["choosing"].specs).isel(defence=0)
    count, (vulnerable, partner) = selection.validation_counts(seen, "digits"), selection.VULNERABLE_PAIRS["digits"]
    assert vulnerable in as_weak(count)
    assert len(as_weak(count)) < count.sizes["label"] / 2
    confused = (count + count.rename(label="predicted", predicted="label")).sel(label=vulnerable).drop_sel(predicted=vulnerable)
    most, named = int(confused.max()), int(confused.sel(predicted=partner))
    assert binomtest(most, most + named, alternative="greater").pvalue > 0.05 / 8


def test_the_pair_of_photographs_is_the_one_that_the_rule_names_on_the_recorded_runs():
    recorded = runs.keep_recorded(registry.request("tian2021/6-1-training-adjustment", "laptop")).parts["choosing"]
    assert {spec.seed for spec in recorded.specs} >= {0, 1, 2}
    assert selection.pair_of(runs.history(recorded.specs).isel(defence=0), "cifar10") == selection.VULNERABLE_PAIRS["cifar10"]


def test_a_switch_shows_the_photographs_first_and_remembers_the_digits(visit):
    with visit(BIAS, "light", 1280, "") as page:
        all_drawn(page, BIAS)
        buttons = page.locator(".scale-switch button")
        expect(buttons).to_have_text([re.compile(r"^CIFAR-10 at [48]/255, recorded$"), "digits, computed here"])
        expect(page.locator(".scale-switch a")).to_have_attribute("href", "../guide/reading.html#two-radii")
        shown = buttons.first.get_attribute("data-scale")
        expect(buttons.first).to_have_attribute("aria-pressed", "true")
        recorded = browser.holding(page, "chosen_class")
        expect(recorded).to_have_count(1)
        expect(recorded.locator("[name=chosen_class] option").nth(3)).to_have_text("cat")
        buttons.last.click()
        expect(browser.holding(page, "chosen_class").locator("[name=chosen_class] option").nth(3)).to_have_text("3")
        plain, _, query = page.url.partition("?")
        assert query == "scale=quick"
        for address, one in ((plain, "3"), (f"{plain}?scale={shown}", "cat"), (page.url, "3"), (f"{plain}?scale=none", "3")):
            page.goto(address)
            expect(browser.holding(page, "chosen_class").locator("[name=chosen_class] option").nth(3)).to_have_text(one)


def test_parts_of_digits_among_the_photographs_have_an_edge_and_a_line_that_says_so(visit):
    pages = {one: (build_folder() / "executed" / f"{one}.ipynb").read_text() for one in DRAWN}
    kept = {one: re.search(r"data-scale=\W+(\w+)\W+ data-kept", text) for one, text in pages.items()}
    name, scale = next((one, found[1]) for one, found in kept.items() if found)
    with visit(name, "light", 1280, scale) as page:
        edges = "[...document.querySelectorAll('.cell_output')].filter(one => parseFloat(getComputedStyle(one).borderLeftWidth))"
        line = page.locator(".scale-mark", has_text="Not yet run on CIFAR-10; digits shown.").first
        assert line.bounding_box()["height"] > 5  # a line to read, not for screen readers alone
        assert page.evaluate(f"{edges}.length") == page.locator(".cell_output .scale-mark[data-kept]").count() > 0
        page.locator(".scale-switch [data-scale='quick']").click()
        expect(line).to_be_hidden()
        assert page.evaluate(f"{edges}.length") == 0


def inside(page: Page) -> Locator:
    """Return the charts in sight."""
    return page.locator(".vega-embed:visible")


@looked_at(DRAWN, DESKTOP)
def test_a_page_begins_with_a_chart_and_has_nine_screens_at_either_scale(shown):
    page = shown.page
    assert page.locator("html").get_attribute("data-code") in (None, "folded")
    assert inside(page).first.bounding_box()["y"] + page.evaluate("scrollY") < 900
    for _ in each_scale(page):
        assert page.evaluate("document.documentElement.scrollHeight") < 9.5 * 800


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_small_loads_shared_scripts_once_and_describes_itself(book, name):
    html = (book / f"{name}.html").read_text()
    assert len(html.encode()) < 4_000_000
    assert html.count("scripts/vega.js") == 1
    assert max(map(len, re.findall(r"(?s)<script>(.*?)</script>", html)), default=0) < 500_000
    for mark in ('<meta name="description" content="', '<link rel="icon"'):
        assert html.count(mark) == 1
    assert html.count("scripts/mathjax.js") == ('class="math ' in html)
    assert "<p>| " not in html  # a table that is none


def test_code_is_folded_until_it_is_shown_and_the_choice_is_remembered(visit):
    with visit(BIAS) as page:
        code = page.locator("article .cell_input")
        assert code.count() > 10
        assert not any(one.is_visible() for one in code.all())
        assert not any(one.is_visible() for one in page.locator("article .cell > details.above-input > summary").all())
        page.locator(".code-switch").press("Enter")
        assert all(one.is_visible() for one in page.locator("article .cell:not(.tag_provenance) > details .cell_input").all())
        page.reload()
        expect(page.locator(".code-switch")).to_have_attribute("aria-pressed", "true")
        expect(page.locator("article .cell_input").first).to_be_visible()


def test_a_figure_is_saved_as_a_picture_and_linked_with_what_was_chosen(visit):
    with visit(BIAS) as page:
        figure = page.locator("#fig-bias-explorer")
        for kind, start in {"PNG": b"\x89PNG", "SVG": b"<svg"}.items():
            with page.expect_download() as saved:
                figure.get_by_role("button", name=kind).click()
            assert saved.value.path().read_bytes().startswith(start)
        chosen = figure.locator("select:visible").first
        chosen.select_option(index=3)
        value = chosen.input_value()
        figure.get_by_role("button", name="Link").click()
        expect(figure.get_by_role("button", name=re.compile("Link .+"))).to_be_visible()
        address = page.url
        page.goto("about:blank")
        page.goto(address)
        expect(figure.locator("select:visible").first).to_have_value(value)
        expect(figure).to_be_in_viewport()


def test_without_a_script_all_code_opens_by_its_own_button(visit):
    with visit(BIAS, "light", 1280, "", False) as page:
        for cell in page.locator("article .cell > details.above-input").all():
            cell.locator("summary").click()
            expect(cell.locator(".cell_input")).to_be_visible()


@looked_at(DRAWN[1:], DESKTOP)
def test_figures_are_numbered_with_a_link_to_their_data_and_the_command_that_recomputes_the_page_ends_it(shown, book):
    page = shown.page
    numbers = page.locator("article figure figcaption a.figure-number")
    places = [int(text.removeprefix(f"Figure {pages._section(shown.name)}")) for text in numbers.all_inner_texts()]
    assert places == sorted(set(places))
    for link in numbers.all():
        expect(page.locator(f"figure{link.get_attribute('href')}")).to_have_count(1)
    for figure in page.locator("article figure:has(figcaption a.figure-number)").all():
        links = browser.attributes(figure.locator(".figure-data a[download]"), "href")
        assert bool(links) == bool(figure.locator(".vega-embed").count())
        for link in links:
            columns = (book / shown.name).parent.joinpath(link).read_text().partition("\n")[0]
            names = {text.strip('"') for text in re.findall(r'"[^"]*"|[^,]+', columns)}
            assert names <= {*data.KEYS, *data.MEASURES}, link
    last = page.locator("article .cell").last
    expect(last.locator("summary p").first).to_be_visible()
    expect(last).to_contain_text(f"make notebook NB={shown.name}")


@looked_at([BIAS], DESKTOP)
def test_a_page_names_the_commit_of_its_results_and_its_first_figure_is_that_of_its_section(shown):
    expect(shown.page.locator("article .cell").last).to_contain_text("commit")
    numbers = shown.page.locator("article figure figcaption a.figure-number")
    assert numbers.all_inner_texts() == [f"Figure 4.1-{place}" for place in range(1, max(numbers.count(), 4) + 1)]


@looked_at(["data"], DESKTOP)
def test_the_page_of_all_results_offers_files_that_exist(shown, book):
    links = browser.attributes(shown.page.locator("article a[download]"), "href")
    assert len(links) == len(data.NAMES) + 1
    assert all((book / link).stat().st_size > 0 for link in links)


def test_the_packed_book_opens_in_another_folder_and_names_no_folder_of_this_machine(visit, book, tmp_path):
    with zipfile.ZipFile(build.pack(Console(quiet=True))) as archive:
        archive.extractall(tmp_path / "elsewhere")
    texts = [path for path in (tmp_path / "elsewhere").rglob("*") if path.suffix in (".html", ".js", ".css", ".ipynb", ".csv")]
    assert [str(path) for path in texts if str(paths.checkout()) in path.read_text()] == []
    for name in (HOME, BIAS):
        with visit(str(tmp_path / "elsewhere" / name)) as page:
            all_drawn(page, name)


@looked_at([BIAS, "claims", "settings"], PHONE)
def test_what_is_wider_than_a_phone_says_so_and_scrolls_by_keyboard(shown):
    shown.page.wait_for_timeout(500)
    wide = shown.page.locator("table.dataframe:visible, .pst-scrollable-table-container:visible, .vega-embed:visible")
    for one in wide.all():
        if one.evaluate("one => one.scrollWidth > one.clientWidth + 1"):
            assert one.get_attribute("tabindex") == "0"
            assert one.evaluate("one => one.previousElementSibling.className") == "scroll-cue"


@looked_at([HOME], DESKTOP)
def test_the_home_page_shows_the_defence_that_is_chosen_beside_the_paper(shown):
    scale = runs.shown_scales(home.SECTION, "quick")[0]
    request = runs.keep_recorded(registry.request(home.SECTION, scale))
    rates = metrics.accuracy(pooling.pool(runs.outcomes(request.specs, request.evaluations[-1:]))).isel(attack=0)
    theirs, chart = home.printed_rates(rates), browser.holding(shown.page, "ranking_defence")
    for defence in theirs.defence.values[::-1].tolist():
        browser.choose(chart, ranking_defence=defence)
        of_one = rates.sel(defence=defence)
        for word, place in (("best", of_one.argmax("label")), ("worst", of_one.argmin("label"))):
            words = f"label: {of_one.label.values[int(place)]}; place: {word};"
            expect(chart.locator(f"svg .mark-symbol path[aria-label*='{words}']")).to_have_count(1)
        expect(chart.locator("svg .mark-symbol path[aria-label^='theirs:']")).to_have_count(len(theirs.label))


def test_a_number_on_the_home_page_opens_its_claims(visit):
    with visit(HOME) as page:
        assert page.locator(".mosaic a").count() == len(ledger.decisive(runs.verdicts("quick")))
        tip, square = page.locator(".mosaic .tip"), page.locator(".mosaic a.holds").first
        expect(tip).to_be_hidden()
        square.hover()
        expect(tip).to_have_text(square.get_attribute("data-words"))
        page.mouse.move(1, 1)
        expect(tip).to_be_hidden()
        page.locator("details:has(table.certainty) > summary").click()
        links = page.locator("table.certainty td a[href*='scale=quick'][href*='verdict=holds']")
        number = int(links.first.inner_text())
        links.first.click()
        page.wait_for_url("**/claims.html?*")
        all_drawn(page, "claims")
        expect(page.locator(".ledger [name=verdict]").first).to_have_value("holds")
        expect(page.locator(".ledger [name=scale]").first).to_have_value("quick")
        assert number > 0
        expect(page.locator(".ledger details[id]:visible")).to_have_count(number)
        expect(page.locator(".ledger form")).to_be_in_viewport()
        counts = page.locator(".ledger .counts span:visible").all_inner_texts()
        # Each is such as "digits: 2 hold"; other verdicts are not counted.
        assert sum(int(one.rpartition(": ")[2].split(" hold")[0]) for one in counts) == number
        page.goto(f"{page.url.partition('?')[0]}?paper=wei2024")
        expect(page.locator(".ledger output").first).to_have_text(re.compile("there is no paper wei2024"))


@looked_at([HOME], DESKTOP)
def test_the_home_page_has_four_doors_on_its_first_screens(shown):
    doors = shown.page.locator(".doors a")
    assert [link.get_attribute("href").removesuffix(".html") in NOTEBOOKS for link in doors.all()] == 4 * [True]
    assert doors.first.bounding_box()["y"] < 900


@looked_at(["guide/citing"], DESKTOP)
def test_a_page_shows_how_to_cite_with_a_button_that_copies(shown):
    block = shown.page.locator(".highlight-bibtex")
    assert block.locator("pre").inner_text().startswith("@misc{classwise,")
    expect(block.locator("button.copybtn")).to_have_count(1)


@looked_at([HOME], DESKTOP, PHONE)
def test_the_title_of_a_chart_follows_its_control(shown):
    chart = inside(shown.page).first
    title, control = chart.locator(".role-title-text"), chart.locator("[name=ranking_defence]")
    first, *others = control.locator("option").evaluate_all("all => all.map(one => one.value)")
    assert title.text_content().startswith(f"{markup.printed_name(first)}: ")
    for name in (*others, first):
        browser.choose(chart, ranking_defence=name)
        assert title.text_content().lower().startswith(f"{markup.printed_name(name)}: ".lower())
        assert title.bounding_box()["width"] <= chart.bounding_box()["width"]


def chosen(chart: Locator, name: str, value: str) -> str:
    """Return the drawing of a chart after a choice."""
    browser.choose(chart, **{name: value})
    return chart.locator("> svg").inner_html()


@looked_at(DRAWN, DESKTOP)
def test_every_control_and_every_legend_changes_its_chart(shown):
    """The last test of a page, since it leaves a legend chosen."""
    for button in shown.page.locator(".scale-switch [data-scale='quick']").all():
        button.click()
    for chart in inside(shown.page).all():
        drawing = chart.locator("> svg")
        for control in chart.locator(".vega-bind :is(select, input[type=range])").all():
            before, title, initial = drawing.inner_html(), control.get_attribute("name"), control.input_value()
            if control.get_attribute("type") == "range":
                values = [control.get_attribute("min"), control.get_attribute("max")]
            else:
                values = control.locator("option").evaluate_all("all => all.map(one => one.value)")
            assert any(chosen(chart, title, value) != before for value in values if value != initial), title
            # For another image or network, further controls may change nothing.
            browser.choose(chart, **{title: initial})
        labels = chart.locator(".role-legend-label text[role=button]")
        if labels.count() > 1:
            before = drawing.inner_html()
            labels.first.press("Enter")
            assert drawing.inner_html() != before


def test_pages_of_papers_and_the_whole_book_are_short(book):
    folder = build_folder() / "pages"
    counts = {name: max(lengths.of_page(folder / f"{name}.ipynb").values()) for name in notebooks.names()}
    assert {name: round(number) for name, number in counts.items() if registry.paper_of(name) and number > 800} == {}
    # What a reader sees before anything is unfolded.
    seen = sum(max(lengths.of_page(folder / f"{name}.ipynb", 0).values()) for name in notebooks.names())
    guide = [path for path in folder.rglob("*.md") if path.stem not in ("api", "changelog", "licence")]
    assert seen + sum(lengths.words(path.read_text(), 0) for path in guide) <= 30_000


def test_the_search_shows_pages_with_excerpts_and_then_the_entries_of_the_api(visit):
    with visit("search") as page:
        page.goto(f"{page.url}?q=features")
        results = page.locator("ul.search > li")
        expect(results.filter(has_text="runs.features")).to_be_visible()
        expect(results.first.locator(".context")).to_contain_text("feature")
        of_the_api = [" in API reference)" in text for text in results.all_inner_texts()]
        assert of_the_api == sorted(of_the_api)
        assert len(set(of_the_api)) == 2
