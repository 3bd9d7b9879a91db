"""Random operands through single PTX instructions, against NumPy and Python's integers."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import numpy as np
import pytest

from tests.ptxemu.conftest import Compile, elementwise, execute

RNG = np.random.default_rng(20)
COUNT = 4000
M32 = (1 << 32) - 1


def words(dtype: str, count: int = COUNT) -> np.ndarray:
    """Random bits with the corners mixed in."""
    size = np.dtype(dtype).itemsize
    bits = RNG.integers(0, 1 << (8 * size - 1), count, dtype=np.uint64) * 2 + RNG.integers(
        0, 2, count, dtype=np.uint64
    )
    corners = np.array([0, 1, 2, 31, 32, 33, (1 << (8 * size - 1)) - 1, 1 << (8 * size - 1),
                        (1 << (8 * size)) - 1], np.uint64)  # fmt: skip
    bits[: len(corners)] = corners
    bits[len(corners) : 2 * len(corners)] = corners[::-1]
    return bits.astype(f"u{size}").view(dtype)


def s32(value: int) -> int:
    value &= M32
    return value - (1 << 32) if value >> 31 else value


def trunc_div(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def halves(function: Callable[[int, int], int], *, signed: bool) -> Callable[[int, int], int]:
    """A function of each half of two words."""

    def half(word: int, at: int) -> int:
        value = word >> at & 0xFFFF
        return value - 65536 if signed and value >> 15 else value

    return lambda a, b: sum((function(half(a, k), half(b, k)) & 0xFFFF) << k for k in (0, 16))


def stopped(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """A function whose result is at least zero."""
    return lambda a, b: max(0, function(a, b))


def s64(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def dotted(a: int, b: int, c: int) -> int:
    """The sum of the products of signed bytes, and a number."""
    pairs = zip(struct.pack("<I", a), struct.pack("<I", b), strict=True)
    return c + sum((x - 256 * (x > 127)) * (y - 256 * (y > 127)) for x, y in pairs)


def permuted(a: int, b: int, control: int) -> int:
    """Bytes of two words, or their signs, as the nibbles of a third choose."""
    octets, want = struct.pack("<II", a, b), 0
    for k in range(4):
        pick = control >> (4 * k) & 15
        octet = octets[pick & 7]
        want |= ((255 if octet >> 7 else 0) if pick & 8 else octet) << (8 * k)
    return want


#: Opcode -> the type of its operands, how many there are, and a model in Python's integers.
INTEGERS: dict[str, tuple[str, int, Callable[..., int]]] = {
    "add.s32": ("u4", 2, lambda a, b: a + b),
    "sub.u32": ("u4", 2, lambda a, b: a - b),
    "mul.lo.s32": ("u4", 2, lambda a, b: a * b),
    "mul.hi.u32": ("u4", 2, lambda a, b: a * b >> 32),
    "mul.hi.s32": ("u4", 2, lambda a, b: s32(a) * s32(b) >> 32),
    "mad.lo.u32": ("u4", 3, lambda a, b, c: a * b + c),
    "mul24.lo.u32": ("u4", 2, lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
    "min.s32": ("u4", 2, lambda a, b: min(s32(a), s32(b))),
    "max.u32": ("u4", 2, max),
    "and.b32": ("u4", 2, lambda a, b: a & b),
    "xor.b32": ("u4", 2, lambda a, b: a ^ b),
    "not.b32": ("u4", 1, lambda a: ~a),
    "neg.s32": ("u4", 1, lambda a: -a),
    "abs.s32": ("u4", 1, lambda a: abs(s32(a))),
    "shl.b32": ("u4", 2, lambda a, b: a << b if b < 32 else 0),
    "shr.u32": ("u4", 2, lambda a, b: a >> b if b < 32 else 0),
    "shr.s32": ("u4", 2, lambda a, b: s32(a) >> min(b, 31)),
    "popc.b32": ("u4", 1, lambda a: a.bit_count()),
    "clz.b32": ("u4", 1, lambda a: 32 - a.bit_length()),
    "brev.b32": ("u4", 1, lambda a: int(f"{a:032b}"[::-1], 2)),
    "bfind.u32": ("u4", 1, lambda a: a.bit_length() - 1),
    "sad.u32": ("u4", 3, lambda a, b, c: abs(a - b) + c),
    "shf.l.wrap.b32": ("u4", 3, lambda a, b, c: ((b << 32 | a) << (c & 31)) >> 32),
    "shf.r.wrap.b32": ("u4", 3, lambda a, b, c: (b << 32 | a) >> (c & 31)),
    "div.u32": ("u4", 2, lambda a, b: a // b if b else M32),
    "rem.u32": ("u4", 2, lambda a, b: a % b if b else a),
    "div.s32": ("u4", 2, lambda a, b: trunc_div(s32(a), s32(b)) if b else -1),
    "rem.s32": ("u4", 2, lambda a, b: s32(a) - trunc_div(s32(a), s32(b)) * s32(b) if b else s32(a)),
    "bfe.u32": ("u4", 3, lambda a, b, c: (a >> (b & 255)) & ((1 << (c & 255)) - 1)),
    "add.sat.s32": ("u4", 2, lambda a, b: max(-(1 << 31), min((1 << 31) - 1, s32(a) + s32(b)))),
    "add.u16x2": ("u4", 2, halves(int.__add__, signed=False)),
    "add.s16x2": ("u4", 2, halves(int.__add__, signed=True)),
    "min.u16x2": ("u4", 2, halves(min, signed=False)),
    "max.s16x2": ("u4", 2, halves(max, signed=True)),
    "max.relu.s16x2": ("u4", 2, halves(stopped(max), signed=True)),
    "min.s16x2.relu": ("u4", 2, halves(stopped(min), signed=True)),
    "min.relu.s32": ("u4", 2, lambda a, b: max(0, min(s32(a), s32(b)))),
    "max.s32.relu": ("u4", 2, lambda a, b: max(0, s32(a), s32(b))),
    "mul.wide.s32": ("u4", 2, lambda a, b: s32(a) * s32(b)),
    "mul.hi.s64": ("u8", 2, lambda a, b: s64(a) * s64(b) >> 64),
    "div.u64": ("u8", 2, lambda a, b: a // b if b else -1),
    "dp4a.s32.s32": ("u4", 3, dotted),
    "prmt.b32": ("u4", 3, permuted),
}


@pytest.mark.parametrize("opcode", INTEGERS)
def test_integers(opcode: str) -> None:
    dtype, arity, model = INTEGERS[opcode]
    inputs = [words(dtype) for _ in range(arity)]
    if opcode.startswith(("shl", "shr", "shf", "bfe")):
        inputs[-1] = inputs[-1] % 70
        if opcode.startswith("bfe"):
            inputs[1] = inputs[1] % 70
    kind = "u32" if dtype == "u4" else "u64"
    out = "u64" if "wide" in opcode else kind
    got = elementwise(opcode, [kind] * arity, inputs, out)
    bits = int(out[1:])
    assert got.tolist() == [model(*(int(x[i]) for x in inputs)) % (1 << bits) for i in range(COUNT)]


@pytest.mark.parametrize("table", [0x80, 0xE8, 0x96, 0x1B, 0xFF])
def test_lop3_is_its_truth_table(table: int) -> None:
    a, b, c = words("u4"), words("u4"), words("u4")
    want = np.zeros_like(a)
    for row in range(8):
        if table >> row & 1:
            want |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    got = elementwise("lop3.b32", ["u32"] * 3, [a, b, c], "u32", f", {table}")
    assert np.array_equal(got, want)


def floats(dtype: str = "f4") -> np.ndarray:
    values = words(dtype.replace("f", "u")).view(dtype).copy()
    values[20:1500] = RNG.standard_normal(1480).astype(dtype)
    return values


def same(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bit by bit; every NaN is the chip's one."""
    bits = want.view(f"u{want.itemsize}").copy()
    bits[np.isnan(want)] = 0x7FFFFFFF if want.itemsize == 4 else 0xFFF8 << 48
    assert np.array_equal(got.view(bits.dtype), bits)


