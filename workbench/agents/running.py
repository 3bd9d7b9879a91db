"""A command as a process of its own, whose end is always ours: also where a client cancels it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from workbench.errors import DataError
from workbench.model import Record
from workbench.processes.ending import end_group, guarded
from workbench.views.shapes import ErrorDocument, ErrorFacts

#: Called with the seconds since the start and the last line that a command said.
Say = Callable[[float, str], Awaitable[None]]
#: Lines of standard error that an answer repeats, and characters of each.
_LINES, _WIDTH = 20, 300
#: No document of a command comes near this.
_MOST_BYTES = 256 << 20
#: Seconds between two signs of life.
_BEAT_S = 2.0
#: Seconds between Ctrl-C and SIGTERM.
_ORDERLY_S = 3.0


class _TooMuchError(Exception):
    """A command printed more than can be an answer."""


class Reply(Record, frozen=True):
    """What a command said: its document (or, of one without, its lines), notes, and its error."""

    document: Any = None
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    error: ErrorFacts | None = None


async def run_command(words: Sequence[str], root: Path, say: Say, *, json: bool = True) -> Reply:
    """Run ``workbench WORDS`` in the project's folder.

    Where the caller is cancelled, the command gets Ctrl-C, which keeps what it has finished, and
    then all of its processes are ended.

    Args:
        words: The command and its arguments.
        root: The project's folder.
        say: Told of every line on standard error, as it comes.
        json: It prints a document.

    Raises:
        DataError: it printed more than can be an answer.
    """
    # Safe path: a file of the project must not stand in for a module of ours.
    argv = [sys.executable, "-P", "-m", "workbench.cli", "--json-errors", *words]
    own = str(Path(__file__).resolve().parents[2])
    paths = [own, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    fixed = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1", "NO_COLOR": "1"}
    with guarded() as guard:
        process = await anyio.open_process(
            argv,
            stdin=subprocess.DEVNULL,
            cwd=root,
            env={**os.environ, **fixed, **guard.mark},
            start_new_session=True,
        )
        guard.tell(process.pid)
        try:
            output, told = await _heard(process, say, aloud=not json)
            await process.wait()
        finally:
            if process.returncode is None:
                with anyio.CancelScope(shield=True):
                    await _end(process)
    return _reply(output, told, process.returncode or 0, json=json)


async def _heard(process: anyio.abc.Process, say: Say, *, aloud: bool) -> tuple[bytes, list[str]]:
    """Standard output, and the lines of standard error; `aloud`: the former is lines as well."""
    output = bytearray()
    told: deque[str] = deque(maxlen=_LINES + 1)
    begin = time.monotonic()

    async def listen() -> None:
        assert process.stdout is not None
        async for chunk in process.stdout:
            output.extend(chunk)
            if len(output) > _MOST_BYTES:
                raise _TooMuchError
            if aloud:
                line = chunk.decode("utf-8", "replace").rstrip().rpartition("\n")[2]
                await say(time.monotonic() - begin, line[:_WIDTH])

    async def beat() -> None:
        while True:
            await anyio.sleep(_BEAT_S)
            await say(time.monotonic() - begin, told[-1][:_WIDTH] if told else "running")

    async def follow() -> None:
        assert process.stderr is not None
        rest = b""
        async for chunk in process.stderr:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                told.append(line.decode("utf-8", "replace"))
                await say(time.monotonic() - begin, told[-1][:_WIDTH])
        if rest:
            told.append(rest.decode("utf-8", "replace"))

    try:
        async with anyio.create_task_group() as beating:
            beating.start_soon(beat)
            async with anyio.create_task_group() as group:
                group.start_soon(listen)
                group.start_soon(follow)
            beating.cancel_scope.cancel()
    except* _TooMuchError as errors:
        raise DataError("the command printed too much", "Ask for less of it.") from errors
    return bytes(output), list(told)


async def _end(process: anyio.abc.Process) -> None:
    """Ctrl-C, so that it leaves in order; then the end of all its processes."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    with anyio.move_on_after(_ORDERLY_S):
        await process.wait()
    await anyio.to_thread.run_sync(end_group, process.pid)
    with anyio.move_on_after(_ORDERLY_S):
        await process.wait()


def _reply(output: bytes, told: list[str], code: int, *, json: bool) -> Reply:
    error = None
    if told and told[-1].startswith('{"error":'):
        with contextlib.suppress(msgspec.MsgspecError):
            error = msgspec.json.decode(told[-1], type=ErrorDocument).error
            told = told[:-1]
    document = None
    if json and output:
        document = msgspec.json.decode(output)
    if error is None and code and document is None:
        error = ErrorFacts(
            code=code if code > 0 else 70,
            message=f"the command ended with {code}: {' '.join(told[-3:])[:_WIDTH]}",
            hint="Run it on a terminal to see more.",
        )
    lines = () if json else tuple(output.decode("utf-8", "replace").splitlines())
    notes = tuple(line[:_WIDTH] for line in told[-_LINES:] if line)
    return Reply(document=document, lines=lines, notes=notes, error=error)
