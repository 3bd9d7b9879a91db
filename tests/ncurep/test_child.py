"""The child that is ready before its report is: used, left alone, dead, slow."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.processes import instead
from workbench.errors import DataError, MissingError
from workbench.model import Profile
from workbench.ncurep import child
from workbench.ncurep.child import Readers, Standby
from workbench.ncurep.read import read_report
from workbench.processes.starting import Start
from workbench.project import cache_folder
from workbench.store.codec import unpack

DATA = Path(__file__).resolve().parents[1] / "data" / "ncurep"
WARM_UP = Path(child.__file__).resolve().parents[1] / "data" / "warmup.ncu-rep.zst"


@pytest.fixture
def kept() -> str:
    """The folder in which all tests keep what they have read."""
    return os.environ["XDG_CACHE_HOME"]


def read_alone(report: Path, kept: str) -> Profile:
    """By a child that is started for it, in this test or in an earlier one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", kept)
        return read_report(report)


@pytest.fixture
def plain(tmp_path: Path, kept: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "x.ncu-rep"
    path.write_bytes(unpack((DATA / "sgemm_v3.ncu-rep.zst").read_bytes()))
    return path


def process(standby: Standby) -> subprocess.Popen[bytes]:
    assert standby._child is not None
    return standby._child


def test_a_child_without_memory_or_room_is_told_so(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shell(command: str) -> None:
        begin = partial(Start, ["/bin/sh", "-c", f"{command} >&2; exit 1"], plain.parent, {})
        monkeypatch.setattr(child, "own_module", lambda *_, **__: begin())
        read_report(plain)

    with pytest.raises(DataError, match="more memory than"):
        shell("echo terminate called after throwing std::bad_alloc")
    with pytest.raises(MissingError, match="no space left"):
        shell("echo 'OSError: [Errno 28] No space left on device'")


def test_what_the_child_may_allocate_is_bounded() -> None:
    limit = "import resource; from workbench.ncurep.extract import _limit_memory"
    script = f"{limit}; _limit_memory(1 << 20); bytearray(1 << 30)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert b"MemoryError" in done.stderr


def test_a_waiting_child_gives_the_same_profile(plain: Path, kept: str) -> None:
    with Standby() as standby:
        process(standby)
        made = read_report(plain, standby=standby)
    assert not cache_folder("reports").exists()  # a capture of our own is not read a second time
    assert made == read_alone(plain, kept)


def test_a_child_that_is_not_needed_ends_with_the_block(plain: Path) -> None:
    with Standby() as standby:
        waiting = process(standby)
    assert waiting.poll() is not None and waiting.stdin is not None and waiting.stdin.closed


def test_a_child_ends_when_its_parent_is_gone() -> None:
    waiting = child._start("--standby", stdin=subprocess.PIPE)
    assert waiting.stdin is not None
    waiting.stdin.close()
    waiting.stdin = None
    assert waiting.wait(30) == 0


def test_a_child_that_died_is_replaced(plain: Path) -> None:
    with Standby() as standby:
        process(standby).kill()
        made = read_report(plain, standby=standby)
    assert made.launches[0].kernel == "sgemm_v3"


def test_a_child_that_fails_is_not_the_last_word(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(child, "own_module", instead("import sys; sys.stdin.read(); sys.exit(1)"))
        standby = Standby()
    with standby:
        assert read_report(plain, standby=standby).launches


def test_a_report_that_hangs_the_waiting_child_is_not_tried_twice(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "own_module", instead("import time; time.sleep(600)"))
    begin = time.monotonic()
    with Standby() as standby, pytest.raises(DataError, match="did not end within 1 s"):
        waiting = process(standby)
        read_report(plain, timeout_s=1.0, standby=standby)
    assert time.monotonic() - begin < 100 and waiting.poll() is not None


def test_a_standby_serves_one_report(plain: Path) -> None:
    with Standby() as standby:
        assert standby.extract(plain, plain.with_name("a.json"), 60.0)
        assert not standby.extract(plain, plain.with_name("b.json"), 60.0)


def test_the_warm_up_report_is_small_and_names_no_machine() -> None:
    packed = WARM_UP.read_bytes()
    data = unpack(packed)
    assert len(packed) < 8_000
    for word in (b"/home/", b"/root", b"/tmp", b"/work", os.uname().nodename.encode() + b"."):
        assert word not in data


def test_a_child_that_is_ended_while_it_warms_up_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Standby() as standby:
        waiting = process(standby)
        # Until the child has its report unpacked: then it is ended in the middle of reading.
        end = time.monotonic() + 30
        # Folders come and go meanwhile, which `os.walk` does not mind.
        while not any("warmup.ncu-rep" in names for *_, names in os.walk(tmp_path)):
            assert waiting.poll() is None, "the child ended by itself"
            assert time.monotonic() < end
            time.sleep(0.001)
    assert waiting.poll() is not None
    assert list(tmp_path.iterdir()) == []


def test_one_child_reads_one_report_after_the_other(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, ...]] = []
    start = child._start

    def counted(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        started.append(arguments)
        return start(*arguments, **options)

    monkeypatch.setattr(child, "_start", counted)
    alone = tmp_path / "alone.json"
    child.extract(plain, plain, alone, 100)
    with Readers() as readers:
        for number in range(3):
            output = tmp_path / f"{number}.json"
            readers.extract(plain, plain, output, 100)
            assert output.read_bytes() == alone.read_bytes()
        (reader,) = readers._all
    assert started[1:] == [(child.ORDERS,)] and reader._child.poll() is not None


@pytest.mark.parametrize(
    ("code", "seconds", "why"),
    [
        ("import time; time.sleep(600)", 1, "did not end within 1 s"),
        ("import os; os.abort()", 100, "crashed on it [(]SIGABRT[)]"),
        ("raise ValueError('no such thing')", 100, "failed on it [(]ValueError: no such thing"),
        ("", 100, "gave no answer"),
    ],
)
def test_what_becomes_of_a_child_is_told(
    code: str, seconds: float, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "own_module", instead(code))
    with Readers() as readers, pytest.raises(DataError, match=f"x.ncu-rep: .*{why}"):
        readers.extract(tmp_path / "part", Path("x.ncu-rep"), tmp_path / "out.json", seconds)


def test_without_nvidias_reader_it_says_how_to_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "own_module", instead(f"import sys; sys.exit({child._NO_READER})"))
    with Readers() as readers, pytest.raises(MissingError, match="cannot be loaded"):
        readers.extract(tmp_path / "part", Path("x.ncu-rep"), tmp_path / "out.json", 100)
