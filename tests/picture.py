"""Pictures that `make picture` draws: the first chart of the book, the folders of the package, and screens of the built book."""

import ast
import tomllib
from pathlib import Path

import vl_convert

from classwise import runs
from classwise.charts import explorers, style
from classwise.core.paths import build_folder, checkout
from classwise.papers import home, registry
from classwise.stats import intervals, metrics, pooling
from tests import browser

STATIC = checkout() / "book" / "_static"
WIDTH, HEIGHT, ROW = 215, 38, 72
SAYS = {
    "book": "executes notebooks, renders pages",
    "runs": "computes, stores, loads results",
    "papers": "sections, claims, verdicts",
    "charts": "explorers, tables",
    "stats": "metrics, intervals, tests",
    "defences": "objectives, calibrations",
    "attacks": "searches in a ball",
    "models": "networks",
    "images": "datasets, transforms",
    "core": "specs, results, errors; no torch",
}


def classes() -> str:
    """Return the chart of the home page as SVG."""
    style.setup()
    request = runs.keep_recorded(registry.request(home.SECTION, runs.shown_scales(home.SECTION, "quick")[0]))
    count = pooling.pool(runs.outcomes(request.specs, request.evaluations)).sel(attack=["clean", home.ATTACK])
    rates, interval = metrics.accuracy(count), intervals.wilson(count.sel(attack=home.ATTACK, drop=True))
    theirs = home.printed_rates(rates)
    chart = explorers.class_ranking(home.marks(rates, theirs), interval, home.titles(rates, theirs))
    return str(vl_convert.vegalite_to_svg(chart.properties(background="white").to_json()))


def imports() -> set[tuple[str, str]]:
    """Return which folder of the package imports which, by its code."""
    found = set()
    for path in (checkout() / "src" / "classwise").glob("*/**/*.py"):
        folder = path.relative_to(checkout() / "src" / "classwise").parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("classwise"):
                named = [node.module.split(".")[1]] if "." in node.module else [one.name for one in node.names]
                found |= {(folder, name) for name in named if name in SAYS and name != folder}
    return found


def folders() -> str:
    """Return the folders of the package as SVG: each above those that it imports, without the lines that others imply."""
    contracts = tomllib.loads((checkout() / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [[name.strip() for name in layer.split("|")] for layer in contracts[0]["layers"] if layer != "__main__"]
    edges, place, lines, boxes = imports(), {}, [], []
    for row, names in enumerate(layers):
        for column, name in enumerate(names):
            side = 1 if name == "images" or column else -(len(names) > 1)
            place[name] = (WIDTH + 30 + side * (WIDTH / 2 + 15), 20 + row * ROW)
    direct = {(a, b) for a, b in edges if not any((a, c) in edges and (c, b) in edges for c in SAYS)}
    size = f'width="{WIDTH}" height="{HEIGHT}"'
    for above, below in sorted(direct):
        (x1, y1), (x2, y2) = place[above], place[below]
        lines.append(f'<path d="M{x1:g} {y1 + HEIGHT}L{x2:g} {y2}" stroke="#888" stroke-width="1.5" marker-end="url(#tip)"/>')
    for name, (x, y) in place.items():
        boxes.append(f'<rect x="{x - WIDTH / 2}" y="{y}" {size} rx="5" fill="#eef3f8" stroke="#4a6b8a"/>')
        said = f'<text x="{x:g}" y="{y + 31}">{SAYS[name]}</text>'
        boxes.append(f'<text x="{x:g}" y="{y + 16}" font-weight="bold">{name}/</text>{said}')
    wide, high = 2 * (WIDTH + 30), 20 + len(layers) * ROW
    tip = '<marker id="tip" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" fill="none">'
    head += f'<defs>{tip}<path d="M0 0L6 3L0 6z" fill="#888"/></marker></defs><rect width="{wide}" height="{high}" fill="white"/>'
    text = '<g font-family="sans-serif" font-size="12" text-anchor="middle" fill="#222">'
    return "\n".join([head, *lines, text, *boxes, "</g></svg>", ""])


PICTURES = {"classes": classes, "folders": folders}
# Screens of the built book: the page, and the place on it that is scrolled to.
_TOP = "article h1"
SCREENS = {"home": ("index", _TOP), "explorer": ("tian2021/4-1-class-bias", "#fig-bias-explorer"), "audit": ("audit", _TOP)}


def photograph(book: Path, program: str) -> None:
    """Write each screen in light and dark, as readers with photographs see it."""
    with browser.launched(program) as chromium:
        for name, (page, place) in SCREENS.items():
            for scheme in ("light", "dark"):
                with browser.opened(chromium, book / f"{page}.html", scheme, 1100, "") as shown:
                    shown.locator(".figure-data button:visible").first.wait_for()
                    shown.locator(place).evaluate("one => scrollTo(0, one.getBoundingClientRect().top - 70)")
                    shown.wait_for_timeout(1500)
                    shown.screenshot(path=STATIC / f"{name}-{scheme}.png", clip={"x": 0, "y": 0, "width": 1100, "height": 700})


if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (STATIC / f"{name}.svg").write_text(draw(), encoding="utf-8")
    if (book := build_folder() / "html").exists() and (program := browser.installed()):
        photograph(book, program)
    else:
        print("the screens of the book stay as they are: they need a built book (make book) and a browser")
