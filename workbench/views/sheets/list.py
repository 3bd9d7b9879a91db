"""``workbench list`` as data: a study's versions, and what is recorded of each.

The JSON document, CSV, Markdown and the terminal's table are made from these.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from workbench.measure.ladder import Ladder, Rung
from workbench.measure.records import RecordedProfile
from workbench.model import Timing
from workbench.study.folder import Study


class StudyList:
    """A study as it is now, with one of its ladders in full.

    Attributes:
        study: The study.
        ladders: All that is recorded of it.
        recorded: The problems that anything is recorded on, in the study's order.
        shown: The ladder that tables show; it may be empty.
        device: What that ladder's device calls itself; "" where nothing is recorded.
    """

    def __init__(
        self, study: Study, ladders: list[Ladder], recorded: list[str], shown: Ladder, device: str
    ) -> None:
        self.study, self.ladders, self.recorded = study, ladders, recorded
        self.shown, self.device = shown, device

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


def list_document(lists: list[StudyList], default_study: str) -> dict[str, Any]:
    """``workbench list --format json``."""
    return {
        "default_study": default_study,
        "studies": [
            {
                "name": each.study.name,
                "title": each.study.title,
                "problems": list(each.study.problems),
                "versions": [_version(each, rung) for rung in each.rungs],
            }
            for each in lists
        ],
    }


def _version(of: StudyList, rung: Rung) -> dict[str, Any]:
    version = of.study.versions[rung.id]
    return {
        "id": version.id,
        "title": version.title,
        "baseline": version.baseline,
        "parent": version.parent,
        "profiles": [msgspec.to_builtins(record) for record in of.profiles(rung.id)],
        "times": [
            {
                "problem": timing.problem,
                "device": timing.device.name,
                "seconds": timing.time.value,
                "low": timing.time.low,
                "high": timing.time.high,
            }
            for timing in of.timings(rung.id)
        ],
    }
