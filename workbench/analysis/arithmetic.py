"""The arithmetic that a launch executed, by the unit that does it.

Float32 work has hardware counters (the catalog's `flops`). What the matrix units and the
byte dot products do has none that every chip and ncu version names alike; but a SASS
opcode says the shape of its product, so executions times shape is the same number:
``HMMA.16816.F32`` multiplies 16×16 by 16×8, 2·16·8·16 operations of a warp.
"""

from __future__ import annotations

import re
from typing import Literal

from workbench.counters import Missing, Reading, read
from workbench.model import Launch

Unit = Literal["float32", "tensor half", "tensor TF32", "tensor int8", "dp4a"]

_OPCODE = re.compile(r"\s*(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)((?:\.[A-Za-z0-9_]+)*)")
#: Shapes of warp-wide products as SASS writes them: M, N, K.
_SHAPES = {
    "884": (8, 8, 4),
    "8816": (8, 8, 16),
    "8832": (8, 8, 32),
    "1684": (16, 8, 4),
    "1688": (16, 8, 8),
    "16816": (16, 8, 16),
    "16832": (16, 8, 32),
}
#: Warpgroup products write MxNxK; each of the group's four warps executes the instruction.
_GROUP_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)\Z")
_WARPS_OF_A_GROUP = 4
#: A byte dot product: four multiplications and four additions of a thread.
_DP4A = 8
_TENSOR = {"HMMA", "IMMA", "HGMMA", "IGMMA"}
#: Matrix products that are not counted: their operations would be missing from the sum.
_UNCOUNTED = {"DMMA", "BMMA", "BGMMA", "QGMMA", "QMMA", "OMMA", "UTCHMMA", "UTCIMMA", "UTCQMMA"}


def _product(opcode: str, modifiers: list[str]) -> tuple[Unit, float] | None:
    """Unit and operations of one execution by one warp; None where the shape is unknown."""
    if "SP" in modifiers:
        return None
    operations = 0.0
    for modifier in modifiers:
        group = _GROUP_SHAPE.match(modifier)
        if modifier in _SHAPES:
            m, n, k = _SHAPES[modifier]
            operations = 2.0 * m * n * k
        elif group:
            m, n, k = map(int, group.groups())
            operations = 2.0 * m * n * k / _WARPS_OF_A_GROUP
    if not operations:
        return None
    if opcode.startswith("I"):
        # Four-bit integers share the opcode; only bytes have a roof of that name.
        return ("tensor int8", operations) if {"S8", "U8"} & {*modifiers} else None
    return ("tensor TF32" if "TF32" in modifiers else "tensor half"), operations


def _machine_work(launch: Launch) -> dict[Unit, float] | Missing:
    """Work of matrix units and byte dot products, from the instruction table."""
    table = launch.instructions
    warps = table.columns.get("inst_executed")
    threads = table.columns.get("thread_inst_executed_true")
    if warps is None:
        return Missing("its machine code was not counted")
    out: dict[Unit, float] = {}
    for row, count in zip(warps.rows, warps.values, strict=True):
        found = _OPCODE.match(table.text[row])
        opcode = found[1] if found else ""
        if not count or opcode not in _TENSOR | _UNCOUNTED:
            continue
        product = _product(opcode, found[2].split(".")) if found and opcode in _TENSOR else None
        if product is None:
            return Missing(f"operations of {table.text[row].split()[0]} are not known")
        unit, operations = product
        out[unit] = out.get(unit, 0.0) + operations * count
    if threads is not None:
        for row, count in zip(threads.rows, threads.values, strict=True):
            found = _OPCODE.match(table.text[row])
            if found and found[1] == "IDP" and ".4A" in found[2]:
                out["dp4a"] = out.get("dp4a", 0.0) + _DP4A * count
    return out


#: The matrix units' counter shows a few hundredths of a percent at barriers alone.
_TENSOR_NOISE_PERCENT = 1.0


def work(launch: Launch) -> dict[Unit, float] | Missing:
    """Operations of a launch by unit, a multiply-add being two.

    Float64 is not counted; a launch that mostly does float64, or whose matrix
    products cannot be counted, gets the reason instead.
    """
    flops = read(launch, "flops")
    if isinstance(flops, Missing):
        return flops
    machine = _machine_work(launch)
    used = read(launch, "tensor_utilization")
    if isinstance(used, Reading) and used.value > _TENSOR_NOISE_PERCENT:
        if isinstance(machine, Missing):
            return Missing(f"it worked on tensor cores, but {machine.reason}")
        if not any(unit.startswith("tensor") for unit in machine):
            return Missing("it worked on tensor cores, but its machine code shows no such work")
    if isinstance(machine, Missing):
        machine = {}
    total: dict[Unit, float] = {"float32": float(flops.value), **machine}
    double = read(launch, "dfma_threads")
    if isinstance(double, Reading) and 2 * double.value > sum(total.values()):
        return Missing("most of its work is float64, which is not counted here")
    return {unit: count for unit, count in total.items() if count}
