"""The two words of 64-bit integers: which of them are zero, and which anybody wants.

ptxas works on 32-bit registers, and what it does to a 64-bit integer it does to each of its words.
A word that is known to be zero, or that nobody looks at, costs nothing: ``x ^ x >> 33`` is a shift
and one LOP3, the lower word of a product one IMAD. Read off ptxas 13.0 for compute capability
9.0.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.emulator.ptx.blocks import BasicBlock
from workbench.emulator.ptx.flow import results, walk
from workbench.emulator.ptx.instructions import SIZES, Imm, Instr, Operand, Reg
from workbench.emulator.ptxas.folding import ADDS, LOGIC, WIDE, Names

#: Lower and upper word: zero, or wanted.
Both = tuple[bool, bool]
_NONE, _ALL = (False, False), (True, True)
_WORD = 32
_WIDE = frozenset(WIDE)
_LOW = (1 << _WORD) - 1
#: What takes a word that is zero as the register RZ.
_TAKES_ZERO = (*ADDS, *LOGIC, "mul", "mad", "shl", "shr", "setp", "selp")


class WideWords:
    """What is known of the words of a kernel's 64-bit registers."""

    def __init__(self, blocks: Sequence[BasicBlock], names: Names) -> None:
        self._names = names
        # What has no 64-bit type has no 64-bit operand but an address.
        instrs = [each for _, each in walk(blocks) if not _WIDE.isdisjoint(each.parts)]
        made = dict.fromkeys(name for each in instrs for name in results(each))
        #: Register -> words that are zero; from "all" downwards until nothing changes.
        self._zero: dict[str, Both] = dict.fromkeys(made, _ALL)
        #: Register -> words that are wanted; from "none" upwards.
        self._wanted: dict[str, Both] = dict.fromkeys(made, _NONE)
        changed = True
        while changed:
            changed = False
            for name in made:
                known = [self._zero_of(instr) for instr in names.makers[name]]
                now = (all(low for low, _ in known), all(high for _, high in known))
                changed |= now != self._zero[name]
                self._zero[name] = now
        changed = True
        while changed:
            changed = False
            for instr in reversed(instrs):
                for operand in instr.operands[1:] if results(instr) else instr.operands:
                    if isinstance(operand, Reg) and operand.name in self._wanted:
                        low, high = self._wanted[operand.name]
                        if low and high:
                            continue
                        more = self._wants(instr, operand)
                        now = (low or more[0], high or more[1])
                        changed |= now != (low, high)
                        self._wanted[operand.name] = now
        self._hidden = {
            name
            for _, instr in walk(blocks)
            if any(not isinstance(operand, (Reg, Imm)) for operand in instr.operands)
            for name in instr.reads
        }

    def weight(self, instr: Instr) -> float | None:
        """Machine instructions of one on 64-bit integers; None: not known here."""
        op, kind = instr.op, instr.parts[-1]
        made = results(instr)
        if len(made) != 1 or instr.guard is not None:
            return None
        if op == "cvt" and kind in ("u32", "s32") and instr.parts[-2] in WIDE:
            return self._widened(instr, made[0])
        if kind not in WIDE or "cc" in instr.parts:
            return None
        want = _ALL if made[0] in self._hidden else self._wanted[made[0]]
        if want == _NONE:
            want = _ALL
        if op in LOGIC:
            return float(sum(self._logic(instr, word) for word in (0, 1) if want[word]))
        if op in ("shl", "shr") and isinstance(instr.operands[2], Imm):
            return self._shift(instr, instr.operands[2].bits, want)
        if op == "mul" and "lo" in instr.parts:
            if not want[1]:
                return 1.0
            narrow = sum(self._of(operand)[1] for operand in instr.operands[1:])
            return (4.0, 3.0, 1.0)[narrow]
        return 1.0 if op in ADDS and not want[1] else None

    def _widened(self, instr: Instr, name: str) -> float | None:
        """A conversion to 64 bits: RZ is the upper word, or a shift fills it with the sign."""
        if instr.parts[-1] == "s32":
            return None if self._wanted[name][1] or name in self._hidden else 0.0
        return 0.0 if all(user.op in _TAKES_ZERO for user in self._names.users[name]) else None

    def _logic(self, instr: Instr, word: int) -> int:
        """Is there anything to do in a word?"""
        operands = instr.operands[1:3]
        if any(self._of(operand)[word] for operand in operands):
            return 0  # zero, or the other operand as it is
        full = any(isinstance(each, Imm) and _word(each, word) == _LOW for each in operands)
        return 0 if full and instr.op != "xor" else 1

    def _shift(self, instr: Instr, by: int, want: Both) -> float:
        low, high = self._of(instr.operands[1])
        if instr.op == "shl":
            if by >= _WORD:
                return float(want[1] and by > _WORD and not low)
            return float((want[0] and not low) + (want[1] and not (low and high)))
        sign = instr.parts[-1] == "s64"
        if by >= _WORD:
            return float((want[0] and by > _WORD and not high) + (want[1] and sign))
        return float((want[0] and not (low and high)) + (want[1] and not high))

    def _of(self, operand: Operand) -> Both:
        """Which words of an operand are zero."""
        if isinstance(operand, Imm):
            return _word(operand, 0) == 0, _word(operand, 1) == 0
        return self._zero.get(operand.name, _NONE) if isinstance(operand, Reg) else _NONE

    def _zero_of(self, instr: Instr) -> Both:
        """Which words of a result are zero."""
        op, kind, args = instr.op, instr.parts[-1], instr.operands[1:]
        if op == "cvt" and kind[0] in "ub" and instr.parts[-2] in WIDE and kind not in WIDE:
            return False, True
        if kind not in WIDE or instr.guard is not None:
            return _NONE
        if op == "mov":
            return self._of(args[0])
        if op in LOGIC:
            (a, b), (c, d) = self._of(args[0]), self._of(args[1])
            return (a or c, b or d) if op == "and" else (a and c, b and d)
        if op not in ("shl", "shr") or not isinstance(args[1], Imm):
            return _NONE
        low, high = self._of(args[0])
        if op == "shl":
            return (True, low) if args[1].bits >= _WORD else (low, low and high)
        if kind == "s64":
            return _NONE
        return (high, True) if args[1].bits >= _WORD else (low and high, high)

    def _wants(self, instr: Instr, operand: Reg) -> Both:
        """Which words of an operand an instruction looks at."""
        op, kind = instr.op, instr.parts[-1]
        if op == "cvt" and kind in WIDE and instr.parts[-2][0] in "usb":
            return (True, False) if SIZES[instr.parts[-2]] <= 4 else _ALL
        made = results(instr)
        if kind not in WIDE or len(made) != 1 or made[0] not in self._wanted or instr.guard:
            return _ALL
        want = self._wanted[made[0]]
        if op == "mov":
            return want
        if op in LOGIC:
            if op == "and":
                others = [self._of(each) for each in instr.operands[1:3] if each != operand]
                gone = others[0] if others else _NONE
                return want[0] and not gone[0], want[1] and not gone[1]
            return want
        if op in ADDS or (op == "mul" and "lo" in instr.parts):
            return any(want), want[1]
        if op not in ("shl", "shr") or not isinstance(instr.operands[2], Imm):
            return _ALL
        far = instr.operands[2].bits >= _WORD
        if op == "shl":
            return (want[1], False) if far else (any(want), want[1])
        return (False, any(want)) if far else (want[0], any(want))


def _word(value: Imm, word: int) -> int:
    return value.bits >> word * _WORD & _LOW
