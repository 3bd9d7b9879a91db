"""The gates of what is recorded, for whoever has a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from workbench.session.workspace import Selection, Workspace

if TYPE_CHECKING:
    from workbench.gate.rules import Gate
    from workbench.session.api import Chosen


class GateMethods(Workspace):
    """Methods that `workbench.face.Session` takes from this feature."""

    def check(
        self, *targets: str, force: bool = False, timed: bool = True, **chosen: Unpack[Chosen]
    ) -> tuple[Gate, ...]:
        """Judge recorded profiles by the rules of the project.

        Args:
            targets: OLD NEW, versions or captures; one version, which is checked against its
                parent; none: every version that is recorded together with its parent.
            force: Compare what is not comparable as well.
            timed: Whether durations are judged.
            chosen: Selects among the recorded profiles.

        Raises:
            UsageError: targets or rules that cannot be checked, or nothing is recorded of them.
            DataError: a damaged file.
        """
        from workbench.gate.judging import Asked, of_recorded, rules_of

        asked = Asked(targets, Selection(**chosen), rules_of(self, timed=timed))
        return of_recorded(self, asked, force=force).gates
