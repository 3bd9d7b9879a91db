"""``workbench list`` as data: a study's versions and their records.

The JSON document, CSV, Markdown and the terminal's table are made from these.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from msgspec import UNSET

from workbench.analysis.plausible import implausible_time
from workbench.errors import UsageError
from workbench.ladder import Rung
from workbench.ladder.listing import StudyList
from workbench.ladder.summaries import RecordedProfile
from workbench.views.shapes import Json, shaped
from workbench.views.shapes.listed import (
    ListDocument,
    ListedProfile,
    ListedStudy,
    ListedTime,
    ListedVersion,
)

#: The mark after a time that is impossible.
MARK_TIME = " (!)"
#: The most versions on a page of a table.
PAGE = 500


class ListPage:
    """One page of a long list.

    Args:
        sizes: The number of versions of each study.
        number: The page, from 1.

    Attributes:
        parts: The versions of each study on the page; None: the page omits the study.

    Raises UsageError: there is no such page.
    """

    def __init__(self, sizes: Sequence[int], number: int) -> None:
        self.number, self.total = number, sum(sizes)
        self.pages = max(1, -(-self.total // PAGE))
        if number > self.pages:
            raise UsageError(
                f"there is no page {number:,}: the list has {self.total:,} versions",
                f"The last page is --page {self.pages}.",
            )
        self.first = (number - 1) * PAGE
        self.last = min(self.first + PAGE, self.total)
        self.parts = list(map(self._part, sizes, accumulate(sizes, initial=0)))

    def _part(self, size: int, start: int) -> slice | None:
        low, high = max(self.first - start, 0), min(self.last - start, size)
        if size == 0:  # its heading also needs a page
            return slice(0) if min(start // PAGE, self.pages - 1) == self.number - 1 else None
        return slice(low, high) if low < high else None


def list_document(lists: list[StudyList], default_study: str) -> Json:
    """``workbench list --format json``."""
    return ListDocument(
        default_study=default_study,
        studies=[
            shaped(
                each.study,
                ListedStudy,
                problems=list(each.study.problems),
                versions=[_version(each, rung) for rung in each.rungs],
            )
            for each in lists
        ],
    ).plain()


def _version(of: StudyList, rung: Rung) -> ListedVersion:
    version = of.study.versions[rung.id]
    return shaped(
        version,
        ListedVersion,
        profiles=[_profile(record) for record in of.profiles(rung.id)],
        times=[
            shaped(
                timing.time,
                ListedTime,
                problem=timing.problem,
                device=timing.device.name,
                seconds=timing.time.value,
                implausible=implausible_time(timing),
            )
            for timing in of.timings(rung.id)
        ],
    )


def doubted(rungs: Sequence[Rung]) -> list[str]:
    """Reasons why recorded times of some versions are impossible; `MARK_TIME` marks each."""
    return [
        text for rung in rungs for text in (implausible_time(rung.timing) if rung.timing else ())
    ]


def marked(rung: Rung) -> str:
    """`MARK_TIME` for an impossible time, else ""."""
    return MARK_TIME if doubted([rung]) else ""


def _profile(record: RecordedProfile) -> ListedProfile:
    duration = UNSET if record.duration is None else record.duration
    return shaped(record, ListedProfile, duration=duration, counts=record.counts or UNSET)
