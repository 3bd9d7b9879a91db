"""A web server for the report's folder: this machine only, this folder only, live.

Built on the standard library's `http.server`, which is enough for one reader at a time.
What it adds: no file outside of the folder and no hidden one is served, a browser that
was lured here by another name (DNS rebinding) is turned away, pages are revalidated and
never stale, and a page that is being looked at reloads when it was written again.
"""

from __future__ import annotations

import errno
import html
import ipaddress
import json
import mimetypes
import os
import socket
import stat
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate, parsedate_to_datetime
from functools import lru_cache
from hashlib import blake2b
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

from workbench.errors import MissingError, UsageError

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


# --- which files and which names ---


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


def allowed_host(header: str, bound: str) -> bool:
    """Whether a request's ``Host`` can be a reader's own doing.

    A page elsewhere can point a name of its own at this address and then read what it
    serves as if it were its own; its name is what the browser sends. So names are refused
    that are not this machine's; a port forwarded by ssh is ``localhost`` with another port.

    Args:
        header: The header; "" where there is none.
        bound: The host that the server listens on.
    """
    try:
        name = (urlsplit(f"//{header}").hostname or "").rstrip(".")
    except ValueError:
        return False
    if name == "localhost" or name == bound.lower():
        return bool(name)
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        own = {socket.gethostname().lower(), socket.getfqdn().lower()}
        return not is_loopback(bound) and name in own
    return address.is_loopback or not is_loopback(bound)


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


#: Where pages listen for news; no page of a report begins with a hyphen.
EVENTS = "/-/events"
#: Seconds between signs of life to a listener: how long a closed tab holds its thread.
_HEARTBEAT_S = 15.0
_COPY_BYTES = 1 << 16

#: Pages load nothing from elsewhere, and nobody else may frame or embed them.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self' 'unsafe-inline' data: blob:; object-src 'none'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
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
    """A request that is answered with a status and a sentence."""

    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words


class Server(ThreadingHTTPServer):
    """Serves one folder. See `listening`, which makes and ends it."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, root: Path, host: str, port: int, *, live: bool) -> None:
        self.root = root.resolve()
        self.host = host
        self.live = live
        self.news = News()
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

    def handle_error(self, request: object, client_address: object) -> None:
        """A reader who leaves in the middle of an answer is no event."""

    def state(self, path: str) -> str:
        """A key of a page and the assets that it shows; "" where there is no such page."""
        served = self.find(path)
        if served is None:
            return ""
        parts = [_tag(served.status)]
        for name in ("workbench.css", "workbench.js"):
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


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    server_version = "workbench"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds that an idle connection is kept

    def do_GET(self) -> None:
        """Answer with the file."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Answer with what would come before the file."""
        self._answer(body=False)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a line per request would bury what the watch has to say."""

    def _answer(self, *, body: bool) -> None:
        try:
            if not allowed_host(self.headers.get("Host", ""), self.server.host):
                raise _TurnedAwayError(
                    HTTPStatus.MISDIRECTED_REQUEST,
                    f"This report is at {self.server.url} and at no other address.",
                )
            address = urlsplit(self.path)
            if address.path == EVENTS and self.server.live:
                self._listen(parse_qs(address.query).get("page", [""])[0], body)
            else:
                self._file(address.path, body)
        except _TurnedAwayError as refused:
            self._refuse(refused, body)
        except (ConnectionError, TimeoutError):
            self.close_connection = True

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
            if page:
                self.wfile.write(data)
            else:
                while chunk := stream.read(_COPY_BYTES):
                    self.wfile.write(chunk)

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

    def _head(self, status: HTTPStatus, headers: dict[str, str]) -> None:
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
            f"<p>{html.escape(refused.words)}\n"
        ).encode()
        headers = {"Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(text))}
        self._head(refused.status, headers)
        if body:
            self.wfile.write(text)


def _content_type(path: Path) -> str:
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") or "javascript" in kind else kind
