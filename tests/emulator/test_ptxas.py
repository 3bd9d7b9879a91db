"""The estimate of machine instructions: each habit of ptxas alone, and whole kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.emulator.conftest import HEADER, Compile, execute
from workbench.emulator.ptx.flow import control_flow, varying
from workbench.emulator.ptx.inlining import flatten
from workbench.emulator.ptx.instructions import Instr, Module
from workbench.emulator.ptx.parser import parse
from workbench.emulator.ptxas.constants import loads
from workbench.emulator.ptxas.divergence import fences
from workbench.emulator.ptxas.folding import Names, folded
from workbench.emulator.ptxas.predicates import spills
from workbench.emulator.ptxas.registers import copies, gathered, stored_literals, wide_literals
from workbench.emulator.ptxas.unrolling import Unrolled, unrolled
from workbench.emulator.ptxas.weights import Weights

REPO = Path(__file__).resolve().parent.parent.parent
PARAMS = ".param .u64 p, .param .u32 n, .param .u32 m"
REGISTER_LINES = ".reg .b64 %rd<20>; .reg .b32 %r<40>; .reg .f32 %f<20>; .reg .pred %p<40>;"


def module_of(body: str) -> Module:
    lines = body.replace(";", ";\n")  # one statement a line, as compilers write them
    return parse(f"{HEADER}.visible .entry k({PARAMS})\n{{\n{REGISTER_LINES}\n{lines}\n}}")


class Kernel:
    """A kernel in PTX, its blocks, and its instructions by their text."""

    def __init__(self, body: str) -> None:
        self.flat = flatten(module_of(body), "k")
        self.graph = control_flow(self.flat)
        self.blocks = [self.graph.blocks[index] for index in self.graph.order]

    def at(self, text: str) -> Instr:
        every = [each for block in self.blocks for each in [*block.instrs, block.last] if each]
        (found,) = (each for each in every if " ".join(each.text.split()).startswith(text))
        return found

    def weights(self, target: str = "sm_90") -> Weights:
        return Weights(self.graph, {}, self.flat.params, {}, target, self.flat.registers)

    def hosts(self) -> dict[int, int]:
        return self.weights().host


START = """
ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [m];
cvta.to.global.u64 %rd2, %rd1; mov.u32 %r3, %tid.x;
"""


# --- constants


def loaded(kernel: Kernel) -> list[str]:
    found = loads(kernel.graph, kernel.flat.params, kernel.hosts())
    return sorted(" ".join(each.text.split()) for each in found)


def test_each_predicated_block_loads_its_pointer() -> None:
    kernel = Kernel(
        START
        + """
        setp.ge.s32 %p1, %r3, 9; mul.wide.s32 %rd3, %r3, 4;
        @%p1 bra A; add.s64 %rd4, %rd2, %rd3; st.global.f32 [%rd4], %f1;
        A: setp.ge.s32 %p2, %r3, 5;
        @%p2 bra B; add.s64 %rd5, %rd2, %rd3; st.global.f32 [%rd5+4], %f1;
        B: st.global.f32 [%rd3], %f2; ret;
        """
    )
    assert len(kernel.hosts()) == 2
    lines = loaded(kernel)
    assert lines.count("add.s64 %rd4, %rd2, %rd3;") == 1
    assert lines.count("add.s64 %rd5, %rd2, %rd3;") == 1


def test_a_loops_constants_are_loaded_before_it_and_again_after_it() -> None:
    kernel = Kernel(
        START
        + """
        mov.u32 %r4, 0;
        L: add.s32 %r5, %r5, %r2; add.s32 %r4, %r4, %r3; setp.lt.s32 %p1, %r4, %r1; @%p1 bra L;
        add.s32 %r6, %r5, %r2; st.shared.u32 [%r6], %r6; ret;
        """
    )
    lines = loaded(kernel)
    # In front of the loop (n and m are one word, and the thread's index), and behind it (m).
    assert lines == ["add.s32 %r6, %r5, %r2;", "mov.u32 %r4, 0;", "mov.u32 %r4, 0;"]


def test_a_constant_serves_what_follows_in_the_same_stretch() -> None:
    lines = START + "add.s32 %r4, %r3, %r2; xor.b32 %r5, %r4, %r1; st.shared.u32 [%r5], %r4; ret;"
    # The index of the thread, and one word of n and m.
    assert loaded(Kernel(lines)) == ["add.s32 %r4, %r3, %r2;"] * 2


def test_before_compute_capability_9_constants_are_operands() -> None:
    kernel = Kernel(START + "add.s32 %r4, %r3, %r2; st.shared.u32 [%r4], %r4; ret;")
    new, old = kernel.weights("sm_90"), kernel.weights("sm_80")
    add = kernel.at("add.s32 %r4")
    assert new[add] - old[add] == 2  # the thread's index and the parameter
    assert old[kernel.at("mov.u32 %r3")] == 1


# --- values in one register

LOADED = START + "".join(f"ld.global.u32 %r{j}, [%rd2+{4 * j}];" for j in range(11, 15))
SELECTED = (
    LOADED + "setp.gt.s32 %p1, %r13, %r14; MAKE selp.b32 %r22, A, B, %p1; st.global.u32 [%rd2], "
    "%r22; USE ret;"
)
MIN, MAX = "min.s32 %r20, %r11, %r12;", "max.s32 %r21, %r11, %r12;"


@pytest.mark.parametrize(
    ("make", "sides", "use", "weight"),
    [
        (MIN + MAX, "%r20, %r21", "", 0),  # @!P0 VIMNMX over the other
        (MIN + MAX, "%r21, %r20", "", 0),
        (MIN, "%r20, %r11", "", 0),
        (MIN, "%r11, %r20", "", 0),
        ("add.s32 %r20, %r11, 3;", "%r20, %r11", "", 0),
        (MIN, "%r20, 7", "", 1),  # a literal lies in no register
        (MIN, "%r20, %r11", "st.global.u32 [%rd2+4], %r11;", 1),  # needed afterwards
        (MIN + MAX, "%r20, %r21", "st.global.u32 [%rd2+4], %r20;", 1),
        (MIN + MAX, "%r20, %r21", "st.global.u32 [%rd2+4], %r21;", 1),
        ("ld.global.u32 %r20, [%rd2+64];", "%r20, %r11", "", 0),  # @P0 LDG
        ("shfl.sync.bfly.b32 %r20, %r11, 1, 31, -1;", "%r20, %r11", "", 1),
    ],
)
def test_one_value_is_written_over_the_other(
    make: str, sides: str, use: str, weight: float
) -> None:
    """Read off ptxas 13.0: SEL is made only where neither value's register can be taken."""
    kernel = Kernel(SELECTED.replace("MAKE", make).replace("A, B", sides).replace("USE", use))
    assert kernel.weights()[kernel.at("selp")] == weight


