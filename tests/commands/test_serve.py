"""``workbench serve``: from a project to a page in a browser, and quietly away."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from tests.factories import make_project
from workbench import store
from workbench.cli import app
from workbench.commands.report import ReportPlan
from workbench.commands.serve import _Rest
from workbench.errors import MissingError, UsageError
from workbench.model import Profile
from workbench.serve import watch
from workbench.serve.server import listening


class Serving:
    """``workbench serve --port 0`` as a user starts it."""

    def __init__(self, root: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", "workbench.cli", "serve", "--port", "0", *arguments],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said: list[str] = []
        self.url = self.until("http://").strip()

    def until(self, words: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if words in line:
                return line
        raise AssertionError(f"{words!r} was never said: {self.said}")

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            text: str = answer.read().decode()
            return text

    def interrupt(self) -> str:
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=20)[0]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    make_project(tmp_path)
    return tmp_path


@pytest.fixture
def serving(project: Path) -> Iterator[Serving]:
    running = Serving(project)
    yield running
    running.process.kill()
    running.process.wait()


def test_it_builds_serves_watches_and_leaves_nothing(project: Path, serving: Serving) -> None:
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", serving.url)
    assert "Studies" in serving.get("") and "EventSource" in serving.get("index.html")
    version = "studies/demo/h200/n1024/v3.html"
    assert "Padded tile" in serving.get(version)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        serving.get(".manifest.json")

    path = project / "kernels" / "demo" / "v3_padded.cu"
    path.write_text(path.read_text(encoding="utf-8").replace("Padded tile", "Wider rows"))
    serving.until("pages written")
    assert "Wider rows" in serving.get(version)
    assert "EventSource" not in (project / "reports" / version).read_text(encoding="utf-8")

    (project / "kernels" / "demo" / "study.py").write_text("title = ")
    assert "study.py" in serving.until("error: ")
    assert "Wider rows" in serving.get(version) or "v3" in serving.get(version)

    rest = serving.interrupt()
    assert serving.process.returncode == 130
    assert "Traceback" not in rest and "error" not in rest
    port = int(serving.url.rstrip("/").rpartition(":")[2])
    with closing(socket.socket()) as other:
        assert other.connect_ex(("127.0.0.1", port)) != 0
    assert not (project / "reports" / ".lock").exists()


def test_what_an_open_page_is_made_of_is_read_before_it_changes(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    read: list[str] = []
    load = store._load

    def counting(path: Path, *state: int) -> Profile:
        read.append(path.parent.name)
        return load(path, *state)

    monkeypatch.setattr(store, "_load", counting)
    ReportPlan.of((), None).lasting().build()
    plan = ReportPlan.of((), None).lasting()
    read.clear()
    assert [*plan.recall({"studies/demo/h200/elsewhere"})] == read == []
    assert len([*plan.recall({"studies/demo/h200/n1024"})]) >= len(read)
    assert len(read) == len(set(read)) >= 2
    plan.build(force=True)
    assert len(read) == len(set(read))


def test_a_damaged_profile_is_no_news_of_a_page_that_is_opened(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    plan = ReportPlan.of((), None).lasting()
    plan.build()
    for path in (project / "profiles").rglob("n1024.*.json.zst"):
        path.write_bytes(b"no profile")
    assert len([*plan.recall({"studies/demo/h200/n1024"})]) >= 2


def test_a_folder_is_recalled_once_while_a_page_of_it_is_open(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recalled: list[frozenset[str]] = []
    read: list[int] = []

    class Plan:
        @staticmethod
        def recall(folders: frozenset[str]) -> Iterator[None]:
            recalled.append(folders)
            for number in range(3):
                read.append(number)
                yield

    with listening(project, "127.0.0.1", 0) as server:
        rest = _Rest(cast(ReportPlan, Plan()), server)
        for name in ("a", "b"):
            (project / "s").mkdir(exist_ok=True)
            (project / "s" / f"{name}.html").write_text("page")
        rest(0)
        with server.opened("/s/a.html"):
            rest(0)  # no time to read anything
            assert recalled == [] and read == []
            with server.opened("/s/b.html"):
                rest(0.1)
            rest(0.1)
            assert recalled == [{"s"}] and read == [0, 1, 2]
        rest(0)
        with server.opened("/s/a.html"):
            rest(0.1)
    assert recalled == [{"s"}, {"s"}] and read == 2 * [0, 1, 2]


def test_what_cannot_be_read_ahead_does_not_end_the_watch(project: Path) -> None:
    class Plan:
        @staticmethod
        def recall(_: frozenset[str]) -> Iterator[None]:
            yield
            raise OSError("the disk is gone")

    (project / "page.html").write_text("page")
    with listening(project, "127.0.0.1", 0) as server:
        rest = _Rest(cast(ReportPlan, Plan()), server)
        with server.opened("/page.html"):
            rest(0.05)
            rest(0.05)


def test_without_a_watch_pages_do_not_listen(project: Path) -> None:
    serving = Serving(project, "--no-watch")
    try:
        assert "EventSource" not in serving.get("index.html")
        serving.interrupt()
        assert serving.process.returncode == 130
    finally:
        serving.process.kill()
        serving.process.wait()


def test_a_taken_port_is_told_before_anything_is_written(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        with pytest.raises(MissingError, match=f"port {port}") as error:
            CliRunner().invoke(app, ["serve", "--port", port], catch_exceptions=False)
    assert error.value.exit_code == 3 and "--port 0" in error.value.hint
    assert not (project / "reports").exists()


def test_an_address_of_another_machine_is_wrong_usage(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    with pytest.raises(UsageError, match="203"):
        CliRunner().invoke(
            app, ["serve", "--port", "0", "--host", "203.0.113.9"], catch_exceptions=False
        )


def test_a_port_that_is_none_is_wrong_usage(project: Path) -> None:
    for port in ("-1", "65536", "http"):
        assert CliRunner().invoke(app, ["serve", "--port", port]).exit_code == 2


def test_no_project_is_a_clear_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no workbench project"):
        CliRunner().invoke(app, ["serve"], catch_exceptions=False)


@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["report", "--watch"]])
@pytest.mark.parametrize("target", ["dmeo", "dmeo/v2..v3"])
def test_a_study_that_there_is_none_of_ends_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], target: str
) -> None:
    """No change ever brings it: nothing is written, served or watched."""

    def stayed(*_: object) -> None:
        raise AssertionError("it waits for changes")

    monkeypatch.chdir(project)
    monkeypatch.setattr(watch, "changes", stayed)
    with pytest.raises(UsageError, match="there is no study `dmeo`") as error:
        CliRunner().invoke(app, [*command, target], catch_exceptions=False)
    assert error.value.exit_code == 2 and "demo" in error.value.hint
    assert not (project / "reports").exists()


def test_a_study_may_be_recorded_later_or_be_recorded_alone(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    (project / "kernels" / "later").mkdir()
    (project / "kernels" / "later" / "study.py").touch()
    shutil.rmtree(project / "kernels" / "demo")
    names = ("demo", "later", "demo/v2..v3", "x.ncu-rep")
    ReportPlan.of(names, None).check()
    with pytest.raises(UsageError, match="there is no study `ltaer`"):
        ReportPlan.of((*names, "ltaer"), None).check()


# --- in a browser ----------------------------------------------------------------------


@pytest.fixture
def tab(chromium: Any) -> Iterator[Any]:
    page = chromium.new_page()
    yield page
    page.close()


@pytest.mark.browser
def test_an_open_page_reloads_and_tells_what_is_broken(
    project: Path, serving: Serving, tab: Any
) -> None:
    complaints: list[str] = []
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on(
        "console",
        lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None,
    )
    tab.goto(serving.url + "studies/demo/h200/n1024/v3.html")
    assert "Padded tile" in tab.locator("h1").inner_text()

    path = project / "kernels" / "demo" / "v3_padded.cu"
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole.replace("Padded tile", "Wider <b>rows</b>"))
    tab.wait_for_function("() => document.querySelector('h1').textContent.includes('Wider')")
    assert "Wider <b>rows</b>" in tab.locator("h1").inner_text()

    # Its own page is left out while it cannot be read; every other one says why.
    tab.goto(serving.url + "studies/demo/h200/n1024/index.html")
    (profile,) = (project / "profiles").rglob("v3/*.ncu.json.zst")
    good = profile.read_bytes()
    profile.write_bytes(good[:100])
    tab.wait_for_selector("#workbench-live:not([hidden])")
    assert "v3" in tab.locator("#workbench-live").inner_text()
    profile.write_bytes(good)
    tab.wait_for_selector("#workbench-live", state="hidden")
    assert complaints == []
