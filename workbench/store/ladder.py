"""The ladder as records: studies, their versions, and what is recorded of each.

Both the JSON document and the tables of ``workbench list`` are made from these.
"""

from __future__ import annotations

from typing import Any

from workbench.model import Estimate, Record


class RecordedProfile(Record, frozen=True):
    """One recorded profile. `stale`: the source was edited after the capture.

    `duration` is its launches' time under the profiler, in seconds; None: not known.
    """

    problem: str
    engine: str
    device: str
    captured: str
    stale: bool
    duration: float | None = None


class RecordedTime(Record, frozen=True):
    """One recorded time, in seconds; `profiled`: seen by the profiler, not outside of it.

    `ratio`: the baseline's speed was measured beside it, and this is how many times as fast
    the version is; None: there was no baseline.
    """

    problem: str
    device: str
    time: Estimate
    stale: bool = False
    profiled: bool = False
    ratio: float | None = None


class Rung(Record, frozen=True):
    """One version of a study."""

    id: str
    title: str
    baseline: bool
    parent: str | None
    profiles: tuple[RecordedProfile, ...]
    times: tuple[RecordedTime, ...]


class Ladder(Record, frozen=True):
    """One study. `problem` and `device` are what its times are shown for."""

    name: str
    title: str
    problems: tuple[str, ...]
    versions: tuple[Rung, ...]
    problem: str = ""
    device: str = ""

    def time_of(self, rung: Rung) -> RecordedTime | None:
        """The time of a version on the ladder's problem and device.

        Where none of the versions was timed, all have the durations of their profiles:
        the two differ by a few percent, so a ladder is of one kind or the other.
        """
        if not self._timed:
            profile = self.profile_of(rung)
            if profile is None or not profile.duration:
                return None
            value = profile.duration
            seen = Estimate(value=value, low=value, high=value)
            return RecordedTime(problem=self.problem, device=self.device, time=seen, profiled=True)
        for time in rung.times:
            if (time.problem, time.device) == (self.problem, self.device):
                return time
        return None

    def share_of(self, rung: Rung) -> float | None:
        """Speed relative to the baseline: as measured side by side, or else from two runs."""
        time, base = self.time_of(rung), self.baseline_time
        if time is None or base is None:
            return None
        return base.time.value / time.time.value if time.ratio is None else time.ratio

    @property
    def _timed(self) -> bool:
        here = (self.problem, self.device)
        return any((t.problem, t.device) == here for rung in self.versions for t in rung.times)

    def profile_of(self, rung: Rung) -> RecordedProfile | None:
        """The profile of a version on the ladder's problem and device (ncu first)."""
        found = [
            profile
            for profile in rung.profiles
            if (profile.problem, profile.device) == (self.problem, self.device)
        ]
        return next((each for each in found if each.engine == "ncu"), found[0] if found else None)

    @property
    def baseline_time(self) -> RecordedTime | None:
        """The study's own baseline's time, its first: what the others are percentages of."""
        return next((self.time_of(rung) for rung in self.versions if rung.baseline), None)


def list_document(ladders: list[Ladder], default_study: str) -> dict[str, Any]:
    """``workbench list --format json``."""
    return {
        "default_study": default_study,
        "studies": [
            {
                "name": ladder.name,
                "title": ladder.title,
                "problems": list(ladder.problems),
                "versions": [_rung(rung) for rung in ladder.versions],
            }
            for ladder in ladders
        ],
    }


def _rung(rung: Rung) -> dict[str, Any]:
    return {
        "id": rung.id,
        "title": rung.title,
        "baseline": rung.baseline,
        "parent": rung.parent,
        "profiles": [
            {
                "problem": profile.problem,
                "engine": profile.engine,
                "device": profile.device,
                "captured": profile.captured,
                "stale": profile.stale,
                "duration": profile.duration,
            }
            for profile in rung.profiles
        ],
        "times": [
            {
                "problem": time.problem,
                "device": time.device,
                "seconds": time.time.value,
                "low": time.time.low,
                "high": time.time.high,
            }
            for time in rung.times
        ],
    }
