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
import re
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
from workbench.language import template
from workbench.processes.starting import environment, limited, program
from workbench.project import cache_folder
from workbench.units import several

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
        words = template("Correct {path}; or write `reference` in study.py in NumPy.")
        wrong = UsageError, words.format(path=path)
        replace_file(folder, kept, built(compiler, path, _FLAGS, wrong))
    try:
        function = ctypes.CDLL(str(folder / kept))[name]
    except (OSError, AttributeError) as error:
        raise UsageError(
            f"{path.name} has no function `{name}`", f'Declare it as extern "C": {error}.'
        ) from error
    function.restype = None
    _apart(function, path, name, arguments)


Argument = npt.NDArray[np.generic] | int | float
#: Bytes behind every array, whole pages.
_BEHIND = 1 << 16


def _apart(function: Any, path: Path, name: str, arguments: Sequence[Argument]) -> None:
    """Call it in a process of its own: what ends that, an assertion or a wrong index, is told."""
    arrays = [each for each in arguments if isinstance(each, np.ndarray)]
    everyone = frozenset(range(len(arrays)))
    ended, found = _ran(function, arguments, everyone)
    if ended == -signal.SIGSEGV:  # what lies behind an array may be read for nothing
        ended, found = _ran(function, arguments, frozenset())
        if not ended:
            _check_past_the_end(function, path, name, arguments, found)
    if ended:
        how = f"was ended by {signal.Signals(-ended).name}" if ended < 0 else f"ended with {ended}"
        raise UsageError(
            f"{path.name}: the host's function {how}",
            "It was given the arrays in the order of study.py: see that sizes and indices fit.",
        )
    for array, result in zip(arrays, found, strict=True):
        array[...] = result.reshape(array.shape)


def _check_past_the_end(
    function: Any, path: Path, name: str, arguments: Sequence[Argument], found: Sequence[Any]
) -> None:
    """Raise where other bytes behind the arrays make another answer."""
    ended, other = _ran(function, arguments, frozenset(), b"\x7f")
    changed = 0
    for one, two in zip(found, other, strict=True):
        differs = one.view(f"V{one.itemsize}") != two.view(f"V{two.itemsize}")
        changed = changed or int(differs.sum())
    if not ended and not changed:
        return
    listed = re.search(rf"\b{name}\s*\(([^)]*)\)", path.read_text(errors="replace"))
    names = re.findall(r"(\w+)\s*(?:,|\Z)", listed[1]) if listed else []
    places = [i for i, each in enumerate(arguments) if isinstance(each, np.ndarray)]
    past = [
        names[place].removeprefix("given_") if place < len(names) else f"argument {place + 1}"
        for at, place in enumerate(places)
        if _ran(function, arguments, frozenset({at}))[0]
    ]
    raise UsageError(
        f"{path.name}: the host's function reads past the end of {' and '.join(past)}, and "
        f"{several(changed, 'element')} of its answer come of what lies there",
        f"Correct the bounds of its loops in {path}.",
    )


def _ran(
    function: Any, arguments: Sequence[Argument], fenced: frozenset[int], behind: bytes = b"\0"
) -> tuple[int, list[npt.NDArray[np.generic]]]:
    """Call it in a process of its own.

    Args:
        function: What is called.
        arguments: Of which arrays are copied.
        fenced: The arrays, by their number, behind which nothing can be read or written.
        behind: The byte that lies behind the others.

    Returns:
        Its exit code, or the number of the signal that ended it, below zero; what is in the arrays.
    """
    arrays = [each for each in arguments if isinstance(each, np.ndarray)]
    held, starts = [], []
    for array in arrays:
        pages = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        memory_ = mmap.mmap(-1, pages + _BEHIND)
        starts.append(pages - array.nbytes)
        memory_[starts[-1] : pages] = array.tobytes()
        if behind != b"\0":
            memory_[pages:] = behind * _BEHIND
        held.append(memory_)
    child = os.fork()
    if child == 0:
        try:
            faulthandler.disable()
            os.dup2(2, 1)  # what it prints is no output of ours
            begins = [ctypes.addressof(ctypes.c_char.from_buffer(each)) for each in held]
            for i in fenced:
                page = begins[i] + len(held[i]) - _BEHIND
                ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), _BEHIND, 0)
            pointers = (begin + start for begin, start in zip(begins, starts, strict=True))
            function(*(_given(each, pointers) for each in arguments))
            os._exit(0)
        finally:
            os._exit(1)
    try:
        _, status = os.waitpid(child, 0)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    found = [
        np.frombuffer(memory_, array.dtype, array.size, start)
        for memory_, array, start in zip(held, arrays, starts, strict=True)
    ]
    return os.waitstatus_to_exitcode(status), found


def _given(argument: Argument, pointers: Iterator[int]) -> object:
    if isinstance(argument, float):
        return ctypes.c_double(argument)
    if isinstance(argument, int):
        return ctypes.c_longlong(argument)
    return ctypes.c_void_p(next(pointers))
