"""A web server for the report's folder: this machine only, this folder only, live.

The standard library's file server does the work. This module refuses hidden files, links that leave
the folder, and browsers that were lured here by another name (DNS rebinding). It adds a script to
pages, which asks for news and reloads a page that was rewritten.
"""

from __future__ import annotations

import errno
import io
import ipaddress
import json
import re
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import IO

from workbench.errors import MissingError, UsageError
from workbench.views.html.render import POLICY

#: Prefix of a page's path for its news. No page of a report begins with a hyphen.
NEWS = "/-/news"
_HEADERS = {
    "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    # The browser caches a file and asks each time: the answer is 304 if nothing has changed.
    "Cache-Control": "no-cache",
}
#: Seconds for which a page counts as open after it has asked for news; it asks twice a second.
_OPEN_S = 3.0
_PORT = re.compile(r":\d+$")


class Server(ThreadingHTTPServer):
    """Serves one folder; `listening` starts and ends it."""

    daemon_threads = True
    block_on_close = False
    # Otherwise another program's port would not be refused as taken.
    allow_reuse_port = False

    def __init__(self, root: Path, host: str, port: int, *, live: bool) -> None:
        self.root, self.host, self.live = root.resolve(), host, live
        #: The error that occurred while writing pages; every open page shows it at its bottom.
        self.problem = ""
        #: Path of a page below the folder -> the time at which it last asked for news.
        self.asked: dict[str, float] = {}
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        super().__init__((str(found[0][4][0]), port), partial(_Handler, directory=self.root))

    @property
    def url(self) -> str:
        """The address of the site's first page."""
        host = socket.gethostname() if self.host in ("0.0.0.0", "::", "") else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}/"

    def open_pages(self) -> frozenset[str]:
        """The pages that are open in a browser now."""
        late = time.monotonic() - _OPEN_S
        return frozenset(path for path, asked in self.asked.copy().items() if asked > late)

    def server_bind(self) -> None:
        """Bind without the name look-up of `HTTPServer`, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.host, self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing when a reader leaves in the middle of an answer."""

    def knows(self, name: str) -> bool:
        """True if `host` names this server; a defence against DNS rebinding.

        A foreign page can point its own host name at this address and then read the report as if it
        were its own; the browser sends that name. It cannot do so with an address.
        """
        with suppress(ValueError):
            return bool(ipaddress.ip_address(name))
        return name in ("localhost", self.host.lower(), socket.gethostname().lower())


class _Handler(SimpleHTTPRequestHandler):
    server: Server
    server_version, sys_version, protocol_version = "workbench", "", "HTTP/1.1"
    #: Seconds until a silent connection ends.
    timeout = 20.0

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: a line per request would bury the watch's messages."""

    def end_headers(self) -> None:
        """Add the headers of every answer."""
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def translate_path(self, path: str) -> str:
        """The real path of a file or folder of the site, or a name that no file has."""
        wanted = super().translate_path(path)
        # ValueError: a null byte, or a path outside the folder. RuntimeError: a cycle of links.
        with suppress(OSError, ValueError, RuntimeError):
            found = Path(wanted).resolve()
            inside = found.relative_to(self.server.root)
            # A browser takes a backslash for a slash, so a redirection could lead to another host.
            allowed = "\\" not in path and not any(part.startswith(".") for part in inside.parts)
            # A pipe is neither file nor folder; opening one would wait for its other end.
            if allowed and (found.is_dir() or (found.is_file() and not wanted.endswith("/"))):
                return str(found)
        return str(self.server.root / ".no such page")

    def send_head(self) -> io.BytesIO | IO[bytes] | None:  # type: ignore[override]
        """Answer with a file, a page with the script that asks for news, or news."""
        # Two Host headers become one unknown name.
        host = _PORT.sub("", ",".join(self.headers.get_all("Host", ())).lower())
        if not self.server.knows(host.strip("[]")):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, f"This report is at {self.server.url}")
            return None
        path = self.path.partition("?")[0]
        if path.lower().endswith(("/", "%2f")):
            self.path = path = f"{path}index.html"
        if self.server.live and path.startswith(f"{NEWS}/"):
            path = path.removeprefix(NEWS)
            if page := self._page(path):
                name = page.relative_to(self.server.root).as_posix()
                self.server.asked[name] = time.monotonic()
            news = {"state": self._state(path), "problem": self.server.problem}
            return self._head(json.dumps(news).encode(), "application/json")
        if self.server.live and (page := self._page(path)):
            state = self._state(path)  # read first: a page that is rewritten meanwhile reloads
            with suppress(OSError):
                text = with_script(page.read_bytes(), NEWS + path, state)
                return self._head(text, "text/html; charset=utf-8")
        return super().send_head()

    def list_directory(self, path: object) -> None:  # noqa: ARG002
        """Refuse to list a folder."""
        self.send_error(HTTPStatus.NOT_FOUND)

    def _page(self, path: str) -> Path | None:
        page = Path(self.translate_path(path))
        return page if page.suffix == ".html" and page.is_file() else None

    def _state(self, path: str) -> str:
        """A key of a page and of the assets that it shows; "" if there is no such page."""
        page = self._page(path)
        assets = sorted((self.server.root / "assets").glob("*.*")) if page else []
        with suppress(OSError):
            return " ".join(f"{each.stat().st_mtime_ns:x}" for each in [page, *assets] if each)
        return ""

    def _head(self, data: bytes, kind: str) -> io.BytesIO:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        return io.BytesIO(data)


def with_script(page: bytes, news: str, state: str) -> bytes:
    """Add the script that asks for news at a page's end.

    `news` is the address of the page's news, `state` the key of the page; the page reloads if the
    news contain another key.
    """
    # As JSON, with `<` as an escape: whatever an address holds, it stays a string.
    code = files("workbench").joinpath("data", "live.js").read_text(encoding="utf-8")
    for mark, value in (('"@NEWS@"', news), ('"@STATE@"', state)):
        code = code.replace(mark, json.dumps(value).replace("<", "\\u003c"))
    body, end, tail = page.rpartition(b"</body>")
    script = f"<script>\n{code}</script>\n".encode()
    return body + script + end + tail if end else page + script


@contextmanager
def listening(root: Path, host: str, port: int, *, live: bool = True) -> Iterator[Server]:
    """Serve `root` in separate threads for the length of the block.

    Raises:
        MissingError: the port is taken or not permitted.
        UsageError: the host is not an address of this machine.
    """
    try:
        server = Server(root, host, port, live=live)
    except (OSError, UnicodeError) as error:
        raise _cannot_listen(error, host, port) from error
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _cannot_listen(
    error: OSError | UnicodeError, host: str, port: int
) -> MissingError | UsageError:
    number = getattr(error, "errno", None)
    if number == errno.EADDRINUSE:
        return MissingError(
            f"port {port} of {host} is in use by another program",
            "`workbench serve --port 0` chooses a free one and prints it.",
        )
    if number in (errno.EACCES, errno.EPERM):
        return MissingError(
            f"port {port} cannot be used: {error}", "Choose one above 1023, or --port 0."
        )
    return UsageError(
        f"cannot listen on {host}: {error}", "Give an address of this machine, or leave out --host."
    )
