"""Compile libraries in C and C++ for this machine's own processor."""

from __future__ import annotations

from pathlib import Path

from workbench.compile.compilers import StoppedError, run_compiler
from workbench.disk.writing import private_folder
from workbench.errors import MissingError, WorkbenchError
from workbench.processes.bounds import Deadline

_TIMEOUT_S = 300.0


def built(
    compiler: str, source: Path, options: tuple[str, ...], failed: tuple[type[WorkbenchError], str]
) -> bytes:
    """Compile one file to a shared library.

    `options` follow those that make a library. `failed` is the error to raise if the file does not
    compile, and its hint.

    Raises:
        MissingError: the compiler does not run, or does not end in time.
        WorkbenchError: it does not compile (`failed`).
    """
    with private_folder() as holder:
        out = Path(holder) / "library.so"
        argv = [compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(out), *options]
        try:
            done = run_compiler(argv, Path(holder), Deadline(_TIMEOUT_S))
        except StoppedError as error:
            raise MissingError(
                f"{compiler} did not build {source.name}: it {error.took}",
                "Try again when this machine is less busy.",
            ) from error
        if done.returncode or not out.is_file():
            said = "\n  ".join(done.stderr.strip().splitlines()[:6])
            kind, hint = failed
            raise kind(f"{source.name} cannot be built with {compiler}:\n  {said}", hint)
        return out.read_bytes()
