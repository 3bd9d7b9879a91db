"""A sweep: every version of a study at every size, as it is recorded or was measured."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.errors import MissingError, UsageError
from workbench.measure.plan import (
    Gap,
    Key,
    Plan,
    Sweep,
    plan,
    recorded,
    recorded_devices,
    sweep_problems,
)
from workbench.model import Problem, Timing
from workbench.project import Project
from workbench.specs import Version
from workbench.store import Store, means_device
from workbench.study.folder import ProblemFacts, SeenStudy, Study, view_study


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
    """The sweep as it is stored.

    Args:
        project: Where the store is.
        study: The study (`swept_study`).
        versions: The versions.
        patterns: Names of problems, or patterns of names; none: all that are swept.
        device: The device; None: the project's, or that of the newest time.
        cache: State of the caches that the times must be of.

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
            "Leave out --problem and the versions to see what is, or measure them on a "
            "machine with a GPU.",
        )
    stale = frozenset(found.stale)
    return sweep_of(study, versions, combinations, timings, combinations.refused, cache, stale)
