"""Kernels for the emulator: compiled from CUDA once a session, or written as PTX."""

from __future__ import annotations

import contextlib
import json
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptxemu
from ptxemu.counts import Counts
from ptxemu.launch import Argument
from ptxemu.ptx.instructions import Ptx
from ptxemu.ptx.parser import parse
from ptxemu.sass import functions_of
from workbench.callers import foreign
from workbench.compile import compilers
from workbench.errors import MissingError
from workbench.processes.bounds import Deadline
from workbench.study.launches import format_of

Array = np.ndarray[Any, np.dtype[Any]]
Compile = Callable[[str], Ptx]

HEADER = ".version 8.4\n.target sm_90\n.address_size 64\n"


class Lasting(compilers.Nvrtc):
    """NVRTC in one child for all: there are hundreds of kernels of a few lines.

    What nvcc makes of a kernel is what the tests of the ladders are about.
    """

    #: A request a line, an answer a line.
    _CODE = """
import json, os, sys
from workbench.compile import nvrtc
for line in sys.stdin:
    folder, request = json.loads(line)
    os.chdir(folder)
    print(json.dumps(nvrtc.answer(request)), flush=True)
"""
    _child: subprocess.Popen[str] | None = None

    def _ask(self, folder: Path, request: dict[str, object], limit: Deadline) -> dict[str, object]:
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-c", self._CODE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        child = self._child
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(json.dumps([str(folder), request]) + "\n")
        child.stdin.flush()
        if line := child.stdout.readline():
            answer: dict[str, object] = json.loads(line)
            return answer
        self.close()
        return {"missing": "it crashed"}

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()  # whoever was forked since then holds its standard input, too
            child.communicate()


@pytest.fixture(scope="session")
def compiler() -> Iterator[compilers.Nvcc | compilers.Nvrtc]:
    """What compiles the kernels here; skips where nothing does."""
    if version := compilers.nvrtc_version():
        with contextlib.closing(Lasting(version)) as lasting:
            yield lasting
    else:
        try:
            yield compilers.choose("auto")
        except MissingError as error:
            pytest.skip(error.message)


def compiled(tool: compilers.Nvcc | compilers.Nvrtc, folder: Path, arch: str) -> compilers.Output:
    """By nvcc where NVRTC crashes, or lacks a header of the host."""
    flags = ("-std=c++17", "-lineinfo")
    if isinstance(tool, Lasting):
        with contextlib.suppress(MissingError):
            output = tool.compile(folder, "k.cu", arch, flags)
            if not output.failed:
                return output
        tool = compilers.choose("auto")
    return tool.compile(folder, "k.cu", arch, flags)


def compiling(
    tmp_path_factory: pytest.TempPathFactory, tool: compilers.Nvcc | compilers.Nvrtc, arch: str
) -> Compile:
    known: dict[str, Ptx] = {}

    def get(text: str) -> Ptx:
        if text not in known:
            folder = tmp_path_factory.mktemp("cuda")
            (folder / "k.cu").write_text(text, encoding="utf-8")
            output = compiled(tool, folder, arch)
            assert not output.failed, output.log
            known[text] = parse(output.ptx, functions_of(output.cubin, arch), foreign)
        return known[text]

    return get


@pytest.fixture(scope="session")
def cuda(
    tmp_path_factory: pytest.TempPathFactory, compiler: compilers.Nvcc | compilers.Nvrtc
) -> Compile:
    """CUDA text -> parsed PTX for sm_90, with line numbers; skips without a compiler."""
    return compiling(tmp_path_factory, compiler, "sm_90")


@pytest.fixture(scope="session")
def hopper(
    tmp_path_factory: pytest.TempPathFactory, compiler: compilers.Nvcc | compilers.Nvrtc
) -> Compile:
    """The same for sm_90a: with what is of compute capability 9.0 alone."""
    return compiling(tmp_path_factory, compiler, "sm_90a")


def assembled(ptx: str, folder: Path, arch: str = "sm_90") -> Ptx:
    """PTX with the machine code that ptxas makes of it; skips without nvcc."""
    try:
        tool = compilers.choose("nvcc")
    except MissingError as error:
        pytest.skip(error.message)
    assert isinstance(tool, compilers.Nvcc)
    made = tool.assemble(folder, ptx, arch, ("-lineinfo",))
    assert not made.failed, made.log
    return parse(ptx, functions_of(made.cubin, arch), foreign)


