"""Run a CUDA version's own source on the CPU: fibers for threads, g++'s sanitizers for faults.

tests/data/cpu_shim/shim.hpp stands in for CUDA. A wrong index, an unaligned vector
access or a missing barrier is found here before any GPU sees it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workbench.model import Problem
from workbench.specs import Version
from workbench.study.folder import Study, resolve_launches
from workbench.study.launches import (
    Argument,
    BufferArg,
    ResolvedLaunch,
    StructArg,
    TensorMapArg,
    TextureArg,
)

SHIM = Path(__file__).parent / "data" / "cpu_shim"
Arrays = dict[str, npt.NDArray[np.generic]]

_FLAGS = ("-std=c++17", "-O1", "-g1", "-w", "-fsanitize=address,undefined", "-fno-sanitize-recover")


def _written(argument: Argument) -> str:
    if isinstance(argument, StructArg):
        return f"{{{', '.join(map(_written, argument.members))}}}"
    if isinstance(argument, TensorMapArg | TextureArg):
        raise TypeError("nothing here reads a tensor map or a texture")
    return argument.name if isinstance(argument, BufferArg) else str(argument.value)


def _call(launch: ResolvedLaunch) -> str:
    grid, block = (",".join(map(str, extent)) for extent in (launch.grid, launch.block))
    args = ", ".join(_written(each) for each in launch.args if not isinstance(each, TensorMapArg))
    return f"shim::launch({{{grid}}}, {{{block}}}, [=] {{ {launch.kernel}({args}); }});"


def _case(study: Study, version: Version, problem: Problem, inputs: Arrays, index: int) -> str:
    lines = [f"// {problem.name}", "{"]
    for name, array in inputs.items():
        lines.append(f'float* {name} = shim::load("{index}.{name}", {array.size});')
    outputs = study.outputs(problem)
    for name, (shape, _) in outputs.items():
        lines.append(f"float* {name} = shim::poisoned({int(np.prod(shape))});")
    lines += [_call(launch) for launch in resolve_launches(study, version, problem)]
    for name, (shape, _) in outputs.items():
        lines.append(f'shim::save("{index}.{name}", {name}, {int(np.prod(shape))});')
    lines += [f"std::free({name});" for name in (*inputs, *outputs)]
    return "\n".join([*lines, "}"])


def run(
    study: Study,
    version: Version,
    problems: Sequence[Problem],
    inputs: Sequence[Arrays],
    folder: Path,
) -> list[Arrays]:
    """The outputs of a version (float32 buffers only) for each problem.

    Raises:
        AssertionError: the source does not compile, or a sanitizer stopped it; the
            message holds its report.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cases = []
    for index, (problem, arrays) in enumerate(zip(problems, inputs, strict=True)):
        for name, array in arrays.items():
            (folder / f"{index}.{name}").write_bytes(array.astype("float32").tobytes())
        cases.append(_case(study, version, problem, arrays, index))
    (folder / "kernel.cu").write_text(version.text, encoding="utf-8")
    main = ['#include "shim.hpp"', '#include "kernel.cu"', "int main() {", *cases, "}", ""]
    (folder / "main.cpp").write_text("\n".join(main), encoding="utf-8")
    built = subprocess.run(
        ["g++", *_FLAGS, f"-I{SHIM}", "-o", "main", "main.cpp"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0"}
    done = subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, env=env)
    assert done.returncode == 0, f"{version.id}: {done.stderr[:3000]}"
    return [
        {
            name: np.fromfile(folder / f"{index}.{name}", dtype="float32").reshape(shape)
            for name, (shape, _) in study.outputs(problem).items()
        }
        for index, problem in enumerate(problems)
    ]