@pytest.mark.parametrize(
    ("then", "weight"),
    [
        ("add.s32 %r21, %r20, %r11;", 1),
        ("add.s32 %r21, %r20, %r12;", 0),
        ("add.s32 %r21, %r11, %r14;", 0),  # can be done first
        (MAX.replace("%r11", "%r20") + "add.s32 %r22, %r11, 1; selp.b32 %r21, %r22, %r21, %p2;", 1),
    ],
)
def test_a_move_over_a_value_that_is_still_read(then: str, weight: float) -> None:
    """A window of values that moves on: the new one exists while the old one is still read."""
    kernel = Kernel(
        LOADED
        + f"""
        mov.u32 %r11, 5;
        L: add.s32 %r20, %r11, %r13; {then} mov.u32 %r11, %r20;
        add.s32 %r12, %r12, %r21; setp.lt.s32 %p1, %r12, %r1; @%p1 bra L;
        st.global.u32 [%rd2], %r11; ret;
        """
    )
    assert kernel.weights()[kernel.at("mov.u32 %r11, %r20")] == weight


# --- operands that cost nothing


@pytest.mark.parametrize(
    ("uses", "weight"),
    [
        ("mul.wide.u16 %r5, %h1, 4; mul.wide.u16 %r6, %h3, 4; st.shared.u32 [%r5], %r6;", 3),
        ("and.b16 %h5, %h1, 255; cvt.u32.u16 %r5, %h5; st.shared.u32 [%r5], %r5;", 1),
        (
            "cvt.rn.f32.u16 %f1, %h1; cvt.rn.f32.u16 %f2, %h2; st.shared.v2.f32 [%r3], {%f1, %f2};",
            1,
        ),
        ("cvt.u32.u8 %r5, %h4; st.shared.u32 [%r5], %r5;", 2),
    ],
)
def test_bytes_of_a_word_are_taken_out(uses: str, weight: int) -> None:
    load = "ld.shared.v4.u8 {%h1, %h2, %h3, %h4}, [%r3];"
    kernel = Kernel(START + ".reg .b16 %h<8>; " + load + uses + "ret;")
    bare = Kernel(START + ".reg .b16 %h<8>; " + load + "ret;")
    more, plain = (each.weights()[each.at("ld.shared.v4.u8")] for each in (kernel, bare))
    assert more - plain == weight - 1


@pytest.mark.parametrize(
    ("lines", "start", "weight"),
    [
        ("add.s64 %rd3, %rd5, 64; atom.global.add.u32 %r4, [%rd3], 1;", "add.s64 %rd3", 0),
        ("add.s64 %rd3, %rd5, 64; red.global.add.u32 [%rd3], %r3;", "add.s64 %rd3", 0),
        ("add.s64 %rd3, %rd5, 64; st.global.u64 [%rd5], %rd3;", "add.s64 %rd3", 2),
        (
            "ld.global.u16 %h1, [%rd5]; cvt.u64.u16 %rd3, %h1; st.global.u64 [%rd5], %rd3;",
            "cvt.u64",
            0,
        ),
        (
            "ld.global.s16 %h1, [%rd5]; cvt.s64.s16 %rd3, %h1; st.global.u64 [%rd5], %rd3;",
            "cvt.s64",
            1,
        ),
    ],
)
def test_what_an_address_and_a_zero_register_take(lines: str, start: str, weight: int) -> None:
    place = "mul.wide.u32 %rd4, %r3, 4; add.s64 %rd5, %rd2, %rd4;"
    kernel = Kernel(START + ".reg .b16 %h<8>; " + place + lines + "ret;")
    assert kernel.weights()[kernel.at(start)] == weight


def test_an_atomic_has_no_constant_for_its_base() -> None:
    kernel = Kernel(
        START + "add.s64 %rd3, %rd2, 8; red.global.add.u32 [%rd3], %r3;"
        "add.s64 %rd4, %rd2, 16; red.global.add.u32 [%rd4], %r3; ret;"
    )
    weights = kernel.weights()
    first, second = (weights[kernel.at(f"add.s64 %rd{n}")] for n in (3, 4))
    assert (first, second) == (6, 0)  # and the parameter's own load


