"""Ways back from an instruction: who wrote what it reads, and how far that is.

The walk goes against the flow of control, over blocks and around loops, register by register.
It ends at an unconditional write, and at a read: whatever was in flight has arrived before
that read went on, so nobody behind it waits for the same write (the pruning by dominance of
Zhou et al., "GPA: A GPU performance advisor", CGO 2021, done along every path). Distances are
in instructions along the shortest of the paths.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Container, Iterable, Sequence
from copy import copy
from typing import NamedTuple

from workbench.analysis.blame.account import Kind
from workbench.analysis.blame.flow import Flow
from workbench.analysis.blame.sass import MachineOp

#: Farther than any way goes.
FAR = 1 << 30


class Producer(NamedTuple):
    """An instruction that a later one depends on, by a register (None: by order alone)."""

    row: int
    register: int | None
    distance: int


#: How an instruction touches a register, and whether it does so whatever its guard says.
_READS, _WRITES, _ENDS = 1, 2, 4
_OVERWRITES = _WRITES | _ENDS
_UNTOUCHED: tuple[list[int], list[int]] = ([], [])


class Slices:
    """Answers for one kernel.

    Args:
        operations: By row.
        flow: Their blocks.
        issued: Rows that ran, where that is known: nobody waits for the others.
    """

    def __init__(
        self, operations: Sequence[MachineOp], flow: Flow, issued: Container[int] = ()
    ) -> None:
        self.operations = operations
        self.flow = flow
        self._ran: Container[int] | None = issued or None
        # (block, register) -> rows that touch it, in order, and how each does
        self._touched: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        self._kinds: dict[tuple[frozenset[str], int], list[int]] = {}
        self._found: dict[tuple[int, int, int, bool], list[Producer]] = {}
        self._nearest: dict[tuple[int, frozenset[str], int], list[Producer]] = {}
        #: (state, row) -> what others have found of it (`debts`).
        self.causes: dict[tuple[str, int], tuple[Kind, list[Producer]]] = {}
        for block, (first, last) in enumerate(zip(flow.first, flow.last, strict=True)):
            for row in range(first, last + 1):
                operation = operations[row]
                ways = dict.fromkeys(operation.reads, _READS)
                for register in operation.writes:
                    ways[register] = ways.get(register, 0) | _WRITES
                lasting = 0 if operation.conditional else _ENDS
                for register, way in ways.items():
                    rows, kinds = self._touched.setdefault((block, register), ([], []))
                    rows.append(row)
                    kinds.append(way | lasting)

    def among(self, issued: Container[int]) -> Slices:
        """The same kernel, of which only these rows ran (all, if none is known)."""
        other = copy(self)
        other._ran, other._kinds, other._found = issued or None, {}, {}
        other._nearest, other.causes = {}, {}
        return other

    def writers(self, row: int, registers: Iterable[int], within: int = FAR) -> list[Producer]:
        """Instructions whose result may still be on its way when `row` is reached.

        Args:
            row: Where the ways start.
            registers: What it depends on.
            within: Instructions after which a way is given up.
        """
        out = []
        for register in registers:
            out += self._touching(row, register, within, written=True)
        return out

    def readers(
        self, row: int, registers: Iterable[int], opcodes: Container[str]
    ) -> list[Producer]:
        """Instructions of these opcodes that may still have to read what `row` overwrites."""
        found = (
            s for register in registers for s in self._touching(row, register, FAR, written=False)
        )
        return [source for source in found if self.operations[source.row].opcode in opcodes]

    def _touching(self, row: int, register: int, within: int, *, written: bool) -> list[Producer]:
        key = row, register, within, written
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._walk(row, register, within, written=written)
        return found

    def _walk(self, row: int, register: int, within: int, *, written: bool) -> list[Producer]:
        flow = self.flow
        start = flow.block(row)
        ran = self._ran
        wanted = _WRITES if written else _READS
        waiting = deque([(start, row, 0)])
        seen: set[int] = set()
        out: list[Producer] = []
        while waiting:
            block, before, distance = waiting.popleft()
            rows, kinds = self._touched.get((block, register), _UNTOUCHED)
            position = bisect_left(rows, before)
            ended = False
            while position and not ended:
                position -= 1
                at, kind = rows[position], kinds[position]
                if ran is not None and at not in ran:
                    continue
                if kind & wanted:
                    out.append(Producer(at, register, distance + before - at))
                # Reads of the same value do not end the wait until it may be overwritten.
                ended = bool(written and kind & _READS) or kind & _OVERWRITES == _OVERWRITES
            if ended or distance + before - flow.first[block] >= within:
                continue
            for previous in flow.predecessors[block]:
                if previous not in seen:
                    seen.add(previous)
                    steps = distance + before - flow.first[block]
                    waiting.append((previous, flow.last[previous] + 1, steps))
        return out

    def nearest(self, row: int, opcodes: frozenset[str], most: int = 1) -> list[Producer]:
        """The nearest instructions of these opcodes on the ways back, `row` itself not among them.

        Args:
            row: Where the ways start.
            opcodes: What is looked for.
            most: How many of them are enough.
        """
        key = row, opcodes, most
        found = self._nearest.get(key)
        if found is None:
            found = self._nearest[key] = self._looked_for(row, opcodes, most)
        return found

    def _looked_for(self, row: int, opcodes: frozenset[str], most: int) -> list[Producer]:
        flow = self.flow
        waiting = deque([(flow.block(row), row, 0)])
        seen: set[int] = set()
        out: list[Producer] = []
        while waiting and len(out) < most:
            block, before, distance = waiting.popleft()
            rows = self._of_kind(opcodes, block)
            ahead = rows[: bisect_left(rows, before)]
            out += [Producer(at, None, distance + before - at) for at in reversed(ahead)]
            for previous in flow.predecessors[block] if len(out) < most else ():
                if previous not in seen:
                    seen.add(previous)
                    steps = distance + before - flow.first[block]
                    waiting.append((previous, flow.last[previous] + 1, steps))
        unique: dict[int, Producer] = {}
        for source in sorted(out, key=lambda source: source.distance):
            unique.setdefault(source.row, source)
        return list(unique.values())[:most]

    def _of_kind(self, opcodes: frozenset[str], block: int) -> list[int]:
        key = opcodes, block
        rows = self._kinds.get(key)
        if rows is None:
            span = range(self.flow.first[block], self.flow.last[block] + 1)
            kind = self.operations
            ran = span if self._ran is None else self._ran
            rows = [row for row in span if row in ran and kind[row].opcode in opcodes]
            self._kinds[key] = rows
        return rows

    def interval(self, row: int, opcodes: frozenset[str]) -> list[int]:
        """Rows between `row` and the instructions of these opcodes before it, on all ways back."""
        flow = self.flow
        waiting = deque([(flow.block(row), row)])
        seen: set[int] = set()
        out: set[int] = set()
        while waiting:
            block, before = waiting.popleft()
            rows = self._of_kind(opcodes, block)
            position = bisect_left(rows, before)
            if position:
                out.update(range(rows[position - 1] + 1, before))
                continue
            out.update(range(flow.first[block], before))
            for previous in flow.predecessors[block]:
                if previous not in seen:
                    seen.add(previous)
                    waiting.append((previous, flow.last[previous] + 1))
        return sorted(out)
