"""What the tests of the book need of a browser."""

import re
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
DISABLED = ("background-networking", "component-update", "gpu", "sync")
PATIENCE = 60_000  # milliseconds, on a busy machine
expect.set_options(timeout=PATIENCE)
# Whether the text of the charts is light on a dark page, or dark on a light one; the numbers in the cells of a matrix stand on a
# ground of their own.
STANDS_OUT = """([scheme, least]) => {
  const texts = [...document.querySelectorAll(".vega-embed svg text:not(.mark-rect.role-mark ~ .mark-text.role-mark text)")];
  return texts.length > least && texts.every(one => {
    const [red, green, blue] = getComputedStyle(one).fill.match(/[\\d.]+/g).map(Number);
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue > 127) === (scheme === "dark");
  });
}"""
# A chart, and another scheme before it can be drawn.
LATE = """scheme => {
  const late = document.querySelector("article").appendChild(document.createElement("div"));
  late.id = "late";
  vegaEmbed(late, {data: {values: [{a: 1}]}, mark: "point", encoding: {x: {field: "a", type: "quantitative"}}}, {});
  document.documentElement.dataset.theme = scheme;
}"""
# A chart that cannot be drawn at first: returns what the page learns of it.
FAILING = """() => {
  const place = document.querySelector("article").appendChild(document.createElement("div"));
  place.id = "failing";
  let drawings = 0;
  const patch = vega => { if (!drawings++) throw new Error("once"); return vega; };
  const spec = {data: {values: [{a: 1}]}, mark: "point", encoding: {x: {field: "a", type: "quantitative"}}};
  return vegaEmbed(place, spec, {patch}).then(() => "drawn", error => error.message);
}"""
# The heads of rows that have more lines than words.
BROKEN = """heads => heads.filter(head => {
  const range = document.createRange();
  range.selectNodeContents(head);
  const lines = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
  return lines.size > head.textContent.trim().split(/[\\s-]+/).length;
}).map(head => head.textContent)"""
# Where each element begins and ends, in pixels from the left.
SIDES = """all => all.map(one => one.getBoundingClientRect()).map(box => [box.left, box.right])"""
# The smallest text of the charts in sight, in pixels as it is drawn.
SMALLEST = """() => {
  const sizes = [...document.querySelectorAll(".vega-embed svg text")]
    .filter(one => one.textContent.trim() && one.getClientRects().length)
    .map(one => parseFloat(getComputedStyle(one).fontSize) * one.ownerSVGElement.getBoundingClientRect().width
      / (one.ownerSVGElement.viewBox.baseVal.width || one.ownerSVGElement.width.baseVal.value));
  return sizes.length ? Math.min(...sizes) : null;
}"""
# What is wrong with the charts in sight: wider than their place, words beyond the drawing, words or images that cover others, and
# words that charts.js hid because they would: more than some, or any number of a cell.
MISFITS = """most => [...document.querySelectorAll(".vega-embed > svg")].filter(one => one.clientWidth).flatMap(svg => {
  const drawing = svg.getBoundingClientRect(), place = svg.parentNode, wrong = [];
  const figure = (svg.closest("figure") || place).id;
  const more = place.scrollWidth - place.clientWidth;
  if (more > 1) wrong.push(`${figure}: ${more} pixels too wide`);
  const seen = one => one.textContent.trim() && getComputedStyle(one).opacity !== "0";
  const written = [...svg.querySelectorAll("text")].filter(seen);
  const hidden = one => getComputedStyle(one).visibility === "hidden";
  const marks = written.filter(one => one.closest(".role-mark")), lost = marks.filter(hidden);
  if (lost.length > most * marks.length) wrong.push(`${figure}: ${lost.length} of ${marks.length} words are hidden`);
  const cells = lost.filter(one => one.matches(".mark-rect.role-mark ~ .mark-text.role-mark text"));
  if (cells.length) wrong.push(`${figure}: ${cells.length} cells show no number`);
  const images = [...svg.querySelectorAll("image")].map(one => one.getBoundingClientRect()).filter(box => box.width);
  const covers = (one, other) => Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1
    && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 1;
  const covered = images.filter((one, number) => images.slice(0, number).some(other => covers(one, other)));
  if (covered.length) wrong.push(`${figure}: ${covered.length} images cover others`);
  const words = written.filter(one => !hidden(one)).map(one => [one.textContent, one.getBoundingClientRect()]);
  words.forEach(([text, box], number) => {
    const across = Math.max(drawing.left - box.left, box.right - drawing.right);
    const along = Math.max(drawing.top - box.top, box.bottom - drawing.bottom);
    if (Math.max(across, along) > 2) wrong.push(`${figure}: "${text}" lies beyond the drawing`);
    for (const [other, its] of words.slice(0, number)) {
      const across = Math.min(box.right, its.right) - Math.max(box.left, its.left);
      const down = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
      if (across > 1 && down > 4) wrong.push(`${figure}: "${text}" covers "${other}"`);
    }
  });
  return wrong;
})"""
# The share of the words in the marks of a chart that may be hidden.
HIDDEN = 0.25
# What axe reports, as its rule and the first place.
AXE = """rules => axe.run(document, {preload: false, ...(rules.length ? {runOnly: rules} : {})}).then(result => result.violations
  .filter(one => ["serious", "critical"].includes(one.impact))
  .map(one => `${one.id} (${one.nodes.length}): ${one.nodes[0].target} ${one.nodes[0].html.slice(0, 200)}`))"""


