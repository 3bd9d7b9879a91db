"""Calls that cannot be inlined: recursion, and pointers to functions."""

from __future__ import annotations

import numpy as np
import pytest

from ptxemu.errors import Fault
from ptxemu.ptx.parser import parse
from tests.ptxemu.conftest import HEADER, Compile, execute, scalar

RECURSION = """
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

__device__ __noinline__ int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

__device__ bool odd(unsigned n);
__device__ __noinline__ bool even(unsigned n) { return n == 0 ? true : odd(n - 1); }
__device__ __noinline__ bool odd(unsigned n) { return n == 0 ? false : even(n - 1); }

// Sums over all ways to split n: a loop around the call, doubles, an array of its own.
__device__ __noinline__ double splits(int n, double* above) {
    double own[4] = {0, 1, 2, 3};
    for (int first = 1; first < n; ++first) {
        double more = splits(n - first, own);
        own[first & 3] += more;
        if (above) above[n & 3] += first;
    }
    return own[0] + 2 * own[1] + 3 * own[2] + 5 * own[3];
}

extern "C" __global__ void whole(int* out) {
    int t = threadIdx.x;
    if (t % 4 == 0) out[t] = fib(t % 13);
    else if (t % 4 == 1) out[t] = ackermann(2, t % 5) * 100 + t;
    else if (t % 4 == 2) out[t] = even(t) + 2 * odd(t);
    else out[t] = fib(fib(t % 7));
}

extern "C" __global__ void wide(double* out) { out[threadIdx.x] = splits(threadIdx.x % 8, 0); }

__device__ __noinline__ int endless(int n) {
    return n == -1 ? 0 : 1 + endless(n + 1) * 3;
}
extern "C" __global__ void deep(int* out) { out[threadIdx.x] = endless(threadIdx.x); }
"""


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def ackermann(m: int, n: int) -> int:
    if m == 0:
        return n + 1
    return ackermann(m - 1, 1 if n == 0 else ackermann(m, n - 1))


def splits(n: int, above: list[float] | None) -> float:
    own = [0.0, 1.0, 2.0, 3.0]
    for first in range(1, n):
        more = splits(n - first, own)
        own[first & 3] += more
        if above is not None:
            above[n & 3] += first
    return own[0] + 2 * own[1] + 3 * own[2] + 5 * own[3]


@pytest.mark.nvcc
def test_recursion_of_every_kind_in_one_warp(cuda: Compile) -> None:
    out = np.zeros(64, np.int32)
    got, _ = execute(cuda(RECURSION), "whole", {"out": out}, ["out"], block=64, limit=10**6)
    want = [
        (fib(t % 13), ackermann(2, t % 5) * 100 + t, 1 + t % 2, fib(fib(t % 7)))[t % 4]
        for t in range(64)
    ]
    assert got["out"].tolist() == want


@pytest.mark.nvcc
def test_frames_hold_arrays_loops_and_doubles(cuda: Compile) -> None:
    out = np.zeros(32)
    got, _ = execute(cuda(RECURSION), "wide", {"out": out}, ["out"], limit=10**6)
    assert got["out"].tolist() == [splits(t % 8, None) for t in range(32)]


@pytest.mark.nvcc
def test_a_recursion_without_end_is_named_with_its_line(cuda: Compile) -> None:
    out = np.zeros(32, np.int32)
    line = RECURSION.split("\n").index("    return n == -1 ? 0 : 1 + endless(n + 1) * 3;") + 1
    said = rf"k\.cu:{line}: the stack overflowed in thread"
    with pytest.raises(Fault, match=said) as caught:
        execute(cuda(RECURSION), "deep", {"out": out}, ["out"], limit=10**6)
    assert "8,192 bytes of frames" in caught.value.hint


POINTERS = """
typedef float (*Op)(float, float);
__device__ float plus(float a, float b) { return a + b; }
__device__ float times(float a, float b) { return a * b; }
__device__ float power(float a, float b);
__device__ double other(double a, double b) { return a / b; }
__device__ Op table[4] = {plus, times, power, 0};
__device__ double (*pairs[1])(double, double) = {other};
__device__ float power(float a, float b) {
    return b < 1 ? 1.0f : table[1](a, table[2](a, b - 1));  // recursion through a pointer
}

extern "C" __global__ void choose(float* out, const int* which) {
    int t = threadIdx.x;
    out[t] = table[which[t]](out[t], 3.0f);
}
extern "C" __global__ void doubles(double* out) {
    out[threadIdx.x] = pairs[0](1.0, out[threadIdx.x]);
}

struct Shape { __device__ virtual float area(float x) const = 0; };
struct Square : Shape { __device__ float area(float x) const override { return x * x; } };
struct Disc : Shape {
    float pi;
    __device__ Disc(float p) : pi(p) {}
    __device__ float area(float x) const override { return pi * x * x; }
};
extern "C" __global__ void virtually(float* out) {
    Square square; Disc disc(3.0f);
    const Shape* shape = threadIdx.x % 3 ? (const Shape*)&square : (const Shape*)&disc;
    out[threadIdx.x] = shape->area(out[threadIdx.x]);
}
"""