def scalar(value: int | float, kind: str = "int") -> bytes:
    """A kernel argument by value, of a C type."""
    return struct.pack(f"@{format_of([kind])}", value)


def execute(
    module: Ptx,
    kernel: str,
    buffers: Mapping[str, Array],
    args: Sequence[str | int | float | Argument],
    *,
    grid: int | tuple[int, int, int] = 1,
    block: int | tuple[int, int, int] = 32,
    shared: int = 0,
    check: bool = False,
    unwritten: Sequence[str] = (),
    limit: int = 200_000,
    workers: int = 1,
    cooperative: bool = False,
) -> tuple[dict[str, Array], Counts]:
    """Run a kernel; strings are buffers, ints and floats are scalars of those types."""
    given = [
        scalar(each, "float" if isinstance(each, float) else "int")
        if isinstance(each, int | float)
        else each
        for each in args
    ]
    memory = ptxemu.Module(module).memory(buffers, unwritten)
    ran = ptxemu.Kernel(ptxemu.Module(module), kernel).run(
        grid, block, given, shared, memory=memory,
        check=check, limits=ptxemu.Limits(limit), workers=workers, cooperative=cooperative,
    )  # fmt: skip
    return ran.outputs, ran.counts


def elementwise(
    opcode: str, kinds: Sequence[str], inputs: Sequence[Array], out: str, more: str = ""
) -> Array:
    """``out[i] = opcode(inputs[0][i], …)`` in hand-written PTX, one thread an element.

    Args:
        opcode: With its modifiers, e.g. ``fma.rn.f32``.
        kinds: Memory type of each input (``f32``, ``u32``, ``b16``, ``pred`` is not there).
        inputs: One-dimensional arrays of equal length.
        out: Memory type of the result.
        more: Further operands, with their comma.
    """
    size = {"8": 1, "6": 2, "2": 4, "4": 8}
    lines = [HEADER, ".visible .entry k("]
    names = [*(f"x{i}" for i in range(len(inputs))), "y"]
    lines.append(",\n".join(f".param .u64 p_{name}" for name in names) + ")\n{")
    lines.append(".reg .b64 %rd<40>; .reg .b32 %r<4>;")
    register = dict(zip(names, [*kinds, out], strict=True))
    for name, kind in register.items():
        width = max(size[kind[-1]], 2)
        lines.append(f".reg .b{8 * width} %{name};")
    lines.append("mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.s32 %r1, %r2, 128, %r1;")
    for number, name in enumerate(names):
        width = size[register[name][-1]]
        lines.append(f"ld.param.u64 %rd1, [p_{name}];")
        lines.append(f"mul.wide.u32 %rd2, %r1, {width}; add.s64 %rd{10 + number}, %rd1, %rd2;")
    for number, (name, kind) in enumerate(zip(names, kinds, strict=False)):
        lines.append(f"ld.global.{kind} %{name}, [%rd{10 + number}];")
    operands = ", ".join(f"%{name}" for name in ["y", *names[:-1]])
    lines.append(f"{opcode} {operands}{more};")
    lines.append(f"st.global.{out} [%rd{10 + len(inputs)}], %y;\nret;\n}}")
    module = parse("\n".join(lines))
    count = len(inputs[0])
    padded = -(-count // 128) * 128
    buffers = {f"x{i}": np.pad(values, (0, padded - count)) for i, values in enumerate(inputs)}
    dtype = {"f32": "f4", "f64": "f8"}.get(out, f"{'i' if out[0] == 's' else 'u'}{size[out[-1]]}")
    buffers["y"] = np.zeros(padded, dtype)
    results, _ = execute(
        module, "k", buffers, [*(f"x{i}" for i in range(len(inputs))), "y"],
        grid=padded // 128, block=128,
    )  # fmt: skip
    return results["y"][:count]


@pytest.fixture(scope="session")
def ladder(reference: Path, cuda: Compile) -> Ptx:
    """The reference ladder's PTX, compiled here."""
    return cuda((reference / "ncu" / "ladder.cu").read_text(encoding="utf-8"))
