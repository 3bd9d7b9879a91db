"""Every atomic of the PTX ISA against one that takes lanes and elements one at a time."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest

from ptxemu.errors import Unsupported
from ptxemu.ptx.parser import parse
from tests.ptxemu.conftest import HEADER, Compile, execute

_FLOATS = ("f16", "bf16", "f32", "f64")
#: Bytes, bits of the fraction and least exponent of a normal number.
_FORMATS = {"f16": (2, 10, -14), "bf16": (2, 7, -126), "f32": (4, 23, -126), "f64": (8, 52, -1022)}
_NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0xFFF8000000000000}

#: Operation and type, and the vectors there are of it, as ptxas 13.0 accepts them for sm_90.
_SCALAR = [
    *(f"add.{kind}" for kind in ("u32", "s32", "u64", "f32", "f64")),
    *(f"add.noftz.{kind}" for kind in ("f16", "bf16", "f16x2", "bf16x2")),
    *(f"{op}.{kind}" for op in ("min", "max") for kind in ("u32", "s32", "u64", "s64")),
    *(f"{op}.{kind}" for op in ("and", "or", "xor") for kind in ("b32", "b64")),
    "inc.u32", "dec.u32",
]  # fmt: skip
_RETURNING = ["exch.b32", "exch.b64", "cas.b16", "cas.b32", "cas.b64"]
_VECTORS = [
    "add.v2.f32", "add.v4.f32",
    *(f"{op}.noftz.{vector}.{kind}" for op in ("add", "min", "max")
      for vectors, kinds in ((("v2", "v4", "v8"), ("f16", "bf16")),
                             (("v2", "v4"), ("f16x2", "bf16x2")))
      for vector in vectors for kind in kinds),
]  # fmt: skip


def legal() -> Iterator[str]:
    """All opcodes but the six of 128 bits, which are refused."""
    for space in ("global.", "shared.", ""):
        for name in (*_SCALAR, *([] if space == "shared." else _VECTORS)):
            yield f"atom.{space}{name}"
            yield f"red.{space}{name}"
        for name in _RETURNING:
            yield f"atom.{space}{name}"


# --- the slow model


def _value(bits: int, kind: str) -> Fraction | float:
    """An exact number, or a float for what is no number."""
    size, digits, least = _FORMATS[kind]
    exponents = 8 * size - 1 - digits
    sign = -1 if bits >> (8 * size - 1) else 1
    field, fraction = (bits >> digits) & ((1 << exponents) - 1), bits & ((1 << digits) - 1)
    if field == (1 << exponents) - 1:
        return math.nan if fraction else sign * math.inf
    if field == 0:
        return Fraction(sign * fraction) * Fraction(2) ** (least - digits)
    return Fraction(sign * ((1 << digits) + fraction)) * Fraction(2) ** (field - 1 + least - digits)


def _bits(value: Fraction, kind: str) -> int:
    """The nearest number, ties to even; beyond the greatest is infinite."""
    size, digits, least = _FORMATS[kind]
    top = (1 << (8 * size - 1 - digits)) - 1
    sign = int(value < 0) << (8 * size - 1)
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    exponent = max(least, exponent - (abs(value) < Fraction(2) ** exponent))
    steps = round(abs(value) / Fraction(2) ** (exponent - digits))  # Python's: ties to even
    return sign | min(((exponent - least) << digits) + steps, top << digits)


def _flush(bits: int, kind: str) -> int:
    size, digits, _ = _FORMATS[kind]
    sign = bits & (1 << (8 * size - 1))
    return sign if (bits ^ sign) >> digits == 0 else bits


def _sum(x: int, y: int, kind: str, flush: bool) -> int:
    if flush:
        x, y = _flush(x, kind), _flush(y, kind)
    one, two = _value(x, kind), _value(y, kind)
    sign = 1 << (8 * _FORMATS[kind][0] - 1)
    if isinstance(one, float) or isinstance(two, float):
        total = float(one if isinstance(one, float) else 0) + float(
            two if isinstance(two, float) else 0
        )
        if math.isnan(total):
            return _NAN[kind]
        return x if isinstance(one, float) else y
    if one + two == 0:
        return sign if x & y & sign else 0
    out = _bits(one + two, kind)
    return _flush(out, kind) if flush else out


def _extreme(x: int, y: int, kind: str, largest: bool) -> int:
    one, two = _value(x, kind), _value(y, kind)
    if isinstance(one, float) and math.isnan(one):
        return _NAN[kind] if isinstance(two, float) and math.isnan(two) else y
    if isinstance(two, float) and math.isnan(two):
        return x
    if one == two:  # -0 is less than +0
        return (x & y) if largest else (x | y)
    return x if (one > two) == largest else y


def _turn(op: str, kind: str, flush: bool) -> Callable[[int, int, int], int]:
    """(old, operand, second operand) -> new, all as bits of one scalar."""
    bits = 8 * int(kind.lstrip("usbf")) // 8
    if kind in _FLOATS:
        if op == "add":
            return lambda old, x, _: _sum(old, x, kind, flush)
        return lambda old, x, _: _extreme(old, x, kind, op == "max")

    def number(value: int) -> int:
        return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value

    choose = max if op == "max" else min
    table: dict[str, Callable[[int, int, int], int]] = {
        "add": lambda old, x, _: (old + x) % (1 << bits),
        "min": lambda old, x, _: choose(old, x, key=number),
        "max": lambda old, x, _: choose(old, x, key=number),
        "and": lambda old, x, _: old & x, "or": lambda old, x, _: old | x,
        "xor": lambda old, x, _: old ^ x, "exch": lambda old, x, _: x,
        "cas": lambda old, x, y: y if old == x else old,
        "inc": lambda old, x, _: 0 if old >= x else old + 1,
        "dec": lambda old, x, _: x if old == 0 or old > x else old - 1,
    }  # fmt: skip
    return table[op]


# --- the kernels

_LANES, _BYTES = 64, 512
_LETTERS = {2: "H", 4: "I", 8: "Q"}


class Form:
    """What an opcode works on: scalars of `kind`, `each` of them in an operand of one lane."""

    def __init__(self, opcode: str) -> None:
        parts = opcode.split(".")
        self.opcode, self.op = opcode, next(p for p in parts if p in _OPERATIONS)
        self.type = parts[-1]
        self.kind = self.type.removesuffix("x2")
        self.vector = next((int(p[1:]) for p in parts if p[0] == "v"), 1)
        self.size = int(self.kind.lstrip("usbf")) // 8
        self.width = self.size * (2 if self.type.endswith("x2") else 1)  # of one element
        self.each = self.vector * self.width // self.size
        self.shared = "shared" in parts
        self.returns = parts[0] == "atom"
        #: The manual: subnormal float32 is flushed in global memory and kept in shared.
        self.flush = self.type == "f32" and not self.shared


_OPERATIONS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")


def kernel(form: Form, space: str) -> str:
    """Every lane: one atomic at ``m[i[lane]]`` with its own operands; what it read goes to o."""
    vector, width = form.vector, form.width
    suffix = f".v{vector}" if vector > 1 else ""

    def operand(letter: str) -> str:
        names = [f"%{letter}{number}" for number in range(vector)]
        return "{" + ", ".join(names) + "}" if vector > 1 else names[0]

    register = f"b{8 * max(width, 2)}"
    total = vector * width
    lines = [
        HEADER, ".visible .entry k(.param .u64 m, .param .u64 i, .param .u64 x, .param .u64 y, "
        ".param .u64 o)\n{", f".reg .{register} %a<8>, %b<8>, %c<8>;",
        ".reg .b64 %rd<20>; .reg .b32 %r<5>;", f".shared .align 16 .b8 box[{_BYTES}];",
        "mov.u32 %r1, %tid.x;",
        *(f"ld.param.u64 %rd{n}, [{name}];" for n, name in enumerate("mixyo")),
        "mul.wide.u32 %rd5, %r1, 8; add.s64 %rd6, %rd0, %rd5;",
        "mov.u64 %rd7, box; add.s64 %rd8, %rd7, %rd5;",
        "ld.global.b64 %rd9, [%rd6]; st.shared.b64 [%rd8], %rd9; bar.sync 0;",
        "mul.wide.u32 %rd10, %r1, 4; add.s64 %rd10, %rd1, %rd10; ld.global.u32 %r2, [%rd10];",
        f"mul.wide.u32 %rd11, %r2, {total}; mul.wide.u32 %rd12, %r1, {total};",
        *(f"add.s64 %rd{13 + n}, %rd{2 + n}, %rd12;" for n in range(3)),
        *(f"ld.global.b{8 * width} %b{n}, [%rd13+{n * width}];" for n in range(vector)),
        *(f"ld.global.b{8 * width} %c{n}, [%rd14+{n * width}];" for n in range(vector)),
        "cvta.shared.u64 %rd16, %rd7;" if space == "generic" else "mov.u64 %rd16, %rd7;",
        f"add.s64 %rd17, {'%rd0' if space == 'global' else '%rd16'}, %rd11;",
    ]  # fmt: skip
    second = f", {operand('c')}" if form.op == "cas" else ""
    lines += [
        f"{form.opcode} {operand('a') + ', ' if form.returns else ''}[%rd17], {operand('b')}"
        f"{second};"
    ]
    if form.returns:
        lines += [f"st.global.b{8 * width} [%rd15+{n * width}], %a{n};" for n in range(vector)]
    if space != "global":
        lines += ["bar.sync 0;", "ld.shared.b64 %rd9, [%rd8]; st.global.b64 [%rd6], %rd9;"]
    assert suffix in form.opcode
    return "\n".join([*lines, "ret;", "}"])


def _drawn(form: Form, count: int, rng: np.random.Generator) -> list[int]:
    """Scalars of all sorts: any bits, small numbers that cancel, and what is special."""
    bits = 8 * form.size
    out = [int(v) for v in rng.integers(0, 1 << bits, count, dtype=np.uint64)]
    small = [int(each) for each in rng.integers(0, 6, count)]
    if form.kind in _FLOATS:
        infinite = _bits(Fraction(2) ** 2000, form.kind)
        special = [0, 1 << (bits - 1), infinite, infinite + 1, infinite - 1, 1, 2 + (1 << bits - 1)]
        numbers = [_bits(Fraction(int(v), 8), form.kind) for v in rng.integers(-40, 41, count)]
    else:
        special, numbers = [0, (1 << bits) - 1, 1 << (bits - 1)], small
    choice = rng.random(count)
    return [
        numbers[n] if choice[n] < 0.5 else
        special[int(rng.integers(len(special)))] if choice[n] < 0.7 else
        small[n] if choice[n] < 0.8 else out[n]
        for n in range(count)
    ]  # fmt: skip


def _array(scalars: list[int], size: int) -> np.ndarray:
    return np.frombuffer(struct.pack(f"<{len(scalars)}{_LETTERS[size]}", *scalars), np.uint8).copy()


def _scalars(data: np.ndarray, size: int) -> list[int]:
    return list(struct.unpack(f"<{len(data) // size}{_LETTERS[size]}", data.tobytes()))


@pytest.mark.parametrize("opcode", list(legal()))
def test_an_atomic_is_as_one_lane_after_the_other(opcode: str) -> None:
    form = Form(opcode)
    spaces = ["shared"] if form.shared else ["global"]
    if not form.shared and "global" not in opcode:
        spaces = ["global"] if form.vector > 1 else ["global", "generic"]
    for space in spaces:
        rng = np.random.default_rng(len(opcode))
        each, size = form.each, form.size
        memory = _drawn(form, _BYTES // size, rng)
        x, y = (_drawn(form, _LANES * each, rng) for _ in range(2))
        places = rng.integers(0, min(12, _BYTES // (each * size)), _LANES)
        if form.op == "cas":  # some that succeed, and some that do after others did
            there = rng.random(_LANES) < 0.7
            x = [memory[p] if t else v for p, t, v in zip(places, there, x, strict=True)]
        flush = form.flush and space == "global"
        turn, want, read = _turn(form.op, form.kind, flush), list(memory), []
        for lane, place in enumerate(places):
            for number in range(each):
                at, mine = int(place) * each + number, lane * each + number
                read.append(want[at])
                want[at] = turn(want[at], x[mine], y[mine])
        buffers = {
            "m": _array(memory, size), "i": places.astype("u4"), "x": _array(x, size),
            "y": _array(y, size), "o": np.zeros(_LANES * each * size, "u1"),
        }  # fmt: skip
        got, _ = execute(
            parse(kernel(form, space)), "k", buffers, list(buffers), block=_LANES, check=False
        )
        assert _scalars(got["m"], size) == want, space
        if form.returns:
            assert _scalars(got["o"], size) == read, space


def test_a_cache_policy_is_no_operand() -> None:
    form = Form("atom.global.add.u32")
    text = kernel(form, "global").replace(
        "atom.global.add.u32 %a0, [%rd17], %b0;",
        "mov.u64 %rd18, 7; atom.global.add.L2::cache_hint.u32 %a0, [%rd17], %b0, %rd18;",
    )
    buffers = {"m": np.zeros(512, "u1"), "i": np.zeros(64, "u4"), "x": np.ones(64, "u4"),
               "y": np.zeros(64, "u4"), "o": np.zeros(64, "u4")}  # fmt: skip
    got, _ = execute(parse(text), "k", buffers, list(buffers), block=64)
    assert got["m"].view("u4")[0] == 64 and got["o"].tolist() == list(range(64))


def test_atomics_of_128_bits_are_refused() -> None:
    text = (
        f"{HEADER}.visible .entry k(.param .u64 m)\n{{.reg .b128 %q<3>; .reg .b64 %rd<3>;\n"
        "ld.param.u64 %rd1, [m]; mov.b128 %q1, {%rd1, %rd1};\n"
        "atom.global.exch.b128 %q2, [%rd1], %q1; ret; }"
    )
    with pytest.raises(Unsupported, match=r"does not support .*b128"):
        execute(parse(text), "k", {"m": np.zeros(16, "u1")}, ["m"])


HALVES = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void k(__half2* a, __nv_bfloat162* b, __half* c, __nv_bfloat16* d) {
  __shared__ __half half;
  __shared__ __nv_bfloat16 brain;
  __shared__ __half2 pair;
  if (threadIdx.x == 0) { half = 0.f; brain = 0.f; pair = __half2{0.f, 0.f}; }
  __syncthreads();
  atomicAdd(a, __half2{1.f, 2.f});
  atomicAdd(b, __nv_bfloat162{3.f, 4.f});
  atomicAdd(c, __half(5.f));
  atomicAdd(d, __nv_bfloat16(6.f));
  atomicAdd(&half, __half(0.5f));
  atomicAdd(&brain, __nv_bfloat16(0.25f));
  atomicAdd(&pair, __half2{0.5f, 2.f});
  __syncthreads();
  if (threadIdx.x == 0) { a[1] = pair; c[1] = half; d[1] = brain; }
}
"""


