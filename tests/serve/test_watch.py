"""Watching folders: what counts as a change, and when it is told."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.serve.watch import FileState, Snapshot, changed, changes, look


class Clock:
    """A pause that does the next of some jobs instead of waiting."""

    def __init__(self, *jobs: Callable[[], object] | None) -> None:
        self.jobs = list(jobs)
        self.waited: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.waited.append(seconds)
        if not self.jobs:
            raise KeyboardInterrupt  # how a user ends it
        job = self.jobs.pop(0)
        if job is not None:
            job()


def names(paths: frozenset[Path]) -> set[str]:
    return {path.name for path in paths}


def write(path: Path, text: str) -> Callable[[], object]:
    return lambda: path.write_text(text, encoding="utf-8")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "kernels" / "demo").mkdir(parents=True)
    (tmp_path / "kernels" / "demo" / "v0.cu").write_text("a")
    return tmp_path


def every(root: Path, *jobs: Callable[[], object] | None) -> list[set[str]]:
    """All that a watch tells until its clock has no more jobs."""
    told: list[set[str]] = []
    with pytest.raises(KeyboardInterrupt):
        for found in changes([root], pause=Clock(*jobs)):
            told.append(names(found))
    return told


def test_new_changed_and_removed_files_are_told(tree: Path) -> None:
    old, new = tree / "kernels/demo/v0.cu", tree / "kernels/demo/v1.cu"
    told = every(tree, write(new, "b"), None, write(old, "longer"), None, new.unlink, None)
    assert told == [{"v1.cu"}, {"v0.cu"}, {"v1.cu"}]


def test_nothing_is_told_while_nothing_changes(tree: Path) -> None:
    assert every(tree, None, None, None) == []


def test_a_burst_is_one_change(tree: Path) -> None:
    jobs = [write(tree / f"kernels/demo/v{i}.cu", "x" * i) for i in range(1, 6)]
    assert every(tree, *jobs, None, None) == [{f"v{i}.cu" for i in range(1, 6)}]


def test_a_folder_that_never_rests_is_told_at_last(tree: Path) -> None:
    jobs = [write(tree / "log.txt", "x" * i) for i in range(1, 40)]
    told = every(tree, *jobs)
    assert told and all(each == {"log.txt"} for each in told)


def test_a_change_is_told_well_within_a_second(tree: Path) -> None:
    clock = Clock(write(tree / "kernels/demo/v1.cu", "b"), None)
    next(changes([tree], pause=clock))
    assert len(clock.waited) == 2 and sum(clock.waited) < 0.35


def test_an_edit_that_is_undone_before_it_settles_is_none(tree: Path) -> None:
    new = tree / "kernels/demo/v9.cu"
    assert every(tree, write(new, "b"), new.unlink, None, None) == []


def test_a_replaced_file_of_the_same_size_and_time_is_seen(tree: Path) -> None:
    path = tree / "kernels/demo/v0.cu"
    status = path.stat()

    def replace() -> None:
        fresh = tree / ".fresh"
        fresh.write_text("b")
        os.utime(fresh, ns=(status.st_atime_ns, status.st_mtime_ns))
        fresh.replace(path)

    assert every(tree, replace, None) == [{"v0.cu"}]


def test_hidden_and_compiled_files_are_left_out(tree: Path) -> None:
    (tree / "__pycache__").mkdir()
    (tree / ".git").mkdir()
    jobs = [
        write(tree / ".lock", "1"),
        write(tree / "__pycache__" / "study.pyc", "1"),
        write(tree / ".git" / "HEAD", "1"),
        None,
    ]
    assert every(tree, *jobs) == []


def test_roots_may_be_missing_and_come_later(tmp_path: Path) -> None:
    root = tmp_path / "profiles"

    def appear() -> None:
        root.mkdir()
        (root / "a.zst").write_text("a")

    assert every(root, appear, None) == [{"a.zst"}]


def test_a_single_file_is_watched(tmp_path: Path) -> None:
    report = tmp_path / "x.ncu-rep"
    report.write_text("a")
    other = tmp_path / "y.ncu-rep"
    assert every(report, write(other, "b"), None, write(report, "longer"), None) == [{"x.ncu-rep"}]


def test_a_link_to_a_parent_does_not_go_round(tree: Path) -> None:
    (tree / "kernels" / "loop").symlink_to(tree)
    assert {Path(path).name for path in look([tree])} == {"v0.cu", "loop"}


def test_a_link_to_nothing_is_not_there(tree: Path) -> None:
    (tree / "kernels" / "gone").symlink_to(tree / "nowhere")
    assert {Path(path).name for path in look([tree])} == {"v0.cu"}


def test_what_changes_while_the_caller_works_is_told_next(tree: Path) -> None:
    clock = Clock(write(tree / "a", "1"), None, None, None)
    watch = changes([tree], pause=clock)
    assert names(next(watch)) == {"a"}
    (tree / "b").write_text("2")
    assert names(next(watch)) == {"b"}


def test_the_first_look_is_taken_at_once(tree: Path) -> None:
    watch = changes([tree], pause=Clock(None, None))
    (tree / "early").write_text("1")
    assert names(next(watch)) == {"early"}


states = st.builds(FileState, *itertools.repeat(st.integers(0, 2), 3))
snapshots = st.dictionaries(st.sampled_from("abcd"), states)


@given(snapshots, snapshots)
def test_changed_is_what_differs(before: Snapshot, after: Snapshot) -> None:
    found = changed(before, after)
    assert found == changed(after, before)
    assert (not found) == (before == after)
    assert all(before.get(str(path)) != after.get(str(path)) for path in found)
