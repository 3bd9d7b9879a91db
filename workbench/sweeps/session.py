"""The recorded times of all sizes, for sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.session.workspace import Workspace

if TYPE_CHECKING:
    from workbench.sweeps.recorded import Sweep


class SweepMethods(Workspace):
    """Methods that `workbench.face.Session` takes from this feature."""

    def sweep(self, study: str | None = None, *problems: str, device: str | None = None) -> Sweep:
        """The recorded times of a study's versions at every size.

        `problems` are names or patterns of names; none: all that are swept. Without a `device` it
        is the project's, or that of the newest time; without a `study` the default one.

        Raises:
            UsageError: no such study or problem, or nothing is recorded on the device.
            MissingError: nothing is recorded.
            DataError: a damaged file.
        """
        from workbench.sweeps.recorded import recorded_sweep, swept_study

        found = swept_study(self.project, study or self.project.default_study)
        versions = list(found.versions.values())
        return recorded_sweep(self.project, found, versions, problems, device)
