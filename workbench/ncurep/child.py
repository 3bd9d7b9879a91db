"""The child process that runs NVIDIA's native reader, and the errors of its failures.

Most of a first extraction is the same for every report: starting Python, loading the reader, and
its first disassembly. `Standby` starts a child that does this beforehand and then takes one
report. `Readers` reads many with one start.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import IO

from workbench.disk.limits import SIZE_VARIABLE, TIME_VARIABLE
from workbench.disk.writing import private_folder
from workbench.errors import DataError, MissingError
from workbench.ncurep.files import AGAIN
from workbench.processes.starting import own_module

#: The module that the child process runs, with the report and the output file as arguments.
_CHILD = "workbench.ncurep.extract"
_STANDBY = "--standby"
#: Instead of both: reports come from standard input, and this line answers each.
ORDERS, DONE = "--orders", b"the report is read"
#: The child's exit code if NVIDIA's reader cannot be imported (`extract.NO_READER`).
_NO_READER = 77


def _start(
    *arguments: str,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
    stderr: int | IO[bytes] = subprocess.PIPE,
    folder: str = "",
) -> subprocess.Popen[bytes]:
    """Start the child; its temporary files go to `folder`, if one is named."""
    environment = dict(os.environ)
    if folder:
        environment |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), folder)
    start = own_module(_CHILD, *arguments, env=environment)
    return subprocess.Popen(
        start.argv, cwd=start.cwd, env=start.env, stdin=stdin, stdout=stdout, stderr=stderr
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.kill()
    # Also closes the pipes.
    with contextlib.suppress(OSError, ValueError):
        child.communicate()


class Standby:
    """A child that is ready to read one report. Use as a context manager.

    It only saves time: if anything goes wrong with it, `extract` falls back to a child of its own.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        # Killed while it warms up, the child cannot remove its files itself.
        self._files = contextlib.ExitStack()
        with contextlib.suppress(OSError):
            folder = self._files.enter_context(private_folder())
            self._child = _start(_STANDBY, stdin=subprocess.PIPE, folder=folder)

    def __enter__(self) -> Standby:
        return self

    def __exit__(self, *error: object) -> None:
        child, self._child = self._child, None
        if child is not None:
            _end(child)
        self._files.close()

    def extract(self, report: Path, output: Path, timeout_s: float) -> bool:
        """Hand the report over and wait; return whether the output was written.

        Raises TimeoutExpired: the child did not end in time, and was ended.
        """
        child, self._child = self._child, None
        if child is None or child.poll() is not None:
            return False
        try:
            child.communicate(_order(report, output), timeout=timeout_s)
        except OSError:
            return False
        finally:
            _end(child)
        return child.returncode == 0


class Readers:
    """Children that read one report after another. Use as a context manager.

    Threads may share them: each has a child of its own while it waits for a report. The half second
    that a child takes to start is a third of the time for a part of a large report.
    """

    def __init__(self) -> None:
        self._all: list[_Child] = []
        self._idle: list[_Child] = []

    def __enter__(self) -> Readers:
        return self

    def __exit__(self, *error: object) -> None:
        for reader in self._all:
            reader.end()

    def extract(self, report: Path, shown: Path, output: Path, timeout_s: float) -> None:
        """Run `extract` in a free child, with the same errors."""
        try:
            reader = self._idle.pop()
        except IndexError:
            self._all.append(reader := _Child())
        reader.extract(report.resolve(), shown, output, timeout_s)
        self._idle.append(reader)


class _Child:
    """A child that reads one report after another, and reports when each is done."""

    def __init__(self) -> None:
        # Its stderr is read when it has ended; a pipe would fill up before.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `end` closes it
        self._child = _start(
            ORDERS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )

    def extract(self, report: Path, shown: Path, output: Path, timeout_s: float) -> None:
        child, late = self._child, threading.Event()
        assert child.stdin is not None and child.stdout is not None

        def stop() -> None:
            late.set()
            child.kill()

        limit = threading.Timer(timeout_s, stop)
        limit.start()
        try:
            with contextlib.suppress(OSError):  # it has ended, and `_check` says why
                child.stdin.write(_order(report, output))
                child.stdin.flush()
            if any(line.rstrip() == DONE for line in child.stdout):
                return
            child.wait()
        finally:
            limit.cancel()
        if late.is_set():
            raise _too_late(shown, timeout_s)
        self._errors.seek(0)
        _check(child.returncode, self._errors.read(), shown)
        raise DataError(f"{shown}: the native reader gave no answer", AGAIN)

    def end(self) -> None:
        _end(self._child)
        self._errors.close()


def _order(report: Path, output: Path) -> bytes:
    """The order for a child that waits for orders."""
    return json.dumps([str(report), str(output)]).encode() + b"\n"


def extract(
    report: Path, shown: Path, output: Path, timeout_s: float, standby: Standby | None = None
) -> None:
    """Run `workbench.ncurep.extract` over a report.

    `shown` is its name for messages; the child writes the profile's JSON to `output`. `standby` is
    a child that waits for its report.

    Raises:
        DataError: the reader crashed, did not end, or failed on the file.
        MissingError: NVIDIA's reader is not installed.
    """
    path = report.resolve()
    child: subprocess.Popen[bytes] | None = None
    try:
        if standby is not None and standby.extract(path, output, timeout_s):
            return
        child = _start(str(path), str(output))
        _, errors = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise _too_late(shown, timeout_s) from error
    finally:
        if child is not None:
            _end(child)
    _check(child.returncode, errors, shown)


def _too_late(shown: Path, timeout_s: float) -> DataError:
    return DataError(
        f"{shown}: the native reader did not end within {timeout_s:g} s",
        f"The file is damaged, or very large: {TIME_VARIABLE}=N gives it N seconds.",
    )


def _check(code: int, errors: bytes, shown: Path) -> None:
    """Raise the error of a child that has ended, as `extract` does."""
    if code and b"[Errno 28] " in errors:
        raise MissingError(
            f"{shown}: no space left to read it",
            f"Free some space in {tempfile.gettempdir()}, or name another place with TMPDIR.",
        )
    if code and (b"bad_alloc" in errors or b"MemoryError" in errors):
        raise DataError(
            f"{shown}: the native reader took more memory than a report of its size needs",
            f"The file is damaged. If it is not: {SIZE_VARIABLE}=N allows N MiB.",
        )
    if code < 0:
        with contextlib.suppress(ValueError):
            name = signal.Signals(-code).name
            raise DataError(f"{shown}: the native reader crashed on it ({name})", AGAIN)
    if code:
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        why = lines[-1] if lines else f"exit code {code}"
        if code == _NO_READER:
            raise MissingError(
                f"NVIDIA's report reader cannot be loaded ({why[:300]})",
                "Install it: `pip install ncu-report`. Recorded profiles are shown without it.",
            )
        raise DataError(f"{shown}: the native reader failed on it ({why[:300]})", AGAIN)
