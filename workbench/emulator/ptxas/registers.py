"""Which moves are instructions, PTX's and others: where one register cannot serve both names.

PTX moves a value wherever two ways meet. ptxas gives both names one register, unless the
value moved is needed afterwards as well. A literal is put where it is used, and written
to a register only if other values of that register follow it; zeros are cleared two
registers at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from workbench.emulator.ptx.blocks import BasicBlock
from workbench.emulator.ptx.flow import (
    ControlFlow,
    arguments,
    makers,
    needed,
    results,
    walk,
)
from workbench.emulator.ptx.instructions import SIZES, Imm, Instr, Operand, Reg, Vec
from workbench.emulator.ptxas.constants import entries
from workbench.emulator.ptxas.divergence import innermost
from workbench.emulator.ptxas.folding import FLOATS, WIDE, WORDS, Names, literal

#: What can be done under a predicate at no other cost than its own.
_SIMPLE = frozenset(
    (
        "add", "sub", "mul", "mad", "fma", "min", "max", "and", "or", "xor", "not", "neg", "abs",
        "shl", "shr", "shf", "lop3", "popc", "clz", "brev", "bfe", "prmt", "selp", "cvt", "ld",
    )
)  # fmt: skip


#: What is done to doubles by one instruction with operands of its own.
_DOUBLES = ("add", "sub", "mul", "fma", "mad", "setp")


def copies(graph: ControlFlow) -> dict[int, float]:
    """Machine instructions of each ``mov`` between registers or from a literal, by its ``id``."""
    made = makers(graph.ordered)
    start = needed(graph.ordered, kept=False)
    out: dict[int, float] = {}
    for block in graph.ordered:
        after = set().union(*(start[goal] for goal in block.targets))
        out |= _of_block(block, made, after)
    return out


def _of_block(
    block: BasicBlock, made: Mapping[str, list[Instr]], after: set[str]
) -> dict[int, float]:
    live = set(after)
    if block.last is not None:
        live.update(arguments(block.last))
    out: dict[int, float] = {}
    zeros: list[int] = []
    values = _literals(block, made)
    for instr in reversed(block.instrs):
        names = results(instr)
        if instr.op == "mov" and len(names) == 1 and isinstance(instr.operands[1], Imm | Reg):
            name, source = names[0], instr.operands[1]
            literal = values.get(id(instr))
            written = len(made[name]) > 1 and name in after and name in live
            out[id(instr)] = 0.0
            if literal is not None and written:
                out[id(instr)] = 1.0
                if literal.bits == 0:
                    zeros.append(id(instr))
            elif literal is None and written and isinstance(source, Reg):
                kept = source.name in live or _crosses(block, instr, source.name, name)
                out[id(instr)] = 1.0 if kept else 0.0
        if instr.guard is None:
            live.difference_update(names)
        live.update(arguments(instr))
    if len(zeros) > 1:
        out.update(dict.fromkeys(zeros, 0.5))
    return out


def _crosses(block: BasicBlock, move: Instr, source: str, target: str) -> bool:
    """Is the target's old value read by what has to wait for the value that is moved?

    What reads it without waiting is done before. An instruction that is written over a value
    (`overwritten`) waits for that.
    """
    before = block.instrs[: block.instrs.index(move)]
    start = next((at for at, instr in enumerate(before) if source in results(instr)), -1)
    after, read = {source}, set[str]()
    for instr in before[start + 1 :]:
        names = arguments(instr)
        if not after.isdisjoint(names):
            if target in names or (instr.op == "selp" and not read.isdisjoint(names)):
                return True
            after.update(results(instr))
        elif target in names:
            read.update(results(instr))
    return False


def _literals(block: BasicBlock, made: Mapping[str, list[Instr]]) -> dict[int, Imm]:
    """Moves of the block whose value is a literal, directly or through other moves of it."""
    now: dict[str, Imm] = {}
    out: dict[int, Imm] = {}
    for instr in block.instrs:
        found: Imm | None = None
        if instr.op == "mov" and instr.guard is None:
            source = instr.operands[1]
            if isinstance(source, Imm):
                found = source
            elif isinstance(source, Reg):
                found = now.get(source.name)
                by = made.get(source.name, [])
                if found is None and len(by) == 1 and by[0].op == "mov":
                    only = by[0].operands[1]
                    found = only if isinstance(only, Imm) else None
        for name in results(instr):
            now.pop(name, None)
            if found is not None:
                now[name] = found
        if found is not None:
            out[id(instr)] = found
    return out


def gathered(graph: ControlFlow) -> dict[int, float]:
    """Moves that vector stores need, by ``id`` of the store."""
    made = makers(graph.ordered)
    out: dict[int, float] = {}
    for _, instr in walk(graph.ordered):
        if instr.op != "st" or not isinstance(instr.operands[1], Vec):
            continue
        items = instr.operands[1].items
        found = [place for item in items if (place := _loaded(item, made)) is not None]
        sources = {source for source, _ in found}
        in_place = len(sources) == 1 and [at for _, at in found] == list(range(len(items)))
        if found and not in_place:
            out[id(instr)] = float(len(found))
    return out


def _loaded(item: Operand, made: Mapping[str, list[Instr]]) -> tuple[int, int] | None:
    """The vector load that alone brings a register, by its ``id``, and the element that it is."""
    by = made.get(item.name, []) if isinstance(item, Reg) else []
    if len(by) != 1 or by[0].op != "ld" or not isinstance(by[0].operands[0], Vec):
        return None
    return id(by[0]), by[0].operands[0].items.index(item)


def stored_literals(graph: ControlFlow) -> dict[int, float]:
    """What it takes to have literals in registers that are stored, by ``id`` of the first store.

    There is a register that is zero, so zeros and zero halves take nothing.
    """
    made = makers(graph.ordered)
    seen: set[str] = set()
    out: dict[int, float] = {}
    for _, instr in walk(graph.ordered):
        if instr.op != "st":
            continue
        value = instr.operands[1]
        for item in value.items if isinstance(value, Vec) else (value,):
            by = made.get(item.name, []) if isinstance(item, Reg) else []
            if len(by) != 1 or by[0].op != "mov" or not isinstance(item, Reg) or item.name in seen:
                continue
            literal = by[0].operands[1]
            if isinstance(literal, Imm):
                seen.add(item.name)
                halves = literal.bits & 0xFFFF_FFFF, literal.bits >> 32 & 0xFFFF_FFFF
                wide = SIZES.get(by[0].parts[-1], 4) == 8
                count = sum(map(bool, halves if wide else halves[:1]))
                out[id(instr)] = out.get(id(instr), 0.0) + count
    return out


def unpacked(graph: ControlFlow, names: Names) -> dict[int, float]:
    """What it takes to have bytes that were loaded as a vector each in a register, by ``id``.

    They come as words. Each byte that is used is taken out (PRMT), unless a mask does so already
    or a conversion to a float, which can name a byte of its operand.
    """
    out: dict[int, float] = {}
    for _, instr in walk(graph.ordered):
        loaded = instr.operands[0] if instr.op == "ld" else None
        if isinstance(loaded, Vec) and SIZES.get(instr.parts[-1]) == 1:
            users = [names.users[item.name] for item in loaded.items if isinstance(item, Reg)]
            out[id(instr)] = float(sum(not all(map(_takes_byte, each)) for each in users))
    return out


def bases_of_atomics(
    graph: ControlFlow, names: Names, differing: AbstractSet[str]
) -> dict[int, float]:
    """What it takes to have an address that all threads share in registers, for atomics, by ``id``.

    An atomic has no constant for its base as loads have: an address that is a parameter and a
    literal is loaded, added up in halves and moved (ULDC, UIADD3, MOV), once; what lies beside it
    is an offset from there.
    """
    seen: set[str] = set()
    out: dict[int, float] = {}
    for _, instr in walk(graph.ordered):
        base = instr.operands[1] if instr.op == "add" and instr.parts[-1] in WIDE else None
        if not isinstance(base, Reg) or not literal(instr) or base.name in differing | seen:
            continue
        if any(user.op in ("atom", "red") for user in names.users[results(instr)[0]]):
            seen.add(base.name)
            out[id(instr)] = 5.0
    return out


def _takes_byte(user: Instr) -> bool:
    if user.op == "cvt":
        return user.parts[-2] in FLOATS
    return user.op == "and" and user.operands[2] == Imm(255)


def wide_literals(graph: ControlFlow) -> dict[int, float]:
    """What it takes to have double-precision literals in registers, by ``id`` of an instruction.

    An operation on doubles holds the upper half of a literal, and takes the lower half for zero.
    Any other literal is two moves (UMOV), in each block anew, and before an innermost loop for
    what is in it. Read off ptxas 13.0, the sines, powers and arc sines of its mathematics library.
    """
    made = makers(graph.ordered)
    loop = innermost(graph)
    seen: set[tuple[int, bool, int]] = set()
    out: dict[int, float] = {}
    for block, instr in walk(graph.ordered):
        if instr.op not in _DOUBLES or instr.parts[-1] != "f64":
            continue
        for operand in instr.operands[1:]:
            by = made.get(operand.name, []) if isinstance(operand, Reg) else []
            if len(by) == 1 and by[0].op == "mov":
                operand = by[0].operands[1]
            if not isinstance(operand, Imm) or not operand.bits & 0xFFFF_FFFF:
                continue
            inside = block.index in loop
            key = (loop.get(block.index, block.index), inside, operand.bits)
            if key in seen:
                continue
            seen.add(key)
            for place in entries(graph, key[0]) if inside else [instr]:
                out[id(place)] = out.get(id(place), 0.0) + 2.0
    return out


def overwritten(graph: ControlFlow, names: Names, folded: AbstractSet[int]) -> set[int]:
    """Selections of which one value is written over the other, under the predicate.

    What is made for the selection alone is made in the other's register, if that is not
    needed any more. Read off ptxas 13.0, 16 small kernels.

    Args:
        graph: The kernel.
        names: Of its blocks.
        folded: Instructions that are none of their own (`workbench.emulator.ptxas.folding`).

    Returns:
        Their ``selp``, by ``id``.
    """
    out = set[int]()
    for block in graph.ordered:
        before = dict[int, Instr]()
        for instr in block.instrs:
            if instr.op == "selp" and instr.parts[-1] in (*WORDS, "f32"):
                sides = [each.name for each in instr.operands[1:3] if isinstance(each, Reg)]
                pairs = (sides, sides[::-1]) if len(set(sides)) == 2 else ()
                if any(
                    _made_for(one, names, before, folded) and _ends(other, instr, names, before)
                    for one, other in pairs
                ):
                    out.add(id(instr))
            before[id(instr)] = instr
    return out


def _made_for(
    name: str, names: Names, before: Mapping[int, Instr], folded: AbstractSet[int]
) -> bool:
    """Is a register made in the same block, for one use, by an instruction that can be guarded?"""
    made = names.makers[name]
    if len(made) != 1 or names.uses[name] != 1 or id(made[0]) not in before:
        return False
    instr = made[0]
    return instr.op in _SIMPLE and instr.guard is None and id(instr) not in folded


def _ends(name: str, at: Instr, names: Names, before: Mapping[int, Instr]) -> bool:
    """Is a register not needed after a selection that takes it?"""
    if name in results(at):
        return True
    made = names.makers[name]
    if not made or any(id(each) not in before for each in made):
        return False
    return all(user is at or id(user) in before for user in names.users[name])
