"""``list`` and ``doctor``: the records, and this machine's abilities."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from workbench.views.shapes import Document


class ListedProfile(Document, frozen=True):
    """A recorded profile: seconds under the profiler, or the emulator's counts instead."""

    problem: str
    engine: str
    device: str
    captured: str
    stale: bool
    duration: float | UnsetType = UNSET
    counts: dict[str, float] | UnsetType = UNSET


class ListedTime(Document, frozen=True):
    """A recorded time in seconds with its 95% interval, and the reason if it is impossible."""

    problem: str
    device: str
    seconds: float
    low: float
    high: float
    implausible: list[str]


class ListedVersion(Document, frozen=True):
    """A version; `parent` is null for the first."""

    id: str
    title: str
    baseline: bool
    parent: str | None
    profiles: list[ListedProfile]
    times: list[ListedTime]


class ListedStudy(Document, frozen=True):
    """A study, its problems and its versions."""

    name: str
    title: str
    problems: list[str]
    versions: list[ListedVersion]


class ListDocument(Document, frozen=True):
    """Studies, versions, and their records; the default study first."""

    default_study: str
    studies: list[ListedStudy]


class EquipmentFacts(Document, frozen=True):
    """One piece of equipment, present or missing, and how to get it."""

    what: str
    state: Literal["ok", "limited", "missing"]
    detail: str
    remedy: str
    without: str


class LogLine(Document, frozen=True):
    """A line of an ncu log, and its meaning; empty if unknown."""

    line: str
    means: str
    remedy: str


class LogDocument(Document, frozen=True):
    """Meanings of a log's errors and warnings; `here`: mismatches of ncu, chip and driver."""

    lines: list[LogLine]
    here: list[str]


class DoctorDocument(Document, frozen=True):
    """Abilities of this machine."""

    checks: list[EquipmentFacts]
