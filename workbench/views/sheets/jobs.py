"""The table of ``workbench jobs``."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict

from workbench.cluster import Standing
from workbench.views.sheets import Sheet, when

_COUNTS = ("queued", "running", "done", "failed", "lost")
_LEGEND = (
    "lost: in no job and without a result; the command, run again, sends them again. "
    "`workbench jobs NAME --cancel` ends jobs."
)


def jobs_sheet(found: Sequence[Standing]) -> Sheet:
    """What was sent to a cluster, one row a command, with its pieces counted."""
    shown = tuple(
        (
            each.name,
            " ".join(each.jobs),
            when(each.submitted),
            *(str(getattr(each, name)) for name in _COUNTS),
            each.words,
        )
        for each in found
    )
    return Sheet(
        header=("name", "array", "sent", *_COUNTS, "command"),
        shown=shown,
        raw=tuple({**asdict(each), "jobs": " ".join(each.jobs)} for each in found),
        document={"jobs": [asdict(each) for each in found]},
        notes=(_LEGEND,),
        extra=("sent", "array"),
    )
