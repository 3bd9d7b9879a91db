"""Children that take one mutant after another, and are killed where they give no answer.

A kernel that does not end cannot be stopped but by the end of its process, and one that
faults takes the process's context on the GPU with it: such children are replaced.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from benchmarks.fuzz.findings import Finding, Status
from workbench.processes import following

#: Told by a child that has begun what its time limit is for.
_BEGUN = "begun"
#: How long a child may take before that, in seconds.
_BEFORE_S = 90.0

Begun = Callable[[], None]


class Answer(NamedTuple):
    """A finding, and whether the child can go on after it."""

    finding: Finding
    alive: bool = True


#: Called in a child for each number; it says when what is to be watched begins.
Work = Callable[[int, Begun], Answer]
#: Called in the parent for a number whose child gave no answer.
Lost = Callable[[int, Status, str], Finding]


class _Hand:
    """One child and what it is busy with."""

    def __init__(self, slot: int, work: Work) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(slot, theirs, work))
        self.process.start()
        theirs.close()
        self.slot, self.number, self.deadline = slot, -1, 0.0

    def give(self, number: int) -> None:
        """Send it a mutant."""
        self.number, self.deadline = number, time.monotonic() + _BEFORE_S
        self.pipe.send(number)

    def end(self) -> None:
        """Kill it; a child whose kernel still runs may take long to go, so nobody waits."""
        self.process.kill()
        self.pipe.close()


def _serve(slot: int, pipe: Connection, work: Work) -> None:
    following.follow_parent()
    if hasattr(os, "sched_setaffinity"):
        # One core, and so the emulator forks no processes of its own.
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[slot % len(cores)]})
    while True:
        try:
            number = pipe.recv()
        except EOFError:
            break
        answer = work(number, lambda: pipe.send(_BEGUN))
        pipe.send(answer)
        if not answer.alive:
            break
    # What lies behind may be a context that is lost: no destructors.
    os._exit(0)


def run(
    numbers: Iterable[int], work: Work, lost: Lost, *, processes: int, seconds: float
) -> Iterator[Finding]:
    """The findings of all numbers, as they come.

    Args:
        numbers: The mutants.
        work: What a child does with each.
        lost: What is said of one whose child died or was killed.
        processes: Children at a time.
        seconds: How long one mutant may take after its child said that it begins.
    """
    left = iter(numbers)
    crew = [_Hand(slot, work) for slot in range(processes)]
    try:
        for hand in list(crew):
            _next(crew, hand, left)
        while crew:
            heard = wait([hand.pipe for hand in crew], timeout=0.5)
            for hand in [each for each in crew if each.pipe in heard]:
                yield from _hear(crew, hand, left, work, lost, seconds)
            for hand in list(crew):
                if time.monotonic() > hand.deadline:
                    yield lost(hand.number, "hung", f"no answer after {seconds:g} s")
                    _renew(crew, hand, left, work)
    finally:
        for hand in crew:
            hand.end()


def _hear(
    crew: list[_Hand], hand: _Hand, left: Iterator[int], work: Work, lost: Lost, seconds: float
) -> Iterator[Finding]:
    try:
        heard = hand.pipe.recv()
    except (EOFError, OSError):
        hand.process.join(5)
        yield lost(hand.number, "broken", f"its process ended with {hand.process.exitcode}")
        _renew(crew, hand, left, work)
        return
    if heard == _BEGUN:
        hand.deadline = time.monotonic() + seconds
        return
    yield heard.finding
    if heard.alive:
        _next(crew, hand, left)
    else:
        _renew(crew, hand, left, work)


def _next(crew: list[_Hand], hand: _Hand, left: Iterator[int]) -> None:
    number = next(left, None)
    if number is None:
        crew.remove(hand)
        hand.end()
    else:
        hand.give(number)


def _renew(crew: list[_Hand], hand: _Hand, left: Iterator[int], work: Work) -> None:
    crew.remove(hand)
    hand.end()
    number = next(left, None)
    if number is not None:
        fresh = _Hand(hand.slot, work)
        crew.append(fresh)
        fresh.give(number)
