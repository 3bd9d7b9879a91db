"""How long the blame of a large kernel takes: recorded launches of 5,000 instructions and more.

    python benchmarks/blame.py [--least 4400]

Best of three, without what parsing remembers; `import pandas` in the same run is the yardstick.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from workbench import sass
from workbench.analysis import code
from workbench.analysis.blame import blame_launch
from workbench.model import Launch
from workbench.store import Store

PROFILES = Path(__file__).resolve().parent.parent / "profiles"


def large(least: int) -> list[tuple[str, Launch]]:
    """The recorded launches of so many instructions, the smallest first, one a version."""
    found: dict[str, Launch] = {}
    for entry in Store(PROFILES).find(engine="ncu"):
        for launch in Store(PROFILES).load(entry.path).launches:
            if len(launch.instructions.text) >= least:
                found[f"{entry.study}/{entry.version}"] = launch
    return sorted(found.items(), key=lambda item: len(item[1].instructions.text))


def seconds(launch: Launch) -> float:
    """Best of three, in seconds."""
    best = float("inf")
    for _ in range(3):
        blame_launch.forget()
        code.code_of.forget()
        for cached in (code._known, code._slices, sass.parse, sass._operand):
            cached.cache_clear()
        start = time.perf_counter()
        blame_launch(launch)
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--least", type=int, default=4400)
    launches = large(parser.parse_args().least)
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import pandas"], check=True)
    pandas = time.perf_counter() - start
    out = sys.stdout.write
    out(f"{'launch':<24}{'instructions':>13}{'seconds':>9}{'/ import pandas':>17}\n")
    for name, launch in launches:
        took = seconds(launch)
        out(f"{name:<24}{len(launch.instructions.text):>13,}{took:>9.3f}{took / pandas:>17.2f}\n")


if __name__ == "__main__":
    main()
