"""Video instructions: extract bytes and half-words from words, compute, and merge them.

This follows the pseudocode in PTX ISA, "Video Instructions" and "SIMD Video Instructions". The
selected part of an operand follows its name (``%r1.b2``); the parser passes it as a modifier
``place:part``, and the sign of a negated operand as ``place:-``.

Forms whose results on an H200 (by ptxas 13.0) differ from the manual are refused: merges into a
part of a register, minimum or maximum as second operation, saturated left shifts, products that are
saturated or shifted, and sums and differences that are saturated to `u32` and may exceed it: only
values below 0 are clamped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxemu.ops.comparisons import ORDERED
from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import Context, Registers, Run
from ptxemu.state.lanes import Mask
from ptxemu.state.values import Value, boxed, unsigned

Numbers = NDArray[np.int64]
_TYPES = ("u32", "s32")
_ALL = 0xFFFF_FFFF


class _Form(NamedTuple):
    """One video instruction. Types are true if signed; `parts` are for the operands' places."""

    name: str
    lanes: int
    into: bool
    first: bool
    second: bool
    words: tuple[str, ...]
    parts: dict[int, str]
    negated: frozenset[int]

    @property
    def unlike(self) -> bool:
        """True where GPUs differ from the manual."""
        words = set(self.words)
        if self.name == "vmad":
            return bool(words & {"sat", "shr7", "shr15"})
        cut = "sat" in words and (self.name == "vshl" or (not self.into and self._beyond))
        return self.lanes == 1 and (0 in self.parts or cut or bool(words & {"min", "max"}))

    @property
    def _beyond(self) -> bool:
        """True if the result of two whole words may be 2³² or more."""
        match self.name:
            case "vadd":
                return not (self.first and self.second)
            case "vsub":
                return self.second and not self.first
            case _:
                return self.name == "vabsdiff" and self.first != self.second

    @classmethod
    def of(cls, instr: Instr) -> _Form:
        """The form of an instruction; ValueError: types are missing."""
        lanes = int(instr.op[-1]) if instr.op[-1] in "24" else 1
        name = instr.op.rstrip("24")
        words = tuple(part for part in instr.parts[1:] if ":" not in part)
        kinds = [word == "s32" for word in words if word in _TYPES]
        if name == "vset":
            kinds.insert(0, False)
        into, first, second = kinds
        marks = [part.split(":") for part in instr.parts if ":" in part]
        return cls(
            name, lanes, into, first, second, words,
            {int(place): part for place, part in marks if part != "-"},
            frozenset(int(place) for place, part in marks if part == "-"),
        )  # fmt: skip


def _field(x: Numbers, at: int, bits: int, is_signed: bool) -> Numbers:
    """The `at`-th field of the given number of bits, extended."""
    value = x >> at * bits & (1 << bits) - 1
    return value - ((value >> bits - 1) << bits) if is_signed else value


def _select(x: Numbers, part: str, is_signed: bool) -> Numbers:
    bits = {"b": 8, "h": 16}.get(part[:1], 32)
    return _field(x, int(part[1:] or 0), bits, is_signed)


def _result(form: _Form, x: Numbers, y: Numbers) -> Numbers:
    if form.name in ("vshl", "vshr"):
        y = y & 31 if "wrap" in form.words else np.minimum(y, 32)
    if form.name == "vset":
        compare = next(word for word in form.words if word in ORDERED)
        return ORDERED[compare](x, y).astype(np.int64)
    if form.name == "vavrg":
        total = x + y
        return np.where(total >= 0, total + 1, total) >> 1
    operations: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
        "vadd": np.add, "vsub": np.subtract, "vmin": np.minimum, "vmax": np.maximum,
        "vabsdiff": lambda x, y: np.abs(x - y), "vshr": np.right_shift,
        "vshl": _shifted,
    }  # fmt: skip
    return operations[form.name](x, y)


def _shifted(x: Numbers, y: Numbers) -> Numbers:
    """Shift left by up to 32; a value beyond 64 bits is replaced by one with the same result."""
    return np.where((y > 31) & (x >= 1 << 31), np.int64(1) << 62, x << y)


def _lanewise(form: _Form) -> Callable[..., Numbers]:
    """Compute on fields of words; a scalar instruction has one field, named by its operands."""
    lanes, bits, adds = form.lanes, 32 // form.lanes, "add" in form.words
    # For the result and both operands, the highest field first; 4 to 7 are the second operand's.
    fields = [
        form.parts.get(place, "b" + "".join(str(start + at) for at in reversed(range(lanes))))[1:]
        for place, start in enumerate((0, 0, lanes))
    ]

    def pick(words: tuple[Numbers, Numbers], place: int, at: int, is_signed: bool) -> Numbers:
        if lanes == 1:
            return _select(words[place - 1], form.parts.get(place, ""), is_signed)
        word, number = divmod(int(fields[place][lanes - 1 - at]), lanes)
        return _field(words[word], number, bits, is_signed)

    def run(x: Numbers, y: Numbers, z: Numbers) -> Numbers:
        out = z if adds else np.zeros_like(z)
        for at in range(lanes):
            value = _field(z, at, bits, False)
            if str(at) in fields[0]:
                first, second = pick((x, y), 1, at, form.first), pick((x, y), 2, at, form.second)
                value = _result(form, first, second)
                if "sat" in form.words:
                    least = -(1 << bits - 1) if form.into else 0
                    value = np.clip(value, least, least + (1 << bits) - 1)
            elif adds:
                continue
            out = out + value if adds else out | (value & (1 << bits) - 1) << at * bits
        return out

    return run


def _multiply_add(form: _Form) -> Callable[..., Numbers]:
    minus = (1 in form.negated) != (2 in form.negated)

    def run(x: Numbers, y: Numbers, z: Numbers) -> Numbers:
        # Only the lower 32 bits of sums are kept; these are the same in wrapped arithmetic.
        product = _select(x, form.parts.get(1, ""), form.first) * _select(
            y, form.parts.get(2, ""), form.second
        )
        total = (-product if minus else product) + (-z if 3 in form.negated else z)
        return total + ("po" in form.words)

    return run


def build(instr: Instr, ctx: Context) -> Run:
    """Build any video instruction.

    Raises:
        ValueError: its types are not those of a video instruction.
        Fault: a form whose hardware result differs from the manual.
    """
    form = _Form.of(instr)
    if form.unlike:
        raise ctx.unsupported(instr, "GPUs do not behave here as the PTX manual says")
    function = (_multiply_add if form.name == "vmad" else _lanewise)(form)
    slots = [ctx.slot(operand, 4) for operand in instr.operands[1:]]

    def run(R: Registers, M: Mask) -> Value:
        words = [unsigned(R[slot], 4).astype(np.int64) for slot in slots]
        x, y, z = words if len(words) == 3 else (*words, np.zeros((1, 1), np.int64))
        return boxed((function(x, y, z) & _ALL).astype(np.uint32))

    return run


BUILDERS: dict[str, Callable[[Instr, Context], Run]] = dict.fromkeys(
    (
        *("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset"),
        *(f"{name}{lanes}" for lanes in (2, 4)
          for name in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset")),
    ),
    build,
)  # fmt: skip
