"""What ptxas does to memory instructions after the PTX: joining some, leaving others out.

ptxas joins loads that read neighbouring words from one base register into a 64- or 128-bit load,
if it can prove the alignment (`workbench.emulator.cost.alignment`), and three words of 16 bytes
as well. Variables lie in the order of their declarations, so words of several are neighbours too.
So it does with stores that follow one another, which it puts where the last was. A
load of shared memory that has been made already on every way to it, with nothing written
since, is not made again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from workbench.emulator.cost.alignment import Alignment, accessed, address
from workbench.emulator.ptx.blocks import BasicBlock
from workbench.emulator.ptx.flow import ControlFlow, results
from workbench.emulator.ptx.instructions import SIZES, Addr, Instr, Reg, space_of

#: Bytes of 16 that are enough for one load of all: ptxas 13.0 leaves two words of four alone.
_MOST_OF = 12
_BREAKS = ("st", "atom", "red", "bar", "barrier", "cp", "membar", "fence", "stmatrix", "mbarrier")
#: What stands between loads or stores of global memory: these in any space, accesses in their own.
_FENCES = ("bar", "barrier", "membar", "fence")
_ACCESSES = ("st", "atom", "red")
#: Loads of global memory that are joined: plain ones, and those of what nobody writes.
_PLAIN = ((), ("nc",))


Groups = dict[tuple[object, ...], list[Instr]]


def merged(graph: ControlFlow, symbol: Callable[[str], int | None]) -> dict[int, int]:
    """Which loads ptxas joins.

    A load behind a branch is joined with one before it, if there is no other way to it, but not
    in global memory.

    Returns:
        ``id(instruction)`` -> bytes of the joined load for the first load of each
        group, and 0 for the loads that it swallows.
    """
    alignment = Alignment(graph, symbol)
    repeated = _repeated(graph)
    out: dict[int, int] = dict.fromkeys(repeated, 0)
    waiting: list[tuple[int, Groups]] = []
    behind: dict[int, list[int]] = defaultdict(list)
    for block in graph.blocks:
        before = graph.before[block.index]
        if len(before) == 1 and block.index != graph.order[0]:
            behind[before[0]].append(block.index)
        else:
            waiting.append((block.index, {}))
    for block in graph.blocks:
        for outside in (False, True):
            for stores in _runs(block, alignment, outside=outside):
                _close([stores], alignment, out)
    while waiting:
        index, groups = waiting.pop()
        _collect(graph.blocks[index], groups, alignment, out)
        ended = [key for key in groups if key[1] == "global"]
        _close([groups.pop(key) for key in ended], alignment, out)
        if not behind[index]:
            _close(groups.values(), alignment, out)
        waiting += [
            (goal, {key: list(loads) for key, loads in groups.items()}) for goal in behind[index]
        ]
    return out


def _collect(block: BasicBlock, groups: Groups, alignment: Alignment, out: dict[int, int]) -> None:
    """Add a block's loads to the open groups; close those that nothing more can join."""
    for instr in block.instrs:
        if id(instr) in out:
            continue
        key = _key(instr, alignment) if instr.op == "ld" else None
        if key is not None:
            groups.setdefault(key, []).append(instr)
        else:
            ended = [each for each in groups if _ends(instr, each)]
            _close([groups.pop(each) for each in ended], alignment, out)
        for name in results(instr):
            stale = [k for k in groups if k[0] == name]
            _close([groups.pop(k) for k in stale], alignment, out)


def _ends(instr: Instr, key: tuple[object, ...]) -> bool:
    """May loads of a group not pass this instruction?"""
    if key[1] != "global":
        return instr.op in _BREAKS and "global" not in instr.parts[1:3]
    if "nc" in key:
        return False
    return instr.op in _FENCES or (instr.op in _ACCESSES and space_of(instr) in ("global", ""))


def _runs(block: BasicBlock, alignment: Alignment, *, outside: bool) -> Iterator[list[Instr]]:
    """Stores that ptxas may join: neighbours of one form, no other use of such memory between.

    `outside` is global memory; what is done to shared memory between is in nobody's way there,
    nor the other way round.

    So ptxas 13.0 compiles them for compute capability 9.0: a store under a guard stays alone,
    though one behind a branch does not.
    """
    stores = [instr for instr in block.instrs if instr.op == "st"]
    if sum(outside == (space_of(instr) == "global") for instr in stores) < 2:
        return
    run: list[Instr] = []
    for instr in block.instrs:
        key = _key(instr, alignment) if instr.op == "st" else None
        space = space_of(instr)
        if key is not None and outside != (space == "global"):
            continue
        if key is not None:
            if run and not (_key(run[0], alignment) == key and _extends(run, instr, alignment)):
                yield run
                run = []
            run.append(instr)
        elif run and (
            (instr.op in (*_BREAKS, "ld") and _meets(instr, space, outside=outside))
            or _base_name(run[0], alignment) in results(instr)
        ):
            yield run
            run = []
    if run:
        yield run


