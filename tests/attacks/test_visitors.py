"""Visitors of `serve` who mean no good: a proper one is answered meanwhile.

`serve` is the one command that listens; it runs as it is, and everything comes over its port.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks import harness
from tests.attacks.book import Portion, Turn, book, dealt

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1200)]

#: What stands in files that nobody may read.
SECRET = b"nobody-may-read-this"
#: Connections of a crowd.
CROWD = 300
#: What the server may have grown by, in KiB, whatever came.
GROWTH_KIB = 200 << 10
#: Seconds for an answer.
WAIT_S = 20.0


class Served:
    """A server that runs, and what is said to it."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid, self.port = pid, port
        self.host = f"127.0.0.1:{port}"
        self.before = self.resident()

    def resident(self) -> int:
        """KiB of memory that it takes."""
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
        assert found is not None
        return int(found[1])

    def connect(self) -> socket.socket:
        """A connection."""
        return socket.create_connection(("127.0.0.1", self.port), WAIT_S)

    def said(self, words: bytes) -> bytes:
        """What is answered to these bytes, behind which nothing comes."""
        answer = b""
        with contextlib.closing(self.connect()) as one:
            with contextlib.suppress(ConnectionError):
                one.sendall(words)
            with contextlib.suppress(OSError):  # already ended
                one.shutdown(socket.SHUT_WR)
            end = time.monotonic() + WAIT_S  # an answer that never ends is none that is expected
            with contextlib.suppress(ConnectionError, TimeoutError):
                while time.monotonic() < end and (piece := one.recv(1 << 16)):
                    answer += piece
        return answer

    def asked(self, line: str, *headers: str, host: str | None = None) -> bytes:
        """What is answered to a request; of the Host's own, if `host` says nothing else."""
        head = [line, f"Host: {self.host if host is None else host}", "Connection: close", *headers]
        return self.said("\r\n".join([*head, "", ""]).encode("latin-1"))

    def still(self, turn: Turn, words: object) -> None:
        """Whether a proper visitor is answered, and no memory is gone."""
        try:
            answer = self.asked("GET /index.html HTTP/1.1")
        except OSError as error:
            answer = str(error).encode()
        whole = answer.startswith(b"HTTP/1.1 200 ") and b"</html>" in answer
        book.must(whole, turn.kind, f"a proper visitor got {answer[:200]!r} beside {words}")
        grown = self.resident() - self.before
        book.must(grown < GROWTH_KIB, turn.kind, f"{grown} KiB more after {words}")


def status(answer: bytes) -> int:
    """Of an answer; 0 where there is none."""
    found = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
    return int(found[1]) if found else 0


@pytest.fixture
def served(root: Path) -> Iterator[Served]:
    """`workbench serve` of a project with secrets beside its pages, and hidden among them."""
    (root / "secret.txt").write_bytes(SECRET)
    (root.parent / "outside" / "secret.txt").write_bytes(SECRET)
    assert harness.run("report", root).code == 0
    (root / "reports" / ".secret.html").write_bytes(SECRET)
    (root / "reports" / "out.txt").symlink_to(root / "secret.txt")
    (root / "reports" / "outside").symlink_to(root.parent / "outside")
    log, known = root.parent / "serve.log", harness.children()

    def act() -> object:
        signal.alarm(0)  # it runs as long as the attacks last
        return harness.command("serve --port 0")()

    pid = harness.start(act, root, log)
    end = time.monotonic() + 60
    while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/", _text(log))):
        assert time.monotonic() < end, _text(log)
        time.sleep(0.05)
    yield Served(pid, int(found[1]))
    book.must((root / "secret.txt").read_bytes() == SECRET, "visitors", "a secret was changed")
    os.kill(pid, signal.SIGINT)
    ended = harness.finish(pid, log)
    book.must(ended.code == 130 and "Traceback" not in ended.text, "visitors", ended)
    book.must(not harness.children() - known, "visitors", "a server left something behind")


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


