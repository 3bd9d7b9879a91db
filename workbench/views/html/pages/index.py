"""View models of the index: one summary per ladder and report file, kept in the manifest.

The index is made from summaries, not from profiles, so that a site of a thousand
profiles with one new capture decodes that one alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from workbench import units
from workbench.analysis.aggregate import kernel_seconds
from workbench.measure.ladder import Ladder
from workbench.model import Profile, Record
from workbench.store import natural_key
from workbench.views.html.pages.ladder import LadderView, RungView
from workbench.views.html.parts.common import Badge, day, parameters, profiled, width
from workbench.views.html.render import ladder_folder

#: Parameters that can stand for a problem's name.
_SPOKEN = 3


class LadderSummary(Record, frozen=True):
    """What the index says of one ladder; `href` is relative to the site.

    `problem` is its parameters, or its name and `detail` them where they are many.
    """

    study: str
    title: str
    device: str
    problem: str
    captured: str
    href: str
    folder: str
    rungs: tuple[RungView, ...]
    detail: str = ""
    profiled: int = 0
    fastest: str = ""
    fastest_time: str = ""
    fastest_share: str = ""
    fastest_speed: float = 0.0  # the baseline's is 1; 0: not compared
    place: int = 0  # of the problem among its study's
    default: bool = False  # whether its study is the project's default
    untimed: bool = False  # every duration is one under the profiler


class ReportSummary(Record, frozen=True):
    """What the index says of one report file."""

    name: str
    device: str
    captured: str
    href: str
    kernels: str
    duration: str


class OtherLadder(Record, frozen=True):
    """A ladder in a row: its fastest version, with the bar of its speed.

    `par` is where in the bar the baseline's speed is, if not at its end.
    """

    summary: LadderSummary
    width: str
    par: str


class StudyGroup(Record, frozen=True):
    """All ladders of one study: one in full for each device, the others in a row each."""

    name: str
    title: str
    ladders: tuple[LadderSummary, ...]
    others: tuple[OtherLadder, ...]


class IndexView(Record, frozen=True):
    """The whole index."""

    chips: tuple[Badge, ...]
    studies: tuple[StudyGroup, ...]
    reports: tuple[ReportSummary, ...]


def summarise(ladder: Ladder, view: LadderView) -> LadderSummary:
    """The index's words on a ladder, taken from its page."""
    known, folder = ladder.study.problems, ladder_folder(ladder)
    own = [rung for rung in ladder.order if not rung.is_baseline and rung.seconds]
    best = min(own, key=lambda rung: rung.seconds or 0.0, default=None)
    said = parameters(ladder.parameters)
    many = len(ladder.parameters) > _SPOKEN
    shown = next((row.rung for row in view.rows if best and row.rung.id == best.id), None)
    return LadderSummary(
        study=ladder.name,
        title=ladder.study.title,
        device=ladder.device_name,
        problem=ladder.problem if many else said or ladder.problem,
        detail=said if many else "",
        captured=view.captured,
        href=f"{folder}/index.html",
        folder=folder,
        rungs=tuple(row.rung for row in view.rows),
        profiled=sum(bool(rung.entries) for rung in ladder.order),
        fastest=shown.id if shown else "",
        fastest_time=shown.time if shown else "",
        fastest_share=shown.share if shown else "",
        fastest_speed=(best.of_baseline or 0.0) if best else 0.0,
        place=known.index(ladder.problem) if ladder.problem in known else len(known),
        default=ladder.study.default,
        untimed=not view.timed,
    )


def summarise_files(profiles: Sequence[Profile], name: str, href: str) -> ReportSummary:
    """The index's words on a report file, or on two that were compared."""

    def said(texts: Iterable[str]) -> str:
        return " → ".join(dict.fromkeys(texts))

    return ReportSummary(
        name=name,
        device=said(profile.device.name for profile in profiles),
        captured=said(day(profile.captured) for profile in profiles),
        href=href,
        kernels=said(units.count(len(profiled(profile))) for profile in profiles),
        duration=" → ".join(units.quantity(kernel_seconds(each), "s") for each in profiles),
    )


def is_readable(raw: dict[str, object]) -> bool:
    """Whether a ladder's summary has this program's form; an earlier one's may have another."""
    try:
        msgspec.convert(raw, LadderSummary)
    except msgspec.ValidationError:
        return False
    return True


def index_view(
    ladders: Iterable[dict[str, object]], reports: Iterable[dict[str, object]]
) -> IndexView:
    """The index, from the summaries that the manifest holds."""
    groups: dict[str, list[LadderSummary]] = {}
    known = (msgspec.convert(raw, LadderSummary) for raw in ladders if is_readable(raw))
    # The manifest has them in the order in which their pages came to be.
    for summary in sorted(known, key=_order):
        groups.setdefault(summary.study, []).append(summary)
    studies = tuple(
        StudyGroup(name=name, title=found[0].title, ladders=_first(found), others=_others(found))
        for name, found in groups.items()
    )
    files = tuple(msgspec.convert(raw, ReportSummary) for raw in reports)
    devices = {s.device for found in groups.values() for s in found} | {f.device for f in files}
    return IndexView(
        chips=tuple(Badge(text=device) for device in sorted(devices)),
        studies=studies,
        reports=files,
    )


def _order(summary: LadderSummary) -> tuple[object, ...]:
    """The default study first, then by name; problems as their study lists them."""
    study, name = natural_key(summary.study), natural_key(summary.folder)
    return (not summary.default, study, natural_key(summary.device), summary.place, name)


def _first(found: list[LadderSummary]) -> tuple[LadderSummary, ...]:
    """For each device the ladder that most versions were profiled on, the first one of equals."""
    best: dict[str, LadderSummary] = {}
    for summary in found:
        known = best.get(summary.device)
        if known is None or summary.profiled > known.profiled:
            best[summary.device] = summary
    return tuple(best.values())


def _others(found: list[LadderSummary]) -> tuple[OtherLadder, ...]:
    shown = {summary.href for summary in _first(found)}
    rest = [summary for summary in found if summary.href not in shown]
    top = max([1.0, *(summary.fastest_speed for summary in rest)])
    return tuple(
        OtherLadder(
            summary=summary,
            width=width(summary.fastest_speed / top),
            par=width(1 / top) if top > 1.0 else "",
        )
        for summary in rest
    )