FLOATS: dict[str, tuple[int, Callable[..., np.ndarray]]] = {
    "add.rn.f32": (2, np.add),
    "sub.rn.f32": (2, np.subtract),
    "mul.rn.f32": (2, np.multiply),
    "div.rn.f32": (2, np.divide),
    "add.rn.f64": (2, np.add),
    "mul.rn.f64": (2, np.multiply),
    "div.rn.f64": (2, np.divide),
    "sqrt.rn.f32": (1, np.sqrt),
    "rcp.rn.f32": (1, lambda a: np.float32(1) / a),
    "min.f32": (
        2,
        lambda a, b: np.where(np.isnan(a), b, np.where(np.isnan(b), a, np.minimum(a, b))),
    ),
}


@pytest.mark.parametrize("opcode", FLOATS)
def test_floats(opcode: str) -> None:
    (arity, model), kind = FLOATS[opcode], opcode[-3:]
    inputs = [floats("f4" if kind == "f32" else "f8") for _ in range(arity)]
    got = elementwise(opcode, [kind] * arity, inputs, kind)
    with np.errstate(all="ignore"):
        want = np.asarray(model(*inputs), inputs[0].dtype)
    zero = (want == 0) if opcode.startswith("min") else np.zeros(COUNT, bool)
    same(got[~zero], want[~zero])
    assert (got[zero] == 0).all()


