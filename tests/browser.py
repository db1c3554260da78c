"""What the tests of the book need of a browser."""

import re
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
DISABLED = ("background-networking", "component-update", "gpu", "sync")
PATIENCE = 60_000  # milliseconds, on a busy machine
expect.set_options(timeout=PATIENCE)
# Functions of JavaScript by their names.
_SOURCE = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
scripts = SimpleNamespace(**dict(re.findall(r"(?ms)^const (\w+) = (.*?);$(?=\n*(?:\n//|\Z))", _SOURCE)))
# The share of the words in the marks of a chart that may be hidden.
HIDDEN = 0.25


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
    # A colour that is changing has another contrast than before and after.
    still = {"reduced_motion": "reduce", "color_scheme": scheme}
    context = browser.new_context(offline=True, viewport=size, java_script_enabled=script, **still)
    context.set_default_timeout(PATIENCE)
    try:
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("request", lambda asked: None if asked.url.startswith(("file:", "data:", "blob:")) else wrong.append(asked.url))
        # The browser drops what a page that is left still asks for, its icon for one; without scripts it refuses those announced.
        dropped = {"net::ERR_ABORTED", *(() if script else ("csp",))}
        page.on("requestfailed", lambda asked: asked.failure in dropped or wrong.append(f"{asked.failure}: {asked.url}"))
        page.goto(path.as_uri())
        for button in page.locator(f".scale-switch [data-scale='{scale}']").all():
            button.click()
        yield page
    except BaseException as error:
        error.add_note(f"what went wrong on the page: {wrong}")
        raise
    finally:
        context.close()
    assert wrong == [], wrong


def violations(page: Page, *rules: str) -> list[str]:
    """Return the serious and critical violations that axe finds on a page, by all its rules or by some."""
    page.evaluate(resources.files("axe_playwright_python").joinpath("axe.min.js").read_text())
    return list(page.evaluate(scripts.AXE, list(rules)))


def misfits(page: Page) -> list[str]:
    """Return what is wrong with the charts in sight, once they have had time to be drawn again."""
    for _ in range(40):
        if not (found := page.evaluate(scripts.MISFITS, HIDDEN)):
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
