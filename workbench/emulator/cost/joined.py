"""What ptxas does to memory instructions after the PTX: joining some, leaving others out.

ptxas joins loads from shared (or local) memory that read neighbouring words from one base
register into a 64- or 128-bit load, if it can prove the alignment, and three words of 16 bytes as
well. The proof here is the same kind: the number of low zero bits of a register, followed through
its definitions. Variables lie in the order of their declarations, so words of several are
neighbours too. Pointers that come from outside are aligned to nothing, so global loads stay
as they are. So it does with stores that follow one another, which it puts where the last was. A
load of shared memory that has been made already on every way to it, with nothing written
since, is not made again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from workbench.emulator.ptx.flow import BasicBlock, ControlFlow, makers, results
from workbench.emulator.ptx.instructions import SIZES, Addr, Imm, Instr, Operand, Reg, Sym, space_of

_MANY = 64
#: Bytes of 16 that are enough for one load of all: ptxas 13.0 leaves two words of four alone.
_MOST_OF = 12
_BREAKS = ("st", "atom", "red", "bar", "barrier", "cp", "membar", "fence", "stmatrix", "mbarrier")


def low_zeros(value: int) -> int:
    """Zero bits below the lowest set one; many for 0."""
    return (value & -value).bit_length() - 1 if value else _MANY


class Alignment:
    """Known low zero bits of every register of a kernel."""

    def __init__(self, graph: ControlFlow, symbol: Callable[[str], int | None]) -> None:
        self.symbol = symbol
        defs = makers(graph.blocks)
        # From "all zeros" downwards until nothing changes: sound for loops as well.
        self.zeros: dict[str, int] = dict.fromkeys(defs, _MANY)
        changed = True
        while changed:
            changed = False
            for name, instrs in defs.items():
                known = min(self._of(instr) for instr in instrs)
                if known < self.zeros[name]:
                    self.zeros[name], changed = known, True

    def operand(self, operand: Operand) -> int:
        """Known low zero bits of an operand."""
        if isinstance(operand, Imm):
            return low_zeros(operand.bits)
        if isinstance(operand, Reg):
            return self.zeros.get(operand.name, 0)
        if isinstance(operand, Sym):
            address = self.symbol(operand.name)
            return 0 if address is None else low_zeros(address + operand.offset)
        return 0

    def place(self, access: Instr) -> int:
        """Where an access begins, from its base register on; of a variable, its address."""
        where = _address(access)
        if not isinstance(where.base, Sym):
            return where.offset
        return (self.symbol(where.base.name) or 0) + where.base.offset + where.offset

    def base(self, access: Instr) -> int:
        """Known low zero bits of what `place` counts from."""
        base = _address(access).base
        return _MANY if base is None or isinstance(base, Sym) else self.operand(base)

    def _of(self, instr: Instr) -> int:
        op, args = instr.op, instr.operands[1:]
        if op in ("mov", "cvt", "cvta", "neg"):
            return self.operand(args[0])
        if op in ("add", "sub", "or", "xor", "min", "max", "selp"):
            return min(self.operand(args[0]), self.operand(args[1]))
        if op == "and":
            return max(self.operand(args[0]), self.operand(args[1]))
        if op in ("mul", "mad") and instr.parts[1] in ("lo", "wide"):
            product = min(self.operand(args[0]) + self.operand(args[1]), _MANY)
            return product if op == "mul" else min(product, self.operand(args[2]))
        if op in ("shl", "shr") and isinstance(args[1], Imm):
            amount = args[1].bits if op == "shl" else -args[1].bits
            return max(0, min(self.operand(args[0]) + amount, _MANY))
        return 0


Groups = dict[tuple[object, ...], list[Instr]]


def merged(graph: ControlFlow, symbol: Callable[[str], int | None]) -> dict[int, int]:
    """Which loads ptxas joins.

    A load behind a branch is joined with one before it, if there is no other way to it.

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
        for stores in _runs(block, alignment):
            _close([stores], alignment, out)
    while waiting:
        index, groups = waiting.pop()
        _collect(graph.blocks[index], groups, alignment, out)
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
        key = _key(instr) if instr.op == "ld" else None
        if key is not None:
            groups.setdefault(key, []).append(instr)
        elif instr.op in _BREAKS and "global" not in instr.parts[1:3]:
            _close(groups.values(), alignment, out)
            groups.clear()
        for name in results(instr):
            stale = [k for k in groups if k[0] == name]
            _close([groups.pop(k) for k in stale], alignment, out)


def _runs(block: BasicBlock, alignment: Alignment) -> Iterator[list[Instr]]:
    """Stores that ptxas may join: neighbours of one form, no other use of such memory between.

    So ptxas 13.0 compiles them for compute capability 9.0: a store under a guard stays alone,
    though one behind a branch does not.
    """
    run: list[Instr] = []
    for instr in block.instrs:
        key = _key(instr) if instr.op == "st" else None
        if key is not None:
            if run and not (_key(run[0]) == key and _extends(run, instr, alignment)):
                yield run
                run = []
            run.append(instr)
        elif run and (
            (instr.op in (*_BREAKS, "ld") and space_of(instr) != "global")
            or _base_name(run[0]) in results(instr)
        ):
            yield run
            run = []
    if run:
        yield run


def _base_name(instr: Instr) -> str:
    base = _address(instr).base
    return base.name if base is not None else ""


def _extends(run: list[Instr], store: Instr, alignment: Alignment) -> bool:
    """Does a store lie right before or behind a run, and is it of the same size?"""
    size, start = _bytes(store), alignment.place(store)
    places = [alignment.place(each) for each in run]
    return size == _bytes(run[0]) and start in (min(places) - size, max(places) + size)


Loaded = frozenset[tuple[object, ...]]


def _base(instr: Instr) -> Addr | None:
    """The address of a load or store that nothing but the PTX's order decides on."""
    where = _address(instr) if instr.op in ("ld", "st") else None
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


def _key(instr: Instr) -> tuple[object, ...] | None:
    """Loads with the same key may be joined, and so may stores."""
    where, space = _base(instr), space_of(instr)
    width = SIZES.get(instr.parts[-1], 0)
    if where is None or where.base is None or space not in ("shared", "local"):
        return None
    if width not in (4, 8) or _bytes(instr) > 8:
        return None
    # Where each variable lies is known, so all of them have one base.
    return (where.base.name if isinstance(where.base, Reg) else "", space, width)


def _bytes(load: Instr) -> int:
    """What a load reads, a vector's elements together."""
    count = next((int(part[1:]) for part in load.parts if part in ("v2", "v4", "v8")), 1)
    return count * SIZES.get(load.parts[-1], 0)


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
            start, end = alignment.place(each), alignment.place(each) + _bytes(each)
            if id(each) not in out and any(at <= start and end <= at + by for at, by in read):
                out[id(each)] = 0


def _row(at: dict[int, Instr], window: range, least: int, taken: Mapping[int, int]) -> list[Instr]:
    """Accesses that fill a window without overlaps, at least so many of its bytes, or nothing."""
    pieces, filled, end = [], 0, window.start
    while end < window.stop:
        piece = at.get(end)
        if piece is not None and (id(piece) in taken or end + _bytes(piece) > window.stop):
            return []
        size = 4 if piece is None else _bytes(piece)
        if piece is not None:
            pieces.append(piece)
            filled += size
        end += size
    return pieces if filled >= least else []


def _address(instr: Instr) -> Addr:
    where = instr.operands[0 if instr.op == "st" else 1]
    assert isinstance(where, Addr)
    return where
