"""Programs in C and C++ for this machine's own processor: libraries, built once and kept.

A study whose reference is a function of the host (``reference.cpp`` beside its ``study.py``) calls
it with `call`: compiled when the study is first verified, and kept under the hash of its text.
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import platform
import signal
import subprocess
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import workbench.processes.following  # noqa: F401 - what is forked here ends with us
from workbench.disk.limits import SOURCE, memory, read_regular
from workbench.disk.writing import private_folder, replace_file
from workbench.errors import MissingError, UsageError, WorkbenchError
from workbench.processes.starting import environment, limited, program
from workbench.project import cache_folder

_TIMEOUT_S = 60.0
#: Every operation is rounded as it is written.
_FLAGS = ("-ffp-contract=off", "-std=c++17", "-w")


def built(
    compiler: str, source: Path, options: tuple[str, ...], failed: tuple[type[WorkbenchError], str]
) -> bytes:
    """A shared library made of one file.

    Args:
        compiler: The program.
        source: The file.
        options: What follows on what makes a library.
        failed: What to raise where the file does not compile, and what to do then.

    Raises:
        MissingError: the compiler does not run.
        WorkbenchError: it does not compile; as `failed` says.
    """
    with private_folder() as holder:
        out = Path(holder) / "library.so"
        argv = [compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(out), *options]
        try:
            done = subprocess.run(
                limited(argv, memory()),
                cwd=holder,
                env=environment(),
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MissingError(f"{compiler} does not run: {error}", "Repair it.") from error
        if done.returncode or not out.is_file():
            said = "\n  ".join(done.stderr.strip().splitlines()[:6])
            kind, hint = failed
            raise kind(f"{source.name} cannot be built with {compiler}:\n  {said}", hint)
        return out.read_bytes()


def call(path: Path, name: str, *arguments: npt.NDArray[np.generic] | int | float) -> None:
    """Call a function of a C++ file, which is compiled where that was not done yet.

    Args:
        path: The file.
        name: An ``extern "C"`` function of it.
        *arguments: Arrays are given as pointers, integers as ``long long``, floats as ``double``.

    Raises:
        UsageError: it does not compile, has no such function, or that does not come to its end.
        MissingError: there is no C++ compiler.
    """
    compiler = program(os.environ.get("CXX") or "c++") or program("g++")
    if compiler is None:
        raise MissingError(
            f"no C++ compiler was found to build {path.name} with",
            "Install g++ or clang++, name one in CXX, or write `reference` in NumPy.",
        )
    text = read_regular(path, SOURCE)
    made_of = f"{compiler} {_FLAGS} {platform.machine()}".encode()
    folder, kept = cache_folder("host"), f"{sha256(text + made_of).hexdigest()[:32]}.so"
    if not (folder / kept).is_file():
        wrong = UsageError, f"Correct {path}; or write `reference` in study.py in NumPy."
        replace_file(folder, kept, built(compiler, path, _FLAGS, wrong))
    try:
        function = ctypes.CDLL(str(folder / kept))[name]
    except (OSError, AttributeError) as error:
        raise UsageError(
            f"{path.name} has no function `{name}`", f'Declare it as extern "C": {error}.'
        ) from error
    function.restype = None
    _apart(function, path, arguments)


def _apart(
    function: Any, path: Path, arguments: Sequence[npt.NDArray[np.generic] | int | float]
) -> None:
    """Call it in a process of its own: what ends that, an assertion or a wrong index, is told."""
    arrays = [each for each in arguments if isinstance(each, np.ndarray)]
    shared = [mmap.mmap(-1, max(1, each.nbytes)) for each in arrays]
    for held, array in zip(shared, arrays, strict=True):
        held.write(array.tobytes())
    child = os.fork()
    if child == 0:
        try:
            faulthandler.disable()
            os.dup2(2, 1)  # what it prints is no output of ours
            memories = iter(shared)
            function(*(_given(each, memories) for each in arguments))
            os._exit(0)
        finally:
            os._exit(1)
    try:
        _, status = os.waitpid(child, 0)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    if status:
        number = os.waitstatus_to_exitcode(status)
        how = (
            f"was ended by {signal.Signals(-number).name}" if number < 0 else f"ended with {number}"
        )
        raise UsageError(
            f"{path.name}: the host's function {how}",
            "It was given the arrays in the order of study.py: see that sizes and indices fit.",
        )
    for held, array in zip(shared, arrays, strict=True):
        array[...] = np.frombuffer(held, array.dtype, array.size).reshape(array.shape)


def _given(
    argument: npt.NDArray[np.generic] | int | float, memories: Iterator[mmap.mmap]
) -> object:
    if isinstance(argument, float):
        return ctypes.c_double(argument)
    if isinstance(argument, int):
        return ctypes.c_longlong(argument)
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(next(memories))))
