"""The built book as one file, which opens without a server after unpacking."""

from pathlib import Path

from rich.console import Console

import classwise
from classwise.book import build
from classwise.book.data import archive
from classwise.core import paths
from classwise.core.errors import UserError
from classwise.core.files import write


def pack(html: Path, target: Path) -> Path:
    """Write the files of a built book as a zip file with index.html at its top; the same book gives the same bytes.

    Hidden files, which only a next build needs, are left out. A missing book is a UserError.
    """
    if not (html / "index.html").exists():
        raise _no_book(html)
    files = {path.relative_to(html): path for path in html.rglob("*") if path.is_file()}
    shown = {name: path for name, path in files.items() if not any(part.startswith(".") for part in name.parts)}
    write(target, archive({name.as_posix(): path.read_bytes() for name, path in shown.items()}))
    return target


def pack_book(console: Console) -> Path:
    """Pack the book in build/html, which no build replaces meanwhile, and return the file: build/classwise-book-VERSION.zip."""
    folder = paths.build_folder()
    if not folder.exists():
        raise _no_book(folder / "html")
    with build.lock(console):
        return pack(folder / "html", folder / f"classwise-book-{classwise.__version__}.zip")


def _no_book(html: Path) -> UserError:
    return UserError(f"there is no book in {html} yet; `make book` builds it")
