"""What ``wmma`` loads, stores and products become: words, turns, and whose word is whose.

PTX hides which lane holds which element. Machine code computes it: the lane's row and column
times the stride, once for each kind of fragment, wherever its block is entered; before an
innermost loop where every way through the loop comes to the block. In global memory each
access then adds that to its pointer, and rows eight further down to that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from workbench.emulator.ptx.flow import ControlFlow, walk
from workbench.emulator.ptx.instructions import Addr, Instr, Reg
from workbench.emulator.ptxas.constants import above, entries, joined_blocks
from workbench.emulator.ptxas.divergence import innermost, leaves
from workbench.emulator.ptxas.folding import Names, literal

#: S2R, three shifts and masks, the product with the stride; another kind shares the first ones.
_LANE, _ANOTHER = 6.0, 3.0
#: The pointer of a lane (64 bits) and that of the rows eight further down; of single words in
#: columns there are four.
_POINTERS, _OF_COLUMNS = 3.0, 8.0
#: Machine instructions of a product.
_PRODUCTS = {"mma": 1, "wmma": 2}
_TURNS = 4.0  # MOVM: global memory holds it the other way round


def fragments(graph: ControlFlow, host: Mapping[int, int], names: Names) -> dict[int, float]:
    """Machine instructions of every ``wmma`` instruction, and of those that they are hoisted to.

    Args:
        graph: The kernel.
        host: Predicated block -> the block whose branch it replaces.
        names: What makes its registers.

    Returns:
        ``id(instruction)`` -> what is to be added to its other weight.
    """
    out: dict[int, float] = defaultdict(float)
    every = _on_every_way(graph)
    ahead: dict[int, set[tuple[object, ...]]] = defaultdict(set)
    for block in graph.ordered:
        lanes: set[tuple[object, ...]] = set()
        known: set[tuple[object, ...]] = set()
        for instr in block.instrs:
            if instr.op != "wmma":
                continue
            if instr.parts[1] == "mma":
                out[id(instr)] += _PRODUCTS["wmma"]
                continue
            out[id(instr)] += _words(instr)
            lane, place = _keys(instr, names)
            if "shared" not in instr.parts and place not in known:
                known.add(place)
                columns = lane[0] == "sums" and "col" in instr.parts
                out[id(instr)] += _OF_COLUMNS if columns else _POINTERS
            if block.index in every and block.index not in host:
                ahead[every[block.index]].add(lane)
            elif lane not in lanes:
                out[id(instr)] += _ANOTHER if lanes else _LANE
                lanes.add(lane)
    for head, kinds in ahead.items():
        for entry in entries(graph, head):
            out[id(entry)] += _LANE + _ANOTHER * (len(kinds) - 1)
    return dict(out)


def awaited(graph: ControlFlow, host: Mapping[int, int]) -> set[int]:
    """Branches in loops, by ``id``, before which ptxas puts a NOP to wait for products.

    Nothing else is left to be done at the end of a block of machine code with products in it,
    and no instruction waits longer than fifteen cycles by itself. Of 59 such branches in recorded
    kernels 48 have the NOP there and 8 between the products; behind a single product stand the
    loop's own instructions.

    Args:
        graph: The kernel.
        host: Predicated block -> the block whose branch it replaces.
    """
    first = joined_blocks(graph, host)
    products = Counter[int]()
    for block, instr in walk(graph.ordered):
        if instr.op in _PRODUCTS and "mma" in instr.parts:
            products[first[block.index]] += _PRODUCTS[instr.op]
    plain = {*host, *host.values()}
    return {
        id(block.last)
        for block in graph.ordered
        if block.kind == "branch"
        and block.loops
        and block.index not in plain
        and products[first[block.index]] > 1
        and not any(leaves(graph.blocks[goal]) for goal in block.targets)
    }


def _words(instr: Instr) -> float:
    """Memory instructions of one access, and the turns of what lies the other way round."""
    turned = "col" in instr.parts
    if instr.parts[2] not in ("a", "b"):
        return 8.0 if turned else 4.0
    if "shared" in instr.parts:
        return 1.0  # one LDSM turns by itself
    against = turned == (instr.parts[2] == "a")
    return 4.0 + (_TURNS if against else 0.0)


def _keys(instr: Instr, names: Names) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """What the lane's part of an address depends on, and the address but for literals."""
    base = next(each.base for each in instr.operands if isinstance(each, Addr))
    while isinstance(base, Reg):
        makers = names.makers.get(base.name, [])
        if len(makers) != 1 or makers[0].op != "add" or not literal(makers[0]):
            break
        source = makers[0].operands[1]
        if not isinstance(source, Reg):
            break
        base = source
    stride = instr.operands[-1]
    kind = "tile" if instr.parts[2] in ("a", "b") else "sums"
    lane = (kind, "col" in instr.parts, "shared" in instr.parts, stride)
    return lane, (*lane, base)


def _on_every_way(graph: ControlFlow) -> dict[int, int]:
    """Blocks of innermost loops that every turn comes to -> the loop's header."""
    loop, passed = innermost(graph), above(graph)
    out: dict[int, int] = {}
    for index, head in loop.items():
        turns = [block.index for block in graph.blocks if head in block.targets]
        back = [each for each in turns if loop.get(each) == head]
        if all(index == each or index in passed[each] for each in back):
            out[index] = head
    return out
