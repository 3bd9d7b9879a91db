"""``workbench list`` as data: a study's versions, and what is recorded of each.

The JSON document, CSV, Markdown and the terminal's table are made from these.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

from msgspec import UNSET

from workbench.errors import UsageError
from workbench.ladder import Ladder, Rung
from workbench.ladder.summaries import RecordedProfile
from workbench.model import Timing
from workbench.study.folder import Study
from workbench.views.shapes import Json
from workbench.views.shapes.listed import (
    ListDocument,
    ListedProfile,
    ListedStudy,
    ListedTime,
    ListedVersion,
)

#: Versions on a page of a table.
PAGE = 500


class ListPage:
    """What of a long list stands on one of its pages.

    Args:
        sizes: Versions of each study.
        number: The page, from 1.

    Attributes:
        parts: The versions of each study that the page shows; None: not that study.

    Raises:
        UsageError: there is no such page.
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
        if size == 0:  # its heading belongs somewhere, too
            return slice(0) if min(start // PAGE, self.pages - 1) == self.number - 1 else None
        return slice(low, high) if low < high else None


class StudyList:
    """A study as it is now, with one of its ladders in full.

    Attributes:
        study: The study.
        ladders: All that is recorded of it.
        recorded: The problems that anything is recorded on, in the study's order.
        shown: The ladder that tables show; it may be empty.
        device: What that ladder's device calls itself; "" where nothing is recorded.
        part: The versions that a table shows.
    """

    def __init__(
        self, study: Study, ladders: list[Ladder], recorded: list[str], shown: Ladder, device: str
    ) -> None:
        self.study, self.ladders, self.recorded = study, ladders, recorded
        self.shown, self.device = shown, device
        self.part = slice(None)

    @property
    def problem(self) -> str:
        """The problem of the ladder that tables show; "" where nothing is recorded."""
        return self.shown.problem if self.device else ""

    @cached_property
    def rungs(self) -> list[Rung]:
        """The study's versions on the ladder that is shown, recorded there or not."""
        return [self.shown.rung(version) for version in self.study.versions]

    def profiles(self, version: str) -> list[RecordedProfile]:
        """What is recorded of a version under a profiler, on every ladder."""
        return [record for rung in self._everywhere(version) for record in rung.records]

    def timings(self, version: str) -> list[Timing]:
        """The times that are recorded of a version, on every ladder."""
        return [rung.timing for rung in self._everywhere(version) if rung.timing]

    def _everywhere(self, version: str) -> list[Rung]:
        return [ladder.rungs[version] for ladder in self.ladders if version in ladder.rungs]


def list_document(lists: list[StudyList], default_study: str) -> Json:
    """``workbench list --format json``."""
    return ListDocument(
        default_study=default_study,
        studies=[
            ListedStudy(
                name=each.study.name,
                title=each.study.title,
                problems=list(each.study.problems),
                versions=[_version(each, rung) for rung in each.rungs],
            )
            for each in lists
        ],
    ).plain()


def _version(of: StudyList, rung: Rung) -> ListedVersion:
    version = of.study.versions[rung.id]
    return ListedVersion(
        id=version.id,
        title=version.title,
        baseline=version.baseline,
        parent=version.parent,
        profiles=[_profile(record) for record in of.profiles(rung.id)],
        times=[
            ListedTime(
                problem=timing.problem,
                device=timing.device.name,
                seconds=timing.time.value,
                low=timing.time.low,
                high=timing.time.high,
            )
            for timing in of.timings(rung.id)
        ],
    )


def _profile(record: RecordedProfile) -> ListedProfile:
    return ListedProfile(
        problem=record.problem,
        engine=record.engine,
        device=record.device,
        captured=record.captured,
        stale=record.stale,
        duration=UNSET if record.duration is None else record.duration,
        counts=record.counts or UNSET,
    )
