"""A web server for the report's folder: this machine only, this folder only, live.

Built on the standard library's `http.server`, which is enough for one reader at a time.
What it adds: no file outside of the folder and no hidden one is served, a browser that
was lured here by another name (DNS rebinding) is turned away, visitors cannot use up the
machine (`Visitors`), pages are revalidated and never stale, and a page that is being looked at
reloads when it was written again.
"""

from __future__ import annotations

import errno
import html
import io
import json
import mimetypes
import os
import re
import socket
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import formatdate, parsedate_to_datetime
from functools import lru_cache
from hashlib import blake2b
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote

from workbench.errors import MissingError, UsageError
from workbench.language import told
from workbench.serve.visitors import (
    AGAIN_S,
    CONNECTIONS,
    HEAD_BYTES,
    HEAD_S,
    IDLE_S,
    SEND_S,
    Visitors,
    allowed_host,
    named_host,
)
from workbench.views.html.render import POLICY

# --- news for pages that are open ---


class News:
    """What listeners wait for: that the site was written, and what is wrong with it now."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._edition = 0
        self._problem = ""
        self._over = False

    def tell(self, problem: str | None = "") -> None:
        """The site was written again, or could not be: `problem` says why (None: as before)."""
        with self._changed:
            self._edition += 1
            self._problem = self._problem if problem is None else problem
            self._changed.notify_all()

    def end(self) -> None:
        """No more news: every listener goes."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def listen(self, timeout_s: float) -> Iterator[str | None]:
        """What is wrong (empty: nothing), at once and on all news; None: nothing new so far."""
        seen = -1
        while True:
            with self._changed:
                if not self._over and self._edition == seen:
                    self._changed.wait(timeout_s)
                if self._over:
                    return
                news = self._problem if self._edition != seen else None
                seen = self._edition
            yield news


@lru_cache(maxsize=1)
def _script() -> str:
    return files("workbench").joinpath("data", "live.js").read_text(encoding="utf-8")


def with_script(page: bytes, events: str, state: str) -> bytes:
    """A page with the script that listens at its end.

    Args:
        page: The page as it lies on the disk.
        events: Address that gives the page's news.
        state: Key of what is shown; other news make the page reload.
    """
    # As JSON, with `<` as an escape: whatever an address holds, it stays a string.
    code = _script()
    for mark, value in (('"@PAGE@"', events), ('"@STATE@"', state)):
        code = code.replace(mark, json.dumps(value).replace("<", "\\u003c"))
    script = f"<script>\n{code}</script>\n".encode()
    head, end, tail = page.rpartition(b"</body>")
    return head + script + end + tail if end else page + script


# --- which files ---


def find_file(root: Path, path: str) -> Path | None:
    """The real path of what a request asks for, or None.

    Nothing outside of `root` is found, whatever way leads there: ``..``, encoded or not,
    an absolute path, a link. Nothing hidden is found either; the site keeps its records
    in hidden files.

    Args:
        root: The site's folder, resolved.
        path: The path of the request, percent-encoded, beginning with a slash.
    """
    parts = PurePosixPath(unquote(path, errors="surrogateescape").lstrip("/")).parts
    # A backslash and a colon are separators elsewhere, and in no name that the report writes.
    if any(part.startswith(".") or set(part) & {"\\", ":", "\0"} for part in parts):
        return None
    try:
        found = root.joinpath(*parts).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        return None
    inside = found.is_relative_to(root)
    hidden = inside and any(part.startswith(".") for part in found.relative_to(root).parts)
    return found if inside and not hidden else None


#: Where pages listen for news; no page of a report begins with a hyphen.
EVENTS = "/-/events"
#: Seconds between signs of life to a listener: how long a closed tab holds its thread.
_HEARTBEAT_S = 15.0
_COPY_BYTES = 1 << 16
#: Seconds and bytes that a visitor whose request is refused is still listened to.
_LINGER_S, _LINGER_BYTES = 1.0, 1 << 18

#: Pages load nothing from elsewhere, as they say themselves, and nobody else may frame or embed
#: them, which only a header can say.
_HEADERS = {
    "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    # Kept by the browser, and asked for anew each time: 304 where nothing has changed.
    "Cache-Control": "no-cache",
}


class Served(NamedTuple):
    """A file that may be served: its real path and its state when it was looked up."""

    path: Path
    status: os.stat_result


class _TurnedAwayError(Exception):
    """A request that is answered with a status and a sentence, and more headers if need be."""

    def __init__(self, status: HTTPStatus, words: str, **headers: str) -> None:
        super().__init__(words)
        self.status, self.words, self.headers = status, words, headers


