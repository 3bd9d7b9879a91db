"""Basic blocks, the order in which they run, and the registers that outlive a block.

A batch always runs the earliest pending block of `ControlFlow.order`. That order keeps every loop's
blocks together and before the code after the loop. So lanes that diverge at a branch meet again at
its immediate post-dominator; if that is the head of the loop around the branch, they meet in an
empty block before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_, or_
from typing import Literal

from ptxemu.errors import PtxError
from ptxemu.ptx.inlining import FlatKernel
from ptxemu.ptx.instructions import Instr, Label, Reg, Sym, reached

# --- The basic blocks of a kernel as a graph: predecessors, successors and loops of each ---
# Blocks are named by their index; unreachable ones have no rank.

#: The end of a basic block; a wait is for more than the threads of a thread block.
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
    loops: frozenset[int] = frozenset()  # heads of the loops around it

    @property
    def every(self) -> list[Instr]:
        """All instructions, the last one included."""
        return self.instrs if self.last is None else [*self.instrs, self.last]


def came_from(blocks: list[BasicBlock]) -> list[list[int]]:
    """Block -> the blocks that lead to it."""
    before: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for goal in block.targets:
            before[goal].append(block.index)
    return before


def holds(blocks: int, index: int) -> bool:
    """True if `index` is in the set `blocks`, whose members are the bits of a number."""
    return blocks >> index & 1 == 1


def _settle(
    known: MutableMapping[int, int], order: Sequence[int], of: Callable[[int], int]
) -> None:
    """Recompute the bits of every block until none of them changes."""
    changed = True
    while changed:
        changed = False
        for index in order:
            new = of(index)
            if new != known[index]:
                known[index], changed = new, True


def passed_after(blocks: list[BasicBlock], order: list[int]) -> dict[int, int]:
    """Block -> the blocks (`holds`) on every path from it to an end, itself included."""
    after = dict.fromkeys(order, _bits(order))

    def passed(index: int) -> int:
        ways = [after[goal] for goal in blocks[index].targets]
        return (reduce(and_, ways) if ways else 0) | 1 << index

    _settle(after, order[::-1], passed)
    return after


def reachable(blocks: list[BasicBlock]) -> dict[int, int]:
    """Block -> the blocks (`holds`) that can be reached after it."""
    out = {block.index: _bits(block.targets) for block in blocks}

    def later(index: int) -> int:
        return reduce(or_, (out[goal] for goal in blocks[index].targets), out[index])

    _settle(out, range(len(blocks) - 1, -1, -1), later)
    return out


def dominators(order: list[int], before: list[list[int]]) -> dict[int, int]:
    """For each block those (`holds`) on every path to it, itself included."""
    over = dict.fromkeys(order, _bits(order))
    over[order[0]] = 1 << order[0]

    def passed(index: int) -> int:
        ways = [over[each] for each in before[index] if each in over]
        return (reduce(and_, ways) if ways else 0) | 1 << index

    _settle(over, order[1:], passed)
    return over


def _bits(numbers: Iterable[int]) -> int:
    return reduce(or_, (1 << number for number in numbers), 0)


def ranked(blocks: list[BasicBlock]) -> list[int]:
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


def note_loops(blocks: list[BasicBlock], over: dict[int, int], before: list[list[int]]) -> None:
    """Note in each block the heads of the natural loops around it."""
    for block in blocks:
        for head in block.targets:
            if block.rank < 0 or not holds(over[block.index], head):
                continue
            into = {**dict(enumerate(before)), head: []}
            for index in {head} | reached([block.index], into.__getitem__):
                blocks[index].loops |= {head}


#: Compilers write up to 1,105 blocks (the ladders' convolutions; 649 in CUB's sorts and scans).
_MOST_BLOCKS = 1 << 13
#: The most merges of back edges into loop heads: none in 354 kernels compiled by nvcc 13.
_MOST_STEPS = 64
_DAMAGED = "The PTX may be damaged."
_BARRIERS = ("bar", "barrier")
#: Opcodes whose results may differ from lane to lane.
_PER_LANE = ("ld", "tex", "atom", "shfl", "match", "ldmatrix", "mma", "wmma", "wgmma", "malloc")
_LANES = ("%tid", "%laneid", "%lanemask")
#: Opcodes that compute values from operands, without other effects.
_VALUES = frozenset(
    ("mov", "cvt", "add", "sub", "mul", "mad", "fma", "neg", "abs", "min", "max", "setp", "not",
     "shl", "shr", "and", "or", "xor", "lop3")
)  # fmt: skip


@dataclass(slots=True)
class ControlFlow:
    """The control flow of one kernel."""

    blocks: list[BasicBlock]
    order: list[int]
    before: list[list[int]]  # block -> blocks that lead to it
    #: Block -> registers that it or its successors read first: for the first block, and for loops'.
    alive: dict[int, set[str]]
    shared_registers: set[str]  # alive at the start of some block
    reach: dict[int, int]  # block -> blocks (`holds`) reachable after it

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
        for name in instr.writes:
            out[name].append(instr)
    return out


def users_of(blocks: Iterable[BasicBlock]) -> dict[str, list[Instr]]:
    """Register -> the instructions that read it."""
    out: dict[str, list[Instr]] = defaultdict(list)
    for _, instr in walk(blocks):
        for name in instr.reads:
            out[name].append(instr)
    return out


def made_of(blocks: list[BasicBlock], start: Callable[[Instr], bool]) -> set[str]:
    """Registers that some instructions write, or that are computed from such registers."""
    users = users_of(blocks)
    first = [name for _, instr in walk(blocks) if start(instr) for name in instr.writes]
    return reached(first, lambda name: [into for user in users[name] for into in user.writes])


def varying(blocks: list[BasicBlock]) -> set[str]:
    """Registers that may differ between the lanes of a warp."""

    def differs(instr: Instr) -> bool:
        own = instr.op in _PER_LANE and "param" not in instr.parts
        return own or any(name.startswith(_LANES) for name in instr.reads)

    return made_of(blocks, differs)


def unsure(graph: ControlFlow) -> set[str]:
    """Registers that are written before a read on some path, and unwritten on another."""
    return graph.alive[graph.order[0]].intersection(makers(graph.blocks))


def chosen(graph: ControlFlow) -> set[str]:
    """Registers that some path leaves unwritten, and whose value only a selection reads.

    ``found && value < best`` is one comparison and one ``and`` in PTX, and ``found ? value : best``
    a ``selp``: if nothing was found, the value is read and discarded. To report such a register as
    read before it is written would blame a correct kernel.
    """
    users, out = users_of(graph.blocks), set()
    for start in unsure(graph):
        seen, left = set[str](), [(start, user) for user in _unwritten(graph, start)]
        while left:
            name, user = left.pop()
            if _chooses(user, name):
                continue
            into = user.writes
            if not _is_plain(user, name) or len(into) != 1:
                break
            left += [(each, of) for each in into if each not in seen for of in users[each]]
            seen.update(into)
        else:
            out.add(start)
    return out


def _unwritten(graph: ControlFlow, name: str) -> Iterator[Instr]:
    """Instructions that read a register before it is written, on some path."""
    seen, left = set[int](), [graph.order[0]]
    while left:
        index = left.pop()
        if index in seen:
            continue
        seen.add(index)
        for instr in graph.blocks[index].every:
            if name in instr.reads:
                yield instr
            if name in instr.writes and instr.guard is None:
                break
        else:
            left += graph.blocks[index].targets


def _chooses(instr: Instr, name: str) -> bool:
    """Test whether an instruction selects between a register's value and another's."""
    if instr.guard is not None:
        return False
    if instr.op == "selp":
        return instr.operands[3] != Reg(name)
    return instr.op in ("and", "or") and instr.parts[-1] == "pred"


def _is_plain(instr: Instr, name: str) -> bool:
    """True if a register's value is only used to compute another one there."""
    guard = instr.guard is not None and instr.guard.name == name
    return instr.op in _VALUES and not guard


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
            raise PtxError(f"kernel {flat.name}: jump to unknown label {name}", _DAMAGED)
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
            if table.name not in flat.tables:
                raise PtxError(f"kernel {flat.name}: jump via unknown table {table.name}", _DAMAGED)
            names = flat.tables[table.name]
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