def installed() -> str | None:
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextmanager
def launched(program: str) -> Iterator[Browser]:
    args = ["--no-sandbox", "--no-first-run", *(f"--disable-{one}" for one in DISABLED)]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=args)
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: Browser, path: Path, scheme: str = "light", width: int = 1280, scale: str = "quick", script: bool = True
) -> Iterator[Page]:
    """Open a page without a network; leaving it fails if it raised an error, warned, or asked for anything but files.

    scale: whose results are chosen where the page shows those of two scales, "" for what it shows at first. script: whether the
    browser runs JavaScript.
    """
    wrong: list[str] = []
    size = {"width": width, "height": 900}
    context = browser.new_context(offline=True, color_scheme=scheme, viewport=size, java_script_enabled=script)
    context.set_default_timeout(PATIENCE)
    try:
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else wrong.append(asked.url))
        # Without scripts the browser refuses those that a page announces.
        refused = lambda asked: not script and asked.failure == "csp"  # noqa: E731
        page.on("requestfailed", lambda asked: None if refused(asked) else wrong.append(f"failed: {asked.url}"))
        page.goto(path.as_uri())
        for button in page.locator(f".scale-switch [data-scale='{scale}']").all():
            button.click()
        yield page
        said = list(wrong)  # what is still asked for when the page is closed has failed, too
    except BaseException as error:
        error.add_note(f"what went wrong on the page: {wrong}")
        raise
    finally:
        context.close()
    assert said == []


def violations(page: Page, *rules: str) -> list[str]:
    """Return the serious and critical violations that axe finds on a page, by all its rules or by some."""
    page.evaluate(resources.files("axe_playwright_python").joinpath("axe.min.js").read_text())
    return list(page.evaluate(AXE, list(rules)))


def misfits(page: Page) -> list[str]:
    """Return what is wrong with the charts in sight, once they have had time to be drawn again."""
    for _ in range(40):
        if not (found := page.evaluate(MISFITS, HIDDEN)):
            break
        page.wait_for_timeout(250)
    return list(found)


def inks(pdf: bytes) -> list[tuple[float, ...]]:
    """Return the colours of the pieces of text on printed pages, each as red, green and blue from 0 to 1."""
    found = []
    for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL):
        try:
            drawing = zlib.decompress(stream).decode("ascii")
        except (zlib.error, UnicodeDecodeError):  # a font or an image
            continue
        ink, outer = (0.0, 0.0, 0.0), []
        for colour, word in re.findall(r"(?<!\S)(?:([\d.]+ [\d.]+ [\d.]+) rg|(q|Q|BT))(?!\S)", drawing):
            if colour:
                ink = tuple(map(float, colour.split()))
            elif word == "q":
                outer.append(ink)
            elif word == "Q":
                ink = outer.pop()
            else:
                found.append(ink)
    return found


def holding(page: Page, control: str) -> Locator:
    """Return the chart in sight that has a control of that name."""
    return page.locator(".vega-embed:visible").filter(has=page.locator(f"[name={control}]"))


def choose(chart: Locator, **choices: str) -> None:
    """Set controls of a chart."""
    for name, value in choices.items():
        control = chart.locator(f"[name={name}]")
        if control.get_attribute("type") == "range":
            control.fill(value)
        else:
            control.select_option(value)


def attributes(marks: Locator, name: str) -> list[str]:
    return marks.evaluate_all("(all, name) => all.map(one => one.getAttribute(name))", name)
