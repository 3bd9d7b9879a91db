"""The JSON document and the table of ``workbench list jobs``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import asdict

from workbench.cluster.dispatch import Standing
from workbench.language import N_, _
from workbench.units import when
from workbench.views.shapes import Document, shaped
from workbench.views.sheets import Sheet

_COUNTS = (N_("queued"), N_("running"), N_("done"), N_("failed"), N_("lost"))
_LEGEND = N_(
    "lost: in no job and without a result; the same command, run again, sends them again. "
    "`workbench list jobs NAME --cancel` ends jobs."
)


class SentJobs(Document, Standing, frozen=True):
    """A command whose work was sent to a cluster, with counts of its pieces.

    `jobs` are the queue's names of its arrays; `lost` pieces have neither a job nor a result.
    """


class JobsDocument(Document, frozen=True):
    """The jobs that were sent to a cluster from this project."""

    jobs: list[SentJobs]


SHAPES: Mapping[str, tuple[type[Document], ...]] = {"jobs": (JobsDocument,)}


def jobs_sheet(found: Sequence[Standing]) -> Sheet:
    """The table of ``workbench list jobs``: one row per command, with counts of its pieces."""
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
        document=JobsDocument(jobs=[shaped(each, SentJobs) for each in found]).plain(),
        notes=(_(_LEGEND),),
        extra=("sent", "array"),
    )
