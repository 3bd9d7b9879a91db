"""The documentation's table of what is refused, against what is."""

from __future__ import annotations

import re
import resource
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from ptxemu.compiled import OPCODES
from ptxemu.errors import LaunchError, PtxError, ResourceError, Unsupported
from ptxemu.launch import KernelLaunch
from ptxemu.ptx.parser import parse
from tests.ptxemu.conftest import HEADER, execute

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "emulator.md"
#: Every opcode of the manual: PTX ISA 9.0, "Instruction Set", without modifiers.
_NAMES = (
    "abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra "
    "brev brkpt brx call clusterlaunchcontrol clz cnot copysign cos cp createpolicy cvt cvta "
    "discard div dp2a dp4a elect ex2 exit fence fma fns getctarank griddepcontrol isspacep "
    "istypep ld ldmatrix ldu lg2 lop3 mad mad24 madc mapa match max mbarrier membar min mma "
    "mov movmatrix mul mul24 multimem nanosleep neg not or pmevent popc prefetch prefetchu "
    "prmt rcp red redux rem ret rsqrt sad selp set setmaxnreg setp shf shfl shl shr sin slct "
    "sqrt st stackrestore stacksave stmatrix sub subc suld suq sured sust szext tanh tcgen05 "
    "tensormap testp tex tld4 trap txq vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 "
    "vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vote vset vset2 vset4 vshl vshr vsub vsub2 "
    "vsub4 wgmma wmma xor "
)
ISA = frozenset(_NAMES.split())


def rows() -> list[tuple[str, str]]:
    """The table's first two cells."""
    text = DOCUMENT.read_text(encoding="utf-8").partition("### What it refuses")[2]
    found = re.findall(r"^\| (.+?) \| (`.+?`) \| ", text, re.MULTILINE)
    assert len(found) > 10
    return found


def examples() -> list[str]:
    return [code for _, cell in rows() for code in re.findall(r"`([^`]+)`", cell)]


def refused() -> set[str]:
    """Opcodes of which no form runs, as the table says."""
    return {
        word
        for cell, _ in rows()
        if not cell.startswith("special")
        for word in re.findall(r"`([^`]+)`", re.sub(r"forms of .*", "", cell))
        if "." not in word
    }


def test_every_opcode_runs_or_is_said_to_be_refused() -> None:
    lacking = ISA - OPCODES
    assert refused() == lacking
    assert not OPCODES - ISA - {"printf", "malloc", "free"}, (
        "the manual's list above lacks an opcode"
    )


@pytest.mark.parametrize("code", examples())
def test_what_the_table_names_is_refused(code: str) -> None:
    text = f"""{HEADER}
.file 1 "k.cu"
.visible .entry k(.param .u64 p)
{{
    .reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<8>; .reg .f32 %f<8>; .reg .b64 %rd<8>;
    .loc 1 7 0
    ld.param.u64 %rd1, [p];
    .loc 1 8 0
    {code}
    ret;
}}
"""
    with pytest.raises(Unsupported) as caught:
        execute(parse(text), "k", {"p": np.zeros(64, np.uint32)}, ["p"])
    message = caught.value.message
    special = re.search(r"mov\.\w+ %\w+, (%\w+);", code)
    if special:
        assert message == f"kernel k: the emulator does not know {special[1]}"
    else:
        assert message.startswith("k.cu:8: kernel k: the emulator does not support `"), message
        assert code in message
    assert caught.value.hint


#: Forms of textures and surfaces besides those of the table, and how they are declared.
_TEXTURES = (
    "tex.2d.v4.s32.s32 {%r1,%r2,%r3,%r4}, [t, s, {%r1,%r2}];",
    "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}|%p1, [%rd1, {%f1,%f2}];",
    "tex.level.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [t, s, {%f1,%f2}], %f5, {%r1,%r2};",
    "tex.grad.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [t, {%f1,%f2}], {%f1,%f2}, {%f3,%f4};",
    "tld4.r.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [t, s, {%f1,%f2}];",
    "txq.level.width.b32 %r1, [t], %r2;",
    "suq.height.b32 %r1, [%rd1];",
    "suld.b.2d.v2.b32.trap {%r1,%r2}, [su, {%r1,%r2}];",
    "sust.p.2d.v4.b32.trap [su, {%r1,%r2}], {%f1,%f2,%f3,%f4};",
    "sured.b.add.2d.u32.trap [su, {%r1,%r2}], %r3;",
)
_DECLARED = (
    ".global .texref t;\n.global .samplerref s;\n.global .surfref su;",
    ".global .texref t = { width = 4, normalized_coords = 1 };\n.global .surfref su;\n"
    ".global .samplerref s = { addr_mode_0 = clamp_to_border, filter_mode = nearest };",
    ".tex .u32 t;\n.global .samplerref s;\n.global .surfref su;",
)


