"""What a launch's instructions are: their mix, and the arithmetic in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from ptxemu.ptx.instructions import Instr
from ptxemu.run import Executed

_HALF = ("f16", "f16x2", "bf16", "bf16x2")
_BY_OPCODE = {
    **dict.fromkeys(("ld", "ldu", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "prefetch"),
                    "memory"),
    **dict.fromkeys(("bra", "brx", "ret", "exit", "bar", "barrier", "membar", "fence", "trap",
                     "nanosleep", "mbarrier", "setmaxnreg", "griddepcontrol"), "control"),
    **dict.fromkeys(("shfl", "vote", "match", "redux", "activemask", "elect"), "exchange"),
    "cvt": "conversion", "mov": "move", "cvta": "move", "mma": "tensor",
}  # fmt: skip
_BY_TYPE = {"f32": "float32", "f64": "float64", **dict.fromkeys(_HALF, "half")}
#: Floating-point operations of one instruction of one thread.
_OPERATIONS = {"fma": 2, "mad": 2, "add": 1, "sub": 1, "mul": 1}
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)\Z")


def class_of(instr: Instr) -> str:
    """The class that an instruction counts to in the mix."""
    if instr.op == "wmma":
        return "tensor" if instr.parts[1] == "mma" else "memory"
    if instr.op == "wgmma":
        return "tensor" if instr.parts[1] == "mma_async" else "control"
    return _BY_OPCODE.get(instr.op) or _BY_TYPE.get(instr.parts[-1], "integer")


def mix(rows: Iterable[Executed]) -> dict[str, int]:
    """Warp instructions of each class."""
    out: Counter[str] = Counter()
    for row in rows:
        out[class_of(row.instr)] += row.warps
    return dict(sorted(out.items()))


def uncounted(rows: Iterable[Executed]) -> frozenset[str]:
    """The spaces, global and shared, that instructions went to of which no cost is known.

    Totals of what accesses to them cost would leave those out.
    """
    out: set[str] = set()
    for row in rows:
        parts = row.instr.parts
        moves = "bulk" in parts and not {"commit_group", "wait_group", "prefetch"} & set(parts)
        if row.warps and moves:
            out |= {"shared", *({"global"} & set(parts))}
        elif row.warps and (
            parts[:2] == ("wgmma", "mma_async") or parts[0] == "stmatrix"
            or ("shared::cluster" in parts and parts[0] in ("ld", "st", "atom", "red"))
        ):  # fmt: skip
            out.add("shared")
    return frozenset(out)


def operations(row: Executed) -> int:
    """Operations of a row: multiplications and additions, of integers on tensor cores too."""
    instr = row.instr
    if class_of(instr) == "tensor":
        shape = next((found for p in instr.parts if (found := _SHAPE.match(p))), None)
        if shape is None:
            return 0
        m, n, k = (int(size) for size in shape.groups())
        # A product of a warpgroup is one of four warps.
        return 2 * m * n * k * row.warps // (4 if instr.op == "wgmma" else 1)
    kind = instr.parts[-1]
    if kind not in ("f32", "f64", *_HALF):
        return 0
    return _OPERATIONS.get(instr.op, 0) * row.on * (2 if kind.endswith("x2") else 1)
