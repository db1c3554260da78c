"""The book as one file."""

import errno
import os
import threading
import zipfile

import pytest
from rich.console import Console

from classwise.book import build, package
from classwise.core import files
from classwise.core.errors import UserError


def book(folder):
    (folder / "guide").mkdir(parents=True)
    for name in ("index.html", "guide/reading.html", ".buildinfo"):
        (folder / name).write_text(name)
    return folder


def test_the_same_book_gives_the_same_bytes_with_its_first_page_at_the_top(tmp_path):
    first, second = (book(tmp_path / name) for name in ("one", "two"))
    os.utime(second / "index.html", (0, 0))
    (second / "guide" / "reading.html").chmod(0o600)
    packed = [package.pack(folder, tmp_path / f"{folder.name}.zip") for folder in (first, second)]
    assert packed[0].read_bytes() == packed[1].read_bytes()
    assert sorted(zipfile.ZipFile(packed[0]).namelist()) == ["guide/reading.html", "index.html"]
    (second / "index.html").write_text("changed")
    assert package.pack(second, tmp_path / "two.zip").read_bytes() != packed[0].read_bytes()


def test_without_a_book_one_sentence_says_what_to_do(tmp_path):
    with pytest.raises(UserError, match="`make book` builds it"):
        package.pack(tmp_path / "html", tmp_path / "book.zip")
    assert not (tmp_path / "book.zip").exists()


def test_a_book_is_packed_once_no_build_is_at_work(tmp_path, monkeypatch):
    monkeypatch.setattr("classwise.core.paths.build_folder", lambda: tmp_path)
    monkeypatch.setattr(build, "build_folder", lambda: tmp_path)
    said, packed = Console(record=True, width=200), []
    with build.lock(Console(quiet=True)):  # the moment at which the old book is gone
        other = threading.Thread(target=lambda: packed.append(package.pack_book(said)))
        other.start()
        other.join(0.5)
        assert packed == []
        book(tmp_path / "html")
    other.join(60)
    assert zipfile.ZipFile(packed[0]).namelist() == ["guide/reading.html", "index.html"]
    assert "another build of the book is at work" in said.export_text()


def test_a_full_disk_leaves_the_former_file_and_no_other(tmp_path, monkeypatch):
    book(tmp_path / "html")
    former = package.pack(tmp_path / "html", tmp_path / "book.zip").read_bytes()
    (tmp_path / "html" / "index.html").write_text("another")

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        package.pack(tmp_path / "html", tmp_path / "book.zip")
    assert (tmp_path / "book.zip").read_bytes() == former
    assert {path.name for path in tmp_path.iterdir()} == {"html", "book.zip"}
