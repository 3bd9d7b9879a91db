"""The report's server: what it serves, what it refuses, and how it tells news."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workbench.errors import MissingError, UsageError
from workbench.serve import visitors
from workbench.serve.server import (
    EVENTS,
    News,
    Server,
    find_file,
    listening,
    with_script,
)

PAGE = "<!doctype html><html><head></head><body><h1>Studies</h1></body></html>"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A site, and beside it what must not be served."""
    site = tmp_path / "reports"
    (site / "assets").mkdir(parents=True)
    (site / "studies" / "demo").mkdir(parents=True)
    (site / "index.html").write_text(PAGE)
    (site / "studies" / "demo" / "index.html").write_text(PAGE)
    (site / "studies" / "demo" / "v2..v3.html").write_text(PAGE)
    (site / "assets" / "workbench.css").write_text("body{}")
    (site / "assets" / "workbench.js").write_text("1")
    (site / ".manifest.json").write_text("{}")
    (site / ".hidden").mkdir()
    (site / ".hidden" / "a.html").write_text("hidden")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "reports-secret").mkdir()
    (tmp_path / "reports-secret" / "a.txt").write_text("secret")
    (site / "out.txt").symlink_to(tmp_path / "secret.txt")
    (site / "outside").symlink_to(tmp_path / "reports-secret")
    (site / "manifest.json").symlink_to(site / ".manifest.json")
    (site / "again.html").symlink_to(site / "index.html")
    (site / "loop").symlink_to(site / "loop")
    return site


@pytest.fixture
def server(root: Path) -> Iterator[Server]:
    with listening(root, "127.0.0.1", 0) as running:
        yield running


class Answer:
    """Status, headers and body of one request."""

    def __init__(self, server: Server, path: str, *, method: str = "GET", **headers: str) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)) as c:
            c.putrequest(method, path, skip_host=True)
            sent = {"Host": f"127.0.0.1:{server.server_port}"} | {
                name.replace("_", "-"): value for name, value in headers.items()
            }
            for name, value in sent.items():
                if value:
                    c.putheader(name, value)
            c.endheaders()
            response = c.getresponse()
            self.status = response.status
            self.headers = response.headers
            self.body = response.read()


# --- what is served ------------------------------------------------------------------


def test_a_page_an_asset_and_a_folder(server: Server) -> None:
    page = Answer(server, "/index.html")
    assert page.status == 200 and b"<h1>Studies</h1>" in page.body
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert int(page.headers["Content-Length"]) == len(page.body)
    style = Answer(server, "/assets/workbench.css")
    assert (style.status, style.body) == (200, b"body{}")
    assert style.headers["Content-Type"] == "text/css; charset=utf-8"
    script = Answer(server, "/assets/workbench.js")
    assert "javascript" in script.headers["Content-Type"]
    for path in ("/", "/studies/demo/", "/studies/demo/v2..v3.html", "/again.html"):
        assert Answer(server, path).status == 200, path


def test_a_folder_without_a_slash_is_sent_to_the_one_with(server: Server) -> None:
    answer = Answer(server, "/studies/demo")
    assert answer.status == 301 and answer.headers["Location"] == "/studies/demo/"
    # Two slashes at the front would name another host.
    assert Answer(server, "//studies/demo").headers.get("Location", "/").count("//") == 0


def test_a_query_is_no_part_of_the_file(server: Server) -> None:
    assert Answer(server, "/index.html?x=../../secret").status == 200


def test_head_gives_the_headers_alone(server: Server) -> None:
    whole, head = Answer(server, "/index.html"), Answer(server, "/index.html", method="HEAD")
    assert head.body == b"" and head.status == 200
    assert head.headers["Content-Length"] == whole.headers["Content-Length"]
    assert head.headers["ETag"] == whole.headers["ETag"]


def test_other_methods_are_not_allowed(server: Server) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
        answer = Answer(server, "/index.html", method=method)
        assert answer.status == 405 and answer.headers["Allow"] == "GET, HEAD"


def test_a_page_may_load_nothing_from_elsewhere_nor_be_framed(server: Server) -> None:
    headers = Answer(server, "/index.html").headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Python" not in headers["Server"]


