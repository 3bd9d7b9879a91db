"""Many runs of the gate, each a process of its own, on a quiet machine and on a disturbed one.

One run is what a job of a CI does: ``workbench check v0 v1 … --against BEFORE``. All its pairs
come back as one line of JSON: per version the single times before and after, in whole nanoseconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.gate.project import PLANTED, write_project

#: What disturbs: another process that takes the GPU for some tens of milliseconds, now and then.
_DISTURBER = """
import random, time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
while True:
    for _ in range(random.randint(5, 60)):
        a @ a
    torch.cuda.synchronize()
    time.sleep(random.uniform(0.0, 0.05))
"""
_RUN_S = 90


@contextlib.contextmanager
def disturbed() -> Iterator[bool]:
    """Another process uses the GPU in bursts; False where it cannot (it needs PyTorch)."""
    child = subprocess.Popen([sys.executable, "-c", _DISTURBER])
    try:
        time.sleep(6.0)  # until its library is loaded
        yield child.poll() is None
    finally:
        child.kill()
        child.wait()


def check_once(folder: Path, words: tuple[str, ...]) -> dict[str, Any]:
    """One run of the gate: its exit code, seconds, and what it measured of each version."""
    answer = folder / "answer.json"
    answer.unlink(missing_ok=True)
    names = [f"v{percent}" for percent in PLANTED]
    begin = time.perf_counter()
    program = (sys.executable, "-m", "workbench.cli", "check", *names)
    where = ("--against", str(folder / "before"), "--also", f"json={answer}")
    done = subprocess.run(
        [*program, *where, *words],
        cwd=folder / "after",
        capture_output=True,
        text=True,
        timeout=_RUN_S,
        check=False,
    )
    seconds = time.perf_counter() - begin
    if not answer.exists():
        return {"exit": done.returncode, "seconds": seconds, "error": done.stderr[-2000:]}
    document = json.loads(answer.read_text(encoding="utf-8"))
    return {
        "exit": done.returncode,
        "seconds": round(seconds, 3),
        "gates": {gate["version"].rpartition("/")[2]: gate["status"] for gate in document["gates"]},
        "measured": {each["version"]: _compact(each) for each in document.get("measured", ())},
    }


def _compact(measured: dict[str, Any]) -> dict[str, Any]:
    return {
        "old_ns": [round(1e9 * seconds) for seconds in measured["old_s"]],
        "new_ns": [round(1e9 * seconds) for seconds in measured["new_s"]],
        "state": measured["state"],
        "notices": [notice["code"] for notice in measured["notices"]],
    }


def run_campaign(
    folder: Path,
    quiet: int,
    noisy: int,
    words: tuple[str, ...],
    keep: Callable[[dict[str, Any]], None],
    limit_s: float,
) -> None:
    """Run the gate so often, and hand on every run as it comes.

    Args:
        folder: Where the projects are written.
        quiet: Runs on the machine as it is.
        noisy: Runs beside a process that disturbs.
        words: More options of the command.
        keep: Takes each run.
        limit_s: Seconds after which no further run is begun.
    """
    write_project(folder / "before", slower=False)
    write_project(folder / "after", slower=True, remark="As it is.")
    end = time.monotonic() + limit_s
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")

    def several(count: int, kind: str) -> None:
        for place in range(count):
            if time.monotonic() > end:
                sys.stderr.write(f"{kind}: no time for more than {place} of {count}\n")
                return
            run = check_once(folder, words)
            keep({"kind": kind, "at": round(time.time(), 1), **run})

    # The first compiles, and is none of those that count.
    keep({"kind": "first", "at": round(time.time(), 1), **check_once(folder, words)})
    several(quiet, "quiet")
    if noisy:
        with disturbed() as there:
            several(noisy if there else 0, "noisy")
