"""Nothing is lost: full disk, killed writer, two writers at once."""

from __future__ import annotations

import errno
import multiprocessing
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from workbench.disk import writing
from workbench.disk.lock import locked
from workbench.disk.opening import Opened
from workbench.disk.writing import (
    clear_folder,
    create_files,
    private_folder,
    remove_file,
    replace_file,
    write_files,
)
from workbench.errors import DataError, MissingError, UsageError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_files_are_replaced_together(tmp_path: Path) -> None:
    a, b = tmp_path / "x" / "a", tmp_path / "x" / "b"
    write_files(tmp_path, {"x/a": b"1", "x/b": b"2"})
    assert b.read_bytes() == b"2"
    write_files(tmp_path, {"x/a": b"3", "x/b": None})
    assert a.read_bytes() == b"3"
    assert names(tmp_path / "x") == ["a"]


def test_a_full_disk_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    write_files(tmp_path, {"a": b"old a", "b": b"old b"})
    write = writing._written

    def full(place: Opened, name: str, data: bytes, *, durable: bool) -> None:
        write(place, name, data[:2] if data == b"new b" else data, durable=durable)
        if data == b"new b":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writing, "_written", full)
    with pytest.raises(MissingError, match="no space left") as caught:
        write_files(tmp_path, {"a": b"new a", "b": b"new b"})
    assert caught.value.exit_code == 3
    assert "untouched" in caught.value.hint
    assert (a.read_bytes(), b.read_bytes()) == (b"old a", b"old b")
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="file size limits are POSIX")
def test_a_file_size_limit_is_a_full_disk_too(tmp_path: Path) -> None:
    code = f"""
import resource, signal
from pathlib import Path
from workbench.disk.writing import write_files
from workbench.errors import MissingError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
root = Path({str(tmp_path)!r})
write_files(root, {{"a": b"small"}})
try:
    write_files(root, {{"a": b"x" * 5000}})
except MissingError as error:
    print(error.message)
print((root / "a").read_bytes())
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "no space left to write" in run.stdout
    assert "b'small'" in run.stdout
    assert names(tmp_path) == ["a"]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(MissingError, match="cannot write"):
        write_files(tmp_path / "file", {"a": b"1"})
    with pytest.raises(MissingError, match="cannot write"), locked(tmp_path / "file", 0.1):
        pytest.fail("a file cannot be locked as a folder")


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".workbench-0123456789abcdef.tmp").write_bytes(b"half")
    (tmp_path / "other.tmp").write_bytes(b"not ours")
    write_files(tmp_path, {"a": b"1"})
    assert names(tmp_path) == ["a", "other.tmp"]


def test_what_another_host_is_writing_is_left_alone_for_a_day(tmp_path: Path) -> None:
    """Its lock may not reach us: a network file system need not carry locks."""
    young, old = (tmp_path / f".workbench-00c0ffee-{digit * 16}.tmp" for digit in "12")
    ours = tmp_path / writing._temporary()
    for path in (young, old, ours):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    write_files(tmp_path, {"a": b"1"})
    assert names(tmp_path) == [young.name, "a"]


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
    with pytest.raises(DataError, match="is a link"), locked(tmp_path / "store", 0.1):
        pytest.fail("the link was followed")
    assert (tmp_path / "precious").read_bytes() == b"kept"


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "", "a//b", "./a", "a\\b", "a\0"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "x").write_bytes(b"kept")
    acts: tuple[Callable[[], None], ...] = (
        lambda: replace_file(root, name, b"new"),
        lambda: write_files(root, {name: None}),
        lambda: create_files(root, {name: b"new"}),
        lambda: remove_file(root, name),
        lambda: clear_folder(root, name),
    )
    for act in acts:
        with pytest.raises(DataError, match="is not the name of a file below"):
            act()
    assert (names(root), (tmp_path / "x").read_bytes()) == ([], b"kept")


def test_a_folder_that_is_a_link_is_not_entered(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (outside / "x").write_bytes(b"kept")
    (root / "a").symlink_to(outside)
    linked_root = tmp_path / "linked"
    linked_root.symlink_to(outside)
    acts: tuple[Callable[[], None], ...] = (
        lambda: replace_file(root, "a/x", b"new"),
        lambda: write_files(root, {"a/x": None}),
        lambda: create_files(root, {"a/y": b"new"}),
        lambda: remove_file(root, "a/x"),
        lambda: clear_folder(root, "a"),
        lambda: replace_file(linked_root, "x", b"new"),
    )
    for act in acts:
        with pytest.raises(DataError, match="is a link"):
            act()
    assert (names(outside), (outside / "x").read_bytes()) == (["x"], b"kept")


def test_a_link_where_a_file_belongs_is_replaced_and_not_followed(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.write_bytes(b"kept")
    (root / "runs").mkdir(parents=True)
    for name in ("a", "b", "runs/c"):
        (root / name).symlink_to(outside)
    replace_file(root, "a", b"new")
    remove_file(root, "b")
    clear_folder(root, "runs")
    assert outside.read_bytes() == b"kept"
    assert (root / "a").read_bytes() == b"new" and not (root / "a").is_symlink()
    assert names(root) == ["a", "runs"] and names(root / "runs") == []


def test_nothing_is_followed_where_folders_have_no_handles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows: by looking at each folder first."""
    monkeypatch.setattr("workbench.disk.opening.RELATIVE", False)
    (tmp_path / "outside").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(DataError, match="is a link"):
        replace_file(tmp_path, "link/x", b"new")
    with locked(tmp_path / "root", 1):
        write_files(tmp_path / "root", {"a/b": b"1", "c": b"2"})
        remove_file(tmp_path / "root", "a/b")
    assert names(tmp_path / "root") == ["c"] and names(tmp_path / "outside") == []