#: ``{port}`` is the server's own.
HOSTS = (
    "evil.com", "evil.com:{port}", "evil.com@127.0.0.1", "evil.com@127.0.0.1:{port}",
    "127.0.0.1:{port}@evil.com", "127.0.0.1/evil", "127.0.0.1:{port}/evil",
    "127.0.0.1:{port}?evil", "127.0.0.1:{port}#evil", "127.0.0.1.evil.com:{port}",
    "localhost.evil.com:{port}", "evil.localhost:{port}", "127.1:{port}", "2130706433:{port}",
    "0x7f000001:{port}", "0177.0.0.1:{port}", "0:{port}", "[::1]evil:{port}", "[]:{port}",
    "localhost:", "localhost:-{port}", "localhost:+{port}", "localhost:{port}.0",
    "local host:{port}", "localhost,evil.com:{port}", "localhost:{port}, evil.com", "", ":{port}",
    ".", "..:{port}", "localhost..:{port}", "%6cocalhost:{port}", "localhost%00:{port}",
    "localhost\x00:{port}", "http://localhost:{port}", "//localhost:{port}",
    "\\localhost:{port}", "user:pass@localhost:{port}", "localhost;evil:{port}", "*", "null",
    "l\xf6calhost:{port}", "a" * 5000 + ":{port}",
)  # fmt: skip


@pytest.mark.parametrize("portion", dealt("hostile hosts", len(HOSTS), 2))
def test_hosts(served: Served, portion: Portion) -> None:
    for turn in book.turns(portion):
        host = HOSTS[turn.number].replace("{port}", str(served.port))
        for line in ("GET /index.html HTTP/1.1", "HEAD / HTTP/1.1", "GET /-/news/ HTTP/1.1"):
            book.tried(turn.kind)
            answer = served.asked(line, host=host)
            book.ended(turn.kind, status(answer))
            book.must(status(answer) == 421, turn.kind, (host, line, answer[:200]))
        for several in (f"Host: {host}", f"X-Forwarded-Host: {host}"):
            book.tried(turn.kind)
            answer = served.asked("GET /index.html HTTP/1.1", several)
            expected = 421 if several.startswith("Host") else 200
            book.must(status(answer) == expected, turn.kind, (several, answer[:200]))
        served.still(turn, host)


UP = (
    "..", "%2e%2e", "%2E.", ".%2e", "%252e%252e", "..%00", "%c0%ae%c0%ae", "%e0%80%ae%e0%80%ae",
    "%u002e%u002e", "..;", "..%20", "%ef%bc%8e%ef%bc%8e", "....", ".%00.", "studies/..",
)  # fmt: skip
SLASHES = ("/", "%2f", "\\", "%5c", "//", "/./", "%c0%af", "%252f", "%e2%88%95", "/%2f/")
ENDS = (
    "secret.txt",
    "outside/demo/../secret.txt",
    "reports/.secret.html",
    "workbench.toml",
    "etc/passwd",
    "secret.txt%00.html",
)
PLAIN = (
    "/.secret.html", "/%2esecret.html", "/.manifest.json", "/.lock", "/out.txt", "/outside/",
    "/outside/secret.txt", "/outside/demo/v0.cu", "//etc/passwd", "///etc/passwd", "/%2fetc/passwd",
    "/C:/secret.txt", "/C:%5csecret.txt", "/file:///etc/passwd", "/proc/self/environ", "/%00",
    "/index.html%00", "/index.html/", "/index.html/..", "/index.html/../../secret.txt",
    "/studies/../index.html/../../secret.txt", "/" + "a" * 4000, "/" + "a/" * 4000,
    "/" + "../" * 4000 + "etc/passwd", "/" + "%2e%2e%2f" * 1500, "/~root",
    "/-/news/../secret.txt",
    "/-/news", "/-/news?page=/../secret.txt", "/-/news/%00", "/\\evil.com/%2e%2e", "/%ff%fe", "/%",
    "/%zz", "/%2", "/assets/../../secret.txt", "/assets/%2e%2e/%2e%2e/secret.txt",
    "/?../secret.txt", "/CON", "/index.html::$DATA", "/index.html.", "/INDEX.HTML%20",
)  # fmt: skip
PATHS = (*PLAIN, *(f"/{(up + slash) * 3}{end}" for up in UP for slash in SLASHES for end in ENDS))


