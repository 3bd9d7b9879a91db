"""Lanes that wait for a phase of an mbarrier, or for their cluster.

They are parked with what they asked for, and asked again as soon as nothing else can run.
Where that frees nobody, waits that may end early do, once or twice, as on the chip when
their time is over: a kernel that does something else meanwhile gets its chance, and one
that asks again without end is told what it waits for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ptxemu.program import Code
from ptxemu.state.context import Registers, Runtime, Wait, put
from ptxemu.state.lanes import Lanes, Mask
from ptxemu.state.values import invert

#: How often in a row waits give up together before they are taken to be without end.
_PATIENCE = 4


#: Sends lanes on to a block of the control flow. It is passed, not kept: a batch that its own
#: parts refer to would stay in memory for long.
Push = Callable[[int, Mask], None]


class _Sleeper(NamedTuple):
    """Lanes that wait, with what they asked for."""

    code: Code
    wait: Wait
    asked: Any
    mask: Mask


class Suspended:
    """The waiting lanes of one batch.

    Args:
        lanes: The batch.
        R: Its registers.
        rt: What its closures share.
    """

    def __init__(self, lanes: Lanes, R: Registers, rt: Runtime) -> None:
        self._lanes, self._R, self._rt = lanes, R, rt
        self._waiting: list[_Sleeper] = []
        self._idle = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def arrive(self, code: Code, mask: Mask, push: Push) -> None:
        """Lanes come to a wait: those that need not wait go on."""
        if code.guard >= 0:
            condition = self._R[code.guard]
            inner = self._lanes.within(mask, invert(condition) if code.negated else condition)
            push(code.block.targets[0], self._lanes.without(mask, inner))
            mask = inner
            if mask.count == 0:
                return
        assert code.wait is not None
        self._try(_Sleeper(code, code.wait, code.wait.ask(self._R, mask), mask), push)

    def _try(self, waiting: _Sleeper, push: Push) -> bool:
        """Let go who can; the others wait (again). Did anybody go?"""
        code, wait, asked, mask = waiting
        go = self._lanes.within(mask, wait.ready(asked, mask))
        stay = self._lanes.without(mask, go)
        if stay.count:
            self._waiting.append(_Sleeper(code, wait, asked, stay))
        if not go.count:
            return False
        wait.passed(asked, go)
        if self._rt.stores is not None:
            self._rt.stores.meet(go)
        self._go(code, wait, (go, 1), push)
        self._idle = 0
        return True

    def _go(self, code: Code, wait: Wait, answer: tuple[Mask, int], push: Push) -> None:
        mask, over = answer
        mask.partial = True
        put(self._R, mask, wait.target, over, 0)
        push(code.block.targets[0], mask)

    def retry(self, push: Push) -> bool:
        """Ask for all again; did anybody go?"""
        before, self._waiting = self._waiting, []
        went = [self._try(waiting, push) for waiting in before]
        return any(went)

    def expire(self, push: Push) -> bool:
        """Nothing else can happen: waits that may end without their phase do.

        Raises:
            Fault: they have done so before, and nothing came of it.
        """
        timed = [waiting for waiting in self._waiting if waiting.wait.timed]
        self._idle += 1
        if self._idle > _PATIENCE or not timed:
            first = min(self._waiting, key=lambda waiting: waiting.code.block.rank)
            raise first.wait.stuck(first.asked, first.mask)
        self._waiting = [waiting for waiting in self._waiting if not waiting.wait.timed]
        for code, wait, _, mask in timed:
            self._go(code, wait, (mask, 0), push)
        return True