def test_a_pipe_as_a_lock_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(DataError, match="is a pipe"), locked(tmp_path, 0.1):
        pytest.fail("a pipe was taken for a lock")


def test_new_files_come_together_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_files(tmp_path, {"mine": b"1"})
    with pytest.raises(UsageError, match="already exists"):
        create_files(tmp_path, {"a/first": b"2", "mine": b"3"})
    assert names(tmp_path) == ["mine"] and (tmp_path / "mine").read_bytes() == b"1"

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MissingError, match="no space left"):
        create_files(tmp_path, {"b/c/first": b"2"})
    assert names(tmp_path) == ["mine"]


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
        assert f"(pid {other.pid} on {socket.gethostname()})" in caught.value.message
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
            write_files(root, {"n": str(old + 1).encode()})


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


def fork_and_die(root: Path, ready: Event) -> None:
    with locked(root, 5):
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        ready.set()
        time.sleep(0.2)
        os.kill(os.getpid(), 9)


def test_a_child_does_not_hold_the_lock_of_its_dead_parent(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    writer = context.Process(target=fork_and_die, args=(tmp_path, ready))
    writer.start()
    assert ready.wait(20)
    writer.join(20)
    with locked(tmp_path, 1):
        pass


def gone() -> int:
    """The number of a process that ran."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_what_a_killed_writer_left_goes_with_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_tidied", set())
    host = writing._host()
    dead, alive = (f".workbench-{host}-{pid}-0f.tmp" for pid in (gone(), os.getpid()))
    other, theirs = f".workbench-00c0ffee-{gone()}-0f.tmp", f"workbench-{host}-{gone()}-0f.tmp"
    for name in (dead, alive, other, theirs):
        (tmp_path / name).write_bytes(b"half")
    replace_file(tmp_path, "x", b"whole")
    assert {path.name for path in tmp_path.iterdir()} == {"x", alive, other, theirs}


def test_private_folders_of_killed_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    host = writing._host()
    dead, alive = (f"workbench-{host}-{pid}-abc" for pid in (gone(), os.getpid()))
    kept = {alive, f"workbench-00c0ffee-{gone()}-abc", f"workbench-{host}-x", f"workbench-{gone()}"}
    for name in (dead, *kept):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part").write_text("")
    (tmp_path / f"workbench-{host}-{gone()}-link").symlink_to(tmp_path / alive)
    with private_folder() as folder:
        there = {path.name for path in tmp_path.iterdir() if not path.is_symlink()}
        assert there == {*kept, Path(folder).name}
        assert (tmp_path / alive / "part").exists()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def take(handle: int) -> None:
        raise OSError(number, "no such thing")

    monkeypatch.setattr("workbench.disk.lock._way", lambda: take)
    words = r"file system \(\w+\) of .* has no locks"
    with pytest.raises(MissingError, match=words) as caught, locked(tmp_path, 1):
        pass
    assert "local disk" in caught.value.hint and "permissions" not in caught.value.hint