@pytest.mark.parametrize(
    ("op", "count", "weight"),
    [("add.s32", 8, 4), ("add.s32", 5, 3), ("xor.b32", 8, 4), ("sub.s32", 2, 1)],
)
def test_a_chain_is_done_in_threes(op: str, count: int, weight: int) -> None:
    """IADD3 and LOP3 take three operands: what took one is no operand of the next."""
    loads = "".join(f"ld.shared.u32 %r{to}, [%r3+{4 * to}];" for to in (4, 5, 10))
    chain = "".join(f"{op} %r{11 + i}, %r{10 + i}, %r{4 + i % 2};" for i in range(count))
    kernel = Kernel(START + f"{loads} {chain} st.shared.u32 [%r3], %r{10 + count}; ret;")
    weights = kernel.weights()
    assert sum(weights[kernel.at(f"{op} %r{11 + i}")] for i in range(count)) == weight


@pytest.mark.parametrize(
    ("body", "at", "weight"),
    [
        ("mul.f32 %f5, %f1, %f2; sub.f32 %f6, %f3, %f5;", "mul.f32", 0),  # FFMA
        ("mul.f32 %f5, %f1, %f2; sub.f32 %f6, %f3, %f5; add.f32 %f7, %f5, %f2;", "mul.f32", 0),
        (
            "mul.f32 %f5, %f1, %f2; sub.f32 %f6, %f3, %f5; ex2.approx.ftz.f32 %f7, %f5;",
            "mul.f32",
            1,
        ),
        ("mul.rn.f32 %f5, %f1, %f2; sub.f32 %f6, %f3, %f5;", "mul.rn.f32", 1),
        ("mul.f32 %f5, %f1, %f2; sub.rn.f32 %f6, %f3, %f5;", "mul.f32", 1),
        ("mul.f32 %f5, %f1, %f2; mul.f32 %f7, %f3, %f2; sub.f32 %f6, %f5, %f7;", "mul.f32 %f7", 1),
        ("neg.f32 %f5, %f1; fma.rn.f32 %f6, %f5, %f2, %f3;", "neg.f32", 0),
        ("neg.f32 %f5, %f1; st.global.f32 [%rd2], %f5;", "neg.f32", 1),
        ("not.b32 %r5, %r3; and.b32 %r6, %r5, %r2;", "not.b32", 0),
        ("not.b32 %r5, %r3; add.s32 %r6, %r5, %r2;", "not.b32", 1),
        ("and.b32 %r5, %r3, %r2; not.b32 %r6, %r5; or.b32 %r7, %r6, %r1;", "and.b32", 0),
        ("mov.b32 {%h1, %h2}, %r3; cvt.f32.f16 %f1, %h1; cvt.f32.f16 %f2, %h2;", "mov.b32", 0),
        ("mov.b32 {%h1, %h2}, %r3; st.global.u16 [%rd2], %h2;", "mov.b32", 1),  # PRMT
        ("mov.b32 {%h1, %h2}, %r3; st.global.u16 [%rd2], %h1;", "mov.b32", 0),
        (
            "cvt.rn.f16.f32 %h1, %f1; cvt.rn.f16.f32 %h2, %f2; mov.b32 %r5, {%h1, %h2};",
            "cvt.rn.f16.f32 %h1",
            0,  # F2FP makes both and joins them
        ),
        ("popc.b64 %r5, %rd2;", "popc", 3),
        ("bfe.u32 %r5, %r3, 5, 7;", "bfe", 2),
        ("bfe.u32 %r5, %r3, %r1, %r2;", "bfe", 5),
        ("min.s64 %rd5, %rd2, %rd1;", "min", 4),
        ("rcp.rn.f32 %f5, %f1;", "rcp", 10),
    ],
)
def test_what_an_instruction_does_to_its_operands(body: str, at: str, weight: float) -> None:
    """Read off ptxas 13.0, each in a small kernel."""
    kernel = Kernel(".reg .b16 %h<9>;" + START + body + "ret;")
    assert kernel.weights("sm_80")[kernel.at(at)] == weight  # no loads of constants with it


TABLE = ".shared .align 4 .b8 t[1024];" + START


@pytest.mark.parametrize(
    ("place", "weight"),
    [
        ("and.b32 %r5, %r3, 1020; add.s32 %r6, %r4, %r5;", 0),  # LDS [R+UR]
        ("shl.b32 %r5, %r3, 2; add.s32 %r6, %r4, %r5;", 1),  # LEA
        ("and.b32 %r5, %r3, 1020; add.s32 %r7, %r4, 512; add.s32 %r6, %r7, %r5;", 0),
        ("and.b32 %r5, %r3, 1020; add.s32 %r6, %r2, %r5;", 1),
    ],
)
def test_a_variable_of_shared_memory_is_added_by_the_access(place: str, weight: float) -> None:
    kernel = Kernel(TABLE + f"mov.u32 %r4, t; {place} ld.shared.u32 %r8, [%r6+4]; ret;")
    assert kernel.weights("sm_80")[kernel.at("add.s32 %r6")] == weight


# --- conditions


def conditions(count: int, use: str) -> Kernel:
    made = "\n".join(f"setp.ge.s32 %p{j}, %r3, {3 * j + 1};" for j in range(1, count + 1))
    asked = "\n".join(f"@%p{j} bra B{j}; {use.format(j=j)}\nB{j}:" for j in range(1, count + 1))
    return Kernel(
        f"{START}{made} mov.u32 %r4, 0; cvt.u64.u32 %rd3, %r3;\nL:\n{asked} add.s32 %r4, %r4, 1; "
        "setp.lt.s32 %p39, %r4, %r1; @%p39 bra L; st.shared.f32 [%r3], %f1; ret;"
    )