@pytest.mark.nvcc
def test_what_cuda_makes_of_atomics_on_halves(cuda: Compile) -> None:
    buffers = {name: np.zeros(4, "f2") for name in "abcd"}
    got, outcome = execute(cuda(HALVES), "k", buffers, list("abcd"), block=32)

    def brain(data: np.ndarray) -> list[float]:
        return [float(v) for v in (data.view("u2").astype("u4") << 16).view("f4").tolist()]

    assert got["a"].tolist() == [32, 64, 16, 64]
    assert brain(got["b"])[:2] == [96, 128]
    assert got["c"][:2].tolist() == [160, 16]
    assert brain(got["d"])[:2] == [192, 8]
    shared = [r for r in outcome.rows if r.instr.op in ("atom", "red") and r.site.shared_requests]
    assert len(shared) >= 3 and all(row.site.wavefronts > 0 for row in shared)


TOGETHER = """
extern "C" __global__ void at(const int* x, int* y, int k) {
    __shared__ int s[64];
    s[threadIdx.x] = s[threadIdx.x + 32] = 0;
    __syncthreads();
    %s;
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x] + s[threadIdx.x + 32];
}
"""


@pytest.mark.parametrize(
    ("text", "wavefronts"),
    [
        ("atomicAdd(&s[3], x[threadIdx.x])", 1),
        ("atomicAdd(&s[k], x[threadIdx.x])", 1),
        ("atomicMin(&s[blockIdx.x & 7], x[threadIdx.x])", 1),
        ("atomicOr(&s[3], x[threadIdx.x])", 1),
        ("if (x[threadIdx.x] >= 16) atomicXor(&s[3], x[threadIdx.x])", 1),
        ("atomicAdd(&s[threadIdx.x / 32], x[threadIdx.x])", 32),
        ("atomicExch(&s[3], x[threadIdx.x])", 32),
        # Where the value before is wanted, one lane adds for all, and each knows its number.
        ("y[threadIdx.x + 32] = atomicAdd(&s[3], 1)", 1),
        ("if (x[threadIdx.x] & 1) y[threadIdx.x + 32] = atomicAdd(&s[k], 5)", 1),
        ("y[threadIdx.x + 32] = atomicAdd(&s[threadIdx.x & 1], 1)", 16),
        # Values of their own are scanned, if all lanes of the warp are there.
        ("y[threadIdx.x + 32] = atomicAdd(&s[3], x[threadIdx.x])", 1),
        ("if (x[threadIdx.x] & 1) y[threadIdx.x + 32] = atomicAdd(&s[3], x[threadIdx.x])", 16),
        ("y[threadIdx.x + 32] = atomicMax(&s[3], x[threadIdx.x])", 32),
    ],
)
def test_lanes_at_one_word_that_ptxas_knows_to_be_one_go_together(
    cuda: Compile, text: str, wavefronts: int
) -> None:
    """As in the machine code of nvcc 13.0: REDUX, then one lane's ATOMS; else 32 of them."""
    buffers = {"x": np.arange(32, dtype=np.int32), "y": np.zeros(64, np.int32)}
    _, outcome = execute(cuda(TOGETHER % text), "at", buffers, ["x", "y", 3])
    (row,) = (row for row in outcome.rows if row.instr.op in ("atom", "red"))
    assert row.site.wavefronts == wavefronts
