"""Commands in forked processes that can be killed, and what must hold after any of them.

A fork of a process that has imported everything answers in a tenth of the time that Python needs
to start. What it leaves behind comes to us (``PR_SET_CHILD_SUBREAPER``), so nothing can hide.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple, TextIO

import msgspec
import zstandard

from tests.attacks.book import book
from tests.processes import runs
from workbench.disk.writing import is_temporary
from workbench.model import Profile, Timing
from workbench.store.codec import decode
from workbench.views.html.site import MANIFEST

#: No command of these attacks needs a tenth of it on an idle machine; others give it more.
HANG_S = float(os.environ.get("WORKBENCH_ATTACK_HANG_S", "120"))
INTERNAL = 70
#: Of <sys/prctl.h>.
_PR_SET_CHILD_SUBREAPER = 36


class Ended(NamedTuple):
    """How a command ended: its exit code (negative: a signal), and what it wrote."""

    code: int
    text: str


def adopt(on: bool) -> None:
    """Make this process the one that orphans of its children are given to."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)


def children() -> set[int]:
    """Children of this process, adopted ones among them."""
    found: set[int] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found.update(map(int, task.read_text().split()))
    return found


def _left(known: set[int], within_s: float = 20.0) -> list[str]:
    """What outlives its parent, however long it is given; it is then ended."""
    end = time.monotonic() + within_s
    while True:
        others = children() - known
        for pid in others:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        left = [pid for pid in others if runs(pid)]
        if not left or time.monotonic() > end:
            break
        time.sleep(0.01)
    told = []
    for pid in left:
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            told.append(f"{pid}: {words}")
            os.kill(pid, signal.SIGKILL)
    return told


