"""The votes of people, fetched from a server of the test's own: the right file, another one, one that is cut off, and none."""

import hashlib
import io
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

from classwise.core.errors import UserError
from classwise.images import human_labels

VOTES = np.arange(20).reshape(2, 10)


def stored(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A function that lets a server send a content, cut after so many bytes, and says where the file of votes goes."""
    sent, made = {}, []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            made.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(sent["content"])))
            self.end_headers()
            self.wfile.write(sent["content"][: sent["most"]])

        def log_message(self, *_):
            pass

    server = HTTPServer(("localhost", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("CLASSWISE_IMAGES", str(tmp_path / "images"))
    monkeypatch.setattr(human_labels, "SHA256", hashlib.sha256(stored(VOTES)).hexdigest())
    monkeypatch.setattr(human_labels, "URL", f"http://localhost:{server.server_port}/data/cifar10h-counts.npy")

    def send(content, most=None):
        sent.update(content=content, most=most)
        return tmp_path / "images" / "cifar10h-counts.npy", made

    yield send
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_right_file_is_fetched_once_and_read(served, command, capsys):
    path, made = served(stored(VOTES))
    assert command("fetch", "human-labels") == 0
    assert capsys.readouterr().out.strip() == str(path)
    assert np.load(human_labels.fetch()).tolist() == VOTES.tolist()
    assert made == ["/data/cifar10h-counts.npy"]
    assert [one.name for one in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(("content", "most"), [(stored(VOTES + 1), None), (stored(VOTES), 100)], ids=["another", "cut off"])
def test_a_file_that_is_not_the_published_one_is_not_kept(served, command, capsys, content, most):
    path, _ = served(content, most)
    assert command("fetch", "human-labels") == 2
    said = capsys.readouterr().err
    assert "cannot be downloaded" in said
    assert "invalid hash value" in said
    assert f"put the file into {path.parent}, or set CLASSWISE_IMAGES" in said
    assert list(path.parent.iterdir()) == []


def test_without_a_network_it_says_where_to_put_the_file(served, monkeypatch, command, capsys):
    path, made = served(b"")
    monkeypatch.setattr(human_labels, "URL", "http://nowhere.invalid/cifar10h-counts.npy")
    assert command("fetch", "human-labels") == 2
    assert f"put the file into {path.parent}, or set CLASSWISE_IMAGES to the folder that has it" in capsys.readouterr().err
    assert (made, list(path.parent.iterdir())) == ([], [])
    path.write_bytes(stored(VOTES))  # by hand
    assert np.load(human_labels.fetch()).tolist() == VOTES.tolist()


def test_a_file_that_was_changed_is_refused(served):
    path, made = served(b"")
    path.parent.mkdir()
    path.write_bytes(stored(VOTES + 1))
    with pytest.raises(UserError, match=r"is not the file of votes that .* delete it and fetch it again"):
        human_labels.fetch()
    assert made == []
