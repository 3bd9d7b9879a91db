"""A session's methods for captured programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.session.workspace import Workspace

if TYPE_CHECKING:
    from workbench.programs.recalled import ProgramDiff, Recalled


class ProgramMethods(Workspace):
    """Methods that `workbench.face.Session` takes from this feature."""

    def program(self, name: str) -> Recalled:
        """A captured program: ``@before``, ``@HEAD~1``.

        Raises:
            UsageError: no such capture; the hint says how to make it.
            DataError: it is damaged.
        """
        from workbench.programs.capture.capture_store import find_shelf
        from workbench.programs.recalled import open_capture

        return open_capture(find_shelf(self.start), name)

    def diff_programs(self, old: str, new: str, *, force: bool = False) -> ProgramDiff:
        """Two captured programs, kernel by kernel.

        Raises:
            UsageError, DataError: as `program`.
            InconclusiveError: they are not comparable, and `force` is not set.
        """
        from workbench.programs.recalled import ProgramDiff

        return ProgramDiff(self.program(old), self.program(new), force=force)