class Server(ThreadingHTTPServer):
    """Serves one folder. See `listening`, which makes and ends it."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = CONNECTIONS

    def __init__(self, root: Path, host: str, port: int, *, live: bool) -> None:
        self.root = root.resolve()
        self.host = host
        self.live = live
        self.news = News()
        self.visitors = Visitors()
        self._open: Counter[str] = Counter()
        self._counting = threading.Lock()
        family, address = _address(host, port)
        self.address_family = family
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        """The address of the site's first page."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        if self.host in ("0.0.0.0", "::", ""):
            host = socket.gethostname()
        return f"http://{host}:{self.server_port}/"

    def server_bind(self) -> None:
        """Bind, without the name look-up of `HTTPServer`, which can take seconds."""
        if hasattr(socket, "SO_REUSEADDR"):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.host, self.server_address[1]

    def process_request(self, request: _Request, client_address: tuple[str, int]) -> None:
        """A thread for a visitor, if there is room for one."""
        connection = _stream(request)
        if self.visitors.enter(connection, str(client_address[0])):
            super().process_request(request, client_address)
            return
        connection.setblocking(False)  # whoever does not take it at once holds nobody up
        with suppress(OSError):
            connection.send(_NO_ROOM)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(HEAD_BYTES)
        self.close_request(request)

    def close_request(self, request: _Request) -> None:
        """The end of a connection."""
        self.visitors.leave(_stream(request))
        super().close_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """A reader who leaves in the middle of an answer is no event."""

    def state(self, path: str) -> str:
        """A key of a page and the assets that it shows; "" where there is no such page."""
        served = self.find(path)
        if served is None:
            return ""
        parts = [_tag(served.status)]
        for name in ("workbench.css", "workbench.js", "around.js"):
            asset = self.find(f"/assets/{name}")
            parts.append(_tag(asset.status) if asset else "")
        return blake2b(" ".join(parts).encode(), digest_size=8).hexdigest()

    @contextmanager
    def opened(self, path: str) -> Iterator[None]:
        """Count a page among `open_pages` for the length of the block."""
        with self._counting:
            self._open[path] += 1
        try:
            yield
        finally:
            with self._counting:
                self._open -= Counter([path])  # which keeps what is left of it, if anything

    def open_pages(self) -> frozenset[str]:
        """The pages that readers have open, by their paths below the root."""
        with self._counting:
            addresses = list(self._open)
        found = filter(None, map(self.find, addresses))
        return frozenset(page.path.relative_to(self.root).as_posix() for page in found)

    def page_written(self) -> None:
        """Tell readers to look: what is wrong, if anything, is known only at the end."""
        self.news.tell(None)

    def find(self, path: str) -> Served | None:
        """The regular file that a request's path means; a folder means its index."""
        found = find_file(self.root, path)
        if found is not None and found.is_dir():
            found = find_file(self.root, path.rstrip("/") + "/index.html")
        elif path.endswith("/"):
            return None  # a file is no folder, and its relative links would lead astray
        if found is None:
            return None
        try:
            status = found.stat()
        except OSError:
            return None
        return Served(found, status) if stat.S_ISREG(status.st_mode) else None


#: What `socketserver` says that a request may be; ours are connections.
_Request = socket.socket | tuple[bytes, socket.socket]


def _stream(request: _Request) -> socket.socket:
    assert isinstance(request, socket.socket)
    return request


_NO_ROOM = (
    "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n"
    f"Retry-After: {AGAIN_S}\r\n\r\n"
).encode()


def _address(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"{host!r} is not an address to listen on: {error}",
            "Leave out --host to serve only this machine.",
        ) from error
    family, _, _, _, address = found[0]
    return family, (str(address[0]), port)


@contextmanager
def listening(root: Path, host: str, port: int, *, live: bool = True) -> Iterator[Server]:
    """Serve `root` in threads of its own for the length of the block.

    Args:
        root: The site's folder; it need not exist yet.
        host: Address or name of an interface of this machine.
        port: 0 takes a free one; `Server.server_port` tells which.
        live: Whether pages reload by themselves (`Server.news`).

    Raises:
        MissingError: the port is taken, or may not be used.
        UsageError: the host is no address of this machine.
    """
    try:
        server = Server(root, host, port, live=live)
    except OSError as error:
        raise _cannot_listen(error, host, port) from error
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
    thread.start()
    try:
        yield server
    finally:
        server.news.end()
        server.shutdown()
        server.server_close()
        thread.join()