@pytest.mark.parametrize("portion", dealt("hostile paths", len(PATHS), 4))
def test_paths(served: Served, portion: Portion) -> None:
    for turn in book.turns(portion):
        path = PATHS[turn.number]
        book.tried(turn.kind)
        answer = served.asked(f"GET {path} HTTP/1.1")
        book.ended(turn.kind, status(answer))
        book.must(status(answer) in (200, 301, 400, 404), turn.kind, (path, answer[:200]))
        leaks = SECRET in answer or b"root:" in answer or b"default_study" in answer
        book.must(not leaks, turn.kind, (path, answer[-200:]))
        away = re.search(rb"\nLocation: (?!/[^/\\\r])", answer)
        book.must(away is None, turn.kind, (path, answer[:300]))
        served.still(turn, path)


LINES = (
    "GET http://[ HTTP/1.1", "GET http://[", "GET http://[::1 HTTP/1.1", "GET", "GET ", "GET /",
    "get / HTTP/1.1", "GET / HTTP/1.1 x", "GET / HTTP/1", "GET / HTTP/1.", "GET / HTTP/1.1.1",
    "GET / HTTP/-1.1", "GET / HTTP/9.9", "GET / HTTP/2.0", "GET / HTTP/0.9", "GET / http/1.1",
    "GET / HTTP/1.\u00b9", "GET / ICY/1.1", "GET\t/\tHTTP/1.1", "GET  /  HTTP/1.1",
    " GET / HTTP/1.1",
    "GET /a b HTTP/1.1", "GET /\u00e4 HTTP/1.1", "GET * HTTP/1.1", "GET evil.com:443 HTTP/1.1",
    "GET http://evil.com/ HTTP/1.1", "GET //evil.com HTTP/1.1x", "CONNECT evil.com:443 HTTP/1.1",
    "PRI * HTTP/2.0", "OPTIONS * HTTP/1.1", "\x00", "\x16\x03\x01\x02", "GET /\x00 HTTP/1.1",
    "GET /\x1b[2J HTTP/1.1", "GET /\r HTTP/1.1", "__init__ / HTTP/1.1", "A" * 40 + " / HTTP/1.1",
    "GET ?x HTTP/1.1", "GET #x HTTP/1.1", "HTTP/1.1 200 OK", "GET / HTTP/1.1\x00", ":",
    "\u00ff" * 9, "GET /" + "a" * 20_000 + " HTTP/1.1", "A" * 70_000,
)  # fmt: skip
METHODS = ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "LOCK", "X")
BODIES = (
    ("Content-Length: 5", "hello"),
    ("Content-Length: 99999999999999999999", ""),
    ("Content-Length: -1", ""),
    ("Content-Length: 0x5", "hello"),
    ("Content-Length: 5\r\nContent-Length: 6", "hello!"),
    ("Content-Length: 0\r\nContent-Length: 6", "hello!"),
    ("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\nContent-Length: 0", "ffffffffffffffff\r\n"),
    ("Transfer-Encoding: xchunked", ""),
    ("Content-Length: 9\r\nExpect: 100-continue", ""),
    ("Content-Length: 1048576", "x" * (1 << 20)),
)
FLOODS = (
    "X: y\r\n" * 101, "X: y\r\n" * 100_000, "X: " + "y" * 20_000, "y" * 200_000,
    "X" * 20_000 + ": y",
    "\r\n ".join(["X: y"] * 5000), ":\r\n" * 5000, "Cookie: " + "a=b; " * 5000,
    "X: y\n" * 20_000,
)  # fmt: skip
#: Headers that change nothing: the page is served as it is.
IGNORED = (
    "Range: bytes=0-1", "Range: bytes=-9999999999999", "Range: bytes=" + "0-1," * 1000 + "1-2",
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x", "Upgrade: h2c",
    "HTTP2-Settings: x", "Expect: 100-continue", "Expect: x", "TE: trailers", "Max-Forwards: 0",
    "If-None-Match: " + '"x", ' * 2000, "If-Modified-Since: never", "If-Range: x", "Cookie: \x00",
    "If-Modified-Since: Sat, 99 Jan 99999 99:99:99 GMT", "Accept-Encoding: gzip, br, x;q=nan",
    "X-Original-URL: /.secret.html", "X-HTTP-Method-Override: DELETE", "Origin: http://evil.com",
    "Forwarded: host=evil.com", "Content-Length: 0", "Referer: http://evil.com/",
)  # fmt: skip
#: What is sent behind a proper host's line or instead of it, and whether it must be refused.
REQUESTS: tuple[tuple[str, str, bool], ...] = (
    *((line, "", False) for line in LINES),
    *((f"{method} /index.html HTTP/1.1", "", True) for method in METHODS),
    *(("GET / HTTP/1.1", f"{head}\r\n\r\n{body}", False) for head, body in BODIES),
    *(("POST / HTTP/1.1", f"{head}\r\n\r\n{body}", True) for head, body in BODIES),
    *(("GET / HTTP/1.1", flood, False) for flood in FLOODS),
    *(("GET /index.html HTTP/1.1", header, False) for header in IGNORED),
)