# --- what is not ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/studies/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/%2e%2e%2fsecret.txt",
        "/..%2fsecret.txt",
        "/studies/%2e%2e/%2e%2e/secret.txt",
        "/..%5csecret.txt",
        "/%252e%252e/secret.txt",
        "//etc/passwd",
        "/%2fetc/passwd",
        "/../reports-secret/a.txt",
        "/out.txt",
        "/outside/a.txt",
        "/loop",
        "/.manifest.json",
        "/%2emanifest.json",
        "/manifest.json",
        "/.hidden/a.html",
        "/.hidden/",
        "/studies/./../.manifest.json",
        "/assets/",
        "/index.html/",
        "/index.html%00.css",
        "/nothing.html",
        "/" + "a" * 5000,
        "/%ff%fe",
        "/-/events/x",
    ],
)
def test_nothing_outside_hidden_or_absent_is_served(server: Server, path: str) -> None:
    answer = Answer(server, path)
    assert answer.status == 404
    assert b"secret" not in answer.body and b"{}" not in answer.body
    assert b"hidden" not in answer.body and b"root:" not in answer.body


def test_a_pipe_is_no_file_and_holds_nobody_up(root: Path, server: Server) -> None:
    os.mkfifo(root / "pipe.html")
    assert Answer(server, "/pipe.html").status == 404


def test_a_file_that_may_not_be_read_is_not_there(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refused)
    assert Answer(server, "/index.html").status == 404


def test_the_answer_to_a_wrong_path_does_not_repeat_it(server: Server) -> None:
    assert b"<script" not in Answer(server, "/%3Cscript%3Ealert(1)%3C/script%3E").body


paths = st.text("./\\%2e5cabc:~\0é-", max_size=30)


@given(paths)
@example("../secret.txt")
@example("%2e%2e/secret.txt")
@example("//../secret.txt")
def test_whatever_is_found_is_inside_and_not_hidden(path: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "site").resolve()
        (root / "a").mkdir(parents=True)
        for name in ("a/b", ".c", "a/.b"):
            (root / name).write_text("x")
        Path(folder, "a").write_text("outside")
        found = find_file(root, "/" + path)
        if found is not None:
            assert found.is_relative_to(root)
            assert not any(part.startswith(".") for part in found.relative_to(root).parts)


# --- who may ask ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "bound", "allowed"),
    [
        ("127.0.0.1:8000", "127.0.0.1", True),
        ("localhost:8000", "127.0.0.1", True),
        ("LOCALHOST:8000", "127.0.0.1", True),
        ("localhost.:8000", "127.0.0.1", True),
        ("[::1]:8000", "127.0.0.1", True),
        ("[::1]:8000", "::1", True),
        ("localhost:1", "127.0.0.1", False),
        ("localhost", "127.0.0.1", False),
        ("evil.example:8000", "127.0.0.1", False),
        ("127.0.0.1.evil.example:8000", "127.0.0.1", False),
        ("localhost.evil.example:8000", "127.0.0.1", False),
        ("0.0.0.0:8000", "127.0.0.1", False),
        ("2130706433:8000", "127.0.0.1", False),
        ("192.168.1.7:8000", "127.0.0.1", False),
        ("[::2]:8000", "::1", False),
        ("192.168.1.7:8000", "0.0.0.0", True),
        ("[fe80::1]:8000", "::", True),
        ("evil.example:8000", "0.0.0.0", False),
        ("box.lan:8000", "box.lan", True),
        (f"{socket.gethostname()}:8000", "0.0.0.0", True),
    ],
)
def test_names_that_are_answered(header: str, bound: str, allowed: bool) -> None:
    host = visitors.named_host(header)
    assert host is not None
    assert (host[1] == 8000 and visitors.allowed_host(host[0], bound)) is allowed


@pytest.mark.parametrize(
    "header",
    [
        *("", ":8000", "[::1", "::1:8000", "[127.0.0.1:8000", "localhost:", "localhost:8000:1"),
        *("evil.example@127.0.0.1:8000", "127.0.0.1:8000@evil.example", "127.0.0.1/evil"),
        *("http://127.0.0.1:8000", "127.0.0.1:8000/", "127.0.0.1:8000?x", "127.0.0.1:8000#x"),
        *("127.0.0.1\\@evil", "localhost:٣", "lócalhost:8000", "local host:8000", "localhost:-1"),
        *("localhost:800000", "%6cocalhost:8000", "localhost\x00:8000", "a,localhost:8000"),
    ],
)
def test_what_is_no_host(header: str) -> None:
    assert visitors.named_host(header) is None


def test_another_name_is_turned_away(server: Server) -> None:
    port = server.server_port
    for path in ("/index.html", EVENTS):
        for host in (f"evil.example:{port}", "localhost:1", "127.0.0.1"):
            answer = Answer(server, path, Host=host)
            assert answer.status == 421 and b"Studies" not in answer.body
        for host in ("evil.com@127.0.0.1", "127.0.0.1/evil", ""):
            assert Answer(server, path, Host=host).status == 400


