"""The targets of a sweep as they were typed; workers are started before these are looked up."""

from __future__ import annotations

from typing import Any, NamedTuple

from workbench.errors import UsageError, nearest
from workbench.project import Project, find_project, require_project, studies_in
from workbench.session.targets import Named
from workbench.session.workspace import Selection, apart
from workbench.specs import Version
from workbench.study.folder import Study, study_names


class SweepScope(NamedTuple):
    """Targets, study and patterns of problems of a sweep, as they were typed."""

    targets: tuple[str, ...]
    study: str | None
    patterns: tuple[str, ...]
    device: str | None = None

    @classmethod
    def of(cls, targets: tuple[str, ...], study: str | None, **given: Any) -> SweepScope:
        """Take ``sgemm:n1*,n4096@h200 v3`` apart."""
        where, names = (
            Selection(problem=",".join(given["problems"]) or None, device=given["device"]),
            [],
        )
        for text in targets:
            name, where = apart(text, where)
            names += [name] if name else []
        patterns = tuple(where.problem.split(",")) if where.problem else ()
        return cls(tuple(names), study, patterns, where.device)

    @property
    def first(self) -> tuple[str | None, str | None]:
        """The study that was given and a version that was named, before either is looked at."""
        project, (first, *rest) = find_project(), self.targets or (None,)
        if project is not None and self.study is None and first in studies_in(project.kernels):
            return first, rest[0] if rest else None
        return self.study, first

    def pick(self, *, run: bool) -> tuple[Named, tuple[Project, Study, list[Version]]]:
        """Load the named versions. `run`: run ``study.py``, because the versions run as well.

        Raises UsageError: as `Named.pick`; the hint names a study that may be meant.
        """
        words, study = list(self.targets), self.study
        if words and study is None and words[0] in study_names(require_project()):
            study = words.pop(0)
        named = Named(versions=tuple(words), every=not words, study=study)
        try:
            return named, named.pick(run=run)
        except UsageError as error:
            if study is None and words and "/" not in words[0]:
                names = study_names(require_project())
                close = nearest(words[0], names)
                meant = f"Did you mean the study `{close}`?"
                known = f"{error.hint} Studies: {', '.join(names)}."
                raise UsageError(error.message, meant if close else known) from error
            raise
