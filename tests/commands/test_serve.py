"""``workbench serve``: from a project to a page in a browser, and quietly away."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tests.factories import make_project
from workbench.cli import app
from workbench.commands import serve
from workbench.errors import MissingError, UsageError
from workbench.session.api import CoreSession
from workbench.session.site import SitePlan


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
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            text: str = answer.read().decode()
            return text

    def interrupt(self) -> str:
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=60)[0]


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
    assert "Studies" in serving.get("") and "location.reload" in serving.get("index.html")
    version = "studies/demo/h200/n1024/v3.html"
    assert "Padded tile" in serving.get(version)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        serving.get(".manifest.json")

    path = project / "kernels" / "demo" / "v3_padded.cu"
    path.write_text(path.read_text(encoding="utf-8").replace("Padded tile", "Wider rows"))
    serving.until("pages written")
    assert "Wider rows" in serving.get(version)
    assert "location.reload" not in (project / "reports" / version).read_text(encoding="utf-8")

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


def test_without_a_watch_pages_do_not_listen(project: Path) -> None:
    serving = Serving(project, "--no-watch")
    try:
        assert "location.reload" not in serving.get("index.html")
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


@pytest.mark.parametrize("target", ["dmeo", "dmeo/v2..v3"])
def test_a_study_that_there_is_none_of_ends_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """No change ever brings it: nothing is written, served or watched."""

    def stayed(*_: object) -> None:
        raise AssertionError("it waits for changes")

    monkeypatch.chdir(project)
    monkeypatch.setattr(serve, "changes", stayed)
    with pytest.raises(UsageError, match="there is no study `dmeo`") as error:
        CliRunner().invoke(app, ["serve", "--port", "0", target], catch_exceptions=False)
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
    CoreSession().site(names).check()
    with pytest.raises(UsageError, match="there is no study `ltaer`"):
        CoreSession().site((*names, "ltaer")).check()


def test_the_plan_watches_what_the_report_is_made_from(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = CoreSession(project).site()
    assert plan.sources() == (project / "kernels", project / "profiles")
    assert plan.folder == project / "reports"
    alone = CoreSession(project).site(("x.ncu-rep::softmax",))
    assert alone.sources() == (Path("x.ncu-rep"),)
    both = CoreSession(project).site(("demo", "x.ncu-rep"), Path("out"))
    assert both.sources()[-1] == Path("x.ncu-rep") and len(both.sources()) == 3


def test_a_pair_is_of_its_study(project: Path) -> None:
    (project / "kernels" / "demo" / "study.py").write_text("title = ", encoding="utf-8")
    for text in ("demo", "v2..v3", "demo/v2..v3"):
        assert len(CoreSession(project).site((text,)).build().broken) == 1


def attempt(plan: SitePlan, *, debug: bool = False) -> list[str]:
    with click.Context(app, obj={"debug": debug}):
        return serve.attempt(plan)


def test_a_broken_study_is_told_and_shown_without_its_words(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = CoreSession(project).site()
    study = project / "kernels" / "demo" / "study.py"
    whole = study.read_text(encoding="utf-8")
    study.write_text("title = ", encoding="utf-8")
    problems = attempt(plan)
    assert (
        (project / "reports" / "index.html").exists()
        and len(problems) == 1
        and "study.py" in problems[0]
    )
    study.write_text(whole, encoding="utf-8")
    assert attempt(plan) == []


def test_a_damaged_profile_is_told_and_mended(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = CoreSession(project).site()
    (path,) = (project / "profiles").rglob("v3/*.ncu.json.zst")
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    problems = attempt(plan)
    assert any("v3" in problem for problem in problems)
    assert "error: " in capsys.readouterr().err
    path.write_bytes(whole)
    assert attempt(plan) == []


def test_a_fault_of_our_own_ends_no_watch(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(SitePlan, "build", broken)
    (problem,) = attempt(CoreSession(project).site())
    assert "an internal error of workbench: ZeroDivisionError" in problem
    with pytest.raises(ZeroDivisionError):
        attempt(CoreSession(project).site(), debug=True)


def test_changed_files_are_named_and_not_all_of_them() -> None:
    assert serve.named([Path("a/v3.cu")]) == "changed: v3.cu"
    many = [Path(f"v{i}.cu") for i in range(5)]
    assert serve.named(many) == "changed: v0.cu, v1.cu, v2.cu and 2 more"


def test_watching_costs_next_to_nothing(serving: Serving) -> None:
    """A watch over an idle project must not warm a laptop: under a tenth of a core."""
    stat = Path(f"/proc/{serving.process.pid}/stat")
    if not stat.exists():
        pytest.skip("no /proc here to read a process's time from")

    def ticks() -> int:
        fields = stat.read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = ticks()
    time.sleep(3)
    assert (ticks() - before) / 100 < 0.3


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
        "console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None
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
