"""Versions against their earlier state in Git: measured alternately, or both counted.

The earlier state is a worktree of the revision, beside the working tree. On a GPU the two cubins
of a version take turns in one process, on the inputs of today's study; without one, both are run
in the emulator, on the same seed, and their counters are compared. Nothing is stored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from workbench.analysis.compare import Comparison, compare
from workbench.analysis.times.regression import LEAST_PAIRS, RESOLUTION, Turns, slowdown
from workbench.engines import Engine, ProfileOptions, Subject, Verdict
from workbench.engines.host.job import Result, TimeOptions
from workbench.engines.ncu.engine import GpuEngine
from workbench.errors import InconclusiveError, KernelError, UsageError, WorkbenchError
from workbench.measure.plan import chosen
from workbench.model import Profile
from workbench.project import Project
from workbench.specs import Version
from workbench.study.folder import Study
from workbench.study.sources import Versions, load_versions, source_hash

#: Enough pairs for blocks, until the interval is a quarter of the slow-down a pass may miss.
PAIRS = TimeOptions(pairs=True, min_samples=100, width=RESOLUTION / 100 / 4)
#: The part of its lines that a renamed version shares with the lost one, as in Git.
_ALIKE = 0.5


class Before(NamedTuple):
    """The earlier state: its project, its name (``1a2b3c4``), and studies that changed since."""

    project: Project
    label: str
    restudied: Sequence[str] = ()


class Edited(NamedTuple):
    """A version, and its earlier state (None without one); `same`: it is unchanged."""

    version: Version
    old: Version | None
    same: bool


class Changes(NamedTuple):
    """The present versions, the lost ones with their new names, and the newly broken names."""

    edited: list[Edited]
    lost: list[tuple[Version, Version | None]]
    broken: list[str]


class BothCounted(NamedTuple):
    """Both states as the emulator counted them, and their comparison."""

    old: Profile
    new: Profile
    comparison: Comparison


Outcome = Turns | BothCounted | WorkbenchError
Verified = list[Verdict] | WorkbenchError
T = TypeVar("T")


def changes(project: Project, study: Study, before: Before) -> Changes:
    """The versions of a study, each with its earlier state; only new ones of its libraries.

    A new version with mostly the text of a lost one is that one, renamed. A library's time is not
    judged, so a changed library counts as new.
    """
    there = (before.project.kernels / study.name).is_dir()
    known = load_versions(before.project, study.name) if there else Versions({}, {})
    old = known.sound
    lost = {name: each for name, each in old.items() if name not in study.versions}
    found, gone = [], list[tuple[Version, Version | None]]()
    for version in study.versions.values():
        earlier = old.get(version.id) or _renamed(version, lost)
        if earlier is not None and earlier.id in lost:
            gone.append((lost.pop(earlier.id), version))
        same = earlier is not None and (
            source_hash(project, version) == source_hash(before.project, earlier)
        )
        library = earlier is not None and earlier.baseline
        if not (library and same):
            found.append(Edited(version, None if library else earlier, same))
    gone += [(each, None) for name, each in lost.items() if name not in study.broken]
    return Changes(found, gone, [name for name in study.broken if name not in known.broken])


def _renamed(version: Version, lost: Mapping[str, Version]) -> Version | None:
    def alike(other: Version) -> float:
        old, new = other.text.splitlines(), version.text.splitlines()
        return SequenceMatcher(None, old, new, autojunk=False).ratio()

    best = max(lost.values(), key=alike, default=None)
    return best if best is not None and alike(best) >= _ALIKE else None


def verified(engine: Engine, study: Study, version: Version, problem: str | None) -> Verified:
    """Compile a version and verify it, on one problem or on all that are marked for it."""
    if refused := engine.refuses(version):
        return InconclusiveError(f"{version.id} cannot run here: {refused}")
    found: list[Verdict] = []

    def work() -> list[Verdict]:
        pieces = chosen(study, version, problem, "verify")
        subjects = [Subject.of(study, version, each.problem, engine.build) for each in pieces]
        engine.verify(subjects, lambda _place, verdict: found.append(verdict), lambda _place: None)
        return found

    return _caught(work)


def measure(
    engines: tuple[Engine, Engine],
    study: Study,
    wanted: Sequence[tuple[Version, Version]],
    before: Before,
    problem: str | None,
) -> Iterator[tuple[Version, Outcome]]:
    """Measure versions, each against its earlier state (first in each pair of `wanted`).

    `engines` are those of the earlier project and of this one, with one seed. `study` is the
    present one. `problem`: None: the first profiled one that the version can do.

    Yields:
        Every version with its times on a GPU, or its counters, or the reason for having neither.

    Raises MissingError: nothing can run here.
    """
    gpu = engines[1]
    if not isinstance(gpu, GpuEngine):
        for old, new in wanted:
            work = partial(_counted, engines, study, (old, new), before, problem)
            yield new, _caught(work)
        return
    pairs: list[tuple[Subject, Subject]] = []
    for old, new in wanted:
        pair = _caught(partial(_subjects, engines, study, (old, new), before, problem))
        if isinstance(pair, WorkbenchError):
            yield new, pair
        else:
            pairs.append(pair)
    for (now, _), outcome in zip(pairs, _in_turns(gpu, pairs), strict=True):
        if isinstance(outcome, Result):
            yield now.version, _turns(now, outcome, before)
        else:
            yield now.version, outcome


def _subjects(
    engines: tuple[Engine, Engine],
    study: Study,
    states: tuple[Version, Version],
    before: Before,
    problem: str | None,
) -> tuple[Subject, Subject]:
    """Both states on one problem of today's study, compiled: the new one first."""
    old, new = states
    if new.kind == "python":
        raise UsageError(
            f"{new.id} is in Python: only it can launch its kernels",
            "Its earlier state cannot run beside it.",
        )
    ((_, chosen_problem), *_) = chosen(study, new, problem, "profile")
    now = Subject.of(study, new, chosen_problem, engines[1].build)
    with _earlier(before):
        earlier = replace(old, id=f"{old.id}@{before.label}")
        return now, Subject.of(study, earlier, chosen_problem, engines[0].build)


