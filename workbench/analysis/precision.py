"""Number formats in which only one side of a step calculates."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache

from workbench.analysis.aggregate import Recent, main_launch, value_of
from workbench.analysis.limits.roofline import each_once, executed, measured
from workbench.gpus import WARP_SIZE
from workbench.language import N_, _
from workbench.model import Launch, Profile
from workbench.sass import OPCODES, matrix_product, opcode_of, product_operations
from workbench.units import listed, quantity

#: Arithmetic has vanished if less than this part of it is left, and no other arithmetic remains for
#: every stored word; a smaller change may be a better algorithm.
VANISHED = 0.05
#: A number format is shown if it makes this part of a side's operations, and (except for matrix
#: products) of its lanes' instructions; it is gone if less than `VANISHED` of it is left.
_OF_OPERATIONS, _OF_LANES = 0.01, 0.005
#: From this percentage of their peak on, tensor cores do a kernel's products.
_AT_WORK = 10.0
#: Significant bits of every format, and the name of its operations.
_FORMATS = {
    "float64": (53, N_("float64 operations")),
    "float32": (24, N_("float32 operations")),
    "TF32": (11, N_("TF32 operations on tensor cores")),
    "half": (11, N_("half-precision operations")),
    "bfloat16": (8, N_("bfloat16 operations")),
    "int8": (8, N_("int8 operations")),
    "float8": (4, N_("8-bit float operations")),
}
#: Modifier of a product of matrices -> the type of its inputs; without one they are halves.
_INPUTS = {
    "TF32": "TF32",
    "BF16": "bfloat16",
    "S8": "int8",
    "U8": "int8",
    "E4M3": "float8",
    "E5M2": "float8",
}
#: From this factor of operations on, numbers may have been split into terms.
_TERMS = 2.0


def format_words(sides: tuple[Profile, Profile]) -> str:
    """``float64 operations 6.68 G → 0``: formats added or removed; "" if all stayed."""
    old, new = (_operations_by_format(side) for side in sides)
    if old is None or new is None:
        return _tensor_cores(sides)
    whole = [sum(side[name] for name in _FORMATS) for side in (old, new)]
    # A larger problem has more of all formats: a format is gone only if its share is as well.
    sides_of = ((old, new, whole[0], whole[1]), (new, old, whole[1], whole[0]))
    shifted = [
        name
        for name in _FORMATS
        for here, there, n, m in sides_of
        if (a := here[_MANY + name]) and a >= _OF_OPERATIONS * n
        if there[name] <= VANISHED * a * min(m / n, 1.0)
    ]
    # If only float32 is added or removed, it is an index or an epilogue.
    if not all(whole) or not {*shifted} - {"float32"}:
        return ""
    said = [
        f"{_(_FORMATS[name][1])} {quantity(old[name])} → {quantity(new[name])}" for name in shifted
    ]
    if "float64" in shifted and max(old[_CONVERTED], new[_CONVERTED]):
        both = f"{quantity(old[_CONVERTED])} → {quantity(new[_CONVERTED])}"
        said.append(_("conversions between float64 and float32 {both}").format(both=both))
    bits = [
        max(_FORMATS[name][0] for name in own or [max(_FORMATS, key=lambda name: side[name])])
        for side, own in (
            (old, [name for name in shifted if old[name] > new[name]]),
            (new, [name for name in shifted if new[name] > old[name]]),
        )
    ]
    # Twice as many operations may be those on a number's terms, which together lose no bits.
    lost = bits[1] < bits[0] and whole[1] < _TERMS * whole[0]
    fewer = _("; with fewer bits, results may be less exact") if lost else ""
    return f"{listed(said)}{fewer}"


#: Among operations by format: conversions between float64 and float32; formats of many lanes.
_CONVERTED, _MANY = "conversions", "many "


def _operations_by_format(profile: Profile) -> Mapping[str, float] | None:
    """Every kernel and configuration counts once; None if one kernel's code was not counted."""
    if not all(map(_formats, measured(profile))):
        return None
    many = (_MANY + name for name in _FORMATS)
    return {name: _of_format(profile, name) for name in (*_FORMATS, _CONVERTED, *many)}


def _of_format(profile: Profile, name: str) -> float:
    return each_once(profile, lambda launch: _formats(launch).get(name, 0.0)) or 0.0


def _count_formats(launch: Launch) -> dict[str, float]:
    """Operations by format, two per multiply-add; those of many lanes as `_MANY`, too."""
    lanes: dict[str, float] = defaultdict(float)
    operations: dict[str, float] = defaultdict(float)
    for text, *__, count in executed(launch):
        lanes[""] += count
        if found := _format(text):
            name, each, weight = found
            operations[name] += each * count
            if weight:
                lanes[name] += weight * count
    few = _OF_LANES * lanes[""]
    many = {_MANY + name: n for name, n in operations.items() if lanes.get(name, few) >= few}
    return {_CONVERTED: 0.0, **operations, **many} if few else {}


@lru_cache(maxsize=1 << 14)
def _format(text: str) -> tuple[str, float, float] | None:
    """The number format of a machine instruction, its operations per lane, and its weight."""
    opcode, modifiers = opcode_of(text)
    row = OPCODES.get(opcode)
    if row is None:
        return None
    if row.role == "conversion" and {"F64", "F32"} <= {*modifiers}:
        return _CONVERTED, 1.0, 0.0
    name = next((_INPUTS[each] for each in sorted(modifiers) if each in _INPUTS), "half")
    if matrix_product(opcode):
        each = product_operations(modifiers) / WARP_SIZE
        return "float64" if opcode == "DMMA" else name, each, math.inf
    if row.role not in ("floating point", "product"):
        return None
    if row.packed:
        # Constants are made by adding to a product with zero; HADD2.F32 converts.
        return name, 0.0 if "RZ, RZ" in text or "F32" in modifiers else float(row.packed), 1.0
    if opcode == "IDP":
        return "int8", 8.0 if "4A" in modifiers else 4.0, 1.0
    each = 2.0 if row.role == "product" else 1.0
    return "float64" if row.pipe == "FP64" else "float32", each, 1.0


_formats: Recent[Launch, dict[str, float]] = Recent(_count_formats)


def _tensor_cores(sides: tuple[Profile, Profile]) -> str:
    """Tensor cores that only one side uses, if no machine code shows the format."""
    mains = (main_launch(side) for side in sides)
    old, new = (value_of(launch, "tensor_utilization") if launch else None for launch in mains)
    if old is None or new is None or min(old, new) >= 1.0 or max(old, new) < _AT_WORK:
        return ""
    came = _("products moved to the tensor cores ({old} → {new} of their peak)")
    left = _("products left the tensor cores ({old} → {new} of their peak)")
    return (came if old < 1.0 else left).format(old=quantity(old, "%"), new=quantity(new, "%"))
