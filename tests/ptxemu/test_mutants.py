"""Damaged kernels: whatever is done to the PTX, an answer with a line comes, and soon."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ptxemu.errors import Fault, PtxError, Unsupported
from ptxemu.ops import moves
from ptxemu.ptx.parser import parse
from ptxemu.state.context import Registers
from ptxemu.state.lanes import Mask
from tests.ptxemu.conftest import HEADER, execute


def kernel(body: str) -> str:
    return (
        f'{HEADER}.file 1 "k.cu"\n.visible .entry k(.param .u64 x)\n{{\n'
        ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;\n"
        f".loc 1 7 1\nld.param.u64 %rd1, [x];\n.loc 1 8 1\n{body}\nret;\n}}\n"
    )


UNWRITTEN = {
    "stored": ("st.global.u32 [%rd1], %r3;", r"%r3"),
    "added": ("add.s32 %r1, %r2, 1; st.global.u32 [%rd1], %r1;", r"%r2"),
    "multiplied": (
        ".reg .f32 %f<4>; mov.f32 %f1, 0f3F800000; fma.rn.f32 %f2, %f1, %f3, %f1; "
        "st.global.f32 [%rd1], %f2;", r"%f3",
    ),
    "an address": ("ld.global.u32 %r1, [%rd5];", r"%rd5"),
    "a guard": ("@%p1 st.global.u32 [%rd1], 1;", r"%p1"),
    "a branch": ("@!%p2 bra L; mov.u32 %r1, 1;\nL:", r"%p2"),
    "an atomic": ("red.global.add.u32 [%rd1], %r4;", r"%r4"),
    "a choice by it": (
        "setp.lt.u32 %p1, %r2, 5; selp.u32 %r1, 1, 2, %p1; st.global.u32 [%rd1], %r1;", r"%r2",
    ),
    "a shuffle": ("shfl.sync.bfly.b32 %r1, %r6, 1, 31, -1; st.global.u32 [%rd1], %r1;", r"%r6"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNWRITTEN)
def test_a_register_that_nothing_writes_is_named_with_its_line(name: str) -> None:
    body, register = UNWRITTEN[name]
    with pytest.raises(
        Fault, match=rf"k\.cu:8: kernel k reads register {register}, which nothing has"
    ):
        execute(parse(kernel(body)), "k", {"x": np.zeros(64, "u4")}, ["x"])


@pytest.mark.parametrize("found", [0, 1])
def test_a_value_that_is_thrown_away_need_not_be_written(found: int) -> None:
    """``if (hit(ray, t) && t < best) best = t`` is one comparison, an ``and`` and a ``selp``."""
    body = f"""mov.u32 %r1, 7; mov.u32 %r2, {found}; setp.eq.u32 %p1, %r2, 0;
    @%p1 bra L; mov.u32 %r3, 3; L: setp.lt.u32 %p2, %r3, %r1; setp.ne.u32 %p1, %r2, 0;
    and.pred %p0, %p2, %p1; selp.u32 %r1, %r3, %r1, %p0; st.global.u32 [%rd1], %r1;"""
    got, _ = execute(parse(kernel(body)), "k", {"x": np.zeros(64, "u4")}, ["x"])
    assert got["x"][0] == (3 if found else 7)


def test_a_register_that_some_threads_write_is_read_by_them() -> None:
    body = """mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 5; mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2; @%p1 mov.u32 %r2, 9; @%p1 st.global.u32 [%rd3], %r2;"""
    got, _ = execute(parse(kernel(body)), "k", {"x": np.zeros(32, "u4")}, ["x"])
    assert got["x"].tolist() == [9] * 5 + [0] * 27


REFUSED = {
    "too few operands": ("add.s32 %r1, %r2;", "it has 2 operands, and add takes 3"),
    "no address": ("ld.global.u32 %r1, %rd1;", "operand 2 is not an address"),
    "an address": ("add.s64 %rd2, [%rd1], 4;", "operand 2 is an address"),
    "a number written": ("mov.u32 5, %r1;", "its result is not a register"),
    "a narrow register": ("add.s64 %rd2, %r1, 4;", "%r1 has 32 bits, not 64"),
    "a predicate as a number": ("add.s32 %r1, %p1, 4;", "%p1 is a predicate"),
    "a number as a predicate": ("selp.b32 %r1, 1, 2, %r3;", "%r3 is not a predicate"),
    "a guard": ("@%r1 mov.u32 %r2, 1;", "its guard %r1 is not a predicate"),
    "a branch to a register": ("bra %r1;", "it has no label"),
    "a product as wide as its factors": ("mul.wide.s32 %r1, %r2, 4;", "%r1 has 32 bits, not 64"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_ptxas_would_refuse_is_refused(name: str) -> None:
    body, words = REFUSED[name]
    with pytest.raises(
        PtxError, match=rf"k\.cu:8: kernel k: `.*` is not valid PTX: {re.escape(words)}"
    ):
        execute(parse(kernel(body)), "k", {"x": np.zeros(4, "u4")}, ["x"])


def test_what_fails_inside_of_the_emulator_is_told_with_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(R: Registers, M: Mask) -> None:
        raise ValueError("odd shapes")

    monkeypatch.setitem(moves.BUILDERS, "popc", lambda instr, ctx: fail)
    words = r"cannot run `popc.*\(ValueError in test_mutants\.py:\d+: odd shapes\)"
    with pytest.raises(Unsupported, match=rf"k\.cu:8: kernel k: the emulator {words}") as raised:
        execute(parse(kernel("popc.b32 %r1, 7;")), "k", {"x": np.zeros(4, "u4")}, ["x"])
    assert "report it" in raised.value.hint
