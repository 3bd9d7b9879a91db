"""Damaged and hostile PTX is an error that says so, in little time and memory."""

from __future__ import annotations

import contextlib
import re
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxemu
from ptxemu.errors import EmulatorError, PtxError
from tests.ptxemu.conftest import Array, compiled, scalar
from tests.ptxemu.test_bulk import CHANGED, RING

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
    "braces without end": ("mov.u32", "{" * 5000 + "mov.u32", "unclosed block"),
    "nested braces": ("\tret;", "{" * 40 + "}" * 40 + "\tret;", "more than 32 nested braces"),
    "a comment without end": ("\tret;", "/* \tret;", "unclosed block"),
    "no opcode": ("mov.u32", "7", "expected a name"),
    "a call of nothing": ("mov.u32 %r1, 5", "call", "it names no function"),
    "an opcode alone": ("mov.u32 %r1, 5", "mbarrier", "its operation is missing"),
    "a wait for no phase": (
        "mov.u32 %r1, 5",
        "mbarrier.try_wait %r1, [%rd1]",
        "cannot be interpreted",
    ),
    "more threads than numbers": (
        ")\n{",
        ")\n.reqntid 4294967296\n{",
        "numbers from 1 to 4294967295",
    ),
    "a cluster of no blocks": (
        ")\n{",
        ")\n.reqnctapercluster 0\n{",
        "numbers from 1 to 4294967295",
    ),
}


ARRAY = np.zeros(128, np.int32)


def run(text: str, kernel: str = "k", args: Sequence[Array | bytes] = (ARRAY,)) -> None:
    limits = ptxemu.Limits.within(4, 1000)
    ptxemu.load(text).kernel(kernel).run(1, 32, args, 4096, workers=1, limits=limits)


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


ODD = ("18446744073709551616", "-1", "0x", "09", "0f7FC0", "%r", *"<>{};[@_", ".b8")
#: Where in a text, by thousandths of a percent, and what stands there then: a number of its own.
PLACES = st.integers(0, 99_999)
EDITS = st.lists(
    st.tuples(PLACES, st.one_of(st.just(""), st.sampled_from(ODD), PLACES)), min_size=1, max_size=4
)


def edited(text: str, edits: list[tuple[int, str | int]]) -> str:
    """The text with some of its words left out, or exchanged for others."""
    pieces = re.findall(r"\s+|[%$.\w]+|.", text)
    words = list(pieces)
    for place, becomes in edits:
        new = becomes if isinstance(becomes, str) else pieces[becomes * len(pieces) // 100_000]
        words[place * len(pieces) // 100_000] = new
    return "".join(words)


@settings(max_examples=150)
@given(EDITS)
def test_whatever_is_exchanged_no_other_error_comes(edits: list[tuple[int, str | int]]) -> None:
    with contextlib.suppress(EmulatorError):
        run(edited(GOOD, edits))


REAL = {
    "ring": (RING, (ARRAY, ARRAY, scalar(3))),
    "changed": (CHANGED, (bytes(128), *3 * (ARRAY,), scalar(1), scalar(44), scalar(1))),
}


@pytest.mark.nvcc
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kernel", REAL)
def test_nor_in_what_a_compiler_wrote(kernel: str, tmp_path: Path, compiler: Any) -> None:
    text, args = REAL[kernel]
    (tmp_path / "k.cu").write_text(text)
    ptx = compiled(compiler, tmp_path, "sm_90a").ptx

    @settings(max_examples=60)
    @given(EDITS)
    def holds(edits: list[tuple[int, str | int]]) -> None:
        begin = time.monotonic()
        with contextlib.suppress(EmulatorError):
            run(edited(ptx, edits), kernel, args)
        assert time.monotonic() - begin < 30

    holds()
