"""The report's server: what it serves, what it refuses, and the news of open pages."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import MissingError, UsageError
from workbench.serve.server import NEWS, Server, listening, with_script

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
    (site / "linked").mkdir()
    (site / "linked" / "index.html").symlink_to(tmp_path / "secret.txt")
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


def test_a_page_an_asset_and_a_folder(server: Server) -> None:
    page = Answer(server, "/index.html")
    assert page.status == 200 and b"<h1>Studies</h1>" in page.body
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert int(page.headers["Content-Length"]) == len(page.body)
    style = Answer(server, "/assets/workbench.css")
    assert (style.status, style.body) == (200, b"body{}")
    assert style.headers["Content-Type"] == "text/css"
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
    for path in ("/index.html", "/assets/workbench.css"):
        whole, head = Answer(server, path), Answer(server, path, method="HEAD")
        assert head.body == b"" and head.status == 200
        assert head.headers["Content-Length"] == whole.headers["Content-Length"]


def test_nothing_can_be_changed(server: Server) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
        assert Answer(server, "/index.html", method=method).status == 501


def test_a_page_may_load_nothing_from_elsewhere_nor_be_framed(server: Server) -> None:
    headers = Answer(server, "/index.html").headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Python" not in headers["Server"]


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
        "/assets%2f",
        "/linked/",
        "/\\evil.example/%2e%2e",
        "/linked%2f",
        NEWS,
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


def test_the_answer_to_a_wrong_path_does_not_repeat_it(server: Server) -> None:
    assert b"<script" not in Answer(server, "/%3Cscript%3Ealert(1)%3C/script%3E").body


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((name, 200) for name in ("127.0.0.1:{port}", "localhost:{port}", "LOCALHOST", "[::1]")),
        # A port that ssh forwards has another number here; no page can point a name at an address.
        *((name, 200) for name in ("localhost:1", "192.168.1.7:{port}", socket.gethostname())),
        *(
            (name, 421)
            for name in ("evil.example", "evil.example:{port}", "localhost.evil.example")
        ),
        *(
            (name, 421)
            for name in (
                "127.0.0.1.evil.example:{port}",
                "e.org@127.0.0.1",
                "localhost.evil.org",
                "",
            )
        ),
        *((name, 421) for name in ("127.0.0.1/evil", "2130706433:{port}", "[::1", "a,localhost")),
    ],
)
def test_a_browser_that_asks_by_another_name_is_refused(
    server: Server, host: str, status: int
) -> None:
    for path in ("/index.html", "/assets/workbench.css", f"{NEWS}/index.html"):
        answer = Answer(server, path, Host=host.format(port=server.server_port))
        assert answer.status == status
        assert status == 200 or server.url.encode() in answer.body


def test_a_silent_connection_ends(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.serve.server._Handler.timeout", 0.1)
    with closing(socket.create_connection(("127.0.0.1", server.server_port), timeout=60)) as one:
        one.sendall(b"GET / HT")
        assert one.recv(1) == b""


def test_a_file_is_not_sent_again_unless_it_was_written(root: Path, server: Server) -> None:
    path = "/assets/workbench.css"
    first = Answer(server, path)
    assert first.headers["Cache-Control"] == "no-cache"
    again = Answer(server, path, If_Modified_Since=first.headers["Last-Modified"])
    assert (again.status, again.body) == (304, b"")
    (root / path[1:]).write_text("body{color:red}")
    os.utime(root / path[1:], (2e9, 2e9))
    again = Answer(server, path, If_Modified_Since=first.headers["Last-Modified"])
    assert b"red" in again.body


def shown(server: Server, path: str) -> str:
    """The key that a served page was given."""
    return Answer(server, path).body.decode().partition('shown = "')[2].partition('"')[0]


def news(server: Server, path: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(Answer(server, NEWS + path).body)
    return found


def test_the_script_is_in_what_is_served_and_not_in_the_file(root: Path, server: Server) -> None:
    page = Answer(server, "/index.html").body
    assert page.count(b"location.reload") == 1 and page.rstrip().endswith(b"</body></html>")
    assert (root / "index.html").read_text() == PAGE
    assert b"location.reload" not in Answer(server, "/assets/workbench.js").body


@pytest.mark.parametrize("path", ["/", "/index.html", "/100%25&+a.html", "/studies/demo/"])
def test_a_reader_learns_that_its_page_was_written(root: Path, server: Server, path: str) -> None:
    (root / "100%&+a.html").write_text(PAGE)
    before = shown(server, path)
    assert news(server, path) == {"state": before, "problem": ""} and before
    (root / "studies" / "demo" / "v2..v3.html").write_text("another page")
    assert news(server, path)["state"] == before
    for written in ("index.html", "100%&+a.html", "studies/demo/index.html"):
        (root / written).write_text(PAGE.replace("Studies", "New"))
        os.utime(root / written, (2e9, 2e9))
    assert news(server, path)["state"] == shown(server, path) != before


def test_a_new_stylesheet_reloads_pages(root: Path, server: Server) -> None:
    before = shown(server, "/index.html")
    os.utime(root / "assets" / "workbench.css", (2e9, 2e9))
    assert news(server, "/index.html")["state"] == shown(server, "/index.html") != before


def test_a_page_that_asks_for_news_is_open(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("/", "/studies/demo/", "/../secret.txt", "/nowhere.html"):
        news(server, path)
    assert server.open_pages() == {"index.html", "studies/demo/index.html"}
    monkeypatch.setattr("workbench.serve.server._OPEN_S", 0.0)
    assert server.open_pages() == frozenset()


def test_news_tell_what_is_broken(server: Server) -> None:
    server.problem = "kernels/demo/study.py: line 3: </script> is no Python"
    assert news(server, "/index.html")["problem"] == server.problem
    assert news(server, "/../secret.txt")["state"] == "" == news(server, "/out.txt")["state"]


def test_without_a_watch_pages_are_as_they_lie_on_the_disk(root: Path) -> None:
    with listening(root, "127.0.0.1", 0, live=False) as server:
        assert Answer(server, "/").body == Answer(server, "/index.html").body == PAGE.encode()
        assert Answer(server, f"{NEWS}/index.html").status == 404
    assert not [each for each in threading.enumerate() if "serve_forever" in each.name]


@given(st.text(), st.text(max_size=20))
def test_nothing_in_an_address_ends_the_script(address: str, state: str) -> None:
    page = with_script(PAGE.encode(), address, state).decode()
    script = page.partition("<script>")[2]
    assert script.count("</script") == 1 and "<!--" not in script
    assert page.endswith("</body></html>")


def test_a_page_without_an_end_gets_the_script_all_the_same() -> None:
    assert with_script(b"<p>cut", "/e", "s").startswith(b"<p>cut<script>")


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
