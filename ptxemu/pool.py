"""Distribute work to forked processes; any of them may be killed at any moment.

Each process has its own pipe to the parent, and they share no queue: a process that ends while it
writes its answer holds no lock that another one waits for.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from ptxemu.errors import EmulatorError, ResourceError

if sys.platform == "linux":
    import resource  # Windows has none

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def workers_here() -> int:
    """Processes to use: the cores on which this process may run, if forking exists."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def room() -> float:
    """Bytes that this process may still allocate within its limits (``ulimit -d``, ``-v``).

    Without a limit, the machine's memory is the limit.
    """
    if sys.platform != "linux":
        return math.inf
    pages = [int(word) for word in Path("/proc/self/statm").read_text().split()]
    size = os.sysconf("SC_PAGE_SIZE")
    left: float = size * os.sysconf("SC_PHYS_PAGES")
    for kind, used in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY:
            left = min(left, limit - used * size)
    return max(left, 0)


def _take_share(processes: int) -> None:
    """Let this process take its share of the memory of all that were forked together."""
    if sys.platform == "linux":
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if soft != resource.RLIM_INFINITY:
            left = int(room())
            resource.setrlimit(resource.RLIMIT_DATA, (soft - left + left // processes, hard))


def deal(work: Callable[[Item], Answer], items: Sequence[Item], processes: int) -> list[Answer]:
    """``[work(item) for item in items]``, by forked processes that are gone afterwards.

    Items are inherited and never sent; answers are pickled.

    Raises:
        ResourceError: a process was killed.
        Exception: the one that `work` raised for the first such item in their order.
    """
    context = multiprocessing.get_context("fork")
    crew: list[_Hand[Answer]] = []
    try:
        with _interrupts_held():
            count = min(processes, len(items))
            for _ in range(count):
                ours, theirs = context.Pipe()
                inherited = [ours, *(hand.pipe for hand in crew)]
                process = context.Process(
                    target=_serve, args=(theirs, inherited, work, items, count), daemon=True
                )
                process.start()
                theirs.close()
                crew.append(_Hand(process, ours))
        return _collect(crew, len(items))
    finally:
        for hand in crew:
            hand.process.kill()
        for hand in crew:
            hand.process.join()
            hand.pipe.close()


class _Done(NamedTuple, Generic[Answer]):
    """The result of `work` for the item at a place."""

    place: int
    answer: Answer


class _Failed(NamedTuple):
    """The exception of `work` for the item at a place."""

    place: int
    error: Exception


class _Hand(NamedTuple, Generic[Answer]):
    """One process, and the parent's end of its pipe."""

    process: BaseProcess
    pipe: Connection

    def tell(self, place: int) -> None:
        """Give the worker the item at `place`; if the worker is gone, `hear` reports that."""
        with contextlib.suppress(OSError):
            self.pipe.send(place)

    def hear(self) -> _Done[Answer] | _Failed:
        """Its reply; ResourceError: it was killed."""
        try:
            reply: _Done[Answer] | _Failed = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            raise ResourceError(
                f"a process of the emulator {_ending(self.process.exitcode)}",
                "Run it again; if this machine is short of memory, choose a smaller problem.",
            ) from None
        return reply


def _collect(crew: Sequence[_Hand[Answer]], count: int) -> list[Answer]:
    answers: dict[int, Answer] = {}
    first: _Failed | None = None
    doing: dict[Connection, int] = {}
    hands: dict[object, _Hand[Answer]] = {hand.pipe: hand for hand in crew}
    idle, dealt, end = list(crew), 0, count
    while True:
        while idle and dealt < end:
            hand = idle.pop()
            hand.tell(dealt)
            doing[hand.pipe], dealt = dealt, dealt + 1
        # Items after a failure cannot be the first to fail, so they are not waited for.
        if all(place > end for place in doing.values()):
            break
        for ready in wait(list(doing)):
            hand = hands[ready]
            reply = hand.hear()
            idle.append(hand)
            del doing[hand.pipe]
            if isinstance(reply, _Done):
                answers[reply.place] = reply.answer
            elif reply.place < end:
                first, end = reply, reply.place
    if first is not None:
        raise first.error
    return [answers[place] for place in range(count)]


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _serve(
    pipe: Connection,
    inherited: Sequence[Connection],
    work: Callable[[Item], Answer],
    items: Sequence[Item],
    processes: int,
) -> None:
    """Run a process: it ends with the parent, whose pipe ends it closes."""
    _take_share(processes)
    for other in inherited:
        other.close()
    with contextlib.suppress(EOFError, OSError):
        while True:
            pipe.send(_replied(work, items, pipe.recv()))


def _replied(
    work: Callable[[Item], Answer], items: Sequence[Item], place: int
) -> _Done[Answer] | _Failed:
    try:
        return _Done(place, work(items[place]))
    except Exception as error:
        if not isinstance(error, EmulatorError):
            error.add_note(traceback.format_exc())  # tracebacks are not sent; notes are
        return _Failed(place, error)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes forked here ignore Ctrl-C: the parent handles it, and ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
