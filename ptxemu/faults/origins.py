"""The source lines that took part in each value.

They are recorded only to explain a wrong result. A set of lines is a row of bits. A result of an
instruction has the instruction's own line, the lines of its operands, and those of the
memory that it loads. Instructions that exchange values between lanes give every lane of a warp the
lines of all lanes. The direction of a branch is not recorded.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxemu.faults.words import triple
from ptxemu.ptx.instructions import SIZES, Instr, Loc, Ptx, Vec, registers_of
from ptxemu.state.context import Context, Registers, Run
from ptxemu.state.lanes import WARP, Lanes, Mask
from ptxemu.state.spaces import GlobalMemory
from ptxemu.state.values import Array, invert, truth

Bits = NDArray[np.uint64]
_WORD = 4
_ACROSS = ("shfl", "mma", "wmma", "ldmatrix", "vote", "redux", "match", "activemask")


class Writer(NamedTuple):
    """The last writer of an element: its instruction; block and thread as linear indices."""

    instr: Instr
    block: int
    thread: int
    grid: tuple[int, int, int]
    shape: tuple[int, int, int]

    @property
    def who(self) -> str:
        """``thread (3, 0, 0) of block (1, 0, 0)``."""
        return f"thread {triple(self.thread, self.shape)} of block {triple(self.block, self.grid)}"


class _Touch(NamedTuple):
    """One access of the instruction that has just run."""

    load: bool
    space: str
    words: Array  # first word of each lane
    each: int  # words per lane
    partly: bool  # a store of only part of its words, or one that keeps the old lines
    mask: Mask


class Origins:
    """Lines behind registers, shared memory and global memory."""

    def __init__(self, module: Ptx, arena: GlobalMemory) -> None:
        locs = {
            item.loc.home
            for function in module.functions.values()
            for item in function.body
            if isinstance(item, Instr)
        }
        self.lines = sorted(locs)
        self._place = {line: number for number, line in enumerate(self.lines)}
        self.planes = -(-len(self.lines) // 64)
        self.arena = arena
        words = len(arena.bytes) // _WORD + 1
        self.known = np.zeros((words, self.planes), np.uint64)
        self._writer = np.full(words, -1, np.int32)
        self._block = np.zeros(words, np.int64)
        self._thread = np.zeros(words, np.int32)
        #: Array -> instructions that stored to it.
        self.stores: dict[str, list[Instr]] = defaultdict(list)
        self._writers: list[tuple[Instr, Lanes]] = []
        self._local: dict[str, Bits] = {}
        self._registers: dict[int, Bits] = {}
        self._touched: list[_Touch] = []
        self.lanes: Lanes

    def start(self, lanes: Lanes, sizes: dict[str, int]) -> None:
        """Begin a batch, without origins for its registers and its own memory."""
        self.lanes = lanes
        self._registers = {}
        self._touched = []
        self._local = {
            space: np.zeros((size // _WORD + 1, self.planes), np.uint64)
            for space, size in sizes.items()
        }

    def suspend(self) -> tuple[Lanes, dict[int, Bits], dict[str, Bits]]:
        """The state of this batch only."""
        return self.lanes, self._registers, self._local

    def resume(self, held: tuple[Lanes, dict[int, Bits], dict[str, Bits]]) -> None:
        """Resume a batch that was suspended."""
        self.lanes, self._registers, self._local = held

    def bit(self, loc: Loc) -> Bits:
        """The set of one line, (1, 1, planes)."""
        number = self._place[loc.home]
        out = np.zeros((1, 1, self.planes), np.uint64)
        out[0, 0, number // 64] = np.uint64(1) << np.uint64(number % 64)
        return out

    def touch(self, kind: str, space: str, first: Array, width: int, mask: Mask) -> None:
        """Note an access: `width` bytes per lane, starting at byte `first` of the space."""
        words, each = first // _WORD, max(width // _WORD, 1)
        if kind != "store":
            self._touched.append(_Touch(True, space, words, each, False, mask))
        if kind != "load":
            partly = kind == "atomic" or width < _WORD
            self._touched.append(_Touch(False, space, words, each, partly, mask))

    def _memory(self, space: str) -> Bits:
        return self.known if space == "global" else self._local[space]

    def shadow(self, instr: Instr, ctx: Context) -> Run:
        """The step to run after an instruction."""
        targets = [ctx.register(name) for name in instr.writes if name != "_"]
        written = set(instr.writes) if instr.op != "mma" else set()
        sources = [
            ctx.register(name)
            for operand in instr.operands
            for name in registers_of(operand)
            if name != "_" and (name not in written or _rereads(instr, name))
        ]
        items = self._items(instr, ctx)
        sources = [slot for slot in sources if slot not in items]
        own = self.bit(instr.loc)
        guard = None if instr.guard is None else ctx.register(instr.guard.name)
        negated = instr.guard is not None and instr.guard.negated
        across = instr.op in _ACROSS
        chosen = None
        if instr.op == "selp":  # only the selected value counts
            first, second = (registers_of(operand) for operand in instr.operands[1:3])
            chosen = [ctx.register(names[0]) if names else -1 for names in (first, second)]
            sources = sources[-1:]

        def run(R: Registers, M: Mask) -> None:
            touched, self._touched = self._touched, []
            mask = M
            if guard is not None:
                condition = R[guard]
                mask = self.lanes.within(M, invert(condition) if negated else condition)
                if mask.count == 0:
                    return
            value = own
            for slot in sources:
                found = self._registers.get(slot)
                if found is not None:
                    value = value | found
            if chosen is not None:
                nothing = np.zeros_like(own)
                one, two = (self._registers.get(slot, nothing) for slot in chosen)
                taken = np.broadcast_to(truth(R[sources[0]]), self.lanes.shape)
                value = value | np.where(taken[..., None], one, two)
            if items and touched:
                self._vector(instr, items, touched[0], value, mask)
                return
            for each in touched:
                if each.load:
                    for word in self._loaded(each):
                        value = value | word
            if across:
                value = self._exchanged(value)
            for each in touched:
                if not each.load:
                    self._stored(each, [value] * each.each, instr)
            for slot in targets:
                self._put(slot, value, mask)

        return run

    def _items(self, instr: Instr, ctx: Context) -> list[int]:
        """Registers of a vector load or store, whose elements are kept separate; else nothing."""
        if instr.op not in ("ld", "st") or SIZES.get(instr.parts[-1], 0) < _WORD:
            return []
        operand = instr.operands[0 if instr.op == "ld" else 1]
        if not isinstance(operand, Vec):
            return []
        names = [registers_of(item) for item in operand.items]
        return [ctx.register(name[0]) if name and name[0] != "_" else -1 for name in names]

    def _vector(
        self, instr: Instr, items: list[int], touch: _Touch, value: Bits, mask: Mask
    ) -> None:
        words = touch.each // len(items)
        if touch.load:
            found = self._loaded(touch)
            for number, slot in enumerate(items):
                parts = found[number * words : (number + 1) * words]
                self._put(slot, np.bitwise_or.reduce([value | part for part in parts]), mask)
            return
        nothing = np.zeros_like(value)
        each = [value | self._registers.get(slot, nothing) for slot in items]
        self._stored(touch, [part for part in each for _ in range(words)], instr)

    def _loaded(self, touch: _Touch) -> list[Bits]:
        """The lines behind each word of an access."""
        memory = self._memory(touch.space)
        return [memory.take(touch.words + word, axis=0, mode="clip") for word in range(touch.each)]

    def _exchanged(self, value: Bits) -> Bits:
        lanes = self.lanes
        whole = np.broadcast_to(value, (*lanes.shape, self.planes))
        split = whole.reshape(lanes.B, lanes.W, WARP, self.planes)
        every = np.bitwise_or.reduce(split, axis=2, keepdims=True)
        return np.broadcast_to(every, split.shape).reshape(*lanes.shape, self.planes)

    def _stored(self, touch: _Touch, parts: list[Bits], instr: Instr) -> None:
        lanes = self.lanes
        on = lanes.full(touch.mask)
        words = np.broadcast_to(touch.words, lanes.shape)[on]
        memory = self._memory(touch.space)
        for step, part in enumerate(parts):
            values = np.broadcast_to(part, (*lanes.shape, self.planes))[on]
            if touch.partly:
                np.bitwise_or.at(memory, words + step, values)
            else:
                memory[words + step] = values
        if touch.space != "global" or not len(words):
            return
        number = self._number(instr)
        rows, threads = np.nonzero(on)
        for step in range(touch.each):
            self._writer[words + step] = number
            self._block[words + step] = lanes.blocks[rows]
            self._thread[words + step] = threads
        name = self._array_at(int(words[0]))
        if name and not any(known is instr for known in self.stores[name]):
            self.stores[name].append(instr)

    def _number(self, instr: Instr) -> int:
        for number, (known, lanes) in enumerate(self._writers):
            if known is instr and lanes.geometry == self.lanes.geometry:
                return number
        self._writers.append((instr, self.lanes))
        return len(self._writers) - 1

    def _array_at(self, word: int) -> str:
        allocation = self.arena.allocation_of(self.arena.base + word * _WORD)
        return allocation.name if allocation is not None else ""

    def _put(self, slot: int, value: Bits, mask: Mask) -> None:
        old = self._registers.get(slot)
        if mask.arr is not None and old is not None:
            value = np.where(mask.arr[..., None], value, old)
        self._registers[slot] = value

    # --- answers

    def _words(self, name: str, flat: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        return (self.arena.address(name) - self.arena.base + flat * size) // _WORD

    def of(self, name: str, flat: NDArray[np.int64], size: int) -> NDArray[np.bool_]:
        """The lines behind elements of an array: (elements, lines)."""
        bits = self.known[self._words(name, flat, size)]
        octets = bits.view(np.uint8).reshape(len(flat), -1)
        whole = np.unpackbits(octets, axis=1, bitorder="little")[:, : len(self.lines)]
        return whole.astype(np.bool_)

    def writer(self, name: str, flat: int, size: int) -> Writer | None:
        """The last writer of an element; None if it was never written."""
        word = int(self._words(name, np.array([flat]), size)[0])
        if self._writer[word] < 0:
            return None
        instr, lanes = self._writers[self._writer[word]]
        geometry = lanes.geometry
        return Writer(
            instr, int(self._block[word]), int(self._thread[word]), geometry.grid, geometry.block
        )


def _rereads(instr: Instr, name: str) -> bool:
    """Test whether a result is also among the operands."""
    return any(name in registers_of(operand) for operand in instr.operands[1:])
