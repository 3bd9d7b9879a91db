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


class RecordedProfile(Record, frozen=True):
    """What a list says of one recorded profile. `stale`: the source was edited after the capture.

    `duration` is its launches' time under the profiler, in seconds; None: not known.
    `counts` are what the emulator counted instead, by the names of `COUNTED`.
    """

    problem: str
    engine: str
    device: str
    captured: str
    stale: bool
    duration: float | None = None
    counts: dict[str, float] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, profile: Profile, problem: str, *, stale: bool) -> RecordedProfile:
        """Of a profile that was read.

        Args:
            profile: What was recorded.
            problem: The problem's name, as its path has it.
            stale: The source was edited after the capture.
        """
        from workbench.analysis.aggregate import kernel_seconds, metric_sum  # slow to load

        counts: dict[str, float] = {}
        if profile.engine == "emulator":
            for name, (_, metric) in COUNTED.items():
                total = metric_sum(profile, metric)
                if total is not None:
                    counts[name] = total
        return cls(
            problem=problem,
            engine=profile.engine,
            device=profile.device.name,
            captured=profile.captured,
            stale=stale,
            duration=kernel_seconds(profile),
            counts=counts,
        )


class RecordedTime(Record, frozen=True):
    """A version's time, in seconds; `profiled`: seen by the profiler, not outside of it."""

    time: Estimate
    stale: bool = False
    profiled: bool = False