# --- Loops with several back edges to one head: the place where their lanes meet ---
# The last branch before a back edge that may lead elsewhere decides whether it is taken. If the
# other path goes back to the head as well (``continue``), ptxas makes the lanes meet before they go
# back; it does so too if every back edge may leave the loop instead. If the other path may do
# either, as in a search that descends as far as it can and then leaves or comes back up, the back
# edge ends a separate loop inside the other. Derived from kernels compiled by ptxas 13.0 for 9.0.


class _Loops:
    """The back edges to heads of loops in the current graph."""

    def __init__(self, blocks: list[BasicBlock]) -> None:
        self.blocks = blocks
        self.before = came_from(blocks)
        self.order = ranked(blocks)
        self.over = dominators(self.order, self.before)
        self.back: dict[int, list[int]] = defaultdict(list)
        for index in self.order:
            for head in sorted(set(blocks[index].targets)):
                if holds(self.over[index], head):
                    self.back[head].append(index)

    def decided(self, head: int, latch: int, after: dict[int, int]) -> tuple[int, list[int]]:
        """The branch that decides on a back edge, and its other target."""
        for at in reversed(self.order[: self.blocks[latch].rank + 1]):
            if not holds(self.over[latch], at):
                continue
            if not holds(self.over[at], head):
                break
            targets = self.blocks[at].targets
            goals = [goal for goal in targets if at != latch and holds(after[goal], latch)]
            goals = [head] if at == latch else goals
            ways = [goal for goal in targets if goal not in goals]
            if ways:
                return at, ways
        return head, []

    def between(self, start: list[int], head: int) -> set[int]:
        """Blocks on paths from some blocks to a head."""
        return reached(start, lambda at: () if at == head else self.blocks[at].targets) - {head}


