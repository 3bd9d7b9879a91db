"""Summaries of one recorded profile or time for a list, so that it need not hold them.

A list needs a few hundred bytes from a profile that is decoded from half a megabyte. Summaries
are kept per user by the profile's content.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from workbench.disk.cache import Cache, KeptByContent, digest_of, entry_name
from workbench.language import N_
from workbench.model import SCHEMA_VERSION, Estimate, Profile, Record, Timing
from workbench.project import cache_folder
from workbench.store.codec import decode, decode_totals, read_record

#: Columns of a list for emulated versions, which have no times: title, and the metric to sum.
COUNTED = {
    "instructions": (N_("instr. (est.)"), "ptx__machine_inst_estimate"),
    "global_sectors": (N_("sectors"), "memory_l2_theoretical_sectors_global"),
    "shared_wavefronts": (N_("wavefronts"), "memory_l1_wavefronts_shared"),
}

#: Raised whenever `Summary.of` gives a different result for the same file.
EDITION = 2
#: Beyond this many bytes, the oldest entries are dropped; one for 10,000 profiles has 3 million.
_LIMIT = 64 << 20


class Summary(Record, frozen=True):
    """A list's fields of a profile that depend only on the profile, not on its source today.

    A time has an empty `engine`, and only the device and date of its measurement.

    `duration` is its launches' time under the profiler, in seconds; None: not known.
    `counts` are the emulator's counts instead, by the names of `COUNTED`; `seed` is that of its
    inputs, if it was verified.
    """

    engine: str
    device: str
    captured: str
    source_hash: str = ""
    duration: float | None = None
    counts: dict[str, float] = msgspec.field(default_factory=dict)
    seed: int | None = None

    @classmethod
    def of(cls, profile: Profile) -> Summary:
        """The summary of a profile that was read."""
        from workbench.analysis.aggregate import kernel_seconds, metric_sum  # slow to load

        counts: dict[str, float] = {}
        if profile.engine == "emulator":
            for name, (_, metric) in COUNTED.items():
                total = metric_sum(profile, metric)
                if total is not None:
                    counts[name] = total
        return cls(
            engine=profile.engine,
            device=profile.device.name,
            captured=profile.captured,
            source_hash=profile.source_hash,
            duration=kernel_seconds(profile),
            counts=counts,
            seed=None if profile.verification is None else profile.verification.seed,
        )


class Summaries:
    """The summaries of profiles and times that are listed together, so that one entry holds them.

    Args:
        *shelf: The key of this entry: the folder and the study. Empty: every profile is decoded,
            and nothing is kept.
    """

    def __init__(self, *shelf: str) -> None:
        cache = Cache(cache_folder("lists"), _LIMIT)
        name = entry_name(digest_of(*shelf), SCHEMA_VERSION, EDITION) if shelf else ""
        self._kept = KeptByContent(cache, name, Summary)

    def of(self, path: Path) -> Summary:
        """The summary of a profile; MissingError, DataError: as `decode_totals`."""
        data = read_record(path)
        return self._kept.of(data, lambda: Summary.of(decode_totals(path, data)))

    def timed_on(self, path: Path) -> str:
        """The name of the device of a recorded time; MissingError, DataError: as `decode`."""
        data = read_record(path)

        def summary() -> Summary:
            timing = decode(path, Timing, data)
            return Summary(engine="", device=timing.device.name, captured=timing.captured)

        return self._kept.of(data, summary).device

    def keep(self) -> None:
        """Keep the summaries read since then for the next list, if any of them is new."""
        self._kept.keep()


class RecordedProfile(Summary, frozen=True, kw_only=True):
    """A list's fields of one recorded profile.

    `problem` is its name in the path; `stale`: the source was edited after the capture.
    """

    problem: str
    stale: bool


class RecordedTime(Record, frozen=True):
    """A version's time, in seconds; `profiled`: measured by the profiler, not outside it."""

    time: Estimate
    stale: bool = False
    profiled: bool = False
