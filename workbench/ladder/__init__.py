"""Study and store joined: the records of a study, as a ladder for each device and problem.

A *ladder* is one study on one device and problem, a *rung* one version on it. `find_ladders` finds
them; ladders and rungs follow from paths alone
(``profiles/<device>/<study>/<version>/<problem>.<engine>.json.zst``, and ``.time.json.zst`` for
times). No file is decoded, and no study is loaded, before it is needed.
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Container, Iterable
from functools import cache, cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from workbench.errors import DataError, MissingError
from workbench.ladder.summaries import RecordedProfile, RecordedTime, Summaries
from workbench.ladder.tunings import Tuning, find, load
from workbench.model import Estimate, Profile, Timing
from workbench.project import Project
from workbench.specs import Expectation, Version
from workbench.store import Entry, Store, natural_key
from workbench.store.codec import decode
from workbench.study.folder import StudyInfo

if TYPE_CHECKING:
    from workbench.analysis.story import Step

#: Engines in order of preference.
ENGINES = ("ncu", "emulator")
#: The store's layout for times (see workbench.store); only their paths are needed here.
_TIME_SUFFIX = ".time.json.zst"


class Rung:
    """One version on a ladder: its profiles by engine, and its time."""

    def __init__(self, ladder: Ladder, version: str) -> None:
        self.ladder = ladder
        self.id = version
        self.entries: dict[str, Entry] = {}
        self.timed = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    @property
    def declared(self) -> Version | None:
        """The version as the study has it today; None if it is gone."""
        return self.ladder.study.versions.get(self.id)

    @property
    def title(self) -> str:
        """The version's title; "" if the study no longer has it."""
        return self.declared.title if self.declared else ""

    @property
    def is_baseline(self) -> bool:
        """True for a library to beat, according to the study, or else to the times."""
        if self.declared:
            return self.declared.baseline
        return self.id in self.ladder.compared_with

    @cached_property
    def profile(self) -> Profile | None:
        """The profile that represents the version: ncu's, else the emulator's."""
        engine = next((engine for engine in ENGINES if engine in self.entries), None)
        return self.ladder.store.load(self.entries[engine].path) if engine else None

    @property
    def is_stale(self) -> bool:
        """True if the source has changed since the version's main record."""
        if self.entries:
            return self.record is not None and self.record.stale
        return self.timing is not None and self.stale(self.timing.source_hash)

    def outdated(self, engine: str) -> bool:
        """True if the source has changed since an engine profiled it."""
        return any(each.stale for each in self.records if each.engine == engine)

    def load(self, engine: str) -> Profile:
        """The profile of an engine that has one."""
        speaking = self.profile
        if speaking is not None and speaking.engine == engine:
            return speaking
        return self.ladder.store.load(self.entries[engine].path)

    @cached_property
    def records(self) -> tuple[RecordedProfile, ...]:
        """Summaries of its profiles for a list; profiles are read one by one and not kept."""
        out = []
        for entry in self.entries.values():
            try:
                summary = self.ladder.family.summaries.of(entry.path)
            except DataError as error:
                if self.ladder.damaged is None:
                    raise
                self.ladder.damaged.append(error.kept())
                continue
            stale = self.stale(summary.source_hash)
            facts = msgspec.structs.asdict(summary)
            out.append(RecordedProfile(problem=entry.problem, stale=stale, **facts))
        return tuple(out)

    @property
    def record(self) -> RecordedProfile | None:
        """The one in `records` that represents the version."""
        return min(self.records, key=lambda each: ENGINES.index(each.engine), default=None)

    @cached_property
    def timing(self) -> Timing | None:
        """The recorded time, outside any profiler."""
        path = self.ladder.files.get((self.id, "time"))
        try:
            return decode(path, Timing) if path else None
        except DataError as error:
            if self.ladder.damaged is None:
                raise
            self.ladder.damaged.append(error.kept())
            return None

    @cached_property
    def timed_on(self) -> str:
        """The device of its recorded time, as a list needs it; "" without a time."""
        path = self.ladder.files.get((self.id, "time"))
        try:
            return self.ladder.family.summaries.timed_on(path) if path else ""
        except DataError:  # `timing` reports it
            return self.timing.device.name if self.timing else ""

    @cached_property
    def duration(self) -> float | None:
        """All its kernels' time under the profiler, in seconds."""
        if "profile" in vars(self):
            # Planning pages, for which ladders are found, needs no duration.
            from workbench.analysis.aggregate import kernel_seconds

            return kernel_seconds(self.profile) if self.profile else None
        return self.record.duration if self.record else None

    @property
    def seconds(self) -> float | None:
        """The recorded time; without one, the kernels' durations under the profiler."""
        return self.timing.time.value if self.timing else self.duration

    @property
    def time(self) -> RecordedTime | None:
        """Its time in a table that holds times of one kind only.

        If none of the versions was timed, all have the durations of their profiles: the two differ
        by a few percent, so a ladder has only one kind.
        """
        if self.timing:
            return RecordedTime(time=self.timing.time, stale=self.stale(self.timing.source_hash))
        if self.ladder.timed or not self.duration:
            return None
        seen = Estimate(value=self.duration, low=self.duration, high=self.duration)
        return RecordedTime(time=seen, profiled=True)

    @property
    def of_baseline(self) -> float | None:
        """Speed relative to the baseline: as measured side by side, else from two runs."""
        baseline = self.ladder.baseline
        if self.timing:
            from workbench.analysis.times.timing import (
                speed_beside,  # planning pages needs no speed
            )

            return speed_beside(self.timing, baseline.timing if baseline else None)
        if baseline is None:
            return None
        return baseline.duration / self.duration if baseline.duration and self.duration else None

    def speedup_over(self, old: Rung) -> Estimate | None:
        """Its speed relative to `old`; None if their times are not comparable.

        The bounds are the extreme ratios of the two 95% intervals, which is wider than
        an interval of the ratio: a claim that survives it needs no further statistics.
        """
        if self.time is None or old.time is None:
            return None
        before, after = old.time.time, self.time.time
        return Estimate(
            value=before.value / after.value,
            low=before.low / after.high,
            high=before.high / after.low,
        )

    def stale(self, captured_hash: str) -> bool:
        """True if the source has changed since then; False if either side is unknown."""
        now = self.ladder.study.source_hash(self.id)
        return bool(now and captured_hash and now != captured_hash)