@pytest.mark.nvcc
def test_a_table_of_functions(cuda: Compile) -> None:
    out = np.arange(64, dtype=np.float32) / 2
    which = np.arange(64, dtype=np.int32) % 3
    got, _ = execute(cuda(POINTERS), "choose", {"out": out, "which": which}, ["out", "which"],
                     block=64)  # fmt: skip
    want = np.select([which == 0, which == 1], [out + 3, out * 3], out * out * out)
    np.testing.assert_array_equal(got["out"], want)
    got, _ = execute(cuda(POINTERS), "doubles", {"out": np.arange(1.0, 33.0)}, ["out"])
    np.testing.assert_array_equal(got["out"], 1 / np.arange(1.0, 33.0))


@pytest.mark.nvcc
def test_virtual_functions(cuda: Compile) -> None:
    out = np.arange(32, dtype=np.float32)
    got, _ = execute(cuda(POINTERS), "virtually", {"out": out}, ["out"])
    np.testing.assert_array_equal(got["out"], np.where(np.arange(32) % 3, 1, 3) * out * out)


@pytest.mark.nvcc
def test_a_pointer_that_is_no_function(cuda: Compile) -> None:
    which = np.where(np.arange(32) == 5, 3, 0).astype(np.int32)
    out = np.zeros(32, np.float32)
    said = r"k\.cu:15: a call through a pointer that does not lead to .* in thread \(5, 0, 0\)"
    with pytest.raises(Fault, match=said):
        execute(cuda(POINTERS), "choose", {"out": out, "which": which}, ["out", "which"])


def test_a_guarded_call_is_made_by_those_who_pass() -> None:
    text = f"""{HEADER}
.func (.param .b32 back) twice(.param .b32 x)
{{
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [x];
    add.u32 %r2, %r1, %r1;
    st.param.b32 [back+0], %r2;
    ret;
}}
.visible .entry k(.param .u64 p, .param .u32 most)
{{
    .reg .pred %p1; .reg .b32 %r<5>; .reg .b64 %rd<4>;
    .param .b32 x; .param .b32 y;
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r3, [most];
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, %r3;
    st.param.b32 [x+0], %r1;
    st.param.b32 [y+0], %r3;
    @%p1 call (y), twice, (x);
    ld.param.b32 %r2, [y+0];
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r2;
    ret;
}}
"""
    got, _ = execute(parse(text), "k", {"p": np.zeros(32, np.uint32)}, ["p", scalar(5, "uint")])
    assert got["p"].tolist() == [2 * t if t < 5 else 5 for t in range(32)]


def test_registers_of_a_call_may_be_wider_than_its_parameters() -> None:
    # nvcc writes `ld.param.u32 %rd2` of a function that it does not inline; ptxas takes it.
    text = f"""{HEADER}
.func (.param .b64 back) f(.param .b32 x, .param .b32 y, .param .b64 z)
{{
    .reg .b64 %rd<8>;
    ld.param.u32 %rd1, [x];
    ld.param.s32 %rd2, [y];
    ld.param.u32 %rd3, [z];
    add.s64 %rd4, %rd1, %rd2;
    add.s64 %rd5, %rd4, %rd3;
    st.param.b64 [back+0], %rd5;
    ret;
}}
.visible .entry k(.param .u64 p)
{{
    .reg .b32 %r<5>; .reg .b64 %rd<8>;
    .param .b32 x; .param .b32 y; .param .b64 z; .param .b64 back;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    neg.s32 %r2, %r1;
    mov.u64 %rd4, 0x500000007;
    cvt.s64.s32 %rd5, %r2;
    st.param.b32 [x+0], %r2;
    st.param.b32 [y+0], %rd5;
    st.param.b64 [z+0], %rd4;
    call (back), f, (x, y, z);
    ld.param.b64 %rd6, [back+0];
    mul.wide.u32 %rd2, %r1, 8;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u64 [%rd3], %rd6;
    ret;
}}
"""
    got, _ = execute(parse(text), "k", {"p": np.zeros(32, np.int64)}, ["p"])
    assert got["p"].tolist() == [(-t) % 2**32 - t + 7 for t in range(32)]


@pytest.mark.nvcc
@pytest.mark.parametrize("calls", ["pow(x[i], 2.5)", "pow(x[i], 2.5) + pow(x[i] + 1, 1.5)"])
def test_machine_instructions_of_a_routine_are_counted(cuda: Compile, calls: str) -> None:
    text = f"""extern "C" __global__ void k(const double* x, double* y) {{
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      y[i] = {calls};
    }}"""
    module = cuda(text)
    x = np.random.default_rng(38).random(1024) + 0.5
    got, counts = execute(module, "k", {"x": x, "y": np.zeros(1024)}, ["x", "y"], grid=4, block=256)
    want = x**2.5 + (0 if calls.count("pow") == 1 else (x + 1) ** 1.5)
    assert np.allclose(got["y"], want)
    code = counts.machine_code()
    assert code is not None
    # Nearly all that is there is run: once, and the routine, of some 170 instructions, each time.
    stands = len(module.assembled.functions["k"])
    once = code.total / 32
    assert 0.75 * stands < once - 170 * (calls.count("pow") - 1) < stands
