"""The counter catalog as a page of documentation.

``python docs/counters.py > docs/counters.md`` (part of ``make docs``) writes it; a test
holds the file to what this gives.
"""

from __future__ import annotations

import sys

from workbench.counters import Counter, catalog
from workbench.units import tick

_HEAD = """\
# Counters

<!-- Written by `python docs/counters.py > docs/counters.md`. -->

Every number that workbench shows has an id, which commands, JSON, frames and
`[[expect]]` blocks use. The catalog (`workbench/data/counters.toml`) says under which
names Nsight Compute reports it, on which chip and in which version, and how it is
computed where a report lacks all of them. A counter that cannot be found is *missing*,
with the reason; it is never zero.

**Better** is the direction that is good by itself. It is empty where neither is: bank
conflicts raise the memory throughput, and a tile in shared memory empties the L1.

**Noise** is the change that two captures of an unchanged kernel can show, relative to
the larger of the two values or in the counter's own unit; `diff` calls a counter moved
when the change leaves both. Where both profiles were captured with `--repeat`, the
intervals of the repetitions are used instead. The defaults are the largest differences
between two captures of the same five kernels on one H200 with different sections,
rounded up: nothing for counts that follow from addresses and instructions, 1 to 3 % for
times, cycles and throughputs, 5 % (or 0.05 cycles) for stall reasons, 6 % for sectors of
the L2, 10 to 15 % for bank conflicts as the L1 counts them, points for hit rates. Counts
of warp samples must also leave two standard deviations of the difference of two Poisson
counts.

**Lines** names the per-instruction metric behind a counter. A Σ says that its sum over
all lines is the counter, which is what lets `diff` split a change over the source.

**Derived.** ncu's set *basic* holds no counts, but how near its peak each unit was. A
unit's share of its peak × the cycles × what it does in a cycle at its peak is the
count, to some percent: warp instructions (4 a cycle and SM), bytes of device memory
(two words of its bus a cycle of its clock), and how busy the pipes were while SMs were
active (the share of all cycles × cycles / active cycles). Such a value is marked with
“≈”, its counter with “(derived)” and `"derived": true` in JSON; two of them must differ
by 3% to have moved. Against the counts of the same reports (49 launches of 13 reports,
nine chips from the GTX 1660 to the H200) instructions are 0.65% off at most, and bytes
are exact, but for one chip whose bus is said to be narrower than it counts (RTX 2080
Ti: 8.3% on both sides, so that their ratio is right). Units whose peak differs from
chip to chip (the L2, pipes, the L1's data stage) are compared as the cycles that they
need at their peak: share × cycles, whose ratio is that of the work whatever the peak
is. Of the L2's sectors that ratio is exact where a report holds the L2's own cycles; by
those of the SMs it is up to 2% off in one run, and 7% between two.

Over the launches of a version, counts and times are added, rates are means weighted by
duration (by instructions where a duration is missing), and what compiler and launch fix
(registers, block size, limits) is taken from one launch. Every number made so says so.
Launches of one kernel in a report are samples, and their mean is taken first.
"""


def counters_page() -> str:
    """The whole page, in Markdown."""
    parts = [_HEAD]
    for group, title in catalog().groups.items():
        parts.append(f"\n## {title}\n")
        for counter in catalog().group(group):
            parts.append(_entry(counter))
    return "\n".join(parts)


def _noise(counter: Counter) -> str:
    parts = []
    if counter.noise:
        parts.append(tick(100.0 * counter.noise, "%"))
    if counter.floor:
        unit = "points" if counter.unit == "%" else counter.unit
        amount = tick(counter.floor, "byte" if unit == "byte" else "")
        parts.append(amount if unit == "byte" else f"{amount} {unit}")
    return " and ".join(parts) or "none"


def _entry(counter: Counter) -> str:
    lines = [f"### `{counter.id}`", "", f"**{counter.title}.** {counter.meaning}", ""]
    facts = [f"unit `{counter.unit}`"]
    if counter.better:
        facts.append(f"better {counter.better}")
    facts.append(f"noise {_noise(counter)}")
    facts.append(f"[NVIDIA's documentation]({counter.doc})")
    lines.append(f"- {', '.join(facts)}")
    if counter.touching:
        names = ", ".join(f"`{name}`" for name in counter.touching)
        lines.append(f"- executions of the instructions that have any of {names}")
    if counter.names:
        lines.append("- ncu: " + ", ".join(f"`{name}`" for name in counter.names))
    if counter.formulas:
        lines.append("- else: " + ", ".join(f"`{formula}`" for formula in counter.formulas))
    if counter.opcodes:
        codes = "/".join(counter.opcodes)
        lines.append(f"- else: `{counter.opcodes_of}` of the instructions {codes}")
    if counter.needs:
        names = ", ".join(f"`{name}`" for name in counter.needs)
        lines.append(f"- undefined where {names} {'are all' if counter.needs[1:] else 'is'} 0")
    if counter.rest:
        lines.append(f"- undefined where it and `{counter.rest}` are both 0")
    if counter.instead:
        lines.append(f"- in the emulator: `{counter.instead}` instead")
    if counter.lines:
        sign = "Σ " if counter.additive else ""
        lines.append(f"- lines: {sign}" + ", ".join(f"`{name}`" for name in counter.lines))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(counters_page())
