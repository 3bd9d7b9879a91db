"""Video instructions against a slow model: one thread, Python's integers, the manual's steps."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from ptxemu.errors import Unsupported
from ptxemu.ptx.parser import parse
from tests.ptxemu.conftest import HEADER, execute

EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF,
         0x8081_7F00, 33, 0x0102_0304)  # fmt: skip
COMPARE = {"eq": int.__eq__, "ne": int.__ne__, "lt": int.__lt__, "le": int.__le__,
           "gt": int.__gt__, "ge": int.__ge__}  # fmt: skip


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def part(value: int, selector: str, kind: str) -> int:
    bits = {"": 32, "b": 8, "h": 16}[selector[:1]]
    value = value >> bits * int(selector[1:] or 0) & (1 << bits) - 1
    return signed(value, bits) if kind == "s32" else value


def clamp(value: int, bits: int, kind: str) -> int:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind == "s32" else (0, (1 << bits) - 1)
    return max(low, min(value, high))


def work(name: str, x: int, y: int, compare: str) -> int:
    if name == "vavrg":
        return x + y + 1 >> 1 if x + y >= 0 else x + y >> 1
    return {
        "vadd": lambda: x + y, "vsub": lambda: x - y, "vabsdiff": lambda: abs(x - y),
        "vmin": lambda: min(x, y), "vmax": lambda: max(x, y), "vshl": lambda: x << y,
        "vshr": lambda: x >> y, "vset": lambda: int(COMPARE[compare](x, y)),
    }[name]()  # fmt: skip


def slow(opcode: str, operands: list[str], values: tuple[int, int, int]) -> int:
    """What an instruction makes of three words; operands as they are written."""
    op, *words = opcode.split(".")
    kinds = [word for word in words if word in ("u32", "s32")]
    into, first, second = kinds if len(kinds) == 3 else ("u32", *kinds)
    parts = [text.partition(".")[2] for text in operands]
    compare = next((word for word in words if word in COMPARE), "")
    x, y, z = values
    if op == "vmad":
        minus = operands[1].startswith("-") != operands[2].startswith("-")
        less = operands[3].startswith("-")
        product = part(x, parts[1], first) * part(y, parts[2], second)
        total = (-product if minus else product) + (-z if less else z) + ("po" in words)
        return total & 0xFFFF_FFFF
    if op[-1] not in "24":
        a, b = part(x, parts[1], first), part(y, parts[2], second)
        if op in ("vshl", "vshr"):
            b = min(b, 32) if "clamp" in words else b & 31
        value = work(op, a, b, compare)
        value = clamp(value, 32, into) if "sat" in words else value
        return (value + z if "add" in words else value) & 0xFFFF_FFFF
    lanes, letter = int(op[-1]), "h" if op[-1] == "2" else "b"
    bits = 32 // lanes
    order = "3210" if lanes == 4 else "10"
    mask = parts[0][1:] or order
    chosen = [parts[1][1:] or order, parts[2][1:] or ("7654" if lanes == 4 else "32")]

    def pick(which: int, lane: int, kind: str) -> int:
        number = int(chosen[which][::-1][lane])
        return part(x if number < lanes else y, f"{letter}{number % lanes}", kind)

    out = z if "add" in words else 0
    for lane in range(lanes):
        value = part(z, f"{letter}{lane}", "u32")
        if str(lane) in mask:
            value = work(op[:-1], pick(0, lane, first), pick(1, lane, second), compare)
            value = clamp(value, bits, into) if "sat" in words else value
            out += value if "add" in words else 0
        if "add" not in words:
            out |= (value & (1 << bits) - 1) << lane * bits
    return out & 0xFFFF_FFFF


def cut_wrongly(op: str, kinds: list[str]) -> bool:
    """Whether its saturation is one that GPUs leave out: into `u32`, of what may be beyond it."""
    most = {"u32": 2**32 - 1, "s32": 2**31 - 1}
    least = {"u32": 0, "s32": -(2**31)}
    to, one, two = kinds if len(kinds) == 3 else ["s32", *kinds]
    top = {
        "vadd": most[one] + most[two],
        "vsub": most[one] - least[two],
        "vabsdiff": max(most[one] - least[two], most[two] - least[one]),
    }
    return to == "u32" and top.get(op, 0) >= 2**32


def scalar(rng: random.Random, op: str) -> tuple[str, list[str]]:
    kinds = [rng.choice(("u32", "s32")) for _ in range(2 if op == "vset" else 3)]
    if op in ("vshl", "vshr"):
        kinds[2] = "u32"
    selectors = ["", "", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1"]
    operands = ["%r4", f"%r1{rng.choice(selectors)}", f"%r2{rng.choice(selectors)}"]
    opcode = ".".join([op, *kinds])
    if op not in ("vset", "vshl") and not cut_wrongly(op, kinds) and rng.random() < 0.5:
        opcode += ".sat"
    if op in ("vshl", "vshr"):
        opcode += rng.choice((".clamp", ".wrap"))
    if op == "vset":
        opcode += "." + rng.choice(list(COMPARE))
    return (f"{opcode}.add", [*operands, "%r3"]) if rng.random() < 0.5 else (opcode, operands)


def packed(rng: random.Random, op: str) -> tuple[str, list[str]]:
    lanes, letter = int(op[-1]), "h" if op[-1] == "2" else "b"
    kinds = [rng.choice(("u32", "s32")) for _ in range(2 if op[:-1] == "vset" else 3)]
    tail = ["", ".add"] if op[:-1] == "vset" else ["", ".sat", ".add"]
    opcode = ".".join([op, *kinds])
    opcode += "." + rng.choice(list(COMPARE)) if op[:-1] == "vset" else ""
    opcode += rng.choice(tail)
    masks = [each for each in ("0", "1", "10", "2", "31", "210", "3210") if int(each[0]) < lanes]

    def selector() -> str:
        digits = "".join(str(rng.randrange(2 * lanes)) for _ in range(lanes))
        return rng.choice(("", f".{letter}{digits}"))

    mask = rng.choice(("", f".{letter}{rng.choice(masks)}"))
    return opcode, [f"%r4{mask}", f"%r1{selector()}", f"%r2{selector()}", "%r3"]


def multiply(rng: random.Random) -> tuple[str, list[str]]:
    kinds = [rng.choice(("u32", "s32")) for _ in range(3)]
    opcode = ".".join(["vmad", *kinds])
    signs = ["", "", ""]
    if rng.random() < 0.3:
        opcode += ".po"
    elif rng.random() < 0.6:
        signs[rng.randrange(3)] = "-"
    selectors = ["", "", ".b1", ".h0", ".h1", ".b3"]
    return opcode, [
        "%r4", f"{signs[0]}%r1{rng.choice(selectors)}", f"{signs[1]}%r2{rng.choice(selectors)}",
        f"{signs[2]}%r3",
    ]  # fmt: skip


def variant(rng: random.Random, op: str) -> tuple[str, list[str]]:
    """An instruction of an opcode, with its operands."""
    return multiply(rng) if op == "vmad" else (packed if op[-1] in "24" else scalar)(rng, op)


def word(rng: random.Random) -> int:
    return rng.choice((rng.choice(EDGES), rng.getrandbits(32)))


def run(opcode: str, operands: list[str], words: np.ndarray) -> list[int]:
    """The instruction in a warp; `words` are (3, 32)."""
    text = f"""{HEADER}.file 1 "k.cu"
