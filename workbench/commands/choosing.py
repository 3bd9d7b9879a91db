"""Which problems of a study a command means, and a version can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.errors import UsageError

if TYPE_CHECKING:
    from workbench.model import Problem, Version
    from workbench.study.folder import Study


class UnableError(UsageError):
    """A version cannot do the problem that was asked for, and says why."""


def _check(study: Study, version: Version, problem: Problem) -> None:
    try:
        study.check_requirements(version, problem)
    except UsageError as error:
        raise UnableError(error.message, error.hint) from error


def chosen_problem(study: Study, version: Version, name: str | None) -> Problem:
    """The problem named, or the first profiled one that the version can do.

    Raises:
        UsageError: unknown problem.
        UnableError: the version cannot do it, and why not.
    """
    return chosen_problems(study, version, name, "profile")[0]


def timed_problems(study: Study, version: Version, name: str | None, every: bool) -> list[Problem]:
    """The problems to time: one, or all that are for profiling or sweeping.

    Raises:
        UsageError: as `chosen_problems`.
    """
    if not every:
        return [chosen_problem(study, version, name)]
    found = {
        problem.name: problem
        for use in ("profile", "sweep")
        if study.problems_for(use)
        for problem in chosen_problems(study, version, None, use)
    }
    return list(found.values()) or [chosen_problem(study, version, None)]


def chosen_problems(study: Study, version: Version, name: str | None, use: str) -> list[Problem]:
    """The problems of a use (or the one named) that a version can do.

    Raises:
        UsageError: unknown problem; or the version can do none of them, and why not.
    """
    if name is not None:
        problem = study.problem(name)
        _check(study, version, problem)
        return [problem]
    able = []
    refused: UsageError | None = None
    for problem in study.problems_for(use):
        try:
            _check(study, version, problem)
        except UnableError as error:
            refused = error
        else:
            able.append(problem)
    if not able:
        # No problem of that use at all: `Study.problem` has the right words for it.
        raise refused or _no_problem(study, use)
    return able


def _no_problem(study: Study, use: str) -> UsageError:
    try:
        study.problem(None, use)
    except UsageError as error:
        return error
    raise AssertionError(f"{study.name} has a problem for {use}")