@pytest.mark.parametrize("portion", dealt("hostile requests", len(REQUESTS), 4))
def test_requests(served: Served, portion: Portion) -> None:
    for turn in book.turns(portion):
        line, more, refused = REQUESTS[turn.number]
        book.tried(turn.kind)
        answer = served.asked(line, *([more] if more else []))
        book.ended(turn.kind, status(answer))
        told = (line[:60], more[:60], answer[:200])
        book.must(status(answer) in (100, 501) or not refused, turn.kind, told)
        book.must(b"101 Switching" not in answer and SECRET not in answer, turn.kind, told)
        served.still(turn, told)


def mutant(proper: bytes, rng: random.Random) -> bytes:
    """A request with some of its bytes changed, repeated or left out."""
    out = bytearray(proper)
    for _ in range(rng.randint(1, 6)):
        at, size = rng.randrange(len(out) + 1), rng.randint(1, 12)
        change = rng.randrange(4)
        if change == 0:
            out[at : at + size] = b""
        elif change == 1:
            out[at:at] = rng.randbytes(size)
        elif change == 2:
            out[at:at] = out[at : at + size] * rng.choice((1, 2, 300))
        else:
            out[at:at] = rng.choice((b"\r\n", b"\n", b"\0", b" ", b"\r\n\r\n", b"HTTP/1.1", b"%"))
        out = out or bytearray(b"G")
    return bytes(out)


@pytest.mark.parametrize("portion", dealt("request mutants", 3000, 4))
def test_mutants(served: Served, portion: Portion) -> None:
    proper = f"GET /studies/demo/ HTTP/1.1\r\nHost: {served.host}\r\nConnection: close\r\n\r\n"
    for turn in book.turns(portion):
        words = mutant(proper.encode(), turn.rng)
        book.tried(turn.kind)
        answer = served.said(words)
        book.ended(turn.kind, status(answer))
        known = status(answer) in (0, 200, 301, 304, 400, 404, 414, 421, 431, 501, 505)
        book.must(known and SECRET not in answer, turn.kind, (words, answer[:200]))
        if turn.number % 10 == 0:
            served.still(turn, words)


#: What each of a crowd says, and whether it goes at once.
CROWDS: dict[str, tuple[str, bool]] = {
    "silent": ("", False),
    "half a head": ("GET / HTTP/1.1\r\nHost: {host}\r\nX: ", False),
    "not reading": ("GET /index.html HTTP/1.1\r\nHost: {host}\r\n\r\n" * 40, False),
    "idle": ("HEAD / HTTP/1.1\r\nHost: {host}\r\n\r\n", False),
    "gone": ("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n", True),
}


@pytest.mark.parametrize("portion", dealt("crowds", len(CROWDS), 2))
def test_crowds(served: Served, portion: Portion) -> None:
    for turn in book.turns(portion):
        crowd, (words, leaves) = list(CROWDS.items())[turn.number]
        said = words.replace("{host}", served.host).encode()
        book.tried(turn.kind)
        with contextlib.ExitStack() as opened:
            for number in range(CROWD):
                one = opened.enter_context(served.connect())
                with contextlib.suppress(ConnectionError):
                    one.sendall(said)
                if leaves:
                    one.close()
                if number % 50 == 0:
                    served.still(turn, (crowd, number))
        served.still(turn, (crowd, "afterwards"))