.visible .entry k(.param .u64 x)
{{
.reg .b32 %r<6>; .reg .b64 %rd<6>;
.loc 1 7 1
ld.param.u64 %rd1, [x]; mov.u32 %r5, %tid.x; mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2;
ld.global.u32 %r1, [%rd3]; ld.global.u32 %r2, [%rd3+128]; ld.global.u32 %r3, [%rd3+256];
{opcode} {", ".join(operands)};
st.global.u32 [%rd3+384], %r4;
ret;
}}
"""
    got, _ = execute(parse(text), "k", {"x": np.concatenate([words.ravel(), np.zeros(32, "u4")])},
                     ["x"])  # fmt: skip
    return [int(value) for value in got["x"][96:]]


OPCODES = [
    *("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset", "vmad"),
    *(f"v{name}{n}" for n in (2, 4)
      for name in ("add", "sub", "avrg", "absdiff", "min", "max", "set")),
]  # fmt: skip


@pytest.mark.parametrize("op", OPCODES)
def test_a_video_instruction_does_what_the_manual_says(op: str) -> None:
    rng = random.Random(op)
    for _ in range(8):
        words = np.array([[word(rng) for _ in range(32)] for _ in range(3)], "u4")
        opcode, operands = variant(rng, op)
        want = [slow(opcode, operands, (int(x), int(y), int(z))) for x, y, z in words.T.tolist()]
        assert run(opcode, operands, words) == want, (opcode, operands)


@pytest.mark.parametrize(
    ("opcode", "operands", "values", "want"),
    [
        # Sums of absolute differences, as video coders take them: 1 + 2 + 3 + 250, and 7.
        ("vabsdiff4.u32.u32.u32.add", ["%r4", "%r1", "%r2", "%r3"],
         (0x0102_03FF, 0x0204_0605, 7), 263),
        ("vadd.s32.s32.s32.sat", ["%r4", "%r1", "%r2"], (0x7FFF_FFFF, 1, 0), 0x7FFF_FFFF),
        ("vadd2.s32.s32.s32.sat", ["%r4", "%r1", "%r2", "%r3"],
         (0x7FFF_8000, 0x0001_FFFF, 0), 0x7FFF_8000),
        ("vavrg4.u32.u32.u32", ["%r4", "%r1", "%r2", "%r3"],
         (0x0001_02FF, 0x0102_03FF, 0), 0x0102_03FF),
        ("vmad.u32.u32.u32.po", ["%r4", "%r1", "%r2", "%r3"], (100, 64, 63), 6464),
        ("vset4.u32.u32.lt", ["%r4.b20", "%r1", "%r2", "%r3"],
         (0x0101_0101, 0x0201_0200, 0xAAAA_AAAA), 0xAA00_AA00),
        ("vshl.u32.u32.u32.clamp", ["%r4", "%r1", "%r2"], (0x8000_0000, 40, 0), 0),
    ],
)  # fmt: skip
def test_known_values(
    opcode: str, operands: list[str], values: tuple[int, int, int], want: int
) -> None:
    words = np.repeat(np.array(values, "u4")[:, None], 32, axis=1)
    assert run(opcode, operands, words) == [want] * 32


def test_types_that_are_none_are_refused_with_their_line() -> None:
    words = re.escape("the emulator does not support `vadd.f32.f32.f32")
    with pytest.raises(Unsupported, match=rf"k\.cu:7: kernel k: {words}"):
        run("vadd.f32.f32.f32", ["%r4", "%r1", "%r2"], np.zeros((3, 32), "u4"))


@pytest.mark.parametrize(
    ("opcode", "operands"),
    [
        ("vadd.u32.u32.u32", ["%r4.h1", "%r1", "%r2", "%r3"]),
        ("vsub.s32.s32.s32.max", ["%r4", "%r1", "%r2", "%r3"]),
        ("vshl.u32.u32.u32.sat.wrap", ["%r4", "%r1", "%r2"]),
        ("vadd.u32.u32.u32.sat", ["%r4", "%r1", "%r2"]),
        ("vadd.u32.u32.s32.sat", ["%r4", "%r1", "%r2.b3"]),
        ("vsub.u32.u32.s32.sat", ["%r4", "%r1", "%r2"]),
        ("vabsdiff.u32.u32.s32.sat.add", ["%r4", "%r1", "%r2.b0", "%r3"]),
        ("vabsdiff.u32.s32.u32.sat", ["%r4", "%r1", "%r2"]),
        ("vmad.u32.u32.u32.shr7", ["%r4", "%r1", "%r2", "%r3"]),
        ("vmad.s32.s32.s32.sat", ["%r4", "%r1", "%r2", "%r3"]),
    ],
)
def test_what_gpus_do_otherwise_than_the_manual_says_is_refused(
    opcode: str, operands: list[str]
) -> None:
    """Of these the hardware's results differed from the manual's: a guess would be a lie."""
    with pytest.raises(Unsupported, match="GPUs do not behave here as the PTX manual says"):
        run(opcode, operands, np.zeros((3, 32), "u4"))