# --- how many, and how long ------------------------------------------------------------


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair()


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[socket.socket]]:
    """Room for three, two of an address; sockets to put there."""
    monkeypatch.setattr(visitors, "CONNECTIONS", 3)
    monkeypatch.setattr(visitors, "OF_ONE", 2)
    monkeypatch.setattr(visitors, "STUCK_S", 0.0)
    ends = [pair() for _ in range(5)]
    yield [ours for ours, _ in ends]
    for one in ends:
        for end in one:
            end.close()


def test_who_asks_for_nothing_makes_room(two: list[socket.socket]) -> None:
    here = visitors.Visitors()
    assert here.enter(two[0], "a") and here.enter(two[1], "a")
    here.heard(two[1], "answered")
    assert here.enter(two[2], "a")  # in place of the first
    assert two[0].recv(1) == b""
    assert len(here) == 2
    here.leave(two[1])
    here.leave(two[1])
    assert len(here) == 1


def test_who_is_answered_does_not(
    two: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = visitors.Visitors()
    monkeypatch.setattr(visitors, "STUCK_S", 3600.0)
    for number, address in enumerate("aab"):
        assert here.enter(two[number], address)
        here.heard(two[number], "answered")
    assert not here.enter(two[3], "a") and not here.enter(two[3], "c")
    monkeypatch.setattr(visitors, "STUCK_S", -1.0)
    assert here.enter(two[3], "c")  # in place of one that takes nothing of its answer


def test_half_of_them_may_listen_and_who_left_makes_room() -> None:
    here = visitors.Visitors()
    ends = [pair() for _ in range(visitors.OF_ONE // 2 + 1)]
    for ours, _ in ends:
        assert here.enter(ours, "a")
    assert [here.listens(ours) for ours, _ in ends] == [True] * (len(ends) - 1) + [False]
    assert not here.listens(socket.socket())
    ends[0][1].close()
    assert here.listens(ends[-1][0])
    for one in ends:
        for end in one:
            end.close()


def talk(server: Server, *said: bytes) -> bytes:
    """All that a connection is answered when this is said to it."""
    with closing(socket.create_connection(("127.0.0.1", server.server_port), timeout=60)) as c:
        for words in said:
            c.sendall(words)
        answer = b""
        while piece := c.recv(65536):
            answer += piece
        return answer


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET http://[ HTTP/1.1\r\n", 400),
        (b"GET http://[\r\n", 400),
        (b"GET /\r\n", 400),
        (b"GET  / HTTP/1.1\r\n", 400),
        (b"GET / HTTP/2.0\r\n", 505),
        (b"PRI * HTTP/2.0\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: {host}\r\nHost: {host}\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\n\r\nhello", 413),
        (b"GET / HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n", 413),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * (20 << 10), 431),
        (b"GET /" + b"y" * (20 << 10), 431),
        (b"POST / HTTP/1.1\r\nHost: {host}\r\n\r\n", 405),
    ],
)
def test_what_is_no_request_is_told_so_and_ended(
    server: Server, request_: bytes, status: int
) -> None:
    host = f"127.0.0.1:{server.server_port}".encode()
    answer = talk(server, request_.replace(b"{host}", host))
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nConnection: close\r\n" in answer and b"Studies" not in answer
    assert len(server.visitors) == 0 or Answer(server, "/").status == 200


