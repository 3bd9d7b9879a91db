"""Damaged and hostile PTX is an error that says so, in little time and memory."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxemu
from ptxemu.errors import EmulatorError, PtxError

GOOD = """.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 k_param_0)
{
\t.reg .b32 %r<4>;
\t.reg .b64 %rd<4>;
\t.shared .align 4 .b8 s[16];
\tld.param.u64 %rd1, [k_param_0];
\tmov.u32 %r1, 5;
\tst.global.u32 [%rd1], %r1;
\tret;
}
"""
#: What is damaged -> text of it, what stands there instead, and part of the message.
DAMAGED = {
    "a register as an offset": ("[k_param_0]", "[k_param_0+%f1]", "PTX line 9"),
    "an alignment that is a register": (".align 4", ".align %r1", "is not an integer of 64 bits"),
    "an alignment of three": (".align 4", ".align 3", "is not a power of two"),
    "a fraction of elements": ("s[16]", "s[1.5]", "is not an integer of 64 bits"),
    "a float of elements": ("s[16]", "s[0f7FC00000]", "is not an integer of 64 bits"),
    "a damaged octal number": ("mov.u32 %r1, 5", "mov.u32 %r1, 09", "is not an integer of 64 bits"),
    "registers without a number": ("%r<4>", "%r<%laneid>", "is not an integer of 64 bits"),
    "registers without a type": (".reg .b32", ".reg .32", "unknown type"),
    "more registers than numbers": ("%r<4>", "%r<18446744073709551616>", "not an integer of 64"),
    "more registers than memory": ("%r<4>", "%r<4294967296>", "in so short a PTX"),
    "braces without end": ("mov.u32", "{" * 5000 + "mov.u32", "has no end"),
    "braces in each other": ("\tret;", "{" * 40 + "}" * 40 + "\tret;", "more than 32 braces"),
    "a comment without end": ("\tret;", "/* \tret;", "has no end"),
    "no opcode": ("mov.u32", "7", "expected a name"),
}


def run(text: str) -> None:
    out = np.zeros(4, np.int32)
    ptxemu.load(text).kernel("k").run(1, 1, [out], workers=1, limits=ptxemu.Limits.within(4, 1000))


def test_the_text_that_is_damaged_is_right() -> None:
    run(GOOD)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_text_is_an_error_with_its_place(name: str) -> None:
    was, becomes, told = DAMAGED[name]
    assert was in GOOD
    tracemalloc.start()
    try:
        with pytest.raises(PtxError, match=re.escape(told)) as caught:
            run(GOOD.replace(was, becomes))
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()
    assert caught.value.hint


PIECES = re.findall(r"\s+|[%$.\w]+|.", GOOD)
ODD = (
    "18446744073709551616",
    "-1",
    "0x",
    "09",
    "0f7FC0",
    "%r",
    "<",
    ">",
    "{",
    "}",
    ";",
    "[",
    ".b8",
)


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(PIECES) - 1),
            st.one_of(st.just(""), st.sampled_from(ODD), st.sampled_from(PIECES)),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_whatever_is_exchanged_no_other_error_comes(edits: list[tuple[int, str]]) -> None:
    pieces = list(PIECES)
    for place, becomes in edits:
        pieces[place] = becomes
    try:
        run("".join(pieces))
    except EmulatorError as error:
        assert str(error)
