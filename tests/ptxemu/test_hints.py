"""Every hint of the code: the commands, options and pages that it names are there, and it helps.

Hints are what an error says after its message. Here all of them are read from the code; those
of the emulator's faults are followed, an edit each, or it is said where else they are.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import pytest

import ptxemu
from tests.fixtures import REPO
from tests.ptxemu.conftest import Compile, execute
from tests.ptxemu.ptxwords import PRELUDE
from tests.ptxemu.test_faults import FAULTS
from tests.test_documentation import parsed, words
from workbench import cli
from workbench.session.manual import page

_VALUE = "1"


class Hint(NamedTuple):
    """Where it stands, and its words; `{}` where a value comes in."""

    place: str
    text: str


def _text(node: ast.AST) -> Iterator[str]:
    """The texts that an expression may give."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(next(_text(part), "{}") for part in node.values)
    elif isinstance(node, ast.BinOp):
        yield "".join(next(_text(part), "{}") for part in (node.left, node.right))
    elif isinstance(node, ast.IfExp):
        yield from _text(node.body)
        yield from _text(node.orelse)


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def hints(package: str) -> list[Hint]:
    """The hints of a package: what an error or a fault is given after its message."""
    found = []
    for path in sorted((REPO / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or len(node.args) < 2:
                continue
            name = _called(node)
            if name.endswith(("Error", "error")) or name in ("Fault", "Unsupported", "fail"):
                place = f"{path.relative_to(REPO).as_posix()}:{node.lineno}"
                found += [Hint(place, text) for text in _text(node.args[-1]) if " " in text]
    return found


@functools.cache
def all_hints() -> list[Hint]:
    return [*hints("workbench"), *hints("ptxemu")]


#: Options of other programs that hints name: ncu's, a container's, pip's, a queue's.
FOREIGN = {
    "--cap-add", "--force-reinstall", "--gres", "--kernel-name", "--launch", "--launch-count",
    "--launch-skip", "--nvtx", "--nvtx-include", "--set", "--section", "--metrics", "--page",
    "--csv", "--host", "--format", "--mode", "--help", "--kernel-id", "--import", "--unified",
}  # fmt: skip


def test_there_are_hints_to_check() -> None:
    assert len(all_hints()) > 400
    assert sum("workbench " in hint.text for hint in all_hints()) > 30


def test_a_command_that_a_hint_names_is_one() -> None:
    named = [
        (hint.place, command)
        for hint in all_hints()
        for command in re.findall(r"`(workbench [^`…]+)`", hint.text)
    ]
    for place, command in named:
        arguments = (words(command.replace("{}/{}", "s/v1").replace("{}", _VALUE)) or [])[1:]
        said, whole = f"{place}: {command}", "{}" not in command
        assert arguments and (arguments[0] in cli.COMMANDS or arguments[0].startswith("-")), said
        pages = arguments[1:] if arguments[0] == "docs" and whole else []
        if pages and pages[0] != "schema":
            assert page(arguments[1]).startswith(("#", "---"))
        try:
            parsed(arguments)
        except click.MissingParameter:  # a mention of a command, whose arguments are another matter
            assert len(arguments) == 1 or not whole, said
        except click.BadParameter:  # of a value that stands for another one
            assert not whole, said


def test_an_option_that_a_hint_names_is_one() -> None:
    ours = {"--debug", "--json-errors", "--version"}
    for name in cli.COMMANDS:
        command = cli.app.get_command(click.Context(cli.app), name)
        assert command is not None
        ours |= {
            each for option in command.params for each in (*option.opts, *option.secondary_opts)
        }
    named = {
        option: hint.place
        for hint in all_hints()
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", hint.text)
    }
    assert len(named) > 30
    assert {each: at for each, at in named.items() if each not in ours | FOREIGN} == {}


# --- the emulator's faults, followed ---------------------------------------------------------


class Followed(NamedTuple):
    """A wrong body of a kernel `k(x, y, n)`, part of the hint, and the body that follows it."""

    wrong: str
    hint: str
    right: str
    shared: int = 0


TILE = "__shared__ float tile[64];\n"
FOLLOWED = {
    "several warps add": Followed(
        TILE + "if (t == 0) tile[0] = 0;\n__syncthreads();\ntile[0] += x[t];\n__syncthreads();\n"
        "y[t] = tile[0];",
        "or use an atomic",
        TILE + "if (t == 0) tile[0] = 0;\n__syncthreads();\natomicAdd(&tile[0], x[t]);\n"
        "__syncthreads();\ny[t] = tile[0];",
    ),
    "one element of many": Followed(
        "y[0] = t;\ny[t] = 1;", "let one thread store it", "if (t == 0) y[0] = t;\ny[t] = 1;"
    ),
    "many elements": Followed(
        "y[t / 2] = t;\ny[t] = t;", "Give every thread an element of its own", "y[t] = t;"
    ),
    "no dynamic memory": Followed(
        "extern __shared__ float d[];\nd[t] = x[0];\n__syncthreads();\ny[t] = d[t];",
        "Launch with the bytes that",
        "extern __shared__ float d[];\nd[t] = x[0];\n__syncthreads();\ny[t] = d[t];",
        256,
    ),
    "a mask that lacks its lane": Followed(
        "y[t] = __shfl_sync(0x0000ffffu, x[t], 0);",
        "must name every lane that calls it",
        "y[t] = __shfl_sync(0xffffffffu, x[t], 0);",
    ),
    "an early return": Followed(
        TILE + "if (t >= 40) return;\ntile[t] = x[t];\n__syncthreads();\ny[t] = tile[63 - t];",
        "guard the last store instead of returning early",
        TILE + "tile[t] = x[t];\n__syncthreads();\nif (t < 40) y[t] = tile[63 - t];",
    ),
}  # fmt: skip
#: What the bodies below are written in besides `PRELUDE`.
WORDS = r"""
#define DO(text) asm volatile(text ::: "memory")
#define SPREAD(to, from, n, b, mask) \
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes" \
                 ".multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(at(to)), "l"(from), \
                 "r"(n), "r"(at(&b)), "h"((short)(mask)) : "memory")
#define STORE(to, from, n) \
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), \
                 "r"(at(from)), "r"(n) : "memory")
#define ARRIVE DO("barrier.cluster.arrive;")
#define MEET DO("barrier.cluster.wait;")
__device__ unsigned rank() {
    unsigned r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
__device__ float there(uint32_t place, unsigned rank) {
    float v;
    asm volatile("{.reg .b32 a;\nmapa.shared::cluster.u32 a, %1, %2;\n"
                 "ld.shared::cluster.f32 %0, [a];}" : "=f"(v) : "r"(place), "r"(rank) : "memory");
    return v;
}
__device__ uint64_t matrix(uint32_t place) {  // 16 bytes and 128 from core matrix to core matrix
    return (uint64_t)(place >> 4 & 0x3fff) | 8ull << 16 | 16ull << 32;
}
#define PRODUCT(a, b) \
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, " \
                 "1, 1, 1, 0, 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
                 : "l"(matrix(a)), "l"(matrix(b)) : "memory")
"""
BAR = "__shared__ uint64_t b;\n__shared__ __align__(128) float s[64];\n"
READY = BAR + "if (t == 0) init(&b, 1);\n__syncthreads();\n"
COPY = READY + "if (t == 0) { expect(&b, 256); bulk(s, x, 256, &b); }\n"
OUT = BAR + 's[t] = 1;\nDO("fence.proxy.async.shared::cta;");\n__syncthreads();\n'
PAIR = BAR + "s[t] = t;\nARRIVE; MEET;\n"
SPREADING = READY + "EXPECT_ALL\nARRIVE; MEET;\nif (t == 0 && rank() == 0) "
TILES = (
    "__shared__ __align__(128) unsigned short a[1024], b[128];\nfloat d[4] = {};\n"
    "for (int i = t; i < 1024; i += 128) { a[i] = 0; b[i % 128] = 0; }\n"
    'DO("fence.proxy.async.shared::cta;");\n__syncthreads();\n'
)
FENCE = 'DO("wgmma.fence.sync.aligned;");\n'
DONE = 'DO("wgmma.commit_group.sync.aligned;");\nDO("wgmma.wait_group.sync.aligned 0;");\n'
#: The same of compute capability 9.0: blocks in pairs, or of 128 threads where they multiply.
CHIP = {
    "an mbarrier that was just made": Followed(
        BAR + "if (t == 0) init(&b, 1);\nif (t == 32) { expect(&b, 256); bulk(s, x, 256, &b); }\n"
        "wait(&b, 0);\ny[t] = s[t];",
        "Put a __syncthreads() (of a cluster: its barrier) between",
        READY + "if (t == 32) { expect(&b, 256); bulk(s, x, 256, &b); }\nwait(&b, 0);\n"
        "y[t] = s[t];",
    ),
    "more bytes than are copied": Followed(
        COPY.replace("expect(&b, 256)", "expect(&b, 512)") + "wait(&b, 0);\ny[t] = s[t];",
        "and the bytes of expect_tx against those that are copied",
        COPY + "wait(&b, 0);\ny[t] = s[t];",
    ),
    "a copy that outlives its block": Followed(
        OUT + "if (t == 0) STORE(y, s, 256);",
        "Run cp.async.bulk.commit_group after it, and cp.async.bulk.wait_group.read 0",
        OUT + 'if (t == 0) { STORE(y, s, 256); DO("cp.async.bulk.commit_group;");\n'
        'DO("cp.async.bulk.wait_group.read 0;"); }',
    ),
    "a chunk that is not whole": Followed(
        COPY.replace("256", "200") + "wait(&b, 0);\nif (t < 50) y[t] = s[t];",
        "Copy whole chunks of 16 bytes, and the rest with ordinary loads",
        COPY.replace("256", "192") + "wait(&b, 0);\nif (t < 50) y[t] = t < 48 ? s[t] : x[t];",
    ),
    "a copy for three of two": Followed(
        SPREADING.replace("EXPECT_ALL", "if (t == 0) expect(&b, 256);")
        + "SPREAD(s, x, 256, b, 7);\nwait(&b, 0);\nARRIVE; MEET;\nif (rank() == 0) y[t] = s[t];",
        "Set one bit of the mask for each rank",
        SPREADING.replace("EXPECT_ALL", "if (t == 0) expect(&b, 256);")
        + "SPREAD(s, x, 256, b, 3);\nwait(&b, 0);\nARRIVE; MEET;\nif (rank() == 0) y[t] = s[t];",
    ),
    "past the other block's memory": Followed(
        PAIR + "float v = there(at(s) + 4 * (t + 1000000), 1);\nARRIVE; MEET;\n"
        "if (rank() == 0) y[t] = v;",
        "Check the index against the array's size",
        PAIR + "float v = there(at(s) + 4 * t, 1);\nARRIVE; MEET;\nif (rank() == 0) y[t] = v;",
    ),
    "between two elements": Followed(
        PAIR + "float v = there(at(s) + 2 * t + 2, 1);\nARRIVE; MEET;\nif (rank() == 0) y[t] = v;",
        "bytes: use __align__.",
        PAIR + "float v = there(at(s) + 4 * (t / 2), 1);\nARRIVE; MEET;\n"
        "if (rank() == 0) y[t] = v;",
    ),
    "a rank that is none": Followed(
        PAIR + "float v = there(at(s), 5);\nARRIVE; MEET;\nif (rank() == 0) y[t] = v;",
        "Check the rank against the cluster's size",
        PAIR + "float v = there(at(s), 1);\nARRIVE; MEET;\nif (rank() == 0) y[t] = v;",
    ),
    "a block that is gone": Followed(
        PAIR + "if (rank() == 1) return;\n__syncthreads();\ny[t] = there(at(s) + 4 * t, 1);",
        "must wait for its cluster before it exits",
        PAIR + "if (rank() == 1) { ARRIVE; MEET; return; }\n__syncthreads();\n"
        "y[t] = there(at(s) + 4 * t, 1);\nARRIVE; MEET;",
    ),
    "half of a block": Followed(
        "if (t < 32) { ARRIVE; MEET; }\n__syncthreads();\nif (rank() == 0) y[t] = 1;",
        "Every thread of every block of a cluster must arrive",
        "ARRIVE; MEET;\n__syncthreads();\nif (rank() == 0) y[t] = 1;",
    ),
    "nobody arrived": Followed(
        "MEET;\nif (rank() == 0) y[t] = 1;",
        "Each thread must run barrier.cluster.arrive before",
        "ARRIVE; MEET;\nif (rank() == 0) y[t] = 1;",
    ),
    "a product without its fence": Followed(
        TILES + "PRODUCT(at(a), at(b));\n" + DONE + "if (t < 100) y[t] = d[0];",
        "Run wgmma.fence before the first wgmma.mma_async",
        TILES + FENCE + "PRODUCT(at(a), at(b));\n" + DONE + "if (t < 100) y[t] = d[0];",
    ),
    "sums too early": Followed(
        TILES + FENCE + "PRODUCT(at(a), at(b));\nif (t < 100) y[t] = d[0];\n" + DONE,
        "Run wgmma.commit_group after wgmma.mma_async, and wgmma.wait_group before",
        TILES + FENCE + "PRODUCT(at(a), at(b));\n" + DONE + "if (t < 100) y[t] = d[0];",
    ),
    "half of a warpgroup": Followed(
        TILES + "if (t < 64) {\n" + FENCE + "PRODUCT(at(a), at(b));\n" + DONE + "}\n"
        "if (t < 100) y[t] = d[0];",
        "All threads of four warps",
        TILES + FENCE + "PRODUCT(at(a), at(b));\n" + DONE + "if (t < 100) y[t] = d[0];",
    ),
    "a matrix past the end": Followed(
        TILES + FENCE + "PRODUCT(at(a) + 65536, at(b));\n" + DONE + "if (t < 100) y[t] = d[0];",
        "Check the descriptor's start and offsets",
        TILES + FENCE + "PRODUCT(at(a), at(b));\n" + DONE + "if (t < 100) y[t] = d[0];",
    ),
}  # fmt: skip
#: Faults, by file or by how their hints begin, whose hints are followed elsewhere: by the right
#: version beside the wrong ones.
ELSEWHERE = {
    "The first phase of an mbarrier has parity 0": "tests/data/broken/kernels/hopper/v0_right.cu",
    "ptxemu/ops/tensors.py": "tests/data/broken/kernels/windows/v0_right.cu",
    "ptxemu/ops/wmma.py": "tests/ptxemu/test_wmma.py",
    "ptxemu/faults/polled.py": "tests/ptxemu/test_waiting.py",
}
#: What no edit of a kernel brings about, or what is a limit and no advice.
LIMITS = (
    "A block has at most {} bytes.", "A thread has at most {} bytes.",
    "A variable has no value on some path", "Check the copy's address and size",
    "All threads that the mask of a `_sync` function names",
)  # fmt: skip


def judged(
    cuda: Compile, body: str, shared: int, *, grid: int = 1, block: int = 64
) -> ptxemu.Fault | None:
    about = PRELUDE + WORDS if grid * block > 64 else ""
    pairs = f"__cluster_dims__({grid}) " if grid > 1 else ""
    head = f'{about}extern "C" __global__ void {pairs}k(const float* x, float* y, int n) {{\n'
    head += "int t = threadIdx.x;"
    buffers = {"x": np.ones(100, "f4"), "y": np.zeros(100, "f4")}
    try:
        execute(
            cuda(f"{head}\n{body}\n}}"), "k", buffers, ["x", "y", 100],
            grid=grid, block=block, shared=shared, check=True, unwritten=["y"],
            limit=5_000,
        )  # fmt: skip
    except ptxemu.Fault as fault:
        return fault
    return None


@pytest.mark.nvcc
@pytest.mark.parametrize("name", FOLLOWED)
def test_a_faults_hint_is_followed_and_helps(cuda: Compile, name: str) -> None:
    case = FOLLOWED[name]
    fault = judged(cuda, case.wrong, 0)
    assert fault is not None and case.hint in fault.hint, fault
    after = judged(cuda, case.right, case.shared)
    assert after is None, after


@pytest.mark.nvcc
@pytest.mark.parametrize("name", CHIP)
def test_a_hint_of_one_chips_instructions_is_followed_and_helps(hopper: Compile, name: str) -> None:
    case = CHIP[name]
    shape = {"block": 128} if "PRODUCT" in case.wrong else {"grid": 2}
    fault = judged(hopper, case.wrong, 0, **shape)
    assert fault is not None and case.hint in fault.hint, fault
    after = judged(hopper, case.right, case.shared, **shape)
    assert after is None, after


def test_every_hint_of_a_fault_is_followed_somewhere() -> None:
    left = []
    followed = [each.hint for each in (FOLLOWED | CHIP | FAULTS).values() if each.hint]
    for path in sorted((REPO / "ptxemu").rglob("*.py")):
        name = path.relative_to(REPO).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or _called(node) != "Fault" or len(node.args) < 2:
                continue
            for text in _text(node.args[-1]):
                here = any(hint in text for hint in followed)
                known = name in ELSEWHERE or text.startswith((*LIMITS, *ELSEWHERE))
                if not (here or known):
                    left.append((f"{name}:{node.lineno}", text))
    assert left == []
    assert all((REPO / Path(other)).is_file() for other in ELSEWHERE.values())