def test_a_slow_request_is_ended(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.serve.server.HEAD_S", 0.2)
    assert talk(server) == b""
    assert talk(server, b"GET / HT").startswith(b"HTTP/1.1 408 ")


def test_several_requests_of_one_connection(server: Server) -> None:
    host = f"Host: 127.0.0.1:{server.server_port}\r\n".encode()
    one = b"GET /index.html HTTP/1.1\r\n" + host + b"\r\n"
    last = b"HEAD / HTTP/1.1\r\n" + host + b"Connection: close\r\n\r\n"
    answer = talk(server, one + b"\r\n" + one[:9], one[9:], last)
    assert answer.count(b"HTTP/1.1 200 OK") == 3 and answer.count(b"<h1>Studies</h1>") == 2


def test_no_room_is_told_with_when_to_come_back(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visitors.Visitors, "enter", lambda *_: False)
    answer = talk(server)
    assert answer.startswith(b"HTTP/1.1 503 ") and b"\r\nRetry-After: " in answer
    monkeypatch.undo()
    monkeypatch.setattr(visitors.Visitors, "listens", lambda *_: False)
    assert Answer(server, EVENTS).status == 503
    assert Answer(server, "/index.html").status == 200


# --- caches --------------------------------------------------------------------------


def test_an_unchanged_file_is_not_sent_again(root: Path, server: Server) -> None:
    for path in ("/index.html", "/assets/workbench.css"):
        first = Answer(server, path)
        assert first.headers["Cache-Control"] == "no-cache"
        tag = first.headers["ETag"]
        again = Answer(server, path, If_None_Match=f'"other", W/{tag}')
        assert again.status == 304 and again.body == b"" and again.headers["ETag"] == tag
        assert Answer(server, path, If_None_Match='"other"').status == 200


def test_dates_serve_where_tags_are_not_sent(server: Server) -> None:
    path = "/assets/workbench.css"
    date = Answer(server, path).headers["Last-Modified"]
    assert Answer(server, path, If_Modified_Since=date).status == 304
    old = "Mon, 01 Jan 2001 00:00:00 GMT"
    assert Answer(server, path, If_Modified_Since=old).status == 200
    assert Answer(server, path, If_Modified_Since="nonsense").status == 200


def test_a_written_page_is_sent_at_once(root: Path, server: Server) -> None:
    tag = Answer(server, "/index.html").headers["ETag"]
    (root / "index.html").write_text(PAGE.replace("Studies", "New"))
    again = Answer(server, "/index.html", If_None_Match=tag)
    assert again.status == 200 and b"New" in again.body


def test_a_new_stylesheet_makes_a_kept_page_old(root: Path, server: Server) -> None:
    """Otherwise a page from the cache would find its own key out of date for ever."""
    tag = Answer(server, "/index.html").headers["ETag"]
    (root / "assets" / "workbench.css").write_text("body{color:red}")
    assert Answer(server, "/index.html", If_None_Match=tag).status == 200


# --- live ----------------------------------------------------------------------------


def shown(page: bytes) -> str:
    """The key that a served page was given."""
    return page.decode().partition('shown = "')[2].partition('"')[0]


class Listener:
    """A browser's end of the event stream."""

    def __init__(self, server: Server, page: str = "/index.html") -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
        self.connection.request("GET", f"{EVENTS}?page={page}")
        self.response = self.connection.getresponse()

    def next(self) -> dict[str, str]:
        line = self.response.readline()
        while not line.startswith(b"data: "):
            assert line, "the stream has ended"
            line = self.response.readline()
        news: dict[str, str] = json.loads(line[6:])
        return news

    def close(self) -> None:
        self.response.close()
        self.connection.close()


def test_the_script_is_in_what_is_served_and_not_in_the_file(root: Path, server: Server) -> None:
    page = Answer(server, "/index.html").body
    assert page.count(b"EventSource") == 1 and page.rstrip().endswith(b"</body></html>")
    assert shown(page) == server.state("/index.html") != ""
    assert (root / "index.html").read_text() == PAGE
    assert b"EventSource" not in Answer(server, "/assets/workbench.js").body


def test_a_reader_is_told_that_its_page_was_written(root: Path, server: Server) -> None:
    before = shown(Answer(server, "/index.html").body)
    with closing(Listener(server)) as listener:
        assert listener.response.headers["Content-Type"].startswith("text/event-stream")
        assert listener.next() == {"state": before, "problem": ""}
        (root / "index.html").write_text(PAGE.replace("Studies", "New"))
        server.news.tell()
        news = listener.next()
        assert news["state"] != before and news["problem"] == ""
        assert shown(Answer(server, "/index.html").body) == news["state"]


def test_another_page_is_no_reason_to_reload(root: Path, server: Server) -> None:
    before = shown(Answer(server, "/index.html").body)
    with closing(Listener(server)) as listener:
        listener.next()
        (root / "studies" / "demo" / "index.html").write_text("new")
        server.news.tell()
        assert listener.next()["state"] == before


def test_open_pages_are_those_that_somebody_listens_for(root: Path, server: Server) -> None:
    assert server.open_pages() == frozenset()
    with closing(Listener(server)) as listener:
        listener.next()
        assert server.open_pages() == {"index.html"}
        (root / "index.html").write_text(PAGE.replace("Studies", "New"))
        server.news.tell("a fault")
        listener.next()
        server.page_written()  # says nothing of what is wrong
        assert listener.next()["problem"] == "a fault"
    server.news.end()
    deadline = time.monotonic() + 60
    while server.open_pages() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.open_pages() == frozenset()


def test_a_page_that_is_not_there_is_not_open(server: Server) -> None:
    with server.opened("/../secret.txt"), server.opened("/nowhere.html"), server.opened("/"):
        assert server.open_pages() == {"index.html"}


def test_a_problem_is_told_and_taken_back(server: Server) -> None:
    with closing(Listener(server)) as listener:
        listener.next()
        server.news.tell("kernels/demo/study.py: line 3: </script> is no Python")
        assert "line 3: </script>" in listener.next()["problem"]
        server.news.tell()
        assert listener.next()["problem"] == ""


def test_listeners_do_not_hold_up_the_end(root: Path) -> None:
    with listening(root, "127.0.0.1", 0) as server:
        listeners = [Listener(server) for _ in range(3)]
        for listener in listeners:
            listener.next()
    for listener in listeners:
        assert listener.response.read().strip() == b""
        listener.close()
    names = [thread.name for thread in threading.enumerate() if "serve_forever" in thread.name]
    assert names == []


def test_without_a_watch_pages_are_as_they_lie_on_the_disk(root: Path) -> None:
    with listening(root, "127.0.0.1", 0, live=False) as server:
        assert Answer(server, "/index.html").body == PAGE.encode()
        assert Answer(server, EVENTS).status == 404


def test_a_quiet_listener_gets_signs_of_life() -> None:
    news = News()
    stream = news.listen(0.01)
    assert next(stream) == "" and next(stream) is None
    news.tell("broken")
    assert next(stream) == "broken" and next(stream) is None
    news.end()
    assert list(stream) == []


@given(st.text(), st.text(max_size=20))
def test_nothing_in_an_address_ends_the_script(address: str, state: str) -> None:
    page = with_script(PAGE.encode(), address, state).decode()
    script = page.partition("<script>")[2]
    assert script.count("</script") == 1 and "<!--" not in script
    assert page.endswith("</body></html>")


def test_a_page_without_an_end_gets_the_script_all_the_same() -> None:
    assert with_script(b"<p>cut", "/e", "s").startswith(b"<p>cut<script>")


# --- ports and addresses ---------------------------------------------------------------


def test_a_taken_port_is_a_clear_word(root: Path, server: Server) -> None:
    with (
        pytest.raises(MissingError, match=f"port {server.server_port} of 127.0.0.1") as error,
        listening(root, "127.0.0.1", server.server_port),
    ):
        pass
    assert "--port 0" in error.value.hint and error.value.exit_code == 3


def test_a_port_for_the_system_is_a_clear_word(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Server) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Server, "server_bind", refused)
    with (
        pytest.raises(MissingError, match="port 80 cannot be used"),
        listening(root, "127.0.0.1", 80),
    ):
        pass


