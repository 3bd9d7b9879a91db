"""Loops whose lanes have other numbers of turns: which lanes ask for memory together."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from ptxemu.counts import Counts
from tests.ptxemu.conftest import HEADER, assembled, execute

LANES = 96
RNG = np.random.default_rng(3)

#: Every thread adds up turns[i] elements, one in 32 bytes and none twice.
SUM = """.visible .entry k(.param .u64 p, .param .u64 q, .param .u64 out)
{
.reg .b64 %rd<20>; .reg .b32 %r<20>; .reg .f32 %f<9>; .reg .pred %p<9>;
ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q]; ld.param.u64 %rd3, [out];
mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 4; add.s64 %rd2, %rd2, %rd4; add.s64 %rd3, %rd3, %rd4;
ld.global.u32 %r2, [%rd2]; mul.wide.u32 %rd5, %r1, 1024; add.s64 %rd1, %rd1, %rd5;
mov.f32 %f1, 0f00000000;
setp.eq.s32 %p2, %r2, 0;
@%p2 bra DONE;
START
LOOP:
PRAGMA
ld.global.f32 %f2, [%rd1];
add.f32 %f1, %f1, %f2;
add.s64 %rd1, %rd1, 32;
STEP
TEST
@%p1 bra LOOP;
DONE:
st.global.f32 [%rd3], %f1;
ret;
}
"""
UP = ("mov.u32 %r3, 5; mad.lo.s32 %r4, %r2, 3, %r3;", "add.s32 %r3, %r3, 3;")
COUNTED = {
    "lt.s32": (*UP, "setp.lt.s32 %p1, %r3, %r4;"),
    "lt.u32": (*UP, "setp.lt.u32 %p1, %r3, %r4;"),
    "ne.s32": (*UP, "setp.ne.s32 %p1, %r3, %r4;"),
    "le.s32": (
        "mov.u32 %r3, 5; mad.lo.s32 %r4, %r2, 3, 4;",
        "add.s32 %r3, %r3, 3;",
        "setp.le.s32 %p1, %r3, %r4;",
    ),
    "gt.s32": ("mov.u32 %r3, %r2;", "add.s32 %r3, %r3, -1;", "setp.gt.s32 %p1, %r3, 0;"),
    "ge.s32": ("shl.b32 %r3, %r2, 1;", "sub.s32 %r3, %r3, 2;", "setp.ge.s32 %p1, %r3, 1;"),
    "lt.s64": (
        "mov.u64 %rd8, -4; mul.wide.s32 %rd9, %r2, 8; add.s64 %rd9, %rd9, -4;",
        "add.s64 %rd8, %rd8, 8;",
        "setp.lt.s64 %p1, %rd8, %rd9;",
    ),
}


def counted(turns: list[int], kind: str = "lt.s32", pragma: str = "") -> tuple[list[float], Counts]:
    start, step, test = COUNTED[kind]
    text = SUM.replace("START", start).replace("STEP", step).replace("TEST", test)
    whole = HEADER + text.replace("PRAGMA", pragma).replace(";", ";\n")
    with TemporaryDirectory() as folder:
        module = assembled(whole, Path(folder))
    data = {
        "x": np.ones((LANES, 256), "f4"),
        "n": np.array(turns, "u4"),
        "y": np.zeros(LANES, "f4"),
    }
    out, outcome = execute(module, "k", data, ["x", "n", "y"], block=LANES)
    return out["y"].tolist(), outcome


def requests(outcome: Counts) -> int:
    """How often warps asked for an element, whatever lanes took part."""
    return sum(
        row.warps
        for row in outcome.rows
        if row.instr.op == "ld" and "f32" in row.instr.parts and row.site.sectors
    )


def pieces(turns: list[int]) -> int:
    """The same by hand: of each warp fours, then a two, then a one, for those that have one."""
    total = 0
    for warp in np.array(turns).reshape(-1, 32).tolist():
        total += 4 * max(each // 4 for each in warp)
        total += 2 * any(each % 4 >= 2 for each in warp)
        total += any(each % 2 for each in warp)
    return total


#: Of 64 bits ptxas 13.0 makes fours and threes, which are not followed.
@pytest.mark.parametrize("kind", sorted(set(COUNTED) - {"lt.s64"}))
def test_lanes_make_their_fours_then_their_twos_then_their_ones(kind: str) -> None:
    turns = RNG.integers(1, 23, LANES).tolist()
    sums, outcome = counted(turns, kind)
    assert sums == turns
    assert requests(outcome) == pieces(turns) != sum(max(turns[i : i + 32]) for i in (0, 32, 64))


def test_two_lanes_that_do_not_meet() -> None:
    """Three turns are a two and a one, four are a four: seven requests, not four."""
    sums, outcome = counted([3, 4] * 48)
    assert sums == [3.0, 4.0] * 48
    assert requests(outcome) == 3 * 7


def test_lanes_that_have_as_many_turns_or_none() -> None:
    assert requests(counted([7] * 32 + [5] * 32 + [2] * 32)[1]) == 14
    sums, outcome = counted([0, 6] * 48)
    assert sums == [0.0, 6.0] * 48 and requests(outcome) == 18


def test_a_loop_that_is_not_unrolled_has_no_pieces() -> None:
    assert requests(counted([3, 4] * 48, pragma='.pragma "nounroll";')[1]) == 12
