"""Run mutants in the emulator or on a GPU, or compare what both said.

``python -m benchmarks.fuzz emulator FILE`` and ``… gpu FILE`` run mutants and append what is
found to a file; those that it holds already are left out, so a run that was cut off goes on.
Numbers from 1,000,000 on (``--first``) are mutants of ``cp.async`` and atomics.
``--again FILE`` runs the mutants of other findings as they were then: ladders that have grown since
would make others of the same numbers.
``… compare EMULATOR GPU`` prints the comparison, and ends with 1 where the emulator may be at
fault. ``… show NUMBER`` prints what a mutant is.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from benchmarks.fuzz.cases import Case, case, recorded
from benchmarks.fuzz.comparison import disagreements, relation, table
from benchmarks.fuzz.crew import Answer, Begun, run
from benchmarks.fuzz.emulated import SECONDS, emulated
from benchmarks.fuzz.findings import Finding, Status, finding, line_of, read, replay

_ROOTS = (Path(), Path("tests/data/unseen"))
#: Seconds after which a GPU's child is killed whose kernels run, and one of the emulator's.
_GPU_S, _EMULATOR_S = 5.0, 4 * SECONDS


Make = Callable[[int], Case]


def _emulate(make: Make, number: int, begun: Begun) -> Answer:
    begun()
    return Answer(emulated(make(number)))


def _on_device(make: Make, number: int, begun: Begun) -> Answer:
    from benchmarks.fuzz.device import on_device

    return on_device(make(number), begun)


def _lost(make: Make, number: int, status: Status, said: str) -> Finding:
    return finding(make(number), status, said=said)


def _as_it_was(known: Mapping[int, Finding], number: int) -> Case:
    found = replay(_ROOTS, known[number])
    if found is None:
        raise LookupError(f"mutant {number}: the PTX of {known[number].title} is another by now")
    return found


def _campaign(options: argparse.Namespace) -> int:
    path: Path = options.file
    known = read(path)
    make: Make = partial(case, _ROOTS)
    before = read(options.again) if options.again else {}
    wanted = options.numbers or before or range(options.first, options.first + options.count)
    numbers = [number for number in wanted if number not in known]
    if options.again:
        make = partial(_as_it_was, before)
        numbers = [n for n in numbers if replay(_ROOTS, before[n]) is not None]
    else:
        for root in _ROOTS:
            recorded(root)  # once, for all children
    work = partial(_on_device if options.command == "gpu" else _emulate, make)
    begin, done = time.perf_counter(), 0
    with path.open("ab") as out:
        seconds = _GPU_S if options.command == "gpu" else _EMULATOR_S
        found = run(
            numbers, work, partial(_lost, make), processes=options.processes, seconds=seconds
        )
        for done, one in enumerate(found, 1):
            out.write(line_of(one))
            out.flush()
            if done % 100 == 0:
                sys.stderr.write(f"{done} of {len(numbers)}: {time.perf_counter() - begin:.0f} s\n")
            if time.perf_counter() - begin > options.limit:
                break
    sys.stderr.write(f"{done} mutants in {time.perf_counter() - begin:.0f} s\n")
    return 0


def _compare(options: argparse.Namespace) -> int:
    ours, theirs = read(options.emulator), read(options.gpu)
    sys.stdout.write(table(ours, theirs))
    wrong = disagreements(ours, theirs)
    for number in wrong:
        one, other = ours[number], theirs.get(number, ours[number])
        sys.stdout.write(
            f"\n{number} {one.title} ({one.kind}, PTX line {one.line}): {relation(one, other)}\n"
            f"  - {one.before}\n  + {one.after}\n"
            f"  emulator: {one.said} error {one.error}, {one.far_off} far off, "
            f"{one.unwritten} unwritten, {one.worst}\n"
            f"  GPU: {other.said} error {other.error}, {other.far_off} far off, "
            f"{other.unwritten} unwritten, {other.worst}{', strayed' if other.strayed else ''}\n"
        )
    return 1 if wrong else 0


def _show(options: argparse.Namespace) -> int:
    one = case(_ROOTS, options.number)
    sys.stdout.write(f"{one.title}: {one.edit}\n")
    plain = next(
        (each for root in _ROOTS for each in recorded(root) if each.version == one.subject.version),
        None,
    )
    assert plain is not None and one.subject.built is not None
    text = one.subject.built.build.ptx.split("\n")
    before = list(text)
    before[one.edit.line - 1] = one.edit.before
    sys.stdout.writelines(
        line + "\n" for line in difflib.unified_diff(before, text, lineterm="", n=options.context)
    )
    return 0


def main() -> int:
    """Carry out one of the commands."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("emulator", "gpu"):
        each = commands.add_parser(name)
        each.add_argument("file", type=Path, help="file of findings, one a line")
        each.add_argument("--first", type=int, default=0, help="number of the first mutant")
        each.add_argument("--count", type=int, default=2600, help="mutants (default: 2600)")
        each.add_argument("--numbers", type=int, nargs="*", help="these mutants alone")
        each.add_argument("--again", type=Path, help="those of other findings, as they were then")
        each.add_argument("--processes", type=int, default=os.cpu_count() or 1)
        each.add_argument("--limit", type=float, default=1e9, help="seconds after which to stop")
    compare = commands.add_parser("compare")
    compare.add_argument("emulator", type=Path)
    compare.add_argument("gpu", type=Path)
    show = commands.add_parser("show")
    show.add_argument("number", type=int)
    show.add_argument("--context", type=int, default=12, help="lines around the edit")
    options = parser.parse_args()
    if options.command == "compare":
        return _compare(options)
    if options.command == "show":
        return _show(options)
    return _campaign(options)


if __name__ == "__main__":
    sys.exit(main())
