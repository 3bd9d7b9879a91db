"""Commands in forked processes that can be killed, and what must hold after any of them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.processes import runs
from workbench.disk.writing import is_temporary
from workbench.model import Profile, Timing
from workbench.store.codec import decode
from workbench.views.html.site import MANIFEST

#: No command of these attacks needs a tenth of it.
HANG_S = 20.0
INTERNAL = 70
#: Counts of all attacks, by what was counted; printed at the end.
counts: Counter[str] = Counter()


class Ended(NamedTuple):
    """How a command ended: its exit code (negative: a signal), and what it wrote."""

    code: int
    text: str


def start(act: Callable[[], object], folder: Path, log: Path) -> int:
    """Run something in a forked process that leads a session of its own; its pid."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = INTERNAL
    try:
        os.setsid()
        os.chdir(folder)
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        # pytest's own replacements hold on to its files.
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        signal.alarm(int(HANG_S))
        try:
            result = act()
            code = result if isinstance(result, int) else 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
    finally:
        os._exit(code)


def command(line: str) -> Callable[[], object]:
    """What runs ``workbench LINE``."""

    def act() -> object:
        from workbench.cli import main

        return main(line.split())

    return act


def finish(pid: int, log: Path) -> Ended:
    """Wait for a process; it must not hang, nor end with a fault of our own."""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    text = log.read_text(errors="replace") if log.exists() else ""
    counts["commands"] += 1
    assert code != -signal.SIGALRM, f"a hang: {text}"
    assert code != INTERNAL, text
    return Ended(code, text)


def run(line: str, folder: Path) -> Ended:
    """Run a command to its end."""
    log = folder.parent / f"{folder.name}.log"
    return finish(start(command(line), folder, log), log)


def killed(act: Callable[[], object], folder: Path, after_s: float) -> bool:
    """Kill something after a while; whether it still ran. Nothing that it started may be left."""
    log = folder.parent / f"{folder.name}.log"
    pid = start(act, folder, log)
    time.sleep(after_s)
    os.kill(pid, signal.SIGKILL)
    code = finish(pid, log).code
    end = time.monotonic() + 10
    while left := session(pid):
        assert time.monotonic() < end, f"processes outlive their parent: {left}"
        time.sleep(0.01)
    return code == -signal.SIGKILL


def session(leader: int) -> list[int]:
    """The processes of a session that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and runs(int(stat.parent.name)):
                found.append(int(stat.parent.name))
    return found


def check_whole(root: Path) -> None:
    """No half file, no lock, and no page that the manifest does not name."""
    for path in root.rglob("*.json.zst"):
        if not is_temporary(path.name):
            decode(path, Timing) if ".time." in path.name else decode(path, Profile)
    for path in root.glob("profiles/.studies/*.json"):
        json.loads(path.read_bytes())
    out = root / "reports"
    pages = {p.relative_to(out).as_posix(): p for p in out.rglob("*.html")}
    known = msgspec.json.decode((out / MANIFEST).read_bytes())["pages"] if pages else {}
    assert set(pages) <= set(known), f"nobody knows of {set(pages) - set(known)}"
    for path in pages.values():
        assert path.read_text().rstrip().endswith("</html>"), f"half a page: {path}"


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
def untouched(outside: Path) -> Iterator[None]:
    """That nothing in a folder changes."""
    before = tree(outside)
    yield
    assert tree(outside) == before, "something outside was touched"


def moments(seed: int, longest_s: float) -> Iterator[float]:
    """Random moments of a command's life, the same in every run of the tests."""
    chance = random.Random(seed)
    while True:
        yield chance.uniform(0.0, longest_s)
