"""What may be said of a study that need not be there: its words, without an error.

What is recorded outlives its study, and a report of it needs the study's words at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.errors import WorkbenchError
from workbench.project import Project
from workbench.specs import Version

if TYPE_CHECKING:
    from workbench.study.folder import Study


class StudyInfo:
    """A study's words, or the reason why there are none; what is recorded needs neither.

    Attributes:
        name: The study's name, as the profiles know it.
        study: The study; None where it is gone or broken.
        problem: Why the study could not be loaded; "" where it was, or is not there.
        work: What a job's work is counted in: ``flop``, or ``op`` where results are integers.
        default: Whether a command that names no study means this one.
        device: The project's default device; "" where it has none.
    """

    def __init__(self, project: Project | None, name: str, study: Study | None = None) -> None:
        self.name = name
        self.study = study
        self.problem = ""
        self.work = "flop"
        self.default = project is not None and project.default_study == name
        self.device = project.default_device if project is not None else ""
        self._project = project
        self._hashes: dict[str, str] = {}
        if (
            study is not None
            or project is None
            or not (project.kernels / name / "study.py").exists()
        ):
            return
        from workbench.study.seen import view_study  # front matter: slow to load

        try:
            study = view_study(project, name)
        except WorkbenchError as error:
            # A study that is broken today is no reason to withhold what was measured.
            self.problem = error.message
            return
        self.study = study
        self.work = study.work

    @property
    def title(self) -> str:
        """The study's title; its name where it has none."""
        return self.study.title if self.study else self.name

    @property
    def versions(self) -> dict[str, Version]:
        """Its versions by id, in ladder order."""
        return self.study.versions if self.study else {}

    @property
    def problems(self) -> tuple[str, ...]:
        """Names of its problems, those that are meant for profiling first."""
        if self.study is None:
            return ()
        first = [problem.name for problem in self.study.problems_for("profile")]
        return tuple(dict.fromkeys([*first, *self.study.problems]))

    def source_hash(self, version: str) -> str:
        """The hash of a version's source as it is now; "" where there is none."""
        found = self.study.versions.get(version) if self.study else None
        if found is None or self._project is None:
            return ""
        if version not in self._hashes:
            from workbench.study.sources import source_hash

            self._hashes[version] = source_hash(self._project, found)
        return self._hashes[version]
