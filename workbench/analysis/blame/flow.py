"""The flow of control between instructions: blocks, edges, loops, and ways back.

Branches name absolute addresses, the table counts from the kernel's first instruction: the
difference is the one that puts every target on an instruction. Where none does, the
instructions are one straight line. An indirect branch reaches every block that no other
instruction leads to; a call reaches its function, and what stands behind the call.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workbench.analysis.blame.sass import MachineOp
from workbench.model import Number

#: Operations behind which the next instruction is not the next to run.
_ENDS = frozenset({"EXIT", "RET", "BRX", "JMX", "KILL", "BRK", "CONT"})
_JUMPS = frozenset({"BRA", "JMP"})
#: Bytes that a kernel's first instruction is aligned to.
_ALIGNMENT = 128
_LEADING = frozenset({"BRA", "JMP", "CALL"})
_NAMING = frozenset({"BRA", "JMP", "CALL", "BSSY"})
#: Behind these another block begins.
_PARTING = frozenset({"BRA", "BSYNC", "EXIT", "RET", "WARPSYNC", "BRX"})
#: Branches that are asked for the base.
_ASKED = 100


@dataclass(slots=True)
class Flow:
    """Blocks of consecutive rows, by number; `first` and `last` are rows, both included.

    `loop` is the innermost loop of a block (-1: none), `parent` the loop around a loop,
    `header` the block at which a loop starts. `stretch` numbers what stands between two loops
    (0 inside of one).
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
    operations: Sequence[MachineOp], addresses: Sequence[int], executed: Mapping[int, Number]
) -> int | None:
    """The address of the first instruction, from the targets of the branches.

    Args:
        operations: By row.
        addresses: By row, in bytes from the first instruction.
        executed: Row -> how often it was issued; blocks begin where that changes.

    Returns:
        None where no branch names a target, or no base puts any of them on an instruction.
    """
    known = {address: row for row, address in enumerate(addresses)}
    targets = [
        (row, operation.target)
        for row, operation in enumerate(operations)
        if operation.target is not None and operation.opcode in _NAMING
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
        if operations[row - 1].opcode in _PARTING or executed.get(row) != executed.get(row - 1)
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
    operations: Sequence[MachineOp], addresses: Sequence[int], executed: Mapping[int, Number]
) -> dict[int, int]:
    """Row -> the row that it names, for all that name one of this kernel."""
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


def flow_between(operations: Sequence[MachineOp], targets: Mapping[int, int]) -> Flow:
    """Blocks, edges and loops of one kernel; `targets_of` says which row names which."""
    rejoined = _rejoined(operations, targets)
    jumps = {row: to for row, to in targets.items() if operations[row].opcode in _LEADING}
    jumps.update(rejoined)
    starts = {0, *jumps.values()}
    for row, operation in enumerate(operations[:-1]):
        if row in jumps or operation.opcode in _ENDS:
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
        leaves = operation.opcode in _ENDS or (
            (row in jumps and operation.opcode not in ("CALL",)) or operation.opcode == "JMP"
        )
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


def _rejoined(operations: Sequence[MachineOp], targets: Mapping[int, int]) -> dict[int, int]:
    """Row of a BSYNC -> the row at which the warp goes on, which its BSSY names."""
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


def _indirect(flow: Flow, operations: Sequence[MachineOp]) -> None:
    reached = {after for following in flow.successors for after in following}
    lost = [block for block in range(1, len(flow.first)) if block not in reached]
    calls = [
        block + 1
        for block, row in enumerate(flow.last)
        if operations[row].opcode == "CALL" and block + 1 < len(flow.first)
    ]
    for block, row in enumerate(flow.last):
        if operations[row].opcode in ("BRX", "JMX"):
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
