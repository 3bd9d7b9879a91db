"""How many machine instructions the PTX becomes: an estimate by ptxas's habits.

PTX is not what runs. Moves, parameter loads and address casts vanish, an address
computed as ``base + index * size`` is one multiply-add, a comparison takes a boolean
operator with it, division is a routine, and a small counted loop is unrolled four
times, so that its counter and branch count a quarter. The weights below are those
habits as seen in the reports of compute capability 9.0; docs/emulator.md says how near
they come. Everything that follows from addresses is counted without them.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from workbench.emulator.cfg import Block, Graph, arguments, results
from workbench.emulator.ir import Addr, Imm, Instr, Reg, Sym

#: Loops up to this many instructions are unrolled by ptxas, if nothing in them forbids it.
_UNROLL_BELOW = 64
_UNROLL = 4
_ROUTINES = {  # instructions of ptxas's in-line sequences, common path
    ("div", "f32"): 10.0, ("div", "f64"): 20.0, ("sqrt", "f32"): 8.0, ("sqrt", "f64"): 16.0,
    ("rcp", "f32"): 6.0, ("rcp", "f64"): 10.0, ("rem", "s32"): 22.0, ("rem", "u32"): 18.0,
    ("div", "s32"): 20.0, ("div", "u32"): 16.0, ("div", "s64"): 70.0, ("div", "u64"): 60.0,
    ("rem", "s64"): 70.0, ("rem", "u64"): 60.0,
}  # fmt: skip


class Weights:
    """Machine instructions for each execution of a PTX instruction."""

    def __init__(self, graph: Graph, joined: dict[int, int]) -> None:
        self._joined = joined
        self._uses: Counter[str] = Counter()
        self._users: dict[str, list[Instr]] = defaultdict(list)
        self._makers: dict[str, list[Instr]] = defaultdict(list)
        for block in graph.blocks:
            tail = [block.last] if block.last is not None else []
            for instr in [*block.instrs, *tail]:
                for name in arguments(instr):
                    self._uses[name] += 1
                    self._users[name].append(instr)
                for name in results(instr):
                    self._makers[name].append(instr)
        self._of: dict[int, float] = {}
        for block in graph.blocks:
            share = 1 / _UNROLL if self._unrolled(block) else 1.0
            tail = [block.last] if block.last is not None else []
            for instr in [*block.instrs, *tail]:
                weight = self._plain(instr)
                if share < 1 and self._counts(block, instr):
                    weight *= share
                self._of[id(instr)] = weight

    def __getitem__(self, instr: Instr) -> float:
        """The weight of one instruction of the graph."""
        return self._of[id(instr)]

    def _unrolled(self, block: Block) -> bool:
        """A loop of one block without barriers, not marked ``nounroll``."""
        return (
            block.kind == "branch"
            and block.index in block.targets
            and len(block.instrs) <= _UNROLL_BELOW
            and not block.nounroll
        )

    def _counts(self, block: Block, instr: Instr) -> bool:
        """Loop overhead: steps of a register by a literal, the test, the jump."""
        if instr is block.last or instr.op == "setp":
            return True
        names = results(instr)
        return (
            instr.op in ("add", "sub")
            and len(names) == 1
            and names[0] in arguments(instr)
            and any(isinstance(operand, Imm) for operand in instr.operands[1:])
        )

    def _plain(self, instr: Instr) -> float:
        op, kind = instr.op, instr.parts[-1]
        if self._joined.get(id(instr)) == 0 or op in ("cvta", "pragma"):
            return 0.0
        if op == "ld" and instr.parts[1] == "param":
            return 0.0
        if op == "mov":
            return self._move(instr)
        if op == "bra":
            return 0.0 if instr.guard is None else 1.0
        if op in ("and", "or", "xor", "not") and kind == "pred":
            return 0.0
        if op in ("mul", "shl", "cvt") and self._absorbed(instr):
            return 0.0
        if op in ("add", "sub") and kind in ("s64", "u64", "b64"):
            return self._wide_add(instr)
        if (op, kind) in _ROUTINES and "approx" not in instr.parts and "full" not in instr.parts:
            return _ROUTINES[op, kind]
        return 1.0

    def _move(self, instr: Instr) -> float:
        source = instr.operands[1]
        if (
            isinstance(source, Reg)
            and source.name.startswith("%")
            and not self._makers.get(source.name)
        ):
            return 1.0  # a special register
        if isinstance(source, Imm):
            # The start of a loop's variable is written; any other literal stands in place.
            many = any(len(self._makers[name]) > 1 for name in results(instr))
            return 1.0 if many else 0.0
        return 0.0 if isinstance(source, Reg | Sym) else 1.0

    def _absorbed(self, instr: Instr) -> bool:
        """A product, shift or widening that one later addition takes with it."""
        names = results(instr)
        if not names or self._uses[names[0]] != 1:
            return False
        user = self._users[names[0]][0]
        if instr.op == "cvt":
            return user.op in ("mul", "add", "shl", "mad") and instr.parts[-1] in ("s32", "u32")
        if instr.op == "mul" and instr.parts[1] not in ("wide", "lo"):
            return False
        return user.op == "add" and user.parts[-1] in ("s32", "u32", "s64", "u64")

    def _wide_add(self, instr: Instr) -> float:
        name = results(instr)[0]
        literal = any(isinstance(operand, Imm) for operand in instr.operands[1:])
        if (
            literal
            and all(
                isinstance(operand, Addr)
                for user in self._users[name]
                for operand in user.operands
                if isinstance(operand, Addr)
            )
            and all(user.op in ("ld", "st") for user in self._users[name])
        ):
            return 0.0  # becomes the offset in the address
        return 2.0 if literal else 1.0
