"""What the tests of the book need of a browser."""

import shutil
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
# The smallest text of the charts in sight, in pixels as it is drawn.
SMALLEST = """() => {
  const sizes = [...document.querySelectorAll(".vega-embed svg text")]
    .filter(one => one.textContent.trim() && one.getClientRects().length)
    .map(one => parseFloat(getComputedStyle(one).fontSize) * one.ownerSVGElement.getBoundingClientRect().width
      / (one.ownerSVGElement.viewBox.baseVal.width || one.ownerSVGElement.width.baseVal.value));
  return sizes.length ? Math.min(...sizes) : null;
}"""
# What is wrong with the charts in sight: wider than their place, words beyond the drawing, words that cover others.
MISFITS = """() => [...document.querySelectorAll(".vega-embed > svg")].filter(svg => svg.getClientRects().length).flatMap(svg => {
  const drawing = svg.getBoundingClientRect(), place = svg.parentNode, wrong = [];
  const figure = (svg.closest("figure") || place).id;
  const more = place.scrollWidth - place.clientWidth;
  if (more > 1) wrong.push(`${figure}: ${more} pixels too wide`);
  const words = [...svg.querySelectorAll("text")].filter(one => one.textContent.trim() && getComputedStyle(one).opacity !== "0"
    && getComputedStyle(one).visibility !== "hidden").map(one => [one.textContent, one.getBoundingClientRect()]);
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
    """Return what is wrong with the charts in sight on a narrow page, once they have had time to be drawn again."""
    for _ in range(40):
        if not (found := page.evaluate(MISFITS)):
            break
        page.wait_for_timeout(250)
    return list(found)


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


def number(mark: Locator, script: str) -> float:
    """Return a number of one mark, such as "getBBox().height"."""
    return float(mark.evaluate(f"one => one.{script}"))