@pytest.mark.parametrize(
    ("count", "before", "inside"), [(6, 0, 0), (7, 1, 1), (8, 2, 4), (9, 3, 7), (16, 10, 28)]
)
def test_conditions_that_outnumber_predicates_are_moved(
    count: int, before: int, inside: int
) -> None:
    """Numbers of P2R and ISETP.NE in the machine code of a loop with predicated stores."""
    kernel = conditions(count, "st.shared.u32 [%r3+{j}], %r4;")
    moved = spills(kernel.graph, kernel.hosts())
    made = sum(moved.get(id(kernel.at(f"setp.ge.s32 %p{j},")), 0.0) for j in range(1, count + 1))
    assert made == pytest.approx(before)
    assert sum(moved.values()) - made == pytest.approx(inside)


def test_what_is_loaded_and_used_asks_twice() -> None:
    load = "ld.shared.f32 %f2, [%r3+{j}];"
    once = conditions(9, load)
    twice = conditions(9, load + " add.f32 %f1, %f1, %f2;")
    costs = [sum(spills(each.graph, each.hosts()).values()) for each in (once, twice)]
    assert costs == pytest.approx([3 + 7, 3 + 13])  # as in the machine code


# --- loops


def loop(body: str, test: str, start: str = "mov.u32 %r4, 0;") -> list[Unrolled]:
    kernel = Kernel(f"{START}{start}\nL: {body}\n{test} @%p1 bra L; st.shared.u32 [%r3], %r5; ret;")
    every = {block.index: block.index for block in kernel.blocks}
    return unrolled(kernel.graph, every, {}, lambda block: float(len(block.instrs)))


COUNTED = "add.s32 %r5, %r5, %r4; add.s32 %r4, %r4, -4;"


def test_a_counted_loop_is_unrolled_by_four() -> None:
    (found,) = loop(COUNTED, "setp.ne.s32 %p1, %r4, 0;", "mov.u32 %r4, %r1;")
    assert not found.known and found.exact
    entry = found.entries[0]
    for turns, own in [(12, 3), (13, 4), (14, 4), (15, 5), (3, 2)]:
        ran = {found.block: 8.0 * turns, entry: 8.0}
        assert found.share(ran) * turns == pytest.approx(own)
        assert found.tests(ran) * turns == pytest.approx(10)


@pytest.mark.parametrize(("turns", "factor"), [(16, 4), (9, 3), (10, 2), (7, 1)])
def test_where_ptx_knows_the_turns_a_divisor_is_used(turns: int, factor: int) -> None:
    (found,) = loop(COUNTED, "setp.ne.s32 %p1, %r4, 0;", f"mov.u32 %r4, {4 * turns};")
    ran = {found.block: float(turns), found.entries[0]: 1.0}
    assert found.known
    assert found.share(ran) == pytest.approx(1 / factor)
    assert found.tests(ran) == 0


@pytest.mark.parametrize(
    ("body", "test"),
    [
        ("add.s32 %r4, %r4, %r3;", "setp.lt.s32 %p1, %r4, %r1;"),  # its step is no literal
        ("shr.u32 %r4, %r4, 1;", "setp.ne.s32 %p1, %r4, 0;"),  # it does not count
        (COUNTED, "setp.ne.s32 %p2, %r4, 0; and.pred %p1, %p2, %p3;"),  # it may end otherwise
        (COUNTED + "atom.shared.add.u32 %r6, [%r3], %r4;", "setp.ne.s32 %p1, %r4, 0;"),
        (COUNTED + "mov.u32 %r7, %r5;" * 40, "setp.ne.s32 %p1, %r4, 0;"),  # too large
    ],
)
def test_other_loops_stay_as_they_are(body: str, test: str) -> None:
    assert not loop(body, test)


# --- moves, folding, branches


def test_only_moves_of_what_is_needed_later_are_instructions() -> None:
    kernel = Kernel(
        START
        + """
        mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, 7; mov.u32 %r7, %r3; mov.u32 %r8, %r9;
        L: add.s32 %r4, %r4, %r6; add.s32 %r5, %r5, %r7; add.s32 %r7, %r7, 1;
        add.s32 %r8, %r8, %r5; setp.lt.s32 %p1, %r4, %r1; @%p1 bra L;
        add.s32 %r10, %r3, %r8; st.shared.u32 [%r10], %r4; ret;
        """
    )
    cost = copies(kernel.graph)
    assert cost[id(kernel.at("mov.u32 %r4"))] == cost[id(kernel.at("mov.u32 %r5"))] == 0.5
    assert cost[id(kernel.at("mov.u32 %r6"))] == 0  # a literal of its own
    assert cost[id(kernel.at("mov.u32 %r7"))] == 1  # the thread's index is needed after the loop
    assert cost[id(kernel.at("mov.u32 %r8"))] == 0  # nobody needs %r9 again


def test_a_store_that_gathers_from_vector_loads_moves_each_value() -> None:
    kernel = Kernel(
        START
        + """
        ld.global.v2.f32 {%f1, %f2}, [%rd2]; ld.global.v2.f32 {%f3, %f4}, [%rd2+8];
        add.f32 %f5, %f1, %f3; st.global.v2.f32 [%rd2+16], {%f1, %f2};
        st.global.v2.f32 [%rd2+24], {%f1, %f3}; st.global.v2.f32 [%rd2+32], {%f4, %f3};
        st.global.v2.f32 [%rd2+40], {%f5, %f2}; st.global.v2.f32 [%rd2+48], {%f5, %f5}; ret;
        """
    )
    found = {n: gathered(kernel.graph).get(id(kernel.at(f"st.global.v2.f32 [%rd2+{n}]")), 0)
             for n in (16, 24, 32, 40, 48)}  # fmt: skip
    assert found == {16: 0, 24: 2, 32: 2, 40: 1, 48: 0}