def test_extremes_of_magnitudes() -> None:
    a, b, c = (RNG.standard_normal(COUNT).astype("f4") for _ in range(3))
    got = elementwise("min.xorsign.abs.f32", ["f32"] * 2, [a, b], "f32")
    same(got, np.copysign(np.minimum(np.abs(a), np.abs(b)), a * b))
    got = elementwise("max.abs.f32", ["f32"] * 3, [a, b, c], "f32")
    same(got, np.max(np.abs([a, b, c]), axis=0))


@pytest.mark.parametrize(
    ("opcode", "model", "ulps"),
    [
        # Largest errors by the PTX manual: 2^-22.x relative or absolute, or 1-2 ulp.
        ("rcp.approx.f32", lambda x: 1 / x, 1),
        ("sqrt.approx.f32", np.sqrt, 2),
        ("rsqrt.approx.f32", lambda x: 1 / np.sqrt(x), 2),
        ("ex2.approx.f32", np.exp2, 2),
        ("lg2.approx.f32", np.log2, 4),
        ("sin.approx.f32", np.sin, 8),
    ],
)
def test_approximations(opcode: str, model: Callable[[np.ndarray], np.ndarray], ulps: int) -> None:
    x = RNG.uniform(0.1, 3, COUNT).astype("f4")
    got = elementwise(opcode, ["f32"], [x], "f32").astype("f8")
    want = model(x.astype("f8"))
    assert (np.abs(got - want) <= ulps * np.maximum(np.abs(want), 2.0**-20) * 2.0**-23).all()


def test_float_to_integer_and_back() -> None:
    x = floats()
    x[:6] = [np.nan, np.inf, -np.inf, 3e9, -3e9, 0.5]
    got = elementwise("cvt.rzi.s32.f32", ["f32"], [x], "u32").view("i4")
    with np.errstate(all="ignore"):
        clipped = np.clip(np.trunc(x.astype("f8")), -(2**31), 2**31 - 1)
    want = np.where(np.isnan(x), 0, clipped).astype("i8")
    assert np.array_equal(got, want)
    nearest = elementwise("cvt.rni.s32.f32", ["f32"], [x], "u32").view("i4")
    with np.errstate(all="ignore"):
        clipped = np.clip(np.rint(x.astype("f8")), -(2**31), 2**31 - 1)
    assert np.array_equal(nearest, np.where(np.isnan(x), 0, clipped).astype("i8"))
    n = words("u4").view("i4")
    assert np.array_equal(
        elementwise("cvt.rn.f32.s32", ["u32"], [n.view("u4")], "f32"), n.astype("f4")
    )
    for mode, towards in (("rz", 0.0), ("rm", -math.inf), ("rp", math.inf)):
        got = elementwise(f"cvt.{mode}.f32.s32", ["u32"], [n.view("u4")], "f32").astype("f8")
        error = got - n
        assert {"rz": (np.abs(got) <= np.abs(n.astype("f8"))).all(), "rm": (error <= 0).all(),
                "rp": (error >= 0).all()}[mode], towards  # fmt: skip


