"""What it costs when more conditions outlive a loop's turn than there are predicates.

A thread has seven predicate registers. A condition that is made before a loop and asked
in it wants one of them all the time. Those that find none are put into an ordinary
register (P2R) where they are made, and compared with zero (ISETP.NE) to get them back.
All seven being taken, the one that makes room is put away and fetched back the same way,
where the loop is not left in between: of n spilled conditions 2n - 1 are fetched and
n - 1 put away for every place that asks for them. A block that loads and then works
with what it loaded is two such places, since loads are made as early as possible.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from workbench.emulator.ptx.blocks import BasicBlock
from workbench.emulator.ptx.flow import ControlFlow, arguments, results, walk
from workbench.emulator.ptx.instructions import Instr

REGISTERS = 7
#: Of so many conditions at most the second place lies apart from the first.
_TOGETHER = 3


def spills(graph: ControlFlow, host: Mapping[int, int]) -> dict[int, float]:
    """Machine instructions that move conditions, by ``id`` of the instruction they go to.

    Args:
        graph: The kernel.
        host: Predicated block -> the block whose branch it replaces.
    """
    blocks = graph.ordered
    makers: dict[str, list[tuple[BasicBlock, Instr]]] = defaultdict(list)
    for block, instr in walk(blocks):
        if _condition(instr):
            for name in results(instr):
                makers[name].append((block, instr))
    out: dict[int, float] = defaultdict(float)
    for head in {head for block in blocks for head in block.loops}:
        asked = _asked(graph, head, makers)
        # One register is left for what the loop itself compares.
        spilled = len(asked) + 1 - REGISTERS
        if spilled <= 0:
            continue
        for name in asked:
            for _, instr in makers[name]:
                out[id(instr)] += spilled / len(asked) / len(makers[name])
        users = [user for found in asked.values() for user in found]
        places = max(_places(graph, block, host) for block, _ in users)
        cost = 3 * spilled - 2 + (places - 1) * 3 * (min(spilled, _TOGETHER) - 1)
        for _, instr in users:
            out[id(instr)] += cost / len(users)
    return out


def _condition(instr: Instr) -> bool:
    return instr.op in ("setp", "testp") or instr.parts[-1] == "pred"


def _asked(
    graph: ControlFlow, head: int, makers: Mapping[str, list[tuple[BasicBlock, Instr]]]
) -> dict[str, list[tuple[BasicBlock, Instr]]]:
    """Conditions from outside of a loop, and who asks for them in it but in no inner loop."""
    out: dict[str, list[tuple[BasicBlock, Instr]]] = defaultdict(list)
    depth = len(graph.blocks[head].loops)
    for block, instr in walk(graph.ordered):
        if head not in block.loops or len(block.loops) > depth:
            continue
        for name in arguments(instr):
            found = makers.get(name)
            if found and all(head not in made.loops for made, _ in found):
                out[name].append((block, instr))
    return out


def _places(graph: ControlFlow, block: BasicBlock, host: Mapping[int, int]) -> int:
    """How often the block behind a branch asks for its condition."""
    inner = next((goal for goal in block.targets if host.get(goal) == block.index), None)
    if inner is None:
        return 1
    loaded: set[str] = set()
    for instr in graph.blocks[inner].instrs:
        if loaded.intersection(arguments(instr)):
            return 2
        if instr.op == "ld":
            loaded.update(results(instr))
    return 1
