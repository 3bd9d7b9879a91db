"""What a cubin says of a kernel, and how often its machine code ran."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.emulator.conftest import HEADER, Compile, assembled, execute
from workbench.emulator.ptx.parser import parse
from workbench.emulator.sass.cubin import functions_of
from workbench.emulator.sass.linetable import Row, line_table
from workbench.emulator.sass.opcodes import BRA, EXIT, MachineInstr, decode

REPO = Path(__file__).resolve().parent.parent.parent


# --- line tables


def program(opcodes: bytes) -> bytes:
    """A line program as ptxas heads it: two folders, two files, lines from -5, 14 of them."""
    names = b"kernels/a\0cuda\0\0" + b"v0.cu\0\1\0\0" + b"mma.hpp\0\2\0\0" + b"\0"
    head = bytes((1, 1, 0xFB, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1)) + names
    body = b"\2\0" + len(head).to_bytes(4, "little") + head + opcodes
    return len(body).to_bytes(4, "little") + body


def at(address: int = 0) -> bytes:
    return b"\0\x09\2" + address.to_bytes(8, "little")


def test_rows_follow_the_opcodes() -> None:
    text = program(at() + b"\3\x0b\1" + bytes((10 + 14 * 16 + 6,)) + b"\4\2\3\x7e\2\x20\1\0\1\1")
    begin = text.index(b"\0\x09\2") + 3
    assert line_table(text, {begin: "k"}) == {
        "k": [Row(0, "kernels/a/v0.cu", 12), Row(16, "kernels/a/v0.cu", 13),
              Row(48, "cuda/mma.hpp", 11)]
    }  # fmt: skip


def test_the_first_row_of_an_address_counts_and_calls_are_passed_over() -> None:
    """Behind extended opcode 0x90 stands the line of what was inlined."""
    text = program(at() + b"\3\x04\1" + b"\0\3\x90\1\0" + b"\3\x05\1" + b"\0\1\1")
    assert line_table(text, {text.index(b"\0\x09\2") + 3: "k"})["k"] == [
        Row(0, "kernels/a/v0.cu", 5)
    ]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_cubin_or_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        functions_of(data)


# --- instructions


def instruction(low: int, high: int, number: int = 0) -> MachineInstr:
    return decode(bytes(16 * number) + low.to_bytes(8, "little") + high.to_bytes(8, "little"),
                  number, 1, "", 1)  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "number", "target", "conditional", "apart"),
    [
        (0x581947, 0x000FEA0003800000, 11, 34, True, False),  # @P1 BRA
        (0xFFFFFFFC00C08947, 0x0010FEC000383FFFF, 33, 18, True, False),  # @!P0 BRA, back
        (0x400440947, 0x000FEA0003800000, 124, 206, True, False),  # beyond eight bits
        (0x400249947, 0x000FEA0005000000, 130, 204, True, False),  # @!P1 BRA !P2
        (0xFFFFFFFC00FC7947, 0x000FC0000383FFFF, 209, 209, False, False),  # to itself
    ],
)
def test_where_branches_go(
    low: int, high: int, number: int, target: int, conditional: bool, apart: bool
) -> None:
    found = instruction(low, high & (1 << 64) - 1, number)
    assert (found.opcode, found.target) == (BRA, target)
    assert (found.conditional, found.apart) == (conditional, apart)


# --- whole kernels

SUM = """
extern "C" __global__ void sums(const float* x, float* y, int n) {
  __shared__ float part[128];
  float s = 0;
  for (int i = threadIdx.x; i < n; i += 128) s += x[i];
  part[threadIdx.x] = s;
  __syncthreads();
  for (int o = 64; o; o >>= 1) {
    if (threadIdx.x < o) part[threadIdx.x] += part[threadIdx.x + o];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
"""


def test_instructions_are_those_of_the_machine_code(cuda: Compile) -> None:
    """Straight code runs once a warp: as many as there are up to the last EXIT."""
    module = cuda("""extern "C" __global__ void k(float* y) { y[threadIdx.x] *= 3; }""")
    y = np.ones(64, "f4")
    _, outcome = execute(module, "k", {"y": y}, ["y"], block=64)
    code = module.assembled.functions["k"]
    last = max(number for number, each in enumerate(code) if each.opcode == EXIT)
    issued = outcome.machine_code()
    assert issued is not None and issued.total == 2 * (last + 1)


@pytest.mark.parametrize("turns", [1, 2, 3, 7, 64])
def test_pieces_of_an_unrolled_loop_share_its_turns(cuda: Compile, turns: int) -> None:
    """Thirty-two blocks issue thirty-two times what one does, and eight turns more take more."""
    module, totals = cuda(SUM), []
    for n, grid in ((128 * turns, 1), (128 * turns, 32), (128 * (turns + 8), 1)):
        data = {"x": np.ones(n, "f4"), "y": np.zeros(grid, "f4")}
        out, outcome = execute(module, "sums", data, ["x", "y", n], block=128, grid=grid)
        assert out["y"].tolist() == [n] * grid
        code = outcome.machine_code()
        assert code is not None
        totals.append(code.total)
    assert totals[1] == pytest.approx(32 * totals[0]) and totals[2] > totals[0]


JOINED = """.visible .entry k(.param .u64 p, .param .u64 q)
{
.reg .b64 %rd<9>; .reg .b32 %r<9>;
ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q];
mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 16; add.s64 %rd1, %rd1, %rd3;
mul.wide.u32 %rd4, %r1, 8; add.s64 %rd2, %rd2, %rd4;
ld.global.v2.u32 {%r2, %r3}, [%rd1];
ld.global.u32 %r4, [%rd1+8];
ld.global.u32 %r5, [%rd1+12];
add.s32 %r2, %r2, %r4; add.s32 %r3, %r3, %r5;
st.global.u32 [%rd2], %r2;
st.global.u32 [%rd2+4], %r3;
ret;
}
"""


def test_accesses_are_as_wide_as_the_machine_makes_them(tmp_path: Path) -> None:
    """What ptxas joined is one request; without its code each access is its own."""
    text = HEADER + JOINED.replace(";", ";\n")
    data = {"x": np.arange(128, dtype="u4"), "y": np.zeros(64, "u4")}
    known, unknown = (
        execute(module, "k", data, ["x", "y"])
        for module in (assembled(text, tmp_path), parse(text))
    )
    assert known[0]["y"].tolist() == unknown[0]["y"].tolist()
    made = Counter(row.instr.op for row in known[1].rows if row.site.requests)
    asked = Counter(row.instr.op for row in unknown[1].rows if row.site.requests)
    assert asked == {"ld": 3, "st": 2}
    code = Counter(
        "ld" if each.opcode == 0x181 else "st"
        for each in assembled(text, tmp_path).assembled.functions["k"]
        if each.moves
    )
    assert made == code
    assert unknown[1].machine_code() is None
