"""A sweep: every version of a study at every size, as it is recorded or was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.errors import MissingError, UsageError
from workbench.measure.plan import Gap, Key, Plan, plan, recorded, sweep_problems
from workbench.model import Problem, Record, Timing
from workbench.project import Project
from workbench.specs import Version
from workbench.store import Store, means_device
from workbench.study.folder import ProblemFacts, SeenStudy, Study, view_study

if TYPE_CHECKING:
    from workbench.analysis.limits.roofline import Work


class Sweep(Record, frozen=True):
    """The times of versions on problems, and why others are missing. Keys are (version, problem).

    `problems` stand from the least work to the most, `versions` in ladder order, the
    baselines (the names in `baselines`) last. Every key has a timing or a gap. `stale`
    names timings of older sources, `work` is what `Timing.flops` counts.
    """

    study: str
    device: str
    cache: str
    versions: tuple[str, ...]
    baselines: tuple[str, ...]
    problems: tuple[str, ...]
    timings: dict[Key, Timing]
    gaps: dict[Key, Gap]
    stale: frozenset[Key] = frozenset()
    work: Work = "flop"

    @property
    def ordered(self) -> list[Timing]:
        """The timings, version by version."""
        keys = ((version, problem) for version in self.versions for problem in self.problems)
        return [self.timings[key] for key in keys if key in self.timings]

    @property
    def best(self) -> dict[str, str]:
        """Problem -> its fastest version; baselines and stale times do not count."""
        out = {}
        for problem in self.problems:
            times = {
                version: self.timings[version, problem].time.value
                for version in self.versions
                if version not in self.baselines
                and (version, problem) in self.timings
                and (version, problem) not in self.stale
            }
            if times:
                out[problem] = min(times, key=lambda version: times[version])
        return out

    @property
    def rival(self) -> str:
        """The baseline that ratios are to."""
        return next((timing.baseline for timing in self.ordered if timing.baseline), "")


def sweep_of(
    study: Study,
    versions: Sequence[Version],
    combinations: Plan,
    timings: dict[Key, Timing],
    gaps: dict[Key, Gap],
    cache: str,
    stale: frozenset[Key] = frozenset(),
) -> Sweep:
    """Times of a plan; a combination without time or reason is not recorded."""
    missing = Gap(kind="missing", why="not recorded")
    return Sweep(
        study=study.name,
        device=next(iter(timings.values())).device.name,
        cache=cache,
        versions=tuple(version.id for version in versions),
        baselines=tuple(version.id for version in versions if version.baseline),
        problems=combinations.problems,
        timings=timings,
        gaps=dict.fromkeys(combinations.keys - timings.keys(), missing) | gaps,
        stale=stale,
        work=study.work,
    )


def swept_study(project: Project, name: str) -> SeenStudy:
    """The study unrun; without a record of it, with the problems that its times are of."""
    study = view_study(project, name)
    if study.problems:
        return study
    times = {each.problem: each for each in Store.of(project).timings(study=name)}
    known = [
        ProblemFacts(
            problem=Problem(name=each.problem, parameters=each.parameters, uses=("sweep",)),
            derived=each.parameters,
            outputs={},
            flops=each.flops,
            bytes=each.bytes,
        )
        for each in times.values()
    ]
    return view_study(project, name, known)


def recorded_sweep(
    project: Project,
    study: Study,
    versions: Sequence[Version],
    patterns: Sequence[str] = (),
    device: str | None = None,
    cache: str = "cold",
) -> Sweep:
    """The sweep of a study (`swept_study`) as it is stored.

    `patterns` name problems, or are patterns of names; none: all that are swept. Without a
    `device` it is the project's, or that of the newest time.

    Raises:
        UsageError: no such problem, or nothing is stored of the device.
        MissingError: nothing is stored of the study, or of these versions and problems.
        DataError: a stored file is damaged.
    """
    combinations = plan(study, versions, sweep_problems(study, patterns))
    devices = recorded_devices(project, study.name)
    if not devices:
        raise MissingError(
            f"no time of {study.name} is recorded below {project.profiles}",
            f"Record some: `workbench sweep {study.name}` on a machine with a GPU.",
        )
    slug = next((each for each in devices if device is None or means_device(device, each)), None)
    if slug is None:
        raise UsageError(
            f"no time of {study.name} is recorded on a device {device!r}",
            f"Recorded devices: {', '.join(devices.values())}.",
        )
    found = recorded(project, study, combinations.keys, slug, cache)
    timings = found.stale | found.current
    if not timings:
        raise MissingError(
            f"none of these times of {study.name} is recorded on {devices[slug]}",
            "Leave out the problems and the versions to see what is, or measure them on a "
            "machine with a GPU.",
        )
    stale = frozenset(found.stale)
    return sweep_of(study, versions, combinations, timings, combinations.refused, cache, stale)


def recorded_devices(project: Project, study: str) -> dict[str, str]:
    """Slug -> name of the devices with times of a study: the project's own, then the newest."""
    newest: dict[str, tuple[str, str]] = {}
    for timing in Store.of(project).timings(study=study):
        rank = (timing.captured, timing.device.name)
        newest[timing.device.slug] = max(newest.get(timing.device.slug, ("", "")), rank)
    order = sorted(newest, key=newest.__getitem__, reverse=True)
    order.sort(key=lambda slug: not means_device(project.default_device, slug))
    return {slug: newest[slug][1] for slug in order}
