"""A session's methods for the gates of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from workbench.session.workspace import Selection, Workspace

if TYPE_CHECKING:
    from workbench.engines import RunOptions
    from workbench.gate.claims import Ruling
    from workbench.gate.rules import Gate
    from workbench.session.api import Chosen


class GateMethods(Workspace):
    """Methods that `workbench.face.Session` takes from this feature."""

    def check(
        self, *targets: str, force: bool = False, timed: bool = True, **chosen: Unpack[Chosen]
    ) -> tuple[Gate, ...]:
        """Judge recorded profiles by the project's rules.

        Args:
            targets: OLD NEW, versions or captures; one version, which is checked against its
                parent; none: every version that is recorded together with its parent.
            force: Compare even incomparable profiles.
            timed: Whether durations are judged.
            chosen: Selects among the recorded profiles.

        Raises:
            UsageError: targets or rules that cannot be checked, or nothing is recorded for them.
            DataError: a damaged file.
        """
        from workbench.gate.judging import Asked, of_recorded, rules_of

        asked = Asked(targets, Selection(**chosen), rules_of(self, timed=timed))
        return of_recorded(self, asked, force=force).gates

    def judge(
        self,
        version: str,
        over: str,
        at_least: float = 1.0,
        run: RunOptions | None = None,
        *,
        again: bool = False,
        **chosen: Unpack[Chosen],
    ) -> Ruling:
        """Judge a claimed speed-up: accepted, refused or not judged, with the reasons.

        Args:
            version: The version that is claimed to be faster.
            over: The version that it is claimed to be faster than.
            at_least: The claimed ratio of their times.
            run: Where and how they run; None: here.
            again: Verify both now, and time them alternately if there is a GPU.
            chosen: Selects among the recorded profiles.

        Raises:
            UsageError, DataError, MissingError: as `check`, and as `verify` with `again`.
        """
        from workbench.gate.claims import Claim, rule

        return rule(self, Claim(version, over, at_least, again), Selection(**chosen), run)
