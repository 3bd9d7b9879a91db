"""A kernel's machine code: blocks, edges and loops, and the paths back from an instruction.

`code_of` reads a launch's code. Branches name absolute addresses, the table counts from the
kernel's first instruction: the right difference puts every target on an instruction. If none does,
the instructions are one straight line. An indirect branch reaches every block that no other
instruction leads to; a call reaches its function and the instruction after the call.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from workbench.analysis.aggregate import LADDER, Recent
from workbench.model import InstructionTable, Launch, Number
from workbench.sass import SassOp, parse

#: Operations after which the next instruction is not the next to run, ...
_ENDS = ("end", "indirect")
#: ... those of them that go to the address that they name, ...
_LEADING = ("jump", "call")
#: ... and those after which another block begins.
_PARTING = ("jump", "meet", *_ENDS)
#: The alignment in bytes of a kernel's first instruction.
_ALIGNMENT = 128
#: The number of branches to search for the base.
_ASKED = 100


@dataclass(slots=True)
class Flow:
    """Blocks of consecutive rows, by number; `first` and `last` are rows, both included.

    `loop` is the innermost loop of a block (-1: none), `parent` the loop around a loop,
    `header` the block at which a loop starts. `stretch` numbers the code between two loops (0
    inside one).
    """

    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    successors: list[list[int]] = field(default_factory=list)
    predecessors: list[list[int]] = field(default_factory=list)
    loop: list[int] = field(default_factory=list)
    stretch: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    header: list[int] = field(default_factory=list)

    def block(self, row: int) -> int:
        """The block that a row is in."""
        return bisect_right(self.first, row) - 1


def base_address(
    operations: Sequence[SassOp], addresses: Sequence[int], executed: Mapping[int, Number]
) -> int | None:
    """The address of the first instruction, from the targets of the branches.

    Operations and addresses (in bytes from the first instruction) are by row; `executed` is row ->
    how often it was issued: blocks begin where that changes. None if no branch names a target, or
    if no base puts any target on an instruction.
    """
    known = {address: row for row, address in enumerate(addresses)}
    targets = [
        (row, operation.target)
        for row, operation in enumerate(operations)
        if operation.target is not None
    ]
    if not targets:
        return None
    # Code ends in a branch to itself, and then in padding.
    row, target = next((t for t in reversed(targets) if operations[t[0]].opcode == "BRA"), (-1, 0))
    base = target - addresses[row]
    padding = all(operation.opcode == "NOP" for operation in operations[row + 1 :])
    if row >= 0 and padding and base >= 0 and base % _ALIGNMENT == 0:
        return base
    begins = {
        row
        for row in range(1, len(operations))
        if operations[row - 1].flow in _PARTING or executed.get(row) != executed.get(row - 1)
    }
    some = [target for _, target in targets[:: 1 + len(targets) // _ASKED]]
    lowest = min(some)
    bases = {lowest - address for address in addresses}
    fitting: dict[int, int] = {}
    for base in sorted(guess for guess in bases if guess >= 0 and guess % _ALIGNMENT == 0):
        furthest = base + addresses[-1]
        if all(target - base in known for target in some if target <= furthest):
            inside = [target - base for target in some if target <= furthest]
            fitting[base] = sum(known[address] in begins for address in inside)
    best = max(fitting, key=lambda base: fitting[base], default=None)
    return best if best is not None and fitting[best] else None


def targets_of(
    operations: Sequence[SassOp], addresses: Sequence[int], executed: Mapping[int, Number]
) -> dict[int, int]:
    """Row -> the row that it names, for all rows that name one in this kernel."""
    row_at = {address: row for row, address in enumerate(addresses)}
    base = base_address(operations, addresses, executed)
    if base is None:
        return {}
    named = {
        row: row_at.get(operation.target - base, -1)
        for row, operation in enumerate(operations)
        if operation.target is not None
    }
    return {row: target for row, target in named.items() if target >= 0}


def flow_between(operations: Sequence[SassOp], targets: Mapping[int, int]) -> Flow:
    """Blocks, edges and loops of one kernel; `targets` are from `targets_of`."""
    if not operations:
        return Flow()  # a report without machine code: no blocks, and nothing that leads anywhere
    rejoined = _rejoined(operations, targets)
    jumps = {row: to for row, to in targets.items() if operations[row].flow in _LEADING}
    jumps.update(rejoined)
    starts = {0, *jumps.values()}
    for row, operation in enumerate(operations[:-1]):
        if row in jumps or operation.flow in _ENDS:
            starts.add(row + 1)
    flow = Flow()
    flow.first = sorted(starts)
    flow.last = [first - 1 for first in flow.first[1:]] + [len(operations) - 1]
    count = len(flow.first)
    number = {first: block for block, first in enumerate(flow.first)}
    flow.successors = [[] for _ in range(count)]
    flow.predecessors = [[] for _ in range(count)]
    for block, row in enumerate(flow.last):
        operation = operations[row]
        leaves = operation.flow in _ENDS or (row in jumps and operation.flow != "call")
        leaves = leaves or operation.opcode == "JMP"
        if block + 1 < count and (not leaves or operation.conditional):
            flow.successors[block].append(block + 1)
        if row in jumps and number[jumps[row]] not in flow.successors[block]:
            flow.successors[block].append(number[jumps[row]])
    _indirect(flow, operations)
    for block, following in enumerate(flow.successors):
        for after in following:
            flow.predecessors[after].append(block)
    _loops(flow)
    return flow


def _rejoined(operations: Sequence[SassOp], targets: Mapping[int, int]) -> dict[int, int]:
    """Row of a BSYNC -> the row at which the warp continues, which its BSSY names."""
    out: dict[int, int] = {}
    awaited: dict[str, int] = {}
    for row, operation in enumerate(operations):
        if operation.opcode == "BSSY" and row in targets:
            awaited[operation.operands.split(",")[0].strip()] = targets[row]
        elif operation.opcode == "BSYNC":
            target = awaited.get(operation.operands.strip())
            if target is not None and target > row:
                out[row] = target
    return out


def _indirect(flow: Flow, operations: Sequence[SassOp]) -> None:
    reached = {after for following in flow.successors for after in following}
    lost = [block for block in range(1, len(flow.first)) if block not in reached]
    calls = [
        block + 1
        for block, row in enumerate(flow.last)
        if operations[row].flow == "call" and block + 1 < len(flow.first)
    ]
    for block, row in enumerate(flow.last):
        if operations[row].flow == "indirect":
            flow.successors[block] += [b for b in lost if b not in flow.successors[block]]
        elif operations[row].opcode == "RET":
            flow.successors[block] += [b for b in calls if b not in flow.successors[block]]


def _loops(flow: Flow) -> None:
    """Natural loops, by dominators (Cooper, Harvey and Kennedy, 2001)."""
    count = len(flow.first)
    order = _postorder(flow)
    rank = {block: position for position, block in enumerate(order)}
    dominator = {0: 0}
    changed = True
    while changed:
        changed = False
        for block in reversed(order):
            if block == 0:
                continue
            best = -1
            for before in flow.predecessors[block]:
                if before in dominator:
                    best = before if best < 0 else _common(best, before, dominator, rank)
            if best >= 0 and dominator.get(block) != best:
                dominator[block] = best
                changed = True
    bodies: dict[int, set[int]] = {}
    for block in order:
        for after in flow.successors[block]:
            if _dominates(after, block, dominator):
                bodies.setdefault(after, {after}).update(_body(flow, after, block))
    flow.loop = [-1] * count
    flow.header = sorted(bodies, key=lambda header: len(bodies[header]))
    flow.parent = [-1] * len(flow.header)
    for loop in reversed(range(len(flow.header))):
        header = flow.header[loop]
        flow.parent[loop] = flow.loop[header]
        for block in bodies[header]:
            flow.loop[block] = loop
    between = 1
    for block, loop in enumerate(flow.loop):
        between += loop >= 0 and block > 0 and flow.loop[block - 1] < 0
        flow.stretch.append(0 if loop >= 0 else between)


def _postorder(flow: Flow) -> list[int]:
    seen = {0}
    order: list[int] = []
    stack = [(0, iter(flow.successors[0]))] if flow.first else []
    while stack:
        block, following = stack[-1]
        after = next((b for b in following if b not in seen), None)
        if after is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(after)
            stack.append((after, iter(flow.successors[after])))
    return order


def _common(a: int, b: int, dominator: dict[int, int], rank: dict[int, int]) -> int:
    while a != b:
        while rank[a] < rank[b]:
            a = dominator[a]
        while rank[b] < rank[a]:
            b = dominator[b]
    return a


def _dominates(a: int, b: int, dominator: dict[int, int]) -> bool:
    while b != a and b in dominator and dominator[b] != b:
        b = dominator[b]
    return a == b


def _body(flow: Flow, header: int, back: int) -> set[int]:
    body, waiting = {header}, [back]
    while waiting:
        block = waiting.pop()
        if block not in body:
            body.add(block)
            waiting += flow.predecessors[block]
    return body


# --- Paths back from an instruction: the writers of its operands, and their distance -------------
#
# The walk goes against the flow of control, over blocks and around loops, register by register.
# It ends at an unconditional write, and at a read: a result in flight arrived before that read
# continued, so no later instruction waits for the same write (the pruning by dominance of Zhou et
# al., "GPA: A GPU performance advisor", CGO 2021, done along every path). Distances are in
# instructions along the shortest of the paths.

#: Longer than any path.
FAR = 1 << 30


class Producer(NamedTuple):
    """An instruction that a later one depends on, by a register (None: by order alone)."""

    row: int
    register: int | None
    distance: int


#: Flags of an instruction's use of a register; `_LASTING`: independent of its guard.
_READS, _WRITES, _LASTING = 1, 2, 4
_OVERWRITES = _WRITES | _LASTING
_UNTOUCHED: tuple[list[int], list[int]] = ([], [])


class Slices:
    """Answers for one kernel.

    `flow` are the blocks; `issued` are rows that ran, if that is known: no warp waits for the
    others.
    """

    def __init__(
        self, operations: Sequence[SassOp], flow: Flow, issued: Container[int] = ()
    ) -> None:
        self.operations = operations
        self.flow = flow
        self._ran: Container[int] | None = issued or None
        # (block, register) -> rows that touch it, in order, and how each row does
        self._touched: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        self._kinds: dict[tuple[frozenset[str], int], list[int]] = {}
        self._found: dict[tuple[int, int, int, bool], list[Producer]] = {}
        self._nearest: dict[tuple[int, frozenset[str], int], list[Producer]] = {}
        for block, (first, last) in enumerate(zip(flow.first, flow.last, strict=True)):
            for row in range(first, last + 1):
                operation = operations[row]
                ways = dict.fromkeys(operation.reads, _READS)
                for register in operation.writes:
                    ways[register] = ways.get(register, 0) | _WRITES
                lasting = 0 if operation.conditional else _LASTING
                for register, way in ways.items():
                    rows, kinds = self._touched.setdefault((block, register), ([], []))
                    rows.append(row)
                    kinds.append(way | lasting)

    def among(self, issued: Container[int]) -> Slices:
        """The same kernel, limited to the rows that ran (if unknown, all)."""
        other = copy(self)
        other._ran, other._kinds, other._found = issued or None, {}, {}
        other._nearest = {}
        return other

    def writers(self, row: int, registers: Iterable[int], within: int = FAR) -> list[Producer]:
        """Instructions whose result may still be on its way when `row` is reached.

        The paths start at `row` and end after `within` instructions.
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
        """The nearest instructions of these opcodes on the paths back, without `row` itself.

        `most`: the number of instructions that is enough.
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
        """Rows between `row` and the instructions of these opcodes before it, on all paths back."""
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


# --- Code read once, for all problems and addresses that it ran with ----------------------------
#
# A study's versions are profiled on several problems, and the same code runs on all of them; only
# the addresses that branches name differ, since the driver decides where a module lies. So code is
# identified by its instructions with labels for these addresses. It holds no measured values: a
# result for one launch is valid for every launch of the same code.

#: An absolute address at an instruction's end, with the compiler's own label before it.
_ADDRESS = re.compile(r"(?:`\([^)]*\)\s*)?0x[0-9a-f]+\s*\)?\s*$")


@dataclass(frozen=True, eq=False)
class KernelCode:
    """Instructions by row: `texts` with labels for addresses, `leads` row -> the row that it names.

    `labels` are row -> the label of a row that others lead to.
    """

    operations: tuple[SassOp, ...]
    texts: tuple[str, ...]
    leads: dict[int, int]
    labels: dict[int, str]

    @cached_property
    def flow(self) -> Flow:
        """Blocks, edges and loops."""
        return flow_between(self.operations, self.leads)

    @cached_property
    def slices(self) -> Slices:
        """Backward slices over all instructions."""
        return Slices(self.operations, self.flow)

    @cached_property
    def readable(self) -> bool:
        """True if the opcodes of all instructions are known."""
        return all(operation.opcode for operation in self.operations)

    def slices_among(self, issued: frozenset[int]) -> Slices:
        """Paths back over the rows that ran, which are the same on most problems."""
        return _slices(self, issued)


@lru_cache(maxsize=LADDER)
def _slices(code: KernelCode, issued: frozenset[int]) -> Slices:
    return code.slices.among(issued)


@dataclass(frozen=True)
class _CodeText:
    """The identity of code; `operations` follow from it, except for the addresses."""

    texts: tuple[str, ...]
    leads: tuple[tuple[int, int], ...]
    operations: tuple[SassOp, ...] = field(compare=False)


@lru_cache(maxsize=LADDER)
def _known(named: _CodeText) -> KernelCode:
    leads = dict(named.leads)
    return KernelCode(named.operations, named.texts, leads, _labels(leads))


def _labels(leads: dict[int, int]) -> dict[int, str]:
    return {row: f".L{n}" for n, row in enumerate(sorted(set(leads.values())), 1)}


def _of_launch(launch: Launch) -> KernelCode:
    table = launch.instructions
    operations = tuple(map(parse, table.text))
    leads = targets_of(operations, table.address, issues(table))
    labels = _labels(leads)
    texts = [text.strip().rstrip("; ").replace("\n", " ") for text in table.text]
    for row, target in leads.items():
        # The label is our own and replaces the address as it is, whatever the text holds.
        found = _ADDRESS.search(texts[row])
        if found is not None:
            texts[row] = texts[row][: found.start()] + labels[target]
    return _known(_CodeText(tuple(texts), tuple(sorted(leads.items())), operations))


#: A launch's machine code; a page needs it several times.
code_of = Recent(_of_launch, most=LADDER)


def issues(table: InstructionTable) -> Mapping[int, Number]:
    """Row -> how often it was issued; empty if that was not counted."""
    column = table.columns.get("inst_executed")
    return dict(zip(column.rows, column.values, strict=True)) if column else {}
