"""Basic blocks, the order in which they run, and which registers outlive a block.

The machine always runs the earliest pending block of `ControlFlow.order`. Because that
order keeps every loop's blocks together and before what follows the loop, lanes
that parted at a branch meet again at its immediate post-dominator; where that is the head of
the loop around the branch, in a block without instructions before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from workbench.emulator.ptx.inlining import FlatKernel
from workbench.emulator.ptx.instructions import Instr, Label, Sym
from workbench.errors import KernelError

_BARRIERS = ("bar", "barrier")
#: What gives each lane a value of its own.
_PER_LANE = ("ld", "atom", "shfl", "match", "ldmatrix", "mma", "wmma", "wgmma")
_LANES = ("%tid", "%laneid", "%lanemask")
#: What ends a block: a wait is for something else than the threads of a block.
Ending = Literal["jump", "branch", "exit", "barrier", "switch", "wait"]


@dataclass(slots=True)
class BasicBlock:
    """Straight-line code and how it ends.

    `targets` are block indices: branch -> (taken, not taken); barrier, wait -> (next,).
    """

    index: int
    instrs: list[Instr] = field(default_factory=list)
    kind: Ending = "jump"
    last: Instr | None = None  # the branch, barrier or exit itself
    targets: tuple[int, ...] = ()
    rank: int = -1  # position in ControlFlow.order; -1: unreachable
    loops: frozenset[int] = frozenset()  # headers of the loops around it
    nounroll: bool = False

    @property
    def every(self) -> list[Instr]:
        """All instructions, the last one included."""
        return self.instrs if self.last is None else [*self.instrs, self.last]


@dataclass(slots=True)
class ControlFlow:
    """The control flow of one kernel."""

    blocks: list[BasicBlock]
    order: list[int]
    before: list[list[int]]  # block -> blocks that lead to it
    alive: dict[int, set[str]]  # block -> registers that it or what follows reads first
    shared_registers: set[str]  # alive at the start of some block
    reach: list[set[int]]  # block -> blocks reachable after it

    @property
    def ordered(self) -> list[BasicBlock]:
        """The blocks that can be reached, in the order in which they run."""
        return [self.blocks[index] for index in self.order]


def walk(blocks: Iterable[BasicBlock]) -> Iterator[tuple[BasicBlock, Instr]]:
    """Every instruction with its block, branches included."""
    return ((block, instr) for block in blocks for instr in block.every)


def makers(blocks: Iterable[BasicBlock]) -> dict[str, list[Instr]]:
    """Register -> the instructions that write it."""
    out: dict[str, list[Instr]] = defaultdict(list)
    for _, instr in walk(blocks):
        for name in results(instr):
            out[name].append(instr)
    return out


def varying(blocks: Iterable[BasicBlock]) -> set[str]:
    """Registers that may differ between the lanes of a warp."""
    found: set[str] = set()
    users: dict[str, list[Instr]] = defaultdict(list)
    left: list[Instr] = []
    for _, instr in walk(blocks):
        reads = arguments(instr)
        own = instr.op in _PER_LANE and "param" not in instr.parts
        if own or any(name.startswith(_LANES) for name in reads):
            left.append(instr)
        for name in reads:
            users[name].append(instr)
    while left:
        for name in results(left.pop()):
            if name not in found:
                found.add(name)
                left += users[name]
    return found


def results(instr: Instr) -> tuple[str, ...]:
    """Registers that the instruction writes."""
    return instr.writes


def arguments(instr: Instr) -> tuple[str, ...]:
    """Registers that the instruction reads, its guard included."""
    return instr.reads


def _is_barrier(instr: Instr) -> bool:
    return instr.op in _BARRIERS and not {"warp", "cluster"} & set(instr.parts)


def _is_wait(instr: Instr) -> bool:
    if instr.op == "mbarrier":
        return instr.parts[1] in ("test_wait", "try_wait")
    return instr.parts[:3] == ("barrier", "cluster", "wait")


def _split(flat: FlatKernel) -> tuple[list[BasicBlock], dict[str, int]]:
    blocks = [BasicBlock(0)]
    labels: dict[str, int] = {}

    def fresh() -> None:
        if blocks[-1].instrs or blocks[-1].last is not None:
            blocks.append(BasicBlock(len(blocks)))

    for item in flat.body:
        if isinstance(item, Label):
            fresh()
            labels[item.name] = blocks[-1].index
            continue
        if item.op == "pragma":
            blocks[-1].nounroll |= "nounroll" in item.text
            continue
        if (_is_barrier(item) or _is_wait(item)) and item.guard is not None:
            fresh()
        if item.op in ("bra", "brx", "ret", "exit") or _is_barrier(item) or _is_wait(item):
            if blocks[-1].last is not None:
                blocks.append(BasicBlock(len(blocks)))
            blocks[-1].last = item
            blocks.append(BasicBlock(len(blocks)))
        else:
            blocks[-1].instrs.append(item)
    return blocks, labels


def _link(flat: FlatKernel, blocks: list[BasicBlock], labels: dict[str, int]) -> None:
    def target(name: str) -> int:
        if name not in labels:
            raise KernelError(f"kernel {flat.name}: jump to unknown label {name}")
        return labels[name]

    end = len(blocks)
    for block in blocks:
        last, after = block.last, block.index + 1
        if last is None:
            block.kind, block.targets = "jump", (after,)
        elif last.op == "bra":
            operand = last.operands[0]
            assert isinstance(operand, Sym)
            goal = target(operand.name)
            if last.guard is None:
                block.kind, block.targets = "jump", (goal,)
            else:
                block.kind, block.targets = "branch", (goal, after)
        elif last.op == "brx":
            table = last.operands[1]
            assert isinstance(table, Sym)
            names = flat.tables.get(table.name, ())
            block.kind, block.targets = "switch", tuple(target(name) for name in names)
        elif _is_barrier(last):
            block.kind, block.targets = "barrier", (after,)
        elif _is_wait(last):
            block.kind, block.targets = "wait", (after,)
        elif last.guard is not None:
            block.kind, block.targets = "branch", (end, after)
        else:
            block.kind = "exit"
    blocks.append(BasicBlock(end, kind="exit"))  # falling off the end, and guarded returns


def _dominators(
    blocks: list[BasicBlock], order: list[int], before: list[list[int]]
) -> list[set[int]]:
    everything = set(order)
    dominators = [set(everything) for _ in blocks]
    dominators[order[0]] = {order[0]}
    changed = True
    while changed:
        changed = False
        for index in order[1:]:
            sets = [dominators[p] for p in before[index] if p in everything]
            new = set.intersection(*sets) | {index} if sets else {index}
            if new != dominators[index]:
                dominators[index], changed = new, True
    return dominators


def _ranked(blocks: list[BasicBlock]) -> list[int]:
    """Reverse postorder, noted in the blocks; successors that leave more loops come later."""
    seen, out = {0}, []

    def successors(index: int) -> list[int]:
        loops = blocks[index].loops
        return sorted(set(blocks[index].targets), key=lambda t: (len(loops & blocks[t].loops), -t))

    stack = [(0, iter(successors(0)))]
    while stack:
        index, pending = stack[-1]
        for goal in pending:
            if goal not in seen:
                seen.add(goal)
                stack.append((goal, iter(successors(goal))))
                break
        else:
            out.append(index)
            stack.pop()
    out.reverse()
    for rank, index in enumerate(out):
        blocks[index].rank = rank
    return out


def _loops(blocks: list[BasicBlock], dominators: list[set[int]], before: list[list[int]]) -> None:
    for block in blocks:
        for head in block.targets:
            if head not in dominators[block.index] or block.rank < 0:
                continue
            body, stack = {head}, [block.index]
            while stack:
                index = stack.pop()
                if index not in body:
                    body.add(index)
                    stack.extend(before[index])
            for index in body:
                blocks[index].loops |= {head}


def _meeting_again(blocks: list[BasicBlock]) -> None:
    """Give loops whose lanes meet before the next turn one block that leads back.

    Where both ways out of a branch only come together at the head of the loop around it
    (``continue``), ptxas lets the lanes meet before they go back. A branch back whose other way
    may leave the loop is the end of a loop of its own, inside of the other.
    """
    before = _before(blocks)
    order = _ranked(blocks)
    dominators = _dominators(blocks, order, before)
    back: dict[int, list[int]] = defaultdict(list)
    for index in order:
        for head in sorted(set(blocks[index].targets) & dominators[index]):
            back[head].append(index)
    if all(len(latches) < 2 for latches in back.values()):
        return
    after = _after(blocks, order)
    for head, latches in back.items():
        joined = [at for at in latches if all(head in after[goal] for goal in blocks[at].targets)]
        if len(joined) < 2:
            continue
        new = BasicBlock(len(blocks), targets=(head,))
        blocks.append(new)
        for at in joined:
            targets = blocks[at].targets
            blocks[at].targets = tuple(new.index if goal == head else goal for goal in targets)


def _before(blocks: list[BasicBlock]) -> list[list[int]]:
    before: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for goal in block.targets:
            before[goal].append(block.index)
    return before


def _after(blocks: list[BasicBlock], order: list[int]) -> dict[int, set[int]]:
    """Block -> the blocks that every way from it to an end goes through, itself included."""
    after = {index: set(order) for index in order}
    changed = True
    while changed:
        changed = False
        for index in reversed(order):
            ways = [after[goal] for goal in blocks[index].targets]
            new = set.intersection(*ways) | {index} if ways else {index}
            if new != after[index]:
                after[index], changed = new, True
    return after


def needed(blocks: Sequence[BasicBlock], *, kept: bool) -> dict[int, set[str]]:
    """Block -> registers that are read from its start on before they are written.

    Args:
        blocks: Blocks that lead to none but each other.
        kept: Whether a write under a guard reads what it keeps in the other lanes.
    """
    uses: dict[int, set[str]] = {}
    kills: dict[int, set[str]] = {}
    for block in blocks:
        use: set[str] = set()
        kill: set[str] = set()
        for instr in block.every:
            use.update(name for name in arguments(instr) if name not in kill)
            if instr.guard is None:
                kill.update(results(instr))
            elif kept:
                use.update(name for name in results(instr) if name not in kill)
        uses[block.index], kills[block.index] = use, kill
    alive = {index: set(use) for index, use in uses.items()}
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            index = block.index
            after = set().union(*(alive[goal] for goal in block.targets))
            new = uses[index] | (after - kills[index])
            if new != alive[index]:
                alive[index], changed = new, True
    return alive


def _reach(blocks: list[BasicBlock]) -> list[set[int]]:
    out = []
    for block in blocks:
        seen: set[int] = set()
        stack = list(block.targets)
        while stack:
            index = stack.pop()
            if index not in seen:
                seen.add(index)
                stack.extend(blocks[index].targets)
        out.append(seen)
    return out


def control_flow(flat: FlatKernel) -> ControlFlow:
    """The control-flow graph of a flat kernel.

    Raises:
        KernelError: a jump to a label that does not exist.
    """
    blocks, labels = _split(flat)
    _link(flat, blocks, labels)
    _meeting_again(blocks)
    before = _before(blocks)
    order = _ranked(blocks)
    _loops(blocks, _dominators(blocks, order, before), before)
    order = _ranked(blocks)
    alive = needed(blocks, kept=True)
    shared = set().union(*alive.values())
    return ControlFlow(blocks, order, before, alive, shared, _reach(blocks))
