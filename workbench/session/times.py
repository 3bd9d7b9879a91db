"""Measured times of versions.

Versions are timed in turn with the study's baseline, on the requested GPUs; each entry of `found`
is for one model of GPU. Times stored for the same sources need not be measured again.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from msgspec.structs import replace

from workbench.engines import Engine, RunOptions, now
from workbench.engines.choice import on_gpus
from workbench.engines.host.job import TimeOptions
from workbench.engines.host.worker_pool import Crew
from workbench.errors import MissingError, UsageError, WorkbenchError
from workbench.measure.experiment import SILENT, Display
from workbench.measure.plan import Combination, Key, by_work, recorded, to_time
from workbench.model import Timing
from workbench.project import Project
from workbench.session.runners import NAME_ANOTHER, Here, Runner, Task, Tell, VersionRuns
from workbench.session.targets import Named
from workbench.session.workspace import Manner
from workbench.store import Store, means_device
from workbench.study.folder import SeenStudy, Study
from workbench.units import several


class TimedVersions(NamedTuple):
    """Versions that were timed: an entry of `found` for each model of GPU."""

    study: Study
    found: list[dict[Key, Timing]]
    fault: WorkbenchError | None = None
    notes: tuple[str, ...] = ()


class TimeTask(Task[Timing], frozen=True, kw_only=True):
    """Time versions, each in turn with the study's baseline.

    Attributes:
        since: Times stored since this time (ISO 8601) are not measured again.
    """

    kind = "time"
    result = Timing

    timed: bool = True
    sampling: TimeOptions = TimeOptions()
    since: str = ""

    def label(self, piece: Combination) -> str:
        """See `Task.label`."""
        return " ".join(piece.key)

    def resumed(self, since: str, gpus: str) -> TimeTask:
        """See `Task.resumed`."""
        del gpus
        return replace(self, since=since)

    def engines(
        self, project: Project, display: Display, workers: Crew | None = None
    ) -> Sequence[Engine]:
        """See `Task.engines`."""
        return on_gpus(project, self.run, display.say, workers)

    def do(self, here: Here, pieces: Sequence[Combination], tell: Tell[Timing]) -> None:
        """See `Task.do`."""
        stored: dict[Key, Timing] = {}
        if self.since:
            keys, cache = [each.key for each in pieces], self.sampling.cache
            where = here.project, here.study, keys, here.device
            stored = recorded(*where, cache, self.since).current
        for piece in pieces:
            if piece.key in stored:
                tell(piece, stored[piece.key])
        if left := [each for each in pieces if each.key not in stored]:
            here.time(left, self.sampling, tell)


def time(
    project: Project,
    named: Named,
    run: RunOptions | None,
    display: Display | None,
    manner: Manner | None,
    *,
    all_problems: bool = False,
) -> TimedVersions:
    """See `workbench.session.api.CoreSession.time`."""
    manner = manner or Manner(TimeOptions(), resume=False)
    run, display = run or RunOptions(), display or SILENT
    picked, alone = named.pick(project), not all_problems
    runs = VersionRuns(named, picked, run, display, alone=alone, workers=manner.workers)
    combinations = _to_time(runs, all_problems)
    found = _measure(runs, combinations, manner)
    names = dict.fromkeys(each.problem.name for each in combinations)
    keys = [(version.id, name) for version in runs.versions for name in names]
    fault = runs.failures.ended()
    if fault is None and not any(found):
        fault = MissingError("nothing was timed", NAME_ANOTHER)
    ordered = [{key: each[key] for key in keys if key in each} for each in found]
    return TimedVersions(runs.study, ordered, fault)


def _to_time(runs: VersionRuns, all_problems: bool) -> list[Combination]:
    """Each version on its problems, by problem, from the least work to the most."""
    able: list[Combination] = []
    for version in runs.versions:
        try:
            able += to_time(runs.study, version, runs.named.problem, all_problems)
        except UsageError as error:
            if not runs.failures.pass_over(version, error):
                raise
    problems = {each.problem.name: each.problem for each in able}
    order = [each.name for each in by_work(runs.study, problems.values())]
    return sorted(able, key=lambda each: order.index(each.problem.name))


def recorded_times(project: Project, named: Named, cache: str) -> TimedVersions:
    """Stored times of versions, on the named device (``sgemm@h200``) or the newest one.

    Without a problem (or ``n4096,s1_*``), all stored times, from the least work to the most.

    Raises:
        UsageError: no such version, or two devices.
        MissingError: none of their times is stored there.
        DataError: a stored file is damaged.
    """
    texts, devices = zip(
        *(each.partition("@")[::2] for each in named.versions or ("",)), strict=True
    )
    named = Named.of(project, replace(named, versions=tuple(filter(None, texts))))
    _, study, versions = named.pick(project, run=False)
    places, patterns = {*filter(None, devices)}, (named.problem or "*").split(",")
    if len(places) > 1:
        raise UsageError(f"several devices: {', '.join(sorted(places))}", "Name one of them.")
    ids = [version.id for version in versions]
    every = [
        each
        for each in Store.of(project).timings(study=study.name)
        if each.cache == cache
        and each.version in ids
        and any(fnmatchcase(each.problem, pattern) for pattern in patterns)
    ]
    wanted = next(iter(places), project.default_device)
    on = [each for each in every if means_device(wanted or "", each.device.slug)]
    if not on and every and not places:
        newest = max(every, key=lambda each: each.captured).device.slug
        on = [each for each in every if each.device.slug == newest]
    if not on:
        known = ", ".join(dict.fromkeys(each.device.name for each in every))
        hint = f"Record them on a GPU: `workbench time {study.name} --all-problems`."
        raise MissingError(
            f"none of these times for {study.name} is recorded",
            f"Recorded devices: {known}." if known else hint,
        )
    on.sort(key=lambda each: (ids.index(each.version), each.flops, each.bytes))
    keys = [(each.version, each.problem) for each in on]
    found = recorded(project, study, keys, on[0].device.slug, cache).current
    times = {key: found[key] for key in keys if key in found}
    notes = study.remarks if isinstance(study, SeenStudy) else ()
    if older := len(keys) - len(times):
        notes += (
            f"{several(older, 'stored time')} from older sources left out; "
            f"`workbench time {study.name} --all-problems` measures new ones",
        )
    return TimedVersions(study, [times], notes=notes)


def _measure(
    runs: VersionRuns, combinations: Sequence[Combination], manner: Manner
) -> list[dict[Key, Timing]]:
    """Time combinations, or take them from the store; an entry for each model of GPU.

    `combinations` are in the order of measuring.

    Raises:
        MissingError: there is no GPU to run on.
        UsageError: GPUs that this machine does not have.
    """
    begin = now()
    task = TimeTask(run=runs.options, sampling=manner.sampling)
    out: list[dict[Key, Timing]] = []
    for runner in runs.runners(task):
        times = _stored(runs, runner, combinations, manner) if manner.resume else {}
        known = {key for each in times.values() for key in each}
        todo = [each for each in combinations if each.key not in known]
        try:
            _time(runs, runner, task, todo, times)
        except (KeyboardInterrupt, SystemExit):
            if manner.workers is not None:
                manner.workers.end()  # so that they store their results before these are counted
            if isinstance(runner, Here):
                done = sum(map(len, times.values()))
                other = "" if manner.resume else f", --since {begin} instead of --again"
                runs.display.say(
                    f"{done} of {len(combinations)} combinations are measured and "
                    f"kept; continue with the same command{other}"
                )
            raise
        out += [each for each in times.values() if each]
    return out


def _time(
    runs: VersionRuns,
    runner: Runner,
    task: TimeTask,
    todo: Sequence[Combination],
    times: dict[str, dict[Key, Timing]],
) -> None:
    """Add the times of combinations, by device."""

    def tell(piece: Combination, timing: Timing) -> None:
        times.setdefault(timing.device.slug, {})[piece.key] = timing
        runs.say_timing(timing, len(todo))

    runs.carry_out(runner, task, todo, tell)


def _stored(
    runs: VersionRuns, runner: Runner, combinations: Sequence[Combination], manner: Manner
) -> dict[str, dict[Key, Timing]]:
    """Device -> the stored times that are still valid; reports their number.

    Raises:
        DataError: a stored time is damaged.
        KernelError, MissingError: the launcher leads to no GPU.
    """
    if not Store.of(runs.project).has_timings(runs.study.name):
        return {}
    keys, cache = [each.key for each in combinations], manner.sampling.cache
    every = {
        device: recorded(runs.project, runs.study, keys, device, cache, manner.since)
        for device in runner.devices
    }
    current = {key for each in every.values() for key in each.current}
    if current:
        again = len({key for each in every.values() for key in each.stale} - current)
        times = several(again, "stored time")
        old = f"; {times} {'is' if again == 1 else 'are'} out of date" if again else ""
        runs.display.say(
            f"{len(current)} of {len(keys)} are taken from the store"
            f" ({', '.join(every)}, same sources){old}; --again measures all"
        )
    return {device: dict(each.current) for device, each in every.items()}


def need_one_model(found: Sequence[dict[Key, Timing]], format_: str) -> None:
    """Refuse to print two documents for one.

    Raises UsageError: times of several models of GPU, and a machine-readable format.
    """
    if len(found) > 1 and format_ in ("json", "csv"):
        raise UsageError(
            f"--format {format_} prints one document, but the GPUs are of {len(found)} models",
            "All times are stored together, so use --gpus to select GPUs of a single model.",
        )
