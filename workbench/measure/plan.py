"""Plan a run on versions and problems, and find its stored results.

A *combination* is a version on a problem. Finding the combinations that a version refuses, those
already recorded and the order of the rest is the same for every command, and needs no hardware. A
version's requirements are checked only here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from workbench.errors import UsageError
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
    """A version cannot do the requested problem; the message says why."""


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
        """The key by which timings are found."""
        return self.version.id, self.problem.name


def by_work(study: Study, problems: Iterable[Problem]) -> list[Problem]:
    """Problems from the least work to the most: by operations, then bytes, then name."""
    return sorted(
        problems, key=lambda p: (study.flops(p), study.bytes(p), natural_key(p.name), p.name)
    )


def chosen(study: Study, version: Version, name: str | None, use: Use) -> list[Combination]:
    """A version on the problems of a use (or on the named problem) that it can do.

    Raises:
        UsageError: an unknown problem, or the study has none for that use.
        UnableError: the version can do none of them; the message says why.
    """
    every = study.problems_for(use) if name is None else []
    return _able(study, version, every or [study.problem(name, use)])


def to_time(study: Study, version: Version, name: str | None, every: bool) -> list[Combination]:
    """A version on the problems to time; raises as `chosen`.

    `name` is one problem, or ``n4096,s1_*``: names of any problems, and patterns for those to
    profile or sweep. `every`: all of the latter; neither: the first one to profile.
    """
    timed = [each for use in _TIMED for each in study.problems_for(use)]
    if every and timed:
        return _able(study, version, timed)
    if name is None or not set("*?[,") & set(name):
        return chosen(study, version, name, "profile")[:1]
    found: list[Problem] = []
    for pattern in name.split(","):
        found += [each for each in timed if fnmatchcase(each.name, pattern)] or [
            study.problem(pattern)
        ]
    return _able(study, version, found)


def _able(study: Study, version: Version, problems: Sequence[Problem]) -> list[Combination]:
    able: dict[Key, Combination] = {}
    refused: UnableError | None = None
    for problem in problems:
        try:
            each = Combination.of(study, version, problem)
        except UnableError as error:
            refused = error
        else:
            able[each.key] = each
    if refused is not None and not able:
        raise refused
    return list(able.values())


class Recorded(Record, frozen=True):
    """Stored times for a plan: valid times, and times of older sources."""

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

    A time is valid if version and baseline have the sources that they had when it was taken, and
    the baseline is still the same one. A time without a ratio is valid if it records that the
    baseline could not be timed then. `cache` is the required state of the caches. `since` is ISO
    time; earlier captures are not valid. Raises DataError: a stored file is damaged.
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
    # Older records have "" for the hash: only the name can be compared.
    return timing.baseline == baseline.id and timing.baseline_hash in ("", hashes[baseline.id])