def start(
    act: Callable[[], object], folder: Path, log: Path, streams: Callable[[], object] = int
) -> int:
    """Run something in a forked process that leads a session of its own; its pid.

    Args:
        act: What to run; an `int` that it returns is the exit code.
        folder: The working folder.
        log: Takes standard output and error.
        streams: Called when those stand: what to do to them.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = INTERNAL
    try:
        os.setsid()
        os.chdir(folder)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # pytest-timeout has one of its own
        signal.alarm(int(HANG_S))
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        os.close(handle)
        streams()
        # pytest's own replacements hold on to its files.
        sys.stdout, sys.stderr = _stream(1), _stream(2)
        try:
            result = act()
            code = result if isinstance(result, int) else 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _stream(number: int) -> TextIO:
    """As Python makes it at its start, from the same variable."""
    coding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    try:
        return open(number, "w", encoding=coding or "utf-8", errors=errors or None, closefd=False)
    except OSError:
        return None  # type: ignore[return-value]  # closed, as Python has it


def command(line: str | list[str]) -> Callable[[], object]:
    """What runs ``workbench LINE``; a folder to `init` is made first."""
    words = line.split() if isinstance(line, str) else line

    def act() -> object:
        from workbench.cli import main

        if isinstance(line, str) and words[0] == "init" and not Path(words[1]).exists():
            Path(words[1]).mkdir()
        return main(words)

    return act


_HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}}
#: Requests to `mcp` before its calls; the input ends when the last of those is answered.
_CALLS: tuple[dict[str, object], ...] = (
    {
        "id": 1,
        "method": "initialize",
        "params": {**_HELLO, "clientInfo": {"name": "x", "version": "1"}},
    },
    {"method": "notifications/initialized"},
)
_TALK = r"""
answered() { grep -q '"id":9' answers; }
{ cat "$0"; for _ in $(seq 250); do answered && break; sleep 0.2; done; } | "$@" > answers
answered
"""


def _editing(folder: Path) -> Iterator[dict[str, object]]:
    """What an editor says that opens, saves and looks at a version below a folder, and ends."""
    path = min([*folder.rglob("v*.cu")], default=folder / "v0.cu")
    text = path.read_text(errors="replace") if path.is_file() else ""
    document = {"uri": path.as_uri()}
    opened = {**document, "languageId": "cuda", "version": 1, "text": text}
    ends = ({"line": line, "character": 0} for line in (0, 9999))
    whole = dict(zip(("start", "end"), ends, strict=True))
    yield {"id": 1, "method": "initialize", "params": {"processId": None, "capabilities": {}}}
    yield {"method": "initialized", "params": {}}
    yield {"method": "textDocument/didOpen", "params": {"textDocument": opened}}
    yield {"method": "textDocument/didSave", "params": {"textDocument": document}}
    about: dict[str, object] = {"textDocument": document}
    yield {"id": 2, "method": "textDocument/inlayHint", "params": {**about, "range": whole}}
    yield {"id": 3, "method": "textDocument/codeLens", "params": about}
    yield {"id": 4, "method": "shutdown"}
    yield {"method": "exit"}


def _framed(message: dict[str, object]) -> bytes:
    data = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(data), data)


def real(words: list[str], calls: Sequence[tuple[str, object]] = ()) -> Callable[[], object]:
    """What runs ``workbench WORDS`` as a user does: a process that imports everything itself.

    Args:
        words: `serve` is ended after a while; its `mcp` gets requests, its `lsp` a file to look at.
        calls: Tools that are called over `mcp`, with their arguments.
    """
    script = Path(sys.executable).with_name("workbench")
    kind = words[1] if words[1:2] in (["mcp"], ["lsp"]) else words[0]
    if kind == "serve":
        words = [*words, "--port", "0"]
    argv = [str(script), *words]
    if kind == "serve":
        argv = ["/usr/bin/timeout", "-s", "INT", "12", *argv]
    if kind == "mcp":
        asked: list[dict[str, object]] = [
            {"id": 9 - place, "method": "tools/call", "params": {"name": n, "arguments": a}}
            for place, (n, a) in enumerate(reversed(calls))
        ]
        lines = [json.dumps({"jsonrpc": "2.0", **each}) for each in (*_CALLS, *asked)]
        Path("calls").write_text("".join(f"{line}\n" for line in lines))
        Path("answers").write_text("")
        argv = ["/bin/bash", "-c", _TALK, str(Path("calls").resolve()), *argv]
    if kind == "lsp":
        Path("calls").write_bytes(b"".join(map(_framed, _editing(Path.cwd()))))
        argv = ["/bin/bash", "-c", 'exec "$@" < "$0"', str(Path("calls").resolve()), *argv]

    def act() -> object:
        os.execv(argv[0], argv)

    return act


def finish(pid: int, log: Path, kind: str = "") -> Ended:
    """Wait for a process, and enter under `kind` whether it hung or ended by a fault of our own."""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    text = log.read_text(errors="replace") if log.exists() else ""
    book.tried(kind)
    book.ended(kind, code)
    if code == -signal.SIGALRM:
        book.found(kind, "hangs", text)
    elif code == INTERNAL or "Traceback (most recent call last)" in text:
        book.found(kind, "exits of 70", text)
    return Ended(code, text)


def run(
    act: str | list[str] | Callable[[], object],
    folder: Path,
    kind: str = "",
    streams: Callable[[], object] = int,
    beside: Callable[[int], contextlib.AbstractContextManager[object]] = contextlib.nullcontext,
) -> Ended:
    """Run a command (or something else) to its end; nothing may be left of it.

    `beside` is entered with its pid as long as it runs.
    """
    log, known = folder.parent / f"{folder.name}.log", children()
    act = act if callable(act) else command(act)
    pid = start(act, folder, log, streams)
    with beside(pid):
        ended = finish(pid, log, kind)
    if left := _left(known):
        book.found(kind, "left running", f"{left} after {ended}")
    return ended


def together(acts: list[Callable[[], object]], folder: Path, kind: str) -> list[Ended]:
    """Run several at once."""
    known = children()
    logs = [folder.parent / f"{number}.log" for number in range(len(acts))]
    pids = [start(act, folder, log) for act, log in zip(acts, logs, strict=True)]
    ends = [finish(pid, log) for pid, log in zip(pids, logs, strict=True)]
    book.tried(kind)
    if left := _left(known):
        book.found(kind, "left running", f"{left} after {ends}")
    return ends


def killed(act: Callable[[], object], folder: Path, after_s: float, kind: str) -> bool:
    """Kill something after a while; whether it still ran. Nothing that it started may be left.

    What had ended by then was not killed, and does not count.
    """
    log, known = folder.parent / f"{folder.name}.log", children()
    pid = start(act, folder, log)
    time.sleep(after_s)
    late = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    os.kill(pid, signal.SIGKILL)
    ended = finish(pid, log, "" if late else kind)
    if left := _left(known):
        book.found(kind, "left running", f"{left} after {ended}")
    return not late


def lasts(act: Callable[[], object], folder: Path) -> float:
    """Seconds that something takes when nobody kills it."""
    begin = time.monotonic()
    run(act, folder)
    return time.monotonic() - begin


def records(root: Path) -> set[str]:
    """What is recorded, and must be so afterwards."""
    return {path.relative_to(root).as_posix() for path in root.glob("profiles/**/*.json.zst")}


def check_whole(root: Path, kind: str, before: AbstractSet[str] = frozenset()) -> None:
    """No half file, no page that the manifest does not name, and no record gone."""
    with book.watched(kind, "lost or half"):
        for path in root.rglob("*.zst"):
            if is_temporary(path.name):
                continue
            if not path.name.endswith(".json.zst"):
                zstandard.ZstdDecompressor().decompress(path.read_bytes())
            else:
                decode(path, Timing) if ".time." in path.name else decode(path, Profile)
        for path in root.glob("profiles/.studies/*.json"):
            json.loads(path.read_bytes())
        out = root / "reports"
        pages = {p.relative_to(out).as_posix(): p for p in out.rglob("*.html")}
        known = msgspec.json.decode((out / MANIFEST).read_bytes())["pages"] if pages else {}
        assert set(pages) <= set(known), f"nobody knows of {set(pages) - set(known)}"
        for path in pages.values():
            assert path.read_text().rstrip().endswith("</html>"), f"half a page: {path}"
        assert before <= records(root), f"lost: {before - records(root)}"


def tree(root: Path) -> dict[str, bytes]:
    """Every file below a folder, with its content; links as what they say."""
    return {
        path.relative_to(root).as_posix(): os.readlink(path).encode()  # noqa: PTH115
        if path.is_symlink()
        else path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


@contextlib.contextmanager
def untouched(outside: Path, kind: str) -> Iterator[None]:
    """That nothing in a folder changes."""
    before = tree(outside)
    yield
    if (after := tree(outside)) != before:
        changed = {
            name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
        }
        book.found(kind, "touched outside", str(changed))
