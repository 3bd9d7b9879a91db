"""Lanes that do not run now: parked at a wait, resting in a loop, or waiting for a loop's piece."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxemu.compiled import PIECES, Code, Wait
from ptxemu.state.context import ApartError, Registers, Runtime, put
from ptxemu.state.lanes import WARP, Lanes, Mask, select
from ptxemu.state.values import Affine, Array, Value, invert

# --- Lanes that wait for a phase of an mbarrier, or for their cluster ---
# They are parked with their request, which is checked again as soon as nothing else can run. If
# that frees no lane, waits that may end early do so, once or twice, as on the chip when their time
# is over. A kernel that does other work meanwhile can then proceed; for one that retries endlessly
# the error names the object of its wait.

#: Waits that give up together this often in a row are taken to be endless.
_PATIENCE = 4


#: Sends lanes to a block of the control flow. It is passed, not stored: a batch referenced by its
#: own parts would stay in memory for long.
Push = Callable[[int, Mask], None]


def guarded(code: Code, mask: Mask, R: Registers, lanes: Lanes, push: Push) -> Mask:
    """The lanes whose guard lets them run the end of a block; the others continue after it."""
    if code.guard < 0:
        return mask
    condition = R[code.guard]
    inner = lanes.within(mask, invert(condition) if code.negated else condition)
    push(code.block.targets[0], lanes.without(mask, inner))
    return inner


class _Sleeper(NamedTuple):
    """Lanes that wait, with their request."""

    code: Code
    wait: Wait
    asked: Any
    mask: Mask


class Suspended:
    """The waiting lanes of one batch."""

    def __init__(self, lanes: Lanes, R: Registers, rt: Runtime) -> None:
        self._lanes, self._R, self._rt = lanes, R, rt
        self._waiting: list[_Sleeper] = []
        self._idle = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def arrive(self, code: Code, mask: Mask, push: Push) -> None:
        """Lanes arrive at a wait: those that need not wait continue."""
        mask = guarded(code, mask, self._R, self._lanes, push)
        if mask.count:
            assert code.wait is not None
            self._try(_Sleeper(code, code.wait, code.wait.ask(self._R, mask), mask), push)

    def _try(self, waiting: _Sleeper, push: Push) -> bool:
        """Release the lanes that can go; the others wait (again). Return whether any went."""
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
        """Check all requests again; return whether any lane went."""
        before, self._waiting = self._waiting, []
        went = [self._try(waiting, push) for waiting in before]
        return any(went)

    def expire(self, push: Push) -> None:
        """Let waits give up that may end without their phase; nothing else can run.

        Raises:
            Fault: they have given up before, without progress.
        """
        timed = [waiting for waiting in self._waiting if waiting.wait.timed]
        self._idle += 1
        if self._idle > _PATIENCE or not timed:
            first = min(self._waiting, key=lambda waiting: waiting.code.block.rank)
            raise first.wait.stuck(first.asked, first.mask)
        self._waiting = [waiting for waiting in self._waiting if not waiting.wait.timed]
        for code, wait, _, mask in timed:
            self._go(code, wait, (mask, 0), push)


# --- Lanes that wait for others of their warp ---
# An instruction that the lanes of a warp run together names its lanes. Named lanes that are not
# here run first: they arrive as well, or end, and then the others continue. If they do neither, a
# GPU would wait for ever, or give an undefined result.


class _Halted(NamedTuple):
    """Lanes in the middle of a block, before an instruction that others must run with them."""

    mask: Mask
    held: dict[int, Value | None]  # registers used only in this block: others may run it
    apart: ApartError


class Gathering:
    """The halted lanes of one batch, by block and place in it."""

    def __init__(self, lanes: Lanes, R: Registers) -> None:
        self._lanes, self._R = lanes, R
        self._halted: dict[tuple[int, int], _Halted] = {}
        self._codes: dict[int, Code] = {}
        self._tried: dict[tuple[int, int], tuple[Mask, Mask]] = {}

    def __bool__(self) -> bool:
        return bool(self._halted)

    def halt(self, code: Code, at: int, mask: Mask, apart: ApartError) -> None:
        """Lanes have reached an operation of a block that they cannot run alone."""
        key = code.block.index, at
        self._codes[code.block.index] = code
        held = {slot: self._R[slot] for slot, _ in code.own}
        before = self._halted.get(key)
        if before is not None:
            for slot, size in code.own:
                value, old = held[slot], before.held[slot]
                if value is None or old is None:
                    held[slot] = old if value is None else value
                else:
                    held[slot] = select(mask, value, old, size)
            mask = self._lanes.union(mask, before.mask)
        self._halted[key] = _Halted(mask, held, apart)

    def next(self, alive: Mask) -> tuple[Code, int, Mask] | None:
        """Lanes that may continue now, with their registers; None: no lane has arrived or ended."""
        for key, (mask, held, _) in self._halted.items():
            if self._tried.get(key) == (mask, alive):
                continue
            self._tried[key] = (mask, alive)
            del self._halted[key]
            for slot, value in held.items():
                self._R[slot] = value
            return self._codes[key[0]], key[1], mask
        return None

    @property
    def all(self) -> list[_Halted]:
        """Every group of halted lanes."""
        return list(self._halted.values())

    def first(self) -> _Halted:
        """The group at the earliest block."""
        return min(self._halted.items())[1]


# --- Loops that stand still ---
# A loop stands still if an iteration left its registers, its lanes and all memory unchanged. Only
# another thread can end it then, so it rests until every other thread has had its turn. If all rest
# and none has changed anything, they wait for ever. This needs no guess about the loop's purpose.

#: Iterations before a loop is first checked, and the most between two checks.
_FIRST, _RARELY = 64, 4096
#: A check without a second arrival after this many instructions has missed the loop's end.
_LOST = 20_000


@dataclass(slots=True)
class _Loop:
    """Lanes that iterate a loop together, and their state at the last check."""

    mask: Mask
    rounds: int = 0
    look: int = _FIRST  # the iteration of the next check
    values: list[Value | None] | None = None
    changes: int = 0


class Resting:
    """The loops of one batch that stand still, by the rank of their first block."""

    def __init__(self, rt: Runtime) -> None:
        self.rt = rt
        self.asleep: dict[int, Mask] = {}
        #: Has any lane made progress since this was last set to False?
        self.moved = True
        self._loops: dict[int, _Loop] = {}
        self._looks, self._since = 0, 0  # how many checks, and the instructions at the first
        self._woken: dict[int, Mask] | None = None
        self._changes = 0

    def arrive(self, code: Code, mask: Mask, R: Registers, steps: int, *, busy: bool) -> bool:
        """Lanes arrive at a loop's first block; return whether they rest there.

        `steps`: instructions of the batch so far; `busy`: others could run.
        """
        rank, alive = code.block.rank, code.alive
        assert alive is not None
        loop = self._loops.get(rank)
        if loop is None or loop.mask is not mask:
            if loop is not None and loop.values is not None:
                self._looked(loop)
            self._loops[rank] = _Loop(mask, look=_FIRST if self._woken is None else 0)
            return False
        loop.rounds += 1
        if loop.values is not None:
            same = loop.changes == self.rt.changes and all(
                _same(old, R[slot], mask) for old, slot in zip(loop.values, alive, strict=True)
            )
            self._looked(loop)
            loop.look = loop.rounds + min(loop.rounds, _RARELY)
            if same:
                return self._rest(rank, mask)
        if code.polls and loop.rounds >= _FIRST and (busy or self.asleep):
            self.moved = True
            return self._rest(rank, mask)
        if loop.rounds >= loop.look:
            loop.values, loop.changes = [R[slot] for slot in alive], self.rt.changes
            self._looks += 1
            self._since = steps if self._looks == 1 else self._since
            self.rt.probing = True
        elif self._looks and self._woken is None and steps > self._since + _LOST:
            for each in self._loops.values():  # their lanes have left the loop
                each.values = None
            self._looks, self.rt.probing = 0, False
        return False

    def _looked(self, loop: _Loop) -> None:
        loop.values = None
        self._looks -= 1
        self.rt.probing = self._looks > 0 or self._woken is not None

    def _rest(self, rank: int, mask: Mask) -> bool:
        held = self.asleep.get(rank)
        self.asleep[rank] = mask if held is None else self.rt.lanes.union(held, mask)
        del self._loops[rank]
        return True

    def wake(self) -> dict[int, Mask]:
        """The resting lanes to run again; empty if that was just tried in vain."""
        rt = self.rt
        if self._woken == self.asleep and not self.moved and self._changes == rt.changes:
            self._woken = None
            return {}
        woken, self.asleep = self.asleep, {}
        self._woken, self._changes, self.moved = woken, rt.changes, False
        self._loops.clear()
        self._looks, rt.probing = 0, True
        return woken


def _same(old: Value | None, new: Value | None, mask: Mask) -> bool:
    """Test whether two register values agree in the lanes of a mask."""
    if old is new:
        return True
    if old is None or new is None:
        return False
    if isinstance(old, int) and isinstance(new, int):
        return old == new
    one, two = _bits(old), _bits(new)
    if isinstance(old, int):
        one = one.astype(two.dtype)
    elif isinstance(new, int):
        two = two.astype(one.dtype)
    if one.dtype != two.dtype:
        return False
    differ = one != two
    return not (differ if mask.arr is None else differ & mask.arr).any()


def _bits(value: Value) -> Array:
    if isinstance(value, int):
        return np.array([[value]], np.uint64)
    array = value.array() if isinstance(value, Affine) else value
    return array if array.dtype.kind in "bu" else array.view(f"u{array.itemsize}")


# --- Loops that ptxas makes in pieces: the lanes of a warp that run an iteration together ---
# A loop that counts towards a limit becomes a loop of four iterations, a block of two and one
# iteration, and a warp reconverges between them. So lanes with different numbers of iterations left
# do not run theirs together: all that have four left run first, while the others wait. Only lanes
# that run together share a memory request, so this changes sectors and wavefronts. Derived from
# ptxas 13.0; `ptxemu.ptxas` finds these loops.


class LoopPieces:
    """The loops of one batch that are in the middle of a piece, by the rank of their block."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._going: dict[int, tuple[Mask, int]] = {}  # and their number of remaining iterations
        self._even: dict[int, Mask] = {}  # in whose warps all lanes have equally many iterations

    def choose(self, code: Code, mask: Mask, R: Registers, push: Push) -> Mask:
        """The lanes of a loop's first block that run it now; the others wait there."""
        lanes, rank, turns = self._lanes, code.block.rank, code.trips
        assert turns is not None
        if self._even.get(rank) is mask:
            return mask
        chosen, more = self._going.pop(rank, (lanes.empty, 0))
        if more:
            chosen = lanes.mask(lanes.full(chosen) & lanes.full(mask))
        if not chosen.count:
            left = turns.left(R)
            if left is None or self._alike(left, mask):
                self._even[rank] = mask
                return mask
            on = lanes.full(mask)
            more = next(piece for piece in PIECES if (on & (left >= piece)).any())
            chosen = lanes.mask(on & (left >= more))
        if more > 1:
            self._going[rank] = chosen, more - 1
        push(code.block.index, lanes.without(mask, chosen))
        return chosen

    def _alike(self, left: NDArray[np.int64], mask: Mask) -> bool:
        """Test whether all lanes of each warp have equally many iterations left."""
        by_warp = np.broadcast_to(left, self._lanes.shape).reshape(-1, WARP)
        on = self._lanes.full(mask).reshape(-1, WARP)
        most = np.where(on, by_warp, 0).max(axis=1, keepdims=True)
        return bool((~on | (by_warp == most)).all())
