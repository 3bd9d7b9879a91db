"""Nothing is lost: full disk, killed writer, two writers at once."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import sys
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from workbench.errors import MissingError
from workbench.store import atomic
from workbench.store.atomic import locked, write_files


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_files_are_replaced_together(tmp_path: Path) -> None:
    a, b = tmp_path / "x" / "a", tmp_path / "x" / "b"
    write_files({a: b"1", b: b"2"})
    write_files({a: b"3", b: None})
    assert a.read_bytes() == b"3"
    assert names(tmp_path / "x") == ["a"]


def test_a_full_disk_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    write_files({a: b"old a", b: b"old b"})
    write = atomic._write_durable

    def full(path: Path, data: bytes) -> None:
        if path.name.startswith(".b"):
            path.write_bytes(data[:2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, data)

    monkeypatch.setattr(atomic, "_write_durable", full)
    with pytest.raises(MissingError, match="no space left") as caught:
        write_files({a: b"new a", b: b"new b"})
    assert caught.value.exit_code == 3
    assert "untouched" in caught.value.hint
    assert (a.read_bytes(), b.read_bytes()) == (b"old a", b"old b")
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_really_full_device(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"old")
    (tmp_path / ".a.tmp").symlink_to("/dev/full")
    # Not through write_files, which removes stale temporary files first.
    with pytest.raises(OSError, match="No space left") as caught:
        atomic._write_durable(tmp_path / ".a.tmp", b"new")
    assert "no space left" in atomic._refused(target, caught.value).message
    assert target.read_bytes() == b"old"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="file size limits are POSIX")
def test_a_file_size_limit_is_a_full_disk_too(tmp_path: Path) -> None:
    code = f"""
import resource, signal
from pathlib import Path
from workbench.store.atomic import write_files
from workbench.errors import MissingError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
target = Path({str(tmp_path / "a")!r})
write_files({{target: b"small"}})
try:
    write_files({{target: b"x" * 5000}})
except MissingError as error:
    print(error.message)
print(target.read_bytes())
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "no space left to write" in run.stdout
    assert "b'small'" in run.stdout
    assert names(tmp_path) == ["a"]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(MissingError, match="cannot write"):
        write_files({tmp_path / "file" / "a": b"1"})
    with pytest.raises(MissingError, match="cannot write"), locked(tmp_path / "file", 0.1):
        pytest.fail("a file cannot be locked as a folder")


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".n1024.ncu.json.zst.tmp").write_bytes(b"half")
    (tmp_path / "other.tmp").write_bytes(b"not ours")
    write_files({tmp_path / "a": b"1"})
    assert names(tmp_path) == ["a", "other.tmp"]


def test_the_lock_leaves_no_file_and_can_be_taken_again(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path, 1):
            assert names(tmp_path) == [".lock"]
        assert names(tmp_path) == []


def test_a_lock_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """A folder from elsewhere may hold one, and what it leads to is not ours to write."""
    (tmp_path / "precious").write_bytes(b"kept")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(MissingError, match="cannot write"), locked(tmp_path / "store", 0.1):
        pytest.fail("the link was followed")
    assert (tmp_path / "precious").read_bytes() == b"kept"


def hold(root: Path, ready: Event, seconds: float) -> None:
    with locked(root, 5):
        ready.set()
        time.sleep(seconds)


def test_a_second_writer_is_told_who_writes(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    other = context.Process(target=hold, args=(tmp_path, ready, 30))
    other.start()
    try:
        assert ready.wait(20)
        with pytest.raises(MissingError) as caught, locked(tmp_path, 0.2):
            pytest.fail("two writers at once")
        assert f"pid {other.pid}" in caught.value.message
        assert caught.value.exit_code == 3
    finally:
        other.kill()
        other.join()
    # The kernel released the dead writer's lock; its lock file does not matter.
    with locked(tmp_path, 1):
        assert names(tmp_path) == [".lock"]


def count_up(root: Path, times: int) -> None:
    for _ in range(times):
        with locked(root, 60):
            old = int((root / "n").read_text())
            write_files({root / "n": str(old + 1).encode()})


def test_many_writers_one_after_the_other(tmp_path: Path) -> None:
    """A lost update would show: every increment reads what the one before wrote."""
    (tmp_path / "n").write_text("0")
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=count_up, args=(tmp_path, 25)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert (tmp_path / "n").read_text() == "75"
    assert names(tmp_path) == ["n"]