class Family:
    """One study on one device: data that its ladders, one for each problem, share.

    It holds no ladder, so that the profiles of a finished one can be released.

    Attributes:
        damaged: Receives the errors of times that cannot be read; None: they are raised.
        summaries: Reads the summaries of profiles for lists.
    """

    def __init__(
        self, store: Store, name: str, device: str, info: Callable[[str], StudyInfo]
    ) -> None:
        self.store, self.name, self.device = store, name, device
        self._info = info
        self.damaged: list[DataError] | None = None
        self.summaries = Summaries()

    @cached_property
    def study(self) -> StudyInfo:
        """The study's texts."""
        return self._info(self.name)

    @cached_property
    def timings(self) -> tuple[Timing, ...]:
        """All recorded times, of every problem."""
        found = self.store.timings(study=self.name, device=self.device, damaged=self.damaged)
        return tuple(found)

    @cached_property
    def tunings(self) -> dict[Path, Tuning | DataError]:
        """Tunings of versions on all problems, by file; or the error of reading it."""
        found: dict[Path, Tuning | DataError] = {}
        for path in find(self.store.root, self.name):
            try:
                tuning = load(path)
            except DataError as error:
                found[path] = error.kept()
                continue
            if tuning.gpu == self.device:
                found[path] = tuning
        return found