def meeting_again(blocks: list[BasicBlock]) -> None:
    """Merge back edges to one head as ptxas does: into a meeting point, or into nested loops.

    This adds empty blocks, to which branches lead instead.
    """
    for _ in range(_MOST_STEPS):
        loops = _Loops(blocks)
        several = {head: ways for head, ways in loops.back.items() if len(ways) > 1}
        if not several:
            return
        after, reach = passed_after(blocks, loops.order), reachable(blocks)
        if not any(_parted(loops, head, after, reach) for head in several):
            return


def _parted(loops: _Loops, head: int, after: dict[int, int], reach: dict[int, int]) -> bool:
    """Do one step for one head; return whether it changed anything."""
    latches = loops.back[head]
    own: list[tuple[int, int]] = []
    continued: list[tuple[int, set[int]]] = []
    for latch in latches:
        at, ways = loops.decided(head, latch, after)
        depth = loops.over[at].bit_count()
        if ways and all(holds(after[way], head) for way in ways):
            meeting = {latch} | (set(latches) & loops.between(ways, head))
            continued.append((depth, meeting))
        elif any(head == way or holds(reach[way], head) for way in ways):
            own.append((depth, latch))
    innermost = max(continued, default=(0, set()), key=lambda each: each[0])[1]
    if len(innermost) > 1:
        _lead(loops.blocks, head, sorted(innermost))
    elif not own and not continued:
        _lead(loops.blocks, head, latches)
    elif own and len(own) < len(latches) and head != loops.order[0]:
        inner = {latch for depth, latch in own if depth == min(own)[0]}
        _lead(loops.blocks, head, [each for each in loops.before[head] if each not in inner])
    else:
        return False
    return True


def _lead(blocks: list[BasicBlock], head: int, sources: list[int]) -> None:
    """Redirect the edges from some blocks to a head through one new block."""
    new = BasicBlock(len(blocks), targets=(head,))
    blocks.append(new)
    for at in sources:
        targets = blocks[at].targets
        blocks[at].targets = tuple(new.index if goal == head else goal for goal in targets)


def _needed(blocks: Sequence[BasicBlock], place: dict[str, int]) -> dict[int, int]:
    """Registers, as bits, that are read after a block's start before they are written.

    A write under a guard also reads the other lanes' old values. `place` gets the bit of each.
    """
    uses, kills = [], []
    for block in blocks:
        use = kill = 0
        for instr in block.every:
            kept = () if instr.guard is None else instr.writes
            reads = (1 << place.setdefault(name, len(place)) for name in (*instr.reads, *kept))
            use |= reduce(or_, reads, 0) & ~kill
            if instr.guard is None:
                kill |= _bits(place.setdefault(name, len(place)) for name in instr.writes)
        uses.append(use)
        kills.append(kill)
    alive = dict(enumerate(uses))

    def read(index: int) -> int:
        after = reduce(or_, (alive[goal] for goal in blocks[index].targets), 0)
        return uses[index] | (after & ~kills[index])

    _settle(alive, range(len(blocks) - 1, -1, -1), read)
    return alive


def control_flow(flat: FlatKernel) -> ControlFlow:
    """The control-flow graph of a flat kernel; PtxError: a jump to a label that does not exist."""
    blocks, labels = _split(flat)
    if len(blocks) > _MOST_BLOCKS:
        raise PtxError(
            f"kernel {flat.name}: it has {len(blocks):,} basic blocks, and at most "
            f"{_MOST_BLOCKS:,} are run",
            "Unroll or inline less.",
        )
    _link(flat, blocks, labels)
    meeting_again(blocks)
    before = came_from(blocks)
    order = ranked(blocks)
    note_loops(blocks, dominators(order, before), before)
    order = ranked(blocks)
    place: dict[str, int] = {}
    bits = _needed(blocks, place)

    def named(alive: int) -> set[str]:
        return {name for name, at in place.items() if holds(alive, at)}

    heads = {order[0], *(head for block in blocks for head in block.loops)}
    alive = {index: named(bits[index]) for index in heads}
    return ControlFlow(
        blocks, order, before, alive, named(reduce(or_, bits.values())), reachable(blocks)
    )