def test_half_precision() -> None:
    a, b = words("u2"), words("u2")
    with np.errstate(all="ignore"):
        want = (a.view("f2").astype("f4") * b.view("f2").astype("f4")).astype("f2")
    got = elementwise("mul.rn.f16", ["u16", "u16"], [a, b], "u16")
    nan = np.isnan(want)
    assert np.array_equal(got[~nan], want.view("u2")[~nan]) and (got[nan] == 0x7FFF).all()
    x = floats()
    with np.errstate(all="ignore"):
        half = x.astype("f2")
    got = elementwise("cvt.rn.f16.f32", ["f32"], [x], "u16")
    nan = np.isnan(x)
    assert np.array_equal(got[~nan], half.view("u2")[~nan])


def test_bfloat16_rounds_to_nearest_even() -> None:
    x = floats()
    got = elementwise("cvt.rn.bf16.f32", ["f32"], [x], "u16")
    for value, bits in zip(x.tolist(), got.tolist(), strict=True):
        if math.isnan(value):
            assert bits == 0x7FFF
            continue
        raw = int(struct.unpack("<I", struct.pack("<f", value))[0])
        low = raw & 0xFFFF
        up = raw >> 16
        assert bits == up + (low > 0x8000 or (low == 0x8000 and up & 1))


def test_flush_to_zero_and_saturation() -> None:
    x = np.array([1e-40, -1e-40, 0.5, 2.0, -3.0, np.nan, 1e-38], "f4")
    one = np.ones_like(x)
    flushed = elementwise("mul.ftz.f32", ["f32", "f32"], [x, one], "f32")
    assert flushed[:2].view("u4").tolist() == [0, 0x80000000] and flushed[2] == 0.5
    assert elementwise("mul.sat.f32", ["f32", "f32"], [x, one], "f32").tolist()[2:6] == [
        0.5,
        1,
        0,
        0,
    ]


def test_the_place_of_a_bit() -> None:
    count = 4096
    mask = RNG.integers(0, 1 << 32, count).astype("u4")
    mask[:64] = [0, 0xFFFFFFFF, 0xAAAAAAAA, 1 << 31] * 16
    base = RNG.integers(0, 32, count).astype("u4")
    offset = RNG.integers(-8, 9, count).astype("i4")

    def place(bits: int, start: int, steps: int) -> int:
        """As the manual has it."""
        if steps == 0:
            return start if bits >> start & 1 else -1
        way = range(start, 32) if steps > 0 else range(start, -1, -1)
        found = [at for at in way if bits >> at & 1]
        return found[abs(steps) - 1] if len(found) >= abs(steps) else -1

    got = elementwise("fns.b32", ["u32", "u32", "s32"], [mask, base, offset], "s32")
    columns = (each.tolist() for each in (mask, base, offset))
    assert got.tolist() == [place(*each) for each in zip(*columns, strict=True)]


def test_a_policy_of_the_cache_changes_nothing(cuda: Compile) -> None:
    text = """extern "C" __global__ void k(const float* x, float* y) {
      unsigned long long policy; float v;
      asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
      asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;"
        : "=f"(v) : "l"(x + threadIdx.x), "l"(policy));
      asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;"
        :: "l"(y + threadIdx.x), "f"(v), "l"(policy) : "memory");
    }"""
    x = RNG.standard_normal(32).astype("f4")
    got, _ = execute(cuda(text), "k", {"x": x, "y": np.zeros(32, "f4")}, ["x", "y"])
    assert np.array_equal(got["y"], x)
