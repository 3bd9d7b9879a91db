"""A folder ``kernels/<study>/`` becomes a `Study`: problems, versions, reference.

Versions are discovered by their file names and never registered: ``v3_padded.cu``
is version ``v3``; any other ``.cu`` or ``.py`` file whose front matter says
``baseline = true`` is a library to beat, named by its stem. ``study.py`` is plain
Python and gives all else; docs/front-matter.md lists what it must define.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from workbench.errors import UsageError, did_you_mean
from workbench.model import Problem
from workbench.project import Project, studies_in
from workbench.specs import Version
from workbench.study.discovery import load_versions
from workbench.study.expressions import evaluate
from workbench.study.file import StudyFile
from workbench.study.frontmatter import place
from workbench.study.launches import (
    BufferArg,
    ResolvedLaunch,
    ResolvedScratch,
    ScalarArg,
    check_names,
    defined_integers,
    resolve_launches,
    resolve_scratch,
)
from workbench.study.sources import local_sources, source_hash

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "BufferArg",
    "ResolvedLaunch",
    "ResolvedScratch",
    "ScalarArg",
    "Study",
    "load_study",
    "local_sources",
    "parse_target",
    "require_study",
    "resolve_launches",
    "resolve_scratch",
    "source_hash",
    "study_names",
]


class Study:
    """One job with all that is needed to judge an implementation.

    Attributes:
        name: Its folder's name.
        title: One line for people.
        folder: ``kernels/<name>``, absolute.
        problems: Name -> problem, in the order of ``study.py``.
        versions: Id -> version: v0, v1, …, then the baselines by name.
        input_names: The buffers that `inputs` gives, in order.
        tolerance: Largest accepted ‖out − ref‖ / ‖ref‖.
        tolerance_why: The reason for that number.
    """

    def __init__(self, project: Project, name: str) -> None:
        self.name = name
        self.folder: Path = project.kernels / name
        self._file = StudyFile(self.folder / "study.py", f"kernels/{name}/study.py")
        self.title: str = self._file.text("title")
        self.tolerance: float = self._file.tolerance()
        self.tolerance_why: str = self._file.text("tolerance_why")
        self.input_names: tuple[str, ...] = self._file.names("input_names")
        self.problems: dict[str, Problem] = self._file.problems()
        self._file.check_functions()
        first = next(iter(self.problems.values()))
        self.output_names: tuple[str, ...] = tuple(self.outputs(first))
        self._check_buffers(first)
        self.versions: dict[str, Version] = load_versions(project, name)
        for version in self.versions.values():
            check_names(version, self.buffer_names(version), self.names(version, first))

    def _check_buffers(self, problem: Problem) -> None:
        parameters = self.parameters(problem)
        buffers = (*self.input_names, *self.output_names)
        for name in buffers:
            if buffers.count(name) > 1 or name in parameters:
                raise self._file.error(
                    f"the name `{name}` is used twice",
                    "Inputs, outputs and parameters must all have different names: rename one.",
                )

    def tolerance_of(self, version: str) -> float:
        """Largest accepted ‖out − ref‖ / ‖ref‖ of a version: its own, or else the study's.

        An earlier state of a version, ``v3@1a2b3c4``, is judged as the version is.
        """
        known = self.versions.get(version.partition("@")[0])
        own = known.tolerance if known is not None else None
        return self.tolerance if own is None else own

    # --- what study.py computes ------------------------------------------------

    def parameters(self, problem: Problem) -> dict[str, int]:
        """The problem's parameters and what ``derive`` in study.py adds to them."""
        own = dict(problem.parameters)
        derived = self._file.call("derive", dict(own)) if self._file.has("derive") else {}
        return own | self._file.integers(derived, "derive")

    def outputs(self, problem: Problem) -> dict[str, tuple[tuple[int, ...], str]]:
        """Output name -> (shape, dtype name)."""
        return self._file.outputs(self.parameters(problem))

    def inputs(
        self, problem: Problem, rng: np.random.Generator
    ) -> dict[str, npt.NDArray[np.generic]]:
        """Fresh inputs, drawn from `rng`, C-contiguous, in the order of `input_names`.

        Raises:
            UsageError: study.py raised, or gave other names than `input_names`.
        """
        return self._file.inputs(self.parameters(problem), rng, self.input_names)

    def reference(
        self, problem: Problem, inputs: Mapping[str, npt.NDArray[np.generic]]
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Every output in float64, by the study's own definition."""
        return self._file.reference(
            "reference", self.outputs(problem), self.parameters(problem), dict(inputs)
        )

    @property
    def can_sample(self) -> bool:
        """Whether study.py computes single outputs (``reference_at``)."""
        return self._file.has("reference_at")

    def reference_at(
        self,
        problem: Problem,
        inputs: Mapping[str, npt.NDArray[np.generic]],
        indices: Mapping[str, npt.NDArray[np.int64]],
    ) -> dict[str, npt.NDArray[np.float64]]:
        """The outputs at flat `indices` only (output name -> int64 array), in float64."""
        shapes = {name: (indices[name].shape, "float64") for name in self.outputs(problem)}
        return self._file.reference(
            "reference_at", shapes, self.parameters(problem), dict(inputs), dict(indices)
        )

    def flops(self, problem: Problem) -> int:
        """Floating-point operations that the job needs, whoever does it."""
        return self._count("flops", problem)

    def bytes(self, problem: Problem) -> int:
        """Least traffic to and from memory, in bytes: each input and output once."""
        return self._count("bytes", problem)

    def _count(self, function: str, problem: Problem) -> int:
        value = self._file.call(function, self.parameters(problem))
        try:
            count = operator.index(value)
        except TypeError:
            count = -1
        if count < 0:
            raise self._file.error(
                f"{function}() gave {value!r} for problem {problem.name}",
                "It must give a count, an integer of 0 or more.",
            )
        return count

    @property
    def work(self) -> Literal["flop", "op"]:
        """What `flops` counts: ``op`` where all results are integers."""
        kinds = [kind for _, kind in self.outputs(next(iter(self.problems.values()))).values()]
        return "op" if all(kind.startswith(("int", "uint")) for kind in kinds) else "flop"

    # --- finding things by name ------------------------------------------------

    def version(self, name: str) -> Version:
        """A version by its id (``v3``) or file stem (``v3_padded``).

        Raises:
            UsageError: unknown; names the nearest one.
        """
        if name in self.versions:
            return self.versions[name]
        for version in self.versions.values():
            if version.name == name:
                return version
        raise UsageError(
            f"study {self.name} has no version `{name}`",
            did_you_mean(name, self.versions, "versions"),
        )

    def problem(self, name: str | None = None, use: str = "profile") -> Problem:
        """A problem by name, or the first one that is meant for `use`.

        Raises:
            UsageError: unknown, or none is meant for `use`.
        """
        if name is None:
            chosen = self.problems_for(use)
            if chosen:
                return chosen[0]
            raise UsageError(
                f"study {self.name} has no problem for `{use}`",
                f'Add "{use}" to the uses of one in kernels/{self.name}/study.py.',
            )
        if name not in self.problems:
            raise UsageError(
                f"study {self.name} has no problem `{name}`",
                did_you_mean(name, self.problems, "problems"),
            )
        return self.problems[name]

    def problems_for(self, use: str) -> list[Problem]:
        """The problems that are meant for ``verify``, ``profile`` or ``sweep``."""
        return [problem for problem in self.problems.values() if use in problem.uses]

    @property
    def baseline(self) -> Version | None:
        """The library to beat: the first baseline by name, if there is one."""
        return next((each for each in self.versions.values() if each.baseline), None)

    # --- a version on a problem --------------------------------------------------

    def names(self, version: Version, problem: Problem) -> dict[str, int]:
        """What the version's expressions may use: parameters and integer defines.

        Raises:
            UsageError: a define hides a parameter.
        """
        parameters = self.parameters(problem)
        defines = defined_integers(version)
        for name in version.defines:
            if name in parameters:
                raise UsageError(
                    f"{place(version, f'defines.{name}')}: the define `{name}` hides "
                    "a parameter of the study",
                    "Rename the define.",
                )
        return parameters | defines

    def buffer_names(self, version: Version) -> set[str]:
        """What the version's arguments may point to."""
        return {*self.input_names, *self.output_names, *(each.name for each in version.scratch)}

    def check_requirements(self, version: Version, problem: Problem) -> None:
        """Refuse a problem that a version says it cannot do.

        Raises:
            UsageError: ``requires`` is false for the problem; says why.
        """
        if not version.requires:
            return
        where = place(version, "requires")
        if not evaluate(version.requires, self.names(version, problem), where=where):
            why = version.requires_why or f"it requires {version.requires}"
            raise UsageError(
                f"{version.id} cannot do problem {problem.name}: {why}",
                f"See `requires` at {where}; choose another problem with --problem.",
            )


def study_names(project: Project) -> list[str]:
    """Names of the project's studies: the folders in kernels/ that hold a study.py."""
    return studies_in(project.kernels)


def require_study(project: Project, name: str) -> None:
    """Refuse a name that is no study's.

    Raises:
        UsageError: there is none of that name; names the nearest one.
    """
    # By the names that are there: a file system may refuse to be asked for another one.
    if name not in (names := study_names(project)):
        raise UsageError(
            f"there is no study `{name}` in {project.kernels}",
            did_you_mean(name, names, "studies") + " `workbench new --study NAME` starts one.",
        )


def load_study(project: Project, name: str) -> Study:
    """Load and check a study with all its versions; this runs ``study.py``.

    What only looks at a study takes `workbench.study.seen.view_study` instead.

    Raises:
        UsageError: no such study; or study.py or the front matter of a version is
            wrong, with file, line and the nearest right name.
    """
    require_study(project, name)
    return Study(project, name)


def parse_target(text: str, default_study: str) -> tuple[str, str]:
    """``v3`` or ``sgemm/v3`` -> (study, version).

    Raises:
        UsageError: malformed, or no study is named and the project has no default.
    """
    study, slash, version = text.strip().rpartition("/")
    if not version or "/" in study or (slash and not study):
        raise UsageError(f"`{text}` is not a version", "Write v3, or sgemm/v3 with its study.")
    if "@" in version:
        raise UsageError(
            f"`{text}` names a device, which is not taken here",
            f"Leave out @{version.partition('@')[2]}; where the command has --device, use that.",
        )
    if not study and not default_study:
        raise UsageError(
            f"`{text}` names no study, and the project has no default study",
            f"Write STUDY/{version}, or set default_study in the project's settings; "
            "`workbench list` names the studies.",
        )
    return study or default_study, version
