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

For readers who meet a number and want its meaning, unit and source. Commands, JSON,
frames and `[[expect]]` blocks use a counter's id. An entry begins with the unit. A counter
that a report lacks is *missing*, with the reason; it is never zero.

**Better** is the direction that is good by itself; without one, neither is.

**Noise** is the change that two captures of an unchanged kernel can show, relative to
the larger value or in the counter's own unit: the largest difference between two captures
of five kernels on one H200. `diff` calls a counter moved when the change leaves both. With
`--repeat` on both sides it uses the repetitions' intervals instead. Counts of warp samples
must also leave two standard deviations of the difference of two Poisson counts. An entry
without noise repeats exactly.

**ncu** has the metrics, best first; the catalog, `workbench/data/counters.toml`, has the
formulas and opcodes for reports without them. **Lines** has the per-instruction metric. A Σ
says that its sum over all lines is the counter, so that `diff` can split a change over the
source.

**Derived.** ncu's set *basic* has shares of peaks and no counts. A share × the cycles ×
the work of a cycle at the peak is the count: warp instructions (4 a cycle and SM, 0.65%
off at most in 49 launches on nine chips) and bytes of device memory (two words of its bus
a cycle; exact but for the RTX 2080 Ti, 8.3% on both sides). Such a value is marked “≈” or
“(derived)”, in JSON `"derived": true`; two of them must differ by 3% to have moved. Units
whose peak differs from chip to chip (the L2, pipes, the L1's data stage) are compared as
the cycles that they need at their peak. For the L2 this is up to 2% off in one run, and 7%
between two.

Over the launches of a version, counts and times are added. A ratio of two counters is a mean
weighted by the second (sectors for each request by the requests), another rate by duration
(or instructions). Registers, block size and limits are of one launch.
Launches of one kernel in a report are samples, averaged first.

NVIDIA explains metrics here: SECTIONS.
"""


def counters_page() -> str:
    """The whole page, in Markdown."""
    parts = [_HEAD.replace("SECTIONS", ", ".join(_sections()))]
    for group, title in catalog().groups.items():
        parts.append(f"\n## {title}\n")
        for counter in catalog().group(group):
            parts.append(_entry(counter))
    return "\n".join(parts)


def _sections() -> list[str]:
    """Links to the sections of NVIDIA's documentation that explain the counters."""
    found = dict.fromkeys(each.doc for group in catalog().groups for each in catalog().group(group))
    return [f"[{doc.partition('#')[2]}]({doc})" for doc in found]


def _noise(counter: Counter) -> str:
    parts = []
    if counter.noise:
        parts.append(tick(100.0 * counter.noise, "%"))
    if counter.floor:
        unit = "points" if counter.unit == "%" else counter.unit
        plain = unit not in ("byte", "s")
        amount = tick(counter.floor, "" if plain else unit)
        parts.append(f"{amount} {unit}" if plain else amount)
    return " and ".join(parts)


def _entry(counter: Counter) -> str:
    lines = [f"### `{counter.id}`", "", f"**{counter.title}.** {counter.meaning}", ""]
    facts = [f"`{counter.unit}`"]
    if counter.better:
        facts.append(f"better {counter.better}")
    if counter.noise or counter.floor:
        facts.append(f"noise {_noise(counter)}")
    lines.append(f"- {', '.join(facts)}")
    if counter.touching:
        names = ", ".join(f"`{name}`" for name in counter.touching)
        lines.append(f"- executions of the instructions that have any of {names}")
    if counter.names:
        lines.append("- ncu: " + ", ".join(f"`{name}`" for name in counter.names))
    elif counter.formulas:
        lines.append(f"- is `{counter.formulas[0]}`")
    elif counter.opcodes:
        codes = "/".join(counter.opcodes)
        lines.append(f"- is `{counter.opcodes_of}` of the instructions {codes}")
    if counter.lines:
        sign = "Σ " if counter.additive else ""
        lines.append(f"- lines: {sign}" + ", ".join(f"`{name}`" for name in counter.lines))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(counters_page())
