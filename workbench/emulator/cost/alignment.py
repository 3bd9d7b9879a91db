"""How far ptxas can prove an address aligned: known low zero bits of registers.

The number of low zero bits of a register is followed through its definitions. Pointers that come
from outside are aligned to nothing by these; but an access of 8 or 16 bytes from a register would
be an error if the register were not aligned, so ptxas 13.0 takes it to be, in the same block and
behind it (read off kernels compiled for 9.0). What is guarded in the PTX proves nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from workbench.emulator.ptx.blocks import dominators
from workbench.emulator.ptx.flow import ControlFlow, makers, results
from workbench.emulator.ptx.instructions import SIZES, Addr, Imm, Instr, Operand, Reg, Sym, space_of

_MANY = 64
#: Bytes of an access that say something of its address: ptxas joins words, and pairs of them.
_LEAST = 8


def low_zeros(value: int) -> int:
    """Zero bits below the lowest set one; many for 0."""
    return (value & -value).bit_length() - 1 if value else _MANY


class Alignment:
    """Known low zero bits of every register of a kernel."""

    def __init__(self, graph: ControlFlow, symbol: Callable[[str], int | None]) -> None:
        self.symbol = symbol
        defs = makers(graph.blocks)
        several = {name for name, found in defs.items() if len(found) > 1}
        self._roots = _roots(defs, several)
        self._rooted: dict[int, Addr] = {}
        self._proofs = self._proved(graph, several)
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
        where = self.rooted(access)
        if not isinstance(where.base, Sym):
            return where.offset
        return (self.symbol(where.base.name) or 0) + where.base.offset + where.offset

    def rooted(self, access: Instr) -> Addr:
        """An access's address, from the register on to which literals were added."""
        known = self._rooted.get(id(access))
        if known is None:
            known = address(access)
            if isinstance(known.base, Reg) and known.base.name in self._roots:
                root, offset = self._roots[known.base.name]
                known = Addr(Reg(root), known.offset + offset)
            self._rooted[id(access)] = known
        return known

    def base(self, access: Instr) -> int:
        """Known low zero bits of what `place` counts from."""
        base = self.rooted(access).base
        if base is None or isinstance(base, Sym):
            return _MANY
        # Where the linker puts a variable of global memory, ptxas does not know.
        known = 0 if space_of(access) == "global" else self.operand(base)
        return max(known, self._proofs.get(id(access), 0))

    def _proved(self, graph: ControlFlow, several: set[str]) -> dict[int, int]:
        """Low zero bits of each access's base register, by the accesses that every way to it has.

        Args:
            graph: The kernel.
            several: Registers that are written in several places: of these only accesses of the
                same block count, with nothing written between.

        Returns:
            ``id(instruction)`` -> low zero bits, where there are any.
        """
        proved: dict[int, dict[tuple[str, int], int]] = {}
        asked: dict[int, list[tuple[Instr, tuple[str, int]]]] = {}
        for block in graph.ordered:
            writes: dict[str, int] = defaultdict(int)
            proved[block.index], asked[block.index] = {}, []
            for instr in block.instrs:
                where = self.rooted(instr) if instr.op in ("ld", "st") else None
                if where is not None and isinstance(where.base, Reg) and instr.guard is None:
                    name, size = where.base.name, accessed(instr)
                    key = (name, writes[name] if name in several else 0)
                    asked[block.index].append((instr, key))
                    if size >= _LEAST and where.offset % size == 0:
                        before = proved[block.index].get(key, 0)
                        proved[block.index][key] = max(before, low_zeros(size))
                for name in results(instr):
                    writes[name] += 1
        if not any(proved.values()):
            return {}
        out = {}
        over = dominators(graph.blocks, graph.order, graph.before)
        for index, accesses in asked.items():
            for instr, key in accesses:
                ways = {index} if key[0] in several else over[index]
                zeros = max(proved.get(way, {}).get(key, 0) for way in ways)
                if zeros:
                    out[id(instr)] = zeros
        return out

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


def _roots(defs: dict[str, list[Instr]], several: set[str]) -> dict[str, tuple[str, int]]:
    """Registers that are another one and a literal: that one, and how far behind it they lie.

    So are two sums of the same registers: an array's address and the same as a generic one.
    """
    out: dict[str, tuple[str, int]] = {}
    sums: dict[tuple[str, ...], str] = {}

    def root_of(operand: Operand) -> tuple[str, int] | None:
        if isinstance(operand, Reg) and operand.name not in several:
            return out.get(operand.name, (operand.name, 0))
        return None

    for name, (made, *more) in defs.items():
        plain = made.op in ("add", "cvta") and made.guard is None and not more
        first = root_of(made.operands[1]) if plain else None
        if first is None or first[0] == name:
            continue
        if made.op == "cvta":
            out[name] = first
        elif isinstance(by := made.operands[2], Imm):
            half = 1 << 8 * SIZES[made.parts[-1]] - 1
            out[name] = first[0], first[1] + (by.bits ^ half) - half
        elif (second := root_of(made.operands[2])) is not None:
            key = (made.parts[-1], *sorted((first[0], second[0])))
            out[name] = sums.setdefault(key, name), first[1] + second[1]
    return {name: root for name, root in out.items() if root != (name, 0)}


def accessed(access: Instr) -> int:
    """Bytes that a load or store moves for each lane, a vector's elements together."""
    count = next((int(part[1:]) for part in access.parts if part in ("v2", "v4", "v8")), 1)
    return count * SIZES.get(access.parts[-1], 0)


def address(access: Instr) -> Addr:
    """Where a load or store begins."""
    where = access.operands[0 if access.op == "st" else 1]
    assert isinstance(where, Addr)
    return where
