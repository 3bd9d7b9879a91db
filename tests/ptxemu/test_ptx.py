"""The PTX parser."""

from __future__ import annotations

import numpy as np
import pytest

import ptxemu
from ptxemu.errors import EmulatorError, PtxError, Unsupported
from ptxemu.ptx.inlining import flatten
from ptxemu.ptx.instructions import Addr, Imm, Instr, Label, Pair, Reg, Sym, Vec
from ptxemu.ptx.parser import parse
from tests.ptxemu.conftest import HEADER

BODY = (
    HEADER
    + """
.file 1 "kernels/demo/v0.cu"
.file 2 "kernels/demo/part.cuh"
.const .align 4 .b8 table[8] = {1, 0, 0, 0, 255, 0, 0, 0};
.visible .entry k(.param .u64 .ptr .global .align 4 p, .param .u32 n)
.maxntid 256, 1, 1
{
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .f32 %f<5>; .reg .b64 %rd<4>;
  .shared .align 16 .b8 tile[1024];
  .loc 1 7 3
  ld.param.u64 %rd1, [p];
$L_top:
  .loc 2 20 5, function_name $L__info_string0, inlined_at 1 9 2
  setp.lt.and.s32 %p1|%p2, %r1, -5, !%p0;
  @!%p1 bra $L_top;
  .loc 1 0 0
  ld.global.v4.f32 {%f1, %f2, _, %f4}, [%rd1+-16]; // trailing words
  mov.f32 %f1, 0f3F800000;
  mov.b32 %r1, 0x1Fu; /* not hexadecimal u */
  // begin inline asm
  { .reg .b32 t; mov.b32 t, 7; add.s32 %r2, t, t; }
  { .reg .b32 t; mov.b32 t, 9; }
  ret;
}
.section .debug_str
{
$L__info_string0:
.b8 95,90
}
"""
).replace("0x1Fu", "0x1F")


def instrs(text: str) -> list[Instr]:
    return [item for item in parse(text).functions["k"].body if isinstance(item, Instr)]


def test_operands_have_types() -> None:
    found = {instr.text: instr for instr in instrs(BODY)}
    load = next(i for t, i in found.items() if "v4" in t)
    assert load.operands[0] == Vec((Reg("%f1"), Reg("%f2"), Reg("_"), Reg("%f4")))
    assert load.operands[1] == Addr(Reg("%rd1"), -16)
    compare = next(i for i in found.values() if i.op == "setp")
    assert compare.operands == (
        Pair(Reg("%p1"), Reg("%p2")), Reg("%r1"), Imm(-5), Reg("%p0", negated=True),
    )  # fmt: skip
    jump = next(i for i in found.values() if i.op == "bra")
    assert jump.guard == Reg("%p1", negated=True)
    one = next(i for i in found.values() if "0f3F" in i.text)
    assert one.operands[1] == Imm(0x3F800000, 4)


def test_lines_follow_loc_and_line_zero_keeps_the_line_before() -> None:
    module = parse(BODY)
    found = instrs(BODY)
    assert module.where(found[0].loc) == "kernels/demo/v0.cu:7"
    assert (found[1].loc.file, found[1].loc.line) == (2, 20)
    assert (found[3].loc.file, found[3].loc.line) == (2, 20)


def test_what_a_header_does_belongs_to_its_caller() -> None:
    header = BODY.replace("kernels/demo/part.cuh", "/usr/include/helpers.h")
    assert header != BODY
    own, outside = instrs(BODY)[1].loc, instrs(header)[1].loc
    assert own.home == (2, 20) and outside.home == (1, 9)
    assert parse(BODY).where(own) == "kernels/demo/part.cuh:20"
    assert parse(header).where(outside) == "kernels/demo/v0.cu:9 (in /usr/include/helpers.h:20)"


def test_nested_scopes_do_not_share_their_registers() -> None:
    first, second = (i for i in instrs(BODY) if i.op == "mov" and i.operands[1] in (Imm(7), Imm(9)))
    assert first.operands[0] != second.operands[0]


def test_variables_and_directives() -> None:
    module = parse(BODY)
    assert module.variables["table"].init == bytes([1, 0, 0, 0, 255, 0, 0, 0])
    kernel = module.functions["k"]
    assert kernel.directives["maxntid"] == (256, 1, 1)
    assert (kernel.variables[0].space, kernel.variables[0].size) == ("shared", 1024)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEADER + ".visible .entry k() { add.s32 %r1, %r2 %r3; }", "line 4"),
        (HEADER + ".visible .entry k() { mov.b32 %r1, ", "PTX line 4"),
        (HEADER + "\n\x01", "line 5"),
        (HEADER + ".nonsense", "unknown directive"),
    ],
)
def test_damage_is_an_error_with_a_place(text: str, words: str) -> None:
    with pytest.raises(PtxError, match=words):
        parse(text)