class Ladder:
    """The versions of a study on one device and problem, in ladder order.

    `device` is its slug. `damaged` receives the errors of files that cannot be read; None: they are
    raised.

    Attributes:
        rungs: The records, by version.
        files: Every recorded file by version and engine (``time`` for a time).
        elsewhere: The files of the study's other devices on this problem, by the device's slug.
    """

    def __init__(
        self, family: Family, problem: str, damaged: list[DataError] | None = None
    ) -> None:
        self.family = family
        self.store, self.name, self.device = family.store, family.name, family.device
        self.problem = problem
        self.rungs: dict[str, Rung] = {}
        self.files: dict[tuple[str, str], Path] = {}
        # It holds no ladders, so that the profiles of a finished one can be released.
        self.elsewhere: dict[str, dict[tuple[str, str], Path]] = {}
        self.damaged = damaged
        self._steps: dict[tuple[str, str, str], Step] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.problem} {self.device}>"

    def add(self, version: str, engine: str, path: Path, entry: Entry | None) -> None:
        """Add a recorded file; `entry` is None for a time."""
        rung = self.rungs.setdefault(version, Rung(self, version))
        if entry is None:
            rung.timed = True
        else:
            rung.entries[engine] = entry
        self.files[version, engine] = path

    def rung(self, version: str) -> Rung:
        """The rung of a version; an empty one if the version has no record here."""
        return self.rungs.get(version) or Rung(self, version)

    @property
    def study(self) -> StudyInfo:
        """The study's texts."""
        return self.family.study

    @property
    def tunings(self) -> dict[Path, Tuning]:
        """The tunings that have a winner on this problem."""
        return {
            path: tuning
            for path, tuning in self.family.tunings.items()
            if not isinstance(tuning, DataError) and self.problem in tuning.winners
        }

    @cached_property
    def order(self) -> list[Rung]:
        """v0, v1, …, then the baselines; the study's order if it is known."""
        known = {version: index for index, version in enumerate(self.study.versions)}

        def key(rung: Rung) -> tuple[object, ...]:
            numbered = rung.id[:1] == "v" and rung.id[1:].isdigit()
            place = known.get(rung.id, -1)
            return (rung.is_baseline or not numbered, place, natural_key(rung.id))

        return sorted(self.rungs.values(), key=key)

    @cached_property
    def timed(self) -> bool:
        """True if any version has a time that was taken without the profiler."""
        return any(rung.timing for rung in self.rungs.values())

    @cached_property
    def compared_with(self) -> set[str]:
        """The baselines that were timed together with recorded times."""
        return {rung.timing.baseline for rung in self.rungs.values() if rung.timing}

    @cached_property
    def baseline(self) -> Rung | None:
        """The library to beat, if it is recorded here: the most frequent baseline of times."""
        found = [rung for rung in self.order if rung.is_baseline]
        beside = Tally(rung.timing.baseline for rung in self.rungs.values() if rung.timing)
        return max(found, key=lambda rung: beside[rung.id], default=None)

    @property
    def top(self) -> float:
        """The best version's speed relative to the baseline, or 1 for the baseline itself.

        Other libraries may be faster still; they are not a step of the ladder.
        """
        return max([1.0, *(rung.of_baseline or 0.0 for rung in self.order if not rung.is_baseline)])

    @cached_property
    def device_name(self) -> str:
        """The name that the device reports."""
        for rung in self.order:
            if rung.timing:
                return rung.timing.device.name
            if rung.record:
                return rung.record.device
        return self.device

    @cached_property
    def parameters(self) -> dict[str, int]:
        """The problem's parameters as they were recorded."""
        for rung in self.order:
            record = rung.timing or rung.profile
            if record is not None and record.parameters:
                return dict(record.parameters)
        return {}

    def parent(self, rung: Rung) -> Rung | None:
        """The version to compare with: the declared parent, else the one before it."""
        declared = rung.declared
        if rung.is_baseline:
            return None
        if declared and declared.parent:
            return self.rungs.get(declared.parent)
        place = self.order.index(rung)
        return self.order[place - 1] if place else None

    @cached_property
    def path(self) -> list[tuple[Rung, list[Rung]]]:
        """The versions from which the fastest one was made, step by step, and itself.

        Each has the other versions that were made from it; versions made from none of these, and
        baselines, come last. A version on the path need not be recorded here.
        """
        rungs = [rung for rung in self.order if not rung.is_baseline]
        above = {new.id: old.id for old, new in pairwise(rungs)}
        last = len(rungs)  # if none is timed, the last one counts as the fastest
        fastest = min(
            rungs,
            key=lambda rung: (
                rung.time.time.value if rung.time else math.inf,
                last - rungs.index(rung),
            ),
            default=None,
        )

        def way(version: str) -> list[str]:
            found: list[str] = []
            while version and version not in found:
                found.append(version)
                declared = self.study.versions.get(version)
                version = (declared.parent if declared else "") or above.get(version, "")
            return found

        tried: dict[str, list[Rung]] = (
            {version: [] for version in reversed(way(fastest.id)) if version in self.rungs}
            if fastest
            else {}
        )
        alone = []
        for rung in self.order:
            root = next((version for version in way(rung.id) if version in tried), "")
            if rung.is_baseline or not root:
                alone.append(rung)
            elif root != rung.id:
                tried[root].append(rung)
        return [(self.rungs[version], beside) for version, beside in tried.items()] + [
            (rung, []) for rung in alone
        ]

    def along(self, rung: Rung) -> list[Rung]:
        """The path; a version that was tried beside it comes after its parent."""
        return [each for on, tried in self.path for each in (on, *tried) if each in (on, rung)]

    @cached_property
    def steps(self) -> list[tuple[str, str, str]]:
        """(parent, version, engine) of every step with profiles of both sides."""
        return [
            (parent.id, rung.id, engine)
            for rung in self.order
            if (parent := self.parent(rung)) is not None
            for engine in self.engines(parent.id, rung.id)
        ]

    def engines(self, old: str, new: str) -> list[str]:
        """The engines that have profiled both versions, the better one first."""
        if old not in self.rungs or new not in self.rungs or old == new:
            return []
        sides = self.rungs[old].entries, self.rungs[new].entries
        return [engine for engine in ENGINES if all(engine in side for side in sides)]

    def step(self, old: str, new: str, engine: str) -> Step:
        """One step, compared once for all pages that show it."""
        from workbench.analysis.story import Step  # comparing loads more than planning pages needs

        key = (old, new, engine)
        if key not in self._steps:
            before, after = self.rungs[old], self.rungs[new]
            self._steps[key] = Step(
                before.load(engine),
                after.load(engine),
                (old, new),
                (before.timing, after.timing) if engine == "ncu" else (None, None),
                self.expected(old, new),
            )
        return self._steps[key]

    def expected(self, old: str, new: str) -> tuple[Expectation, ...]:
        """Predictions of the new version's author, if it was made from the old one."""
        author = self.rungs[new].declared
        return author.expectations if author is not None and author.parent == old else ()