@pytest.mark.parametrize("host", ["203.0.113.9", "no such host", "x" * 300])
def test_an_address_of_another_machine_is_wrong_usage(root: Path, host: str) -> None:
    with pytest.raises(UsageError), listening(root, host, 0):
        pass


def test_port_zero_is_a_free_one(root: Path, server: Server) -> None:
    with listening(root, "127.0.0.1", 0) as other:
        assert other.server_port not in (0, server.server_port)
        assert other.url == f"http://127.0.0.1:{other.server_port}/"


def test_the_port_is_free_again_afterwards(root: Path) -> None:
    with listening(root, "127.0.0.1", 0) as first:
        port = first.server_port
        assert Answer(first, "/").status == 200
    with listening(root, "127.0.0.1", port) as second:
        assert second.server_port == port


def test_ipv6(root: Path) -> None:
    if not socket.has_ipv6:
        pytest.skip("this Python has no IPv6")
    try:
        with listening(root, "::1", 0) as server:
            assert server.url == f"http://[::1]:{server.server_port}/"
            connection = http.client.HTTPConnection("::1", server.server_port, timeout=60)
            with closing(connection):
                connection.request("GET", "/")
                assert connection.getresponse().status == 200
    except UsageError:
        pytest.skip("this machine has no IPv6 loopback")


def test_a_folder_that_comes_later_is_served_then(tmp_path: Path) -> None:
    with listening(tmp_path / "reports", "127.0.0.1", 0) as server:
        assert Answer(server, "/").status == 404
        (tmp_path / "reports").mkdir()
        (tmp_path / "reports" / "index.html").write_text(PAGE)
        assert Answer(server, "/").status == 200
