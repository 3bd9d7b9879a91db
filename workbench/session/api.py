"""`CoreSession`: the operations on a project and on report files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from workbench.errors import DataError
from workbench.model import Profile
from workbench.project import find_project
from workbench.session.targets import Named, Target, resolve
from workbench.session.workspace import Manner, Places, Selection, Workspace
from workbench.specs import Version
from workbench.study.folder import SeenStudy, study_names, view_study

if TYPE_CHECKING:
    import pandas as pd

    from workbench.engines import ProfileOptions, RunOptions
    from workbench.ladder import Ladder
    from workbench.ladder.listing import StudyList
    from workbench.measure.experiment import Display
    from workbench.session.measuring import ProfiledVersions, Verified
    from workbench.session.site import SitePlan
    from workbench.session.step import Diff
    from workbench.session.times import TimedVersions

_NO_PLACES = Places()


class Chosen(TypedDict, total=False):
    """The choice of a recorded profile, by the names of the command line's options."""

    study: str | None
    problem: str | None
    device: str | None
    engine: str | None
    launch: int | None


class CoreSession(Workspace):
    """Methods that need no feature; `workbench.face.Session` adds the features' methods."""

    def __repr__(self) -> str:
        found = find_project(self.start)
        where = found.root if found else f"{(self.start or Path()).resolve()}, no project"
        return f"<{type(self).__name__} {where}>"

    def studies(self) -> list[str]:
        """Names of the studies, the default one first, which a target without a study means."""
        default = self.project.default_study
        return sorted(study_names(self.project), key=lambda name: name != default)

    def study(self, name: str | None = None) -> SeenStudy:
        """A study as it is now, without running its code; None: the default one.

        Raises UsageError: there is no study of that name, or its files are wrong.
        """
        return view_study(self.project, name or self.project.default_study)

    def versions(self, study: str | None = None) -> list[Version]:
        """The versions of a study, in ladder order; UsageError: as `study`."""
        return list(self.study(study).versions.values())

    def show(
        self,
        target: str,
        selection: Selection | None = None,
        places: Places = _NO_PLACES,
        **chosen: Unpack[Chosen],
    ) -> Target:
        """The profile, time and notes of a recorded version or of a report.

        Args:
            target: A version, report or capture.
            selection: The choice of a recorded profile.
            places: Folders of sources that a report names but does not hold.
            chosen: The same as `selection`, by name: ``problem="n1024"``.

        Raises:
            UsageError: it is unknown, or has no record; the hint lists the existing records.
            DataError: a damaged report or store file.
        """
        (found,) = resolve(self, (target,), selection or Selection(**chosen), places)
        return found

    def profile(self, target: str, **chosen: Unpack[Chosen]) -> Profile:
        """Only the profile of `show`. `workbench profile` records profiles.

        Raises UsageError, DataError: as `show`.
        """
        return self.show(target, **chosen).profile

    def diff(
        self,
        old: str,
        new: str,
        selection: Selection | None = None,
        places: Places = _NO_PLACES,
        *,
        force: bool = False,
        **chosen: Unpack[Chosen],
    ) -> Diff:
        """The changes from one target to another, and the code that made them.

        Both are taken on one problem, engine and device if that is possible.

        Args:
            old: The target before.
            new: The target after.
            selection: The choice of recorded profiles.
            places: Folders of sources that reports name but do not hold.
            force: Compare them even if they are not comparable.
            chosen: The same as `selection`, by name: ``problem="n1024"``.

        Raises:
            UsageError, DataError: as `show`.
            InconclusiveError: they are not comparable, and `force` is not set.
        """
        from workbench.session.step import Diff  # `show` does not need the comparison

        both = resolve(self, (old, new), selection or Selection(**chosen), places)
        return Diff(both[0], both[1], force=force)

    def verify(
        self,
        named: Named | str,
        engine: str = "auto",
        run: RunOptions | None = None,
        display: Display | None = None,
        *,
        sanitize: bool = False,
    ) -> Verified:
        """Check versions against the reference, as `workbench verify` does.

        Args:
            named: The versions, and the problem.
            engine: ``auto``, ``gpu`` or ``emulator``.
            run: Where and how to run; None: on this machine.
            display: Receives the progress; None: it is not shown.
            sanitize: Run compute-sanitizer's tools over them as well.

        Returns:
            Their verdicts, and as `fault` the error of those that failed, or Ctrl-C.

        Raises MissingError, UsageError: nothing can run here.
        """
        from workbench.session.measuring import verify

        return verify(
            self.project, Named.of(self.project, named), engine, run, display, sanitize=sanitize
        )

    def record(
        self,
        named: Named | str,
        engine: str = "auto",
        options: ProfileOptions | None = None,
        run: RunOptions | None = None,
        display: Display | None = None,
        *,
        timed: bool = False,
    ) -> ProfiledVersions:
        """Verify and profile versions, as `workbench profile` does; `show` reads the results.

        Args:
            named: The versions, and the problem.
            run: As for `verify`.
            display: As for `verify`.
            engine: ``auto``, ``ncu`` or ``emulator``.
            options: How the engine profiles.
            timed: Time each version as well.

        Returns:
            Those that were profiled, and as `fault` the error of those that failed.

        Raises MissingError, UsageError: nothing can run here.
        """
        from workbench.session.measuring import profile

        return profile(
            self.project, Named.of(self.project, named), engine, options, run, display, timed=timed
        )

    def time(
        self,
        named: Named | str,
        run: RunOptions | None = None,
        display: Display | None = None,
        manner: Manner | None = None,
        *,
        all_problems: bool = False,
    ) -> TimedVersions:
        """Time versions beside the study's baseline, as `workbench time` does; `times` has them.

        Args:
            named: The versions, and the problem.
            run: As for `verify`.
            display: As for `verify`.
            manner: The duration, and the use of stored times; None: none is used.
            all_problems: On every problem to profile or sweep.

        Returns:
            The times, and as `fault` the error of those that failed.

        Raises MissingError, UsageError: nothing can run here.
        """
        from workbench.session.times import time

        return time(
            self.project,
            Named.of(self.project, named),
            run,
            display,
            manner,
            all_problems=all_problems,
        )

    def recorded(
        self,
        study: str | None = None,
        problem: str | None = None,
        device: str | None = None,
        damaged: list[DataError] | None = None,
    ) -> StudyList:
        """All records of a study, and the ladder that represents it.

        Args:
            study: The study; None: the default one.
            problem: Its ladder's problem; None: the first profiled one that is recorded.
            device: Its ladder's device; None: the project's, or that of the newest profile.
            damaged: Receives the errors of files that cannot be read; None: the first is raised.

        Raises:
            UsageError: no such study or problem, or nothing is recorded on the device.
            DataError: a damaged file.
        """
        from workbench.ladder.listing import study_list

        wrong: list[DataError] = []
        found = study_list(self.project, self.study(study), problem, device, wrong)
        if damaged is not None:
            damaged += wrong
        elif wrong:
            raise wrong[0]
        return found

    def ladder(
        self, study: str | None = None, problem: str | None = None, device: str | None = None
    ) -> Ladder:
        """The ladder of `recorded`: the study's versions on one problem and device.

        Raises UsageError, DataError: as `recorded`.
        """
        return self.recorded(study, problem, device).shown

    def times(self, study: str | None = None) -> pd.DataFrame:
        """Every recorded time of a study, as `workbench.frames.times` has them."""
        from workbench.frames import times

        return times(self.store.timings(study=study or self.project.default_study))

    def site(
        self, targets: tuple[str, ...] = (), out: Path | None = None, *, lasting: bool = False
    ) -> SitePlan:
        """The HTML report; its `build` writes it.

        Args:
            targets: Studies, steps (``v1..v4``), report files and captures; none: all that
                the project has recorded.
            out: The folder; None: the project's ``reports/``.
            lasting: It is built repeatedly: unchanged files are not read again.

        Raises UsageError: there is no project, and a study (or everything) was requested.
        """
        from workbench.session.site import SitePlan

        return SitePlan(self, targets, out, lasting=lasting)
