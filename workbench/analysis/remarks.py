"""What must be known before numbers are read: what ncu gets wrong, notices, two clocks.

ncu 2025.3 on an H200 counts sectors and wavefronts of ``LDGSTS.…BYPASS`` (``cp.async.cg``)
wrongly where the instruction depends on predicate register P0, which reads as false there.
Under ``@P0`` a copy costs nothing at all; under ``@!P0`` it costs as if no lane were switched
off, more sectors than its lanes have bytes; where P0 chooses between data and zeros, it takes
the wavefronts of zeros, half of what neighbours with the same addresses take under P1 to P6.
Tags are counted rightly, and so are the copies whose size is in a register (``.ZFILL``).
docs/emulator-rules.md says by which recordings this was found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from workbench.model import Number, Profile
from workbench.units import faster, quantity

#: Durations under the profiler may be this far off the interval of the recorded speed-up:
#: twice the noise of one of them, rounded up.
_DISAGREE = 0.025
_P0 = re.compile(r"\bP0\b")


def is_copy(text: str) -> bool:
    """Whether a machine instruction copies to shared memory past the first-level cache."""
    return "LDGSTS" in text and ".BYPASS" in text


# The launches of a report share their instructions.
@lru_cache(maxsize=1 << 14)
def is_misread(text: str) -> bool:
    """Whether ncu's sectors and wavefronts of this machine instruction are wrong."""
    return is_copy(text) and ".ZFILL" not in text and bool(_P0.search(text))


def misread_copies(profile: Profile) -> int:
    """How many machine instructions of a profile ncu misread, of those that ran."""
    if profile.engine != "ncu":
        return 0
    count = 0
    for launch in profile.launches:
        table = launch.instructions
        ran = table.columns.get("inst_executed")
        if launch.profiled and ran is not None:
            often = zip(ran.rows, ran.values, strict=True)
            count += sum(is_misread(table.text[row]) for row, value in often if value)
    return count


def misread_words(profile: Profile) -> list[str]:
    """What a reader of the profile's line counters must know; empty where all are right."""
    count = misread_copies(profile)
    if not count:
        return []
    copies = "copy" if count == 1 else "copies"
    which = f"{count} {copies} to shared memory (LDGSTS.BYPASS under predicate P0)"
    if _seen(profile):
        return [
            f"ncu misreads {which}: the sectors and wavefronts that it reports for these lines "
            "did not occur"
        ]
    return [
        f"ncu may misread {which}: on compute capability 9.0, ncu 2025 reported sectors and "
        "wavefronts for such lines that did not occur"
    ]


def misread_sides(old: Profile, new: Profile) -> list[str]:
    """The same of two profiles, each with its side; once where both say the same."""
    before, after = misread_words(old), misread_words(new)
    if before == after:
        return [f"on both sides: {text}" for text in before]
    words = [f"{old.version or 'old'}: {text}" for text in before]
    return [*words, *(f"{new.version or 'new'}: {text}" for text in after)]


def _seen(profile: Profile) -> bool:
    """Whether it was on this architecture, with this ncu, that the wrong counts were found."""
    version = profile.tools.get("ncu", "")
    return profile.device.compute_capability == (9, 0) and version.startswith("2025.")


def remarks(profile: Profile) -> list[str]:
    """The notices of a profile's capture, and which of its counters ncu gets wrong."""
    wrong = (f"{text}." for text in misread_words(profile))
    return [*(notice.message for notice in profile.notices), *wrong]


def disagreement(
    recorded: tuple[float, float, float], profiled: float, clocks: Sequence[Number | None] = ()
) -> list[str]:
    """What to say where recorded times and durations under the profiler tell other speed-ups.

    Either may be right: ncu empties the caches, counts in several passes and may hold the
    clock; but it is the recorded time that a user waits for.

    Args:
        recorded: Old over new of the recorded times: lowest, median, highest.
        profiled: Old over new of the durations.
        clocks: The SM clock in Hz on both sides under the profiler, where it moved.
    """
    low, middle, high = recorded
    if low * (1 - _DISAGREE) <= profiled <= high * (1 + _DISAGREE):
        return []
    text = (
        f"the times and the profiler disagree: {faster(middle)} by the recorded times, "
        f"{faster(profiled)} under the profiler"
    )
    if clocks:
        old, new = (quantity(clock, "hz") for clock in clocks)
        text += f" (where the SM clock was {old}, then {new})"
    return [text]
