"""The child process that runs NVIDIA's native reader, and what becomes of its failures.

Of the half second that a first extraction takes, most is the same for every report:
starting Python, loading the reader, and the reader's first disassembly. `Standby`
starts a child that does all this beforehand, while there is something else to wait
for, and then takes one report.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from workbench.disk.limits import TIME_VARIABLE
from workbench.errors import DataError, MissingError
from workbench.ncurep.files import AGAIN

#: What the child process runs; it gets the report and the output file as arguments.
_CHILD = ("-m", "workbench.ncurep.extract")
_STANDBY = "--standby"
#: Its exit code where NVIDIA's reader cannot be imported (`extract.NO_READER`).
_NO_READER = 77


def _start(
    *arguments: str, stdin: int = subprocess.DEVNULL, folder: str = ""
) -> subprocess.Popen[bytes]:
    """Start the child; its temporary files go to `folder`, if one is named."""
    environment = dict(os.environ)
    if folder:
        environment |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), folder)
    # The child must find the same package, installed or not.
    root = str(Path(__file__).resolve().parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, (root, environment.get("PYTHONPATH", "")))
    )
    return subprocess.Popen(
        [sys.executable, *_CHILD, *arguments],
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.kill()
    # Also closes the pipes.
    with contextlib.suppress(OSError, ValueError):
        child.communicate()


class Standby:
    """A child that is ready to read one report. Use as a context manager.

    It is a matter of speed alone: whatever goes wrong with it, `extract` falls back to
    a child of its own.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        # Killed while it warms up, the child cannot remove its files itself.
        self._files = contextlib.ExitStack()
        with contextlib.suppress(OSError):
            folder = self._files.enter_context(tempfile.TemporaryDirectory(prefix="workbench-"))
            self._child = _start(_STANDBY, stdin=subprocess.PIPE, folder=folder)

    def __enter__(self) -> Standby:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        child, self._child = self._child, None
        if child is not None:
            _end(child)
        self._files.close()

    def extract(self, report: Path, output: Path, timeout_s: float) -> bool:
        """Hand the report over and wait; whether the output was written.

        Raises:
            TimeoutExpired: the child did not end in time, and was ended.
        """
        child, self._child = self._child, None
        if child is None or child.poll() is not None:
            return False
        order = json.dumps([str(report), str(output)]).encode() + b"\n"
        try:
            child.communicate(order, timeout=timeout_s)
        except OSError:
            return False
        finally:
            _end(child)
        return child.returncode == 0


def extract(
    report: Path, shown: Path, output: Path, timeout_s: float, standby: Standby | None = None
) -> None:
    """Run `workbench.ncurep.extract` over a report.

    Args:
        report: The uncompressed file.
        shown: Its name for messages.
        output: Where the child writes the profile's JSON.
        timeout_s: Time limit in seconds.
        standby: A child that waits for its report.

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
        raise DataError(
            f"{shown}: the native reader did not end within {timeout_s:g} s",
            f"The file is damaged, or very large: {TIME_VARIABLE}=N gives it N seconds.",
        ) from error
    finally:
        if child is not None:
            _end(child)
    if child.returncode < 0:
        with contextlib.suppress(ValueError):
            name = signal.Signals(-child.returncode).name
            raise DataError(f"{shown}: the native reader crashed on it ({name})", AGAIN)
    if child.returncode:
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        why = lines[-1] if lines else f"exit code {child.returncode}"
        if child.returncode == _NO_READER:
            raise MissingError(
                f"NVIDIA's report reader cannot be loaded ({why[:300]})",
                "Install it: `pip install ncu-report`. Recorded profiles are shown without it.",
            )
        raise DataError(f"{shown}: the native reader failed on it ({why[:300]})", AGAIN)
