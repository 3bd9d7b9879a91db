"""Processes that are dealt work: in order, and never waited for once one of them is gone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptxemu.errors import Fault, PtxError, ResourceError
from ptxemu.pool import deal
from tests.attacks.book import WHOLE
from tests.processes import runs, until

#: More than a pipe holds, so that a process is often ended in the middle of its answer.
LARGE = 1 << 18


def children() -> set[int]:
    """Processes of this one that have not been waited for."""
    threads = Path("/proc/self/task").glob("*/children")
    return {int(pid) for thread in threads for pid in thread.read_text().split()}


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


def test_answers_come_in_the_order_of_the_items() -> None:
    def work(item: int) -> tuple[int, int]:
        time.sleep(0.002 * (item % 3))
        return item * item, os.getpid()

    answers = deal(work, range(40), 3)
    assert [square for square, _ in answers] == [item * item for item in range(40)]
    assert len({pid for _, pid in answers} - {os.getpid()}) == 3
    assert deal(work, [], 3) == []


@pytest.mark.parametrize(
    "times", [20, pytest.param(100, marks=pytest.mark.slow), pytest.param(1000, marks=WHOLE)]
)
def test_a_thousand_failures_and_no_wait(times: int) -> None:
    """The others are ended at any point of their answers, which nobody else has to wait for."""

    def work(item: int) -> bytes:
        if item == 1:
            raise Fault("this one fails", "nothing helps")
        return bytes(LARGE)

    for _ in range(times):
        with pytest.raises(Fault, match="this one fails") as raised:
            deal(work, range(8), 2)
        assert raised.value.hint == "nothing helps"


def test_the_first_failure_in_order_is_told_and_later_items_are_left() -> None:
    begun = multiprocessing.Value("i")

    def work(item: int) -> int:
        with begun.get_lock():
            begun.value += 1
        time.sleep(0.1 if item == 0 else 0)
        raise PtxError(f"item {item}")

    with pytest.raises(PtxError, match="item 0"):
        deal(work, range(1000), 2)
    assert begun.value == 2


def test_an_unforeseen_error_says_where_it_came_from() -> None:
    def work(item: int) -> float:
        return 1 / item

    with pytest.raises(ZeroDivisionError) as raised:
        deal(work, [1, 0], 2)
    assert "return 1 / item" in "".join(raised.value.__notes__)


def test_a_killed_process_is_an_error_not_a_wait() -> None:
    def work(item: int) -> int:
        if item == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    with pytest.raises(ResourceError, match="killed by SIGKILL") as raised:
        deal(work, range(10), 2)
    assert "memory" in raised.value.hint

    def leave(item: int) -> int:
        os._exit(7)

    with pytest.raises(ResourceError, match="exit code 7"):
        deal(leave, range(10), 2)


def test_ctrl_c_is_answered_by_the_parent_alone() -> None:
    def blocked(_: int) -> bool:
        return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])

    assert not blocked(0)
    assert deal(blocked, range(8), 2) == [True] * 8
    assert not blocked(0)


def test_processes_end_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, time\n"
        "from ptxemu.pool import deal\n"
        "def work(item):\n"
        "    pathlib.Path(f'pid{item}').write_text(str(os.getpid()))\n"
        "    time.sleep(0.3)\n"
        "    return item\n"
        "deal(work, range(1000), 2)\n"
    )
    ours = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    names = [tmp_path / "pid0", tmp_path / "pid1"]
    until(lambda: all(name.exists() and name.read_text() for name in names))
    ours.kill()
    ours.wait()
    until(lambda: not any(runs(int(name.read_text())) for name in names))
