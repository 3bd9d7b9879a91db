"""Start-up and reading times, as ratios taken in one run.

Machines are shared and noisy, so every figure stands beside the time of
``python -c "import pandas"`` measured in the same run, alternating with it; the
best of several runs is what the code costs, the rest is the machine. Nothing of a
user's cache is read or changed: the first list of a project keeps nothing here, the
others find what one before them kept.

    python benchmarks/startup.py [--runs 7]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = [sys.executable]
COMMANDS = {
    "python -c pass": [*PYTHON, "-c", "pass"],
    "import pandas": [*PYTHON, "-c", "import pandas"],
    "workbench --help": [*PYTHON, "-m", "workbench.cli", "--help"],
    "workbench list": [*PYTHON, "-m", "workbench.cli", "list"],
    "workbench list, first": [*PYTHON, "-m", "workbench.cli", "list"],
    "workbench show sgemm/v3": [*PYTHON, "-m", "workbench.cli", "show", "sgemm/v3"],
    "workbench diff sgemm/v2 sgemm/v3": [
        *PYTHON,
        "-m",
        "workbench.cli",
        "diff",
        "sgemm/v2",
        "sgemm/v3",
    ],
}


def wall(argv: list[str], cache: str) -> float:
    """Wall time of one run of a command, in seconds. Raises on failure."""
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    start = time.perf_counter()
    subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - start


def reading() -> tuple[int, float, float]:
    """Best times to load one recorded profile and to make frames of it, in seconds."""
    from workbench import frames
    from workbench.store import Store

    store = Store(ROOT / "profiles")
    entry = store.find(study="sgemm", version="v3", engine="ncu")[0]
    frames.counters([store.load(entry.path)])  # imports and caches out of the way
    load, frame = [], []
    for _ in range(9):
        start = time.perf_counter()
        profile = store.load(entry.path)
        middle = time.perf_counter()
        frames.counters([profile])
        frames.lines([profile])
        load.append(middle - start)
        frame.append(time.perf_counter() - middle)
    return entry.path.stat().st_size, min(load), min(frame)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    best = dict.fromkeys(COMMANDS, float("inf"))
    with tempfile.TemporaryDirectory() as kept:
        wall(COMMANDS["workbench list"], kept)
        for _ in range(runs):
            for name, argv in COMMANDS.items():
                cache = os.devnull if name.endswith("first") else kept
                best[name] = min(best[name], wall(argv, cache))
    out = sys.stdout.write
    out(f"{'best of ' + str(runs):<34}{'seconds':>9}{'/ import pandas':>17}\n")
    for name, seconds in best.items():
        out(f"{name:<34}{seconds:>9.3f}{seconds / best['import pandas']:>17.2f}\n")
    size, load, frame = reading()
    out(f"\none recorded profile ({size / 1000:.0f} kB): ")
    out(f"load {1e3 * load:.1f} ms, frames {1e3 * frame:.1f} ms, ")
    out(f"together {1e3 * (load + frame):.1f} ms after imports\n")


if __name__ == "__main__":
    main()
