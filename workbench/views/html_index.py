"""View models of the index: one summary per ladder and report file, kept in the manifest.

The index is made from summaries, not from profiles, so that a site of a thousand
profiles with one new capture decodes that one alone.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from workbench import units
from workbench.model import Profile, Record
from workbench.views.html_common import Chip, day, kernel_seconds, parameters, profiled
from workbench.views.html_data import Ladder
from workbench.views.html_ladder import LadderView, RungView


class LadderSummary(Record, frozen=True):
    """What the index says of one ladder; `href` is relative to the site."""

    study: str
    title: str
    device: str
    problem: str
    captured: str
    href: str
    folder: str
    rungs: tuple[RungView, ...]


class ReportSummary(Record, frozen=True):
    """What the index says of one report file."""

    name: str
    device: str
    captured: str
    href: str
    kernels: str
    duration: str


class StudyGroup(Record, frozen=True):
    """All ladders of one study."""

    name: str
    title: str
    ladders: tuple[LadderSummary, ...]


class IndexView(Record, frozen=True):
    """The whole index."""

    chips: tuple[Chip, ...]
    studies: tuple[StudyGroup, ...]
    reports: tuple[ReportSummary, ...]


def summarise(ladder: Ladder, view: LadderView) -> LadderSummary:
    """The index's words on a ladder, taken from its page."""
    return LadderSummary(
        study=ladder.name,
        title=ladder.study.title,
        device=ladder.device_name,
        problem=parameters(ladder.parameters) or ladder.problem,
        captured=view.captured,
        href=f"{ladder.folder}/index.html",
        folder=ladder.folder,
        rungs=tuple(row.rung for row in view.rows),
    )


def summarise_report(profile: Profile, name: str, href: str) -> ReportSummary:
    """The index's words on a report file."""
    launches = profiled(profile)
    return ReportSummary(
        name=name,
        device=profile.device.name,
        captured=day(profile.captured),
        href=href,
        kernels=units.count(len(launches)),
        duration=units.quantity(kernel_seconds(profile), "s"),
    )


def summarise_pair(old: Profile, new: Profile, name: str, href: str) -> ReportSummary:
    """The index's words on two report files that were compared."""
    counts = [units.count(len(profiled(side))) for side in (old, new)]
    times = [units.quantity(kernel_seconds(side), "s") for side in (old, new)]
    devices = dict.fromkeys((old.device.name, new.device.name))
    days = dict.fromkeys((day(old.captured), day(new.captured)))
    return ReportSummary(
        name=name,
        device=" → ".join(devices),
        captured=" → ".join(days),
        href=href,
        kernels=" → ".join(dict.fromkeys(counts)),
        duration=" → ".join(times),
    )


def index_view(
    ladders: Iterable[dict[str, object]], reports: Iterable[dict[str, object]]
) -> IndexView:
    """The index, from the summaries that the manifest holds."""
    groups: dict[str, list[LadderSummary]] = {}
    for raw in ladders:
        summary = msgspec.convert(raw, LadderSummary)
        groups.setdefault(summary.study, []).append(summary)
    studies = tuple(
        StudyGroup(name=name, title=found[0].title, ladders=tuple(found))
        for name, found in groups.items()
    )
    files = tuple(msgspec.convert(raw, ReportSummary) for raw in reports)
    devices = {s.device for found in groups.values() for s in found} | {f.device for f in files}
    return IndexView(
        chips=tuple(Chip(text=device) for device in sorted(devices)), studies=studies, reports=files
    )