@pytest.mark.parametrize("declared", _DECLARED)
@pytest.mark.parametrize("code", _TEXTURES)
def test_textures_and_surfaces_are_refused_by_instruction_and_line(
    code: str, declared: str
) -> None:
    text = f"""{HEADER}
.file 1 "k.cu"
{declared}
.visible .entry k(.param .u64 p, .param .texref q)
{{
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .f32 %f<8>; .reg .b64 %rd<8>;
    .loc 1 8 0
    {code}
    ret;
}}
"""
    with pytest.raises(
        Unsupported, match=r"k\.cu:8: kernel k: the emulator does not supp"
    ) as caught:
        execute(parse(text), "k", {"p": np.zeros(64, np.uint32)}, ["p", "p"])
    assert code in caught.value.message
    assert "damaged" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize("grid", [(2**31 - 1, 1, 1), (1 << 20, 65535, 1)])
def test_a_grid_beyond_all_bounds_is_answered_before_it_takes_memory(
    grid: tuple[int, int, int],
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ResourceError, match=r"kernel k: a grid of [\d,]+ blocks") as caught:
            KernelLaunch("k", grid, (1, 1, 1), [])
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert "on a GPU" in caught.value.hint


def test_a_variable_of_another_module_is_no_damage() -> None:
    with pytest.raises(PtxError, match="x is defined in another module") as caught:
        parse(f"{HEADER}.extern .global .u32 x;\n")
    assert "define it there" in caught.value.hint


HUGE = {
    "global": (".global .align 4 .b8 big[4398046511104];", "", ResourceError, r"big has 4,398,0"),
    "more than addresses": (
        ".global .align 4 .b8 big[999999999999999999];", "", PtxError, "exceeds what a GPU",
    ),
    "const": (".const .align 4 .b8 big[4398046511104];", "", ResourceError, r"big has 4,398,0"),
    "local": ("", ".local .align 4 .b8 big[4398046511104];", LaunchError, "of local memory"),
    "shared": (".shared .align 4 .b8 big[4398046511104];", "", LaunchError, "of shared memory"),
}  # fmt: skip


@pytest.mark.parametrize("name", HUGE)
def test_what_is_declared_too_large_is_refused_before_it_is_allocated(name: str) -> None:
    outside, inside, error, told = HUGE[name]
    use = "mov.u64 %rd1, big;" if name == "shared" else ""
    text = f"{HEADER}{outside}\n.visible .entry k() {{ {inside} .reg .b64 %rd<2>; {use} ret; }}\n"
    tracemalloc.start()
    try:
        with pytest.raises(error, match=told):
            execute(parse(text), "k", {}, [])
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def test_a_variable_that_holds_nothing_takes_no_memory() -> None:
    text = f"{HEADER}.global .align 4 .b8 big[268435456];\n.visible .entry k() {{ ret; }}\n"
    tracemalloc.start()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    execute(parse(text), "k", {}, [])
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # KiB


def test_parameters_are_as_many_as_a_chip_takes() -> None:
    text = ".visible .entry k(.param .align 4 .b8 x[{}]) {{ ret; }}\n"
    execute(parse(HEADER + text.format(32_764)), "k", {}, [bytes(32_764)])
    with pytest.raises(LaunchError, match="1,000,000,000 bytes of parameters"):
        execute(parse(HEADER + text.format(10**9)), "k", {}, [b""])


def test_threads_with_much_memory_of_their_own_run_in_smaller_batches() -> None:
    local = ".local .align 4 .b8 mine[262144];"
    text = f"{HEADER}.visible .entry k() {{ {local} .reg .b64 %rd<2>; mov.u64 %rd1, mine; ret; }}\n"
    tracemalloc.start()
    try:
        execute(parse(text), "k", {}, [], grid=256)
        assert tracemalloc.get_traced_memory()[1] < 3 << 29  # 2 GiB where all run together
    finally:
        tracemalloc.stop()
