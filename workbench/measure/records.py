"""What a list says of one recorded profile or time, so that neither needs to be held for it."""

from __future__ import annotations

import msgspec

from workbench.model import Estimate, Profile, Record

#: What a list tells of emulated versions, which have no times: title, and the metric added up.
COUNTED = {
    "instructions": ("instr. (est.)", "ptx__machine_inst_estimate"),
    "global_sectors": ("sectors", "memory_l2_theoretical_sectors_global"),
    "shared_wavefronts": ("wavefronts", "memory_l1_wavefronts_shared"),
}


class Summary(Record, frozen=True):
    """What a profile itself gives for a list, whatever became of its source since.

    `duration` is its launches' time under the profiler, in seconds; None: not known.
    `counts` are what the emulator counted instead, by the names of `COUNTED`.
    """

    engine: str
    device: str
    captured: str
    source_hash: str = ""
    duration: float | None = None
    counts: dict[str, float] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, profile: Profile) -> Summary:
        """Of a profile that was read."""
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
        )


class RecordedProfile(Summary, frozen=True, kw_only=True):
    """What a list says of one recorded profile.

    `problem` is its name as the path has it; `stale`: the source was edited after the capture.
    """

    problem: str
    stale: bool


class RecordedTime(Record, frozen=True):
    """A version's time, in seconds; `profiled`: seen by the profiler, not outside of it."""

    time: Estimate
    stale: bool = False
    profiled: bool = False