def test_a_stored_literal_takes_a_register_for_each_word_that_is_not_zero() -> None:
    kernel = Kernel(
        START
        + """
        mov.u64 %rd3, 9223372036854775807; mov.u64 %rd4, 4294967296; mov.u64 %rd5, 0;
        mov.u32 %r4, 7; st.global.u64 [%rd2], %rd3; st.global.u64 [%rd2+8], %rd3;
        st.global.u64 [%rd2+16], %rd4; st.global.u64 [%rd2+24], %rd5;
        st.global.u32 [%rd2+32], %r4; st.global.u32 [%rd2+36], %r3; ret;
        """
    )
    cost = stored_literals(kernel.graph)
    found = [cost.get(id(each), 0) for each in kernel.blocks[0].instrs if each.op == "st"]
    assert found == [2, 0, 1, 0, 1, 0]


@pytest.mark.parametrize(
    ("mask", "load", "weight"),
    [
        ("255", "u8", 0), ("65535", "u16", 0), ("65535", "u8", 0), ("255", "u16", 1),
        ("127", "u8", 1), ("255", "s8", 1), ("255", "b8", 0),
    ],
)  # fmt: skip
def test_a_mask_of_what_a_narrow_load_left_is_no_instruction(
    mask: str, load: str, weight: float
) -> None:
    kernel = Kernel(
        START
        + f"""
        ld.global.{load} %rs1, [%rd2]; cvt.u32.u16 %r7, %rs1; and.b32 %r8, %r7, {mask};
        st.global.u32 [%rd2+4], %r8; ret;
        """
    )
    assert kernel.weights()[kernel.at("and.b32")] == weight


def test_bytes_of_a_vector_are_taken_out_of_a_word() -> None:
    kernel = Kernel(
        START
        + """
        ld.global.v2.u8 {%rs1, %rs2}, [%rd2]; cvt.u32.u16 %r7, %rs1; and.b32 %r8, %r7, 255;
        st.global.u32 [%rd2+4], %r8; ret;
        """
    )
    assert kernel.weights()[kernel.at("and.b32")] == 1


def test_a_literal_of_doubles_is_two_moves_unless_its_lower_half_is_zero() -> None:
    # 0.5 is held by the instruction; 0.1 is moved once a block, and before a loop for its body.
    kernel = Kernel(
        START
        + """
        ld.global.f64 %fd1, [%rd2]; mov.f64 %fd9, 0d3FB999999999999A;
        mul.f64 %fd2, %fd1, 0d3FE0000000000000; fma.rn.f64 %fd3, %fd2, %fd9, %fd1;
        add.f64 %fd4, %fd3, 0d3FB999999999999A; add.f32 %f1, %f2, 0f3DCCCCCD;
        mov.u32 %r7, 0;
        L1: fma.rn.f64 %fd4, %fd4, 0d3FB999999999999A, 0d3FC999999999999A;
        add.s32 %r7, %r7, 1; setp.lt.s32 %p1, %r7, %r3; @%p1 bra L1;
        setp.gt.f64 %p2, %fd4, 0d3FC999999999999A; @%p2 bra L2;
        st.global.f64 [%rd2], %fd4; L2: ret;
        """
    )
    cost = wide_literals(kernel.graph)
    found = {
        each.text: cost[id(each)]
        for block in kernel.blocks
        for each in block.every
        if id(each) in cost
    }
    assert sorted(found.values()) == [2, 2, 4], found


@pytest.mark.parametrize(
    ("instruction", "more"),
    [
        ("red.global.add.u32 [%rd2], %r3;", 7), ("red.global.max.s32 [%rd2+4], 5;", 7),
        ("atom.shared.add.u32 %r9, [%r7], %r3;", 7), ("atom.shared.add.u32 %r9, [%r7], 1;", 0),
        ("red.global.add.u32 [%rd3], %r3;", 0), ("red.global.add.f32 [%rd2], 0f3F800000;", 0),
        ("atom.global.add.u32 %r9, [%rd2], 1; st.global.u32 [%rd3], %r9;", 10),
        ("atom.shared.add.u32 %r9, [%r7], %r3; st.global.u32 [%rd3], %r9;", 23),
        ("atom.global.add.u32 %r9, [%rd3], 1; st.global.u32 [%rd3], %r9;", 0),
        ("atom.global.max.u32 %r9, [%rd2], %r3; st.global.u32 [%rd3], %r9;", 0),
    ],
)  # fmt: skip
def test_a_warp_that_adds_to_one_word_is_put_together_first(instruction: str, more: float) -> None:
    def weight(text: str) -> float:
        kernel = Kernel(
            START + "mov.u32 %r7, %ctaid.x; mul.wide.u32 %rd4, %r3, 4; add.s64 %rd3, %rd2, %rd4;"
            f"{text} ret;"
        )
        (found,) = (each for each in kernel.blocks[0].instrs if each.op in ("atom", "red"))
        return kernel.weights()[found]

    alone = instruction.replace(".add.", ".exch.").replace(".max.", ".exch.")
    assert weight(instruction) - weight(alone) == more


def test_a_reciprocal_root_of_a_double_is_a_routine() -> None:
    kernel = Kernel(START + "rsqrt.approx.f64 %rd5, %rd6; rsqrt.approx.ftz.f64 %rd7, %rd8; ret;")
    weights = kernel.weights()
    assert weights[kernel.at("rsqrt.approx.f64")] == 16
    assert weights[kernel.at("rsqrt.approx.ftz")] == 1