def find_ladders(
    store: Store,
    project: Project | None,
    studies: tuple[str, ...] = (),
    *,
    info: Callable[[str], StudyInfo] | None = None,
    damaged: list[DataError] | None = None,
    without: Container[Path] = (),
) -> list[Ladder]:
    """The ladders with any record, in natural order; no studies: all.

    `info` gives a study's texts; None: they are read when needed. `damaged` receives the errors of
    files that cannot be read; None: they are raised. Files in `without` are skipped.
    """
    info = info or cache(partial(StudyInfo, project))
    families: dict[tuple[str, str], Family] = {}
    out: dict[tuple[str, str, str], Ladder] = {}

    def ladder(name: str, device: str, problem: str) -> Ladder:
        key = (name, device, problem)
        if key not in out:
            family = families.setdefault(key[:2], Family(store, name, device, info))
            if without:
                family.damaged = []
            out[key] = Ladder(family, problem, damaged)
        return out[key]

    for name in studies or (None,):
        for file in store.files(study=name):
            if file.path not in without:
                home = ladder(file.study, file.device, file.problem)
                home.add(file.version, file.kind, file.path, file.entry)
    alike: dict[tuple[str, str], list[Ladder]] = defaultdict(list)
    for each in out.values():
        alike[each.name, each.problem].append(each)
    for ladders in alike.values():
        for each in ladders:
            each.elsewhere = {one.device: one.files for one in ladders if one is not each}
    return sorted(
        out.values(), key=lambda x: tuple(map(natural_key, (x.name, x.device, x.problem)))
    )


def recorded_seed(store: Store, study: str) -> int | None:
    """The seed of a study's newest recorded profile, on any device; None: none has one.

    The next profile gets the same inputs, so that a diff shows only the code's change.
    """
    summaries = Summaries(str(store.root), study, "profiles")  # a rung of a list has times as well
    found: list[tuple[str, int]] = []
    for entry in store.find(study=study):
        try:
            summary = summaries.of(entry.path)
        except (DataError, MissingError):
            continue  # another command reports it; it has no seed
        if summary.seed is not None:
            found.append((summary.captured, summary.seed))
    summaries.keep()
    return max(found)[1] if found else None


def damaged_files(paths: Iterable[Path]) -> dict[Path, DataError]:
    """The recorded files that exist but cannot be read, and why; all are read for it."""
    found: dict[Path, DataError] = {}
    for path in paths:
        try:
            if path.name.endswith(_TIME_SUFFIX):
                decode(path, Timing)
            else:
                decode(path, Profile)
        except DataError as error:
            found[path] = error.kept()
        except MissingError:
            pass
    return found
