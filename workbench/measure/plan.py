"""Plan a run over versions and problems, and find its stored results.

A *combination* is a version on a problem. The combinations that a version refuses, those already
recorded and the order of the rest are the same for every command, and need no hardware. A version's
requirements are checked here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from workbench.errors import UsageError, did_you_mean
from workbench.model import Problem, Record, Timing
from workbench.project import Project
from workbench.specs import Version
from workbench.store import Store, natural_key
from workbench.study.folder import Study, source_hash

Key = tuple[str, str]  # (version, problem)
Use = Literal["verify", "profile", "sweep"]
#: Uses of the problems that are timed.
_TIMED: tuple[Use, ...] = ("profile", "sweep")


class UnableError(UsageError):
    """A version cannot do the problem that was asked for, and says why."""


class Combination(NamedTuple):
    """A version on a problem that it can do."""

    version: Version
    problem: Problem

    @classmethod
    def of(cls, study: Study, version: Version, problem: Problem) -> Combination:
        """A version on a problem; UnableError: it requires what the problem does not have."""
        try:
            study.check_requirements(version, problem)
        except UsageError as error:
            raise UnableError(error.message, error.hint) from error
        return cls(version, problem)

    @property
    def key(self) -> Key:
        """By which timings are found."""
        return self.version.id, self.problem.name


class Gap(Record, frozen=True):
    """The reason for a missing time: refused, not available here, failed, not recorded."""

    kind: Literal["refused", "unavailable", "failed", "missing"]
    why: str


class Plan(Record, frozen=True):
    """Combinations in the order in which they are measured, and those that are refused."""

    problems: tuple[str, ...]
    combinations: tuple[Combination, ...]
    refused: dict[Key, Gap]

    @property
    def keys(self) -> set[Key]:
        """Of the combinations that can be measured."""
        return {each.key for each in self.combinations}


def sweep_problems(study: Study, patterns: Sequence[str] = ()) -> list[Problem]:
    """Return the problems of a sweep, from the least work to the most.

    A pattern (``n*``, ``s1_*``) chooses among the problems marked ``sweep``, a name may be any
    problem's; no patterns: all of them. Raises UsageError: the study has none, or a pattern matches
    none.
    """
    every = study.problems_for("sweep")
    if not patterns:
        study.problem(None, "sweep")  # has the words for a study without any
    chosen = {} if patterns else {problem.name: problem for problem in every}
    for pattern in patterns:
        exact = study.problems.get(pattern)
        found = [exact] if exact else [p for p in every if fnmatchcase(p.name, pattern)]
        if not found:
            raise UsageError(
                f"no problem of study {study.name} is called `{pattern}`"
                if not set("*?[") & set(pattern)
                else f"no sweep problem of study {study.name} matches `{pattern}`",
                did_you_mean(
                    pattern,
                    [p.name for p in every] if set("*?[") & set(pattern) else study.problems,
                    "problems",
                ),
            )
        chosen |= {problem.name: problem for problem in found}
    return by_work(study, chosen.values())


def by_work(study: Study, problems: Iterable[Problem]) -> list[Problem]:
    """Problems from the least work to the most: by operations, then bytes, then name."""
    return sorted(
        problems, key=lambda p: (study.flops(p), study.bytes(p), natural_key(p.name), p.name)
    )


def plan(study: Study, versions: Sequence[Version], problems: Sequence[Problem]) -> Plan:
    """Return every version at every problem, problem by problem.

    Versions on one problem share its inputs and reference, and an interrupted sweep then has whole
    columns.
    """
    combinations = []
    refused: dict[Key, Gap] = {}
    for problem in problems:
        for version in versions:
            try:
                combinations.append(Combination.of(study, version, problem))
            except UnableError:
                why = version.requires_why or f"it requires {version.requires}"
                refused[version.id, problem.name] = Gap(kind="refused", why=why)
    names = tuple(problem.name for problem in problems)
    return Plan(problems=names, combinations=tuple(combinations), refused=refused)


def chosen(study: Study, version: Version, name: str | None, use: Use) -> list[Combination]:
    """A version on the problems of a use (or on the one named) that it can do.

    Raises:
        UsageError: an unknown problem, or the study has none of that use.
        UnableError: the version can do none of them, and why not.
    """
    if name is not None:
        return [Combination.of(study, version, study.problem(name))]
    able = []
    refused: UnableError | None = None
    for problem in study.problems_for(use):
        try:
            able.append(Combination.of(study, version, problem))
        except UnableError as error:
            refused = error
    if refused is not None and not able:
        raise refused
    if not able:
        study.problem(None, use)  # has the words for a study without any
    return able


def to_time(study: Study, version: Version, name: str | None, every: bool) -> list[Combination]:
    """A version on the problems to time: one, or all to profile or sweep; raises as `chosen`."""
    if not every:
        return chosen(study, version, name, "profile")[:1]
    found = {
        each.key: each
        for use in _TIMED
        if study.problems_for(use)
        for each in chosen(study, version, None, use)
    }
    return list(found.values()) or chosen(study, version, None, "profile")[:1]


class Recorded(Record, frozen=True):
    """Stored times of a plan: those that still hold, and those of older sources."""

    current: dict[Key, Timing]
    stale: dict[Key, Timing]


def recorded(
    project: Project,
    study: Study,
    keys: Iterable[Key],
    device: str,
    cache: str = "cold",
    since: str = "",
) -> Recorded:
    """Return the stored times of combinations on a device.

    A time holds if version and baseline have the sources that they had when it was taken, and the
    baseline is still the same one. A time without ratio holds where the baseline could not be timed
    then, and said so. `cache` is the required state of the caches. `since` is ISO time; earlier
    captures do not hold. Raises DataError: a stored file is damaged.
    """
    wanted = set(keys)
    hashes = {v.id: source_hash(project, v) for v in study.versions.values()}
    current: dict[Key, Timing] = {}
    stale: dict[Key, Timing] = {}
    for timing in Store.of(project).timings(study=study.name, device=device):
        key = (timing.version, timing.problem)
        if key not in wanted or timing.cache != cache:
            continue
        holds = timing.source_hash == hashes[timing.version]
        holds = holds and _same_baseline(study, timing, hashes) and timing.captured >= since
        (current if holds else stale)[key] = timing
    return Recorded(current=current, stale=stale)


def _same_baseline(study: Study, timing: Timing, hashes: dict[str, str]) -> bool:
    baseline = study.baseline
    if baseline is None or baseline.id == timing.version:
        return not timing.baseline
    if not timing.baseline:
        return any(notice.code == "no-baseline" for notice in timing.notices)
    # Records from before the hash was kept have "": the name must do.
    return timing.baseline == baseline.id and timing.baseline_hash in ("", hashes[baseline.id])
