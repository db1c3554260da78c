"""A server of the built book for this machine: text is compressed, and what a browser has is not sent again."""

import gzip
import os
from email.utils import formatdate
from functools import lru_cache, partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

# Files of these types are compressed; pictures and fonts are compressed already.
_TEXT = ("text/", "application/javascript", "application/json", "image/svg+xml", "application/xml")
# A smaller file is not worth it.
_LEAST = 1024


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of the files of a folder at a port of localhost, 0 for any free one; OSError if the port is in use."""
    return ThreadingHTTPServer(("localhost", port), partial(Handler, directory=str(folder)))


@lru_cache(maxsize=256)
def _compressed(path: Path, state: tuple[int, int]) -> bytes:
    """Return the compressed content of a file; `state` are its time and its size, so that a file that changes is read again."""
    return gzip.compress(path.read_bytes(), compresslevel=6, mtime=0)


def takes_gzip(accepted: str) -> bool:
    """Return whether a browser with this header Accept-Encoding takes gzip: named, or by *, with a readable weight above 0."""
    weights = {}
    for offer in accepted.lower().split(","):
        name, *parameters = (part.strip() for part in offer.split(";"))
        weights[name] = next((_number(part[2:]) for part in parameters if part.startswith("q=")), 1.0)
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _number(text: str) -> float:
    """Return the number in a text, 0 if there is none."""
    try:
        return float(text)
    except ValueError:
        return 0.0


class Handler(SimpleHTTPRequestHandler):
    """Sends gzip where the browser takes it, and 304 where its copy is the same (ETag)."""

    protocol_version = "HTTP/1.1"

    def send_head(self) -> BytesIO | BinaryIO | None:
        """Send the status and the headers of a file and return its content; None if the browser has it."""
        name = self.translate_path(self.path.partition("?")[0].partition("#")[0])
        if "\0" in name:  # which no file has
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        path = Path(name)
        if os.path.isdir(path) and self.path.partition("?")[0].endswith("/"):
            path /= "index.html"
        if not os.path.isfile(path) or path.suffix == "" or self.path.partition("?")[0].endswith(f"{path.name}/"):
            return super().send_head()
        stat = path.stat()
        kind = self.guess_type(str(path))
        packed = kind.startswith(_TEXT) and stat.st_size >= _LEAST and takes_gzip(self.headers.get("Accept-Encoding", ""))
        tag = f'"{stat.st_mtime_ns:x}-{stat.st_size:x}{"-gzip" * packed}"'
        known = [name.strip().removeprefix("W/") for name in self.headers.get("If-None-Match", "").split(",")]
        self.send_response(HTTPStatus.NOT_MODIFIED if tag in known else HTTPStatus.OK)
        self.send_header("ETag", tag)
        self.send_header("Vary", "Accept-Encoding")
        self.send_header("Cache-Control", "no-cache")
        if tag in known:
            self.end_headers()
            return None
        content = _compressed(path, (stat.st_mtime_ns, stat.st_size)) if packed else path.read_bytes()
        charset = "; charset=utf-8" if kind.startswith("text/") else ""
        self.send_header("Content-Type", kind + charset)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Last-Modified", formatdate(stat.st_mtime, usegmt=True))
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        return BytesIO(content)
