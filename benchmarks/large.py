"""What a report of thousands of launches with all their counters costs to read.

The launches of a small report are written again and again, each time with other fractions and
other samples of warps (`tests.ncurep.enlarged`). 5,000 launches take 1.5 GB on disk.

    python -m benchmarks.large [--launches 5000]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.ncurep.enlarged import enlarge, stirred
from workbench.store.codec import unpack

ROOT = Path(__file__).resolve().parent.parent
SMALL = ROOT / "tests/data/ncurep/ladder_focus.ncu-rep.zst"
#: Launches of the small report.
_HELD = 5


def main() -> None:
    """Print processor time, wall time and the most memory of one process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=5000)
    launches = parser.parse_args().launches
    with tempfile.TemporaryDirectory() as name:
        report = Path(name) / "large.ncu-rep"
        enlarge(unpack(SMALL.read_bytes()), launches // _HELD, report, change=stirred)
        for more in ([], ["--all"]):
            before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            subprocess.run(
                [sys.executable, "-m", "workbench.cli", "show", str(report), *more],
                stdout=subprocess.DEVNULL,
                env=os.environ | {"XDG_CACHE_HOME": name},
                check=True,
            )
            after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - start
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            sys.stdout.write(
                f"{launches:,} launches, {report.stat().st_size / 1e9:.2f} GB, "
                f"show {' '.join(more):<6} {used:7.2f} s of processor time, {wall:7.2f} s, "
                f"{after.ru_maxrss / 1024:.0f} MB\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
