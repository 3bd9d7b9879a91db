"""Fixtures that all tests share, those of features too."""

from __future__ import annotations

import fcntl
import gc
import hashlib
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import settings

from tests.attacks.book import table
from tests.study_maker import Maker
from workbench.disk import limits
from workbench.project import CEILING_VARIABLE, TRUST_VARIABLE

#: A folder by its name, and what fills it.
Once = Callable[[str, Callable[[Path], object]], Path]

REPO = Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    """Neither a busy machine nor a runner in the background nor another's files may fail a test.

    Hypothesis would take an example that is slow for a wrong one; what hangs is ended by
    pytest-timeout. With ``WORKBENCH_SAME_EXAMPLES`` its examples are the same in every run. A
    runner in the background ignores Ctrl-C, and so would every process that tests start. What
    the workbench keeps by content (compiled kernels, reports) is kept in pytest's own folder,
    for all processes of this run and the next ones, and not in the user's; and anew where
    anything of the workbench has changed.
    """
    os.environ["WORKBENCH_LANG"] = "en"  # what is compared is said in English, wherever it runs
    same = "WORKBENCH_SAME_EXAMPLES" in os.environ
    settings.register_profile("workbench", deadline=None, derandomize=same)
    settings.load_profile("workbench")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = hashlib.sha256()
    for path in sorted((REPO / "workbench").rglob("*.py")):
        code.update(path.read_bytes())
    caches = REPO / ".pytest_cache" / "xdg"
    os.environ["XDG_CACHE_HOME"] = str(caches / code.hexdigest()[:16])
    if "PYTEST_XDIST_WORKER" not in os.environ:
        for outdated in caches.glob("*"):
            if time.time() - outdated.stat().st_mtime > 86_400:
                shutil.rmtree(outdated, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that drive a browser are slow ones."""
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Keep all that is imported and collected by now out of later garbage collections.

    Some tests search on purpose, a dozen times over, and six thousand tests are a lot to look at.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def own_totals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has its own total of bytes read, and not its worker's."""
    for total in (limits.EXPANDED, limits.SOURCES, limits.LOOKUPS):
        monkeypatch.setattr(total, "_taken", {})
        monkeypatch.setattr(total, "_sum", 0)


@pytest.fixture(scope="session", autouse=True)
def nothing_above(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Settings and repositories above the tests' own folder (``/workbench.toml``) are not theirs.

    Nor is it theirs whom this checkout belongs to: who runs its tests trusts it.
    """
    base = str(tmp_path_factory.getbasetemp().resolve())
    os.environ[CEILING_VARIABLE] = os.environ["GIT_CEILING_DIRECTORIES"] = base
    os.environ[TRUST_VARIABLE] = str(REPO)


@pytest.fixture(scope="session", autouse=True)
def nothing_left_here() -> Iterator[None]:
    """No test leaves a report or a record in the project itself."""
    folders = [REPO / name for name in ("kernels", "profiles", "reports")]
    before = {path for folder in folders for path in folder.iterdir()}
    yield
    assert {path for folder in folders for path in folder.iterdir()} <= before


@pytest.fixture(scope="session")
def repo() -> Path:
    """The project's own root folder."""
    return REPO


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    """A folder with a study that the test adds versions to."""
    return Maker(tmp_path)


@pytest.fixture(scope="session")
def reference() -> Path:
    """Folder of real reports that are not part of the project; skips where absent."""
    folder = Path(os.environ.get("WORKBENCH_REFERENCE", REPO.parent / "shared" / "reference"))
    if not folder.is_dir():
        pytest.skip("no reference reports here (set WORKBENCH_REFERENCE)")
    return folder


@pytest.fixture(scope="session")
def report(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """`report("ladder_full")` -> path of that report, decompressed.

    Our own lie in tests/data/ncurep; a test that asks for somebody else's is skipped where
    those are not.
    """
    folder = tmp_path_factory.mktemp("reports")

    def get(name: str) -> Path:
        target = folder / f"{name}.ncu-rep"
        if not target.exists():
            source = REPO / "tests" / "data" / "ncurep" / f"{name}.ncu-rep.zst"
            if not source.exists():
                reference: Path = request.getfixturevalue("reference")
                (source,) = reference.glob(f"*/{name}.ncu-rep.zst")
            with source.open("rb") as packed, target.open("wb") as plain:
                zstandard.ZstdDecompressor().copy_stream(packed, plain)
        return target

    return get


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """`once("site", fill)` -> a folder that `fill` makes, once for all processes of this run.

    Tests read what lies in it, and change nothing. Who comes while it is made waits for it.
    """
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def get(name: str, fill: Callable[[Path], object]) -> Path:
        folder = base / f"once-{name}"
        with (base / f"once-{name}.lock").open("a+", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.seek(0)
            if not lock.read():  # nobody came to the end of it
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                fill(folder)
                lock.write("made")
        return folder

    return get


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A real browser, one a process (its driver allows no second); skips where there is none."""
    path = os.environ.get("WORKBENCH_CHROMIUM") or shutil.which("chromium")
    if not path:
        pytest.skip("no Chromium here (install it, or set WORKBENCH_CHROMIUM)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Results of the attacks (tests/attacks), summed over all processes of the run."""
    counts: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "attacks" and getattr(report, "when", "") == "teardown":
                    counts.update(value)
    if counts:
        for line in table(counts):
            terminalreporter.write_line(line)
