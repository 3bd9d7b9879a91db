"""The mutants: which version, which problem, which edit, all from a number.

Versions come from the recorded profiles, which hold their PTX: no compiler is needed, and
every machine makes the same mutants.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.fuzz.mutations import IN_FLIGHT, KINDS, Edit, Kind, mutate
from benchmarks.recordings import opened
from workbench.compile.build import BuildResult
from workbench.engines import Subject
from workbench.engines.emulated.engine import recorded_build
from workbench.errors import WorkbenchError
from workbench.model import Problem
from workbench.specs import Version
from workbench.store import Store
from workbench.study.folder import Study, load_study, study_names

#: Seed of the inputs of every mutant.
SEED = 13
#: Problems of more operations, or more threads, are left out where there are smaller ones.
_MOST_FLOPS, _MOST_THREADS = 3_000_000, 12_000
#: Bytes of PTX from which on a version is chosen less often, for the time that it takes.
_LONG = 20_000
#: From this number on, mutants are of versions with ``cp.async`` or atomics, and mostly of those.
ASYNC = 1_000_000
_IN_FLIGHT = (r"\bcp\.async\.c[ag]\.", r"\b(atom|red)\.")


class Case(NamedTuple):
    """A mutant: its number, what is run, and what was changed in it."""

    number: int
    subject: Subject
    edit: Edit

    @property
    def title(self) -> str:
        """``sgemm v3 m33_n65_k17``."""
        subject = self.subject
        return f"{subject.study.name} {subject.version.id} {subject.problem.name}"


class _Recorded(NamedTuple):
    study: Study
    version: Version
    problems: tuple[Problem, ...]
    profile: Path


def _able(study: Study, version: Version) -> Iterator[Problem]:
    for problem in sorted(study.problems_for("verify"), key=study.flops):
        try:
            study.check_requirements(version, problem)
        except WorkbenchError:
            continue
        yield problem


def _small(study: Study, problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """The small ones but for the least, in which most edits are not felt."""
    fitting = [each for each in problems if study.flops(each) <= _MOST_FLOPS]
    return tuple(fitting[1:] or fitting or problems[:1])


@cache
def recorded(root: Path) -> tuple[_Recorded, ...]:
    """Every version of a project whose profile holds PTX, with small problems to verify it on."""
    project = opened(root)
    store, out = Store(project.profiles), []
    for name in study_names(project):
        study = load_study(project, name)
        for version in study.versions.values():
            if version.kind != "cuda":
                continue
            problems = _small(study, tuple(_able(study, version)))
            for entry in store.find(study=name, version=version.id):
                if problems and recorded_build(store.load(entry.path)) is not None:
                    out.append(_Recorded(study, version, problems, entry.path))
                    break
    return tuple(out)


def _found(built: BuildResult | None, _version: Version) -> BuildResult | None:
    """What was built before, in the place of a compiler."""
    return built


@cache
def _subjects(root: Path, place: int) -> tuple[Subject, ...]:
    """A recorded version as it is, on each of its problems that is quickly run."""
    one = recorded(root)[place]
    project = opened(root)
    built = recorded_build(Store(project.profiles).load(one.profile))
    every = [
        Subject.of(one.study, one.version, problem, partial(_found, built))
        for problem in one.problems
    ]
    return tuple(each for each in every if _threads(each) <= _MOST_THREADS) or (every[0],)


def _threads(subject: Subject) -> int:
    return sum(math.prod(each.grid) * math.prod(each.block) for each in subject.launches)


@cache
def _weights(root: Path) -> tuple[float, ...]:
    out = []
    for place in range(len(recorded(root))):
        built = _subjects(root, place)[0].built
        assert built is not None
        out.append(_LONG / max(_LONG, len(built.build.ptx)))
    return tuple(out)


def edited(subject: Subject, ptx: str) -> Subject:
    """The same with other PTX."""
    assert subject.built is not None
    build = msgspec.structs.replace(subject.built.build, ptx=ptx)
    return msgspec.structs.replace(
        subject, built=msgspec.structs.replace(subject.built, build=build)
    )


def case(roots: Sequence[Path], number: int) -> Case:
    """The mutant of a number: of the first project four times in five, else of the others."""
    rng = random.Random(number)
    if number >= ASYNC:
        what = rng.choice(_IN_FLIGHT)
        places = [(root, place) for root in roots for place in _having(root, what)]
        root, place = rng.choices(places, [_weights(r)[p] ** 2 for r, p in places])[0]
        return _mutant(number, root, place, rng, IN_FLIGHT)
    root = roots[0] if rng.random() < 0.8 or len(roots) == 1 else rng.choice(roots[1:])
    place = rng.choices(range(len(recorded(root))), _weights(root))[0]
    return _mutant(number, root, place, rng, KINDS)


@cache
def _having(root: Path, what: str) -> tuple[int, ...]:
    """The versions that have copies, or atomics."""
    texts = (_subjects(root, place)[0].built for place in range(len(recorded(root))))
    return tuple(at for at, each in enumerate(texts) if each and re.search(what, each.build.ptx))


def _mutant(
    number: int, root: Path, place: int, rng: random.Random, kinds: Mapping[str, Kind]
) -> Case:
    subject = rng.choice(_subjects(root, place))
    assert subject.built is not None
    ptx, edit = mutate(subject.built.build.ptx, rng, kinds)
    return Case(number, edited(subject, ptx), edit)


def replayed(roots: Sequence[Path], number: int, title: str, edit: Edit) -> Case | None:
    """A mutant as it was recorded, whatever its number makes today.

    Returns:
        None where its version, its problem or the statement is no longer there.
    """
    study, version, problem = title.split()
    for root in roots:
        if study not in study_names(opened(root)):
            continue
        known = _plain(root, study, version)
        if known is None or problem not in known[0].problems:
            return None
        home, built = known
        lines = built.build.ptx.split("\n")
        at = edit.line - 1
        if at >= len(lines) or " ".join(lines[at].split()) != " ".join(edit.before.split()):
            return None
        lines[at] = edit.after
        subject = Subject.of(
            home, home.versions[version], home.problem(problem), partial(_found, built)
        )
        return Case(number, edited(subject, "\n".join(lines)), edit)
    return None


@cache
def _plain(root: Path, study: str, version: str) -> tuple[Study, BuildResult] | None:
    """A study and what a recorded version of it was made from; None where nothing holds PTX."""
    project = opened(root)
    home, store = load_study(project, study), Store(project.profiles)
    entries = store.find(study=study, version=version) if version in home.versions else ()
    loaded = (recorded_build(store.load(entry.path)) for entry in entries)
    built = next((each for each in loaded if each is not None), None)
    return None if built is None else (home, built)
