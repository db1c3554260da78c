"""Text within Markdown and HTML: names that others chose, such as those of folders and files, and numbers."""

# What Markdown, HTML or a formula would read as markup; each is written as an entity of HTML.
_MARKUP = str.maketrans({character: f"&#{ord(character)};" for character in "&<>\"'|*_`[]$~\\"})


def escaped(name: str) -> str:
    """Return a name for Markdown, its tables included, and for HTML: none of its characters is read as markup."""
    return name.translate(_MARKUP)


def decimal(value: float, digits: int = 1) -> str:
    """Return a number with so many decimal places, zero without a sign: "-0.04" is "0.0" with one place."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def counted(number: int, noun: str) -> str:
    """Return a number of things: "1 claim", "1,200 claims"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