LOADED = "ld.global.u64 %rd5, [%rd2]; ld.global.u64 %rd6, [%rd2+8]; ld.global.u32 %r5, [%rd1]; "
STORED, LOWER = "st.global.u64 [%rd2], %rd9;", "cvt.u32.u64 %r9, %rd9; st.global.u32 [%rd2], %r9;"
#: What is done with two 64-bit integers and a word, and the machine instructions of nvcc 13.0.
WORDS = {
    "both words": ("xor.b64 %rd9, %rd5, %rd6; " + STORED, 2),
    "a shift by 33, mixed in": ("shr.u64 %rd8, %rd5, 33; xor.b64 %rd9, %rd8, %rd5; " + STORED, 2),
    "a shift by 17, mixed in": ("shr.u64 %rd8, %rd5, 17; xor.b64 %rd9, %rd8, %rd5; " + STORED, 4),
    "a shift by 40, mixed in": ("shl.b64 %rd8, %rd5, 40; xor.b64 %rd9, %rd8, %rd5; " + STORED, 2),
    "two words put together": (
        "cvt.u64.u32 %rd7, %r5; shl.b64 %rd8, %rd5, 32; or.b64 %rd9, %rd8, %rd7; " + STORED, 0
    ),
    "a product": ("mul.lo.s64 %rd9, %rd5, %rd6; " + STORED, 4),
    "a product by a word": (
        "cvt.u64.u32 %rd7, %r5; mul.lo.s64 %rd9, %rd5, %rd7; " + STORED, 3
    ),
    "the lower word of a product": ("mul.lo.s64 %rd9, %rd5, %rd6; " + LOWER, 1),
    "the lower word of a sum": ("add.s64 %rd9, %rd5, %rd6; " + LOWER, 1),
    "the upper word of a sum": (
        "add.s64 %rd8, %rd5, %rd6; shr.u64 %rd9, %rd8, 32; " + LOWER, 2
    ),
    "a word across both": ("shr.u64 %rd9, %rd5, 31; " + LOWER, 1),
    "the upper word, shifted": ("shr.u64 %rd9, %rd5, 33; " + LOWER, 1),
    "a mask of the upper word": (
        "and.b64 %rd9, %rd5, -281474976710656; " + STORED, 1
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_words_that_are_zero_or_unwanted_cost_nothing(name: str) -> None:
    body, count = WORDS[name]
    kernel = Kernel(START + LOADED + body + " ret;")
    weights = kernel.weights()
    done = ("and", "or", "xor", "shl", "shr", "mul", "add", "cvt")
    assert sum(weights[i] for b in kernel.blocks for i in b.instrs if i.op in done) == count


@pytest.mark.parametrize(("one", "weight"), [("1, 0", 1.0), ("0, 1", 1.0), ("1, 2", 0.0)])
def test_counting_by_a_predicate_is_an_addition_of_its_own(one: str, weight: float) -> None:
    kernel = Kernel(
        START
        + f"""ld.global.u32 %r4, [%rd2]; ld.global.u32 %r5, [%rd2+4];
        setp.eq.s32 %p1, %r4, %r5; selp.u32 %r6, {one}, %p1; add.s32 %r7, %r4, %r6;
        add.s32 %r8, %r7, %r5; st.global.u32 [%rd2], %r8; ret;"""
    )
    assert kernel.weights()[kernel.at("add.s32 %r7")] == weight


def test_a_bound_takes_an_addition_with_it_since_9_0() -> None:
    kernel = Kernel(
        START + "add.s32 %r4, %r3, -2; max.s32 %r5, %r4, 0; st.shared.u32 [%r5], %r5; ret;"
    )
    add = id(kernel.at("add.s32 %r4"))
    names = Names(kernel.blocks)
    assert add in folded(kernel.blocks, names, bounds=True)
    assert add not in folded(kernel.blocks, names, bounds=False)


@pytest.mark.parametrize(("after", "weight"), [("", 3), ("sub.f32 %f5, %f1, %f4;", 4)])
def test_a_conversion_to_tf32_is_done_by_hand(after: str, weight: int) -> None:
    """Comparison, addition and mask; a selection where the value itself is needed as well."""
    kernel = Kernel(
        f"""{START} ld.global.f32 %f1, [%rd2]; cvt.rna.tf32.f32 %r5, %f1; mov.b32 %f4, %r5;
        {after} st.global.f32 [%rd2], %f4; st.global.f32 [%rd2+4], %f5; ret;"""
    )
    assert kernel.weights()[kernel.at("cvt.rna.tf32")] == weight


def test_a_conversion_to_float_is_not_folded_but_cutting_bits_is_free() -> None:
    kernel = Kernel(
        START
        + """
        cvt.rn.f32.s32 %f1, %r3; mul.f32 %f2, %f1, %f3; cvt.u32.u64 %r4, %rd5;
        st.shared.f32 [%r4], %f2; ret;
        """
    )
    weights = kernel.weights()
    assert weights[kernel.at("cvt.rn.f32.s32")] >= 1
    assert weights[kernel.at("cvt.u32.u64")] == 0


def test_branches_to_one_place_share_a_fence() -> None:
    kernel = Kernel(
        START
        + """
        setp.lt.s32 %p1, %r3, 3; @%p1 bra E;
        add.f32 %f1, %f1, %f2; setp.lt.s32 %p2, %r3, 9; @%p2 bra E;
        add.f32 %f1, %f1, %f3;
        E: st.shared.f32 [%r3], %f1; ret;
        """
    )
    first, second = kernel.at("@%p1 bra"), kernel.at("@%p2 bra")
    fenced = fences(kernel.graph, varying(kernel.blocks), ())
    own = {id(kernel.graph.blocks[index].last): own for index, own in fenced.items()}
    assert own == {id(first): True, id(second): False}


@pytest.mark.parametrize(("bound", "parted"), [(32, 0), (64, 0), (40, 4), (33, 4)])
def test_each_part_of_a_warp_comes_to_the_end_of_its_fence(bound: int, parted: int) -> None:
    """Four blocks of three warps, of which one may have lanes on both ways."""
    divisions = "div.rn.f32 %f1, %f1, 0f3FC00000;" * 2  # too long to be predicated
    module = module_of(
        f"""
        {START} cvt.rn.f32.u32 %f1, %r3; mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, %rd2, %rd3;
        setp.ge.u32 %p1, %r3, {bound}; @%p1 bra E;
        {divisions}
        E: st.global.f32 [%rd4], %f1; ret;
        """
    )
    buffers = {"p": np.zeros(96, np.float32)}
    _, outcome = execute(module, "k", buffers, ["p", 0, 0], grid=(4, 1, 1), block=(96, 1, 1))
    rows = zip(outcome.rows, outcome.machine_code().issued, strict=True)
    (issued,) = (issued for row, issued in rows if row.instr.op == "bra")
    # BSSY, the branch and BSYNC for each of the twelve warps.
    assert issued == 12 * 3 + parted


_OUT = "cp.async.bulk.global.shared::cta.bulk_group"
_IN = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
_TILE_OUT = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"
_TILE_IN = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
_ADD = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32"


@pytest.mark.parametrize(
    ("copy", "turn"),
    [
        (f"{_OUT} [%rd2], [%r2], %r1;", 0),
        (f"{_OUT} [%rd2], [%r4], %r1;", 5),
        (f"{_OUT} [%rd4], [%r2], %r1;", 7),
        (f"{_OUT} [%rd4], [%r4], %r1;", 9),
        (f"{_OUT} [%rd4], [%r4], %r4;", 11),
        (f"{_TILE_OUT} [%rd2, {{%r4, %r1}}], [%r2];", 5),
        (f"{_IN} [%r2], [%rd4], %r1, [%r2];", 7),
        (f"{_IN} [%r4], [%rd4], %r1, [%r4];", 9),
        (f"{_TILE_IN} [%r4], [%rd2, {{%r1, %r4}}], [%r2];", 7),
        (f"{_ADD} [%rd4], [%r4], %r1;", 8),
    ],
)
def test_bulk_copies_of_lanes_are_a_loop_over_them(copy: str, turn: float) -> None:
    kernel = Kernel(
        f"""{START} mul.wide.u32 %rd3, %r3, 16; add.s64 %rd4, %rd2, %rd3; shl.b32 %r4, %r3, 4;
        setp.lt.u32 %p1, %r3, 9; @%p1 bra E; {copy} E: st.global.u32 [%rd4], %r1; ret;"""
    )
    weights = kernel.weights()
    assert weights.by_lane.get(id(kernel.at(copy)), 0) == turn
    # A loop cannot be predicated.
    assert bool(weights.host) == (turn == 0)


@pytest.mark.parametrize("guard", ["", "@%p1"])
def test_a_bulk_copy_is_issued_for_each_lane(guard: str) -> None:
    """Two blocks of two warps; with a guard, of the second one nine lanes."""
    module = module_of(
        f"""
        .shared .align 16 .b8 tile[1024];
        {START} mov.u32 %r5, tile; shl.b32 %r4, %r3, 4; add.s32 %r6, %r5, %r4;
        st.shared.v4.u32 [%r6], {{%r3, %r3, %r3, %r3}};
        mul.wide.u32 %rd3, %r3, 16; add.s64 %rd4, %rd2, %rd3; setp.lt.u32 %p1, %r3, 41;
        {guard} {_OUT} [%rd4], [%r6], 16; ret;
        """
    )
    buffers = {"p": np.zeros(256, np.uint32)}
    _, outcome = execute(module, "k", buffers, ["p", 0, 0], grid=2, block=64)
    rows = zip(outcome.rows, outcome.machine_code().issued, strict=True)
    (issued,) = (issued for row, issued in rows if row.instr.op == "cp")
    # The predicates are set once a warp; then each lane has its turn of nine.
    assert issued == 4 + 9 * 2 * (41 if guard else 64)


def test_three_loads_that_are_never_made_stand_before_the_copies_of_a_block() -> None:
    copy = "cp.async.ca.shared.global [%r3+{0}], [%rd2+{0}], 4;"
    kernel = Kernel(
        f"""{START} setp.lt.u32 %p1, %r3, 9;
        {copy.format(0)} {copy.format(16)} @%p1 bra J; {copy.format(32)}
        J:
        {copy.format(48)}
        L:
        {copy.format(64)} add.s32 %r5, %r5, %r3; setp.lt.s32 %p2, %r5, %r1; @%p2 bra L;
        ret;"""
    )
    weights = kernel.weights("sm_80")
    found = [weights[kernel.at(copy.format(place)[:-5])] for place in (0, 16, 32, 48, 64)]
    # The one behind the branch has become predicated, and the loop is a block of its own.
    assert found == [4, 1, 1, 1, 4]


@pytest.mark.parametrize(
    ("products", "after", "waits"),
    [
        (2, "", True),
        (1, "", False),  # the counter's step stands after it
        (2, "bar.sync 0;", True),  # the barrier is not held up
        (2, "@%p3 bra M; st.shared.f32 [%r3], %f9; M:", True),  # a predicated store
    ],
)
def test_a_branch_after_products_waits_for_them(products: int, after: str, waits: bool) -> None:
    product = (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, "
        "{%r10,%r11,%r12,%r13}, {%r14,%r15}, {%f1,%f2,%f3,%f4};"
    )
    kernel = Kernel(
        f"""{START} mov.u32 %r5, 0;
        L: {product * products} {after}
        add.s32 %r5, %r5, %r3; setp.lt.s32 %p2, %r5, %r1; @%p2 bra L;
        st.shared.f32 [%r3], %f1; ret;"""
    )
    assert kernel.weights()[kernel.at("@%p2 bra")] == (2 if waits else 1)


@pytest.mark.parametrize(
    ("body", "count", "outer", "predicated"),
    [
        ("fma.rn.f32 %f1, %f1, %f2, %f3;", 8, False, True),
        ("fma.rn.f32 %f1, %f1, %f2, %f3;", 9, False, False),
        ("ld.shared.f32 %f1, [%r3];", 9, False, False),
        ("ld.global.f32 %f1, [%rd3];", 9, False, True),
        ("ld.global.f32 %f1, [%rd3];", 19, False, False),
        ("fma.rn.f32 %f1, %f1, %f2, %f3;", 8, True, True),
        ("ld.global.f32 %f1, [%rd3];", 5, True, False),
    ],
)
def test_how_much_becomes_predicates(body: str, count: int, outer: bool, predicated: bool) -> None:
    """As in machine code: more around loads from device memory, not so in outer loops."""
    inner = "I: add.s32 %r6, %r6, %r3; setp.lt.s32 %p3, %r6, %r1; @%p3 bra I;" if outer else ""
    kernel = Kernel(
        f"""{START} mov.u32 %r5, 0;
        L: setp.lt.f32 %p1, %f4, %f1; @%p1 bra J; {body * count}
        J: {inner} add.s32 %r5, %r5, %r3; setp.lt.s32 %p2, %r5, %r1; @%p2 bra L;
        st.shared.f32 [%r3], %f1; ret;"""
    )
    assert bool(kernel.hosts()) == predicated


def test_leaving_is_a_predicate_on_exit() -> None:
    kernel = Kernel(
        START
        + """
        setp.ge.s32 %p1, %r3, 9; @%p1 bra E;
        st.shared.f32 [%r3], %f1;
        E:
        ret;
        """
    )
    weights = kernel.weights()
    assert not weights.host  # the store stands behind an EXIT, it is not predicated
    assert weights[kernel.at("@%p1 bra")] == 1
    assert weights[kernel.at("st.shared.f32")] == 2  # with the EXIT of those who stayed
    assert weights[kernel.at("ret")] == 0


# --- whole kernels

#: Grid, block, (n, m, k), and the instructions that the warps of their machine code execute:
#: ptxas of CUDA 13.0 for sm_90, its integers and branches followed for every warp.
COUNTED_KERNELS = {
    "matmul": ((2, 2, 1), (16, 16, 1), (30, 32, 50), 9_280),
    "tiled": ((2, 2, 1), (16, 16, 1), (30, 32, 100), 14_816),
    "window": ((2, 3, 1), (32, 4, 1), (60, 12, 7), 10_560),
    "window_any": ((2, 1, 1), (128, 1, 1), (17, 13, 3), 3_802),
    "halo": ((3, 1, 1), (128, 1, 1), (300, 4, 5), 5_308),
    "transpose": ((3, 2, 1), (32, 8, 1), (90, 50, 0), 3_624),
    "reduce": ((2, 1, 1), (256, 1, 1), (3000, 0, 0), 1_992),
    "scan": ((2, 1, 1), (128, 1, 1), (0, 0, 0), 496),
    "rows": ((3, 1, 1), (32, 4, 1), (333, 11, 0), 1_503),
    "edges": ((2, 3, 1), (32, 4, 1), (60, 12, 0), 1_680),
    "columns": ((2, 2, 1), (128, 1, 1), (200, 31, 0), 1_841),
    "shuffle": ((3, 1, 1), (128, 1, 1), (9, 8, 2), 852),
}


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", COUNTED_KERNELS)
def test_kernels_come_near_their_machine_code(cuda: Compile, kernel: str) -> None:
    source = REPO / "tests" / "data" / "machinecode" / "kernels.cu"
    grid, block, sizes, executed = COUNTED_KERNELS[kernel]
    buffers = {name: np.zeros(1 << 16, np.float32) for name in "abc"}
    module = cuda(source.read_text(encoding="utf-8"))
    _, outcome = execute(module, kernel, buffers, [*"abc", *sizes], grid=grid, block=block)
    assert outcome.machine_code().total == pytest.approx(executed, rel=0.15)


#: Threads of the block, and instructions as above, of kernels on 128 by 128 matrices.
COUNTED_MATRICES = {
    "wmma_rows": (32, 306),
    "wmma_columns": (32, 439),
    "wmma_shared": (128, 4 * 2_637),
    "ldmatrix_tile": (256, 8 * 447),
}


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", COUNTED_MATRICES)
def test_kernels_on_matrix_units_come_near_their_machine_code(cuda: Compile, kernel: str) -> None:
    source = REPO / "tests" / "data" / "machinecode" / "matrices.cu"
    threads, executed = COUNTED_MATRICES[kernel]
    buffers = {name: np.zeros(1 << 16, np.float32) for name in "abc"}
    module = cuda(source.read_text(encoding="utf-8"))
    sizes = [128, 128, 128]
    _, outcome = execute(module, kernel, buffers, [*"abc", *sizes], block=threads)
    assert outcome.machine_code().total == pytest.approx(executed, rel=0.08)
