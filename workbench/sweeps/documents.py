"""``workbench sweep --format json``: every version at every size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from workbench.views.shapes import Document
from workbench.views.shapes.measured import TimedVersion


class SweptTime(TimedVersion, frozen=True):
    """A time of a sweep; `stale`: of an older source."""

    stale: bool


class SweptProblem(Document, frozen=True):
    """A size; null where no version has a time."""

    name: str
    parameters: dict[str, int] | None = None
    flops: int | None = None
    bytes: int | None = None


class SweptVersion(Document, frozen=True):
    """A version of the table."""

    id: str
    baseline: bool


class SweptGap(Document, frozen=True):
    """The reason why there is no time."""

    version: str
    problem: str
    kind: Literal["refused", "unavailable", "failed", "missing"]
    why: str


class SweepDocument(Document, frozen=True):
    """Every version at every size: each is in `times` or in `gaps`."""

    study: str
    device: str
    cache: str
    problems: list[SweptProblem]
    versions: list[SweptVersion]
    times: list[SweptTime]
    gaps: list[SweptGap]
    best: dict[str, str]
    warnings: list[str]


SHAPES: Mapping[str, tuple[type[Document], ...]] = {"sweep": (SweepDocument,)}
