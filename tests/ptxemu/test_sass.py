"""What a cubin says of a kernel, and how often its machine code ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.agreement.lines import assembled as recorded_module
from benchmarks.recordings import opened
from ptxemu.ptx.parser import parse
from ptxemu.sass import BRA, EXIT, Row, decode, functions_of, line_table
from tests.ptxemu.conftest import HEADER, Compile, assembled, execute
from workbench.compile import compilers
from workbench.errors import MissingError
from workbench.store import Store

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


def test_a_line_table_of_another_dwarf_is_not_guessed_at() -> None:
    text = bytearray(program(at() + b"\0\1\1"))
    text[4] = 5
    with pytest.raises(ValueError, match="DWARF 5"):
        line_table(bytes(text), {})


@given(st.binary(max_size=200))
def test_any_bytes_are_a_cubin_or_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        functions_of(data, "sm_90")


# --- instructions


@pytest.mark.parametrize(
    ("low", "high", "capability", "number", "target", "conditional", "apart"),
    [
        (0x0000000000581947, 0x000FEA0003800000, 90, 11, 34, True, False),  # @P1 BRA
        (0xFFFFFFFC00C08947, 0x010FEC000383FFFF, 90, 33, 18, True, False),  # @!P0 BRA, back
        (0x0000000400440947, 0x000FEA0003800000, 90, 124, 206, True, False),  # beyond eight bits
        (0x0000000400249947, 0x000FEA0005000000, 90, 130, 204, True, False),  # @!P1 BRA !P2
        (0xFFFFFFFC00FC7947, 0x000FC0000383FFFF, 90, 209, 209, False, False),  # to itself
        (0x0000000004047947, 0x000FEA000B800000, 90, 7, 9, True, True),  # BRA.DIV UR4
        (0x000006C000009947, 0x000FD80003800000, 80, 13, 122, True, False),  # @!P1 BRA
        (0xFFFFFFF000007947, 0x000FC0000383FFFF, 80, 128, 128, False, False),  # to itself
    ],
)
def test_where_branches_go(
    low: int, high: int, capability: int, number: int, target: int, conditional: bool, apart: bool
) -> None:
    word = low.to_bytes(8, "little") + high.to_bytes(8, "little")
    found = decode(bytes(16 * number) + word, number, capability, 1, "", 1)
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


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_the_code_of_every_chip_is_read(tmp_path: Path, arch: str) -> None:
    """Behind a kernel ptxas puts a branch to itself; what runs is about the same on all of them."""
    try:
        tool = compilers.choose("nvcc")
    except MissingError as error:
        pytest.skip(error.message)
    (tmp_path / "k.cu").write_text(SUM, encoding="utf-8")
    made = tool.compile(tmp_path, "k.cu", arch, ("-std=c++17", "-lineinfo"))
    assert not made.failed, made.log
    code = functions_of(made.cubin, arch)["sums"]
    jumps = [(number, each) for number, each in enumerate(code) if each.opcode == BRA]
    assert all(0 <= each.target < len(code) for _, each in jumps)
    number, last = jumps[-1]
    assert last.target == number and not last.conditional
    data = {"x": np.ones(1280, "f4"), "y": np.zeros(1, "f4")}
    module = parse(made.ptx, functions_of(made.cubin, arch))
    _, outcome = execute(module, "sums", data, ["x", "y", 1280], block=128)
    issued = outcome.machine_code()
    assert issued is not None and 440 < issued.total < 580  # 478 to 530, as ptxas 13.0 has them


def same_ptx(folder: str, keys: Collection[tuple[str, str]] = ()) -> int:
    """Recorded machine instructions whose line of PTX is the one that Nsight Compute names."""
    project, same = opened(REPO / "tests" / "data" / folder), 0
    store = Store.of(project)
    for entry in store.find(engine="ncu", device=project.default_device or None):
        if keys and (entry.study, entry.version) not in keys:
            continue
        profile = store.load(entry.path)
        assert profile.build is not None
        made = recorded_module(profile.build)
        lines = ["".join(line.split()) for line in profile.build.ptx.split("\n")]
        for launch in profile.launches:
            code = made.ptx.assembled.functions[launch.kernel]
            for each, said in zip(code, launch.instructions.ptx, strict=False):
                assert lines[each.ptx_line - 1].rstrip(";") == "".join(said.split()).rstrip(";")
                same += 1
    return same


@pytest.mark.nvcc
def test_ncu_names_the_same_lines_of_ptx() -> None:
    if compilers.find_nvcc() is None:
        pytest.skip("there is no nvcc on this machine")
    assert same_ptx("unseen3", {("unpack", "v1"), ("rmsnorm", "v1")}) >= 600


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("folder", "instructions"), [("unseen", 20_114), ("unseen2", 22_840), ("unseen3", 14_855)]
)
def test_ncu_names_the_same_lines_of_ptx_everywhere(folder: str, instructions: int) -> None:
    """All instructions of these kernels."""
    assert same_ptx(folder) == instructions


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


def test_ptx_of_one_chip_alone_is_assembled_for_that_chip(tmp_path: Path) -> None:
    text = HEADER.replace("sm_90", "sm_90a") + JOINED
    assert assembled(text, tmp_path).assembled.functions["k"]
