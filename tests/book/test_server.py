"""The server of the book, over a real socket, and the names of what `classwise render` writes."""

import gzip
import http.client
import threading

import pytest

from classwise.book import notebooks, server

PAGE = "<p>class 3 é</p>" * 500


@pytest.fixture
def address(tmp_path):
    (tmp_path / "index.html").write_text(PAGE, encoding="utf-8")
    (tmp_path / "small.css").write_text("p {}")
    (tmp_path / "picture.png").write_bytes(bytes(5000))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "index.html").write_text(PAGE, encoding="utf-8")
    with server.server(tmp_path, 0) as book:
        threading.Thread(target=book.serve_forever, daemon=True).start()
        yield book.server_address[:2]
        book.shutdown()


def get(address, path, method="GET", **headers):
    connection = http.client.HTTPConnection(*address, timeout=60)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer.headers, content


@pytest.mark.parametrize("path", ["/", "/index.html", "/index.html?paper=tian2021", "/folder/"])
def test_text_is_compressed_for_a_browser_that_takes_it(address, path):
    status, headers, content = get(address, path, Accept_Encoding="deflate, gzip;q=0.8")
    assert (status, headers["Content-Encoding"]) == (200, "gzip")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert len(content) == int(headers["Content-Length"]) < len(PAGE) / 10
    assert gzip.decompress(content).decode() == PAGE


@pytest.mark.parametrize("accepted", ["gzip;q=1;x=1", "*;q=0, gzip", "GZIP ; q=0.001", "br, *"])
def test_weights_and_other_parameters_of_an_encoding_are_read(address, accepted):
    assert get(address, "/", Accept_Encoding=accepted)[1]["Content-Encoding"] == "gzip"


@pytest.mark.parametrize("path", ["/%00.html", "/%00", f"/{'long' * 100}.html", "/folder/%00/"])
def test_names_that_no_file_can_have_are_not_found(address, path):
    assert get(address, path)[0] == 404


@pytest.mark.parametrize("accepted", ["", "identity", "gzip;q=0", "br", "gzip;q=high", "gzip;q=", "gzip;q=0, *", "*;q=0"])
def test_other_browsers_get_it_as_it_is(address, accepted):
    status, headers, content = get(address, "/", Accept_Encoding=accepted)
    assert (status, headers["Content-Encoding"]) == (200, None)
    assert content.decode() == PAGE


@pytest.mark.parametrize(("path", "size"), [("/picture.png", 5000), ("/small.css", 4)])
def test_pictures_and_small_files_are_not_compressed(address, path, size):
    status, headers, content = get(address, path, Accept_Encoding="gzip")
    assert (status, headers["Content-Encoding"], len(content)) == (200, None, size)


def test_what_a_browser_has_is_not_sent_again_until_it_changes(address, tmp_path):
    _, headers, _ = get(address, "/", Accept_Encoding="gzip")
    known = {"Accept_Encoding": "gzip", "If_None_Match": headers["ETag"]}
    status, _, content = get(address, "/", **known)
    assert (status, content) == (304, b"")
    assert get(address, "/", If_None_Match=headers["ETag"])[0] == 200  # the copy is the compressed one
    (tmp_path / "index.html").write_text("<p>another</p>")
    status, _, content = get(address, "/", **known)
    assert (status, content) == (200, b"<p>another</p>")


def test_head_missing_files_and_paths_outside(address):
    status, headers, content = get(address, "/", "HEAD", Accept_Encoding="gzip")
    assert (status, content) == (200, b"")
    assert int(headers["Content-Length"]) > 0
    assert get(address, "/none.html")[0] == 404
    assert get(address, "/../../../etc/hostname")[0] == 404
    assert get(address, "/folder")[0] == 301


@pytest.mark.parametrize(
    ("given", "suffix"),
    [
        ({}, ""),
        ({"scale": "quick", "eps": None}, ""),
        ({"seeds": [0, 1], "eps": 0.1}, "_eps=0.1_seeds=0+1"),
        ({"defences": ["trades", "pgd-at"], "scale": "short"}, "_defences=trades+pgd-at_scale=short"),
    ],
)
def test_the_output_of_a_notebook_is_named_by_what_is_not_a_default(given, suffix):
    assert notebooks.suffix(notebooks.find("tian2021/4-1-class-bias"), given) == suffix


def test_names_that_are_shortened_do_not_coincide():
    source = notebooks.find("tian2021/4-1-class-bias")
    given = [{"eps": "8/255"}, {"eps": "8-255"}, {"seeds": list(range(100))}, {"seeds": list(range(101))}]
    suffixes = [notebooks.suffix(source, one) for one in given]
    assert len(set(suffixes)) == len(suffixes)
    assert all(len(suffix) < 140 and "/" not in suffix for suffix in suffixes)
    assert suffixes[0].startswith("_eps=8-255-")
