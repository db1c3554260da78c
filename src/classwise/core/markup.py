"""Text within Markdown and HTML: names that others chose, such as those of folders and files, and numbers."""

import re

# The kind of output of a cell that holds the specification of its chart: text of JSON, since notebooks sort the names of JSON.
CHART = "text/vnd.classwise.chart"
# What Markdown, HTML or a formula would read as markup; each is written as an entity of HTML.
_MARKUP = str.maketrans({character: f"&#{ord(character)};" for character in "&<>\"'|*_`[]$~\\"})

# Attacks and defences that papers print otherwise than in capitals, and all that they print in capitals; charts.js reads both.
PRINTED = {
    "standard": "standard training",
    "strong": "APGD-CE + APGD-T",
    "cr": "constraint relaxation",
    "autoattack": "AutoAttack",
    "cw": "C&W",
    "fat-constant": "FAT (constant tau)",
    "free-at": "Free-AT",
    "label-smoothing": "PGD-AT with label smoothing",
    "trades-smoothed": "TRADES with label smoothing",
    "standard-smoothed": "standard training with label smoothing",
}
CAPITALS = re.compile(
    r"^((a?pgd|(n-)?fgsm|trades|mart|fat|me|at|frl|rst|dafa|wat|faal|codat|csr|ldam)(-(at|trades|he|ccm|ccr|cfa|ema|fawa|rs|"
    r"r?m?rw|drw|rst|ce|t|\d+))*)(?=$| \(| at )"
)


def printed_name(name: str) -> str:
    """Return an attack or a defence as papers print it, and each of several, "PGD-AT, clean"; other names as they are."""
    parts = (part.partition(" (") for part in name.split(", "))
    return ", ".join(
        f"{PRINTED.get(head) or CAPITALS.sub(lambda found: found[0].upper(), head)}{gap}{rest}" for head, gap, rest in parts
    )


def class_name(name: str) -> str:
    """Return a class as a sentence names it: "cat" of "cat", "class 8" of "8"."""
    return f"class {name}" if name.isdecimal() else name


def plural_class(name: str) -> str:
    """Return the images of a class as people say it: "cats" of "cat", "8s" of "8"."""
    return name if name == "deer" else f"{name}s"


def escape(name: str) -> str:
    """Return a name for Markdown, its tables included, and for HTML: none of its characters is read as markup."""
    return name.translate(_MARKUP)


def decimal(value: float, digits: int = 1) -> str:
    """Return a number with so many decimal places, zero without a sign: "-0.04" is "0.0" with one place."""
    return f"{value:z.{digits}f}"


def plural(number: int, noun: str) -> str:
    """Return a number of things: "1 claim", "1,200 claims"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
