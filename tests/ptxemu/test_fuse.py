"""Multiply-adds that run together do what they do one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxemu.compiled import fusable, fusable_runs
from ptxemu.ptx.flow import control_flow
from ptxemu.ptx.inlining import flatten
from ptxemu.ptx.instructions import Instr
from ptxemu.ptx.parser import parse
from tests.ptxemu.conftest import HEADER, execute

REGISTERS = ".reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .pred %p<4>;"


def instructions(body: str) -> list[Instr]:
    text = f"{HEADER}.visible .entry k(.param .u64 p)\n{{\n{REGISTERS}\n{body}\nret;\n}}"
    graph = control_flow(flatten(parse(text), "k"))
    return graph.blocks[0].instrs


def multiply_add(target: int, *operands: int) -> str:
    a, b, c = operands
    return f"fma.rn.f32 %f{target}, %f{a}, %f{b}, %f{c};"


lines = st.one_of(
    st.builds(multiply_add, *[st.integers(0, 8)] * 4),
    st.builds("add.f32 %f{}, %f{}, %f{};".format, *[st.integers(0, 8)] * 3),
    st.builds("mov.f32 %f{}, %f{};".format, *[st.integers(0, 8)] * 2),
    st.builds("@%p1 fma.rn.f32 %f{}, %f{}, %f{}, %f{};".format, *[st.integers(0, 8)] * 4),
)


def ordered(first: Instr, second: Instr) -> bool:
    """Whether the second needs, changes or overwrites what the first gives or takes."""
    takes, gives = set(first.reads), set(first.writes)
    uses, makes = set(second.reads), set(second.writes)
    return bool(uses & gives or makes & gives or makes & takes)


@given(st.lists(lines, max_size=12))
def test_nothing_passes_what_it_depends_on(body: list[str]) -> None:
    instrs = instructions("\n".join(body))
    entries = [each if isinstance(each, list) else [each] for each in fusable_runs(instrs)]
    order = [id(instr) for entry in entries for instr in entry]
    assert sorted(order) == sorted(map(id, instrs))
    at = {id(instr): n for n, entry in enumerate(entries) for instr in entry}
    for n, second in enumerate(instrs):
        for first in instrs[:n]:
            if ordered(first, second):
                assert at[id(first)] < at[id(second)], (first.text, second.text)
    assert all(fusable(instr) for entry in entries if len(entry) > 1 for instr in entry)


@pytest.mark.parametrize("everyone", [True, False])
def test_a_chain_and_a_tile_of_them_give_what_arithmetic_gives(everyone: bool) -> None:
    """In a branch that some lanes take, the others keep what they had."""
    skip = "" if everyone else "setp.lt.u32 %p1, %r1, 8; @%p1 bra after;"
    module = parse(
        HEADER
        + f""".visible .entry k(.param .u64 x, .param .u64 y)
        {{
        {REGISTERS}
        ld.param.u64 %rd1, [x];
        ld.param.u64 %rd2, [y];
        mov.u32 %r1, %tid.x;
        mul.wide.u32 %rd3, %r1, 4;
        add.s64 %rd4, %rd1, %rd3;
        add.s64 %rd5, %rd2, %rd3;
        ld.global.f32 %f1, [%rd4];
        mov.f32 %f2, 0f3F800000;
        mov.f32 %f3, 0f40000000;
        mov.f32 %f4, 0f40400000;
        {skip}
        fma.rn.f32 %f2, %f1, %f1, %f2;
        fma.rn.f32 %f3, %f1, %f1, %f3;
        fma.rn.f32 %f4, %f2, %f3, %f4;
        fma.rn.f32 %f2, %f3, %f3, %f1;
        after:
        add.f32 %f5, %f2, %f3;
        add.f32 %f5, %f5, %f4;
        st.global.f32 [%rd5], %f5;
        ret;
        }}""".replace("; @", ";\n@")
    )
    x = np.arange(32, dtype=np.float32)
    found, _ = execute(module, "k", {"x": x, "y": np.zeros(32, np.float32)}, ["x", "y"])
    f2, f3 = x * x + 1, x * x + 2
    expected = (f3 * f3 + x) + f3 + (f2 * f3 + 3)
    if not everyone:
        expected[:8] = 1 + 2 + 3
    assert found["y"].tolist() == expected.tolist()
