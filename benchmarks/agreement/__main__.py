"""How near the emulator comes to the hardware: every recorded profile, line by line.

``make agreement`` prints the table per study and version in Markdown, the lines that
differ to the error stream, and at the end what holds in all. Copies whose counters ncu
misreads are left out and counted (`benchmarks.agreement.misread`). Options name
studies (default: all of the project), another project's folder, and a document whose table,
between two marks, is to be replaced by this one.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks.agreement.lines import COUNTERS, Agreement, Tally
from benchmarks.agreement.recorded import compared_all
from benchmarks.agreement.resources import table
from benchmarks.document import replace
from benchmarks.recordings import opened
from workbench.store import Store

SECTORS = "memory_l2_theoretical_sectors_global"
WAVES = "memory_l1_wavefronts_shared"
#: Counter -> heading; the first two with their totals.
HEADINGS = {
    SECTORS: "sectors",
    WAVES: "wavefronts",
    SECTORS + "_ideal": "ideal sectors",
    "memory_l1_tag_requests_global": "tags",
    WAVES + "_ideal": "ideal wavefronts",
    "memory_l2_theoretical_sectors_local": "local sectors",
}
#: The goals. Part of all lines that must agree, the
#: largest deviation of a total, and the part of launches whose instructions are so near.
GOALS = {SECTORS: 0.99, WAVES: 0.98}
TOTAL = 0.02
INSTRUCTIONS, LAUNCHES = 0.15, 0.95


def percent(value: float | None) -> str:
    """A deviation in percent; a dash where there is nothing to compare."""
    return "—" if value is None else f"{100 * value:+.2f}%"


def row(title: str, problem: str, found: Agreement) -> str:
    """One launch as a row of the table."""
    cells = [title, problem, found.kernel]
    for name in HEADINGS:
        column = found.columns[name]
        cells.append(f"{column.same} of {column.lines}" if column.lines else "—")
        if name in GOALS:
            cells.append(percent(column.deviation))
    cells.append(percent(found.instructions))
    cells.append("" if found.sampled == 1 else f"{found.sampled:.2%}")
    cells += [str(found.misread or ""), str(len(found.timed) or "")]
    return "| " + " | ".join(cells) + " |\n"


def summary(every: list[tuple[str, Agreement]]) -> tuple[str, bool]:
    """What holds over all launches, and whether all goals are met."""
    lines, met = [], True
    for name, share in GOALS.items():
        columns: list[Tally] = [found.columns[name] for _, found in every]
        same, total = sum(c.same for c in columns), sum(c.lines for c in columns)
        worst = max((abs(c.deviation or 0.0) for c in columns), default=0.0)
        lines.append(
            f"{HEADINGS[name]}: {same} of {total} lines agree "
            f"({same / max(total, 1):.1%}; goal {share:.0%}), "
            f"totals within {worst:.2%} (goal {TOTAL:.0%})"
        )
        timed = sum(c.timed for c in columns)
        if timed:
            kept, still = total - timed, same - sum(c.timed_same for c in columns)
            worst_known = max((abs(c.known or 0.0) for c in columns), default=0.0)
            lines[-1] += (
                f", without the {timed} that the emulator says to depend on timing {still} of "
                f"{kept} ({still / max(kept, 1):.1%}), totals within {worst_known:.2%}"
            )
        met &= same >= share * total and worst <= TOTAL
    lines.append(
        f"misread by ncu and not compared: {sum(f.misread for _, f in every)} machine "
        f"instructions; lines left out because of them: {sum(f.lines_left_out for _, f in every)}"
    )
    worst_title, worst_found = max(every, key=lambda each: abs(each[1].instructions))
    inside = sum(abs(found.instructions) <= INSTRUCTIONS for _, found in every)
    lines.append(
        f"instructions: {inside} of {len(every)} launches within {INSTRUCTIONS:.0%} "
        f"({inside / len(every):.1%}; goal {LAUNCHES:.0%}), worst "
        f"{percent(worst_found.instructions)} ({worst_title})"
    )
    known = [each for each in every if not each[1].timed]
    if known and len(known) < len(every):
        last_title, last = max(known, key=lambda each: abs(each[1].instructions))
        near = sum(abs(found.instructions) <= INSTRUCTIONS for _, found in known)
        lines[-1] += (
            f"; without the {len(every) - len(known)} launches with lines that depend on timing "
            f"{near} of {len(known)}, worst {percent(last.instructions)} ({last_title})"
        )
    return "\n".join(lines) + "\n", met and inside >= LAUNCHES * len(every)


def main() -> int:
    """Print the table; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", type=Path, default=None, help="folder of workbench.toml")
    parser.add_argument("--write", type=Path, help="document whose table is replaced")
    parser.add_argument(
        "--mark", default="agreement", help="name of the table's marks in it (default: agreement)"
    )
    parser.add_argument(
        "--misread", action="store_true", help="compare the copies that ncu misreads as well"
    )
    parser.add_argument(
        "--resources",
        choices=("recorded", "here"),
        help="compare what the compiler alone says with ncu, on every chip: the compiler of the "
        "recording, or today's as well",
    )
    parser.add_argument("--jobs", type=int, default=1, help="profiles at a time (default: 1)")
    parser.add_argument(
        "studies", nargs="*", help="studies, or versions as study/version (default: all)"
    )
    options = parser.parse_args()
    project = opened(options.project)
    store = Store(project.profiles)
    device = None if options.resources else project.default_device or None
    entries = [
        entry
        for entry in store.find(engine="ncu", device=device)
        if not options.studies
        or {entry.study, f"{entry.study}/{entry.version}"} & set(options.studies)
    ]
    if options.resources:
        text, met = table(project, entries, options.resources == "here")
        sys.stdout.write(text)
        return 0 if met else 1
    heads = ["version", "problem", "kernel"]
    for name, heading in HEADINGS.items():
        heads += [f"{heading}: lines", "total"] if name in GOALS else [heading]
    heads += ["instructions", "sampled", "misread", "depends on timing"]
    head = "| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads) + "\n"
    sys.stdout.write(head)
    rows: list[tuple[int, str]] = []
    every: list[tuple[str, Agreement]] = []
    unable = 0
    begin = time.perf_counter()
    for entry, agreements, error in compared_all(project, entries, options.misread, options.jobs):
        title = f"{entry.study} {entry.version}"
        for found in agreements:
            rows.append((entries.index(entry), row(title, entry.problem, found)))
            sys.stdout.write(rows[-1][1])
            sys.stdout.flush()
            every.append((title, found))
            for name in COUNTERS:
                for apart in found.columns[name].apart:
                    sys.stderr.write(f"  {title} {entry.problem}: {apart} ({name})\n")
        if error:
            unable += 1
            sys.stderr.write(f"  {title} {entry.problem}: {error}\n")
    if not every:
        sys.stderr.write("no recorded profile of a CUDA version keeps its PTX\n")
        return 1
    text, met = summary(every)
    sys.stdout.write("\n" + text)
    if options.write is not None:
        said = "\nIn all: " + "; ".join(text.splitlines()) + ".\n"
        marks = f"<!-- {options.mark} -->", f"<!-- end of {options.mark} -->"
        rows.sort(key=lambda each: each[0])
        replace(options.write, marks, head + "".join(text for _, text in rows) + said)
    sys.stderr.write(f"{time.perf_counter() - begin:.0f} s, {unable} could not be run\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