GOOD = (
    HEADER
    + """
.visible .entry k(.param .u64 p)
{
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  .shared .align 4 .b8 s[16]; .shared .u32 one;
  ld.param.u64 %rd1, [p]; // a } that closes nothing
  mov.u32 %r1, 5; /* nor does { this } } */
  st.global.u32 [%rd1], %r1;
  ret;
}
.section .debug_str { info: .b8 123, 125 }
.visible .entry other() .maxntid 64, 2, 1 { .reg .b32 %r<2>; nonsense }
"""
)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("[p];", "[p+%f1];"),
        (".align 4", ".align %r1"),
        ("s[16]", "s[1.5]"),
        ("s[16]", "s[0f7FC00000]"),
        ("%r<4>", "%r<%laneid>"),
        (".reg .b32 %r<4>", ".reg .32 %r<4>"),
        ("%r<4>", "%r<18446744073709551616>"),
        ("mov.u32 %r1, 5;", "mov.u32 %r1, 5"),
        (".param .u64 p", ".param .align -8 .u64 p[-]"),
    ],
)
def test_damage_says_that_the_ptx_is_damaged(good: str, bad: str) -> None:
    text = GOOD.replace("nonsense", "ret;")
    assert good in text
    with pytest.raises(EmulatorError):
        flatten(parse(text.replace(good, bad, 1)), "k")
    assert flatten(parse(text), "k").body


def test_a_body_is_read_when_it_is_needed() -> None:
    with pytest.raises(PtxError, match="PTX line 15"):
        ptxemu.load(GOOD)
    module = ptxemu.load(GOOD, lazy=True)
    assert module.kernels == ("k", "other")
    assert (module.parameters("k"), module.parameters("other")) == (((0, 8),), ())
    assert (module.threads("k"), module.threads("other")) == (1024, 128)
    assert (module.static_shared("k"), module.static_shared("other")) == (20, 0)
    out = module.kernel("k").run(1, 1, [np.zeros(4, np.int32)]).outputs
    assert out["arg0"].tolist() == [5, 0, 0, 0]
    for _ in range(2):
        with pytest.raises(PtxError, match="PTX line 15"):
            module.kernel("other").run(1, 1, [])


CALLS = (
    HEADER
    + """
.func (.param .b32 out) twice(.param .b32 x)
{ .reg .b32 %r<3>; ld.param.b32 %r1, [x]; add.s32 %r2, %r1, %r1; st.param.b32 [out], %r2; ret; }
.visible .entry k(.param .u64 p)
{
  .reg .b32 %r<5>;
  mov.b32 %r1, 21;
  { .reg .b32 temp; .param .b32 a; st.param.b32 [a], %r1; .param .b32 b;
    call.uni (b), twice, (a); ld.param.b32 %r2, [b]; }
  ret;
}
"""
)


def test_calls_are_inlined() -> None:
    flat = flatten(parse(CALLS), "k")
    texts = [item.op for item in flat.body if isinstance(item, Instr)]
    assert "call" not in texts and texts.count("add") == 1
    (add,) = (item for item in flat.body if isinstance(item, Instr) and item.op == "add")
    assert add.operands[1] != Reg("%r1")  # the callee's registers are its own


def test_unknown_functions_are_refused() -> None:
    with pytest.raises(Unsupported, match="cannot call thrice"):
        flatten(parse(CALLS.replace("(b), twice", "(b), thrice")), "k")
    with pytest.raises(PtxError, match="no kernel 'missing'"):
        flatten(parse(CALLS), "missing")


def test_labels_in_braces_are_their_own() -> None:
    """Inline assembly that is inlined twice has the same labels twice."""
    wait = "{ .reg .pred P; W: setp.eq.s32 P, %r1, 0; @P bra D; bra W; D: }"
    text = HEADER + f".visible .entry k() {{ .reg .b32 %r<2>; {wait} {wait} ret; }}"
    body = parse(text).functions["k"].body
    labels = [item.name for item in body if isinstance(item, Label)]
    assert len(labels) == len(set(labels)) == 4
    jumps = [i.operands[0] for i in body if isinstance(i, Instr) and i.op == "bra"]
    assert jumps == [Sym(labels[n]) for n in (1, 0, 3, 2)]


def test_a_tensor_map_comes_with_coordinates() -> None:
    text = (
        HEADER
        + """.visible .entry k() { .reg .b64 %rd<2>; .reg .b32 %r<4>;
      cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
        [%r1], [%rd1, {%r2, 7}], [%r3]; ret; }"""
    )
    copy = parse(text).functions["k"].body[0]
    assert isinstance(copy, Instr)
    assert copy.operands == (
        Addr(Reg("%r1")), Vec((Addr(Reg("%rd1")), Vec((Reg("%r2"), Imm(7))))), Addr(Reg("%r3")),
    )  # fmt: skip
