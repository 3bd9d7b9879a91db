"""Records of one study, and the ladder that represents it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from workbench.errors import DataError, UsageError
from workbench.ladder import Family, Ladder, Rung, find_ladders
from workbench.ladder.summaries import RecordedProfile, Summaries
from workbench.ladder.tunings import tuned_lines
from workbench.model import Timing
from workbench.project import Project
from workbench.store import Store, means_device
from workbench.study.folder import SeenStudy, Study, StudyInfo


@dataclass(eq=False)
class StudyList:
    """A study as it is now, with one of its ladders in full.

    Attributes:
        study: The study.
        ladders: All of its records.
        recorded: The problems with any record, in the study's order.
        shown: The ladder that tables show; it may be empty.
        device: The name of that ladder's device; "" if nothing is recorded.
        remarks: Remarks on the study: why it may be out of date, what is left out.
        tuned: A line about each winner of its tunings.
        part: The versions that a table shows.
    """

    study: Study
    ladders: list[Ladder]
    recorded: list[str]
    shown: Ladder
    device: str
    remarks: tuple[str, ...] = ()
    tuned: tuple[str, ...] = ()
    part: slice = field(default_factory=lambda: slice(None))

    @property
    def problem(self) -> str:
        """The problem of the ladder that tables show; "" if nothing is recorded."""
        return self.shown.problem if self.device else ""

    @cached_property
    def rungs(self) -> list[Rung]:
        """The study's versions on the shown ladder, recorded there or not."""
        return [self.shown.rung(version) for version in self.study.versions]

    def profiles(self, version: str) -> list[RecordedProfile]:
        """Profiles of a version, on every ladder."""
        return [record for rung in self._everywhere(version) for record in rung.records]

    def timings(self, version: str) -> list[Timing]:
        """Recorded times of a version, on every ladder."""
        return [rung.timing for rung in self._everywhere(version) if rung.timing]

    def _everywhere(self, version: str) -> list[Rung]:
        return [ladder.rungs[version] for ladder in self.ladders if version in ladder.rungs]


def study_list(
    project: Project,
    study: SeenStudy,
    problem: str | None,
    device: str | None,
    damaged: list[DataError],
) -> StudyList:
    """Records of a study.

    `problem` and `device` are those to show; None: the first problem with a record, the project's
    device or that of the newest profile. `damaged` receives the errors of files that cannot be
    read. Raises UsageError: no such problem, or no record on the device.
    """
    name = study.name

    def info(_: str) -> StudyInfo:
        return StudyInfo(project, name, study)

    if problem is not None:
        study.problem(problem)
    store = Store.of(project)
    summaries = Summaries(str(store.root), name)
    ladders = find_ladders(store, project, (name,), info=info, damaged=damaged)
    for ladder in ladders:
        ladder.family.summaries = summaries
    wish = device if device is not None else project.default_device
    meant = [ladder for ladder in ladders if means_device(wish, ladder.device)]
    # If the device is known, records of others need not be read to find the newest.
    devices = _devices(study, meant or ladders)
    summaries.keep()
    if device is not None and not meant:
        there = ", ".join(devices) or "none"
        raise UsageError(
            f"nothing of {name} is recorded on device {device!r}", f"Recorded devices: {there}."
        )
    where, slug = next(iter(devices.items()), ("", ""))
    recorded = _problems(study, [ladder for ladder in ladders if ladder.device == slug])
    first = [p.name for p in study.problems_for("profile") if p.name in recorded]
    wanted = problem or next(iter([*first, *recorded]), "")
    here = (each for each in ladders if (each.device, each.problem) == (slug, wanted))
    empty = Ladder(Family(store, name, slug, info), wanted)
    tuned = tuned_lines(store, name, info(name).source_hash, damaged)
    return StudyList(study, ladders, recorded, next(here, empty), where, study.remarks, tuned)


def _problems(study: Study, ladders: list[Ladder]) -> list[str]:
    """Problems with any record on a device, in their order; removed ones come last."""
    names = {
        ladder.problem
        for ladder in ladders
        if any(rung.records or rung.timed_on for rung in map(ladder.rung, study.versions))
    }
    place = {name: at for at, name in enumerate(study.problems)}
    return sorted(names, key=lambda name: (place.get(name, len(place)), name))


def _devices(study: Study, ladders: list[Ladder]) -> dict[str, str]:
    """Recorded devices (name -> slug), the one with the newest profile first.

    Hardware comes before the emulator, as for `show`: a laptop's first emulated
    profile must not hide the ladder's times.
    """
    newest: dict[str, tuple[bool, str]] = {}
    slugs: dict[str, str] = {}
    every = [(ladder, ladder.rung(version)) for version in study.versions for ladder in ladders]
    for ladder, rung in every:
        for profile in rung.records:
            rank = (profile.engine == "ncu", profile.captured)
            newest[profile.device] = max(newest.get(profile.device, (False, "")), rank)
            slugs.setdefault(profile.device, ladder.device)
        if rung.timed_on:
            newest.setdefault(rung.timed_on, (True, ""))
            slugs.setdefault(rung.timed_on, ladder.device)
    return {name: slugs[name] for name in sorted(newest, key=newest.__getitem__, reverse=True)}