def _meets(instr: Instr, space: str, *, outside: bool) -> bool:
    """Does what stands between two stores use their memory, or order it?"""
    if outside:
        return instr.op in _FENCES or space in ("global", "")
    return space != "global"


def _base_name(instr: Instr, alignment: Alignment) -> str:
    base = alignment.rooted(instr).base
    return base.name if base is not None else ""


def _extends(run: list[Instr], store: Instr, alignment: Alignment) -> bool:
    """Does a store lie right before or behind a run, and is it of the same size?"""
    size, start = accessed(store), alignment.place(store)
    places = [alignment.place(each) for each in run]
    return size == accessed(run[0]) and start in (min(places) - size, max(places) + size)


Loaded = frozenset[tuple[object, ...]]


def _base(instr: Instr) -> Addr | None:
    """The address of a load or store that nothing but the PTX's order decides on."""
    where = address(instr) if instr.op in ("ld", "st") else None
    if instr.guard is not None or "volatile" in instr.parts or not isinstance(where, Addr):
        return None
    return where if where.base is not None else None


def _again(instr: Instr) -> tuple[object, ...] | None:
    """Loads of shared memory with the same key read the same, if nothing is written."""
    where = _base(instr) if instr.op == "ld" else None
    if where is None or where.base is None or space_of(instr) != "shared":
        return None
    return (where.base.name, where.offset, instr.parts)


def _after(block: BasicBlock, known: Loaded, repeated: set[int] | None) -> Loaded:
    """What is loaded after a block; notes loads of what is there already."""
    for instr in block.every:
        again = _again(instr)
        if again is not None and again in known and repeated is not None:
            repeated.add(id(instr))
        if instr.op in _BREAKS and "global" not in instr.parts[1:2]:
            known = frozenset()
        written = set(results(instr))
        if written:
            known = frozenset(each for each in known if each[0] not in written)
        if again is not None and again[0] not in written:
            known |= {again}
    return known


def _repeated(graph: ControlFlow) -> set[int]:
    """Loads of shared memory whose value is there already on every way to them."""
    after: dict[int, Loaded | None] = dict.fromkeys(graph.order)  # None: not known yet
    start: dict[int, Loaded] = {}
    changed = True
    while changed:
        changed = False
        for index in graph.order:
            ways = [found for b in graph.before[index] if (found := after.get(b)) is not None]
            first = index == graph.order[0]
            start[index] = frozenset() if first or not ways else frozenset.intersection(*ways)
            found = _after(graph.blocks[index], start[index], None)
            if found != after[index]:
                after[index], changed = found, True
    out: set[int] = set()
    for index in graph.order:
        _after(graph.blocks[index], start[index], out)
    return out


def _key(instr: Instr, alignment: Alignment) -> tuple[object, ...] | None:
    """Loads with the same key may be joined, and so may stores."""
    space = space_of(instr)
    where = alignment.rooted(instr) if _base(instr) is not None else None
    width = SIZES.get(instr.parts[-1], 0)
    if where is None or where.base is None or space not in ("shared", "local", "global"):
        return None
    if width not in (4, 8) or accessed(instr) > 8:
        return None
    if space == "global":
        ways = tuple(p for p in instr.parts[1:-1] if p not in ("global", "v2"))
        known = ways in _PLAIN and isinstance(where.base, Reg)
        return (where.base.name, space, width, *ways) if known else None
    # Where each variable lies is known, so all of them have one base.
    return (where.base.name if isinstance(where.base, Reg) else "", space, width)


def _close(groups: Iterable[list[Instr]], alignment: Alignment, out: dict[int, int]) -> None:
    """Join the loads, or the stores, of each group as far as they can be."""
    for group in groups:
        base, store = alignment.base(group[0]), group[0].op == "st"
        at = {alignment.place(each): each for each in reversed(group)}
        for total in (16, 8):
            if (1 << min(base, 6)) < total:
                continue
            least = total if store or total < 16 else _MOST_OF
            for start in sorted({place // total * total for place in at}):
                pieces = _row(at, range(start, start + total), least, out)
                if len(pieces) > 1:
                    out.update((id(piece), 0) for piece in pieces)
                    found = (max if store else min)(pieces, key=lambda each: each.ptx_line)
                    out[id(found)] = total
        # Behind the other branch there may be loads of what one before it has read as well.
        read = [
            (alignment.place(each) // total * total, total)
            for each in group
            if (total := out.get(id(each), 0))
        ]
        for each in group:
            start, end = alignment.place(each), alignment.place(each) + accessed(each)
            if id(each) not in out and any(at <= start and end <= at + by for at, by in read):
                out[id(each)] = 0


def _row(at: dict[int, Instr], window: range, least: int, taken: Mapping[int, int]) -> list[Instr]:
    """Accesses that fill a window without overlaps, at least so many of its bytes, or nothing."""
    pieces, filled, end = [], 0, window.start
    while end < window.stop:
        piece = at.get(end)
        if piece is not None and (id(piece) in taken or end + accessed(piece) > window.stop):
            return []
        size = 4 if piece is None else accessed(piece)
        if piece is not None:
            pieces.append(piece)
            filled += size
        end += size
    return pieces if filled >= least else []
