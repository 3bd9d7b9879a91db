"""Until when work may go on, and with how much memory."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import time

import pytest

from workbench.processes.bounds import Deadline, sharing, within_memory


class LateError(Exception):
    """Of these tests."""


def test_a_piece_of_work_has_its_own_time_and_no_more_than_all() -> None:
    alone = Deadline(50.0)
    assert 49 < alone.left() < 50.001 and not alone.over and str(alone) == "50 s"
    assert alone.left(since=time.monotonic() - 60) == 0
    whole = Deadline.after(50.0)
    assert whole.left(since=time.monotonic() - 10) < 40.1  # its own began before
    assert Deadline(50.0, end=time.monotonic() + 5).left() <= 5
    assert Deadline(math.inf).left() == math.inf
    late = Deadline(50.0, end=time.monotonic())
    assert late.over and late.left() == 0 and late.begun().left() == 0


@pytest.mark.parametrize("busy", ["sleeps", "computes", "waits"])
def test_what_runs_when_time_is_over_is_broken_off(busy: str) -> None:
    with pytest.raises(LateError), Deadline.after(0.2).kept(LateError):
        if busy == "sleeps":
            time.sleep(60)
        elif busy == "waits":
            threading.Event().wait(60)
        while True:
            pass


def test_nobody_inside_takes_it_for_an_error_of_his_own() -> None:
    with pytest.raises(LateError), Deadline.after(0.1).kept(LateError):
        try:
            time.sleep(60)
        except Exception as error:
            raise ValueError from error


def test_what_ends_in_time_is_not_disturbed() -> None:
    with Deadline.after(0.2).kept(LateError):
        pass
    time.sleep(0.4)


def test_of_two_that_are_over_the_outer_one_counts() -> None:
    outer, inner = Deadline.after(0.1), Deadline.after(60)
    with pytest.raises(LateError), outer.kept(LateError), inner.kept(ValueError):
        time.sleep(60)


def test_the_inner_one_is_broken_off_alone() -> None:
    outer, inner = Deadline.after(60), Deadline.after(0.1)
    with outer.kept(ValueError), pytest.raises(LateError), inner.kept(LateError):
        time.sleep(60)


def test_memory_has_a_limit_inside_and_none_behind() -> None:
    # Sizes apart from each other: what a process gives back meanwhile counts as room.
    with within_memory(1 << 28):
        with pytest.raises(MemoryError):
            bytearray(1 << 31)
        assert bytearray(240 << 20)
        with sharing(250 << 20), pytest.raises(MemoryError):
            bytearray(240 << 20)
    assert bytearray(1 << 29)


def test_a_time_that_was_over_before_ends_what_stops_itself() -> None:
    code = """import os; from workbench.processes.bounds import Deadline
with Deadline(1e-9).kept(TimeoutError): [os.kill(os.getpid(), 19) for _ in iter(int, 1)]"""
    assert subprocess.run([sys.executable, "-c", code], timeout=30).returncode == 1