def _in_turns(
    gpu: GpuEngine, pairs: Sequence[tuple[Subject, Subject]]
) -> list[Result | WorkbenchError]:
    found: dict[int, Result | WorkbenchError] = {}

    def tell(place: int, outcome: Result | WorkbenchError) -> None:
        old = pairs[place][1].version.id
        if isinstance(outcome, KernelError) and old in outcome.message:
            outcome = InconclusiveError(outcome.message, outcome.hint)
        found[place] = outcome

    gpu.in_turns(pairs, PAIRS, tell)
    return [found[place] for place in range(len(pairs))]


def _turns(now: Subject, result: Result, before: Before) -> Turns:
    times, device = result.times, result.device
    assert times is not None and device is not None
    old, new = times.baseline_samples, times.samples
    silence = next((each.message for each in result.notices if each.code == "no-baseline"), "")
    if not silence and len(new) < LEAST_PAIRS:
        silence = f"{len(new)} pairs fit into the time, but {LEAST_PAIRS} are needed"
    return Turns(
        version=now.version.id,
        problem=now.problem.name,
        device=device.name,
        samples=(old, new),
        slowdown=None if silence else slowdown(old, new),
        silence=f"not comparable with {before.label}: {silence}" if silence else "",
        state=result.state,
        notices=result.notices,
    )


def _counted(
    engines: tuple[Engine, Engine],
    study: Study,
    states: tuple[Version, Version],
    before: Before,
    problem: str | None,
) -> BothCounted:
    """Both states in the emulator."""
    old, new = states
    (one, *_) = chosen(study, new, problem, "profile")
    if refused := engines[1].refuses(new):
        raise InconclusiveError(f"{new.id} cannot run here: {refused}")

    def profile(engine: Engine, version: Version) -> Profile:
        subject = Subject.of(study, version, one.problem, engine.build)
        return engine.profile(subject, ProfileOptions())[0]

    after = profile(engines[1], new)
    with _earlier(before):
        earlier = profile(engines[0], old)
        labels = (f"{old.id}@{before.label}", new.id)
        return BothCounted(earlier, after, compare(earlier, after, labels=labels))


def _caught(work: Callable[[], T]) -> T | WorkbenchError:
    """Return the result of the work, or the error of this one version."""
    try:
        return work()
    except (KernelError, UsageError, InconclusiveError) as error:
        return error


@contextlib.contextmanager
def _earlier(before: Before) -> Iterator[None]:
    """Turn an error of the earlier state into a missing comparison, not a failed version."""
    try:
        yield
    except (KernelError, UsageError) as error:
        raise InconclusiveError(f"its state at {before.label}: {error.message}") from error
