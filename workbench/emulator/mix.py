"""What a launch's instructions are: their mix by class, and the arithmetic in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from workbench.emulator.ptx.instructions import Instr
from workbench.emulator.run import Executed

_MEMORY = ("ld", "ldu", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "prefetch")
_CONTROL = ("bra", "brx", "ret", "exit", "bar", "barrier", "membar", "fence", "trap", "nanosleep")
_ACROSS = ("shfl", "vote", "match", "redux", "activemask", "elect")
_HALF = ("f16", "f16x2", "bf16", "bf16x2")
#: Floating-point operations of one instruction of one thread.
_OPERATIONS = {"fma": 2, "mad": 2, "add": 1, "sub": 1, "mul": 1}
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)\Z")
WARP = 32


def class_of(instr: Instr) -> str:
    """The class that an instruction counts to in the mix."""
    op, kind = instr.op, instr.parts[-1]
    if op in ("mma", "wmma"):
        return "tensor" if op == "mma" or instr.parts[1] == "mma" else "memory"
    if op in _MEMORY:
        return "memory"
    if op in _CONTROL:
        return "control"
    if op in _ACROSS:
        return "exchange"
    if op == "cvt":
        return "conversion"
    if op == "mov" or op == "cvta":
        return "move"
    if kind == "f32":
        return "float32"
    if kind == "f64":
        return "float64"
    return "half" if kind in _HALF else "integer"


def mix(rows: Iterable[Executed]) -> dict[str, int]:
    """Warp instructions of each class."""
    out: Counter[str] = Counter()
    for row in rows:
        out[class_of(row.instr)] += row.warps
    return dict(sorted(out.items()))


def operations(row: Executed) -> int:
    """Operations of a row: multiplications and additions, of integers on tensor cores too."""
    instr = row.instr
    if class_of(instr) == "tensor":
        shape = next((found for p in instr.parts if (found := _SHAPE.match(p))), None)
        if shape is None:
            return 0
        m, n, k = (int(size) for size in shape.groups())
        return 2 * m * n * k * row.warps
    kind = instr.parts[-1]
    if kind not in ("f32", "f64", *_HALF):
        return 0
    return _OPERATIONS.get(instr.op, 0) * row.on * (2 if kind.endswith("x2") else 1)
