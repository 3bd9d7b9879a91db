"""Run the gate many times on a GPU, or say how good recorded runs show it to be.

``python -m benchmarks.gate run FILE`` appends a line a run; ``… curve FILE`` prints the curve and
ends with 1 where a goal is missed: false alarms in at most 2% of runs of equal versions, and 95%
of slow-downs of 3% found.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gate.campaign import run_campaign
from benchmarks.gate.curve import Point, in_turns, read_runs, rolling, table
from benchmarks.gate.project import PLANTED

_FALSE_ALARMS, _FOUND, _AT = 0.02, 0.95, 3


def main(argv: list[str]) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the gate on the GPU here")
    run.add_argument("file", type=Path)
    run.add_argument("--quiet", type=int, default=50)
    run.add_argument("--noisy", type=int, default=8)
    run.add_argument("--limit", type=float, default=3600.0, metavar="SECONDS")
    run.add_argument("--options", default="", help="more options of workbench check, as one word")
    curve = commands.add_parser("curve", help="judge recorded runs")
    curve.add_argument("file", type=Path)
    options = parser.parse_args(argv)
    return _run(options) if options.command == "run" else _curve(read_runs(options.file))


def _run(options: argparse.Namespace) -> int:
    def keep(run: dict[str, Any]) -> None:
        out.write(json.dumps(run, separators=(",", ":")) + "\n")
        out.flush()
        said = run.get("error") or run["gates"]
        sys.stderr.write(
            f"{run['kind']}: {run['seconds']:.1f} s, ends with {run['exit']}: {said}\n"
        )

    with options.file.open("a", encoding="utf-8") as out, tempfile.TemporaryDirectory() as folder:
        counts = options.quiet, options.noisy
        run_campaign(
            Path(folder), *counts, tuple(shlex.split(options.options)), keep, options.limit
        )
    return 0


def _curve(runs: list[dict[str, Any]]) -> int:
    points = [in_turns(runs, planted) for planted in PLANTED]
    beside = [rolling(runs, planted) for planted in PLANTED]
    tables = {
        "In turns, in one process": points,
        "Beside the 20 runs before": beside,
        "In turns, while another process takes the GPU in bursts": [
            in_turns(runs, planted, "noisy") for planted in PLANTED
        ],
        "Beside 20 quiet runs, while another process takes the GPU in bursts": [
            rolling(runs, planted, "noisy") for planted in PLANTED
        ],
    }
    for title, part in tables.items():
        if any(point.ratios for point in part):
            sys.stdout.write(f"{title}:\n\n{table(part)}\n\n")
    missed = [word for word in (_missed("in turns", points), _missed("rolling", beside)) if word]
    goals = f"false alarms at most {_FALSE_ALARMS:.0%}, {_FOUND:.0%} of {_AT}% found"
    sys.stdout.write("\n".join(missed or [f"Goals reached: {goals}."]) + "\n")
    return 1 if missed else 0


def _missed(name: str, points: list[Point]) -> str:
    by = {point.planted: point for point in points}
    alarms, found = by[0].found, by[_AT].found
    if by[0].ends.total() and alarms <= _FALSE_ALARMS and found >= _FOUND:
        return ""
    return f"{name}: goal missed: false alarms {alarms:.1%}, {found:.1%} of {_AT}% found"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
