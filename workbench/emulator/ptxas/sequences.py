"""Instructions of PTX that ptxas makes several of: how many, on the common path.

Read off ptxas 13.0 for compute capability 9.0, each alone in a small kernel. A routine's slow
path (denormal numbers, overflow) is a call that nearly never happens, and is counted for
quotients of float32 alone (`CALL`); the test for it and the branch around it are counted for
all, with BSSY and BSYNC.
"""

from __future__ import annotations

from workbench.emulator.ptx.instructions import Imm, Instr
from workbench.emulator.ptxas.folding import LOGIC, WIDE

ROUTINES = {
    ("div", "f32"): 10.0, ("div", "f64"): 20.0, ("sqrt", "f32"): 10.0, ("sqrt", "f64"): 16.0,
    ("rcp", "f32"): 10.0, ("rcp", "f64"): 11.0, ("rem", "s32"): 22.0, ("rem", "u32"): 17.0,
    ("div", "s32"): 24.0, ("div", "u32"): 18.0, ("div", "s64"): 70.0, ("div", "u64"): 60.0,
    ("rem", "s64"): 70.0, ("rem", "u64"): 60.0, ("rsqrt", "f64"): 16.0,
}  # fmt: skip
#: The slow path of a float32 quotient by a warp whose lanes come to it with zeros: 29 in the
#: routine, five around it (recorded on an H200: 14,080 calls of a Fourier transform).
CALL = 34.0
#: Of which the reciprocal of the divisor.
RECIPROCAL = {"s32": 11.0, "u32": 8.0}
#: Approximations that keep small numbers scale them before and after.
_APPROXIMATE = {
    ("ex2", "approx"): 4.0, ("lg2", "approx"): 4.0, ("rsqrt", "approx"): 4.0,
    ("sqrt", "approx"): 4.0, ("rcp", "approx"): 7.0, ("div", "approx"): 5.0,
    ("div", "full"): 8.0,
}  # fmt: skip
#: What there is no one machine instruction for.
_SEVERAL = {
    ("popc", "b64"): 3.0, ("clz", "b32"): 2.0, ("clz", "b64"): 6.0, ("brev", "b64"): 2.0,
    ("bfind", "u64"): 7.0, ("bfind", "s64"): 7.0, ("abs", "s64"): 5.0, ("cnot", "b32"): 3.0,
    ("min", "s64"): 4.0, ("min", "u64"): 4.0, ("max", "s64"): 4.0, ("max", "u64"): 4.0,
    ("min", "f64"): 7.0, ("max", "f64"): 7.0, ("not", "b64"): 2.0, ("sin", "f32"): 2.0,
    ("cos", "f32"): 2.0, ("ex2", "f16x2"): 3.0,
}  # fmt: skip
#: Bit fields whose place stands in PTX, and those that registers say.
_FIELDS = {"bfe": (2.0, 5.0), "bfi": (2.0, 6.0)}
#: 64-bit integers are two registers, and most of what is done with them is done twice.
_BY_HALVES = ("mul", "mad", "shl", "shr", "setp", "selp", "neg", *LOGIC)


def turn(instr: Instr) -> float:
    """Machine instructions in a turn of the loop that an atomic may be in shared memory.

    The load, the sum, the swap (ATOMS.CAST.SPIN), its test (of one word, or two) and the branch.
    How many lanes of an extreme have something to swap is not known here: none is counted.
    """
    if not {"min", "max"}.isdisjoint(instr.parts):
        return 0.0
    return 7.0 if instr.parts[-1][1:] == "64" else 5.0


def sequence(instr: Instr) -> float | None:
    """Machine instructions of what is never one; None of all else, and of division by integers."""
    op, kind = instr.op, instr.parts[-1]
    if op in _FIELDS and kind in ("b32", "s32", "u32"):
        literal, register = _FIELDS[op]
        return literal if all(isinstance(each, Imm) for each in instr.operands[-2:]) else register
    if (op, kind) in _SEVERAL:
        return _SEVERAL[op, kind]
    if kind in WIDE and op in _BY_HALVES:
        if op not in ("mul", "mad"):
            return 2.0
        return 7.0 if "hi" in instr.parts else 4.0
    if kind == "f32" and instr.parts[:2] in _APPROXIMATE:
        if "ftz" not in instr.parts:
            return _APPROXIMATE[op, instr.parts[1]]
        return 2.0 if instr.parts[:2] == ("div", "approx") else None
    if (op, kind) == ("rsqrt", "f64"):
        return None if "ftz" in instr.parts else ROUTINES[op, kind]
    if (op, kind) in ROUTINES and kind not in ("s32", "u32"):
        return None if {"approx", "full"} & set(instr.parts) else ROUTINES[op, kind]
    return None