def _cannot_listen(error: OSError, host: str, port: int) -> MissingError | UsageError:
    if error.errno == errno.EADDRINUSE:
        return MissingError(
            f"port {port} of {host} is in use by another program",
            "`workbench serve --port 0` chooses a free one and prints it.",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return MissingError(
            f"port {port} cannot be used: {error.strerror}", "Choose one above 1023, or --port 0."
        )
    return UsageError(
        f"cannot listen on {host}: {error.strerror or error}",
        "Give an address of this machine, or leave out --host.",
    )


def _tag(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"


#: A request's first line; the target is a path of this server (RFC 9112, section 3.2.1).
_LINE = re.compile(
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) (/[\x21-\x7e]*) HTTP/([0-9])\.[0-9]\r?", re.DOTALL
)
_END = re.compile(rb"\n\r?\n")
_UNREADABLE = "This request cannot be read."


class _Handler(BaseHTTPRequestHandler):
    """The requests of one connection."""

    server: Server
    server_version = "workbench"
    sys_version = ""
    protocol_version = default_request_version = request_version = "HTTP/1.1"
    timeout = SEND_S
    requestline = command = ""

    def setup(self) -> None:
        """Before the first request."""
        super().setup()
        self._ahead, self._first, self._refused = b"", True, False

    def handle_one_request(self) -> None:
        """Read a request, see whether it is one for us, and answer it."""
        self.close_connection = True
        body = True
        try:
            head = self._head_of_request()
            if not head:
                return
            self.server.visitors.heard(self.connection, "answered")
            self.connection.settimeout(SEND_S)
            line, _, rest = head.partition(b"\n")
            self.raw_requestline, self.rfile = line, io.BytesIO(rest)
            if self.parse_request():  # which answers by itself what it cannot read
                body = self.command != "HEAD"
                self._check()
                self._answer(body)
        except _TurnedAwayError as refused:
            with suppress(ConnectionError, TimeoutError):
                self._refuse(refused, body)
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def finish(self) -> None:
        """After the last request: one that was refused is read on, or its answer would be lost."""
        super().finish()
        end, left = time.monotonic() + _LINGER_S, _LINGER_BYTES if self._refused else 0
        with suppress(OSError):
            if left:
                self.server.visitors.heard(self.connection, "asking")
                self.connection.shutdown(socket.SHUT_WR)
            while left > 0 and (seconds := end - time.monotonic()) > 0:
                self.connection.settimeout(seconds)
                left -= len(self.connection.recv(_COPY_BYTES)) or left

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a line per request would bury what the watch has to say."""

    def handle_expect_100(self) -> bool:
        """No body is waited for, so none is asked for."""
        return True

    def send_error(self, code: int, *_: str | None) -> None:
        """What the standard library refuses by itself, in our words."""
        self.close_connection = True
        raise _TurnedAwayError(HTTPStatus(code), _UNREADABLE)

    def _head_of_request(self) -> bytes:
        """All of a request, which ends with an empty line; empty where none came.

        Raises:
            _TurnedAwayError: it is too long, too slow, or its first line is none.
        """
        self.server.visitors.heard(self.connection, "asking")
        read, self._ahead = self._ahead.lstrip(b"\r\n"), b""
        end = time.monotonic() + (HEAD_S if self._first or read else IDLE_S)
        self._first = False
        looked = known = 0
        while True:
            if not known and (known := read.find(b"\n") + 1):
                self._check_line(read[: known - 1])
            if found := _END.search(read, max(0, looked - 2)):
                self._ahead = read[found.end() :]
                return read[: found.end()]
            if len(read) >= HEAD_BYTES:
                status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
                raise _TurnedAwayError(status, "This request is too long.")
            looked = len(read)
            try:
                self.connection.settimeout(max(0.001, end - time.monotonic()))
                chunk = self.connection.recv(HEAD_BYTES - len(read))
            except TimeoutError:
                if not read:
                    return b""
                status = HTTPStatus.REQUEST_TIMEOUT
                raise _TurnedAwayError(status, "This request takes too long.") from None
            if not chunk:
                return b""
            if not read:
                end = min(end, time.monotonic() + HEAD_S)
                chunk = chunk.lstrip(b"\r\n")
            read += chunk

    @staticmethod
    def _check_line(line: bytes) -> None:
        found = _LINE.fullmatch(line)
        if found is None:
            raise _TurnedAwayError(HTTPStatus.BAD_REQUEST, _UNREADABLE)
        if found[3] != b"1":
            status = HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
            raise _TurnedAwayError(status, "This server speaks HTTP/1.1.")

    def _check(self) -> None:
        """Turn away what is not a reader's request of a page of ours."""
        close, self.close_connection = self.close_connection, True
        if self.command not in ("GET", "HEAD"):
            status = HTTPStatus.METHOD_NOT_ALLOWED
            raise _TurnedAwayError(status, "This report can only be read.", Allow="GET, HEAD")
        lengths = self.headers.get_all("Content-Length", [])
        if any(each.strip("0 \t") for each in lengths) or "Transfer-Encoding" in self.headers:
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            raise _TurnedAwayError(status, "This report takes nothing in.")
        hosts = self.headers.get_all("Host", [])
        host = named_host(hosts[0].strip(" \t")) if len(hosts) == 1 else None
        if host is None:
            raise _TurnedAwayError(HTTPStatus.BAD_REQUEST, _UNREADABLE)
        name, port = host
        if port != self.server.server_port or not allowed_host(name, self.server.host):
            raise _TurnedAwayError(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"This report is at {self.server.url} and at no other address or port.",
            )
        self.close_connection = close

    def _answer(self, body: bool) -> None:
        path, _, query = self.path.partition("?")
        if path == EVENTS and self.server.live:
            self._listen(parse_qs(query).get("page", [""])[0], body)
        else:
            self._file(path, body)

    # --- files ---------------------------------------------------------------------------

    def _file(self, path: str, body: bool) -> None:
        served = self.server.find(path)
        if served is None:
            raise _TurnedAwayError(HTTPStatus.NOT_FOUND, "There is no such page in this report.")
        folder = find_file(self.server.root, path)
        if folder is not None and folder.is_dir() and not path.endswith("/"):
            # Relative links of the page would otherwise start one folder too high. One slash
            # in front, because two would lead to another host.
            self._redirect("/" + path.lstrip("/") + "/")
            return
        page = self.server.live and served.path.suffix == ".html"
        # The state is what the page's script was given, so it must be what tells a kept copy
        # from a new one; and it is taken before the file is opened: a page that is replaced in
        # between reloads once too often, and never too seldom.
        state = self.server.state(path)
        tag = f'"{state}-live"' if page else f'"{_tag(served.status)}"'
        if self._known(tag, None if page else served.status):
            self._head(HTTPStatus.NOT_MODIFIED, {"ETag": tag})
            return
        try:
            stream = served.path.open("rb")
        except OSError as error:
            raise _TurnedAwayError(HTTPStatus.NOT_FOUND, "This page cannot be read.") from error
        with stream:
            size = os.fstat(stream.fileno()).st_size
            data = b""
            if page:
                events = f"{EVENTS}?page={quote(path, safe='/%')}"
                data = with_script(stream.read(), events, state)
                size = len(data)
            headers = {
                "Content-Type": _content_type(served.path),
                "Content-Length": str(size),
                "ETag": tag,
            }
            if not page:
                headers["Last-Modified"] = formatdate(served.status.st_mtime, usegmt=True)
            self._head(HTTPStatus.OK, headers)
            if not body:
                return
            source = io.BytesIO(data) if page else stream
            while chunk := source.read(_COPY_BYTES):
                self.wfile.write(chunk)
                self.server.visitors.heard(self.connection, "answered")

    def _known(self, tag: str, status: os.stat_result | None) -> bool:
        """Whether the reader has this very file (RFC 9110, sections 13.1.2 and 13.1.3)."""
        tags = self.headers.get("If-None-Match")
        if tags is not None:
            known = [each.strip().removeprefix("W/") for each in tags.split(",")]
            return tag in known or "*" in known
        since = self.headers.get("If-Modified-Since")
        if since is None or status is None:
            return False
        try:
            return int(status.st_mtime) <= parsedate_to_datetime(since).timestamp()
        except (ValueError, OverflowError, TypeError):
            return False

    # --- live ----------------------------------------------------------------------------

    def _listen(self, page: str, body: bool) -> None:
        """Server-sent events: the key of the page, and what is wrong, on all news."""
        self.close_connection = True
        if body and not self.server.visitors.listens(self.connection):
            status = HTTPStatus.SERVICE_UNAVAILABLE
            words = "Too many pages are open to tell them all what changes."
            raise _TurnedAwayError(status, words, **{"Retry-After": str(AGAIN_S)})
        headers = {"Content-Type": "text/event-stream; charset=utf-8", "Connection": "close"}
        self._head(HTTPStatus.OK, headers)
        if not body:
            return
        with self.server.opened(page):
            for problem in self.server.news.listen(_HEARTBEAT_S):
                if problem is None:
                    self.wfile.write(b":\n\n")
                    continue
                news = json.dumps({"state": self.server.state(page), "problem": problem})
                self.wfile.write(f"data: {news}\n\n".encode())

    # --- answers --------------------------------------------------------------------------

    def _head(self, status: HTTPStatus, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _redirect(self, path: str) -> None:
        headers = {"Location": path, "Content-Length": "0"}
        self._head(HTTPStatus.MOVED_PERMANENTLY, headers)

    def _refuse(self, refused: _TurnedAwayError, body: bool) -> None:
        text = (
            f"<!doctype html><meta charset=utf-8><title>{refused.status.phrase}</title>"
            f"<p>{html.escape(told(refused.words))}\n"
        ).encode()
        headers = {"Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(text))}
        if self.close_connection:
            headers["Connection"], self._refused = "close", True
        self._head(refused.status, headers | refused.headers)
        if body:
            self.wfile.write(text)


def _content_type(path: Path) -> str:
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") or "javascript" in kind else kind
